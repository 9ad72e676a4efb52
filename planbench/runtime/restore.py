"""Puts the values of an earlier run back: from the live memory, else from durable artifacts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from planbench.errors import (
    ArtifactConflict,
    ArtifactDamaged,
    ArtifactTooLarge,
    ConfigurationError,
    RunRefused,
    StoreError,
)
from planbench.memory.sizes import measure
from planbench.plan.placeholders import references

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from planbench.memory import WorkingMemory
    from planbench.memory.artifacts import ArtifactRecord, ArtifactStore
    from planbench.memory.entries import Entry
    from planbench.memory.nodes import Items
    from planbench.runtime.history import Continuation, History
    from planbench.runtime.recorder import Recorder

    KeptItems = dict[int, tuple[Entry, dict[str, Any]]]
    """The items of a fan-out that are not called again: each value with its record."""


_RAISE: Final = (
    "raise it: PlanRecoveryConfig(max_restore_bytes=...), or --max-bytes of the command line"
)


class Keeping(NamedTuple):
    """How a run is kept while it happens; ``journal`` is there when calls wait for the store.

    Where values are not ``required`` to be durable, one that cannot be stays in memory.
    """

    journal: Recorder | None
    artifacts: ArtifactStore | None
    required: bool = True


class Resumed(NamedTuple):
    """What a continued run starts from: bodies by node, items of fan-outs that may run, what is to be done."""

    bodies: dict[str, Entry | list[Entry | None]]
    items: dict[str, KeptItems]
    way: Continuation


class _Wanted(NamedTuple):
    """One stored value that a continued run stands on; ``item`` is None for a plain node's."""

    node: str
    item: int | None
    data: dict[str, Any]

    @property
    def place(self) -> tuple[str, int | None]:
        """What tells it from all others."""
        return self.node, self.item

    def __str__(self) -> str:
        if self.item is None:
            return f"node {self.node!r}"
        return f"item {self.item} of node {self.node!r}"


class Source(Protocol):
    """Where bodies are read from, by their records."""

    def read(self, record: ArtifactRecord, max_bytes: int | None = None) -> Any:
        """Give a value; raises StoreError where it is missing or damaged."""
        ...


class Restorer:
    """Finds the exact version of every value that stays; what is missing refuses the run."""

    _lost = "it was kept in the memory of a process that is gone"
    _odd = "it could not be kept as it is, and the process that had it is gone"
    _remedy = "a run outlives its process with a durable store, durable artifacts and a scope"
    _damage = "the stored file is damaged or was changed"

    def __init__(
        self,
        history: History,
        memory: WorkingMemory,
        artifacts: Source | None,
        limit: int,
    ) -> None:
        self._history = history
        self._memory = memory
        self._artifacts = artifacts
        self._limit = limit
        self._tools = {node.id: node.tool for node in history.plan.nodes}
        for node_id, record in history.nodes.items():
            if record.chosen is not None:
                self._tools[node_id] = record.chosen["tool"]
        self._begun: dict[str, Items] = {}

    async def restore(
        self, way: Continuation, aside: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> Resumed:
        """Give the values of all that is not run again; ``aside`` reads files off the loop.

        Raises RunRefused: artifacts_unavailable, artifact_alias_conflict,
        restore_budget_exceeded. Nothing has changed then but what was restored before.
        """
        wanted = list(self._wanted(way))
        held = {one.place: self._held(one) for one in wanted}
        missing = [one for one in wanted if held[one.place] is None]
        self._check(missing)
        for one in missing:
            held[one.place] = self._put_back(one, await aside(partial(self._read, one)))
        for one in wanted:
            entry = held[one.place]
            if entry is not None and one.item is not None and one.node in self._begun:
                self._memory.reuse(entry, one.node, one.item, self._begun[one.node])
        return self._arranged(way, [(one, held[one.place]) for one in wanted])

    def _wanted(self, way: Continuation) -> Iterator[_Wanted]:
        again, partly = set(way.reset), set(way.partly)
        for node_id, record in self._history.nodes.items():
            if node_id in again and node_id not in partly:
                continue
            finished = record.finished
            if finished is not None and "key" in finished and node_id not in again:
                yield _Wanted(node_id, None, finished)
            for index in sorted(record.items):
                yield _Wanted(node_id, index, record.items[index])

    def _held(self, one: _Wanted) -> Entry | None:
        data = one.data
        if "artifact_id" in data:
            return self._memory.entry(data["artifact_id"], data["version"])
        return self._memory.entry_of(data["key"], data["version"])

    def _check(self, missing: list[_Wanted]) -> None:
        """Refuse before anything is read: what is not there, too much, two for one key."""
        total = 0
        keys: dict[str, _Wanted] = {}
        for one in missing:
            record = self._record(one)
            if record is None or self._artifacts is None:
                raise self._not_kept(one)
            total += record.size
            other = keys.setdefault(one.data["key"], one)
            if other is not one:
                text = f"{other} and {one} both stored under {one.data['key']!r}"
                raise RunRefused("artifact_alias_conflict", text, node_id=one.node)
        if total > self._limit:
            raise RunRefused(
                "restore_budget_exceeded",
                f"run {self._history.run_id!r} needs {total} bytes read back, and max_restore_bytes is {self._limit}",
                hint=_RAISE,
            )

    def _record(self, one: _Wanted) -> ArtifactRecord | None:
        try:
            return _artifact(one)
        except StoreError as error:
            raise self._unreadable(one, error) from error

    def _read(self, one: _Wanted) -> Any:
        record = self._record(one)
        assert record is not None
        assert self._artifacts is not None
        try:
            return self._artifacts.read(record, self._limit)
        except (StoreError, ConfigurationError) as error:
            raise self._unreadable(one, error) from error

    def _begin_items(self, one: _Wanted) -> None:
        if one.item is not None and one.node not in self._begun:
            # Items of another run that the node means now must not stand among these.
            self._begun[one.node] = self._memory.start_items(one.node)

    def _put_back(self, one: _Wanted, value: Any) -> Entry:
        data = one.data
        self._begin_items(one)
        try:
            return self._memory.restore(
                data["key"],
                value,
                artifact_id=data["artifact_id"],
                version=data["version"],
                node=one.node,
                tool=self._tools.get(one.node),
                index=one.item,
                nbytes=data["bytes"],
                digest=data.get("digest"),
                items=self._begun.get(one.node),
            )
        except ArtifactConflict as error:
            raise RunRefused(
                "artifact_alias_conflict",
                f"{one}: {error.message}",
                node_id=one.node,
                hint="resume into a memory of its own, or drop that key first",
            ) from error

    def _arranged(self, way: Continuation, held: list[tuple[_Wanted, Entry | None]]) -> Resumed:
        bodies: dict[str, Entry | list[Entry | None]] = {}
        items: dict[str, KeptItems] = {node_id: {} for node_id in way.partly}
        for node in self._history.state.nodes.values():
            if node.total is not None and node.node_id not in way.reset and node.ended:
                bodies[node.node_id] = [None] * node.total
        for one, entry in held:
            assert entry is not None
            if one.item is None:
                bodies[one.node] = entry
                continue
            if one.node in bodies:
                bodies[one.node][one.item] = entry  # type: ignore[index]  # a list, made above
            if one.node not in bodies or one.node in way.watched:
                items.setdefault(one.node, {})[one.item] = (entry, one.data)
        return Resumed(bodies, items, way)

    def _not_kept(self, one: _Wanted) -> RunRefused:
        """Say why nothing durable is on record of a value."""
        if self._artifacts is None or self._odd == self._lost:
            return self._unavailable(one, self._lost, self._remedy)
        names = dict.fromkeys(
            f"{{env.{piece.name}}}"
            for node in self._history.plan.nodes
            for _, piece in references(node.args)
            if piece.family == "env"
        )
        if not names:
            return self._unavailable(one, self._odd, self._remedy)
        why = f"it held the value of a secret ({', '.join(names)}), or {self._odd}"
        hint = f"let the tool of {one.node!r} give back no secret, and start the run anew"
        return self._unavailable(one, why, hint)

    def _unreadable(self, one: _Wanted, error: StoreError | ConfigurationError) -> RunRefused:
        """Say why a value that was kept cannot be read."""
        hint = error.hint or self._remedy
        if isinstance(error, ArtifactDamaged):
            again = (
                f"a run from the start, or a fork that changes {one.node!r}, calls its tool again"
            )
            hint = "; ".join(filter(None, (error.hint, self._damage, again)))
        elif isinstance(error, ArtifactTooLarge):
            hint = _RAISE
        return self._unavailable(one, error.message, hint)

    def _unavailable(self, one: _Wanted, why: str, hint: str) -> RunRefused:
        return RunRefused(
            "artifacts_unavailable",
            f"what {one} stored under {one.data['key']!r} cannot be had: {why}",
            node_id=one.node,
            hint=hint,
        )


class Importer(Restorer):
    """Takes values over from a run of elsewhere: each is put anew, and its record says where."""

    _lost = _odd = "it is not among what was taken along"
    _remedy = 'take it along: run.save(path, artifacts="all")'

    def __init__(
        self,
        history: History,
        memory: WorkingMemory,
        artifacts: Source,
        limit: int,
        keep_in: ArtifactStore | None,
    ) -> None:
        super().__init__(history, memory, artifacts, limit)
        self._keep_in = keep_in

    def _held(self, one: _Wanted) -> Entry | None:
        del one  # an id of elsewhere says nothing about this memory
        return None

    def _read(self, one: _Wanted) -> tuple[Any, int, dict[str, Any] | None]:
        value = super()._read(one)
        kept = None if self._keep_in is None else self._keep_in.write(value)._asdict()
        return value, measure(value, None), kept

    def _put_back(self, one: _Wanted, value: tuple[Any, int, dict[str, Any] | None]) -> Entry:
        body, nbytes, kept = value
        data = one.data
        self._begin_items(one)
        tool = self._tools.get(one.node)
        entry = self._memory.put_item(
            data["key"], body, one.node, tool, one.item, nbytes, items=self._begun.get(one.node)
        )
        mine = {"artifact_id": entry.artifact_id, "version": entry.version, "bytes": nbytes}
        told = {**{name: said for name, said in data.items() if name != "artifact"}, **mine}
        if kept is not None:
            told["artifact"] = kept
        record = self._history.nodes[one.node]
        if one.item is None:
            record.finished = told
        else:
            record.items[one.item] = told
        return entry


def _artifact(one: _Wanted) -> ArtifactRecord | None:
    from planbench.memory.artifacts import ArtifactRecord  # noqa: PLC0415 - opens fsspec, which few runs need

    found = one.data.get("artifact")
    return None if found is None else ArtifactRecord.from_dict(found)
