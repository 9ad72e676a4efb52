import pytest

from planbench.tools import ToolRegistry
from planbench.validation import check_plan

HEAD = "name: p\nobjective: o\nnodes:\n"
LISTING = """\
  - id: listing
    tool: list_reports
    facets: {counts: {n: "reports[]"}}
"""


def test_without_a_registry_that_is_said_and_nothing_else(check, node):
    report = check(HEAD + node("id: a", "tool: nobody", "args: {x: 1}"), registry=None)

    assert report.ok
    assert [(i.code, i.severity) for i in report.issues] == [("no_registry", "warning")]


def test_an_unknown_tool_names_a_near_one_that_is_allowed(one, node):
    text = HEAD + node("id: a", "tool: fetsh")

    assert one(text).fix == "did you mean 'fetch'?"
    assert one(text, allowed_tools=["list_*"]).fix == "registered: list_reports"
    assert "add the module" in one(text, registry=ToolRegistry()).fix


def test_a_tool_that_is_not_allowed_is_told_with_those_that_are(told, one, node):
    issue = one(
        HEAD + node("id: a", "tool: fetch", "args: {key: x}"),
        allowed_tools=["list_*", "strict"],
    )

    assert (issue.code, issue.line, issue.column) == ("tool_not_allowed", 5, 11)
    assert issue.fix == "allowed: list_*, strict"
    unchecked = told(HEAD + node("id: a", "tool: x"), registry=None, allowed_tools=["y"])
    assert [code for code, *_ in unchecked] == ["no_registry", "tool_not_allowed"]


def test_arguments_are_checked_each_at_its_own_place(told, node):
    text = HEAD + node(
        "id: a",
        "tool: fetch",
        "args:",
        "  kye: x",
        "  limit: many",
        "  filters:",
        "    - {field: x}",
        "    - {field: x, limit: 1, zz: 2}",
    )

    assert told(text) == [
        ("missing_args", "a", 7, 7),
        ("unknown_args", "a", 7, 7),
        ("bad_arg_type", "a", 8, 14),
        ("bad_arg_type", "a", 10, 11),
        ("bad_arg_type", "a", 11, 36),
    ]


def test_a_node_without_args_misses_them_at_its_own_place(told, node):
    assert told(HEAD + node("id: a", "tool: fetch")) == [("missing_args", "a", 4, 5)]


def test_a_placeholder_alone_may_be_anything(told, node):
    text = (
        HEAD
        + LISTING
        + node(
            "id: a",
            "tool: fetch",
            'args: {key: "{artifacts.listing}", filters: "{nodes.listing.output}", limit: "{params.n}"}',
            "depends_on: [listing]",
        )
    )

    assert told(text) == []


def test_a_placeholder_in_a_text_is_a_text_of_unknown_content(told, one, node):
    args = "args: {mode: '{params.x}a', n: '1{params.x}'}"

    issue = one(HEAD + node("id: a", "tool: strict", args))
    assert (issue.code, issue.column) == ("bad_arg_type", 36)  # a text is no number
    assert told(HEAD + node("id: a", "tool: strict", "args: {mode: x}")) == [
        ("bad_arg_type", "a", 6, 18)
    ]


def test_an_item_without_a_for_each_is_the_text_as_written(told, node):
    text = HEAD + node("id: a", "tool: fetch", "args: {key: '{item}', limit: '{index}'}")

    assert told(text) == [
        ("literal_item_variable", "a", 6, 17),
        ("literal_item_variable", "a", 6, 34),
        ("bad_arg_type", "a", 6, 34),
    ]


def test_texts_that_older_yaml_takes_for_values_reach_the_tool_as_text(check, told, node):
    for word in ("no", "on", "0123", "1e3", "1.10", "12:30", "2024-01-01", ".nan"):
        report = check(HEAD + node("id: a", "tool: fetch", f"args: {{key: {word}}}"))
        assert report.ok, report
        assert report.plan.nodes[0].args == {"key": word}
    assert (
        told(HEAD + node("id: a", "tool: fetch", "args: {key: x, limit: .nan}"))[0][0]
        == "bad_arg_type"
    )


def test_retries_of_a_tool_that_writes_are_a_warning_unless_it_is_idempotent(
    check, told, one, node
):
    def text(tool):
        return HEAD + node("id: a", f"tool: {tool}", "args: {path: x}", "retry: {max_attempts: 3}")

    issue = one(text("write"))
    assert (issue.code, issue.severity, issue.line, issue.column) == (
        "retry_on_unsafe_tool",
        "warning",
        7,
        27,
    )
    assert check(text("write")).ok
    assert told(text("write_once")) == []


def test_a_fan_out_wider_than_the_plan_is_a_warning(told, one, node):
    def text(*each):
        fan_out = node(
            "id: a", "tool: fetch", "args: {key: '{item}'}", "depends_on: [listing]", *each
        )
        return HEAD + LISTING + fan_out + "metadata: {max_parallel_tasks: 4}\n"

    written = "for_each: {source: '{artifacts.listing}', select: 'reports[]', max_concurrency: 5}"
    assert one(text(written)).code == "concurrency_above_flow_cap"
    assert told(text(written.replace(", max_concurrency: 5", ""))) == []


def test_the_tools_of_a_delegate_are_looked_up_and_must_be_allowed(check, told, node):
    text = HEAD + node(
        "id: a",
        "type: delegate",
        "instruction: do",
        "tools: [fetch, fetsh, 'list_*', 'zz*', write]",
    )

    assert told(text, allowed_tools=["fetch", "list_*"]) == [
        ("unknown_tool", "a", 7, 20),
        ("unknown_tool", "a", 7, 37),
        ("tool_not_allowed", "a", 7, 44),
    ]
    assert check(HEAD + node("id: a", "type: delegate", "instruction: do")).ok


def test_an_instruction_reads_only_nodes_that_the_delegate_waits_for(told, node):
    lines = ["type: delegate", "instruction: 'of {artifacts.listing}, {nodes.listing.output}'"]
    text = HEAD + LISTING + node("id: a", *lines, "depends_on: []")

    assert [issue[0] for issue in told(text)] == ["undeclared_reference"]
    assert told(text.replace("depends_on: []", "depends_on: [listing]")) == []


def test_tools_that_hold_a_parameter_are_not_known_yet(told, node):
    assert told(HEAD + node("id: a", "tool: '{params.t}'")) == []


SECRET = (
    HEAD
    + """\
  - id: a
    tool: fetch
    args: {key: 'Bearer {env.TOKEN}'}
"""
)


def test_a_secret_goes_only_to_the_tools_that_the_host_names(told):
    assert told(SECRET) == [("env_not_allowed", "a", 6, 17)]
    assert told(SECRET, env={"TOKEN": ["list_*"]}) == [("env_not_allowed", "a", 6, 17)]
    assert told(SECRET, env={"OTHER": ["fetch"]}) == [("env_not_allowed", "a", 6, 17)]
    assert told(SECRET, env={"TOKEN": ["fet*"]}) == []


def test_a_secret_stands_in_args_only(told, node):
    text = HEAD + node(
        "id: a",
        "tool: list_reports",
        "store_as: k_{env.TOKEN}",
        "when: ctx.errors == {env.TOKEN}",
    )

    codes = [code for code, *_ in told(text, env={"TOKEN": ["*"]})]
    assert codes == ["env_not_allowed", "env_not_allowed", "bad_guard"]


@pytest.mark.parametrize("field", ["store_as", "when", "instruction"])
def test_a_secret_in_double_braces_is_the_text_that_it_is(field):
    def report(text):
        kind = (
            {"type": "delegate"}
            if field == "instruction"
            else {"tool": "fetch", "args": {"key": "k"}}
        )
        return check_plan(
            {"name": "p", "objective": "o", "nodes": [{"id": "a", **kind, field: text}]}
        )

    text = '"{{env.HOME}}" != ""' if field == "when" else "k{{env.HOME}}"
    assert report(text).ok
    assert "env_not_allowed" in [
        i.code for i in report(text.replace("{{", "{").replace("}}", "}")).issues
    ]


@pytest.mark.parametrize("field", ["store_as", "when"])
def test_a_value_that_looks_like_a_secret_is_none(field):
    written = "'{params.v}' != ''" if field == "when" else "k{params.v}"
    node = {"id": "a", "tool": "fetch", "args": {"key": "{params.v}"}, field: written}
    record = {"name": "p", "objective": "o", "nodes": [node]}

    assert check_plan(record, params={"v": "{env.HOME}"}).ok


def test_what_is_in_double_braces_is_no_parameter_that_a_check_would_wait_for(told, node):
    text = HEAD + node("id: a", 'tool: "{{params.x}}"')
    text += node("id: b", "tool: list_reports", "when: '\"{{params.x}}\"'")

    assert [code for code, *_ in told(text)] == ["unknown_tool", "bad_guard"]
