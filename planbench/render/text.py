"""The graph in words: for a terminal, for a reader of the screen, for an agent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from planbench.plan.graph import levels
from planbench.render.lettering import clean
from planbench.render.view import INFERRED, SEPARATOR, STATUSES, GraphView, NodeView, counter_text

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_LINES: Final = 200
_MAX_CELL: Final = 40
_MAX_NOTE: Final = 90
_MAX_SOURCES: Final = 4
_INFERRED: Final = f" ({INFERRED})"


def as_text(view: GraphView, *, max_lines: int = MAX_LINES) -> str:
    """Give one line a node, level by level: what it calls, what it waits for, how it stands."""
    names = {str(place): list(map(str, sources)) for place, sources in view.needs().items()}
    rows = [[int(name) for name in row] for row in levels(names)]
    placed = {place for row in rows for place in row}
    loose = [place for place in range(len(view.nodes)) if place not in placed]
    numbered = [(str(level), place) for level, row in enumerate(rows, 1) for place in row]
    numbered += [("-", place) for place in loose]
    lines = [
        (level, f"[{view.nodes[place].status}]", *_cells(view, place))
        for level, place in numbered[:max_lines]
    ]
    text = [_headline(view), *_aligned(lines)]
    if len(numbered) > max_lines:
        text.append(f"and {len(numbered) - max_lines:,} more nodes")
    return "\n".join(text)


def _headline(view: GraphView) -> str:
    count = len(view.nodes)
    counts = Counter(node.status for node in view.nodes)
    known = [status for status in STATUSES if counts[status]]
    stands = ", ".join(f"{counts[status]:,} {status}" for status in known if status != "idle")
    nodes = "1 node" if count == 1 else f"{count:,} nodes"
    return f"{clean(view.name)}: {nodes}{f' ({stands})' if stands else ''}"


def _cells(view: GraphView, place: int) -> tuple[str, ...]:
    node = view.nodes[place]
    sources = [
        f"{_cut(view.nodes[edge.source].id)}{_INFERRED if edge.kind.startswith(INFERRED) else ''}"
        for edge in view.edges
        if edge.target == place
    ]
    shown = ", ".join(sources[:_MAX_SOURCES])
    if len(sources) > _MAX_SOURCES:
        shown += f" and {len(sources) - _MAX_SOURCES:,} more"
    return _cut(node.id), _call(node), f"after {shown}" if shown else "", _stands(node)


def _call(node: NodeView) -> str:
    parts = [_cut(node.tool), _cut(node.each, _MAX_NOTE)]
    if node.guard:
        parts.append(f"when {_cut(node.guard, _MAX_NOTE)}")
    if node.approve:
        parts.append("after approval")
    return ", ".join(filter(None, parts))


def _stands(node: NodeView) -> str:
    counter = counter_text(node).removeprefix(node.status).removeprefix(SEPARATOR)
    return _cut(counter, _MAX_NOTE)


def _cut(text: str, length: int = _MAX_CELL) -> str:
    text = clean(text[:1000])
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    if not lines:
        return []
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
