"""A diff as a pull request shows it: Markdown with a Mermaid graph.

Text of users stands in code spans, where nothing is markup, a link or a mention, and in
quoted labels of the graph, in which every sign is written as a number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planbench.plan.diff_text import (
    called,
    loose_edges,
    pair,
    place,
    printable,
    summary,
    title,
)
from planbench.plan.records import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.diff import DiffGraph, DiffNode, PlanDiff
    from planbench.plan.records import FieldChange

_MAX_LINES: Final = 200
_WHOLE: Final = 60
_MAX_NODES: Final = 150
_MAX_EDGES: Final = 400  # Mermaid draws at most 500
_MAX_LABEL: Final = 60
_RUNS: Final = re.compile("`+")
_LOOKS: Final = {
    "added": "fill:#e8f6ec,stroke:#2f7d4f,stroke-width:3px,color:#1f2733",
    "removed": "fill:#fbeeee,stroke:#b53b3b,stroke-dasharray:5 4,color:#1f2733",
    "renamed": "fill:#eef4fd,stroke:#3a6fc0,stroke-width:2px,color:#1f2733",
    "changed": "fill:#fdf5e3,stroke:#a8720f,stroke-width:2px,color:#1f2733",
}
_ARROWS: Final = {"same": "-->", "added": "==>", "removed": "-.->"}


def markdown(diff: PlanDiff) -> str:
    """Write a diff as Markdown; of very many changes, the first 200 lines."""
    lines = list(_lines(diff))
    more = len(lines) - _MAX_LINES
    if more > 0:
        lines = [*lines[:_MAX_LINES], f"- and {more:,} more lines"]
    return "\n".join([f"### {code(title(diff))}: {summary(diff)}", "", *_graph(diff), *lines, ""])


def mermaid(graph: DiffGraph) -> str:
    """Write the graph of a diff for Mermaid; each mark is told by words and strokes too."""
    places = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {places[node.id]}{_label(node)}" for node in graph.nodes]
    lines += [
        f"  {places[edge.source]} {_ARROWS[edge.mark]} {places[edge.target]}"
        for edge in graph.edges
    ]
    for mark, look in _LOOKS.items():
        marked = [places[node.id] for node in graph.nodes if node.mark == mark]
        if marked:
            lines += [f"  classDef {mark} {look}", f"  class {','.join(marked)} {mark}"]
    return "\n".join(lines)


def code(text: str) -> str:
    """Write a text as a code span that holds nothing but it."""
    text = printable(text)
    if not text.strip():
        return "(empty)"
    fence = "`" * (1 + max(map(len, _RUNS.findall(text)), default=0))
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _graph(diff: PlanDiff) -> list[str]:
    if not diff:
        return []
    graph = diff.graph.around_changes(_WHOLE)
    if len(graph.nodes) > _MAX_NODES or len(graph.edges) > _MAX_EDGES:
        return [f"The graph of {len(graph.nodes):,} nodes is too large to be shown here.", ""]
    left_out = len(diff.graph.nodes) - len(graph.nodes)
    note = [f"{left_out:,} nodes away from the changes are not shown.", ""] if left_out else []
    return ["```mermaid", mermaid(graph), "```", "", *note]


def _label(node: DiffNode) -> str:
    lines = [node.id if node.was is None else f"{node.was} is now {node.id}"]
    if node.tool:
        lines.append(f"tool {node.tool}")
    if node.kind == "fan_out":
        lines.append("for each item")
    if node.mark != "same":
        lines.append(node.mark.upper())
    return f'["{"<br/>".join(map(_quoted, lines))}"]'


def _quoted(text: str) -> str:
    """Write a text for a quoted label, every sign in it as a number."""
    text = printable(text)
    shown = text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 3]}..."
    return "".join(
        sign if sign == " " or (sign.isascii() and sign.isalnum()) else f"#{ord(sign)};"
        for sign in shown
    )


def _lines(diff: PlanDiff) -> Iterator[str]:
    for change in diff.fields:
        yield f"- **changed** the plan's {_said(change)}"
    for new in diff.added:
        after = "first" if new.after is None else f"after {code(new.after)}"
        yield f"- **added** {code(new.node.id)}, {after}: {code(called(new.node))}"
    for gone in diff.removed:
        yield f"- **removed** {code(gone.node.id)}: {code(called(gone.node))}"
    for one in diff.renamed:
        yield f"- **renamed** {code(one.old)} to {code(one.new)}"
    for node in diff.changed:
        yield f"- **changed** {code(node.id)}"
        for change in node.changes:
            yield f"  - {_said(change)}"
    for moved in diff.moved:
        yield f"- **moved** {code(moved.id)}: it stands {code(place(moved.after))} now"
    for sign, edges in (("added", diff.edges_added), ("removed", diff.edges_removed)):
        for edge in loose_edges(edges, diff):
            yield f"- **{sign}** the edge {code(edge.source)} to {code(edge.target)}"


def _said(change: FieldChange) -> str:
    old, new = pair(change)
    where = code(path_text(change.path))
    if change.kind == "added":
        return f"{where}: added {code(new)}"
    if change.kind == "removed":
        return f"{where}: removed {code(old)}"
    return f"{where}: {code(old)} to {code(new)}"
