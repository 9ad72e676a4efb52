import pytest

from planbench.plan.document import Mark, read_document


def shown(text):
    """The value, and each problem as code, line, column and fix."""
    document = read_document(text)
    found = [(p.code, p.line, p.column, p.fix) for p in document.problems]
    return document.value, found


@pytest.mark.parametrize(
    ("line", "value", "column", "mended"),
    [
        ("q: {artifacts.rows}", "{artifacts.rows}", 4, 'q: "{artifacts.rows}"'),
        ("q: {item}", "{item}", 4, 'q: "{item}"'),
        ("q: { index }", "{index}", 4, 'q: "{index}"'),
        ("q: {nodes.a.output}", "{nodes.a.output}", 4, 'q: "{nodes.a.output}"'),
        ("k: {item.name}_x", "{item.name}_x", 4, 'k: "{item.name}_x"'),
        (
            "k: {item.name} and more # why",
            "{item.name} and more",
            4,
            'k: "{item.name} and more" # why',
        ),
        ('k: {item.a} "quoted"', '{item.a} "quoted"', 4, "k: '{item.a} \"quoted\"'"),
        ("k: {params.a} > it's", "{params.a} > it's", 4, 'k: "{params.a} > it\'s"'),
        ("w: !ctx.status.a", "!ctx.status.a", 4, 'w: "!ctx.status.a"'),
        ("w: !(ctx.errors > 0) # so", "!(ctx.errors > 0)", 4, 'w: "!(ctx.errors > 0)" # so'),
        (
            'w: !ctx.artifacts["a-b"].c',
            '!ctx.artifacts["a-b"].c',
            4,
            "w: '!ctx.artifacts[\"a-b\"].c'",
        ),
        ("w: ! ctx.a", "! ctx.a", 4, 'w: "! ctx.a"'),
        ("p: [].severity", "[].severity", 4, 'p: "[].severity"'),
        ("p: [0].id", "[0].id", 4, 'p: "[0].id"'),
    ],
)
def test_what_the_author_meant_is_read_and_the_mended_line_is_given(line, value, column, mended):
    document = read_document(f"first: 1\n{line}\nlast: 2\n")

    key = line[0]
    assert document.value == {"first": 1, key: value, "last": 2}
    assert [(p.code, p.line, p.column, p.fix) for p in document.problems] == [
        ("unquoted_placeholder", 2, column, mended)
    ]
    assert document.mark((key,)) == Mark(2, column)
    assert document.mark(("last",)) == Mark(3, 7)


@pytest.mark.parametrize(
    ("written", "column", "mended"),
    [
        ("q: {{artifacts.rows}}", 4, 'q: "{artifacts.rows}"'),
        ("q: {{ artifacts.rows }}", 4, 'q: "{artifacts.rows}"'),
        ("q: {{{artifacts.rows}}}", 4, 'q: "{artifacts.rows}"'),
        ('q: {"{artifacts.rows}"}', 4, 'q: "{artifacts.rows}"'),
        ("q: {'{artifacts.rows}': }", 4, 'q: "{artifacts.rows}"'),
        ("q: {? {artifacts.rows}}", 4, 'q: "{artifacts.rows}"'),
        ("q: &a {{artifacts.rows}}", 7, 'q: &a "{artifacts.rows}"'),
        ("q: &a {artifacts.rows}", 7, 'q: &a "{artifacts.rows}"'),
        ("q:\n  {artifacts.rows}:", 3, '"{artifacts.rows}"'),
        ("q:\n  '{artifacts.rows}':", 3, '"{artifacts.rows}"'),
        ("q:\n  ? {artifacts.rows}", 3, '"{artifacts.rows}"'),
    ],
)
def test_a_placeholder_that_is_a_key_without_a_value_is_meant_as_the_value(written, column, mended):
    value, found = shown(f"first: 1\n{written}\nlast: 2\n")

    assert value == {"first": 1, "q": "{artifacts.rows}", "last": 2}
    line = 2 + written.count("\n")
    assert found == [("unquoted_placeholder", line, column, mended)]
    again, left = shown(
        "\n".join(["first: 1", *written.split("\n")[:-1], f"  {mended}", "last: 2"])
    )
    if "\n" in written:
        assert (again, left) == (value, [])


def test_the_mended_line_of_doubled_braces_has_single_ones():
    for line in ("k: {{item.name}}_x", "k: {{item.name}} and {{ item.id }}", "k: {{item.name}}: x"):
        fix = read_document(line).problems[0].fix

        assert "{{" not in fix
        assert read_document(fix).problems == []


@pytest.mark.parametrize("text", ["q: {{word}}", "q: {{a: }: }", "q: {? {word} : 1}"])
def test_a_map_that_is_a_key_is_told_as_an_unquoted_placeholder(text):
    assert [code for code, *_ in shown(text)[1]] == ["unquoted_placeholder"]


@pytest.mark.parametrize("value", ["null", "1", "[]"])
def test_a_placeholder_is_a_key_where_it_has_a_value(value):
    assert shown(f'q: {{"{{artifacts.rows}}": {value}}}')[1] == []


def test_the_mended_line_reads_without_a_problem():
    for line in (
        "k: {item.name}_x",
        'k: {item.a} "b"',
        'w: !ctx["a"]',
        "c: {n: r[], m: x[].y}",
    ):
        document = read_document(line)
        again = read_document(document.problems[0].fix)

        assert again.problems == []
        assert again.value == document.value


def test_in_a_flow_map_each_is_told_with_its_own_place():
    text = "facets: {counts: {n: reports[], m: x[0].y[]}, paths: {k: {item.id}_x y, s: plain}}"
    value, found = shown(text)

    fix = 'facets: {counts: {n: "reports[]", m: "x[0].y[]"}, paths: {k: "{item.id}_x y", s: plain}}'
    assert value == {
        "facets": {
            "counts": {"n": "reports[]", "m": "x[0].y[]"},
            "paths": {"k": "{item.id}_x y", "s": "plain"},
        }
    }
    assert found == [
        ("unquoted_placeholder", 1, 22, fix),
        ("unquoted_placeholder", 1, 36, fix),
        ("unquoted_placeholder", 1, 58, fix),
    ]


def test_places_after_a_mended_text_are_those_of_the_text_as_written():
    document = read_document('k: {a: {item}_x, b: 1, c: {item.x} "no"}'.replace(' "no"', "_z"))

    assert document.value == {"k": {"a": "{item}_x", "b": 1, "c": "{item.x}_z"}}
    assert document.mark(("k", "b")) == Mark(1, 21)
    assert document.key_mark(("k", "c")) == Mark(1, 24)
    assert document.mark(("k", "c")) == Mark(1, 27)


def test_a_one_word_map_is_a_placeholder_where_items_are_called_so():
    text = "for_each: {as: rep}\nq: {rep}\nr: {other}\ns: [{rep}]\n"
    value, found = shown(text)

    assert value == {
        "for_each": {"as": "rep"},
        "q": "{rep}",
        "r": {"other": None},
        "s": ["{rep}"],
    }
    assert [problem[1:3] for problem in found] == [(2, 4), (4, 5)]


@pytest.mark.parametrize(
    "text", ["q: {a: null}", "q: {artifacts.x: 1}", "q: {item, index}", "q: {}", "q: {item: }"]
)
def test_a_map_that_is_meant_as_one_stays_one(text):
    document = read_document(text)

    assert document.problems == []
    assert isinstance(document.value["q"], dict)


def test_in_json_too():
    value, found = shown('{"a": {artifacts.x}, "b": 2}')

    assert value == {"a": "{artifacts.x}", "b": 2}
    assert found == [("unquoted_placeholder", 1, 7, '{"a": "{artifacts.x}", "b": 2}')]


def test_a_placeholder_as_a_key_is_text():
    value, found = shown("{item}: x")

    assert value == {"{item}": "x"}
    assert found[0][:3] == ("unquoted_placeholder", 1, 1)


def test_inside_a_block_of_text_nothing_is_unquoted():
    text = "t: |\n  k: {item.name}_x\n  w: !x\n  a: b: c\n"

    assert shown(text) == ({"t": "k: {item.name}_x\nw: !x\na: b: c\n"}, [])
