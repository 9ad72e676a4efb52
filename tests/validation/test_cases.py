"""Cases from public bug reports; the numbers are those of the list of cases."""

from pathlib import Path

import orjson
import pytest

from planbench.plan.model import ExecutionPlan, PlanNode

HEAD = "name: p\nobjective: o\nnodes:\n"


"""Numbers are those of the list of cases."""


@pytest.mark.parametrize("bad", ["a:b", "urn:x:1", "python:3.7@sha256:e8"])
def test_14_a_colon_in_an_id_is_refused_with_the_reason(one, node, bad):
    issue = one(HEAD + node(f'id: "{bad}"', "tool: list_reports"))

    assert issue.code == "bad_id"
    assert "letters, digits, _ and -" in issue.message


def test_22_words_of_older_yaml_stay_text_as_values_and_as_keys(check, node):
    report = check(
        HEAD + node("id: a", "tool: x", "args: {country: no, on: push, flag: yes}"),
        registry=None,
    )

    assert report.plan.nodes[0].args == {"country": "no", "on": "push", "flag": "yes"}


def test_23_a_key_that_stands_twice_is_an_error_with_both_lines(check, node):
    for text in (
        HEAD + node("id: a", "tool: list_reports", "args: {}", "args: {}"),
        '{"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "list_reports",\n"args": {},\n"args": {}}]}',
    ):
        (issue,) = check(text).issues
        assert (issue.code, issue.node_id) == ("duplicate_key", "a")
        assert f"on lines {issue.line - 1} and {issue.line}" in issue.message


def test_24_dates_and_numbers_as_written_survive_yaml_model_yaml(check, node):
    args = "args: {day: 2024-01-01, at: 12:30, zip: 0123, ver: 1.10, sha: 1e3, x: .nan}"
    plan = check(HEAD + node("id: a", "tool: t", args), registry=None).plan

    again = check(plan.to_yaml(), registry=None).plan
    assert again == plan
    assert again.to_yaml() == plan.to_yaml()
    assert again.nodes[0].args["at"] == "12:30"


def test_28_braces_in_data_break_no_message(check):
    report = check('name: "{x} {} }"\nobjective: "{0} {"\nnodes: [{id: "{}", tool: "{x}"}]')

    assert {issue.code for issue in report.issues} == {"bad_id", "unknown_tool"}
    assert "{x}" in str(report)


@pytest.mark.parametrize("line", ["key: {artifacts.listing}", "key: {item}", "key: {item.name}_x"])
def test_30_an_unquoted_placeholder_is_told_and_never_a_map(check, node, line):
    text = HEAD + node("id: a", "tool: fetch", "args:", f"  {line}")
    found = [issue for issue in check(text).issues if issue.code == "unquoted_placeholder"]

    assert [(i.node_id, i.line, i.column, i.fix) for i in found] == [
        ("a", 7, 12, f'key: "{line[5:]}"')
    ]


def test_41_deep_args_and_long_chains_are_answered(check, node):
    deep = "[" * 2000 + "]" * 2000
    report = check(HEAD + node("id: a", "tool: fetch", f"args: {{key: {deep}}}"))
    assert [issue.code for issue in report.issues] == ["yaml_syntax"]
    chain = "".join(
        node(f"id: n{i}", "tool: list_reports", f"depends_on: [{f'n{i - 1}' if i else ''}]")
        for i in reversed(range(5000))
    )
    assert check(HEAD + chain).ok


SHARED = Path(__file__).parents[3] / "shared" / "data" / "workflows"


def workflows():
    return sorted(path for path in SHARED.glob("*/*.json") if path.name != "index.json")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the larger data sets are not here")
@pytest.mark.parametrize(
    "path", workflows() or [None], ids=lambda path: path.stem if path else "none"
)
def test_real_workflows_load_and_check(check, path):
    workflow = orjson.loads(path.read_bytes())
    ids = {task["id"]: task["id"].replace(".", "_") for task in workflow["tasks"]}
    nodes = [
        PlanNode(
            id=ids[task["id"]],
            tool="list_reports",
            depends_on=[ids[one] for one in task["parents"]],
        )
        for task in workflow["tasks"]
    ]
    plan = ExecutionPlan(name=workflow["name"], objective="run it", nodes=nodes)

    report = check(plan.to_yaml())

    assert report.issues == []
    assert report.plan == plan
    assert len(report.plan.nodes) == workflow["n_tasks"]
    assert sum(len(node.depends_on) for node in report.plan.nodes) == workflow["n_edges"]
