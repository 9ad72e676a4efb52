import pytest

HEAD = "name: p\nobjective: o\nnodes:\n"
LISTING = """\
  - id: listing
    tool: list_reports
    facets: {counts: {n: "reports[]"}}
"""


@pytest.fixture
def guard(told, node):
    def guarded(text, *needs):
        depends = f"depends_on: [{', '.join(needs)}]"
        return told(HEAD + LISTING + node("id: g", "tool: list_reports", depends, f"when: {text}"))

    return guarded


@pytest.mark.parametrize(
    "text",
    [
        "ctx.artifacts.listing.n > 0",
        "ctx.artifacts.listing.count > 0 && ctx.artifacts.listing.bytes < 9 && ctx.artifacts.listing.items_failed == 0",
        'ctx.status.listing == "ok"',
        "ctx.errors == 0",
        "ctx.errors > {params.n}",
    ],
)
def test_a_guard_on_what_has_ended_is_fine(guard, text):
    assert guard(text, "listing") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ctx.artifacts.listin.n > 0", "guard_unknown_node"),
        ("ctx.status.zzz == 'ok'", "guard_unknown_node"),
        ("ctx.artifacts.listing.m > 0", "guard_unknown_facet"),
        ("ctx.artifacts.g.count > 0", "guard_not_upstream"),
        ("ctx.errors and True", "bad_guard"),
        ("1 +", "bad_guard"),
    ],
)
def test_what_a_guard_cannot_read_is_told_at_the_guard(guard, text, code):
    assert guard(text, "listing") == [(code, "g", 10, 11)]


@pytest.mark.parametrize(
    "text",
    [
        "size(a.ids) > 0",
        "size(a.ids) == 2",
        "'x' in a.ids",
        "a.ids[0] == 'x'",
        "a.ids.exists(i, i == 'x')",
        "a.ids != ''",
        "ctx.artifacts['a']['ids'].size() > 0",
        "has(a.ids)",
    ],
)
@pytest.mark.parametrize(
    "each", ["", ", for_each: {source: '{artifacts.s}', select: 'reports[]'}, depends_on: [s]"]
)
def test_a_guard_on_a_path_that_gives_a_list_is_told_to_count_it(check, text, each):
    report = check(
        f"{HEAD}  - {{id: s, tool: list_reports}}\n"
        f"  - {{id: a, tool: list_reports, facets: {{ids: 'reports[].id', n: total}}{each}}}\n"
        f'  - {{id: g, tool: list_reports, depends_on: [a], when: "{text}"}}\n'
    )

    assert [(issue.code, issue.node_id) for issue in report.issues] == [("bad_guard", "g")]
    assert report.issues[0].fix == (
        "count the path: the facet `n_ids: count(reports[])` and the guard "
        "`ctx.artifacts.a.n_ids > 0`; `ids: groups(reports[].id)` counts by value"
    )


def test_the_list_that_a_fan_out_has_of_a_facet_is_not_compared_with_a_plain_value(check):
    def told(text):
        report = check(
            f"{HEAD}  - {{id: s, tool: list_reports}}\n"
            "  - {id: a, tool: list_reports, for_each: {source: '{artifacts.s}', select: 'reports[]'}, facets: {n: total}}\n"
            f'  - {{id: g, tool: list_reports, depends_on: [a], when: "{text}"}}\n'
        )
        return [(issue.code, issue.fix) for issue in report.issues]

    fix = "write `value in ctx.artifacts.a.n`, or `ctx.artifacts.a.n.all(x, x == value)`"
    assert told("a.n == 3") == told("a.n > 3") == [("bad_guard", fix)]
    assert told("3 in a.n && a.n.all(x, x > 1) && size(a.n) > 0 && a.count == 2") == []


@pytest.mark.parametrize(
    ("written", "codes"), [('""', ["bad_guard"]), ('" "', ["bad_guard"]), ("null", []), ("", [])]
)
def test_an_empty_guard_is_refused_and_none_is_no_guard(check, written, codes):
    report = check(f"{HEAD}  - {{id: a, tool: list_reports, when: {written}}}\n")

    assert [issue.code for issue in report.issues] == codes
    if codes:
        assert report.issues[0].fix == "write the guard or leave `when` out"


def test_a_guard_on_a_node_that_may_still_run_is_told_with_the_mending(one, node):
    guarded = ["id: g", "tool: list_reports", "depends_on: []", "when: ctx.status.listing == 'ok'"]
    text = HEAD + LISTING + node(*guarded)

    assert one(text).code == "guard_not_upstream"
    assert one(text).fix == "add listing to depends_on"


def test_upstream_may_be_far_away(told, node):
    nodes = [node("id: n0", "tool: list_reports")]
    nodes += [
        node(
            f"id: n{i}",
            "tool: list_reports",
            f"depends_on: [n{i - 1}]",
            "when: ctx.status.n0 == 'ok'",
        )
        for i in range(1, 300)
    ]

    assert told(HEAD + "".join(reversed(nodes))) == []


def test_an_id_with_a_hyphen_has_its_own_form(check, told, node):
    text = (
        HEAD
        + node("id: my-id", "tool: list_reports")
        + node(
            "id: g",
            "tool: list_reports",
            "depends_on: [my-id]",
            "when: ctx.artifacts.my-id.count > 0",
        )
    )

    issue = check(text).issues[0]
    assert issue.code in ("bad_guard", "guard_unknown_node")
    assert 'ctx.artifacts["my-id"]' in f"{issue.message} {issue.fix}"
    assert told(text.replace(".my-id.count", '["my-id"].count')) == []
