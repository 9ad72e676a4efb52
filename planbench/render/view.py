"""The graph of a plan as data: what is drawn, before anything is laid out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import GuardError
from planbench.plan.guards import compile_guard
from planbench.plan.placeholders import references
from planbench.render.figures import duration, size

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.plan.model import ExecutionPlan, PlanNode

STATUSES: Final = (
    "idle",
    "valid",
    "waiting",
    "running",
    "ok",
    "partial",
    "error",
    "blocked",
    "skipped",
    "cancelled",
    "invalid",
)
GUARD: Final = "guard"
INFERRED: Final = "inferred"
SEPARATOR: Final = " \N{MIDDLE DOT} "
_QUIET: Final = frozenset({"idle", "valid"})
REASONED: Final = frozenset({"error", "blocked", "skipped", "cancelled", "invalid"})


@dataclasses.dataclass(frozen=True, slots=True)
class NodeView:
    """One node as it is drawn: who it is, and how it stands.

    ``kind`` is ``tool``, ``fan_out``, ``delegate`` or ``stage``, and ``status`` one of
    ``STATUSES``. ``done`` and ``total`` count items, the failed ones among the done.
    """

    id: str
    title: str = ""
    kind: str = "tool"
    status: str = "idle"
    done: int | None = None
    total: int | None = None
    seconds: float | None = None
    nbytes: int | None = None
    note: str | None = None
    reused: int = 0
    failed: int = 0
    tool: str = ""
    each: str = ""
    guard: str | None = None
    approve: bool = False


class Edge(NamedTuple):
    """One arrow, between places in ``GraphView.nodes``.

    ``kind`` is ``declared``, or ``guard`` where only the guard reads the source; where
    nobody wrote it, it is ``inferred`` or ``inferred guard``.
    """

    source: int
    target: int
    kind: str = "declared"


@dataclasses.dataclass(frozen=True, slots=True)
class GraphView:
    """A graph to be drawn; ``stands_for`` counts the nodes behind collapsed ones, else 0."""

    name: str
    nodes: tuple[NodeView, ...]
    edges: tuple[Edge, ...]
    stands_for: int = 0

    def needs(self) -> dict[int, list[int]]:
        """Give for each node the ones that an arrow comes from."""
        found: dict[int, list[int]] = {place: [] for place in range(len(self.nodes))}
        for edge in self.edges:
            found[edge.target].append(edge.source)
        return found


def graph_view(
    plan: ExecutionPlan,
    nodes: Mapping[str, NodeView] | None = None,
    inferred: Mapping[str, Collection[str]] | None = None,
) -> GraphView:
    """Give the graph of a plan, with the states of its nodes where they are known.

    ``inferred`` names the edges that nobody wrote, as a report does. Takes broken plans
    too: what names no node is left out.
    """
    given = nodes or {}
    unwritten = inferred or {}
    places: dict[str, int] = {}
    for place, node in enumerate(plan.nodes):
        places.setdefault(node.id, place)
    edges = [
        Edge(places[source], place, kind)
        for place, node in enumerate(plan.nodes)
        for source, kind in _sources(node, unwritten.get(node.id, ())).items()
        if source in places and places[source] != place
    ]
    views = tuple(_node_view(node, given.get(node.id)) for node in plan.nodes)
    return GraphView(str(plan.name), views, tuple(edges))


def counter_text(node: NodeView) -> str:
    """Give the line that says how a node stands, as ``12 / 40 · 3.2 s · 1.2 MB``."""
    if node.status in _QUIET:
        return ""
    parts = []
    if node.total is not None:
        parts.append(f"{node.done or 0:,} / {node.total:,}")
    parts += [f"{count:,} {said}" for count, said in _also(node) if count]
    if node.status in REASONED:
        parts = [node.status, *parts, *([" ".join(node.note.split())] if node.note else ())]
    if node.seconds is not None and not (node.status in REASONED and node.note):
        parts.append(duration(node.seconds))
    if node.nbytes and node.status not in REASONED:
        parts.append(size(node.nbytes))
    return SEPARATOR.join(parts or [node.status])


def _also(node: NodeView) -> tuple[tuple[int, str], tuple[int, str]]:
    return (node.failed, "failed"), (node.reused, "reused")


def _node_view(node: PlanNode, given: NodeView | None) -> NodeView:
    kind = "tool" if node.for_each is None else "fan_out"
    view = given or NodeView(node.id, kind="delegate" if node.type == "delegate" else kind)
    return dataclasses.replace(
        view,
        title=view.title or node.id,
        tool=view.tool or _tool_text(node),
        each=view.each or _each_text(node),
        guard=view.guard or node.when,
        approve=view.approve or bool(node.approve),
    )


def _tool_text(node: PlanNode) -> str:
    if node.type != "delegate":
        return node.tool or ""
    tools = node.tools or []
    if not tools:  # a step in words, or free to call what there is
        return node.description or "delegate"
    return f"delegate: {' or '.join(tools)}"


def _each_text(node: PlanNode) -> str:
    each = node.for_each
    if each is None:
        return ""
    source = each.source.removeprefix("{artifacts.").removesuffix("}")
    if each.select:
        source += each.select if each.select.startswith("[") else f".{each.select}"
    return f"for each {each.alias} of {source}"


def _sources(node: PlanNode, unwritten: Collection[str]) -> dict[str, str]:
    """Give each node that this one waits for, and how the arrow is drawn."""
    found = {name: INFERRED if name in unwritten else "declared" for name in node.depends_on}
    if node.when:
        called = _read_by_call(node)
        found |= {
            name: f"{INFERRED} {GUARD}" if name in unwritten else GUARD
            for name in _read_by_guard(node.when)
            if name not in called
        }
    return found


def _read_by_guard(text: str) -> list[str]:
    try:
        reads = compile_guard(text).reads
    except GuardError:
        return []  # the check of the plan says so; the drawing goes on without
    return [read[1] for read in reads if len(read) > 1]


def _read_by_call(node: PlanNode) -> set[str]:
    value: Any = [node.args, node.for_each.source if node.for_each else ""]
    return {piece.name for _, piece in references(value) if piece.family in {"artifacts", "nodes"}}
