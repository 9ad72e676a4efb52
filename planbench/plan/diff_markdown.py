"""A diff as a pull request shows it: Markdown with a Mermaid graph.

Text of users stands in code spans, where nothing is markup, a link or a mention, and in
quoted labels of the graph, escaped as in every Mermaid text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planbench.plan.diff_text import Phrases, lines, printable, summary, title
from planbench.plan.exports import mermaid_text

if TYPE_CHECKING:
    from planbench.plan.diff import DiffGraph, DiffNode, PlanDiff

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
    told = list(lines(diff, _PHRASES))
    more = len(told) - _MAX_LINES
    if more > 0:
        told = [*told[:_MAX_LINES], f"- and {more:,} more lines"]
    return "\n".join([f"### {code(title(diff))}: {summary(diff)}", "", *_graph(diff), *told, ""])


def mermaid(graph: DiffGraph) -> str:
    """Write the graph of a diff for Mermaid; each mark is told by words and strokes too."""
    places = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    drawn = ["flowchart LR"]
    drawn += [f"  {places[node.id]}{_label(node)}" for node in graph.nodes]
    drawn += [
        f"  {places[edge.source]} {_ARROWS[edge.mark]} {places[edge.target]}"
        for edge in graph.edges
    ]
    for mark, look in _LOOKS.items():
        marked = [places[node.id] for node in graph.nodes if node.mark == mark]
        if marked:
            drawn += [f"  classDef {mark} {look}", f"  class {','.join(marked)} {mark}"]
    return "\n".join(drawn)


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
    words = [node.id if node.was is None else f"{node.was} is now {node.id}"]
    if node.tool:
        words.append(f"tool {node.tool}")
    if node.kind == "fan_out":
        words.append("for each item")
    if node.mark != "same":
        words.append(node.mark.upper())
    return f'["{"<br/>".join(mermaid_text(one, _MAX_LABEL) for one in words)}"]'


_PHRASES: Final = Phrases(
    quote=code,
    after="after {id}",
    plan="- **changed** the plan's {said}",
    added="- **added** {id}, {after}: {called}",
    removed="- **removed** {id}: {called}",
    renamed="- **renamed** {old} to {new}",
    changed="- **changed** {id}",
    field="  - {said}",
    moved="- **moved** {id}: it stands {place} now",
    edge_added="- **added** the edge {source} to {target}",
    edge_removed="- **removed** the edge {source} to {target}",
    value_added="{where}: added {new}",
    value_removed="{where}: removed {old}",
    value_changed="{where}: {old} to {new}",
)
