"""What a checkpoint store must do: keep the events of runs, in order, and give them back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from planbench.events import Event


class RunRecord(NamedTuple):
    """What a store knows of a run without reading its events; ``started`` is epoch seconds."""

    run_id: str
    plan_name: str
    status: str
    started: float
    events: int


class CheckpointStore(ABC):
    """Keeps the journal of each run.

    The rules, which one suite proves for every store:

    * events of a run are given back in the order of ``seq``, each once, also where a
      writer that got no answer appends them again;
    * what ``append`` has returned for is kept for as long as the store promises;
    * a run that was never appended to is unknown: ``read`` gives ``[]``;
    * runs do not see each other;
    * a store is used between ``open`` and ``close``, which may each be called twice.
    """

    @abstractmethod
    async def open(self) -> None:
        """Make the store ready; raises StoreError."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what ``open`` took."""

    @abstractmethod
    async def append(self, run_id: str, events: Sequence[Event]) -> None:
        """Add events to a run's journal; on return they are kept. Raises StoreError."""

    @abstractmethod
    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``."""

    @abstractmethod
    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs, oldest first, or those of one status."""

    @abstractmethod
    async def delete(self, run_id: str) -> None:
        """Forget a run; an unknown one is no error."""

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
