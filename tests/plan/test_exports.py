from __future__ import annotations

import re

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import load_plan
from planbench.plan.exports import mermaid_text, plan_edges, to_graphviz, to_mermaid, to_networkx

PLAN = load_plan("""
name: p
objective: o
nodes:
  - {id: a, tool: list, facets: {counts: {n: "[]"}}}
  - {id: b, tool: fetch, depends_on: [a], for_each: {source: "{artifacts.a}"}, description: each}
  - {id: c, tool: join, depends_on: [b, a], args: {x: "{artifacts.b}"}, when: ctx.artifacts.a.n > 0}
  - {id: d, type: delegate, instruction: Choose, depends_on: [c]}
""")


def test_an_edge_says_what_it_is_for():
    assert list(plan_edges(PLAN)) == [
        ("a", "b", "data"),
        ("b", "c", "data"),
        ("a", "c", "guard"),
        ("c", "d", "order"),
    ]


def test_a_networkx_graph_has_the_fields_that_are_there():
    graph = to_networkx(PLAN)

    assert graph.graph == {"name": "p", "objective": "o"}
    assert graph.nodes["a"] == {"type": "tool", "tool": "list", "store_as": "a"}
    assert graph.nodes["b"] == {
        "type": "tool",
        "tool": "fetch",
        "store_as": "b.{index}",
        "description": "each",
        "for_each": "a",
    }
    assert dict(graph.edges) == {
        ("a", "b"): {"kind": "data"},
        ("b", "c"): {"kind": "data"},
        ("a", "c"): {"kind": "guard"},
        ("c", "d"): {"kind": "order"},
    }
    assert list(nx.topological_sort(graph)) == ["a", "b", "c", "d"]
    assert "".join(nx.generate_graphml(graph))  # no None that GraphML could not hold


def test_mermaid_has_a_shape_for_each_kind_of_node():
    assert to_mermaid(PLAN) == (
        'flowchart TD\n  n0["a · list"]\n  n1[["b · fetch#44; for each of a"]]\n'.replace(
            "#44;", ","
        )
        + '  n2["c · join"]\n'
        '  n3{{"d · delegate"}}\n'
        "  n0 --> n1\n"
        "  n1 --> n2\n"
        "  n0 -.-> n2\n"
        "  n2 --> n3\n"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain-id_1, x.y", "plain-id_1, x.y"),
        ('a"b', "a#34;b"),
        ("<b>x</b>", "#60;b#62;x#60;#47;b#62;"),
        ("#quot; &amp;", "#35;quot#59; #38;amp#59;"),
        ("%%{init: {}}%%", "#37;#37;#123;init#58; #123;#125;#125;#37;#37;"),
        ("`md`", "#96;md#96;"),
        ("a\nb\t c", "a b c"),
        ("x\0\ud800", "x#65533;#65533;"),
        ("1. first", "1#46;#32;first"),
        ("- item", "#45;#32;item"),
        ("ﬂ°°9¶ß", "fl#176;#176;9#182;ß"),
        ("my direction LR", "my direction#32;LR"),
        ("style:<b>;", "style#58;#60;b#62;#59;"),
        ("日本 é", "日本 é"),
        ("x" * 200, "x" * 119 + "#8230;"),
    ],
)
def test_text_in_mermaid_holds_no_sign_that_means_something(text, written):
    assert mermaid_text(text) == written


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_text_of_a_plan_leaves_its_label_in_mermaid(plans, data):
    plan = data.draw(plans)
    lines = to_mermaid(plan).splitlines()

    assert lines[0] == "flowchart TD"
    nodes, edges = lines[1 : 1 + len(plan.nodes)], lines[1 + len(plan.nodes) :]
    label = r'"(?:[\w \-.,·]|#\d+;)*"'
    for place, line in enumerate(nodes):
        assert re.fullmatch(rf"  n{place}(?:\[{label}\]|\[\[{label}\]\]|\{{\{{{label}\}}\}})", line)
    for line in edges:
        assert re.fullmatch(r"  n\d+ (?:-->|-\.->) n\d+", line)
    assert len(edges) == sum(len(node.depends_on) for node in plan.nodes)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_text_of_a_plan_leaves_its_label_in_dot(plans, data):
    plan = data.draw(plans)
    source = to_graphviz(plan).source
    quoted = r'"(?:[^"\\\n]|\\["\\n])*"'
    plain = r"[A-Za-z_\x80-\uffff][\w\x80-\uffff]*|-?(?:\.\d+|\d+(?:\.\d*)?)"
    value = rf"(?:{quoted}|{plain})"

    for line in source.splitlines()[1:-1]:
        assert re.fullmatch(
            rf"\t(?:(?:graph|node|n\d+) \[(?:\w+={value} ?)+\]|n\d+ -> n\d+ \[style=\w+\])", line
        ), line


def test_labels_in_dot_are_what_was_written():
    plan = load_plan(
        'name: "<b>x</b>"\nobjective: o\nnodes:\n  - {id: a, tool: "<i>\\\\N &lt; \\"q\\" \\\\"}\n'
    )
    source = to_graphviz(plan).source

    assert 'label="<b>x</b>"' in source
    assert r'label="a\n<i>\\N &amp;lt; \"q\" \\"' in source
