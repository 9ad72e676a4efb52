"""How one run is kept: its journal in a store, under a lease that nobody else holds."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from planbench.errors import StoreError
from planbench.runtime.recorder import Recorder
from planbench.runtime.restore import Keeping

if TYPE_CHECKING:
    from planbench.checkpoints import CheckpointStore, Lease
    from planbench.memory.artifacts import ArtifactStore
    from planbench.runtime.run import Run
    from planbench.runtime.settings import Durability, PlanRecoveryConfig


class Keeper:
    """Keeps one run from its first event to its last; a run that is not to be kept never begins."""

    def __init__(
        self,
        run: Run,
        store: CheckpointStore,
        settings: PlanRecoveryConfig,
        durability: Durability,
    ) -> None:
        self._run = run
        self._store = store
        self._settings = settings
        self._durability = durability
        self._recorder: Recorder | None = None
        self._lease: Lease | None = None

    def begin(self, lease: Lease) -> None:
        """Record what happens from now on, under a lease that ``close`` gives back."""
        if self._store.adopt(self._run.run_id, self._run.events):
            self._lease = lease
            return
        self._recorder = Recorder(self._run, self._store, lease, self._settings, self._durability)

    def keeping(self, artifacts: ArtifactStore | None, *, required: bool = True) -> Keeping | None:
        """Give what the scheduler must know; None where nothing has to be waited for.

        ``required`` says whether a value that cannot be made durable fails its node.
        """
        recorder = self._recorder
        if recorder is None and artifacts is None:
            return None
        waits = recorder is not None and recorder.sync
        return Keeping(recorder if waits else None, artifacts, required)

    @property
    def trouble(self) -> StoreError | None:
        """What the store raised, or that another process has the run now."""
        return None if self._recorder is None else self._recorder.trouble

    def give_up(self) -> None:
        """Wait for a store that fails no longer."""
        if self._recorder is not None:
            self._recorder.give_up()

    def stop(self) -> None:
        """Take no more events; what is left is still written."""
        if self._recorder is not None:
            self._recorder.stop()

    async def close(self) -> None:
        """Write what is left and give the lease back; raises what went wrong with the store."""
        if self._recorder is not None:
            await self._recorder.close()
        await self._give_back(self._lease)

    async def abandon(self, lease: Lease | None) -> None:
        """Leave a run that did not start."""
        if self._recorder is not None:
            with contextlib.suppress(StoreError):  # the error that kept it from starting is told
                await self._recorder.close()
        await self._give_back(self._lease or lease)

    async def _give_back(self, lease: Lease | None) -> None:
        if lease is not None:
            with contextlib.suppress(StoreError):  # it ends with its time
                await self._store.release_lease(lease)
