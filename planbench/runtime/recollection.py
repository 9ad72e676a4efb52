"""The runs on record: found by the start of their names, read back, and shown as they ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from planbench import events as ev
from planbench.errors import (
    ArtifactMissing,
    ArtifactNotFound,
    CommandError,
    RunRefused,
)
from planbench.events import Event
from planbench.memory.entries import Entry, artifact_parts
from planbench.plan.structure import suggestion
from planbench.runtime.outlook import Outlook, outlook
from planbench.runtime.recovery import GONE
from planbench.runtime.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planbench.checkpoints import RunRecord
    from planbench.memory.artifacts import ArtifactStore
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.engine import Engine
    from planbench.runtime.history import History

LOOKED_AT: Final = 20
"""The latest interrupted runs, whose journals are read to say what is left of them."""
NAMED: Final = 10
STATUSES: Final = (
    "running",
    "waiting",
    "completed",
    "success",
    "partial",
    "failed",
    "cancelled",
    "interrupted",
    "budget_exceeded",
)
"""What a run can be: ``success`` is one of an algorithm, ``completed`` and ``partial`` are those of plans."""
_PREFIX: Final = "run_"


class Recollection:
    """What one engine has on record. ``records`` and ``interrupted`` are as of the latest look."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.records: list[RunRecord] = []
        self.interrupted: list[Outlook] = []

    async def look(self) -> list[RunRecord]:
        """Read the list of runs, the oldest first, and what is left of those that were interrupted."""
        self.records = await self._engine.runs()
        found = []
        broken_off = [one for one in self.records if one.status == "interrupted"]
        for record in broken_off[-LOOKED_AT:]:
            try:
                history = await self._engine.history(record.run_id)
            except RunRefused:
                continue  # its record is damaged: the list says so
            if history.run_id == record.run_id and history.state.agent is None:
                found.append(outlook(self._engine, history))
        self.interrupted = found
        return self.records

    def settled(self, run_id: str) -> None:
        """Take a run off the interrupted ones: it is being continued."""
        self.interrupted = [one for one in self.interrupted if one.run_id != run_id]

    async def find(self, name: str) -> str:
        """Give the id of the run on record that a name begins; raises CommandError."""
        ids = [record.run_id for record in await self._engine.runs()]
        if name in ids:
            return name
        found = matching(ids, name)
        if len(found) == 1:
            return found[0]
        raise no_run(name, found, ids)

    async def outlook(self, run_id: str, plan: ExecutionPlan | None = None) -> Outlook:
        """Say what a continuation of a run would call; raises RunRefused."""
        history = await self._engine.history(run_id)
        if (
            history.state.agent is not None
        ):  # it runs again from its record, which tells what is left
            return Outlook(history.run_id, history.plan, history.state.status, 0, 0, {}, (), ())
        return outlook(self._engine, history, plan)

    async def read(self, run_id: str) -> RecordedRun:
        """Read a run back, or the newest of its children; raises RunRefused."""
        history = await self._engine.history(run_id)
        if history.state.status == "interrupted":
            _break_off(history)
        return RecordedRun(history, self._engine.artifacts())


class RecordedRun:
    """A run as its record tells it: its state, its events, and what it stored where that is kept."""

    def __init__(self, history: History, artifacts: ArtifactStore | None) -> None:
        self.run_id = history.run_id
        self.history = history
        self.run = Run(history.plan, history.run_id, history)
        if history.state.agent is None:
            self.run.bodies = dict(_bodies(history, artifacts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def notes(self) -> list[str]:
        """Say what a reader should know: which results are gone."""
        gone = [one for one in artifacts_of(self.history, in_memory=False) if one.kept == "gone"]
        if not gone:
            return []
        names = ", ".join(one.key for one in gone[:NAMED])
        return [f"kept in memory only, and gone with its process: {names}"]

    def value(self, name: str) -> Any:
        """Give a result by its key or by the id of a node.

        Raises ArtifactNotFound, and StoreError for one that was not kept or is damaged.
        """
        return value_of(self.run, name)


class Artifact(NamedTuple):
    """One stored value of a run. ``kept`` says where: in durable artifacts, in memory, or gone."""

    key: str
    node: str
    item: int | None
    nbytes: int
    version: int
    kept: str


def artifacts_of(history: History, *, in_memory: bool) -> list[Artifact]:
    """List what a run has stored, in the order of its nodes and items."""
    found = []
    for node_id, index, data in _stored(history):
        kept = "durable" if "artifact" in data else "memory" if in_memory else "gone"
        found.append(Artifact(data["key"], node_id, index, data["bytes"], data["version"], kept))
    return found


def value_of(run: Run, name: str) -> Any:
    """Give a result of a run by its key or by the id of a node; raises ArtifactNotFound."""
    keys = {
        entry.key: entry
        for body in run.bodies.values()
        for entry in (body if isinstance(body, list) else [body])
        if entry is not None
    }
    if name in keys:
        return keys[name].value
    if name in run.bodies:
        return run.value(name)
    raise ArtifactNotFound(name, list(keys))


def matching(ids: Sequence[str], name: str) -> list[str]:
    """Give the ids that begin with a name, with or without ``run_``."""
    found = [one for one in ids if one.startswith(name)]
    return found or [one for one in ids if one.removeprefix(_PREFIX).startswith(name)]


def no_run(name: str | None, found: Sequence[str], ids: Sequence[str]) -> CommandError:
    """Make the error for a name that is that of no run, or of several; ``ids`` are oldest first."""
    latest = list(reversed(found or ids))
    known = ", ".join(latest[:NAMED]) or "none yet"
    if len(latest) > NAMED:
        known += f" and {len(latest) - NAMED} older ones"
    if found:
        return CommandError(f"{name!r} is the start of {len(found)} runs", hint=f"runs: {known}")
    return CommandError(
        f"there is no run {name!r}" if name else "nothing has run yet", hint=f"runs: {known}"
    )


def check_status(status: str) -> None:
    """Refuse what is the status of no run; raises CommandError."""
    if status not in STATUSES:
        raise CommandError(
            f"no run is ever {status!r}",
            hint=suggestion(status, STATUSES) or f"it is one of {', '.join(STATUSES)}",
        )


def _break_off(history: History) -> None:
    """Let a run whose process has ended have ended where its record does."""
    state, last = history.state, history.events[-1]
    if state.finished is not None:
        return
    running = [node.node_id for node in state.nodes.values() if node.status == "running"]
    data = {"status": "interrupted", "cancelled": dict.fromkeys(running, GONE), "reason": GONE}
    state.apply(Event(last.seq + 1, last.run_id, last.timestamp, ev.RUN_INTERRUPTED, data))


def _stored(history: History) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    for node_id, record in history.nodes.items():
        if record.finished is not None and "key" in record.finished:
            yield node_id, None, record.finished
        for index in sorted(record.items):
            yield node_id, index, record.items[index]


def _bodies(
    history: History, artifacts: ArtifactStore | None
) -> Iterator[tuple[str, Entry | list[Entry | None]]]:
    tools = {node.id: node.tool for node in history.plan.nodes}
    fans: dict[str, list[Entry | None]] = {
        node.node_id: [None] * node.total
        for node in history.state.nodes.values()
        if node.total is not None
    }
    for node_id, index, data in _stored(history):
        entry = _entry(node_id, tools[node_id], index, data, artifacts)
        if index is None:
            yield node_id, entry
        elif node_id in fans and index < len(fans[node_id]):
            fans[node_id][index] = entry
    yield from fans.items()


def _entry(
    node_id: str,
    tool: str | None,
    index: int | None,
    data: dict[str, Any],
    artifacts: ArtifactStore | None,
) -> Entry:
    memory_id, number = "record", 1
    if "artifact_id" in data:
        memory_id, number = artifact_parts(data["artifact_id"], data["version"])
    reader: Any = partial(_read, data, artifacts)
    return RecordedEntry(
        data["key"], reader, node_id, tool, index, data["bytes"], 0.0, data["version"],
        memory_id, number, "", data.get("digest"),
    )  # fmt: skip


class RecordedEntry(Entry):
    """A result whose value is read where it is kept, each time that it is asked for."""

    __slots__ = ("_source",)

    @property
    def value(self) -> Any:
        """The value; raises StoreError where it cannot be read."""
        return self._source()

    @value.setter
    def value(self, source: Any) -> None:
        self._source = source


def _read(data: dict[str, Any], artifacts: ArtifactStore | None) -> Any:
    if artifacts is None or "artifact" not in data:
        raise ArtifactMissing(f"{data['key']!r} was kept in the memory of the process that ran it")
    from planbench.memory.artifacts import ArtifactRecord  # noqa: PLC0415 - opens fsspec, which few runs need

    return artifacts.read(ArtifactRecord.from_dict(data["artifact"]))
