"""The engine: it checks a plan, starts its run, and sees that nothing of it is left behind."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.errors import ConfigurationError, RunRefused
from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan
from planbench.plan.parameters import bind, check_params, wanted
from planbench.plan.source import shown
from planbench.runtime.agents import Agents
from planbench.runtime.algorithm import is_algorithm
from planbench.runtime.children import Children
from planbench.runtime.delegates import Delegates
from planbench.runtime.keeping import Keeper
from planbench.runtime.leases import new_owner, take_lease
from planbench.runtime.plan_root import plan_root
from planbench.runtime.preparation import compile_plan, compiled_before, policy_of
from planbench.runtime.recovery import Recovery
from planbench.runtime.results import observe_results
from planbench.runtime.run import Run
from planbench.runtime.scheduler import Scheduler
from planbench.runtime.secrets import open_secrets
from planbench.runtime.settings import durability_of, durable_values_of, recovery_of, scope_of
from planbench.tools import ToolRegistry
from planbench.validation import patterns_of, registry_of, secrets_of

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Mapping,
        Sequence,
    )
    from types import TracebackType

    from planbench.checkpoints import Lease, RunRecord
    from planbench.llm.client import ModelClient
    from planbench.memory.artifacts import ArtifactStore
    from planbench.memory.scope import TaskMemoryRuntime, TaskScope
    from planbench.runtime.algorithm import Algorithm
    from planbench.runtime.budget import Budget
    from planbench.runtime.children import Repairable
    from planbench.runtime.compiled import CompiledPlan
    from planbench.runtime.history import History
    from planbench.runtime.restore import Resumed, Source
    from planbench.runtime.settings import Durability, DurableValues, PlanRecoveryConfig

FOR_EVER: Final = 1e9
"""Seconds of a lease in a store that ends with the process."""


class Engine:
    """Starts runs and owns them: leaving it cancels those that are live and waits for them.

    A store or a task memory given as a URL is opened and closed here; one given as an
    object is only used. With a task memory and a scope every stored value is made durable
    before the record that names it; one that cannot be fails its node, or with
    ``durable_values="best_effort"`` stays in memory. ``durability`` says when a record is
    acknowledged: before the next call starts (``sync``), meanwhile (``async``), or at the
    end (``exit``).
    ``delegate_llm`` is the model that delegate nodes ask: what ``client_of`` takes.
    """

    def __init__(  # noqa: PLR0913 - the seams of a host, each by keyword
        self,
        store: CheckpointStore | str | None = None,
        registry: ToolRegistry | Iterable[Any] | None = None,
        memory: WorkingMemory | None = None,
        *,
        allowed_tools: Collection[str] | None = None,
        env: Mapping[str, Collection[str]] | None = None,
        task_memory_runtime: TaskMemoryRuntime | str | None = None,
        scope: TaskScope | None = None,
        recovery: PlanRecoveryConfig | None = None,
        durability: Durability = "sync",
        durable_values: DurableValues = "require",
        delegate_llm: Any = None,
    ) -> None:
        self.registry = ToolRegistry() if registry is None else registry_of(registry)
        self.memory = WorkingMemory() if memory is None else memory
        if not isinstance(self.memory, WorkingMemory):
            raise ConfigurationError(
                f"memory is a WorkingMemory, not {shown(memory)}",
                hint="leave it out, or write: memory=WorkingMemory()",
            )
        self.allowed_tools = patterns_of(allowed_tools)
        self.env = secrets_of(env)
        self.recovery = recovery_of(recovery)
        self.durability = durability_of(durability)
        self.durable_values = durable_values_of(durable_values)
        self.scope = scope_of(scope)
        self.llm: ModelClient | None = None
        self.delegates = Delegates(delegate_llm)

        self._remembers = store is not None
        self._owns_store = not isinstance(store, CheckpointStore)
        if store is None:
            store = MemoryStore()
        self.store = store if isinstance(store, CheckpointStore) else open_store(store)
        self._owns_runtime = isinstance(task_memory_runtime, str)
        self._runtime = _runtime_of(task_memory_runtime)
        if self._runtime is not None and scope is None:
            raise ConfigurationError(
                "durable artifacts need a scope, and none is given",
                hint='say whose they are: scope=TaskScope("my-team")',
            )
        self._live: dict[str, Run] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.continuing: set[str] = set()

    @cached_property
    def agents(self) -> Agents:
        """The algorithms that this engine knows, and their runs."""
        return Agents(self)

    @cached_property
    def owner(self) -> str:
        """The name under which this engine holds runs."""
        return new_owner()

    @property
    def policy(self) -> tuple[str, ...] | None:
        """The names and patterns of the tools that plans may call, sorted; None allows all."""
        return policy_of(self.allowed_tools, self.env)[0]

    @property
    def lease_seconds(self) -> float:
        """The time to live of leases; a store in memory lives no longer than its holders."""
        return FOR_EVER if isinstance(self.store, MemoryStore) else self.recovery.lease_seconds

    @property
    def outlives(self) -> bool:
        """Whether the store keeps runs for longer than the process, and without a time limit."""
        return bool(self.store.durable)

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

    async def open(self) -> None:
        """Open what the engine owns; a store that was given as an object is its owner's."""
        if self._owns_store:
            await self.store.open()
        if self._owns_runtime and self._runtime is not None:
            await self._runtime.start()

    async def close(self) -> None:
        """Cancel what is live, wait until that is recorded, and close what the engine owns."""
        while live := list(self._live.values()):  # what ends may start others meanwhile
            for run in live:
                run.cancel()
            await asyncio.wait([run.root for run in live])
            await asyncio.sleep(0)  # lets those that never took a step begin to close
        while self._closing:
            await asyncio.wait(self._closing)
        await self.delegates.close()
        if self._owns_runtime and self._runtime is not None:
            await self._runtime.close()
        if self._owns_store:
            await self.store.close()

    # -- starting ---------------------------------------------------------------------

    async def start(
        self,
        work: ExecutionPlan | Algorithm,
        inputs: Mapping[str, Any] | None = None,
        *,
        budget: Budget | None = None,
        scope: TaskScope | None = None,
    ) -> Run:
        """Check a plan and start its run on this loop, or start an algorithm.

        ``inputs`` are the parameters of a plan, or what an algorithm is given. ``budget``
        bounds the run and all runs below it; ``scope`` goes before the engine's. Raises
        PlanInvalid when the plan does not fit the registry as it is now, RunRefused for
        what cannot run here, ConfigurationError for ``durable: true`` without a durable
        store and for a ``max_cost`` without prices, StoreError where the run cannot be
        recorded. Nothing was called then.
        """
        if not isinstance(work, ExecutionPlan):
            if is_algorithm(work):
                return await self.agents.start(work, dict(inputs or {}), budget, scope)
            raise ConfigurationError(
                f"the engine runs an ExecutionPlan or an algorithm, not {shown(work)}",
                hint="read it first, with load_plan(text) or load_plan(Path(...)), or await run_plan(...)",
            )
        if inputs is not None:
            check_params(inputs)
        plan = work
        compiled = None
        if inputs is None:
            policy = policy_of(self.allowed_tools, self.env)
            compiled = compiled_before(plan, self.registry, policy)
        if compiled is None:
            if inputs is not None or wanted(work):
                plan = bind(work, dict(inputs or {}))
            compiled = self.compile(plan)
        run = Run(plan)
        run.budget, run.scope = budget, scope
        return await self.launch(run, compiled, [self.started(run, compiled)])

    async def resume(self, run_id: str, work: Any = None, *, budget: Budget | None = None) -> Run:
        """Go on with a run that was interrupted, cancelled, or ended with failed nodes.

        It keeps its id and the plan in its journal. What is on record is not called
        again; what failed or never ran is. A node whose tool has changed runs again,
        with all that reads it. Asked for a run that was repaired, it means the newest
        child. An algorithm runs again from its record: ``work`` is that algorithm, where
        it is not registered. ``budget`` takes the place of the one that the run had, and
        counts what was spent before. Raises RunRefused with a code, PlanInvalid where a
        tool is gone.
        """
        return await Recovery(self).resume(run_id, work, budget)

    def register(self, algorithm: Algorithm) -> None:
        """Make an algorithm known by its name, with those that it runs; runs are resumed by it.

        Raises ConfigurationError where another object has that name.
        """
        self.agents.register(algorithm)

    async def fork(self, run_id: str, plan: ExecutionPlan) -> Run:
        """Continue a run with a mended plan: a child that keeps what the plan leaves untouched.

        Raises as ``resume`` does, and PlanInvalid for a plan that does not fit.
        """
        return await Children(self).fork(run_id, plan)

    async def repair(
        self, run_id: str, mend: Callable[[Repairable], Awaitable[ExecutionPlan]] | None
    ) -> Run:
        """Spend one repair attempt on a run that ended with failed nodes.

        ``mend`` is asked for the plan with those nodes replaced, once the attempt is on
        record; the plan runs as a child. Raises RunRefused with the codes of the reference.
        """
        return await Children(self).repair(run_id, mend)

    async def continue_from(
        self, history: History, artifacts: Source, plan: ExecutionPlan | None = None
    ) -> Run:
        """Continue a run that was recorded elsewhere as a child of it, with this engine's tools.

        ``artifacts`` gives the values that its records name; they are put anew into this
        engine's memory. The plan is checked as any other. Raises as ``fork`` does.
        """
        return await Children(self).take_over(history, artifacts, plan)

    async def runs(self) -> list[RunRecord]:
        """List the runs on record, oldest first; one whose process has ended is ``interrupted``."""
        return await Recovery(self).records()

    async def history(self, run_id: str) -> History:
        """Read a run back, or the newest of the children that continue it; calls nothing.

        The status of one whose process has ended is ``interrupted``. Raises RunRefused:
        unknown_run, missing_or_expired, checkpoint_invalid, run_not_resumable where the
        store does not answer.
        """
        return await Recovery(self).look(run_id)

    def is_live(self, run_id: str) -> bool:
        """Whether this engine has the run at work."""
        run = self._live.get(run_id)
        return run is not None and not run.root.done()

    # -- for recovery -----------------------------------------------------------------

    def compile(self, plan: ExecutionPlan) -> CompiledPlan:
        """Check and compile a plan under this engine's policy."""
        if plan.metadata.durable and not self._crosses:
            raise ConfigurationError(
                "the plan says durable: true, and no durable store is set up",
                hint="take durable out of its metadata, or give the engine a durable store",
            )
        return compile_plan(plan, self.registry, self.allowed_tools, self.env)

    def artifacts(self, scope: TaskScope | None = None) -> ArtifactStore | None:
        """Give where the bodies of a scope, or the engine's, are kept; None where in memory."""
        scope = scope or self.scope
        return None if self._runtime is None or scope is None else self._runtime.store(scope)

    @property
    def _crosses(self) -> bool:
        # Redis forgets after a time, but a process that ends is none of its business
        return self._remembers and (self.outlives or self.store.kind == "redis")

    def started(
        self, run: Run, compiled: CompiledPlan, more: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Give the first event of a run: all that a continuation must know of its host."""
        data: dict[str, Any] = {
            "plan_name": run.plan.name,
            "plan": compiled.record,
            "tools": compiled.tools,
        }
        if run.budget is not None:
            data["budget"] = run.budget.to_dict()
        return ev.RUN_STARTED, self.host_data(run, {**data, **(more or {})})

    def host_data(self, run: Run, data: dict[str, Any]) -> dict[str, Any]:
        """Add to the first event of a run what there is to know of its host."""
        data = {"memory_id": self.memory.memory_id, **data}
        policy = self.policy
        if policy is not None:
            data["policy"] = list(policy)
        if self._remembers or self._runtime is not None:
            data["recovery"] = self._recoverable(run.plan, whole="algorithm" in data)
        scope = run.scope or self.scope
        if scope is not None:
            data["scope"] = scope.to_dict()
        return data

    def _recoverable(self, plan: ExecutionPlan, *, whole: bool) -> dict[str, Any]:
        """Say what can become of a run; ``whole`` when its journal alone is enough."""
        durable = self._runtime is not None
        level = "none"
        checkpoint = self._remembers and plan.metadata.checkpoint
        if checkpoint:
            level = "cross_restart" if (durable or whole) and self._crosses else "process"
        return {
            "checkpoint": checkpoint,
            "artifact_mode": "durable" if durable else "memory",
            "resume_level": level,
            "max_repairs": self.recovery.max_repair_rounds,
        }

    async def launch(
        self,
        run: Run,
        compiled: CompiledPlan,
        events: Sequence[tuple[str, dict[str, Any]]],
        *,
        lease: Lease | None = None,
        resumed: Resumed | None = None,
    ) -> Run:
        """Record the first events and make the root task; the lease is given back at its end."""
        keeper = self.keeper(run)
        try:
            asking = self.delegates.ready(run, compiled)
            run.secrets = open_secrets(compiled.secrets)
            run.modules = compiled.modules
            if compiled.plan.metadata.checkpoint:
                keeper.begin(lease or await self.take(run.run_id))
            for kind, data in events:
                run.emit(kind, data)
            required = self.durable_values == "require"
            # what no record names is of no use later, and is kept only for who asks for it
            kept = required or compiled.plan.metadata.checkpoint
            artifacts = self.artifacts(run.scope) if kept else None
            keeping = keeper.keeping(artifacts, required=required)
            scheduler = Scheduler(run, compiled, self.memory, keeping, resumed)
            if asking is not None:
                asking.take(scheduler, compiled)
        except BaseException:
            await keeper.abandon(lease)
            raise
        self.host(run, plan_root(run, scheduler, keeper), keeper)
        run.root.add_done_callback(lambda _: observe_results(run, compiled, self.registry))
        return run

    def keeper(self, run: Run) -> Keeper:
        """Give what keeps the journal of a run."""
        return Keeper(run, self.store, self.recovery, self.durability)

    def host(self, run: Run, work: Coroutine[Any, Any, None], keeper: Keeper) -> None:
        """Make the root task of a run, and own it."""
        self._live[run.run_id] = run
        run.begin(work)
        run.root.add_done_callback(lambda _: self._ended(run, keeper))

    async def take(self, run_id: str) -> Lease:
        """Take the right to write to a run; raises RunRefused run_busy."""
        lease = await take_lease(self.store, run_id, self.owner, self.lease_seconds)
        if lease is None:
            raise RunRefused("run_busy", f"run {run_id!r} is at work in another process")
        return lease

    # -- the root of a run ------------------------------------------------------------

    def _ended(self, run: Run, keeper: Keeper) -> None:
        if self._live.get(run.run_id) is run:
            del self._live[run.run_id]
        if not run.finished:  # its task was cancelled before the first step
            run.emit(ev.RUN_CANCELLED, {"status": "cancelled", "cancelled": {}})
            closing = asyncio.get_running_loop().create_task(keeper.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


def _runtime_of(given: TaskMemoryRuntime | str | None) -> TaskMemoryRuntime | None:
    if given is None:
        return None
    from planbench.memory.scope import TaskMemoryRuntime  # noqa: PLC0415 - opens fsspec, which few runs need

    if isinstance(given, TaskMemoryRuntime):
        return given
    if not isinstance(given, str):
        raise ConfigurationError(
            f"task_memory_runtime is a TaskMemoryRuntime or its URL, not {shown(given)}"
        )
    return TaskMemoryRuntime(given)
