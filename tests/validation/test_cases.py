"""Cases from public bug reports; the numbers are those of the list of cases."""

import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import orjson
import pytest
from pydantic import BaseModel, Field

from planbench.errors import GuardError, ToolError
from planbench.plan.guards import compile_guard
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.plan.placeholders import Scope, Template
from planbench.tools import ToolRegistry

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


def test_23_ids_as_keys_that_stand_twice_are_an_error_with_both_lines(check):
    text = "name: p\nobjective: o\nnodes:\n  a: {tool: list_reports}\n  a: {tool: list_reports}\n"
    told = check(text).issues

    assert [(i.code, i.line) for i in told] == [("bad_field", 4), ("duplicate_key", 5)]
    assert "on lines 4 and 5" in told[1].message


def test_24_what_stays_text_is_told_where_a_number_is_wanted(one, node):
    for written in ("1.10", "1e3", "12:30", ".nan", "2024-01-01"):
        issue = one(
            HEAD + node("id: a", "tool: fetch", f"args: {{key: {written}, limit: {written}}}")
        )
        assert (issue.code, issue.line) == ("bad_arg_type", 6)
        assert "args.limit should be a valid integer" in issue.message


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


def test_29_one_pass_over_a_text_and_names_read_whole():
    results = {"a": "text with {artifacts.b}", "b": "SECRET", "none": None, "zero": 0, "no": False}
    scope = Scope(results.__getitem__, lambda name: {"node_id": name})
    args = {
        "text": "{artifacts.a} {artifacts.b}",
        "ref": "{nodes.n1.output}",
        "refs": "{nodes.n10.output}",
        "as they are": ["{artifacts.none}", "{artifacts.zero}", "{artifacts.no}"],
        "in text": "{artifacts.none}|{artifacts.zero}|{artifacts.no}",
    }

    assert Template(args).resolve(scope) == {
        "text": "text with {artifacts.b} SECRET",
        "ref": {"node_id": "n1"},
        "refs": {"node_id": "n10"},
        "as they are": [None, 0, False],
        "in text": "null|0|false",
    }


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


class Inner(BaseModel):
    x: int
    tags: list[str] = Field(default_factory=list)


def many(
    *,
    maybe: int | None = None,
    either: int | str = 0,
    mode: Literal["a", "b"] = "a",
    inner: Inner | None = None,
    noted: Annotated[int, "a note"] = 1,
    bare=None,
    **more,
):
    return [maybe, either, mode, inner, noted, bare, more]


def test_49_every_kind_of_parameter_has_a_schema_and_is_checked(check, node):
    registry = ToolRegistry([many])

    def codes(args):
        text = HEAD + node("id: a", "tool: many", f"args: {{{args}}}")
        return [(i.code, i.column) for i in check(text, registry=registry).issues]

    right = (
        "maybe: null, either: x, mode: b, inner: {x: 1, tags: [y]}, noted: 2, bare: [1], other: {}"
    )
    assert codes(right) == []
    assert codes("") == []
    assert codes("mode: c") == [("bad_arg_type", 18)]
    assert codes("inner: {x: y}") == [("bad_arg_type", 23)]
    assert codes("maybe: [1]") == [("bad_arg_type", 19)]
    parameters = registry.get_tool("many").parameters
    assert parameters["additionalProperties"] is not False

    def listed(*numbers): ...

    with pytest.raises(ToolError, match="takes \\*numbers, and a plan passes arguments by name"):
        ToolRegistry([listed])


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ("ctx.errors > 0 and true", "write && for and"),
        ("ctx.artifacts.a.x == True", "write true for True"),
        ("len(ctx.artifacts.a.x) > 1", "write size(x) for len"),
        ('"true"', "a guard must give true or false"),
        ("1", "a guard must give true or false"),
        ('{"s": 1 / 0}', "a guard must give true or false"),
        ("(" * 120 + "true" + ")" * 120, "nested too deeply"),
        (" + ".join(["ctx.errors"] * 400) + " == 400", "nested too deeply"),
        ("ctx.artifacts.b.x > 1", "no node has that id"),
        ("ctx.artifacts.a.y > 1", "does not have"),
    ],
    ids=lambda text: text[:30],
)
def test_53_a_guard_that_cannot_be_right_is_told_when_the_plan_is_checked(
    check, node, guard, words
):
    nodes = node("id: a", "tool: list_reports", "facets: {paths: {x: total}}")
    text = HEAD + nodes + node("id: g", "tool: list_reports", "depends_on: [a]", f"when: '{guard}'")
    (issue,) = check(text).issues

    assert (issue.severity, issue.node_id, issue.line) == ("error", "g", 10)
    assert words in f"{issue.message} {issue.fix}"


@pytest.mark.parametrize(
    ("guard", "value", "answer"),
    [
        ("ctx.artifacts.a.x > 0.5", 1, True),
        ("ctx.artifacts.a.x == null", None, True),
        ("ctx.artifacts.a.x > 0", np.int64(3), True),
        ("ctx.artifacts.a.x > 0", float("nan"), False),
        ("ctx.artifacts.a.x > 1", 2**63, True),
        (" || ".join(["ctx.artifacts.a.x > 1"] * 400), 1, False),
        ("ctx.artifacts.a.x > 0.5", None, "No matching overloads"),
        ("ctx.artifacts.a.x > 0.5", ..., "has no value"),
        ("ctx.artifacts.a.x", "true", "it gave text"),
        ('ctx.artifacts.a.x["s"]', {"s": 1}, "it gave a number"),
        ("ctx.artifacts.a.x > 1", 2**64, "that a guard cannot read"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_53_a_guard_answers_or_says_why_it_cannot(guard, value, answer):
    compiled = compile_guard(guard)
    values = {} if value is ... else dict.fromkeys(compiled.reads, value)

    if isinstance(answer, bool):
        assert compiled.evaluate(values) is answer
    else:
        with pytest.raises(GuardError, match=re.escape(answer)):
            compiled.evaluate(values)


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
