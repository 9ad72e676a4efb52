"""The engine: it checks a plan, starts its run, and sees that nothing of it is left behind."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.errors import ConfigurationError, PlanInvalid, RunRefused
from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan
from planbench.plan.parameters import bind, check_params, wanted
from planbench.plan.placeholders import references
from planbench.plan.source import shown
from planbench.runtime.compiled import CompiledPlan
from planbench.runtime.node import error_text
from planbench.runtime.output import capture, release
from planbench.runtime.recorder import Recorder
from planbench.runtime.run import Run
from planbench.runtime.scheduler import Scheduler
from planbench.runtime.state import MAX_ERROR_LENGTH
from planbench.tools import ToolRegistry
from planbench.validation import patterns_of, registry_of, secrets_of, validate_plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from types import TracebackType

    from planbench.plan.model import PlanNode

KEPT_PLANS: Final = 16
_Key = tuple[int, tuple[str, ...] | None]


class _CompiledPlans:
    """The plans compiled last, for as long as their registry lives and does not change.

    A cell that is run again, and the next run of a plan, start without compiling.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[
            ToolRegistry, OrderedDict[_Key, tuple[ExecutionPlan, int, CompiledPlan]]
        ]
        self._kept = WeakKeyDictionary()

    def get(
        self, plan: ExecutionPlan, registry: ToolRegistry, allowed: tuple[str, ...] | None
    ) -> CompiledPlan | None:
        plans = self._kept.get(registry)
        kept = None if plans is None else plans.get((id(plan), allowed))
        if kept is None or kept[0] is not plan or kept[1] != registry.version:
            return None
        return kept[2]

    def keep(
        self,
        plan: ExecutionPlan,
        registry: ToolRegistry,
        version: int,
        allowed: tuple[str, ...] | None,
        compiled: CompiledPlan,
    ) -> None:
        plans = self._kept.setdefault(registry, OrderedDict())
        plans[id(plan), allowed] = (plan, version, compiled)
        if len(plans) > KEPT_PLANS:
            plans.popitem(last=False)


_kept: Final = _CompiledPlans()


class Engine:
    """Starts runs and owns them: leaving it cancels those that are live and waits for them.

    A store given as a URL is opened and closed here; one given as an object is only used.
    """

    def __init__(
        self,
        store: CheckpointStore | str | None = None,
        registry: ToolRegistry | Iterable[Any] | None = None,
        memory: WorkingMemory | None = None,
        *,
        allowed_tools: Collection[str] | None = None,
        env: Mapping[str, Collection[str]] | None = None,
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

        self._owns_store = not isinstance(store, CheckpointStore)
        if store is None:
            store = MemoryStore()
        self.store = store if isinstance(store, CheckpointStore) else open_store(store)
        self._live: set[Run] = set()

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
        """Open the engine's own store; one that was given as an object is its owner's."""
        if self._owns_store:
            await self.store.open()

    async def close(self) -> None:
        """Cancel what is live, wait until that is recorded, and close the engine's own store."""
        live = list(self._live)
        for run in live:
            run.cancel()
        if live:
            await asyncio.wait([run.root for run in live])
        if self._owns_store:
            await self.store.close()

    async def start(self, work: ExecutionPlan, inputs: Mapping[str, Any] | None = None) -> Run:
        """Check a plan and start its run on this loop.

        ``inputs`` are its parameters. Raises PlanInvalid when the plan does not fit
        the registry as it is now, RunRefused for what cannot run here,
        ConfigurationError for ``durable: true`` without a durable store. Nothing
        was called then.
        """
        if not isinstance(work, ExecutionPlan):
            raise ConfigurationError(
                f"the engine runs an ExecutionPlan, not {shown(work)}",
                hint="read it first, with load_plan(text) or load_plan(Path(...)), or await run_plan(...)",
            )
        if inputs is not None:
            check_params(inputs)
        plan = work
        compiled = None if inputs is not None else self._compiled(plan)
        if compiled is None:
            if inputs is not None or wanted(work):
                plan = bind(work, dict(inputs or {}))
            compiled = self._compile(plan)
        run = Run(plan)
        recorder = None
        if plan.metadata.checkpoint and not self.store.adopt(run.run_id, run.events):
            recorder = Recorder(run, self.store)
        run.emit(ev.RUN_STARTED, {"plan_name": plan.name, "plan": compiled.record})
        scheduler = Scheduler(run, compiled, self.memory)
        self._live.add(run)
        run.begin(self._root(run, scheduler, recorder))
        run.root.add_done_callback(lambda _: self._ended(run, recorder))
        return run

    def _ended(self, run: Run, recorder: Recorder | None) -> None:
        self._live.discard(run)
        if not run.finished:  # its task was cancelled before the first step
            run.emit(ev.RUN_CANCELLED, {"status": "cancelled", "cancelled": {}})
            if recorder is not None:
                recorder.stop()

    @property
    def _policy(self) -> tuple[str, ...] | None:
        allowed = patterns_of(self.allowed_tools)  # the attribute may have been set since
        return None if allowed is None else tuple(sorted(allowed))

    def _compiled(self, plan: ExecutionPlan) -> CompiledPlan | None:
        return _kept.get(plan, self.registry, self._policy)

    def _compile(self, plan: ExecutionPlan) -> CompiledPlan:
        # The version of what is checked now: another thread may change the registry meanwhile.
        version = self.registry.version
        report = validate_plan(plan, self.registry, self.allowed_tools, env=self.env)
        if not report.ok:
            raise PlanInvalid(report.issues, name=plan.name)
        for node in plan.nodes:
            _refuse_unbuilt(node)
        if plan.metadata.durable:
            raise ConfigurationError(
                "the plan says durable: true, and no durable store is set up",
                hint="take durable out of its metadata, or give the engine a durable store",
            )
        compiled = CompiledPlan(plan, self.registry)
        _kept.keep(plan, self.registry, version, self._policy, compiled)
        return compiled

    async def _root(self, run: Run, scheduler: Scheduler, recorder: Recorder | None) -> None:
        capture()
        try:
            try:
                await scheduler.work()
            except asyncio.CancelledError:
                reason = None if recorder is None else recorder.trouble
                run.emit(ev.RUN_CANCELLED, _cancelled(run, scheduler, reason))
                raise
            except BaseException as error:
                # a defect of the engine, or an interrupt: the journal must not say "running" for ever
                reason = f"the run broke off: {error_text(error)}"[:MAX_ERROR_LENGTH]
                run.emit(ev.RUN_CANCELLED, _cancelled(run, scheduler, reason))
                if not isinstance(error, KeyboardInterrupt):  # the loop has raised that one already
                    raise
            else:
                run.emit(ev.RUN_FINISHED, {"status": run.state.outcome()})
        finally:
            release()
            if recorder is not None:
                await recorder.close()


def _cancelled(run: Run, scheduler: Scheduler, reason: str | None) -> dict[str, Any]:
    reasons = {}
    for state in run.state.nodes.values():
        if state.status != "running":
            continue
        text = "cancelled"
        if state.total is not None:
            text += f" after {state.done + state.failed} of {state.total} items"
        left = scheduler.left_running(state.node_id)
        if left:
            text += f"; abandoned, {'thread' if left == 1 else f'{left} threads'} still running"
        reasons[state.node_id] = text
    data = {"status": "cancelled", "cancelled": reasons}
    return data if reason is None else {**data, "reason": reason}


def _refuse_unbuilt(node: PlanNode) -> None:
    if node.type == "delegate":
        raise RunRefused(
            "delegate_not_configured",
            f"node {node.id!r} is a delegate, and no delegate model is configured",
            node_id=node.id,
        )
    if node.approve:
        raise RunRefused(
            "approval_not_available",
            f"node {node.id!r} asks for an approval, and nobody can give one here yet",
            node_id=node.id,
            hint="take approve out of the node to run it unasked",
        )
    if node.cache:
        raise RunRefused(
            "cache_not_available",
            f"node {node.id!r} asks for a cache, and there is none here yet",
            node_id=node.id,
        )
    if any(piece.family == "env" for _, piece in references(node.args)):
        raise RunRefused(
            "env_not_available",
            f"node {node.id!r} reads {{env.NAME}}, and secrets cannot be handed out here yet",
            node_id=node.id,
        )
