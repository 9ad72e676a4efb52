from __future__ import annotations

import asyncio
import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import RenderError
from planbench.render import svg as module
from planbench.render.dot import dot_source
from planbench.render.layout import layout
from planbench.render.svg import as_text, draw, draw_async, paint, sanitize
from planbench.render.theme import HOST_STYLE, ICONS, STATES, STYLE
from planbench.render.view import STATUSES, Edge, GraphView, NodeView

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '"><script>alert(1)</script><b onclick="x" \\N \0\ud800 &amp;'


def graph(*statuses, **fields):
    nodes = tuple(
        NodeView(f"node_{i}", tool=f"tool_{i}", status=s, **fields) for i, s in enumerate(statuses)
    )
    return GraphView("plan", nodes, tuple(Edge(i, i + 1) for i in range(len(nodes) - 1)))


def chain(nodes):
    return graph(*["idle"] * nodes)


def parts(svg, name):
    return [e for e in ET.fromstring(svg).iter() if name in e.get("class", "").split()]


def texts(element, name):
    return [e.text or "" for e in element.iter(f"{SVG}text") if e.get("class") == name]


def assert_harmless(svg):
    root = ET.fromstring(svg)
    allowed = {"svg", "style", "g", "path", "rect", "text", "title", "polygon", "ellipse", "tspan"}
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in allowed
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name not in {"style", "href", "{http://www.w3.org/1999/xlink}href"}
            assert "url(" not in value or name == "aria-label"
            assert "javascript:" not in value or name == "aria-label"
        if element.tag == f"{SVG}style":
            assert element.text == STYLE


def test_each_node_is_a_group_with_its_state_its_place_in_the_plan_and_its_words():
    view = graph("ok", "running", "skipped", done=3, total=4)
    for number, group in enumerate(parts(draw(view), "pb-node")):
        node = view.nodes[number]
        assert group.get("class") == f"pb-node pb-{node.status}"
        assert group.get("data-node") == f"n{number}"
        assert group.get("role") == "img"
        assert group.get("tabindex") is None
        assert group.get("aria-label").startswith(f"node_{number}, tool_{number}, ")
        assert node.status in group.get("aria-label")
        assert texts(group, "pbn-title") == [f"node_{number}"]
        assert len(texts(group, "pb-counter")) == 1


def test_the_drawing_says_what_it_is():
    root = ET.fromstring(draw(graph("ok", "ok")))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "plan plan: 2 nodes"
    assert root.get("class") == "pb-drawing"


def test_an_interactive_drawing_has_buttons_and_one_of_them_in_the_order_of_tabs():
    svg = draw(graph("ok", "ok", "ok"), interactive=True)
    assert [g.get("tabindex") for g in parts(svg, "pb-node")] == ["0", "-1", "-1"]
    assert {g.get("role") for g in parts(svg, "pb-node")} == {"button"}
    assert ET.fromstring(svg).get("role") == "group"


def test_states_differ_in_icon_and_stroke_and_not_in_colour_alone():
    assert set(STATES) == set(ICONS) == set(STATUSES)
    assert len(set(ICONS.values())) == len(ICONS)
    red = {(STATES[s].dash, STATES[s].width) for s in ("error", "blocked", "invalid")}
    assert len(red) == 3
    drawn = [g.find(f"{SVG}g/{SVG}path").get("d") for g in parts(draw(graph(*STATUSES)), "pb-node")]
    assert drawn == [ICONS[status] for status in STATUSES]


def luminance(color):
    levels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in levels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("status", STATUSES)
def test_text_and_icons_can_be_read_on_their_cards(status):
    state = STATES[status]
    for ink in ("#1f2733", "#566072", "#364152"):
        assert ink in STYLE
        assert contrast(ink, state.light) >= 4.5
    for ink in ("#e9edf3", "#aab4c2", "#c9d1dc"):
        assert ink in STYLE
        assert contrast(ink, state.dark) >= 4.5
    assert contrast(state.hue, state.light) >= 3
    assert contrast(state.hue, state.dark) >= 3


def test_a_drawing_carries_its_style_for_light_and_dark():
    svg = draw(graph("ok"))
    assert svg.count("<style>") == 1
    assert "prefers-color-scheme:dark" in svg
    assert "prefers-color-scheme" not in HOST_STYLE
    assert "var(--jp-layout-color0" in HOST_STYLE
    assert not re.search(r"url\(|@import|https?:", STYLE + HOST_STYLE)
    outside = re.sub(r"\.(pb|pbn)-[\w-]+|@[\w-]+[^{]*|\{[^{}]*\}", "", STYLE)
    assert not re.search(
        r"(^|[,}\s])(body|svg|path|rect|g|text)\b(?!\{)", outside.replace("text", "")
    )


def test_painting_changes_states_and_counters_and_no_place():
    svg = draw(graph("idle", "idle"))
    painted = paint(svg, graph("ok", "error", seconds=1.5))
    first, second = parts(painted, "pb-node")
    assert first.get("class") == "pb-node pb-ok"
    assert texts(first, "pb-counter") == ["1.5 s"]
    assert texts(second, "pb-counter") == ["error · 1.5 s"]
    places = re.compile(r'(?:transform|data-box|viewBox|\bd)="[^"]*"')
    moved = [p for p in places.findall(painted) if p not in places.findall(svg)]
    assert all(p.startswith('d="M') and p[3:-1] in ICONS.values() for p in moved)


def test_painting_twice_is_painting_once():
    view = graph("ok", "running", "partial", kind="fan_out", done=1, total=3, guard="true")
    svg = draw(view)
    assert paint(svg, view) == svg
    assert paint(paint(svg, graph("idle", "idle", "idle")), view) == paint(svg, view)


def test_what_graphviz_wrote_can_be_cleaned_and_painted():
    view = graph("ok", "running")
    assert paint(sanitize(layout(dot_source(view))), view) == draw(view)
    assert paint(layout(dot_source(view)), view) == draw(view)


def test_painting_makes_no_layout(monkeypatch):
    svg = draw(graph("idle"))
    monkeypatch.setattr(module, "layout", None)
    assert "pb-ok" in paint(svg, graph("ok"))


def test_a_fan_out_is_a_stack_with_a_bar():
    node = NodeView(
        "fetch", kind="fan_out", each="for each x of list", status="running", done=1, total=4
    )
    (group,) = parts(draw(GraphView("g", (node,), ())), "pb-node")
    assert len([r for r in group.iter(f"{SVG}rect") if r.get("class") == "pbn-back"]) == 2
    assert "for each x of list" in texts(group, "pbn-line")
    (bar,) = [r for r in group.iter(f"{SVG}rect") if r.get("class") == "pb-bar"]
    assert float(bar.get("width")) == pytest.approx(float(bar.get("data-full")) / 4, abs=0.1)
    nothing = dataclasses.replace(node, done=0, total=0)
    (bar,) = parts(draw(GraphView("g", (nothing,), ())), "pb-bar")
    assert bar.get("width") == "0"


def test_guards_and_approvals_are_marked():
    nodes = (NodeView("a"), NodeView("b", guard="ctx.artifacts.a.n > 0", approve=True))
    svg = draw(GraphView("g", nodes, (Edge(0, 1, "guard"),)))
    assert [t.text for t in parts(svg, "pbn-tag")] == ["when", "approve"]
    assert "when ctx.artifacts.a.n &gt; 0" in svg
    (arrow,) = parts(svg, "pbn-guard")
    assert arrow.get("data-edge") == "e0"


@pytest.mark.parametrize(
    "field", ["title", "tool", "each", "guard", "note", "id", "kind", "status"]
)
def test_no_text_of_a_user_is_ever_markup(field):
    fields = {"id": "a", "status": "error"} | {field: EVIL}
    svg = draw(GraphView(EVIL, (NodeView(**fields), NodeView("b")), (Edge(0, 1),)))
    assert_harmless(svg)
    assert "<script" not in svg
    assert re.fullmatch(r"pb-node pb-[a-z]+", parts(svg, "pb-node")[0].get("class"))


@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=40))
@settings(max_examples=30, deadline=None)
def test_any_text_gives_a_sound_drawing(title, note):
    view = GraphView(title, (NodeView("a", title=title, tool=note, status="error", note=note),), ())
    assert_harmless(draw(view))


def test_long_text_is_cut_and_told_in_full_on_the_side():
    node = NodeView("a" * 80, tool="t" * 500, status="error", note="n" * 5000)
    svg = draw(GraphView("g", (node,), ()))
    assert "a" * 80 in svg
    assert "…" in texts(parts(svg, "pb-node")[0], "pb-counter")[0]
    assert len(svg) - len(STYLE) < 4000


HOSTILE = f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 viewBox="0 0 9 9" onload="alert(1)" style="x">
 <script>alert(1)</script><style>* {{ fill: url(http://x) }}</style><style>{STYLE}</style>
 <a href="javascript:alert(1)"><text>in a link</text></a>
 <foreignObject><b xmlns="http://www.w3.org/1999/xhtml">x</b></foreignObject>
 <image href="http://x"/><use xlink:href="#a"/><animate attributeName="href"/>
 <g class="node" id="n0" onclick="alert(1)" data-node="n0">
  <path d="M0,0C1,1 2,2 3,3" fill="url(#x)" stroke="#fff"/>
  <polygon points="0,0 4,4" fill="expression(alert(1))"/><text x="1e" y="2">&lt;b&gt;</text>
 </g></svg>"""


def test_a_hostile_drawing_loses_all_but_shapes_and_text():
    cleaned = sanitize(HOSTILE)
    assert_harmless(cleaned)
    assert "in a link" not in cleaned
    assert "&lt;b&gt;" in cleaned
    assert 'stroke="#fff"' in cleaned
    assert cleaned.count("<style>") == 1
    assert not re.search(r"alert|http://x|foreign|expression", cleaned)
    assert sanitize(cleaned) == cleaned


@pytest.mark.parametrize(
    "svg",
    [
        '<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        '<!DOCTYPE svg SYSTEM "file:///etc/passwd"><svg/>',
        '<!DOCTYPE svg PUBLIC "a" "b" [<!ENTITY x "y">]><svg/>',
        '<?xml-stylesheet href="http://x"?><svg/>',
        "<svg><![CDATA[x]]></svg>",
        "<html/>",
        "<svg",
        "",
        "text",
        '<svg xmlns="http://example.com/other"/>',
    ],
)
def test_what_declares_anything_or_is_no_svg_is_refused(svg):
    with pytest.raises(RenderError, match="the drawing"):
        sanitize(svg)


def test_a_drawing_nested_without_end_is_refused():
    deep = "<g>" * 5000 + "</g>" * 5000
    with pytest.raises(RenderError, match="nested deeper"):
        sanitize(f'<svg xmlns="http://www.w3.org/2000/svg">{deep}</svg>')


@pytest.mark.parametrize(
    "svg",
    [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><g class="node" id="n0"/></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg"><g class="node" id="n0"><path d="M1,1"/></g></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>',
    ],
)
def test_a_drawing_without_places_cannot_be_painted(svg):
    with pytest.raises(RenderError, match=r"the drawing (has no size|shows no node)"):
        paint(svg, graph("ok"))


def test_nothing_but_numbers_is_taken_over_from_a_drawing():
    svg = draw(graph("ok", "ok"))
    tampered = (
        svg.replace('data-box="', 'onclick="x" data-box="')
        .replace(' d="M', ' d="Mjavascript:alert(1) M')
        .replace("<style>", "<script>evil</script><style>evil{}")
    )
    assert_harmless(paint(tampered, graph("ok", "ok")))
    assert "evil" not in paint(tampered, graph("ok", "ok"))


def test_a_view_with_other_nodes_than_the_drawing_is_painted_as_far_as_it_goes():
    svg = draw(graph("ok", "ok"))
    assert len(parts(paint(svg, graph("ok")), "pb-node")) == 1
    assert len(parts(paint(svg, graph("ok", "ok", "ok")), "pb-node")) == 2


def test_a_large_graph_is_drawn_and_painted_by_stages():
    idle, done = chain(1500), graph(*["ok"] * 1500)
    svg = draw(idle)
    assert parts(svg, "pb-node") == []
    assert 1 < len(parts(svg, "pb-stage")) <= 16
    assert parts(svg, "pb-stage")[0].get("data-stage") == "s0"
    assert "1,500 nodes in 16 stages" in ET.fromstring(svg).get("aria-label")
    assert paint(svg, done) == draw(done)
    assert len(svg) < 40_000


def test_a_graph_whose_layout_takes_too_long_is_drawn_by_stages(monkeypatch):
    real = layout

    def slow(dot, *, timeout):
        if dot.count("label=") > 16:
            raise RenderError("too slow")
        return real(dot, timeout=timeout)

    async def slow_async(dot, **options):
        return slow(dot, **options)

    monkeypatch.setattr(module, "layout", slow)
    monkeypatch.setattr(module, "layout_async", slow_async)
    view = chain(60)
    svg = draw(view)
    assert ET.fromstring(svg).get("data-stages") == "60"
    assert paint(svg, graph(*["ok"] * 60)) == draw(graph(*["ok"] * 60))
    assert asyncio.run(draw_async(view)) == svg
    monkeypatch.setattr(module, "layout", lambda *_, **__: (_ for _ in ()).throw(RenderError("no")))
    with pytest.raises(RenderError):
        draw(view)
    with pytest.raises(RenderError):
        draw(chain(3))


def test_drawing_off_the_loop_gives_the_same_drawing():
    view = graph("ok", "running")
    assert asyncio.run(draw_async(view, interactive=True)) == draw(view, interactive=True)


def test_a_drawing_of_fifty_nodes_stays_small():
    view = graph(*["ok"] * 50, seconds=1.0, nbytes=1000)
    svg = draw(view)
    assert (len(svg) - len(STYLE)) / 50 < 900
    assert "<!--" not in svg
    assert not re.search(
        r"\d\.\d\d", svg.split("</style>")[1].replace(".22", "").replace(".72", "")
    )


def test_the_text_twin_is_at_hand():
    assert as_text(graph("ok")).startswith("plan: 1 node")
