"""The state of a run: a fold over its events, live and when it is read back."""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING, Final

from planbench import events as ev
from planbench.plan.manifest import ItemCounts, PlanRunManifest
from planbench.plan.model import ExecutionPlan
from planbench.runtime import agent_state
from planbench.runtime.budget import Spend
from planbench.runtime.standing import (
    BLOCKED_REASON,
    FAILED,
    MAX_ERRORS,
    MAX_OUTPUT,
    RESUMABLE,
    Lineage,
    NodeState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planbench.events import Event
    from planbench.plan.manifest import RunStatus


class RunState:
    """How a whole run stands; changed by ``apply`` alone, one event after the other.

    ``refusal`` says why the host that reads a run back cannot continue it.
    """

    def __init__(self, node_ids: Iterable[str] = ()) -> None:
        self.run_id = ""
        self.plan: ExecutionPlan | None = None
        self.status = "pending"
        self.started: float | None = None
        self.finished: float | None = None
        self.nodes: dict[str, NodeState] = {node: NodeState(node) for node in node_ids}
        self.nodes_done = 0
        self.errors = 0
        self.calls = 0
        self.spent = Spend()
        self.reason: str | None = None
        self.code: str | None = None
        self.lineage = Lineage()
        self.refusal: str | None = None
        self.seconds_before = 0.0
        self.agent: agent_state.AgentState | None = None

    def apply(self, event: Event) -> None:
        """Take in one event."""
        apply = APPLY.get(event.type)
        if apply is not None:
            apply(self, event)

    @property
    def seconds(self) -> float:
        """Seconds at work: from the start to the end, of each part of a run that was continued."""
        if self.started is None or self.finished is None:
            return self.seconds_before
        return self.seconds_before + max(0.0, self.finished - self.started)

    @property
    def total_bytes(self) -> int:
        """Bytes stored by all nodes."""
        return sum(node.nbytes for node in self.nodes.values())

    def outcome(self) -> RunStatus:
        """Give the status by the rule: completed, partial or failed."""
        statuses = {node.status for node in self.nodes.values()}
        if "partial" not in statuses and not statuses & FAILED:
            return "completed"
        return "partial" if statuses & {"ok", "partial", "skipped"} else "failed"

    @property
    def _resumable(self) -> bool:
        return self.lineage.checkpoint and self.status in RESUMABLE

    def _recovery_reason(self) -> str | None:
        """Say why this host cannot go on with a run that can be continued, else how it ended."""
        if self._resumable and self.refusal is not None:
            return self.refusal
        return self.reason if self.code is None else f"{self.code}: {self.reason}"

    def _usage(self) -> dict[str, float]:
        """Count the tool calls of a plan, and what its delegates asked; no cost where one has no price."""
        spent = self.spent
        counts = {
            "calls": self.calls,
            "model_calls": spent.calls,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "cost": spent.cost,
        }
        return {name: float(count) for name, count in counts.items() if count is not None}

    def manifest(self) -> PlanRunManifest:
        """Give the manifest as it stands now; nodes that never started are left out."""
        plan = self.plan
        lineage = self.lineage
        refs = [node.ref() for node in self.nodes.values() if node.ended]
        status = "running" if self.status in ("pending", "running") else self.status
        status = agent_state.MANIFEST_STATUS.get(status, status)
        return PlanRunManifest(
            plan_name=plan.name if plan else "",
            objective=plan.objective if plan else "",
            session_id=self.run_id,
            artifacts=refs,
            nodes_total=len(self.nodes),
            nodes_ok=sum(ref.status == "ok" for ref in refs),
            nodes_skipped=sum(ref.status == "skipped" for ref in refs),
            nodes_failed=sum(ref.status in ("error", "partial") for ref in refs),
            duration_seconds=self.seconds,
            total_bytes_stored=self.total_bytes,
            status=status,
            items={
                node.node_id: ItemCounts(
                    ok=node.done - node.reused,
                    failed=node.failed,
                    reused=node.reused,
                    skipped=max(0, (node.total or 0) - node.done - node.failed),
                )
                for node in self.nodes.values()
                if node.total is not None
            },
            usage=self.agent.usage if self.agent else self._usage(),
            run_id=self.run_id,
            root_run_id=lineage.root or self.run_id,
            parent_run_id=lineage.parent,
            checkpoint_enabled=lineage.checkpoint,
            artifact_mode=lineage.artifact_mode,
            resume_level=lineage.resume_level,
            resumable=self._resumable and self.refusal is None,
            recovery_reason=self._recovery_reason(),
            repair_attempts_used=lineage.repairs,
            max_repair_rounds=lineage.max_repairs,
            active_child_run_id=lineage.child,
            reruns=list(lineage.reruns),
        )


def replay(events: Iterable[Event]) -> RunState:
    """Fold events into the state that the run had after the last of them."""
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def _run_started(state: RunState, event: Event) -> None:
    data = event.data
    state.run_id = event.run_id
    state.status = "running"
    state.started = event.timestamp
    lineage = state.lineage
    lineage.root = data.get("root_run_id")
    lineage.parent = data.get("parent_run_id")
    lineage.reruns = dict.fromkeys(data.get("reruns", ()))
    lineage.repairs = data.get("attempt", data.get("repairs", 0))
    if "recovery" in data:
        recovery = data["recovery"]
        lineage.checkpoint = recovery["checkpoint"]
        lineage.artifact_mode = recovery["artifact_mode"]
        lineage.resume_level = recovery["resume_level"]
        lineage.max_repairs = recovery["max_repairs"]
    if "algorithm" in data:
        agent_state.begin(state, data)
    elif state.plan is None:
        state.plan = ExecutionPlan.model_validate(data["plan"])
        state.nodes = {node.id: NodeState(node.id) for node in state.plan.nodes}


def _run_continued(state: RunState, event: Event) -> None:
    """Open the run again: what failed or never ran waits, with the items that are on record."""
    data = event.data
    state.status = "running"
    state.seconds_before = data["seconds"]
    state.started, state.finished = event.timestamp, None
    state.reason = state.code = None
    partly = set(data["partly"])
    for node_id in data["reset"]:
        state.nodes[node_id] = state.nodes[node_id].reopened(keep_items=node_id in partly)
    state.nodes_done = sum(node.ended for node in state.nodes.values())
    state.errors = 0
    state.lineage.reruns = dict.fromkeys(data["reruns"])
    agent_state.go_on(state)


def _repair_reserved(state: RunState, event: Event) -> None:
    state.lineage.repairs = max(state.lineage.repairs, event.data["attempt"])


def _child_started(state: RunState, event: Event) -> None:
    if event.data.get("continues"):
        state.lineage.child = event.data["run_id"]


def _run_ended(state: RunState, event: Event) -> None:
    state.status = event.data["status"]
    state.finished = event.timestamp
    state.reason = event.data.get("reason")
    state.code = event.data.get("code")
    for node_id, why in event.data.get("cancelled", {}).items():
        node = state.nodes[node_id]
        node.status = "cancelled"
        node.reason = why
        node.finished = event.timestamp
        state.nodes_done += 1
    if state.agent is not None:
        agent_state.end(state, event)


def _node_started(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    if node.finished is not None or "anew" in event.data:  # what it read has changed
        node = _reopen(state, node)
        node.rounds += 1
    node.status = "running"
    node.started = event.timestamp
    if "total" in event.data:
        node.total = event.data["total"]


def _reopen(state: RunState, node: NodeState) -> NodeState:
    state.nodes_done -= node.ended
    if node.ended or node.item_keys:
        state.lineage.reruns[node.node_id] = None
    state.nodes[node.node_id] = again = node.reopened(keep_items=False)
    return again


def _node_progress(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    if "total" in event.data:
        node.total = event.data["total"]
    if "warning" in event.data and len(node.warnings) < MAX_ERRORS:
        node.warnings = [*node.warnings, event.data["warning"]]
    if "note" in event.data and "index" not in event.data:
        node.notes = {**node.notes, **event.data["note"]}


def _node_finished(state: RunState, event: Event) -> None:
    data = event.data
    node = state.nodes[data["node_id"]]
    node.status = data["status"]
    node.finished = event.timestamp
    state.nodes_done += 1
    if "key" in data:
        node.store_key = data["key"]
        node.nbytes = data["bytes"]
        node.done = 1
        if "kept" not in data:
            state.calls += 1
    node.entry_type = data.get("entry_type")
    if "facets" in data:
        node.facets = data["facets"]


def _node_failed(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    node.status = "error"
    node.finished = event.timestamp
    state.nodes_done += 1
    state.errors += 1
    state.calls += event.data.get("calls", 0)
    if "facets" in event.data:
        node.facets = event.data["facets"]
    node.errors = [event.data["error"], *node.errors][:MAX_ERRORS]


def _node_skipped(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    if node.finished is not None or node.item_keys:
        node = _reopen(state, node)
    node.status = "skipped"
    node.finished = event.timestamp
    node.reason = event.data["reason"]
    state.nodes_done += 1


def _node_blocked(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    if node.finished is not None:
        node = _reopen(state, node)
    node.status = "blocked"
    node.finished = event.timestamp
    node.reason = BLOCKED_REASON
    state.nodes_done += 1
    state.errors += 1


def _node_output(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    node.output = (node.output + event.data["text"])[: MAX_OUTPUT + 100]


def _item_finished(state: RunState, event: Event) -> None:
    data = event.data
    node = state.nodes[data["node_id"]]
    node.done += 1
    node.nbytes += data["bytes"]
    if node.item_keys is None:
        node.item_keys = {}
    node.item_keys[data["index"]] = data["key"]
    if "reused" in data:
        node.reused += 1
    elif "kept" not in data:
        state.calls += 1


def _item_failed(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    node.failed += 1
    state.calls += event.data.get("calls", 1)
    if "error" in event.data:  # those of the first items, whichever of them fails first
        index = event.data["index"]
        place = bisect(node.lost, index)
        if place < MAX_ERRORS:
            before, after = node.errors[:place], node.errors[place : MAX_ERRORS - 1]
            node.errors = [*before, event.data["error"], *after]
            node.lost = [*node.lost[:place], index, *node.lost[place : MAX_ERRORS - 1]]


def _node_retried(state: RunState, event: Event) -> None:
    state.calls += event.data.get("calls", 1)


def _tool_called(state: RunState, event: Event) -> None:
    """Note what a delegate chose; the calls of an algorithm name no node."""
    node = state.nodes.get(event.data.get("node_id", ""))
    if node is not None:
        node.chosen = str(event.data["tool"])


APPLY: Final = {
    **agent_state.APPLY,
    ev.RUN_STARTED: _run_started,
    ev.RUN_FINISHED: _run_ended,
    ev.RUN_CANCELLED: _run_ended,
    ev.RUN_INTERRUPTED: _run_ended,
    ev.RUN_CONTINUED: _run_continued,
    ev.REPAIR_RESERVED: _repair_reserved,
    ev.CHILD_STARTED: _child_started,
    ev.NODE_STARTED: _node_started,
    ev.NODE_PROGRESS: _node_progress,
    ev.NODE_FINISHED: _node_finished,
    ev.NODE_FAILED: _node_failed,
    ev.NODE_SKIPPED: _node_skipped,
    ev.NODE_BLOCKED: _node_blocked,
    ev.NODE_OUTPUT: _node_output,
    ev.NODE_RETRIED: _node_retried,
    ev.TOOL_CALLED: _tool_called,
    ev.ITEM_FINISHED: _item_finished,
    ev.ITEM_FAILED: _item_failed,
}
