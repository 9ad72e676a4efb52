"""Carries a run's journal to a store that keeps it elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planbench.checkpoints import CheckpointStore
    from planbench.events import Event
    from planbench.runtime.run import Run


class Recorder:
    """Appends events in the order in which they happened, in batches, one append at a time.

    A store that fails cancels the run; ``close`` raises what the store raised.
    """

    def __init__(self, run: Run, store: CheckpointStore) -> None:
        self._run = run
        self._store = store
        self._pending: list[Event] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._leave = run.subscribe(self._take)
        self._task = asyncio.get_running_loop().create_task(
            self._write(), name=f"planbench journal {run.run_id}"
        )
        self._task.add_done_callback(self._ended)

    def _take(self, event: Event) -> None:
        self._pending.append(event)
        self._wake.set()

    async def _write(self) -> None:
        while self._pending or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            batch, self._pending = self._pending, []
            if batch:
                await self._store.append(self._run.run_id, batch)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._closing:
            self._run.cancel()

    async def close(self) -> None:
        """Write what is left and stop; raises what the store raised."""
        self._closing = True
        self._leave()
        self._wake.set()
        await self._task
