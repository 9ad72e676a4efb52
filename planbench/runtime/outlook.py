"""What a continuation of a run would call, told before anything is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.runtime.history import continuation, edited
from planbench.runtime.recovery import Recovery
from planbench.runtime.standing import RESUMABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.runtime.engine import Engine
    from planbench.runtime.history import Continuation, History
    from planbench.runtime.run import Run
    from planbench.runtime.standing import NodeState

SHOWN: Final = 20


class Outlook(NamedTuple):
    """A run that can be continued: how many of its calls are left, and which.

    A fan-out counts its items, one that was not opened yet as a single call. ``again`` names
    what had ended and is called again, since it, or what it reads, is another now;
    ``perhaps`` what is, if one of those that it reads gives something else.
    """

    run_id: str
    plan: ExecutionPlan
    status: str
    left: int
    total: int
    calls: Mapping[str, str]
    again: tuple[str, ...]
    perhaps: tuple[str, ...]

    @property
    def calls_left(self) -> str:
        """The calls that are left, as ``3 of 10 calls left``."""
        return f"{self.left:,} of {self.total:,} calls left"

    def text(self) -> str:
        """Say what will be called, a line for each kind of reason."""
        said = [f"{name} ({what})" if what else name for name, what in self.calls.items()]
        head = f"run {self.run_id} of plan {self.plan.name!r} is {self.status}"
        # the steps of an agent are known when it has made them
        lines = [f"{head}: {self.calls_left}" if self.total else head]
        if said:
            lines.append(f"to be called: {_listed(said)}")
        if self.again:
            lines.append(
                f"called again, since it or what it reads has changed: {_listed(self.again)}"
            )
        if self.perhaps:
            lines.append(f"called again only if what it reads changes: {_listed(self.perhaps)}")
        return "\n".join(lines)


def outlook(engine: Engine, history: History, plan: ExecutionPlan | None = None) -> Outlook:
    """Work out how a run would be continued, with its own plan or a mended one; calls nothing."""
    changed = set() if plan is None else edited(history.plan, plan)
    plan = history.plan if plan is None else plan
    way = Recovery(engine).way(history, plan, changed)
    return _outlook(history.run_id, plan, history.state.status, history.state.nodes, way)


def outlook_of(run: Run) -> Outlook | None:
    """Work out how an ended run would be continued, tools unchanged; None where nothing is left."""
    state = run.state
    if state.agent is not None or run.status not in RESUMABLE or not state.lineage.checkpoint:
        return None
    way = continuation(state.nodes, run.plan, set())
    return _outlook(run.run_id, run.plan, run.status, state.nodes, way)


def _outlook(
    run_id: str,
    plan: ExecutionPlan,
    status: str,
    states: Mapping[str, NodeState],
    way: Continuation,
) -> Outlook:
    again, partly = set(way.reset), set(way.partly) - way.outdated
    left = total = 0
    calls: dict[str, str] = {}
    for node in plan.nodes:
        state = states.get(node.id)
        whole, kept = _counts(node, state, partly=node.id in partly)
        total += whole
        if node.id in again:
            left += whole - kept
            calls[node.id] = _said(node, state, whole, kept)
    reruns = tuple(way.reruns)
    perhaps = tuple(name for name in way.watched if name not in reruns)
    return Outlook(run_id, plan, status, left, total, calls, reruns, perhaps)


def _counts(node: PlanNode, state: NodeState | None, *, partly: bool) -> tuple[int, int]:
    """Give the calls of a node, and how many of them are not made again."""
    if node.for_each is None or state is None or state.total is None:
        return 1, 0
    return state.total, len(state.item_keys or ()) if partly else 0


def _said(node: PlanNode, state: NodeState | None, whole: int, kept: int) -> str:
    if node.for_each is None:
        return ""
    if state is None or state.total is None:
        return "its items are not known yet"
    return f"{whole - kept:,} of {whole:,} items"


def _listed(names: Any) -> str:
    shown = list(names)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more
