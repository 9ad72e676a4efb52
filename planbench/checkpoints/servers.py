"""What the stores behind a server have in common: rules checked here, errors told without secrets."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from planbench.checkpoints.addresses import HIDDEN, secrets_of_url, shown_address
from planbench.checkpoints.base import CheckpointStore, Lease, RunRecord, is_run_id
from planbench.checkpoints.leases import check_claim, check_ttl
from planbench.checkpoints.records import (
    Batch,
    Damage,
    batch_of,
    check_events,
    decoded_all,
    listed,
)
from planbench.errors import ConfigurationError, RecordDamaged, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planbench.events import Event

CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
"""How long one question may take on a connection that stands."""
READ_SECONDS: Final = 30.0
"""The same for one whose answer may be large."""
_LARGE: Final = 500
"""Events that are coded at once on the loop, at most."""
_ROUNDS: Final = 4
_LONGEST_REASON: Final = 300

Rows = tuple[list[tuple[int, Any]], int | None]
"""Stored events with their numbers, and how many of them there must be."""


async def _decoded(run_id: str, rows: list[tuple[int, Any]], count: int | None) -> list[Event]:
    if len(rows) > _LARGE:
        return await asyncio.to_thread(decoded_all, run_id, rows, count)
    return decoded_all(run_id, rows, count)


def missing_driver(module: str, extra: str) -> ConfigurationError:
    """Make the error of a store whose driver is not installed."""
    return ConfigurationError(
        f"this store needs the package {module!r}, which is not installed",
        hint=f"pip install 'planbench[{extra}]'",
    )


class ServerStore(CheckpointStore):
    """Checks what goes in and comes out; what is said to the server is said by the subclass.

    ``errors`` are the exceptions of the driver that become StoreErrors.
    """

    def __init__(self, url: str, errors: tuple[type[Exception], ...]) -> None:
        self.address = shown_address(url)
        self._driver_errors = errors
        self._secrets = secrets_of_url(url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._damage = Damage()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    async def open(self) -> None:
        """Connect, and make ready what is missing; raises StoreError."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop = loop
        try:
            with self._reaching("opened"):
                await self._connect()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Give the connections back."""
        if self._loop is None:
            return
        self._loop = None
        await self._disconnect()

    # -- journals ---------------------------------------------------------------------

    async def append(
        self, run_id: str, events: Sequence[Event], lease: Lease | None = None
    ) -> None:
        """Add events to a run's journal."""
        check_events(run_id, events, lease)
        events = list(events)
        if len(events) > _LARGE:
            batch = await asyncio.to_thread(batch_of, run_id, events)
        else:
            batch = batch_of(run_id, events)
        with self._reaching("written"):
            for _ in range(_ROUNDS):
                known = await self._append(batch, lease) if batch.events else {}
                if not known:
                    return
                batch = batch.without(known)
        raise StoreError(f"{self.address} cannot be written: others write to run {run_id!r}")

    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``."""
        if not is_run_id(run_id):
            return []
        after = max(after, 0)
        with self._damage.noted(run_id, whole=after == 0):
            found = await self._found(run_id, after)
            try:
                return await _decoded(run_id, *found)
            except RecordDamaged:
                again = await self._found(run_id, after)
                if again == found:
                    raise
                return await _decoded(run_id, *again)  # it was deleted while it was read

    async def _found(self, run_id: str, after: int) -> Rows:
        with self._reaching("read"):
            return await self._rows(run_id, after)

    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs, oldest first, or those of one status."""
        with self._reaching("read"):
            records = await self._records(None)
        return listed(map(self._damage.shown, records), status)

    async def record(self, run_id: str) -> RunRecord | None:
        """Give what is known of one run."""
        if not is_run_id(run_id):
            return None
        with self._reaching("read"):
            records = await self._records(run_id)
        return self._damage.shown(records[0]) if records else None

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        if is_run_id(run_id):
            with self._reaching("written"):
                await self._delete(run_id)
            self._damage.forget(run_id)

    async def drop(self, record: RunRecord) -> bool:
        """Delete a run if it is still as in ``record`` and nobody holds it."""
        with self._reaching("written"):
            return await self._delete_ended(record)

    # -- leases -----------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        """Take the right to write to a run; None: another live holder has it."""
        check_claim(run_id, owner, ttl)
        with self._reaching("written"):
            return await self._acquire(run_id, owner, ttl)

    async def renew_lease(self, lease: Lease, ttl: float) -> bool:
        """Hold on for ``ttl`` seconds from now; False: it was released, or is another's."""
        check_ttl(ttl)
        with self._reaching("written"):
            return await self._hold(lease, ttl)

    async def release_lease(self, lease: Lease) -> None:
        """Give the lease back."""
        with self._reaching("written"):
            await self._hold(lease, None)

    async def lease(self, run_id: str) -> Lease | None:
        """Give the lease that is held now."""
        if not is_run_id(run_id):
            return None
        with self._reaching("read"):
            return await self._live(run_id)

    # -- errors -----------------------------------------------------------------------

    @contextmanager
    def _reaching(self, doing: str) -> Iterator[None]:
        """Turn what the driver raises into a StoreError that says what, where and why."""
        if self._loop is None:
            raise StoreError(f"the store {self.address} is not open", hint="await store.open()")
        if self._loop is not asyncio.get_running_loop():
            raise StoreError(
                f"the store {self.address} was opened on another event loop",
                hint="open it on the loop on which it is used",
            )
        try:
            yield
        except self._driver_errors as error:
            raise self._failed(doing, error) from self._cause(error)
        except (OSError, TimeoutError) as error:
            raise self._failed(doing, error) from self._cause(error)

    def _failed(self, doing: str, error: Exception) -> StoreError:
        return StoreError(f"{self.address} cannot be {doing}: {self._reason(error)}")

    def _reason(self, error: Exception) -> str:
        reason = " ".join(str(error).split())
        if not reason:
            late = isinstance(error, TimeoutError)
            reason = "no answer in time" if late else type(error).__name__
        for secret in self._secrets:
            reason = reason.replace(secret, HIDDEN)
        if len(reason) > _LONGEST_REASON:
            reason = reason[: _LONGEST_REASON - 1] + "…"
        return reason

    def _cause(self, error: Exception) -> Exception | None:
        """Give the error as a cause, unless a secret is in it."""
        said = f"{error!r} {error}"
        return None if any(secret in said for secret in self._secrets) else error

    # -- what a subclass says to its server ----------------------------------------------

    @abstractmethod
    async def _connect(self) -> None:
        """Reach the server and make ready what is missing there; may follow a failed attempt."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close what there is."""

    @abstractmethod
    async def _append(self, batch: Batch, lease: Lease | None) -> dict[int, bytes | None]:
        """Write all or nothing; give what is stored, or None, for the numbers in the way.

        In the way are events at or below the last one on record that are not stored
        byte for byte: with any of them nothing is written.
        """

    @abstractmethod
    async def _rows(self, run_id: str, after: int) -> Rows:
        """Give the stored events with a number above ``after``."""

    @abstractmethod
    async def _records(self, run_id: str | None) -> list[RunRecord]:
        """Give the record of a run, or of all."""

    @abstractmethod
    async def _delete(self, run_id: str) -> None:
        """Forget a run."""

    @abstractmethod
    async def _delete_ended(self, record: RunRecord) -> bool:
        """Forget a run if it is still as in ``record`` and nobody holds it."""

    @abstractmethod
    async def _acquire(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        """Take the lease if it is free."""

    @abstractmethod
    async def _hold(self, lease: Lease, ttl: float | None) -> bool:
        """Hold on for ``ttl`` seconds, or with None let go; False: it was not there to hold."""

    @abstractmethod
    async def _live(self, run_id: str) -> Lease | None:
        """Give the lease that is held now."""
