"""A large graph drawn small: the nodes of neighbouring levels stand behind one box.

A thousand boxes are no picture any more, and laying them out holds the notebook up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from planbench.plan.graph import levels
from planbench.render.view import Edge, GraphView, NodeView

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NODES: Final = 1000
MAX_EDGES: Final = 5000
MAX_STAGES: Final = 16
_SHOWN_TOOLS: Final = 2
_WORST_FIRST: Final = ("invalid", "error", "running", "partial", "blocked", "cancelled", "waiting")
_ENDED: Final = frozenset({"ok", "partial", "error", "blocked", "skipped", "cancelled"})


def collapsed(view: GraphView) -> GraphView:
    """Give a graph that can be drawn: this one, or one of its stages when it is too large.

    Depends on nodes and edges alone, so a drawing can be painted from any later view.
    """
    if view.stands_for or (len(view.nodes) <= MAX_NODES and len(view.edges) <= MAX_EDGES):
        return view
    return by_stage(view)


def by_stage(view: GraphView) -> GraphView:
    """Put neighbouring levels together, into at most 16 boxes."""
    needs = view.needs()
    names = {str(place): [str(source) for source in sources] for place, sources in needs.items()}
    rows = [[int(name) for name in row] for row in levels(names)]
    placed = {place for row in rows for place in row}
    if loose := [place for place in needs if place not in placed]:
        rows.append(loose)  # nodes on a cycle, and behind one, have no level
    share = -(-len(rows) // MAX_STAGES)
    stages = [rows[at : at + share] for at in range(0, len(rows), share)]
    stage_of = {
        place: number for number, stage in enumerate(stages) for row in stage for place in row
    }
    arrows = dict.fromkeys(
        (stage_of[edge.source], stage_of[edge.target])
        for edge in view.edges
        if stage_of[edge.source] != stage_of[edge.target]
    )
    return GraphView(
        view.name,
        tuple(
            _stage(number * share, stage, [view.nodes[place] for row in stage for place in row])
            for number, stage in enumerate(stages)
        ),
        tuple(Edge(source, target) for source, target in arrows),
        stands_for=len(view.nodes),
    )


def _stage(first: int, rows: Sequence[Sequence[int]], nodes: Sequence[NodeView]) -> NodeView:
    last = first + len(rows)
    title = f"stage {last}" if len(rows) == 1 else f"stages {first + 1}\N{EN DASH}{last}"
    statuses = Counter(node.status for node in nodes)
    ended = sum(statuses[status] for status in _ENDED)
    started = len(nodes) - statuses["idle"] - statuses["valid"] - statuses["invalid"]
    return NodeView(
        id=title,
        title=f"{title}: 1 node" if len(nodes) == 1 else f"{title}: {len(nodes):,} nodes",
        kind="stage",
        status=_status(statuses, ended, len(nodes)),
        done=ended if started else None,
        total=len(nodes) if started else None,
        failed=statuses["error"] + statuses["blocked"],
        nbytes=sum(node.nbytes or 0 for node in nodes) or None,
        tool=_tools(nodes),
    )


def _status(statuses: Counter[str], ended: int, total: int) -> str:
    for status in _WORST_FIRST:
        if statuses[status]:
            return status
    if ended == total:
        return "ok" if statuses["ok"] else "skipped"
    if ended:
        return "running"
    return "valid" if statuses["valid"] else "idle"


def _tools(nodes: Sequence[NodeView]) -> str:
    counts = Counter(node.tool for node in nodes if node.tool).most_common()
    shown = ", ".join(
        f"{count:,} \N{MULTIPLICATION SIGN} {tool}" for tool, count in counts[:_SHOWN_TOOLS]
    )
    return shown if len(counts) <= _SHOWN_TOOLS else f"{shown} and more"
