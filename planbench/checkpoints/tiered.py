"""Two stores as one: a durable one that decides, and an ephemeral one beside it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from planbench.checkpoints.base import CheckpointStore, Lease, RunRecord
from planbench.checkpoints.records import listed
from planbench.errors import ConfigurationError, RecordDamaged, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from planbench.events import Event

T = TypeVar("T")

RETRY_SECONDS: Final = 5.0
"""How long an ephemeral tier that failed is left alone: each attempt could hold a run for seconds."""
_logger = logging.getLogger(__name__)


class TieredStore(CheckpointStore):
    """Writes to a durable and to an ephemeral store; either may be None, not both.

    The durable tier decides: what it has acknowledged is kept, leases live in it, and the
    ephemeral one is asked only for runs that it does not know. An ephemeral tier that
    fails is logged, left alone for some seconds and brought up to date later; a failing
    durable tier fails the call. With one tier alone, that one does everything. Opening and
    closing opens and closes both.
    """

    kind: ClassVar[str] = "tiered"

    def __init__(self, ephemeral: CheckpointStore | None, durable: CheckpointStore | None) -> None:
        if ephemeral is None and durable is None:
            raise ConfigurationError("a tiered store needs a tier", hint="give one, or both")
        if ephemeral is durable:
            raise ConfigurationError("both tiers are the same store", hint="give it once")
        for tier in (ephemeral, durable):
            if not isinstance(tier, CheckpointStore | None):
                raise ConfigurationError(
                    f"a tier is a CheckpointStore, not a {type(tier).__name__}",
                    hint="write open_store(url)",
                )
        if durable is not None and not durable.durable:
            _logger.warning(
                "%r is the durable tier, and does not keep runs for good: they expire, or end with the process",
                durable,
            )
        first = ephemeral if durable is None else durable
        assert first is not None
        self._first: CheckpointStore = first
        self._beside = None if durable is None else ephemeral
        self._has_durable = durable is not None
        self._beside_open = False
        self._retry_at = 0.0
        self._behind: set[str] = set()
        self._known: set[str] = set()

    def __repr__(self) -> str:
        beside = "" if self._beside is None else f", {self._beside!r} beside it"
        return f"<TieredStore {self._first!r}{beside}>"

    @property
    def durable(self) -> bool:
        """Whether there is a durable tier."""
        return self._has_durable

    async def open(self) -> None:
        """Open both tiers; an ephemeral one that cannot be reached is tried again later."""
        await self._first.open()
        self._retry_at = 0.0
        if self._beside is None:
            return
        try:
            await self._beside.open()
        except StoreError as error:
            self._leave_alone(error)
        except BaseException:
            await self.close()
            raise
        else:
            self._beside_open = True

    async def close(self) -> None:
        """Close both tiers."""
        try:
            await self._first.close()
        finally:
            self._beside_open = False
            if self._beside is not None:
                await self._beside.close()

    # -- journals ---------------------------------------------------------------------

    async def append(
        self, run_id: str, events: Sequence[Event], lease: Lease | None = None
    ) -> None:
        """Add events to the journal in the durable tier, then in the other one."""
        events = list(events)
        if self._beside is not None and events and run_id not in self._known:
            await self._bring_head(self._beside, run_id, events[0].seq, lease)
        await self._first.append(run_id, events, lease)
        if self._beside is None or not events:
            return
        self._known.add(run_id)
        late = run_id in self._behind
        self._behind.add(run_id)

        async def follow(tier: CheckpointStore) -> bool:
            if late:
                await tier.delete(run_id)
                await tier.append(run_id, await self._first.read(run_id))
            else:
                await tier.append(run_id, events)
            return True

        try:
            followed = await self._ask_beside(follow)
        except RecordDamaged as error:  # the next append writes it anew
            _logger.warning("the ephemeral tier has lost a run that the durable one has: %s", error)
            return
        if followed:
            self._behind.discard(run_id)

    async def _bring_head(
        self, tier: CheckpointStore, run_id: str, seq: int, lease: Lease | None
    ) -> None:
        """Take over what only the ephemeral tier has, so that no journal lacks its beginning."""
        if seq == 1 or await self._first.record(run_id) is not None:
            return
        await tier.open()
        head = [event for event in await tier.read(run_id) if event.seq < seq]
        await self._first.append(run_id, head, lease)

    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``."""
        events = await self._first.read(run_id, after)
        if events or self._beside is None or await self._first.record(run_id) is not None:
            return events
        return await self._ask_beside(lambda tier: tier.read(run_id, after)) or []

    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs of both tiers, oldest first, or those of one status."""
        records = await self._first.runs()
        if self._beside is not None:
            known = {record.run_id for record in records}
            others = await self._ask_beside(lambda tier: tier.runs()) or []
            records += [record for record in others if record.run_id not in known]
        return listed(records, status)

    async def record(self, run_id: str) -> RunRecord | None:
        """Give what is known of one run."""
        found = await self._first.record(run_id)
        if found is not None or self._beside is None:
            return found
        return await self._ask_beside(lambda tier: tier.record(run_id))

    async def delete(self, run_id: str) -> None:
        """Forget a run in both tiers; raises StoreError when one of them cannot."""
        if self._beside is not None:  # first, or it would show the run again
            await self._beside.open()
            await self._beside.delete(run_id)
        await self._first.delete(run_id)
        self._forget(run_id)

    async def drop(self, record: RunRecord) -> bool:
        """Delete a run if it is still as in ``record`` and nobody holds it."""
        run_id = record.run_id
        if await self._first.lease(run_id) is not None:
            return False
        if await self._first.record(run_id) is None:
            return bool(await self._ask_beside(lambda tier: tier.drop(record)))
        if not await self._first.drop(record):
            return False
        await self._ask_beside(lambda tier: tier.delete(run_id))
        self._forget(run_id)
        return True

    def _forget(self, run_id: str) -> None:
        self._behind.discard(run_id)
        self._known.discard(run_id)

    # -- leases -----------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        """Take the right to write to a run; None: another live holder has it."""
        return await self._first.acquire_lease(run_id, owner, ttl)

    async def renew_lease(self, lease: Lease, ttl: float) -> bool:
        """Hold on for ``ttl`` seconds from now; False: it was released, or is another's."""
        return await self._first.renew_lease(lease, ttl)

    async def release_lease(self, lease: Lease) -> None:
        """Give the lease back."""
        await self._first.release_lease(lease)

    async def lease(self, run_id: str) -> Lease | None:
        """Give the lease that is held now."""
        return await self._first.lease(run_id)

    # -- the tier beside ----------------------------------------------------------------

    def adopt(self, run_id: str, journal: list[Event]) -> bool:
        """Let the only tier take the engine's list, if it is one that does."""
        return self._beside is None and self._first.adopt(run_id, journal)

    async def _ask_beside(self, question: Callable[[CheckpointStore], Awaitable[T]]) -> T | None:
        """Ask the ephemeral tier; None where there is none, or where it fails.

        Raises RecordDamaged: that is an answer about one run.
        """
        if self._beside is None or time.monotonic() < self._retry_at:
            return None
        try:
            if not self._beside_open:
                await self._beside.open()
                self._beside_open = True
            return await question(self._beside)
        except RecordDamaged:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the durable tier has acknowledged
            self._leave_alone(error)
            return None

    def _leave_alone(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        _logger.warning("the ephemeral tier failed, and the durable one goes on: %s", error)
