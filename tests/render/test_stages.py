from __future__ import annotations

import dataclasses

import pytest

from planbench.render.stages import MAX_EDGES, MAX_NODES, MAX_STAGES, by_stage, collapsed
from planbench.render.view import Edge, GraphView, NodeView


def graph(nodes, edges, **states):
    views = tuple(NodeView(f"n{i}", tool=f"t{i % 2}", **states) for i in range(nodes))
    return GraphView("g", views, tuple(Edge(a, b) for a, b in edges))


def chain(nodes, **states):
    return graph(nodes, [(i, i + 1) for i in range(nodes - 1)], **states)


def test_a_graph_that_can_be_drawn_stays_as_it_is():
    view = chain(MAX_NODES)
    assert collapsed(view) is view


@pytest.mark.parametrize(
    "view",
    [
        chain(MAX_NODES + 1),
        graph(200, [(i, j) for j in range(100, 200) for i in range(100)]),
        graph(MAX_NODES + 1, []),
    ],
)
def test_a_graph_too_large_is_drawn_by_its_stages(view):
    assert len(view.nodes) > MAX_NODES or len(view.edges) > MAX_EDGES
    small = collapsed(view)
    assert len(small.nodes) <= MAX_STAGES
    assert small.stands_for == len(view.nodes)
    assert collapsed(small) is small
    assert {node.kind for node in small.nodes} == {"stage"}


def test_every_node_stands_behind_one_stage_and_arrows_go_between_stages():
    small = by_stage(chain(100, status="ok"))
    assert sum(node.total for node in small.nodes) == 100
    assert small.nodes[0].title == "stages 1\N{EN DASH}7: 7 nodes"
    assert small.nodes[-1].title == "stages 99\N{EN DASH}100: 2 nodes"
    assert small.edges == tuple(Edge(i, i + 1) for i in range(len(small.nodes) - 1))


def test_stages_do_not_depend_on_states():
    view = chain(60)
    later = dataclasses.replace(
        view, nodes=tuple(dataclasses.replace(node, status="ok") for node in view.nodes)
    )
    assert [n.title for n in by_stage(view).nodes] == [n.title for n in by_stage(later).nodes]
    assert by_stage(view).edges == by_stage(later).edges


def test_nodes_on_a_cycle_get_the_last_stage():
    view = graph(4, [(0, 1), (1, 2), (2, 1), (2, 3)])
    assert [node.title for node in by_stage(view).nodes] == ["stage 1: 1 node", "stage 2: 3 nodes"]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["ok", "ok"], "ok"),
        (["ok", "skipped"], "ok"),
        (["skipped", "skipped"], "skipped"),
        (["ok", "idle"], "running"),
        (["ok", "waiting"], "waiting"),
        (["running", "error"], "error"),
        (["idle", "idle"], "idle"),
        (["valid", "valid"], "valid"),
        (["valid", "invalid"], "invalid"),
        (["ok", "partial"], "partial"),
    ],
)
def test_a_stage_is_as_bad_as_its_worst_node(statuses, status):
    view = GraphView("g", tuple(NodeView(str(i), status=s) for i, s in enumerate(statuses)), ())
    assert by_stage(view).nodes[0].status == status


def test_a_stage_counts_its_nodes_and_names_their_tools():
    nodes = [NodeView(f"n{i}", tool=f"t{i % 3}", status="ok", nbytes=10) for i in range(8)]
    nodes += [NodeView("x", tool="t0", status="error"), NodeView("y", tool="t1", status="waiting")]
    (stage,) = by_stage(GraphView("g", tuple(nodes), ())).nodes
    assert (stage.done, stage.total, stage.failed, stage.nbytes) == (9, 10, 1, 80)
    assert stage.tool == "4 \N{MULTIPLICATION SIGN} t0, 4 \N{MULTIPLICATION SIGN} t1 and more"
