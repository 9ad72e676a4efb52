from __future__ import annotations

import pytest

from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.render.view import Edge, NodeView, counter_text, graph_view

PLAN = ExecutionPlan.model_validate(
    {
        "name": "sweep",
        "objective": "o",
        "nodes": [
            {"id": "listing", "tool": "list_reports"},
            {
                "id": "fetch",
                "tool": "fetch_report",
                "depends_on": ["listing"],
                "store_as": "r_{index}",
                "for_each": {
                    "source": "{artifacts.listing}",
                    "select": "keys[]",
                    "as": "report",
                },
            },
            {
                "id": "choose",
                "type": "delegate",
                "instruction": "choose one",
                "tools": ["compare", "skip"],
                "depends_on": ["fetch", "listing"],
                "args": {"a": "{artifacts.fetch}"},
                "when": "ctx.artifacts.fetch.n > 0 && ctx.artifacts.listing.n > 0",
                "approve": True,
            },
            {"id": "report", "tool": "report", "when": 'ctx.status.choose == "ok"'},
        ],
    }
)


def test_the_view_says_what_each_node_is():
    listing, fetch, choose, _ = graph_view(PLAN).nodes
    assert (listing.title, listing.tool, listing.kind, listing.status) == (
        "listing",
        "list_reports",
        "tool",
        "idle",
    )
    assert (fetch.kind, fetch.each) == ("fan_out", "for each report of listing.keys[]")
    assert (choose.kind, choose.tool) == ("delegate", "delegate: compare or skip")
    assert choose.approve
    assert choose.guard == "ctx.artifacts.fetch.n > 0 && ctx.artifacts.listing.n > 0"


def test_an_arrow_is_a_guards_where_only_the_guard_reads_the_source():
    assert graph_view(PLAN).edges == (
        Edge(0, 1, "declared"),
        Edge(1, 2, "declared"),
        Edge(0, 2, "guard"),
        Edge(2, 3, "guard"),
    )


def test_states_are_taken_over_and_what_the_plan_knows_is_added():
    given = {"fetch": NodeView("fetch", kind="fan_out", status="running", done=1, total=4)}
    fetch = graph_view(PLAN, given).nodes[1]
    assert (fetch.status, fetch.done, fetch.total) == ("running", 1, 4)
    assert (fetch.title, fetch.tool) == ("fetch", "fetch_report")


def test_a_broken_plan_is_drawn_without_what_names_no_node():
    nodes = [
        PlanNode.model_construct(id="a", tool="t", depends_on=["b", "nowhere", "a"]),
        PlanNode.model_construct(id="b", tool=None, depends_on=["a"], when="((("),
        PlanNode.model_construct(id="a", tool="t", depends_on=[]),
    ]
    view = graph_view(ExecutionPlan.model_construct(name="p", objective="o", nodes=nodes))
    assert [node.id for node in view.nodes] == ["a", "b", "a"]
    assert view.edges == (Edge(1, 0), Edge(0, 1))
    assert view.needs() == {0: [1], 1: [0], 2: []}


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (NodeView("n"), ""),
        (NodeView("n", status="valid", seconds=1), ""),
        (NodeView("n", status="waiting"), "waiting"),
        (NodeView("n", status="ok"), "ok"),
        (NodeView("n", status="ok", seconds=3.21, nbytes=1_200_000), "3.2 s · 1.2 MB"),
        (NodeView("n", status="running", done=12, total=1400, seconds=3), "12 / 1,400 · 3.0 s"),
        (NodeView("n", status="running", total=3), "0 / 3"),
        (NodeView("n", status="partial", done=9, total=9, failed=2), "9 / 9 · 2 failed"),
        (NodeView("n", status="ok", done=9, total=9, reused=4), "9 / 9 · 4 reused"),
        (NodeView("n", status="error", seconds=1, note="Boom:\n x"), "error · Boom: x"),
        (NodeView("n", status="error", seconds=1), "error · 1.0 s"),
        (NodeView("n", status="skipped", note="guard is false"), "skipped · guard is false"),
    ],
)
def test_the_counter_says_how_a_node_stands(node, text):
    assert counter_text(node) == text
