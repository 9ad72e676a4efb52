"""Plan once, run the steps as child runs side by side, plan anew when one fails, then sum up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.algos import step_prompts as prompts
from planbench.algos.asking import checked_model, checked_prompt, checked_task, text_of
from planbench.errors import AlgorithmFailed, BudgetExceeded, ConfigurationError, PlanInvalid
from planbench.llm.answers import parse_steps
from planbench.llm.client import Message, ModelRequest
from planbench.plan.source import shown
from planbench.plan.steps import Step
from planbench.runtime.algorithm import is_algorithm
from planbench.tools import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.llm.client import ReplySchema
    from planbench.plan.issues import ValidationIssue
    from planbench.runtime.agent import Agent
    from planbench.runtime.algorithm import Algorithm
    from planbench.runtime.outcome import Outcome

NAME: Final = "plan_and_execute"
_MAX_TEXT: Final = 300
_MAX_ISSUES: Final = 5


class PlanAndExecute:
    """Asks a model for steps that depend on each other, and has each done by ``executor``.

    ``executor`` is any algorithm. A step starts as a child run when all that it depends on
    is done, at most ``max_parallel`` at once, and gets the task, its description and the
    results that it builds on. When a step fails, those at work are waited for, and the
    model is asked for the remaining steps, at most ``max_replans`` times; their ids begin
    with ``r1-``, ``r2-``. After that the run fails with the reason of the step.

    The value is ``{"text": answer, "results": {step id: result}}``; without ``synthesize``
    ``{"results": ...}`` alone, and so for a run that does not come to its end. ``model`` is
    the name of a model for planning and summing up; None is the client's own.
    ``planner_system`` takes the place of the planner's prompt, and must ask for the same
    JSON. Inputs: ``{"task": text}``.
    """

    def __init__(
        self,
        executor: Algorithm,
        *,
        model: str | None = None,
        max_parallel: int = 3,
        max_replans: int = 1,
        synthesize: bool = True,
        planner_system: str = prompts.PLANNER,
        name: str | None = None,
    ) -> None:
        if not is_algorithm(executor):
            raise ConfigurationError(
                f"the executor is an algorithm, not {shown(executor)}",
                hint="write: PlanAndExecute(ToolLoop(registry))",
            )
        for what, value, least in (
            ("max_parallel", max_parallel, 1),
            ("max_replans", max_replans, 0),
        ):
            if type(value) is not int or value < least:
                raise ConfigurationError(f"{what} is a number from {least} on, not {shown(value)}")
        self.executor = executor
        self.model = checked_model(model)
        self.max_parallel = max_parallel
        self.max_replans = max_replans
        self.synthesize = synthesize
        self.planner_system = checked_prompt("planner_system", planner_system)
        self.name = _free_name(executor) if name is None else name

    def __repr__(self) -> str:
        return f"<PlanAndExecute {self.name!r} with {self.executor!r}>"

    @property
    def executors(self) -> tuple[Algorithm, ...]:
        """The algorithms that it runs as children."""
        return (self.executor,)

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Raise ConfigurationError for inputs without a task."""
        checked_task(inputs)

    async def run(self, agent: Agent, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Do the task; raises AlgorithmFailed for an invalid plan and a step that stays failed."""
        task = checked_task(inputs)
        work = _Work(self, agent, task)
        agent.partial = {"results": {}}
        work.plan(await self._planned(agent, prompts.planning(task)))
        for number in range(1, self.max_replans + 2):
            await work.execute()
            if not work.failed:
                break
            if number > self.max_replans:
                raise AlgorithmFailed(next(iter(work.failed.values()))[1])
            question = prompts.replanning(task, work.done, work.failed, work.left.values())
            work.revise(number, await self._planned(agent, question))
        results = work.ordered()
        if not self.synthesize:
            return {"results": results}
        request = self._request(prompts.COMBINE, prompts.combining(task, work.done))
        return {"text": text_of(await agent.complete(request)), "results": results}

    async def _planned(self, agent: Agent, question: str) -> str:
        """Ask for steps; the record knows the question by its words, whatever the tools say now."""
        registry = getattr(self.executor, "registry", None)
        known = registry.list_tools() if isinstance(registry, ToolRegistry) else []
        about = prompts.offer(known)
        request = self._request(self.planner_system, question + about, prompts.STEPS)
        return text_of(await agent.complete(request, known_by=[self.planner_system, question]))

    def _request(
        self, system: str, question: str, schema: ReplySchema | None = None
    ) -> ModelRequest:
        said = [Message(role="system", content=system), Message(role="user", content=question)]
        return ModelRequest(messages=said, model=self.model, schema=schema)


class _Work:
    """The steps of one run: what is left, at work, done and failed, each in the order of the plan."""

    def __init__(self, algorithm: PlanAndExecute, agent: Agent, task: str) -> None:
        self.left: dict[str, Step] = {}
        self.done: dict[str, tuple[Step, Any]] = {}
        self.failed: dict[str, tuple[Step, str]] = {}
        self._algorithm = algorithm
        self._agent = agent
        self._task = task
        self._order: list[str] = []
        self._over: str | None = None

    def plan(self, answer: str) -> None:
        """Take the first plan; raises AlgorithmFailed for one that is invalid."""
        self._take(ev.PLAN_CREATED, _read(answer), {})

    def revise(self, number: int, answer: str) -> None:
        """Take a new plan for what is left; its steps may depend on those that are done.

        A step that is done, and that the model planned again as it was, is not done again.
        """
        steps = [step for step in _read(answer, self.done) if not self._is_done(step)]
        if not steps:
            raise AlgorithmFailed("invalid plan: all of its steps are done already")
        prefix = f"r{number}-"
        names = {step.id: f"{prefix}{step.id.removeprefix(prefix)}" for step in steps}
        if len(set(names.values())) < len(names) or set(names.values()) & set(self._order):
            raise AlgorithmFailed(f"invalid plan: ids are used twice: {', '.join(names.values())}")
        renamed = [
            Step(
                id=names[step.id],
                description=step.description,
                depends_on=[names.get(need, need) for need in step.depends_on],
            )
            for step in steps
        ]
        told = {
            "replan": number,
            "failed": {step_id: why for step_id, (_, why) in self.failed.items()},
            "dropped": list(self.left),
        }
        self.left.clear()
        self.failed.clear()
        self._take(ev.PLAN_REVISED, renamed, told)

    async def execute(self) -> None:
        """Run steps until none is left that can run; after a failure no further one starts.

        Raises BudgetExceeded, when all that was at work has come to its end.
        """
        running: dict[asyncio.Task[Outcome], Step] = {}
        try:
            while True:
                while step := self._next(len(running) < self._algorithm.max_parallel):
                    running[asyncio.create_task(self._run(step))] = step
                if not running:
                    break
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in [one for one in running if one in ended]:
                    self._ended(running.pop(task), task.result())
        finally:
            await _stop(running)
        if self._over is not None:
            raise BudgetExceeded(self._over)

    def ordered(self) -> dict[str, Any]:
        """Give the results in the order of the plan."""
        return {step_id: value for step_id, (_, value) in self.done.items()}

    def _is_done(self, step: Step) -> bool:
        return step.id in self.done and self.done[step.id][0].description == step.description

    def _take(self, kind: str, steps: list[Step], told: dict[str, Any]) -> None:
        self.left.update({step.id: step for step in steps})
        self._order += [step.id for step in steps]
        self._agent.emit(kind, {"steps": [step.model_dump() for step in steps], **told})

    def _next(self, has_room: bool) -> Step | None:
        """Give the next step that can run, and take it out of those that are left.

        What was begun before the run was resumed is begun again, whatever the limit is now.
        """
        starts = has_room and not self.failed and self._over is None
        for step in self.left.values():
            is_ready = all(need in self.done for need in step.depends_on)
            if is_ready and (starts or self._agent.has_begun(step.id)):
                return self.left.pop(step.id)
        return None

    async def _run(self, step: Step) -> Outcome:
        needs = {need: self.done[need] for need in step.depends_on}
        inputs = {
            "task": prompts.step_task(self._task, step, needs),
            "step": {"id": step.id, "description": step.description},
            "results": {need: value for need, (_, value) in needs.items()},
        }
        self._agent.emit(ev.TASK_STARTED, {"step_id": step.id})
        return await self._agent.child(self._algorithm.executor, inputs, step_id=step.id)

    def _ended(self, step: Step, outcome: Outcome) -> None:
        if outcome.status == "success":
            value = _result(outcome.value)
            self.done[step.id] = (step, value)
            self.done = _sorted(self.done, self._order)
            self._agent.partial = {"results": self.ordered()}
            text = prompts.said(value)[:_MAX_TEXT]
            self._agent.emit(ev.TASK_FINISHED, {"step_id": step.id, "text": text})
        elif outcome.status == "budget_exceeded":
            self._over = self._over or outcome.reason or "the budget is used up"
        else:
            reason = outcome.reason or f"the step was {outcome.status}"
            self.failed[step.id] = (step, reason)
            self.failed = _sorted(self.failed, self._order)
            self._agent.emit(ev.TASK_FAILED, {"step_id": step.id, "reason": reason})


def _read(answer: str, known: Collection[str] = ()) -> list[Step]:
    try:
        return parse_steps(answer, known).steps
    except PlanInvalid as error:
        found = [_told(issue) for issue in error.issues if issue.severity == "error"]
        more = f"; and {len(found) - _MAX_ISSUES} more" if len(found) > _MAX_ISSUES else ""
        raise AlgorithmFailed(f"invalid plan: {'; '.join(found[:_MAX_ISSUES])}{more}") from error


def _told(issue: ValidationIssue) -> str:
    """Say what is wrong, with its step and the way to mend it: the answer itself is not at hand."""
    named = issue.node_id is None or repr(issue.node_id) in issue.message
    step = "" if named else f"step {shown(issue.node_id)}: "
    fix = "" if issue.fix is None else f" ({issue.fix})"
    return f"{step}{issue.message}{fix}"


def _result(value: Any) -> Any:
    """Give the result of a step: of an executor that gives text alone, that text."""
    if isinstance(value, dict) and set(value) == {"text"}:
        return value["text"]
    return value


def _sorted(steps: dict[str, Any], order: list[str]) -> dict[str, Any]:
    return {step_id: steps[step_id] for step_id in order if step_id in steps}


async def _stop(running: Collection[asyncio.Task[Outcome]]) -> None:
    """Cancel what is at work and see it end."""
    left = [task for task in running if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    for task in running:
        if not task.cancelled():
            task.exception()  # one of them is raised already; asyncio would log the others


def _free_name(executor: Algorithm) -> str:
    """Give a name that no algorithm below has."""
    taken = set()
    rest = [executor]
    while rest:
        one = rest.pop()
        if one.name not in taken:
            taken.add(one.name)
            rest.extend(getattr(one, "executors", ()))
    name, number = NAME, 1
    while name in taken:
        number += 1
        name = f"{NAME}_{number}"
    return name
