from __future__ import annotations

from planbench.render.svg import draw
from planbench.render.text import as_text
from planbench.render.view import Edge, graph_view
from planbench.validation import check_plan

TEXT = """\
name: p
objective: o
nodes:
  - {id: a, tool: t}
  - {id: b, tool: t, args: {x: "{artifacts.a}"}}
  - {id: c, tool: t, depends_on: [b], args: {x: "{artifacts.b}"}}
  - {id: d, tool: t, when: b.count > 0, args: {x: "{artifacts.c}"}}
"""


def view():
    report = check_plan(TEXT)
    return graph_view(report.plan, None, report.inferred)


def test_an_edge_that_nobody_wrote_is_drawn_as_inferred():
    assert view().edges == (
        Edge(0, 1, "inferred"),
        Edge(1, 2, "declared"),
        Edge(2, 3, "inferred"),
        Edge(1, 3, "inferred guard"),
    )
    assert graph_view(check_plan(TEXT).plan).edges[0] == Edge(0, 1, "declared")


def test_the_drawing_and_the_words_tell_it_from_one_that_is_written():
    svg = draw(view())

    assert svg.count('class="pbn-inferred"') == 2
    assert svg.count('class="pbn-inferred pbn-guard"') == 1
    assert ".pbn-inferred{" in svg
    assert "after a (inferred)" in as_text(view())
    assert "after c (inferred), b (inferred)" in as_text(view())
    assert "after b\n" in as_text(view()) + "\n"
