"""Where a workbench keeps its runs: in ``.planbench`` of the working folder, unless somebody says otherwise."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.checkpoints.base import prunable
from planbench.errors import RecordDamaged, StoreError
from planbench.runtime.settings import PlanRecoveryConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planbench.checkpoints import RunRecord
    from planbench.events import Event
    from planbench.memory.artifacts import ArtifactStore
    from planbench.memory.scope import TaskMemoryRuntime, TaskScope

FOLDER: Final = ".planbench"
JOURNAL: Final = "journal.db"
ARTIFACTS: Final = "artifacts"
STORE_VARIABLE: Final = "PLANBENCH_STORE"
NAMESPACE: Final = "local"
"""The namespace of what a workbench keeps for itself."""
MAX_RESTORE_BYTES: Final = 1_000_000_000
_MARK: Final = "pruned"
_OFTEN: Final = 3_600.0
"""Seconds between two looks at what is to be forgotten, and for which a file that no run names stays."""
_DAY: Final = 86_400.0


class Limits(NamedTuple):
    """What a workbench keeps: so many ended runs, for so many days, with so many bytes of results."""

    runs: int = 200
    days: float = 30.0
    nbytes: int = 2_000_000_000


class Remembering:
    """The store of a workbench and the place of its results.

    ``store`` is a store, a URL or ``"memory"``; without one the environment variable
    PLANBENCH_STORE says it, and without that runs are kept in ``.planbench`` of the
    folder that is the working folder now. Nothing is made before ``open``. ``by_default``
    says that nobody asked for it, so that nothing may fail because of it.
    """

    def __init__(
        self, store: CheckpointStore | str | None = None, limits: Limits | None = None
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.folder = Path.cwd() / FOLDER
        said = (os.environ.get(STORE_VARIABLE) or None) if store is None else store
        self.by_default = said is None
        if said is None:
            said = f"sqlite:///{quote((self.folder / JOURNAL).as_posix())}"
        self._owned = not isinstance(said, CheckpointStore)
        self.store = said if isinstance(said, CheckpointStore) else open_store(said)
        self.runtime: TaskMemoryRuntime | None = None
        self.scope: TaskScope | None = None
        if self.store.durable:
            from planbench.memory.scope import TaskMemoryRuntime, TaskScope  # noqa: PLC0415 - loads codecs

            # the journal is not forced to the disk at each record either
            self.runtime = TaskMemoryRuntime(self.folder / ARTIFACTS, flushed=False)
            # what another journal names must not be forgotten with this one
            mine = getattr(self.store, "path", None) == self.folder / JOURNAL
            self.scope = TaskScope(NAMESPACE, "default" if mine else self.store.kind)

    @property
    def exists(self) -> bool:
        """Whether anything may be on record, seen without making or asking anything."""
        if isinstance(self.store, MemoryStore):
            return False
        return not self.by_default or (self.folder / JOURNAL).exists()

    def engine_options(self) -> dict[str, Any]:
        """Give what makes an engine keep its runs here."""
        options: dict[str, Any] = {"durable_values": "best_effort"}
        if self.runtime is not None:
            options |= {"task_memory_runtime": self.runtime, "scope": self.scope}
        options["recovery"] = PlanRecoveryConfig(
            max_restore_bytes=MAX_RESTORE_BYTES,
            on_store_error="go_on" if self.by_default else "fail",
        )
        if self.by_default:
            options["durability"] = "async"
        return options

    async def open(self) -> None:
        """Make the folder and open the store; raises StoreError where that cannot be."""
        if self.runtime is not None:
            await asyncio.to_thread(self._make_folder)
            await self.runtime.start()
        if self._owned:
            await self.store.open()

    async def close(self) -> None:
        """Close what ``open`` has opened."""
        if self.runtime is not None:
            await self.runtime.close()
        if self._owned:
            await self.store.close()

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="ascii")
        except OSError as error:
            raise StoreError(
                f"{str(self.folder)!r} cannot be made: {error.strerror or error}"
            ) from error

    # -- forgetting -------------------------------------------------------------------

    async def forget(self) -> list[str]:
        """Forget what is beyond the limits and give the ids of those runs; once an hour, at most.

        Runs that have ended go when they are too old, too many, or their results too large;
        broken-off ones when they are too old. A result that a kept run names stays.
        """
        if not self.by_default or not await asyncio.to_thread(self._is_time):
            return []
        store, limits = self.store, self.limits
        before = time.time() - limits.days * _DAY
        gone = await store.prune(before=before, keep=limits.runs)
        for record in await store.runs():
            broken_off = record.status in ("running", "waiting") and record.updated < before
            if broken_off and await store.drop(record):
                gone.append(record.run_id)
        if self.runtime is None or self.scope is None or not self.runtime.started:
            return gone
        artifacts = self.runtime.store(self.scope)
        used = await asyncio.to_thread(artifacts.nbytes)
        if gone or used > limits.nbytes:
            gone += await self._forget_results(artifacts, await store.runs())
        return gone

    async def _forget_results(
        self, artifacts: ArtifactStore, records: list[RunRecord]
    ) -> list[str]:
        named: dict[str, dict[str, int]] = {}
        for record in records:
            try:
                events = await self.store.read(record.run_id)
            except RecordDamaged:
                continue  # nothing can be continued from it
            named[record.run_id] = await asyncio.to_thread(_artifacts_of, events)
        gone: list[str] = []
        for record in prunable(records, None, 0):
            if _total(named.values()) <= self.limits.nbytes:
                break
            if await self.store.drop(record):
                named.pop(record.run_id, None)
                gone.append(record.run_id)
        kept = {digest for one in named.values() for digest in one}
        old = time.time() - _OFTEN
        await asyncio.to_thread(partial(artifacts.prune, keep=kept, before=old))
        return gone

    def _is_time(self) -> bool:
        mark = self.folder / _MARK
        try:
            if mark.stat().st_mtime > time.time() - _OFTEN:
                return False
        except FileNotFoundError:
            pass
        mark.touch()
        return True


def _artifacts_of(events: Iterable[Event]) -> dict[str, int]:
    """Give the digests and bytes of the results that a journal names."""
    found = {}
    for event in events:
        if event.type in (ev.NODE_FINISHED, ev.ITEM_FINISHED):
            record = event.data.get("artifact")
            if isinstance(record, dict):
                found[record.get("sha256", "")] = record.get("size", 0)
    return found


def _total(named: Iterable[dict[str, int]]) -> int:
    sizes: dict[str, int] = {}
    for one in named:
        sizes.update(one)
    return sum(sizes.values())
