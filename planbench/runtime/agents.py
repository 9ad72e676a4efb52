"""Runs of algorithms in one engine: started, resumed, and brought to their end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from planbench import events as ev
from planbench.errors import (
    ArtifactRefused,
    ConfigurationError,
    RunRefused,
)
from planbench.plan.source import shown
from planbench.runtime.agent import Agent
from planbench.runtime.agent_root import AgentRoot
from planbench.runtime.agent_tools import ToolCaller
from planbench.runtime.algorithm import is_algorithm
from planbench.runtime.budget import Budget, Ledger, Spend, check_priced
from planbench.runtime.dispatch import Pools
from planbench.runtime.recorded import Values, read_value, write_value
from planbench.runtime.recovery import Recovery
from planbench.runtime.run import Run
from planbench.runtime.sketch import sketch
from planbench.runtime.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planbench.checkpoints import Lease
    from planbench.llm.client import ModelClient
    from planbench.memory.scope import TaskScope
    from planbench.runtime.algorithm import Algorithm
    from planbench.runtime.engine import Engine
    from planbench.runtime.history import History
    from planbench.runtime.recovery import Held

THREADS: Final = 32
"""Plain tools of one run that are at work at once; further ones wait."""
LONGEST_TASK: Final = 2_000
_LONGEST_NAME: Final = 200


class Agents:
    """The algorithms of one engine by name, and their runs.

    What is registered by hand is kept. An algorithm that came with a run is known for as
    long as somebody holds it; once its runs have ended another may have its name.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: dict[str, Algorithm] = {}
        self._met: WeakValueDictionary[str, Algorithm] = WeakValueDictionary()
        self._at_work: dict[str, list[Algorithm]] = {}

    @property
    def llm(self) -> ModelClient | None:
        """The model that is attached to the engine."""
        return self._engine.llm

    # -- names ------------------------------------------------------------------------

    def register(self, algorithm: Algorithm) -> None:
        """Keep an algorithm and those that it runs as children; raises ConfigurationError."""
        family = list(_family(algorithm))
        for one in family:
            self._meet(one)
        self._kept.update({one.name: one for one in family})

    def known(self, algorithm: Algorithm | str) -> Algorithm:
        """Give an algorithm, found by its name or met now; raises ConfigurationError."""
        if isinstance(algorithm, str):
            found = self._kept.get(algorithm) or self._met.get(algorithm)
            if found is None:
                raise ConfigurationError(
                    f"no algorithm {algorithm!r} is registered",
                    hint="register it, with its own executors: engine.register(algorithm)",
                )
            return found
        for one in list(_family(algorithm)):
            self._meet(one)
        return algorithm

    def _meet(self, algorithm: Algorithm) -> None:
        name = algorithm.name
        _check_same(algorithm, self._kept.get(name))
        for other in self._at_work.get(name, ()):
            _check_same(algorithm, other)
        try:
            self._met[name] = algorithm
        except TypeError:  # a class with __slots__ that cannot be held weakly
            self._kept[name] = algorithm

    def _busy(self, algorithm: Algorithm, root: asyncio.Task[Any]) -> None:
        """Hold the names of an algorithm and of its executors until a run has ended."""
        family = list(_family(algorithm))
        for one in family:
            self._at_work.setdefault(one.name, []).append(one)

        def free(_: asyncio.Task[Any]) -> None:
            for one in family:
                others = self._at_work[one.name]
                others.remove(one)
                if not others:
                    del self._at_work[one.name]

        root.add_done_callback(free)

    # -- runs -------------------------------------------------------------------------

    async def start(
        self,
        algorithm: Algorithm,
        inputs: Mapping[str, Any],
        budget: Budget | None = None,
        scope: TaskScope | None = None,
    ) -> Run:
        """Start the run of an algorithm on this loop.

        Raises ConfigurationError for inputs that cannot be recorded or that the algorithm
        does not take, for names that are taken, and for a ``max_cost`` that cannot be kept.
        """
        self.known(algorithm)
        check_priced(budget, self.llm, _models(algorithm))
        more = {} if budget is None else {"budget": budget.to_dict()}
        run = Run(sketch(algorithm.name, inputs.get("task")))
        run.budget, run.scope = budget, scope
        return await self._begin(run, algorithm, inputs, Ledger(budget), more, own_time=True)

    async def child(
        self,
        parent: Agent,
        run_id: str,
        algorithm: Algorithm,
        inputs: Mapping[str, Any],
        step_id: str,
    ) -> tuple[Run, asyncio.Task[None] | None]:
        """Start a child run, or go on with the one on record; one that was done has no task."""
        if not parent.transcript.is_new:
            history = await self._history(run_id)
            if history is not None and history.state.status == "success":
                return Run(history.plan, run_id, history), None
            if history is not None:
                async with Recovery(self._engine).held(history) as held:
                    run = await self.resume(held, algorithm, ledger=parent.ledger)
                    return run, run.root
        root = parent.run.state.lineage.root or parent.run_id
        more = {"root_run_id": root, "parent_run_id": parent.run_id, "step_id": step_id}
        run = Run(sketch(algorithm.name, inputs.get("task")), run_id)
        run.scope = parent.run.scope
        await self._begin(run, algorithm, inputs, parent.ledger, more, own_time=False)
        return run, run.root

    async def resume(
        self,
        held: Held,
        work: Algorithm | None = None,
        budget: Budget | None = None,
        *,
        ledger: Ledger | None = None,
    ) -> Run:
        """Run an algorithm again from its record: what was answered is not asked again.

        Raises RunRefused where the record cannot be followed, ConfigurationError where the
        algorithm is not known.
        """
        history = held.history
        algorithm = self._algorithm_of(history, work)
        agent = history.state.agent
        assert agent is not None
        try:
            transcript = Transcript(history.run_id, history.events)
        except (KeyError, TypeError, AttributeError) as error:
            raise RunRefused(
                "checkpoint_invalid", f"the record of run {history.run_id!r} is damaged: {error}"
            ) from error
        own = ledger is None
        if ledger is None:
            budget = budget or Budget.from_dict(_latest_budget(history))
            check_priced(budget, self.llm, _models(algorithm))
            ledger = Ledger(budget, await self._spent(history), history.seconds)
        run = Run(history.plan, history.run_id, history)
        run.budget = ledger.budget if own else None
        events: list[tuple[str, dict[str, Any]]] = []
        reset = [
            node.node_id
            for node in history.state.nodes.values()
            if node.status in ("running", "cancelled")
            or (node.status == "error" and not self._stands(history, transcript, node.node_id))
        ]
        if history.state.finished is None:
            events.append((ev.RUN_INTERRUPTED, {"status": "interrupted", "cancelled": {}}))
        told = {"reset": reset, "partly": [], "reruns": [], "seconds": history.seconds}
        if own and budget is not None:
            told["budget"] = budget.to_dict()
        events.append((ev.RUN_CONTINUED, {**told, "memory_id": self._engine.memory.memory_id}))
        artifacts = self._engine.artifacts(run.scope)
        inputs = await asyncio.to_thread(read_value, agent.started["inputs"], artifacts)
        if not isinstance(inputs, dict):
            raise RunRefused("checkpoint_invalid", "the inputs on record are none")
        lease = held.hand_over()
        return await self._launch(
            run, algorithm, inputs, events, ledger, transcript, lease=lease, own_time=own
        )

    # -- inside -----------------------------------------------------------------------

    async def _begin(
        self,
        run: Run,
        algorithm: Algorithm,
        inputs: Mapping[str, Any],
        ledger: Ledger,
        more: Mapping[str, Any],
        *,
        own_time: bool,
    ) -> Run:
        check = getattr(algorithm, "check", None)
        if callable(check):
            check(inputs)
        artifacts = self._engine.artifacts(run.scope)
        try:
            kept = await asyncio.to_thread(write_value, dict(inputs), artifacts)
        except ArtifactRefused as error:
            raise ConfigurationError(
                f"the inputs of {algorithm.name!r} cannot be recorded: {error.message}",
                hint="give plain data, frames or arrays",
            ) from error
        task = inputs.get("task")
        name = algorithm.name
        data = {"plan_name": name, "algorithm": name, "inputs": kept, **more}
        if isinstance(task, str):
            data["task"] = task[:LONGEST_TASK]
        events = [(ev.RUN_STARTED, self._engine.host_data(run, data))]
        transcript = Transcript(run.run_id)
        return await self._launch(
            run, algorithm, inputs, events, ledger, transcript, lease=None, own_time=own_time
        )

    async def _launch(
        self,
        run: Run,
        algorithm: Algorithm,
        inputs: Mapping[str, Any],
        events: Sequence[tuple[str, dict[str, Any]]],
        ledger: Ledger,
        transcript: Transcript,
        *,
        lease: Lease | None,
        own_time: bool,
    ) -> Run:
        engine = self._engine
        keeper = engine.keeper(run)
        try:
            keeper.begin(lease or await engine.take(run.run_id))
            for kind, data in events:
                run.emit(kind, data)
        except BaseException:
            await keeper.abandon(lease)
            raise
        artifacts = engine.artifacts(run.scope)
        keeping = keeper.keeping(artifacts)
        pools = Pools(THREADS)
        agent = Agent(
            run,
            self,
            ledger,
            transcript,
            ToolCaller(engine.registry, engine.allowed_tools, pools),
            Values(artifacts, pools.aside),
            None if keeping is None else keeping.journal,
        )
        root = AgentRoot(run, agent, keeper, pools, ledger if own_time else None)
        engine.host(run, root.work(algorithm, inputs), keeper)
        self._busy(algorithm, run.root)
        return run

    def _algorithm_of(self, history: History, work: Algorithm | None) -> Algorithm:
        agent = history.state.agent
        assert agent is not None
        if work is None:
            return self.known(agent.name)
        self.known(work)
        if work.name != agent.name:
            raise RunRefused(
                "run_not_resumable",
                f"run {history.run_id!r} is one of {agent.name!r}, not of {work.name!r}",
            )
        return work

    async def _history(self, run_id: str) -> History | None:
        try:
            return await Recovery(self._engine).history(run_id)
        except RunRefused as error:
            if error.code in ("unknown_run", "missing_or_expired"):
                return None
            raise

    async def _spent(self, history: History) -> Spend:
        """Count what a tree of runs has taken; children without an end say it themselves."""
        agent = history.state.agent
        if agent is None:
            return Spend()
        open_children = _open_children(history)
        total = agent.spent_without(open_children)
        for run_id in open_children:
            child = await self._history(run_id)
            if child is not None:
                total = total.plus(await self._spent(child))
        return total

    @staticmethod
    def _stands(history: History, transcript: Transcript, node_id: str) -> bool:
        agent = history.state.agent
        steps = {} if agent is None else agent.steps
        return any(step["id"] == node_id and transcript.stands(one) for one, step in steps.items())


def _family(algorithm: Algorithm) -> Iterator[Algorithm]:
    """Give an algorithm and all that it runs as children; raises ConfigurationError for what is none.

    Two of them with one name are refused as well.
    """
    named: dict[str, Algorithm] = {}
    seen: set[int] = set()
    rest = [algorithm]
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if not is_algorithm(one):
            raise ConfigurationError(
                f"{shown(one)} is no algorithm",
                hint="an algorithm is an object with a name and async run(agent, inputs), such as ToolLoop(tools)",
            )
        name: Any = one.name
        if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
            raise ConfigurationError(
                f"the name of an algorithm is 1 to {_LONGEST_NAME} characters, not {shown(name)}"
            )
        _check_same(one, named.setdefault(name, one))
        yield one
        rest.extend(getattr(one, "executors", ()))


def _check_same(algorithm: Algorithm, other: Algorithm | None) -> None:
    if other is not None and other is not algorithm:
        raise ConfigurationError(
            f"two algorithms are named {algorithm.name!r}: {shown(other)} and {shown(algorithm)}",
            hint='use one object for both, or give one another name: name="..."',
        )


def _models(algorithm: Algorithm) -> Iterator[str | None]:
    for one in _family(algorithm):
        yield getattr(one, "model", None)


def _latest_budget(history: History) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = None
    for event in history.events:
        if event.type in (ev.RUN_STARTED, ev.RUN_CONTINUED):
            found = event.data.get("budget", found)
    return found


def _open_children(history: History) -> set[str]:
    """Name the children that did not come to a good end: what they took is in their own journals."""
    started = {e.data["run_id"] for e in history.events if e.type == ev.CHILD_STARTED}
    ended = {
        e.data["run_id"]
        for e in history.events
        if e.type == ev.CHILD_FINISHED and e.data["status"] == "success"
    }
    return started - ended
