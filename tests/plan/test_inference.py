from __future__ import annotations

import json

import pytest

from planbench.plan.document import read_document
from planbench.plan.draft import draft

HEAD = "name: p\nobjective: o\nnodes:\n  - {id: a, tool: t, facets: {n: 'count([])'}}\n  - {id: b-1, tool: t}\n"


def drafted(text):
    return draft(read_document(text))


def needs(*lines):
    """What the third node of a plan waits for."""
    tool = [] if "type: delegate" in lines else ["tool: t"]
    made = drafted(HEAD + "  - " + "\n    ".join(["id: c", *tool, *lines]) + "\n")
    assert all(issue.severity == "warning" for issue in made.issues)
    return made.plan.nodes[2].depends_on


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["args: {x: '{artifacts.a}'}"], ["a"]),
        (["args: {x: 'of {nodes.b-1.output} and {artifacts.a}'}"], ["b-1", "a"]),
        (["args: {x: [{y: '{artifacts.a}'}, '{artifacts.a}']}"], ["a"]),
        (["for_each: b-1", "args: {x: '{item}', y: '{artifacts.a}'}"], ["b-1", "a"]),
        (["for_each: {source: ' {artifacts.a} '}"], ["a"]),
        (["when: a.n > 0"], ["a"]),
        (["when: ctx.status['b-1'] == 'ok' && a.n > 0", "args: {x: '{artifacts.a}'}"], ["a", "b-1"]),
        (["when: ctx.errors == 0 && 'ctx.artifacts.a.n' != ''"], []),
        (["args: {x: '{{artifacts.a}} {artifacts.a.n} {params.a} {item.a}'}"], []),
        (["for_each: {source: '{artifacts.b-1}', as: nodes_a}", "args: {x: '{nodes_a}'}"], ["b-1"]),
        (["type: delegate", "instruction: 'of {artifacts.a}, {nodes.b-1.output}'"], ["a", "b-1"]),
        (["args: {'{artifacts.a}': 1}"], []),  # a key is no place for a value
        ([], []),
    ],
)  # fmt: skip
def test_what_a_node_reads_is_what_it_waits_for(lines, expected):
    assert needs(*lines) == expected


def test_a_list_that_is_written_is_held_to_what_it_says():
    text = HEAD + "  - {id: c, tool: t, depends_on: [], args: {x: '{artifacts.a}'}}\n"
    (issue,) = drafted(text).issues

    assert (issue.code, issue.line, issue.fix) == (
        "undeclared_reference",
        6,
        "add a to depends_on",
    )
    assert needs("args: {x: '{artifacts.a}'}", "depends_on: [b-1, a]") == ["b-1", "a"]


def test_the_edges_that_nobody_wrote_are_listed():
    text = HEAD + (
        "  - {id: c, tool: t, args: {x: '{artifacts.a}'}}\n"
        "  - {id: d, tool: t, depends_on: [c]}\n"
        "  - {id: e, tool: t, when: c.count > 0, args: {x: '{nodes.d.output}'}}\n"
    )
    assert drafted(text).inferred == {"c": ["a"], "e": ["d", "c"]}


@pytest.mark.parametrize(
    ("line", "code", "column", "words", "fix"),
    [
        ("args: {x: '{artifacts.aa}'}", "undeclared_reference", 15, "no node has the id 'aa'", "did you mean 'a'?"),
        ("args: {x: '{nodes.zzz.output}'}", "undeclared_reference", 15, "no node has the id", None),
        ("for_each: aa[]", "for_each_not_dependency", 15, "{artifacts.aa} is read", "did you mean 'a'?"),
        ("for_each: {source: '{artifacts.aa}'}", "for_each_not_dependency", 24, "no node", "did you mean 'a'?"),
        ("args: {x: '{artifacts.c}'}", "self_dependency", 15, "the node's own result", "read another node"),
        ("for_each: c", "self_dependency", 15, "the node's own result", "read another node"),
    ],
)  # fmt: skip
def test_a_reference_that_leads_to_no_other_node_is_told_where_it_stands(
    line, code, column, words, fix
):
    (issue,) = drafted(HEAD + f"  - id: c\n    tool: t\n    {line}\n").issues

    assert (issue.code, issue.node_id, issue.line, issue.column, issue.fix) == (
        code, "c", 8, column, fix,
    )  # fmt: skip
    assert words in issue.message


def test_edges_that_are_inferred_can_go_round_in_a_cycle():
    text = "name: p\nobjective: o\nnodes:\n" + "".join(
        f"  - {{id: {node}, tool: t, args: {{x: '{{artifacts.{other}}}'}}}}\n"
        for node, other in (("a", "b"), ("b", "a"))
    )
    (issue,) = drafted(text).issues

    assert (issue.code, issue.line) == ("cycle", 4)
    assert "a -> b -> a" in issue.message


def test_a_broken_node_still_has_its_edges_to_draw():
    made = drafted(HEAD + "  - {id: c, tool: t, timeout: soon, args: {x: '{artifacts.a}'}}\n")

    assert [issue.code for issue in made.issues] == ["bad_field"]
    assert made.partial_plan.nodes[2].depends_on == ["a"]


def test_a_reference_file_without_edges_and_references_stays_without():
    record = {"name": "p", "objective": "o", "nodes": [
        {"id": "a", "tool": "t", "args": {}, "store_as": "a"},
        {"id": "b", "tool": "t", "args": {}, "store_as": "b", "depends_on": []},
    ]}  # fmt: skip
    made = drafted(json.dumps(record))

    assert [node.depends_on for node in made.plan.nodes] == [[], []]
    assert "depends_on" not in made.plan.nodes[0].model_fields_set
    assert made.inferred == {}


def test_a_plan_that_is_a_model_keeps_the_edges_that_it_has():
    plan = drafted(HEAD + "  - {id: c, tool: t, when: a.n > 0}\n").plan
    again = drafted(plan.to_yaml())

    assert again.plan == plan
    assert again.inferred == {}


def test_arguments_that_are_too_deep_are_told_once():
    deep = "[" * 105 + "'{artifacts.a}'" + "]" * 105
    made = drafted(HEAD + f"  - {{id: c, tool: t, args: {{x: {deep}}}}}\n")

    assert [issue.code for issue in made.issues] == ["bad_field"]
