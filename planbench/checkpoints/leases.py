"""Who may write to a run: the checks that all stores share, and leases kept in this process."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from planbench.checkpoints.base import Lease, check_run_id
from planbench.errors import ConfigurationError, LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECONDS: Final = 1_000_000
"""A new token is the time in microseconds, or one more than the last where the clock stood still:
so it grows also where the run, and its last token with it, were deleted in between."""
RELEASED: Final = 0.0
"""The expiry of a lease that was given back: its token stays, so that the next one is higher."""
_LONGEST_OWNER: Final = 500


def lost(lease: Lease) -> LeaseLost:
    """Make the error of a writer whose token is not the newest."""
    return LeaseLost(
        f"{lease.owner!r} no longer holds run {lease.run_id!r}: another writer has taken it over, or the run was deleted",
        hint="read the run again, and acquire its lease before writing",
    )


def held(run_id: str) -> LeaseLost:
    """Make the error of a writer without a lease where somebody holds the run."""
    return LeaseLost(
        f"run {run_id!r} is held by another writer",
        hint="acquire its lease before writing",
    )


def check_ttl(ttl: float) -> None:
    """Refuse a time to live that is no positive number of seconds."""
    if not (ttl > 0 and math.isfinite(ttl)):
        raise ConfigurationError(f"a lease lasts for a positive number of seconds, not {ttl}")


def check_claim(run_id: str, owner: str, ttl: float) -> None:
    """Refuse a claim on a run that no store could keep; raises StoreError, ConfigurationError."""
    check_ttl(ttl)
    check_run_id(run_id)
    if not (0 < len(owner) <= _LONGEST_OWNER and owner.isprintable()):
        raise ConfigurationError(
            f"no owner of a lease can be named {ascii(owner)[:_LONGEST_OWNER]}",
            hint=f"it is 1 to {_LONGEST_OWNER} printable characters",
        )


def readable(run_id: str, owner: object, token: object, expires: object) -> Lease | None:
    """Make the lease that is stored; one that cannot be read is nobody's, and the next one is higher."""
    sound = isinstance(owner, str) and type(token) is int and type(expires) in (int, float)
    return Lease(run_id, str(owner), token, expires) if sound else None  # type: ignore[arg-type]  # as just seen


def next_token(newest: int, now: float) -> int:
    """Give a token above the newest of a run; ``now`` is epoch seconds."""
    return max(newest + 1, int(now * MICROSECONDS))


class LocalLeases:
    """Leases of one process: for a store that no other process can reach."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._leases: dict[str, Lease] = {}
        self._clock = clock

    async def acquire_lease(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        """Take the right to write to a run; None: another live holder has it."""
        check_claim(run_id, owner, ttl)
        now = self._clock()
        newest = self._leases.get(run_id)
        if newest is not None and newest.expires > now and newest.owner != owner:
            return None
        token = next_token(0 if newest is None else newest.token, now)
        lease = self._leases[run_id] = Lease(run_id, owner, token, now + ttl)
        return lease

    async def renew_lease(self, lease: Lease, ttl: float) -> bool:
        """Hold on for ``ttl`` seconds from now; False: it was released, or is another's."""
        check_ttl(ttl)
        newest = self._leases.get(lease.run_id)
        if newest is None or newest.token != lease.token or newest.expires == RELEASED:
            return False
        self._leases[lease.run_id] = newest._replace(expires=self._clock() + ttl)
        return True

    async def release_lease(self, lease: Lease) -> None:
        """Give the lease back; one that is another's by now is left alone."""
        newest = self._leases.get(lease.run_id)
        if newest is not None and newest.token == lease.token:
            self._leases[lease.run_id] = newest._replace(expires=RELEASED)

    async def lease(self, run_id: str) -> Lease | None:
        """Give the lease that is held now."""
        newest = self._leases.get(run_id)
        return newest if newest is not None and newest.expires > self._clock() else None

    def check_writer(self, run_id: str, lease: Lease | None) -> None:
        """Raise LeaseLost when this lease, or none, gives no right to write to the run."""
        newest = self._leases.get(run_id)
        if lease is not None:
            if newest is None or newest.token != lease.token:
                raise lost(lease)
        elif newest is not None and newest.expires > self._clock():
            raise held(run_id)

    def forget_lease(self, run_id: str) -> None:
        """Void what leases there are of a run."""
        self._leases.pop(run_id, None)
