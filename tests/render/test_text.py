from __future__ import annotations

from planbench.render.text import as_text
from planbench.render.view import Edge, GraphView, NodeView

VIEW = GraphView(
    "sweep",
    (
        NodeView("listing", tool="list_reports", status="ok", seconds=0.35, nbytes=2300),
        NodeView(
            "fetch",
            kind="fan_out",
            tool="fetch_report",
            each="for each report of listing.keys[]",
            status="running",
            done=12,
            total=40,
            seconds=3.2,
        ),
        NodeView("map", tool="map", guard="ctx.errors == []", approve=True, status="waiting"),
        NodeView("late", tool="late", status="error", note="Boom: \n x"),
    ),
    (Edge(0, 1), Edge(1, 2), Edge(0, 3, "guard")),
)


def test_each_node_has_a_line_with_its_level_its_call_and_how_it_stands():
    assert as_text(VIEW).splitlines() == [
        "sweep: 4 nodes (1 waiting, 1 running, 1 ok, 1 error)",
        "1  [ok]       listing  list_reports                                                    350 ms · 2.3 kB",
        "2  [running]  fetch    fetch_report, for each report of listing.keys[]  after listing  12 / 40 · 3.2 s",
        "2  [error]    late     late                                             after listing  Boom: x",
        "3  [waiting]  map      map, when ctx.errors == [], after approval       after fetch",
    ]


def test_a_long_plan_is_cut_and_says_so():
    nodes = tuple(NodeView(f"n{i}") for i in range(500))
    text = as_text(GraphView("g", nodes, tuple(Edge(i, 499) for i in range(499))), max_lines=10)
    assert len(text.splitlines()) == 12
    assert text.endswith("and 490 more nodes")
    assert "after n0, n1, n2, n3 and 495 more" in as_text(
        GraphView("g", nodes, tuple(Edge(i, 499) for i in range(499))), max_lines=500
    )


def test_a_chain_of_five_thousand_is_text_too():
    nodes = tuple(NodeView(f"n{i}") for i in range(5000))
    text = as_text(GraphView("g", nodes, tuple(Edge(i, i + 1) for i in range(4999))))
    assert text.splitlines()[0] == "g: 5,000 nodes"


def test_nodes_on_a_cycle_have_no_level():
    view = GraphView("g", (NodeView("a"), NodeView("b")), (Edge(0, 1), Edge(1, 0)))
    assert as_text(view).splitlines()[1:] == ["-  [idle]  a    after b", "-  [idle]  b    after a"]


def test_odd_text_stays_on_its_line():
    view = GraphView("a\nb", (NodeView("x\ny\0\u202e", tool="t" * 500),), ())
    lines = as_text(view).splitlines()
    assert len(lines) == 2
    assert lines[0] == "a b: 1 node"
    assert "x y��" in lines[1]
    assert len(lines[1]) < 80


def test_an_empty_graph_is_one_line():
    assert as_text(GraphView("g", (), ())) == "g: 0 nodes"
