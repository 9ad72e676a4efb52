"""The workbench of one kernel or process: its tools, its memory, its plans, its runs."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from planbench.errors import ConfigurationError, PlanInvalid
from planbench.files import PlanFileStore, load_plan, with_lock
from planbench.llm import LLMHandler
from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan
from planbench.plan.parameters import check_params
from planbench.runbook import Runbook
from planbench.runtime import Engine
from planbench.runtime.algorithm import is_algorithm
from planbench.runtime.saving import save_at_end, save_policy
from planbench.session import PlanSession
from planbench.tools import ToolRegistry
from planbench.validation import check_plan, registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from planbench.checkpoints import CheckpointStore
    from planbench.llm.client import ModelClient, ModelReply, ModelRequest
    from planbench.llm.pricing import Prices
    from planbench.plan.manifest import PlanRunManifest
    from planbench.planner import PlanPlanner
    from planbench.runtime import Run
    from planbench.runtime.algorithm import Algorithm
    from planbench.runtime.remembering import Limits
    from planbench.validation import ValidationReport
    from planbench.validation.given import Buildable

    Source = str | Path | Mapping[str, Any] | ExecutionPlan | Buildable


class Saved(NamedTuple):
    """A plan that was saved: its version, whether that is a new one, and what the check found."""

    name: str
    version: int
    is_new: bool
    report: ValidationReport

    def __str__(self) -> str:
        said = f"saved {self.name}" if self.is_new else f"{self.name} is as it was"
        return f"{said}, version {self.version}"


class Workbench(Runbook):
    """Wires registry, memory, plan files, engine and runs together.

    ``env`` says which secrets may reach which tools: ``{"TOKEN": ["github_*"]}``.
    ``runs`` holds the latest 50, the oldest first; a live run is never let go.
    ``planner`` is the model that writes plans: a client or what else ``client_of`` takes, None
    for none; ``delegate_llm`` the one that delegate nodes ask; ``prices`` gives their prices as
    ``LLMHandler`` takes them.
    ``store`` says where runs are kept: a store, a URL or ``"memory"``; without one it is what
    the variable PLANBENCH_STORE says, and else ``.planbench`` of the working folder, within ``limits``.
    """

    def __init__(
        self,
        registry: ToolRegistry | Iterable[Any] | None = None,
        memory: WorkingMemory | None = None,
        plans_dir: str | Path = "plans",
        *,
        env: Mapping[str, Collection[str]] | None = None,
        allowed_tools: Collection[str] | None = None,
        store: CheckpointStore | str | None = None,
        limits: Limits | None = None,
        delegate_llm: Any = None,
    ) -> None:
        super().__init__(
            ToolRegistry() if registry is None else registry_of(registry),
            WorkingMemory() if memory is None else memory,
            allowed_tools=allowed_tools,
            env=env,
            store=store,
            limits=limits,
        )
        self.plans = PlanFileStore(plans_dir)
        self.planner: Any = None
        self.delegate = delegate_llm
        self.sessions: set[PlanSession] = set()

    @property
    def env(self) -> Mapping[str, Collection[str]] | None:
        """Which secrets may reach which tools."""
        return self.engine.env

    @env.setter
    def env(self, env: Mapping[str, Collection[str]] | None) -> None:
        self.engine.env = env

    @property
    def delegate(self) -> Any:
        """The model that delegate nodes ask, None for none; set to what ``client_of`` takes."""
        return self.engine.delegates.llm

    @delegate.setter
    def delegate(self, llm: Any) -> None:
        self.engine.delegates.llm = llm

    @property
    def prices(self) -> Prices:
        """The prices of models, as ``LLMHandler`` takes them."""
        return self.engine.delegates.prices

    @prices.setter
    def prices(self, prices: Prices | None) -> None:
        self.engine.delegates.prices = prices

    @property
    def allowed_tools(self) -> Collection[str] | None:
        """The names and patterns of the tools that plans may call; None allows all."""
        return self.engine.allowed_tools

    @allowed_tools.setter
    def allowed_tools(self, allowed_tools: Collection[str] | None) -> None:
        self.engine.allowed_tools = allowed_tools

    def check(
        self,
        source: Source,
        params: Mapping[str, Any] | None = None,
    ) -> ValidationReport:
        """Check a plan against the tools as they are now; never raises on content.

        The report of a file of the plans folder also says what its lock knows of the tools.
        """
        report = check_plan(source, self.registry, self.allowed_tools, params, env=self.env)
        return with_lock(report, self.registry, self.plans, source)

    def session(
        self,
        source: str | Path | ExecutionPlan,
        params: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> PlanSession:
        """Open a plan to be drawn, checked again with every change of a tool, and run."""
        if params is not None:
            check_params(params)
        return PlanSession(self, source, params, name)

    def save(self, plan: ExecutionPlan | str, name: str, *, force: bool = False) -> Saved:
        """Save a plan, or its text with layout and comments, under a name in the plans folder.

        A plan with errors is refused with PlanInvalid; with ``force`` one is saved that is
        a plan in itself and does not fit the tools. Where the file is open it is checked
        again. Raises PlanLoadError.
        """
        report = self.check(plan)
        if not report.ok and (report.plan is None or not force):
            raise PlanInvalid(report.issues, name=name)
        before = self.plans.latest(name)
        version = self.plans.save(plan, name)
        for session in [one for one in self.sessions if one.source == self.plans.path(name)]:
            session.validate()
        return Saved(name, version, version > before, report)

    def model(self, spec: Any = None) -> LLMHandler:
        """Give a model that counts and prices its calls: ``spec``, or the one of ``planner``.

        Raises ConfigurationError where there is none, and as ``client_of``.
        """
        spec = self.planner if spec is None else spec
        if spec is None:
            raise ConfigurationError(
                "no model is chosen, and there is no default one",
                hint='write: get_workbench().planner = "provider:model", or a client',
            )
        return LLMHandler(spec, self.prices)

    def plan_planner(self, llm: ModelClient | None = None) -> PlanPlanner:
        """Give a planner for the tools that plans may call here; one without a model only prompts."""
        from planbench.planner import PlanPlanner  # noqa: PLC0415 - few sessions have a plan written

        return PlanPlanner(
            _NoModel() if llm is None else llm, self.registry, self.allowed_tools, env=self.env
        )

    async def start(self, plan: Source | Algorithm, params: Mapping[str, Any] | None = None) -> Run:
        """Start a run on this loop; takes what ``load_plan`` takes, raises as Engine.start.

        It may be an algorithm too; ``params`` are its inputs then.
        """
        if is_algorithm(plan):
            work: ExecutionPlan | Algorithm = cast("Algorithm", plan)
        else:
            work, params = _loaded(cast("Source", plan), params)
        policy = save_policy()
        run = await self._reliably(lambda: self.engine.start(work, params))
        return await self._begun(run, policy)

    async def close(self) -> None:
        """Close all sessions and the engine; live runs are cancelled."""
        for session in list(self.sessions):
            session.close()
        await super().close()


class _NoModel:
    """Stands where a planner only makes prompts."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Refuse."""
        del request
        raise ConfigurationError("this planner has no model to ask")


_lock = threading.Lock()
_workbench: Workbench | None = None


def get_workbench() -> Workbench:
    """Give this process's workbench, made at the first call."""
    global _workbench  # noqa: PLW0603 - one workbench a process is what the name promises
    with _lock:
        if _workbench is None:
            _workbench = Workbench()
        return _workbench


def set_workbench(workbench: Workbench) -> None:
    """Make a workbench of your own the one that ``get_workbench`` gives."""
    global _workbench  # noqa: PLW0603 - as in get_workbench
    with _lock:
        _workbench = workbench


def _loaded(
    plan: Source, params: Mapping[str, Any] | None
) -> tuple[ExecutionPlan, Mapping[str, Any] | None]:
    """Read what is no plan yet, its parameters put in so that errors name the lines."""
    if isinstance(plan, ExecutionPlan):
        return plan, params
    return load_plan(plan, {} if params is None else params), None


async def run_plan(
    plan: Source,
    *,
    registry: ToolRegistry | Iterable[Any] | None = None,
    memory: WorkingMemory | None = None,
    store: CheckpointStore | str | None = None,
    params: Mapping[str, Any] | None = None,
    allowed_tools: Collection[str] | None = None,
    env: Mapping[str, Collection[str]] | None = None,
    delegate_llm: Any = None,
) -> PlanRunManifest:
    """Run a plan to its end and give the manifest; nodes that fail are data in it.

    The plan is anything that ``load_plan`` reads, ``registry`` may be a plain list of
    functions; without one the tools are those of the workbench. ``delegate_llm`` is the model
    that delegate nodes ask. Raises PlanLoadError,
    PlanInvalid, ConfigurationError and RunRefused before anything is called. Whoever cancels the caller cancels the run.
    """
    plan, params = _loaded(plan, params)
    policy = save_policy()
    registry = get_workbench().registry if registry is None else registry
    options: dict[str, Any] = {"allowed_tools": allowed_tools, "env": env}
    async with Engine(store, registry, memory, delegate_llm=delegate_llm, **options) as engine:
        run = await engine.start(plan, params)
        if policy is not None:
            run.epilogue = asyncio.create_task(save_at_end(run, policy))
        outcome = await run.result()
    manifest: PlanRunManifest = outcome.value
    return manifest


def run_sync(plan: Source, **options: Any) -> PlanRunManifest:
    """Run a plan from a script; takes what ``run_plan`` takes.

    Raises ConfigurationError where an event loop runs already, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_plan(plan, **options))
    raise ConfigurationError(
        "run_sync cannot be called where an event loop runs, as in a notebook",
        hint="write: manifest = await run_plan(plan, ...)",
    )
