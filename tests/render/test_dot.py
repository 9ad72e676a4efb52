from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.render.dot import dot_source, escape
from planbench.render.layout import layout
from planbench.render.lettering import clean, shorten
from planbench.render.view import Edge, GraphView, NodeView

ODD = [
    "<lambda> <map>",
    "<b>x</b>",
    "<x < 3>",
    "</svg><script>alert(1)</script>",
    "a:b",
    "urn:x:1",
    "python:3.7@sha256:e8",
    "<class 'int'>",
    "C:\\new\\table",
    "x\\",
    "\\N \\G \\l",
    'say "hi"',
    '" onclick="alert(1)',
    "&lt;b&gt; &amp; &#65;",
    "a\0b",
    "\ud83d",
    "日本語 ✓ 🎉",
    "{a|b} [c]",
    "]; n1 -> n0 [",
    "// c /* d */ # e",
    "",
]


def view_of(*titles):
    nodes = tuple(NodeView(title or "x", title=title, tool=title) for title in titles)
    return GraphView("odd", nodes, tuple(Edge(i, i + 1) for i in range(len(nodes) - 1)))


def labels(svg):
    text = re.sub(r"<!DOCTYPE[^>]*>", "", svg)
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    return {
        group.get("id"): [part.text for part in group.iter(f"{space}text")]
        for group in root.iter(f"{space}g")
        if group.get("class") == "node"
    }


@pytest.mark.parametrize("title", ODD)
def test_graphviz_draws_any_text_as_it_was_typed(title):
    svg = layout(dot_source(view_of(title, "other")))
    drawn = labels(svg)
    assert set(drawn) == {"n0", "n1"}
    expected = shorten(title, 170, 8.4)
    assert drawn["n0"][-1:] == ([expected] if expected else ["x"])
    assert "<script" not in svg
    assert "onclick=" not in re.sub(r"<text[^>]*>[^<]*</text>", "", svg)


@given(st.text(st.characters(), max_size=30))
@settings(max_examples=40, deadline=None)
def test_graphviz_reads_back_any_label(text):
    dot = f'digraph {{ n0 [id="n0", label="{escape(text)}\\l"] }}'
    (drawn,) = labels(layout(dot)).values()
    assert "".join(part or "" for part in drawn) == clean(text)


def test_no_text_of_a_user_is_a_name_or_an_attribute():
    dot = dot_source(view_of('evil", URL="javascript:alert(1)', "b"))
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', '""', dot)
    assert "URL" not in without_strings
    assert "javascript" not in without_strings
    assert set(re.findall(r"\bn\d+\b", without_strings)) == {"n0", "n1"}


def test_a_layout_does_not_depend_on_states():
    idle = GraphView("g", (NodeView("a", kind="fan_out"),), ())
    done = GraphView(
        "g", (NodeView("a", kind="fan_out", status="error", done=3, total=4, note="x" * 99),), ()
    )
    assert dot_source(idle) == dot_source(done)


def test_guards_are_dashed_and_fan_outs_are_stacked():
    nodes = (NodeView("a"), NodeView("b", kind="fan_out", each="for each x of a"))
    dot = dot_source(GraphView("g", nodes, (Edge(0, 1, "guard"),)))
    assert "style=dashed" in dot
    assert dot.count("peripheries=2") == 1
    assert "for each x of a" in dot


def chain(nodes):
    views = tuple(NodeView(f"n{i}") for i in range(nodes))
    return GraphView("g", views, tuple(Edge(i, i + 1) for i in range(nodes - 1)))


@pytest.mark.parametrize(
    ("nodes", "straight", "hurried"), [(200, False, False), (201, True, False), (501, True, True)]
)
def test_larger_graphs_are_laid_out_with_less_care(nodes, straight, hurried):
    dot = dot_source(chain(nodes))
    assert ("splines=line" in dot) is straight
    assert ("nslimit" in dot) is hurried
    assert ("mclimit" in dot) is hurried


def test_above_a_thousand_nodes_the_stages_are_laid_out():
    dot = dot_source(chain(1001))
    assert dot.count("label=") <= 16
    assert "stages 1\N{EN DASH}63: 63 nodes" in dot


def test_a_short_chain_runs_sideways_and_a_long_one_down():
    assert "rankdir=LR" in dot_source(chain(4))
    assert "rankdir=TB" in dot_source(chain(12))
    assert "rankdir=LR" in dot_source(GraphView("g", tuple(NodeView(str(i)) for i in range(9)), ()))
