"""The drawing itself: cards and arrows as SVG, written anew from numbers and clean text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from planbench.render.cards import BAR_HEIGHT, ICON_X, LINE_SIZE, RIGHT, TEXT_X, card, stack_depth
from planbench.render.geometry import SVG_NAMESPACE
from planbench.render.lettering import clean, shorten_end, text_width
from planbench.render.theme import ICON_SCALE, ICONS, LINE, STYLE, state_name
from planbench.render.view import GUARD, INFERRED, REASONED, SEPARATOR, counter_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.render.geometry import Arrow, Box, Geometry
    from planbench.render.view import GraphView, NodeView

_FINE: Final = 200
_TAG_SIZE: Final = 6.8
_TAG_HEIGHT: Final = 10.0
_LOOKS: Final = {
    GUARD: ' class="pbn-guard"',
    INFERRED: ' class="pbn-inferred"',
    f"{INFERRED} {GUARD}": ' class="pbn-inferred pbn-guard"',
}
_MAX_LABEL: Final = 400


def compose(geometry: Geometry, view: GraphView, *, interactive: bool = False) -> str:
    """Write a view at the places of a layout.

    With ``interactive`` the nodes are buttons, and one of them can be reached by Tab.
    """
    digits = 1 if len(view.nodes) <= _FINE else 0
    width, height = _number(geometry.width), _number(geometry.height)
    stages = f' data-stages="{view.stands_for}"' if view.stands_for else ""
    role = "group" if interactive else "img"
    start = (
        f'<svg xmlns="{SVG_NAMESPACE}" class="pb-drawing" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}" role="{role}" '
        f'aria-label="{_label(_summary(view))}"{stages}>'
    )
    parts = [
        start,
        f"<style>{STYLE}</style>",
        *_arrows(geometry.arrows, view, digits),
    ]
    first = True
    for number, box in geometry.boxes.items():
        if number < len(view.nodes):
            tab = f' tabindex="{0 if first else -1}"' if interactive else ""
            parts.append(_node(number, box, view.nodes[number], tab))
            first = False
    return "\n".join([*parts, "</svg>"])


def describe_node(node: NodeView) -> str:
    """Say in one line what a node is and how it stands."""
    parts = [node.title or node.id, node.tool, node.each]
    if node.guard:
        parts.append(f"only when {node.guard}")
    if node.approve:
        parts.append("needs approval")
    counter = counter_text(node)
    parts += [node.status] if not counter.startswith(node.status) else []
    return ", ".join(filter(None, [*parts, counter]))


def _summary(view: GraphView) -> str:
    count = view.stands_for or len(view.nodes)
    nodes = "1 node" if count == 1 else f"{count:,} nodes"
    return f"plan {view.name}: {nodes}{f' in {len(view.nodes)} stages' if view.stands_for else ''}"


def _label(text: str) -> str:
    text = clean(text)
    return escape(
        text if len(text) <= _MAX_LABEL else f"{text[:_MAX_LABEL]}\N{HORIZONTAL ELLIPSIS}"
    )


def _number(value: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _path(commands: list[tuple[str, list[tuple[float, float]]]], digits: int) -> str:
    return "".join(
        command + " ".join(f"{_number(x, digits)},{_number(y, digits)}" for x, y in points)
        for command, points in commands
    )


def _arrows(arrows: Mapping[int, Arrow], view: GraphView, digits: int) -> list[str]:
    known = {number: arrow for number, arrow in arrows.items() if number < len(view.edges)}
    lines = [
        f"<path{_LOOKS.get(view.edges[number].kind, '')} "
        f'data-edge="e{number}" d="{_path(arrow.line, digits)}"/>'
        for number, arrow in known.items()
    ]
    heads = [
        f'<path data-edge="e{number}" d="{_path([("M", head[:1]), ("L", head[1:])], 1)}z"/>'
        for number, (_, head) in known.items()
        if head
    ]
    return [
        f'<g class="pbn-lines" fill="none" stroke="{LINE}">',
        *lines,
        f'</g><g class="pbn-heads" fill="{LINE}">',
        *heads,
        "</g>",
    ]


def _node(number: int, box: Box, node: NodeView, tab: str) -> str:
    plain = card(node)
    depth = stack_depth(node)
    width, height = box.width - depth, box.height - depth
    status = state_name(node.status)
    name = "stage" if node.kind == "stage" else "node"
    place = " ".join(_number(value) for value in box)
    role = "button" if tab else "img"
    start = (
        f'<g class="pb-{name} pb-{status}" data-{name}="{name[0]}{number}" data-box="{place}" '
        f'transform="translate({_number(box.x)} {_number(box.y)})" role="{role}"{tab} '
        f'aria-label="{_label(describe_node(node))}">'
    )
    # the icon turns about itself, so where it stands is the matter of a group around it
    icon = (
        f'<g transform="translate({_number(ICON_X)} 7.5) scale({ICON_SCALE})">'
        f'<path class="pbn-icon" fill-rule="evenodd" d="{ICONS[status]}"/></g>'
    )
    radius = "16" if node.kind == "delegate" else "6"
    behind = (depth - 1, depth / 2 - 0.5) if depth else ()
    counter = _fitted(counter_text(node), width - TEXT_X - RIGHT / 2, status)
    parts = [
        start,
        _tooltip(node, plain.title),
        *(_rect("pbn-back", step, step, width, height, radius) for step in behind),
        _rect("pbn-card", 0, 0, width, height, radius),
        icon,
        _text("pbn-title", TEXT_X, plain.line_y(-1), plain.title),
        *(_text("pbn-line", TEXT_X, plain.line_y(at), line) for at, line in enumerate(plain.lines)),
        _text("pb-counter", TEXT_X, plain.counter_y, counter),
        _bar(node, width, height) if plain.has_bar else "",
        _tags(node, width),
        "</g>",
    ]
    return "".join(parts)


def _fitted(counter: str, width: float, status: str) -> str:
    """Make the counter fit: leave whole figures out rather than cut one, and cut only reasons."""
    while (
        status not in REASONED and text_width(counter, LINE_SIZE) > width and SEPARATOR in counter
    ):
        counter = counter.rpartition(SEPARATOR)[0]
    return shorten_end(counter, width, LINE_SIZE)


def _tooltip(node: NodeView, title: str) -> str:
    """Say in full what the card had to cut, and the guard, which it does not show."""
    lines = [node.title or node.id] if title != clean(node.title or node.id) else []
    if node.guard:
        lines.append(f"when {node.guard}")
    if node.note:
        lines.append(node.note)
    return f"<title>{_label('; '.join(lines))}</title>" if lines else ""


def _rect(name: str, x: float, y: float, width: float, height: float, radius: str) -> str:
    at = f' x="{_number(x)}" y="{_number(y)}"' if x or y else ""
    return (
        f'<rect class="{name}"{at} width="{_number(width)}" height="{_number(height)}" '
        f'rx="{radius}" fill="#fff" stroke="{LINE}"/>'
    )


def _text(name: str, x: float, y: float, text: str) -> str:
    return f'<text class="{name}" x="{_number(x)}" y="{_number(y)}">{escape(clean(text), quote=False)}</text>'


def _bar(node: NodeView, width: float, height: float) -> str:
    room = width - 2 * ICON_X
    share = min(1.0, (node.done or 0) / node.total) if node.total else 0.0
    y, full = _number(height - 7), _number(room)
    shape = f'x="{_number(ICON_X)}" y="{y}" height="{BAR_HEIGHT}" rx="1.2"'
    return (
        f'<rect class="pbn-track" {shape} width="{full}" fill="{LINE}" fill-opacity=".22"/>'
        f'<rect class="pb-bar" {shape} width="{_number(room * share)}" data-full="{full}"/>'
    )


def _tags(node: NodeView, width: float) -> str:
    """Write the marks on the upper border, from the right: a guard, an approval."""
    parts = []
    right = width - 8
    for tag, shown in (("when", node.guard), ("approve", node.approve)):
        if shown:
            room = text_width(tag, _TAG_SIZE, bold=True) + 9
            right -= room
            parts.append(
                f'<rect class="pbn-pill" x="{_number(right)}" y="-5" width="{_number(room)}" '
                f'height="{_TAG_HEIGHT:g}" rx="5" fill="#fff" stroke="{LINE}"/>'
                f'<text class="pbn-tag" x="{_number(right + 4.5)}" y="2.4">{tag}</text>'
            )
            right -= 3
    return "".join(parts)
