"""The store that lives and dies with the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planbench import events as ev
from planbench.checkpoints.base import CheckpointStore, RunRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.events import Event

_ENDED = {ev.RUN_FINISHED, ev.RUN_CANCELLED, ev.RUN_INTERRUPTED}


class MemoryStore(CheckpointStore):
    """Keeps journals in this process: nothing survives it.

    It adopts the engine's own lists, so that recording an event costs one append.
    """

    def __init__(self) -> None:
        self._journals: dict[str, list[Event]] = {}

    async def open(self) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """The journals stay readable."""

    async def append(self, run_id: str, events: Sequence[Event]) -> None:
        """Add events to a run's journal."""
        log = self._journals.setdefault(run_id, [])
        last = log[-1].seq if log else 0
        log.extend(event for event in events if event.seq > last)

    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``."""
        return [event for event in self._journals.get(run_id, ()) if event.seq > after]

    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs, oldest first, or those of one status."""
        records = [_record(run_id, log) for run_id, log in self._journals.items() if log]
        return [record for record in records if status is None or record.status == status]

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        self._journals.pop(run_id, None)

    def adopt(self, run_id: str, journal: list[Event]) -> bool:
        """Take the engine's list as the record itself."""
        self._journals[run_id] = journal
        return True


def _record(run_id: str, log: list[Event]) -> RunRecord:
    first, last = log[0], log[-1]
    status = str(last.data.get("status", "running")) if last.type in _ENDED else "running"
    return RunRecord(
        run_id, str(first.data.get("plan_name", "")), status, first.timestamp, len(log)
    )
