"""Carries a run's journal to a store that keeps it elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from planbench.runtime.node import error_text
from planbench.runtime.state import MAX_ERROR_LENGTH

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
        self.trouble: str | None = None
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
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._closing:
            self.trouble = f"the checkpoint store failed: {error_text(error)}"[:MAX_ERROR_LENGTH]
            self._run.cancel()

    def stop(self) -> None:
        """Take no more events; what is left is still written."""
        self._closing = True
        self._leave()
        self._wake.set()

    async def close(self) -> None:
        """Write what is left and stop; raises what the store raised.

        Who is cancelled meanwhile goes on when all is written: outcomes are recorded first.
        """
        self.stop()
        while not self._task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])
        self._task.result()
