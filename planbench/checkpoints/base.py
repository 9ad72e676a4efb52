"""What a checkpoint store must do: keep the events of runs, in order, and give them back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

from planbench.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from planbench.events import Event

DAMAGED: Final = "damaged"
"""The status of a run whose record cannot be read."""
LONGEST_ID: Final = 200
_OPEN: Final = frozenset({"running", "waiting", DAMAGED})


class Lease(NamedTuple):
    """The right to write to a run, until ``expires`` (epoch seconds, by the store's clock).

    ``token`` is the fence: every acquisition of a run gives a higher one, and only
    the newest can append.
    """

    run_id: str
    owner: str
    token: int
    expires: float


class RunRecord(NamedTuple):
    """What a store knows of a run without reading its events.

    ``started`` and ``updated`` are epoch seconds: the times of its first and its last
    event. ``status`` is what the events say, or ``damaged`` where the record cannot be read.
    """

    run_id: str
    plan_name: str
    status: str
    started: float
    events: int
    updated: float = 0.0
    root_run_id: str | None = None
    parent_run_id: str | None = None


class CheckpointStore(ABC):
    """Keeps the journal of each run, and says who may write to it.

    The rules, which one suite proves for every store:

    * events of a run are given back in the order of ``seq``, each once and equal, also
      where a writer that got no answer appends them again;
    * an append is kept whole or not at all, and what it has returned for is kept for as
      long as the store promises;
    * an event at or below the last ``seq`` must be the one that is stored: any other is a
      StoreError, and nothing of that append is kept. A ``seq`` may be left out;
    * a run that was never appended to is unknown: ``read`` gives ``[]``, ``record`` None;
    * runs do not see each other, and a damaged one does not keep the others from being
      listed and read;
    * of those who ask for the lease of a run at the same moment, one gets it; whoever had
      it before can append no longer;
    * a store that cannot be reached raises StoreError within seconds, names the address
      without its credentials, and works again when it can be reached;
    * a store is used between ``open`` and ``close``, which may each be called twice, on
      the loop on which it was opened.
    """

    kind: ClassVar[str]
    """What the store is: the scheme of its URL."""

    @property
    def durable(self) -> bool:
        """Whether records outlive this process and never expire."""
        return False

    @abstractmethod
    async def open(self) -> None:
        """Make the store ready; raises StoreError."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what ``open`` took."""

    # -- journals ---------------------------------------------------------------------

    @abstractmethod
    async def append(
        self, run_id: str, events: Sequence[Event], lease: Lease | None = None
    ) -> None:
        """Add events to a run's journal; on return they are kept. No events change nothing.

        Raises LeaseLost when the lease is no longer the newest of the run, and without
        one when somebody else holds the run; StoreError for all else.
        """

    @abstractmethod
    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``.

        Raises RecordDamaged when one of them cannot be read.
        """

    @abstractmethod
    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs, oldest first, or those of one status; reads no events."""

    async def record(self, run_id: str) -> RunRecord | None:
        """Give what is known of one run, None for an unknown one; reads no events."""
        return next((one for one in await self.runs() if one.run_id == run_id), None)

    @abstractmethod
    async def delete(self, run_id: str) -> None:
        """Forget a run, its lease too; an unknown one is no error."""

    async def prune(self, *, before: float | None = None, keep: int | None = None) -> list[str]:
        """Forget ended runs and give their ids, oldest first.

        Those go whose last event is from ``before`` that moment (epoch seconds), and the
        oldest ones above the number to ``keep``. A run that is live, held by somebody or
        damaged stays. Raises ConfigurationError for a negative ``keep``.
        """
        return [
            record.run_id
            for record in prunable(await self.runs(), before, keep)
            if await self.drop(record)
        ]

    async def drop(self, record: RunRecord) -> bool:
        """Delete a run if it is still as in ``record`` and nobody holds it."""
        if await self.lease(record.run_id) or await self.record(record.run_id) != record:
            return False
        await self.delete(record.run_id)
        return True

    # -- leases -----------------------------------------------------------------------

    @abstractmethod
    async def acquire_lease(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        """Take the right to write to a run for ``ttl`` seconds; None: another live holder has it.

        The run need not be known yet. An owner that asks again gets a new token, and its
        former one is void.
        """

    @abstractmethod
    async def renew_lease(self, lease: Lease, ttl: float) -> bool:
        """Hold on for ``ttl`` seconds from now; False: it was released, or is another's.

        A lease that has expired and that nobody took since is held again.
        """

    @abstractmethod
    async def release_lease(self, lease: Lease) -> None:
        """Give the lease back; one that is another's by now is left alone."""

    @abstractmethod
    async def lease(self, run_id: str) -> Lease | None:
        """Give the lease that is held now, None where nobody holds the run."""

    # -- the rest -----------------------------------------------------------------------

    def adopt(self, run_id: str, journal: list[Event]) -> bool:
        """Take the engine's own list as the record of a run, where both share one process.

        A store that answers True is never appended to for that run.
        """
        del run_id, journal
        return False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def is_run_id(run_id: object) -> bool:
    """Whether a store can hold a run of that name; none is stored under any other."""
    return isinstance(run_id, str) and 0 < len(run_id) <= LONGEST_ID and run_id.isprintable()


def check_run_id(run_id: str) -> None:
    """Raise StoreError for a name under which no run can be stored."""
    if not is_run_id(run_id):
        raise StoreError(
            f"no run can be named {ascii(run_id)[:LONGEST_ID]}",
            hint=f"a run id is 1 to {LONGEST_ID} printable characters",
        )


def prunable(
    records: Iterable[RunRecord], before: float | None, keep: int | None
) -> list[RunRecord]:
    """Pick the ended runs that ``prune`` may forget, those updated first at the front."""
    if keep is not None and keep < 0:
        raise ConfigurationError(f"keep is a number of runs, not {keep}")
    ended = sorted(
        (record for record in records if record.status not in _OPEN),
        key=lambda record: (record.updated, record.started, record.run_id),
    )
    surplus = 0 if keep is None else len(ended) - keep
    return [
        record
        for number, record in enumerate(ended)
        if number < surplus or (before is not None and record.updated < before)
    ]
