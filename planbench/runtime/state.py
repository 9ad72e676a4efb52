"""The state of a run: a fold over its events, live and when it is read back."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.plan.manifest import ArtifactRef, ItemCounts, PlanRunManifest
from planbench.plan.model import ExecutionPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planbench.events import Event
    from planbench.plan.manifest import RunStatus, Status

MAX_ERRORS: Final = 20
MAX_ERROR_LENGTH: Final = 300
MAX_OUTPUT: Final = 20_000
BLOCKED_REASON: Final = "node never dispatched: blocked by a failed dependency"

ENDED: Final = frozenset({"ok", "partial", "error", "blocked", "skipped", "cancelled"})
_NO_FACETS: Final[Mapping[str, Any]] = MappingProxyType({})
FAILED: Final = frozenset({"error", "blocked", "cancelled"})


class NodeState:
    """How one node stands: counts, times in epoch seconds, bytes, errors, keys, facets.

    ``status`` is waiting, running, ok, partial, error, blocked, skipped or cancelled.
    ``total`` is None for a node that makes one call, and until a fan-out is opened.
    """

    # Defaults of the class, so that making the state of a node stores nothing but its id.
    status: str = "waiting"
    done: int = 0
    failed: int = 0
    reused: int = 0
    total: int | None = None
    started: float | None = None
    finished: float | None = None
    nbytes: int = 0
    errors: Sequence[str] = ()
    facets: Mapping[str, Any] = _NO_FACETS
    store_key: str | None = None
    item_keys: dict[int, str] | None = None
    entry_type: str | None = None
    reason: str | None = None
    output: str = ""
    warnings: Sequence[str] = ()

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id

    @property
    def seconds(self) -> float | None:
        """Seconds from start to end; None while either is missing."""
        if self.started is None or self.finished is None:
            return None
        return max(0.0, self.finished - self.started)

    @property
    def keys(self) -> list[str]:
        """The keys under which the results are stored; a fan-out's in item order."""
        if self.store_key is not None:
            return [self.store_key]
        keys = self.item_keys
        return [] if keys is None else [keys[index] for index in sorted(keys)]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the node."""
        return self.status in ENDED

    def ref(self) -> ArtifactRef:
        """Give the small published face of the node's result."""
        errors = list(self.errors)
        if self.reason is not None:
            errors.insert(0, self.reason)
        status: Status = "error"
        if self.status in ("ok", "partial", "skipped"):
            status = self.status  # type: ignore[assignment]  # narrowed by the line above
        return _new_ref(
            {
                "node_id": self.node_id,
                "keys": self.keys,
                "entry_type": self.entry_type,
                "facets": dict(self.facets),
                "status": status,
                "item_count": self.done if self.total is not None else None,
                "errors": errors[:MAX_ERRORS],
                "bytes_stored": self.nbytes,
            }
        )


_REF_FIELDS: Final = set(ArtifactRef.model_fields)


def _new_ref(values: dict[str, Any]) -> ArtifactRef:
    """Make a ref from values that are right by construction, at a fifth of validation's price."""
    ref = ArtifactRef.__new__(ArtifactRef)
    put = object.__setattr__
    put(ref, "__dict__", values)
    put(ref, "__pydantic_fields_set__", _REF_FIELDS)
    put(ref, "__pydantic_extra__", None)
    put(ref, "__pydantic_private__", None)
    return ref


class RunState:
    """How a whole run stands; changed by ``apply`` alone, one event after the other."""

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
        self.reason: str | None = None

    def apply(self, event: Event) -> None:
        """Take in one event."""
        apply = APPLY.get(event.type)
        if apply is not None:
            apply(self, event)

    @property
    def seconds(self) -> float:
        """Seconds from the start to the end, or to the start while it runs."""
        if self.started is None or self.finished is None:
            return 0.0
        return max(0.0, self.finished - self.started)

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

    def manifest(self) -> PlanRunManifest:
        """Give the manifest as it stands now; nodes that never started are left out."""
        plan = self.plan
        refs = [node.ref() for node in self.nodes.values() if node.ended]
        status = "running" if self.status in ("pending", "running") else self.status
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
            usage={"calls": float(self.calls), "cost": 0.0},
            run_id=self.run_id,
            root_run_id=self.run_id,
        )


def replay(events: Iterable[Event]) -> RunState:
    """Fold events into the state that the run had after the last of them."""
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def _run_started(state: RunState, event: Event) -> None:
    state.run_id = event.run_id
    state.status = "running"
    state.started = event.timestamp
    if state.plan is None:
        state.plan = ExecutionPlan.model_validate(event.data["plan"])
        state.nodes = {node.id: NodeState(node.id) for node in state.plan.nodes}


def _run_ended(state: RunState, event: Event) -> None:
    state.status = event.data["status"]
    state.finished = event.timestamp
    state.reason = event.data.get("reason")
    for node_id, why in event.data.get("cancelled", {}).items():
        node = state.nodes[node_id]
        node.status = "cancelled"
        node.reason = why
        node.finished = event.timestamp
        state.nodes_done += 1


def _node_started(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    node.status = "running"
    node.started = event.timestamp
    if "total" in event.data:
        node.total = event.data["total"]


def _node_progress(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    if "total" in event.data:
        node.total = event.data["total"]
    if "warning" in event.data and len(node.warnings) < MAX_ERRORS:
        node.warnings = [*node.warnings, event.data["warning"]]


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
    node.status = "skipped"
    node.finished = event.timestamp
    node.reason = event.data["reason"]
    state.nodes_done += 1


def _node_blocked(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
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
    else:
        state.calls += 1


def _item_failed(state: RunState, event: Event) -> None:
    node = state.nodes[event.data["node_id"]]
    node.failed += 1
    state.calls += event.data.get("calls", 1)
    if "error" in event.data and len(node.errors) < MAX_ERRORS:
        node.errors = [*node.errors, event.data["error"]]


def _node_retried(state: RunState, event: Event) -> None:
    del event
    state.calls += 1


APPLY: Final = {
    ev.RUN_STARTED: _run_started,
    ev.RUN_FINISHED: _run_ended,
    ev.RUN_CANCELLED: _run_ended,
    ev.NODE_STARTED: _node_started,
    ev.NODE_PROGRESS: _node_progress,
    ev.NODE_FINISHED: _node_finished,
    ev.NODE_FAILED: _node_failed,
    ev.NODE_SKIPPED: _node_skipped,
    ev.NODE_BLOCKED: _node_blocked,
    ev.NODE_OUTPUT: _node_output,
    ev.NODE_RETRIED: _node_retried,
    ev.ITEM_FINISHED: _item_finished,
    ev.ITEM_FAILED: _item_failed,
}
