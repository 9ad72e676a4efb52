"""The runs of one kernel or process: those at work, those that have ended, and those on record."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from planbench.checkpoints import MemoryStore
from planbench.errors import CommandError, PlanbenchError, RunRefused, StoreError
from planbench.runtime import Engine
from planbench.runtime.recollection import Recollection, matching, no_run
from planbench.runtime.remembering import Remembering
from planbench.runtime.saving import save_at_end, save_policy
from planbench.session import Origin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping

    from planbench.checkpoints import CheckpointStore, RunRecord
    from planbench.memory import WorkingMemory
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime import Run
    from planbench.runtime.outlook import Outlook
    from planbench.runtime.recollection import RecordedRun
    from planbench.runtime.remembering import Limits
    from planbench.runtime.saved_run import SavedRun
    from planbench.runtime.saving import SavePolicy
    from planbench.tools import ToolRegistry

KEPT_RUNS: Final = 50
KEPT_VALUES: Final = 10
"""Runs whose values can be read through them, also when the memory has newer versions."""
MEMORY: Final = "memory"
_logger = logging.getLogger(__name__)


class Runbook:
    """Starts and continues runs on one engine, and finds them again.

    ``store`` is a store, a URL, ``"memory"``, or None for what PLANBENCH_STORE says and
    else ``.planbench`` of the working folder. ``note`` says why runs are kept in memory
    only, where that was not asked for.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        memory: WorkingMemory,
        *,
        allowed_tools: Collection[str] | None,
        env: Mapping[str, Collection[str]] | None,
        store: CheckpointStore | str | None,
        limits: Limits | None,
    ) -> None:
        self.registry = registry
        self.memory = memory
        self.note = ""
        self.origins: WeakKeyDictionary[Run, Origin] = WeakKeyDictionary()
        self._limits = limits
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._kept: set[asyncio.Task[Any]] = set()
        self._former: list[tuple[Engine, Remembering]] = []
        self._opened = False
        self.remembering = Remembering(store, limits)
        self.engine = self._new_engine(allowed_tools, env)
        self.recollection = Recollection(self.engine)

    # -- where runs are kept ------------------------------------------------------------

    def remember(self, store: CheckpointStore | str | None) -> None:
        """Keep the runs that are started from now on somewhere else; those at work stay where they are.

        Raises ConfigurationError for what is no store.
        """
        remembering = Remembering(store, self._limits)
        if self._opened:
            self._former.append((self.engine, self.remembering))
        before, self.remembering, self._opened = self.engine, remembering, False
        self.engine = self._new_engine(before.allowed_tools, before.env)
        self.engine.delegates = before.delegates
        self.engine.recovery = dataclasses.replace(
            self.engine.recovery, max_restore_bytes=before.recovery.max_restore_bytes
        )
        self.recollection = Recollection(self.engine)

    def _new_engine(
        self, allowed_tools: Collection[str] | None, env: Mapping[str, Collection[str]] | None
    ) -> Engine:
        kept = self.remembering
        return Engine(
            kept.store,
            self.registry,
            self.memory,
            allowed_tools=allowed_tools,
            env=env,
            **kept.engine_options(),
        )

    async def _open(self) -> None:
        if self._opened:
            return
        try:
            await self.remembering.open()
        except StoreError as error:
            if not self.remembering.by_default:
                raise
            self._do_without(error)
            await self.remembering.open()
        await self.engine.open()
        if not self._opened:
            self._opened = True
            if self.remembering.by_default:
                self.keep(self._forget())

    def _do_without(self, error: StoreError) -> None:
        """Keep runs in memory: the folder that nobody asked for cannot be used."""
        self.remember(MEMORY)
        self.note = f"runs are kept in this process only: {error.message}"
        _logger.info(self.note)

    async def _forget(self) -> None:
        try:
            await self.remembering.forget()
        except (PlanbenchError, OSError) as error:
            _logger.info("old runs could not be forgotten: %s", error)

    async def _reliably(self, begin: Callable[[], Awaitable[Run]]) -> Run:
        """Begin a run; a folder that nobody asked for and that fails now is done without."""
        await self._open()
        try:
            return await begin()
        except StoreError as error:
            if not self.remembering.by_default:
                raise
            self._do_without(error)
            await self._open()
            return await begin()

    # -- finding ------------------------------------------------------------------------

    @property
    def runs(self) -> list[Run]:
        """The runs of this kernel, the oldest first."""
        return list(self._runs.values())

    def run(self, name: str | None = None) -> Run:
        """Find a run of this kernel by its id or the start of it; without a name give the latest.

        Raises CommandError that names the runs there are.
        """
        if name is None and self._runs:
            return next(reversed(self._runs.values()))
        exact = self._runs.get(name or "")
        found = matching(list(self._runs), name) if name else []
        if exact is not None or len(found) == 1:
            return exact or self._runs[found[0]]
        raise no_run(name, found, list(self._runs))

    async def records(self) -> list[RunRecord]:
        """List the runs on record, those of earlier kernels too, the oldest first.

        One whose process has ended is ``interrupted``. Raises RunRefused where the store
        does not answer.
        """
        if not self._opened and not self.remembering.exists:
            return []
        await self._open()
        return await self.recollection.look()

    async def recall(self) -> None:
        """Look once what earlier kernels have left interrupted; what cannot be read is none."""
        if not self._opened and self.remembering.by_default:
            with contextlib.suppress(RunRefused, StoreError):
                await self.records()

    async def find(self, name: str | None = None) -> str:
        """Give the id of a run of this kernel or on record, by the start of it.

        Without a name it is the latest that can be continued. Raises CommandError.
        """
        if name is None:
            return await self._latest()
        if name in self._runs:
            return name
        found = matching(list(self._runs), name)
        if len(found) == 1:
            return found[0]
        if found or not (self._opened or self.remembering.exists):
            raise no_run(name, found, list(self._runs))
        await self._open()
        return await self.recollection.find(name)

    async def _latest(self) -> str:
        for run in reversed(self.runs):
            if run.finished and run.manifest().resumable:
                return run.run_id
        await self.records()
        if not self.recollection.interrupted:
            raise CommandError(
                "no run can be continued: none was interrupted, and none of this kernel is red",
                hint="%plan runs lists the runs; name one",
            )
        return self.recollection.interrupted[-1].run_id

    async def recorded(self, name: str) -> RecordedRun:
        """Read a run on record back. Raises CommandError and RunRefused."""
        run_id = await self.find(name)
        await self._open()
        return await self.recollection.read(run_id)

    async def outlook(self, name: str, plan: ExecutionPlan | None = None) -> Outlook:
        """Say what ``resume`` would call; calls nothing. Raises CommandError and RunRefused."""
        run_id = await self.find(name)
        await self._open()
        return await self.recollection.outlook(run_id, plan)

    def interrupted(self) -> list[Outlook]:
        """The runs of earlier kernels that were interrupted, as of the latest look."""
        return list(self.recollection.interrupted)

    # -- continuing ---------------------------------------------------------------------

    async def resume(self, name: str | None = None, plan: ExecutionPlan | None = None) -> Run:
        """Go on with a run, of an earlier kernel too; with a mended plan as a child of it.

        What is on record is not called again. Raises CommandError, and as ``Engine.resume``
        and ``Engine.fork``.
        """
        policy = save_policy()
        run_id = await self.find(name)
        await self._open()
        if plan is None:
            run = await self.engine.resume(run_id)
        else:
            run = await self.engine.fork(run_id, plan)
        return await self._continued(run_id, run, policy)

    async def repair(self, name: str, planner: Any) -> Run:
        """Have a model mend the failed nodes of a run, and run the child; raises as ``Engine.repair``.

        ``planner`` is a PlanPlanner or what ``client_of`` takes; None refuses.
        """
        from planbench.toolkit.authoring import Authoring  # noqa: PLC0415 - few runs are repaired

        policy = save_policy()
        run_id = await self.find(name)
        await self._open()
        engine = self.engine
        mend = None
        if planner is not None:
            mend = Authoring(planner, self.registry, engine.allowed_tools, engine.env).mend
        return await self._continued(run_id, await engine.repair(run_id, mend), policy)

    async def continue_from(self, saved: SavedRun, plan: ExecutionPlan | None = None) -> Run:
        """Continue a run of a file as a child of it, with the tools of now, or with a mended plan.

        Raises as ``Engine.continue_from``.
        """
        policy = save_policy()
        run = await self._reliably(lambda: self.engine.continue_from(saved.history, saved, plan))
        return await self._begun(run, policy)

    async def _continued(self, run_id: str, run: Run, policy: SavePolicy | None) -> Run:
        before = self._runs.get(run_id)
        known = None if before is None else self.origins.get(before)
        same = known is not None and before is not None and before.plan == run.plan
        self.origins[run] = known if known is not None and same else Origin(run.plan, None, {})
        self.recollection.settled(run_id)
        return await self._begun(run, policy)

    # -- keeping ------------------------------------------------------------------------

    async def _begun(self, run: Run, policy: SavePolicy | None) -> Run:
        """Take a run among those of this kernel, and see that it is saved at its end where that is wanted."""
        if policy is not None:
            run.epilogue = self.keep(save_at_end(run, policy))
        self._runs[run.run_id] = run
        self._runs.move_to_end(run.run_id)
        await self._let_go()
        return run

    async def _let_go(self) -> None:
        """Drop the oldest ended runs, and earlier than those the values that they hold."""
        for run in self.runs[:-KEPT_VALUES]:
            if run.finished:
                run.let_go()
        store = self.engine.store
        for key in [key for key, old in self._runs.items() if old.finished]:
            if len(self._runs) <= KEPT_RUNS:
                break
            del self._runs[key]
            if isinstance(store, MemoryStore):  # nothing else would ever free its journal
                await store.delete(key)

    def keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something on this loop that outlives a session; ``close`` waits for it."""
        task = asyncio.get_running_loop().create_task(work, name="planbench workbench")
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    async def close(self) -> None:
        """Close the engine and its store; live runs are cancelled."""
        engines, self._former = [*self._former, (self.engine, self.remembering)], []
        for engine, _ in engines:
            await engine.close()
        if self._kept:
            await asyncio.wait(self._kept)
        for _, remembering in engines:
            await remembering.close()
        self._opened = False
