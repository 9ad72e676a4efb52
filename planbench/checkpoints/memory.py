"""The store that lives and dies with the process."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, ClassVar

from planbench.checkpoints.base import CheckpointStore, RunRecord
from planbench.checkpoints.leases import LocalLeases
from planbench.checkpoints.records import Entry, change_of, check_events, check_same, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.checkpoints.base import Lease
    from planbench.events import Event


class MemoryStore(LocalLeases, CheckpointStore):
    """Keeps journals in this process: nothing survives it.

    It adopts the engine's own lists, so that recording an event costs one append.
    """

    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self._journals: dict[str, list[Event]] = {}
        self._entries: dict[str, Entry] = {}

    async def open(self) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """The journals stay readable."""

    async def append(
        self, run_id: str, events: Sequence[Event], lease: Lease | None = None
    ) -> None:
        """Add events to a run's journal."""
        check_events(run_id, events, lease)
        if not events:
            return
        self.check_writer(run_id, lease)
        log = self._journals.get(run_id, [])
        last = log[-1].seq if log else 0
        for event in events:
            if event.seq <= last:
                at = _behind(log, event.seq) - 1
                known = at >= 0 and log[at].seq == event.seq
                check_same(event, log[at] if known else None)
        fresh = [event for event in events if event.seq > last]
        if fresh:
            log.extend(fresh)
            self._journals[run_id] = log

    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``."""
        log = self._journals.get(run_id, [])
        return log[_behind(log, after) :]

    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs, oldest first, or those of one status."""
        return listed(map(self._record, [*self._journals]), status)

    async def record(self, run_id: str) -> RunRecord | None:
        """Give what is known of one run."""
        return self._record(run_id)

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        self._journals.pop(run_id, None)
        self._entries.pop(run_id, None)
        self.forget_lease(run_id)

    def adopt(self, run_id: str, journal: list[Event]) -> bool:
        """Take the engine's list as the record itself."""
        self._journals[run_id] = journal
        self._entries.pop(run_id, None)
        return True

    def _record(self, run_id: str) -> RunRecord | None:
        """Fold what was added since the run was listed last."""
        log = self._journals.get(run_id)
        if not log:
            return None
        entry = self._entries.get(run_id)
        fresh = log if entry is None else log[entry.events :]
        if fresh:
            change = change_of(fresh)
            count = len(fresh)
            entry = Entry.first(change, count) if entry is None else entry.changed(change, count)
            self._entries[run_id] = entry
        return None if entry is None else entry.record(run_id)


def _behind(log: list[Event], seq: int) -> int:
    """Give the place behind the event of that number, or behind where it would be."""
    return bisect_right(log, seq, key=lambda event: event.seq)
