"""Two versions of a plan as one drawing.

What came, went or changed is told by a word on each card and by its stroke as well as by
colour; an arrow that came is thick, and one that went is dashed.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from planbench.errors import RenderError
from planbench.render.cards import ICON_X, LINE_SIZE, RIGHT, TEXT_X, card, stack_depth
from planbench.render.dot import dot_source
from planbench.render.geometry import SVG_NAMESPACE, read_geometry
from planbench.render.layout import TIMEOUT, layout
from planbench.render.lettering import clean, shorten_end
from planbench.render.theme import FONTS, ICON_SCALE, LINE
from planbench.render.view import Edge, GraphView, NodeView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planbench.plan.diff import DiffGraph, DiffNode, PlanDiff
    from planbench.render.geometry import Arrow, Box

WHOLE: Final = 300
MAX_NODES: Final = 1000
_MAX_NAME: Final = 200


class _Look(NamedTuple):
    """How a card is drawn: light and dark, its stroke, and the sign in its corner."""

    hue: str
    light: str
    dark: str
    dash: str
    width: float
    icon: str


_LOOKS: Final = {
    "same": _Look("#8590a0", "#ffffff", "#1d232c", "", 1.0, ""),
    "added": _Look("#2f7d4f", "#e8f6ec", "#17291e", "", 2.4, "M6.8 2h2.4v4.8H14v2.4H9.2V14H6.8V9.2H2V6.8h4.8z"),
    "removed": _Look("#b53b3b", "#fbeeee", "#2f1c1d", "5 3", 1.6, "M2 6.8h12v2.4H2z"),
    "renamed": _Look("#3a6fc0", "#eef4fd", "#1a2738", "", 1.6, "M2 6.8h7V3.4L14 8l-5 4.6V9.2H2z"),
    "changed": _Look("#a8720f", "#fdf5e3", "#2b2417", "9 2", 1.8, "M8 1.5 15 14H1zM8 5.2 4.2 12h7.6z"),
}  # fmt: skip
_ARROWS: Final = {"same": (LINE, 1.1, ""), "added": ("#2f7d4f", 2.4, ""), "removed": ("#b53b3b", 1.4, "4 3")}  # fmt: skip


def _style() -> str:
    dark = "".join(
        f".pb-diff-{mark} .pbn-face{{fill:{look.dark}}}" for mark, look in _LOOKS.items()
    )
    return (
        f".pb-diff{{max-width:100%;height:auto;font-family:{FONTS}}}"
        ".pb-diff text{stroke:none;fill:#1f2733}"
        f"@media (prefers-color-scheme:dark){{.pb-diff text{{fill:#e9edf3}}{dark}}}"
    )


STYLE: Final = _style()


def draw_diff(diff: PlanDiff, *, timeout: float = TIMEOUT) -> str:
    """Draw a diff as an SVG; blocks. Raises RenderError when no engine gives a layout.

    Of more than 300 nodes those are drawn that changed, with their neighbours; when these
    are more than 1,000, the diff is too large to be drawn.
    """
    graph = diff.graph.around_changes(WHOLE)
    if len(graph.nodes) > MAX_NODES:
        raise RenderError(
            f"the diff has {len(graph.nodes):,} nodes to show, and at most {MAX_NODES:,} are drawn",
            hint="its text says it all: diff.to_text()",
        )
    if not graph.nodes:
        raise RenderError("no node differs, so there is nothing to draw")
    view = diff_view(graph, _name(diff))
    geometry = read_geometry(layout(dot_source(view), timeout=timeout))
    width, height = _number(geometry.width), _number(geometry.height)
    parts = [
        (
            f'<svg xmlns="{SVG_NAMESPACE}" class="pb-diff" width="{width}pt" height="{height}pt" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(_label(diff, graph))}">'
        ),
        f"<style>{STYLE}</style>",
        *_arrows(geometry.arrows, graph),
        *(
            _node(box, view.nodes[number], graph.nodes[number])
            for number, box in geometry.boxes.items()
            if number < len(graph.nodes)
        ),
        "</svg>",
    ]
    return "\n".join(parts)


def diff_view(graph: DiffGraph, name: str = "diff") -> GraphView:
    """Give the graph of a diff as any other graph is laid out; the note of a node is its mark."""
    places = {node.id: place for place, node in enumerate(graph.nodes)}
    nodes = tuple(
        NodeView(node.id, title=node.id, kind=node.kind, tool=node.tool, note=_mark(node))
        for node in graph.nodes
    )
    edges = tuple(Edge(places[edge.source], places[edge.target]) for edge in graph.edges)
    return GraphView(name, nodes, edges)


def _name(diff: PlanDiff) -> str:
    names = dict.fromkeys([diff.old_name[:_MAX_NAME], diff.new_name[:_MAX_NAME]])
    return clean(" to ".join(names))


def _label(diff: PlanDiff, graph: DiffGraph) -> str:
    marks = [node.mark for node in graph.nodes]
    counts = [f"{marks.count(mark)} {mark}" for mark in _LOOKS if mark != "same" and mark in marks]
    return f"diff of plan {_name(diff)}: {', '.join(counts) or 'no node differs'}"


def _mark(node: DiffNode) -> str:
    if node.mark == "same":
        return ""
    if node.was is not None:
        return f"renamed, was {node.was}"
    if node.mark == "changed":
        return f"changed: {node.changes} field{'s' if node.changes != 1 else ''}"
    return node.mark


def _arrows(arrows: dict[int, Arrow], graph: DiffGraph) -> Iterator[str]:
    for number, edge in enumerate(graph.edges):
        if number not in arrows:
            continue
        line, head = arrows[number]
        hue, width, dash = _ARROWS[edge.mark]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        yield (
            f'<path class="pbn-{edge.mark}" data-edge="e{number}" fill="none" stroke="{hue}" '
            f'stroke-width="{width}"{dashed} d="{_path(line)}"/>'
        )
        if head:
            points = _path([("M", head[:1]), ("L", head[1:])])
            yield f'<path data-edge="e{number}" fill="{hue}" d="{points}z"/>'


def _node(box: Box, view: NodeView, node: DiffNode) -> str:
    look = _LOOKS[node.mark]
    plain = card(view)
    depth = stack_depth(view)
    width, height = box.width - depth, box.height - depth
    note = view.note or ""
    said = ", ".join(filter(None, [node.id, node.tool, note or "not changed"]))
    dashed = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    behind = (depth - 1, depth / 2 - 0.5) if depth else ()
    faces = [(step, 'stroke-width="1"') for step in behind]
    faces.append((0.0, f'stroke-width="{look.width}"{dashed}'))
    shape = (
        f'width="{_number(width)}" height="{_number(height)}" '
        f'rx="{16 if node.kind == "delegate" else 6}" fill="{look.light}" stroke="{look.hue}"'
    )
    icon = (
        f'<g transform="translate({_number(ICON_X)} 7.5) scale({ICON_SCALE})">'
        f'<path fill="{look.hue}" fill-rule="evenodd" d="{look.icon}"/></g>'
        if look.icon
        else ""
    )
    shown = shorten_end(note, width - TEXT_X - RIGHT / 2, LINE_SIZE)
    parts = [
        (
            f'<g class="pb-node pb-diff-{node.mark}" transform="translate({_number(box.x)} {_number(box.y)})" '
            f'role="img" aria-label="{escape(clean(said))}"><title>{escape(clean(said), quote=False)}</title>'
        ),
        *(
            f'<rect class="pbn-face" x="{_number(at)}" y="{_number(at)}" {shape} {stroke}/>'
            for at, stroke in faces
        ),
        icon,
        _text(plain.line_y(-1), plain.title, 'font-size="10" font-weight="600"'),
        *(_text(plain.line_y(at), line) for at, line in enumerate(plain.lines)),
        _text(plain.counter_y, shown, 'font-size="8.4" font-weight="600"') if shown else "",
        "</g>",
    ]
    return "".join(parts)


def _text(y: float, text: str, how: str = 'font-size="8.4"') -> str:
    return f'<text x="{_number(TEXT_X)}" y="{_number(y)}" {how}>{escape(clean(text), quote=False)}</text>'


def _path(commands: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    return "".join(
        command + " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        for command, points in commands
    )


def _number(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0")
