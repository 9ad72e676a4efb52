"""What was seen of a tool's results on earlier calls, and tools that give None."""

from __future__ import annotations

from typing import TypedDict

import pandas as pd
import pytest

from planbench.tools import Tool, ToolRegistry
from planbench.validation import check_plan

HEAD = "name: p\nobjective: o\nnodes:\n"


class Page(TypedDict):
    rows: list[dict]


def unsaid(x=None):
    return x


def some_map(x=None) -> dict:
    return {}


def page(x=None) -> Page:
    return {"rows": []}


def write(path: str = "") -> None:
    """Write."""


@pytest.fixture
def registry():
    given = Tool.from_schema("given", "", {"type": "object"}, unsaid, {"type": "null"})
    return ToolRegistry([unsaid, some_map, page, write, given])


@pytest.fixture
def told(registry):
    def found(*nodes):
        text = HEAD + "".join(f"  - {{{node}}}\n" for node in nodes)
        return [(i.severity, i.code, i.node_id, i.line) for i in check_plan(text, registry).issues]

    return found


def seen(registry, name, *values):
    for value in values:
        registry.observe(registry.get_tool(name), value)


WARNED = ("warning", "unknown_output_field")


@pytest.mark.parametrize("tool", ["unsaid", "some_map"])
def test_a_field_that_no_earlier_call_gave_is_a_warning(registry, told, tool):
    nodes = [
        f"id: a, tool: {tool}, facets: {{n: 'count(rows[])', who: owner.nme, all: 'count(items[].x)'}}",
        "id: b, tool: unsaid, for_each: 'a.rows[]'",
    ]
    assert told(*nodes) == []

    seen(registry, tool, {"row": [], "owner": {"name": "x"}, "items": []})
    assert told(*nodes) == [(*WARNED, "a", 4), (*WARNED, "a", 4), (*WARNED, "b", 5)]
    (first, *_) = check_plan(HEAD + f"  - {{{nodes[0]}}}\n", registry).issues
    assert first.message == f"what tool {tool!r} has returned so far has no field 'rows'"
    assert first.fix == "did you mean 'row'?"

    seen(registry, tool, {"rows": [{"y": 1}], "owner": {"nme": "x"}})
    assert [found for found in told(*nodes) if found[2] == "b"] == []


def test_what_a_tool_declares_is_held_to_and_not_what_was_seen(registry, told):
    seen(registry, "page", {"rows": [], "other": 1})

    assert told("id: a, tool: page, facets: {n: 'count(rows[])'}") == []
    assert told("id: a, tool: page, facets: {n: other}") == [
        ("error", "unknown_output_field", "a", 4)
    ]
    # inside of what it leaves open, what was seen counts
    seen(registry, "page", {"rows": [{"id": 1}]})
    assert told("id: a, tool: page, facets: {n: 'count(rows[].idd)'}") == [(*WARNED, "a", 4)]


def test_a_fan_out_over_what_was_no_list_is_a_warning(registry, told):
    seen(registry, "unsaid", {"rows": [1]})

    assert told("id: a, tool: unsaid", "id: b, tool: unsaid, for_each: a") == [
        ("warning", "select_not_a_list", "b", 5)
    ]
    assert told("id: a, tool: unsaid", "id: b, tool: unsaid, for_each: a.rows") == []


def test_a_table_has_its_columns_with_brackets_and_without(registry, told):
    seen(registry, "unsaid", pd.DataFrame({"size": [1]}))

    def facet(path):
        return told(f"id: a, tool: unsaid, facets: {{n: '{path}'}}")

    assert facet("size") == facet("count([])") == facet("groups([].size)") == []
    assert facet("groups([].sise)") == facet("count(sise[])") == [(*WARNED, "a", 4)]


def test_a_result_of_a_fan_out_is_a_list_of_what_its_calls_gave(registry, told):
    seen(registry, "unsaid", {"rows": [1]})
    nodes = ["id: a, tool: page", "id: b, tool: unsaid, for_each: 'a.rows[]'"]

    assert told(*nodes, "id: c, tool: unsaid, for_each: b") == []
    assert told(*nodes, "id: c, tool: unsaid, for_each: 'b[].rows[]'") == []
    assert told(*nodes, "id: c, tool: unsaid, for_each: 'b[].rowz[]'") == [(*WARNED, "c", 6)]


def test_a_tool_whose_code_changed_was_not_seen_yet(registry, told):
    seen(registry, "unsaid", {"rows": [1]})

    def changed(x=None):
        return [x]

    registry.register(Tool.from_function(changed, name="unsaid"))
    assert told("id: a, tool: unsaid, facets: {n: other}") == []


@pytest.mark.parametrize("tool", ["write", "given"])
def test_a_result_that_is_declared_to_be_none_and_read_is_a_warning(told, tool):
    none = ("warning", "reads_none")
    assert told(
        f"id: a, tool: {tool}",
        "id: b, tool: unsaid, args: {x: ['{artifacts.a}', 'and {artifacts.a}']}",
        "id: c, tool: unsaid, for_each: a",
        "id: d, tool: unsaid, for_each: 'a.rows[]'",
    ) == [(*none, "b", 5), (*none, "c", 6), (*none, "d", 7)]


def test_a_result_of_none_that_is_only_waited_for_is_fine(told):
    assert (
        told(
            "id: a, tool: write",
            "id: b, tool: unsaid, depends_on: [a]",
            "id: c, tool: unsaid, args: {x: '{nodes.a.output}'}",
            "id: d, tool: unsaid, when: a.status == 'ok'",
        )
        == []
    )


def test_the_tool_and_the_node_that_give_none_are_named(registry):
    text = HEAD + "  - {id: a, tool: write, facets: {n: size}}\n"
    text += "  - {id: b, tool: unsaid, args: {x: 'as {artifacts.a}'}}\n"
    first, second = check_plan(text, registry).issues

    tool = "tool 'write' of node 'a' is declared to return None: does it lack a return?"
    assert first.message == f"facets are read, and {tool}"
    assert second.message == f"{{artifacts.a}} is read, and {tool}"
    assert (first.line, first.column, second.line, second.column) == (4, 34, 5, 37)


def test_a_tool_that_gave_none_at_each_call_so_far_is_a_warning(registry, told):
    nodes = ["id: a, tool: unsaid, facets: {n: size}", "id: b, tool: unsaid, for_each: a"]
    seen(registry, "unsaid", None)

    assert told(*nodes) == [("warning", "reads_none", "a", 4), ("warning", "reads_none", "b", 5)]
    seen(registry, "unsaid", [{"size": 1}])
    assert [code for _, code, *_ in told(*nodes)] != ["reads_none", "reads_none"]
