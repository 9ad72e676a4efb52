"""What a run left on record: its state, what each call stored, and what is to run again."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import ValidationError

from planbench import events as ev
from planbench.errors import PlanbenchError, RecordDamaged
from planbench.plan.edges import edges
from planbench.plan.graph import order
from planbench.runtime.state import replay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from planbench.events import Event
    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.runtime.standing import NodeState

KEPT: Final = frozenset({"ok", "partial", "skipped"})
"""How a node may have ended so that it is not called again."""
_SAME_CALL: Final = {
    *("type", "tool", "args", "when", "facets", "store_as", "approve", "cache"),
    *("instruction", "tools"),
}
_SAME_ITEMS: Final = {"source", "select", "alias", "max_items"}


class NodeRecord:
    """What one node stored: the record of its own result, and those of its items by index.

    ``chosen`` is the record of the call that the model of a delegate chose. ``began`` is the
    ``seq`` at which the node last looked at what it reads, ``stored`` that of the last new
    value or skip of its own; 0 where neither was yet.
    """

    __slots__ = ("began", "chosen", "finished", "items", "stored")

    def __init__(self, began: int = 0, stored: int = 0) -> None:
        self.began = began
        self.stored = stored
        self.chosen: dict[str, Any] | None = None
        self.finished: dict[str, Any] | None = None
        self.items: dict[int, dict[str, Any]] = {}


class History:
    """The events of a run, read: raises RecordDamaged where they cannot be those of a run."""

    def __init__(self, run_id: str, events: Sequence[Event]) -> None:
        self.run_id = run_id
        self.events = list(events)
        self._check_order()
        try:
            self.state = replay(self.events)
            self.nodes = {node_id: NodeRecord() for node_id in self.state.nodes}
            for event in self.events:
                self._read(event)
            self.started: dict[str, Any] = self.events[0].data
            self.tools: dict[str, str] = self._latest("tools") or {}
            self.memory_id: str | None = self._latest("memory_id")
        except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
            raise self._damaged(f"{type(error).__name__}: {error}"[:200]) from error
        except PlanbenchError as error:
            raise self._damaged(error.message[:200]) from error
        if self.state.plan is None or self.state.run_id != run_id:
            raise self._damaged("it is the record of another run")

    @property
    def plan(self) -> ExecutionPlan:
        """The plan that ran, its parameters put in."""
        assert self.state.plan is not None
        return self.state.plan

    @property
    def seconds(self) -> float:
        """Seconds at work, up to the last event where the end is not on record."""
        state = self.state
        if state.started is None or state.finished is not None:
            return state.seconds
        return state.seconds_before + max(0.0, self.events[-1].timestamp - state.started)

    def _check_order(self) -> None:
        if not self.events or self.events[0].type != ev.RUN_STARTED:
            raise self._damaged("it does not begin with the start of a run")
        last = 0
        for event in self.events:
            if event.seq <= last:
                raise self._damaged(f"event {event.seq} stands after event {last}")
            last = event.seq

    def _damaged(self, why: str) -> RecordDamaged:
        return RecordDamaged(
            f"the record of run {self.run_id!r} cannot be read: {why}",
            hint="other runs are not affected; start this one anew",
        )

    def _latest(self, name: str) -> Any:
        found = None
        for event in self.events:
            if event.type in (ev.RUN_STARTED, ev.RUN_CONTINUED) and name in event.data:
                found = event.data[name]
        return found

    def _read(self, event: Event) -> None:
        data = event.data
        match event.type:
            case ev.NODE_STARTED:
                record = self.nodes[data["node_id"]]
                if record.finished is not None or "anew" in data:
                    self.nodes[data["node_id"]] = record = NodeRecord(stored=event.seq)
                record.began = event.seq
            case ev.TOOL_CALLED if "node_id" in data:
                self.nodes[data["node_id"]].chosen = data
            case ev.NODE_FINISHED:
                record = self.nodes[data["node_id"]]
                record.finished = data
                _note(record, event, stores="key" in data)
            case ev.ITEM_FINISHED:
                record = self.nodes[data["node_id"]]
                record.items[data["index"]] = data
                _note(record, event, stores=True)
            case ev.NODE_SKIPPED:
                self.nodes[data["node_id"]] = record = NodeRecord(event.seq)
                _note(record, event, stores=True)
            case ev.RUN_CONTINUED:
                partly = set(data["partly"])
                for node_id in data["reset"]:
                    before = self.nodes[node_id]
                    again = NodeRecord(before.began, before.stored)
                    if node_id in partly:
                        again.items = before.items
                    self.nodes[node_id] = again


def _note(record: NodeRecord, event: Event, *, stores: bool) -> None:
    if "kept" in event.data:  # a child took it over from its parent
        record.began = record.began or event.seq
    elif stores:
        record.stored = event.seq


class Continuation(NamedTuple):
    """What a run that goes on does with each node.

    ``reset`` names those that run, ``partly`` those among them whose stored items stay.
    ``watched`` names the nodes that have ended and run again if one of those that they
    read, which are given with each, stores something new; ``doubtful`` likewise those that
    run in any case, and begin anew then. Those in ``outdated`` begin anew for certain:
    their record is of what they read before. ``reruns`` lists what had
    ended and will be called again, since it, or what it reads, is another now; who reads
    a fan-out whose failed items are tried again is not among them, as these may fail again.
    """

    reset: list[str]
    partly: list[str]
    watched: dict[str, frozenset[str]]
    reruns: list[str]
    doubtful: dict[str, frozenset[str]]
    outdated: frozenset[str]


def continuation(
    states: Mapping[str, NodeState],
    plan: ExecutionPlan,
    changed: AbstractSet[str],
    *,
    again: bool = True,
    records: Mapping[str, NodeRecord] = MappingProxyType({}),
) -> Continuation:
    """Work out what is to run of a plan whose nodes ended as ``states`` tell.

    ``changed`` names the nodes that do something else now: their tool or text is another.
    With ``again`` the failed items of a fan-out that gave the others are tried again.
    ``records`` are those of the nodes, where they are known.
    """
    reset: list[str] = []
    partly: list[str] = []
    reruns: list[str] = []
    watched: dict[str, frozenset[str]] = {}
    doubtful: dict[str, frozenset[str]] = {}
    outdated = _outdated(plan, records)
    moving: set[str] = set()
    certain: set[str] = set()
    nodes = {node.id: node for node in plan.nodes}
    for node_id in order({node.id: node.depends_on for node in plan.nodes}):
        node = nodes[node_id]
        state = states.get(node.id)
        ended = state is not None and state.status in KEPT
        is_changed = node.id in changed
        reads = moving.intersection(_reads(node)) if moving else None
        is_old = node.id in outdated
        tried = again and state is not None and state.failed
        if not ended or is_changed or is_old or tried:
            reset.append(node.id)
            if state is not None and state.item_keys and not is_changed:
                partly.append(node.id)
            if reads and node.id in records and records[node.id].began:
                doubtful[node.id] = frozenset(reads)
            moving.add(node.id)
            if ended and (is_changed or is_old):
                certain.add(node.id)
                reruns.append(node.id)
            continue
        if reads:
            watched[node.id] = frozenset(reads)
            moving.add(node.id)
            if certain & reads:
                certain.add(node.id)
                reruns.append(node.id)
    return Continuation(reset, partly, watched, reruns, doubtful, frozenset(outdated))


def _outdated(plan: ExecutionPlan, records: Mapping[str, NodeRecord]) -> set[str]:
    """Name the nodes whose record is older than that of a node which they read.

    So it is where a run ended between a new result and those that were to read it.
    """
    stored = {node_id: record.stored for node_id, record in records.items() if record.stored}
    found = set()
    for node in plan.nodes:
        began = records[node.id].began if node.id in records else 0
        if began and any(stored.get(read, 0) > began for read in _reads(node)):
            found.add(node.id)
    return found


def _reads(node: PlanNode) -> list[str]:
    """Name the nodes that a node reads; a delegate is shown the refs of all that it waits for."""
    return node.depends_on if node.type == "delegate" else edges(node.model_dump(by_alias=True))


def edited(old: ExecutionPlan, new: ExecutionPlan) -> set[str]:
    """Name the nodes of the new plan that call something else than in the old one, or are new.

    Limits, retries, descriptions and the order of nodes change no result.
    """
    known = {node.id: node for node in old.nodes}
    return {node.id for node in new.nodes if not _same(known.get(node.id), node)}


def _same(old: PlanNode | None, new: PlanNode) -> bool:
    return old is not None and _call(old) == _call(new)


def _call(node: PlanNode) -> str:
    """Write what decides a node's result, so that 1, 1.0 and true are told apart."""
    record = node.model_dump(mode="json", include=_SAME_CALL)
    if node.for_each is not None:
        record["for_each"] = node.for_each.model_dump(mode="json", include=_SAME_ITEMS)
    return json.dumps(record, sort_keys=True)
