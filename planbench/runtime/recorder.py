"""Carries a run's journal to a store that keeps it elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from planbench import events as ev
from planbench.errors import CheckpointWriteFailed, LeaseLost, StoreError
from planbench.runtime.node import error_text
from planbench.runtime.standing import MAX_ERROR_LENGTH

if TYPE_CHECKING:
    from planbench.checkpoints import CheckpointStore, Lease
    from planbench.events import Event
    from planbench.runtime.run import Run
    from planbench.runtime.settings import Durability, PlanRecoveryConfig

APPEND_TIMEOUT: Final = 30.0
"""Seconds after which an append counts as failed: a store must not hang a run for ever."""
FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 2.0
RENEWALS: Final = 3
"""How often a lease is renewed within its time to live."""
_logger = logging.getLogger(__name__)


class Recorder:
    """Appends events in the order in which they happened, in batches, one append at a time.

    Records that are made while an append is under way share the next one. A store that
    fails ends the run, or is waited for, as the settings say; ``close`` raises
    CheckpointWriteFailed, or LeaseLost when another process has taken the run over.
    What tools print is not kept.
    """

    def __init__(
        self,
        run: Run,
        store: CheckpointStore,
        lease: Lease | None,
        settings: PlanRecoveryConfig,
        durability: Durability,
    ) -> None:
        self._run = run
        self._store = store
        self._lease = lease
        self._settings = settings
        self._pending: list[Event] = []
        self._kept = 0
        self._last = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake = asyncio.Event()
        self._late = durability == "exit"
        self._closing = False
        self._given_up = False
        self._let_gone = False
        self.sync = durability == "sync"
        self.trouble: StoreError | None = None
        self._leave = run.subscribe(self._take)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._write(), name=f"planbench journal {run.run_id}")
        self._task.add_done_callback(self._ended)
        self._renewal = None
        if lease is not None:
            self._renewal = loop.create_task(
                self._renew(lease), name=f"planbench lease {run.run_id}"
            )

    async def kept(self) -> None:
        """Wait until all that has happened so far is acknowledged by the store."""
        if self._kept >= self._last or self._task.done():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((self._last, future))
        await future

    def _take(self, event: Event) -> None:
        if event.type == ev.NODE_OUTPUT:
            return
        self._pending.append(event)
        self._last = event.seq
        if not self._late:
            self._wake.set()

    async def _write(self) -> None:
        while self._pending or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            batch, self._pending = self._pending, []
            if not batch:
                continue
            await self._append(batch)
            self._kept = batch[-1].seq
            while self._waiting and self._waiting[0][0] <= self._kept:
                _, future = self._waiting.popleft()
                if not future.done():
                    future.set_result(None)

    async def _append(self, batch: list[Event]) -> None:
        wait = FIRST_WAIT
        while True:
            try:
                async with asyncio.timeout(APPEND_TIMEOUT):
                    await self._store.append(self._run.run_id, batch, self._lease)
            except LeaseLost as error:
                if self._goes_on and await self._store.lease(self._run.run_id) is None:
                    raise StoreError("its record was removed") from error  # nobody took the run
                raise
            except TimeoutError as error:
                if self._stops_at(error):
                    raise StoreError(f"no answer within {APPEND_TIMEOUT:g} s") from error
            except Exception as error:
                if self._stops_at(error):
                    raise
            else:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _stops_at(self, error: Exception) -> bool:
        """Whether a failed append ends the run: always, unless the settings say to wait for the store."""
        waits = isinstance(error, StoreError | TimeoutError)
        return not waits or self._settings.on_store_error != "wait" or self._given_up

    @property
    def _goes_on(self) -> bool:
        """Whether a run whose store fails goes on without a record."""
        return self._settings.on_store_error == "go_on"

    async def _renew(self, lease: Lease) -> None:
        ttl = self._settings.lease_seconds
        while True:
            await asyncio.sleep(ttl / RENEWALS)
            try:
                if await self._store.renew_lease(lease, ttl):
                    continue
                again = await self._store.acquire_lease(lease.run_id, lease.owner, ttl)
            except StoreError:
                continue  # an append finds out whether the store is gone for good
            if again is None:
                self._fail(LeaseLost(f"another process has taken run {lease.run_id!r} over"))
                return
            self._lease = lease = again

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, LeaseLost):
            self._fail(error)
            return
        text = f"the checkpoint store failed: {error_text(error)}"[:MAX_ERROR_LENGTH]
        if self._goes_on:
            self._let_go(text)
            return
        failed = CheckpointWriteFailed(
            text,
            hint="what had finished before is on record: resume the run when the store answers",
        )
        failed.__cause__ = error
        self._fail(failed)

    def _let_go(self, why: str) -> None:
        """Record nothing more of the run, and keep nobody waiting."""
        if not self._let_gone:
            _logger.warning("no more of run %s is on record: %s", self._run.run_id, why)
        self._let_gone = self._closing = True
        self._leave()
        self._pending.clear()
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _fail(self, trouble: StoreError) -> None:
        if self.trouble is None:
            self.trouble = trouble
            self._run.cancel()

    def give_up(self) -> None:
        """Wait for a store that fails no longer."""
        self._given_up = True

    def stop(self) -> None:
        """Take no more events; what is left is still written."""
        self._closing = True
        self._leave()
        self._wake.set()

    async def close(self) -> None:
        """Write what is left, give the lease back and stop; raises what went wrong.

        Who is cancelled meanwhile goes on when all is written: outcomes are recorded first.
        """
        self.stop()
        while not self._task.done():
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError:
                self.give_up()
        if self._renewal is not None:
            self._renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._renewal])
        if self._lease is not None and not isinstance(self.trouble, LeaseLost):
            # a store that is gone keeps the lease until its time is over
            with contextlib.suppress(StoreError, asyncio.CancelledError):
                await self._store.release_lease(self._lease)
        if self.trouble is None and not self._task.cancelled():
            self._ended(self._task)
        if self.trouble is not None:
            raise self.trouble
