"""ExecutionPlanToolkit: plans for agents, run without a token spent and without a payload shown."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.checkpoints import CheckpointStore, TieredStore, open_store
from planbench.errors import (
    ConfigurationError,
    PlanbenchError,
    PlanInvalid,
    StoreError,
)
from planbench.files import PlanFileStore
from planbench.memory import WorkingMemory
from planbench.runtime import Engine, Run
from planbench.toolkit.acquisition import Acquisition
from planbench.toolkit.answers import (
    Refusal,
    asked,
    envelope,
    issues_of,
    refused,
    standing,
    whole,
)
from planbench.toolkit.authoring import Authoring
from planbench.toolkit.roster import Roster
from planbench.tools import PERMISSION_CONTEXT, ToolResult, tool
from planbench.validation import patterns_of, registry_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from planbench.events import Event
    from planbench.memory import TaskMemoryRuntime, TaskScope, WorkingMemoryToolkit
    from planbench.runtime import PlanRecoveryConfig, RunState
    from planbench.tools import ToolRegistry

SOFT_TIMEOUT: Final = 60.0
MAX_COMPLETED_RUNS: Final = 50
DEEPEST: Final = 8
"""Runs that may be started one within the other: a plan whose tool runs plans may run itself."""
_NODE: Final = "planbench.node."
_depth: ContextVar[int] = ContextVar("planbench_toolkit_depth", default=0)
_logger = logging.getLogger(__name__)


class ExecutionPlanToolkit:
    """Lets an agent run whole plans: each public async method is one of its tools.

    ``tool_manager`` holds the tools that plans may call, ``allowed_tools`` narrows them;
    ``working_memory`` is where results land. ``plans_dir`` enables plans by name,
    ``planner_llm`` plans by objective; with neither only plan_status and plan_artifacts are
    tools. ``checkpoint_store`` is the ephemeral tier and ``durable_store`` the durable one,
    each a store or a URL; those given as URLs are closed by ``close``, which also cancels
    what is at work. A borrowed ``task_memory_runtime`` is never closed.
    ``on_node_event`` is called with each node's events, on the loop. Raises
    ConfigurationError for settings that cannot work together. ``delegate_llm`` is the model
    that delegate nodes ask; without one a plan with such a node is refused.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the constructor of the reference
        self,
        tool_manager: ToolRegistry | Iterable[Any] | None = None,
        working_memory: WorkingMemoryToolkit | WorkingMemory | None = None,
        planner_llm: Any = None,
        plans_dir: str | Path | None = None,
        allowed_tools: Collection[str] | None = None,
        soft_timeout: float = SOFT_TIMEOUT,
        permission_context: Any = None,
        on_node_event: Callable[[Event], Awaitable[None] | None] | None = None,
        max_completed_runs: int = MAX_COMPLETED_RUNS,
        recovery: PlanRecoveryConfig | None = None,
        checkpoint_store: CheckpointStore | str | None = None,
        durable_store: CheckpointStore | str | None = None,
        task_memory_runtime: TaskMemoryRuntime | None = None,
        scope: TaskScope | None = None,
        *,
        delegate_llm: Any = None,
        env: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        if type(soft_timeout) not in (int, float) or not soft_timeout >= 0:
            raise ConfigurationError(f"soft_timeout is seconds, not {soft_timeout!r}")
        if on_node_event is not None and not callable(on_node_event):
            raise ConfigurationError(f"on_node_event is a function, not {on_node_event!r}")
        registry = registry_of(() if tool_manager is None else tool_manager)
        self.soft_timeout = soft_timeout
        self.permission_context = permission_context
        self.on_node_event = on_node_event
        self._tiers = _Tiers(checkpoint_store, durable_store)
        self._engine = Engine(
            self._tiers.store,
            registry,
            _memory_of(working_memory),
            allowed_tools=allowed_tools,
            env=env,
            task_memory_runtime=task_memory_runtime,
            scope=scope,
            recovery=recovery,
            delegate_llm=delegate_llm,
        )
        plans = None if plans_dir is None else PlanFileStore(plans_dir)
        self._authoring: Authoring | None = None
        if planner_llm is not None:
            self._authoring = Authoring(planner_llm, registry, allowed_tools, env)
        self._acquisition = Acquisition(
            plans, self._authoring, registry, patterns_of(allowed_tools), env
        )
        self._roster = Roster(max_completed_runs, self._let_go)
        self._has_source = plans is not None or planner_llm is not None
        self._opened: asyncio.Task[None] | None = None
        self._told: set[asyncio.Future[Any]] = set()

    @property
    def hidden_tools(self) -> frozenset[str]:
        """The public methods that are no tools: ``close``, and what has no plan to work on."""
        if self._has_source:
            return frozenset({"close"})
        return frozenset({"close", "plan_execute", "plan_validate", "plan_resume", "plan_repair"})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel what is at work, and close the stores that were given as URLs."""
        await self._engine.close()
        for task in self._told:
            task.cancel()
        if self._told:
            await asyncio.wait(self._told)
        await self._tiers.close()
        self._opened = None

    # -- the tools --------------------------------------------------------------------

    @tool(effects="write")
    async def plan_execute(
        self,
        objective: str | None = None,
        plan_name: str | None = None,
        params: dict[str, Any] | None = None,
    ) -> ToolResult:
        """Run a plan: one from the plans folder by its name, with its params, or one that is written for an objective.

        Give exactly one of objective and plan_name. Failed nodes are data in the answer,
        not an error. A run that takes longer goes on: ask plan_status with its run_id.
        """
        try:
            acquired = await self._acquisition.acquire(objective, plan_name, params)
        except Refusal as refusal:
            return refusal.answer()
        if acquired.plan is None or not acquired.report.ok:
            found = {"ok": False, "issues": issues_of(acquired.report)}
            return ToolResult.failed(
                f"the plan is not valid, and nothing was run:\n{acquired.report}",
                "plan_invalid",
                found,
            )
        plan = acquired.plan
        return await self._launch(lambda: self._engine.start(plan))

    async def plan_validate(
        self,
        objective: str | None = None,
        plan_name: str | None = None,
        params: dict[str, Any] | None = None,
    ) -> ToolResult:
        """Check a plan without running it; answers the plan itself, also when it is not valid, and every issue."""
        try:
            acquired = await self._acquisition.acquire(objective, plan_name, params)
        except Refusal as refusal:
            return refusal.answer()
        plan, report = acquired.plan, acquired.report
        return ToolResult.ok(
            {
                "plan": acquired.written if plan is None else plan.to_dict(),
                "ok": report.ok,
                "issues": issues_of(report),
            }
        )

    async def plan_status(self, run_id: str) -> ToolResult:
        """Tell how far a run is; the whole manifest once it has ended."""
        try:
            return asked(run_id, self._standing(await self._find(run_id)))
        except Refusal as refusal:
            return refusal.answer()
        except PlanbenchError as error:
            return refused(error)

    async def plan_artifacts(self, run_id: str) -> ToolResult:
        """List what a run has stored so far: keys of the working memory and small facets, never a body."""
        try:
            found = await self._find(run_id)
        except Refusal as refusal:
            return refusal.answer()
        except PlanbenchError as error:
            return refused(error)
        manifest = _state(found).manifest()
        refs = [ref.model_dump(mode="json") for ref in manifest.artifacts]
        return asked(run_id, ToolResult.ok({**envelope(manifest), "artifacts": refs}))

    @tool(effects="write")
    async def plan_resume(self, run_id: str) -> ToolResult:
        """Continue a run that was interrupted or has failed nodes; what finished is not called again."""
        try:
            await self._check_recorded(run_id)
            known = await self._known(run_id)
        except Refusal as refusal:
            return refusal.answer()
        answer = await self._launch(lambda: self._engine.resume(run_id), known, run_id)
        return asked(run_id, answer)

    @tool(effects="write")
    async def plan_repair(self, run_id: str) -> ToolResult:
        """Spend one repair attempt on a run with failed nodes: a model replaces them, the rest is kept."""
        try:
            await self._check_recorded(run_id)
            known = await self._known(run_id)
        except Refusal as refusal:
            return refusal.answer()
        mend = None if self._authoring is None else self._authoring.mend
        answer = await self._launch(lambda: self._engine.repair(run_id, mend), known, run_id)
        if known and not answer.success:  # the attempt that failed is used up
            told = {**(answer.result or {}), **(await self._known(run_id) or {})}
            answer = answer.model_copy(update={"result": told})
        return asked(run_id, answer)

    # -- runs -------------------------------------------------------------------------

    async def _launch(
        self,
        start: Callable[[], Awaitable[Run]],
        known: dict[str, Any] | None = None,
        parent_id: str | None = None,
    ) -> ToolResult:
        depth = _depth.get()
        if depth >= DEEPEST:
            text = f"{depth} runs are at work one within the other: a plan calls itself in the end"
            return ToolResult.failed(text, "invalid_arguments", known)
        token = PERMISSION_CONTEXT.set(self.permission_context)  # the calls of the run inherit both
        nested = _depth.set(depth + 1)
        try:
            await self._open()
            run = await start()
        except PlanInvalid as error:
            issues = [issue.model_dump(mode="json") for issue in error.issues]
            return refused(error, {**(known or {}), "ok": False, "issues": issues})
        except StoreError as error:
            return ToolResult.failed(str(error), "checkpoint_write_failed", known)
        except PlanbenchError as error:
            return refused(error, known)
        finally:
            _depth.reset(nested)
            PERMISSION_CONTEXT.reset(token)
        self._roster.add(run, parent_id)
        if self.on_node_event is not None:
            run.subscribe(self._tell)
        # whoever stops waiting, by the time limit or cancelled, leaves the run at work
        await asyncio.wait([run.root], timeout=self.soft_timeout)
        return self._standing(run)

    def _standing(self, found: Run | RunState) -> ToolResult:
        state = _state(found)
        answer = standing(state)
        if isinstance(found, Run) and found.finished and found.root.done():
            error = None if found.root.cancelled() else found.root.exception()
            if isinstance(error, PlanbenchError):
                return refused(error, whole(state.manifest()))
            if error is not None:
                raise error
        return ToolResult.ok(answer)

    async def _find(self, run_id: Any) -> Run | RunState:
        _check_id(run_id)
        run = self._roster.get(run_id)
        recorded = self._tiers.store and (run is None or run.plan.metadata.checkpoint)
        # of a run that has ended the record knows more: repairs, and children of others
        if run is not None and (not recorded or not run.root.done() or run.state.code):
            return run
        if not recorded:
            raise Refusal("unknown_run", f"there is no run {run_id!r}")
        await self._open()
        return (await self._engine.history(run_id)).state

    async def _known(self, run_id: str) -> dict[str, Any] | None:
        """Give the envelope of a run where it is known, for a refusal that concerns it."""
        try:
            return envelope(_state(await self._find(run_id)).manifest())
        except (Refusal, PlanbenchError):
            return None

    async def _check_recorded(self, run_id: Any) -> None:
        _check_id(run_id)
        run = self._roster.get(run_id)
        if not self._tiers.store:
            known = None if run is None else envelope(run.manifest())
            text = "no checkpoint store is configured: the host gives a durable_store or a checkpoint_store"
            raise Refusal("checkpoint_unavailable", text, known)
        if run is not None and not run.plan.metadata.checkpoint:
            raise Refusal(
                "checkpoint_unavailable",
                f"the plan of run {run_id!r} says checkpoint: false",
                envelope(run.manifest()),
            )

    async def _open(self) -> None:
        if self._opened is None:
            self._opened = asyncio.ensure_future(self._open_once())
        try:
            await asyncio.shield(self._opened)
        except StoreError:
            self._opened = None  # the next call tries again
            raise

    async def _open_once(self) -> None:
        await self._tiers.open()
        await self._engine.open()

    def _let_go(self, run: Run) -> None:
        run.let_go()

    def _tell(self, event: Event) -> None:
        if self.on_node_event is None or not event.type.startswith(_NODE):
            return
        told = self.on_node_event(event)
        if inspect.isawaitable(told):
            task = asyncio.ensure_future(told)
            self._told.add(task)
            task.add_done_callback(self._heard)

    def _heard(self, task: asyncio.Future[Any]) -> None:
        self._told.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _logger.error("on_node_event failed", exc_info=error)


class _Tiers:
    """The two tiers as one store; those given as URLs are opened and closed here."""

    def __init__(
        self, ephemeral: CheckpointStore | str | None, durable: CheckpointStore | str | None
    ) -> None:
        self._owned: list[CheckpointStore] = []
        self.store: TieredStore | None = None
        if ephemeral is not None or durable is not None:
            self.store = TieredStore(self._opened(ephemeral), self._opened(durable))

    def _opened(self, given: CheckpointStore | str | None) -> CheckpointStore | None:
        if given is None or isinstance(given, CheckpointStore):
            return given
        made = open_store(given)
        self._owned.append(made)
        return made

    async def open(self) -> None:
        for store in self._owned:
            await store.open()

    async def close(self) -> None:
        for store in self._owned:
            await store.close()


def _memory_of(given: WorkingMemoryToolkit | WorkingMemory | None) -> WorkingMemory:
    if given is None:
        return WorkingMemory()
    memory = given if isinstance(given, WorkingMemory) else getattr(given, "memory", None)
    if not isinstance(memory, WorkingMemory):
        raise ConfigurationError(
            f"working_memory is a WorkingMemoryToolkit or a WorkingMemory, not {type(given).__name__}"
        )
    return memory


def _state(found: Run | RunState) -> RunState:
    return found.state if isinstance(found, Run) else found


def _check_id(run_id: Any) -> None:
    if not isinstance(run_id, str) or not run_id:
        raise Refusal("invalid_arguments", "run_id is the id of a run, as plan_execute gave it")
