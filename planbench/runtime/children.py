"""Continues a run with another plan: a child that keeps what the plan leaves untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from planbench import events as ev
from planbench.errors import ModelError, PlanAuthoringError, PlanInvalid, RunRefused
from planbench.runtime.history import History, edited
from planbench.runtime.recovery import Recovery
from planbench.runtime.restore import Importer
from planbench.runtime.run import Run
from planbench.tools import is_allowed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.engine import Engine
    from planbench.runtime.history import Continuation
    from planbench.runtime.recovery import Held
    from planbench.runtime.restore import Source


class Repairable(NamedTuple):
    """What a planner is asked to mend: the ended run, the nodes it may replace, the tools it may call."""

    history: History
    nodes: list[str]
    tools: list[str]


class Children:
    """Starts the children of one engine's runs; every refusal is a RunRefused."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._recovery = Recovery(engine)

    async def fork(self, run_id: str, plan: ExecutionPlan) -> Run:
        """Start a child by hand, with a mended plan."""
        async with self._recovery.held(await self._recovery.newest(run_id)) as held:
            return await self._child(held, plan, {"purpose": "fork"})

    async def _child(self, held: Held, plan: ExecutionPlan, told: dict[str, Any]) -> Run:
        engine, recovery, history = self._engine, self._recovery, held.history
        _check_plan(history)
        recovery.check_host(history)
        compiled = engine.compile(plan)
        again = told["purpose"] == "fork"
        way = recovery.way(history, plan, edited(history.plan, plan), again=again)
        resumed = await recovery.restored(recovery.restorer(history), way)
        child = Run(plan)
        started = {**_line(history), "reruns": way.reruns, **told}
        data = {"run_id": child.run_id, "continues": True, **told}
        await recovery.record(held, ev.CHILD_STARTED, data)
        events = [engine.started(child, compiled, started), *inherited(history, way, plan)]
        return await engine.launch(child, compiled, events, resumed=resumed)

    async def take_over(
        self, history: History, artifacts: Source, plan: ExecutionPlan | None
    ) -> Run:
        """Start a child of a run that was recorded elsewhere; nothing of it is trusted."""
        engine, recovery = self._engine, self._recovery
        _check_plan(history)
        # A reading of its own: the importer notes in it under which versions the values stand now.
        history = History(history.run_id, history.events)
        plan = history.plan if plan is None else plan
        compiled = engine.compile(plan)
        history.nodes = {one: history.nodes[one] for one in compiled.nodes if one in history.nodes}
        way = recovery.way(history, plan, edited(history.plan, plan))
        if not way.reset:
            raise RunRefused(
                "run_not_resumable", f"nothing of run {history.run_id!r} is left to do"
            )
        limit = engine.recovery.max_restore_bytes
        importer = Importer(history, engine.memory, artifacts, limit, engine.artifacts())
        resumed = await recovery.restored(importer, way)
        child = Run(plan)
        started = {**_line(history), "reruns": way.reruns, "purpose": "file"}
        events = [engine.started(child, compiled, started), *inherited(history, way, plan)]
        return await engine.launch(child, compiled, events, resumed=resumed)

    # -- repair -----------------------------------------------------------------------

    async def repair(
        self, run_id: str, mend: Callable[[Repairable], Awaitable[ExecutionPlan]] | None
    ) -> Run:
        """Spend one attempt: the plan that ``mend`` gives runs as a child, with all that is well kept.

        The attempt is on record before ``mend`` is called, and whatever it raises has used
        it up. Codes: run_not_repairable, planner_unavailable, repair_limit_reached,
        no_repairable_nodes, repair_interrupted, delta_invalid, run_busy.
        """
        recovery = self._recovery
        newest = await recovery.newest(run_id)
        async with recovery.held(await recovery.history(_root(newest))) as root:
            newest = await recovery.newest(run_id)
            if newest.run_id == root.history.run_id:
                return await self._repaired(root, root, mend)
            async with recovery.held(newest) as held:
                return await self._repaired(root, held, mend)

    async def _repaired(
        self,
        root: Held,
        held: Held,
        mend: Callable[[Repairable], Awaitable[ExecutionPlan]] | None,
    ) -> Run:
        history = held.history
        _check_repairable(history)
        if mend is None:
            raise RunRefused("planner_unavailable", "no planner is configured for repairs")
        self._recovery.check_host(history)  # else an attempt, and a model asked, for nothing
        await self._check_last_attempt(root, history)
        used = root.history.state.lineage.repairs
        limit = self._engine.recovery.max_repair_rounds
        if used >= limit:
            raise RunRefused("repair_limit_reached", f"{used} of {limit} repair rounds are used")
        attempt = used + 1
        work = self._work(history)
        await self._recovery.record(root, ev.REPAIR_RESERVED, {"attempt": attempt})
        try:
            plan = await mend(work)
            told = {"purpose": "repair", "attempt": attempt}
            child = await self._child(held, plan, told)
        except (PlanAuthoringError, PlanInvalid) as error:
            await self._close(root, attempt, "delta_invalid")
            raise RunRefused("delta_invalid", error.message, hint=error.hint) from error
        except ModelError as error:
            await self._close(root, attempt, "planner_unavailable")
            raise RunRefused("planner_unavailable", error.message, hint=error.hint) from error
        except BaseException:
            await self._close(root, attempt, "failed")
            raise
        await self._close(root, attempt, "dispatched")
        return child

    async def _close(self, root: Held, attempt: int, outcome: str) -> None:
        data = {"attempt": attempt, "outcome": outcome}
        await self._recovery.record(root, ev.REPAIR_RESERVED, data)

    async def _check_last_attempt(self, root: Held, newest: History) -> None:
        """Say once that the process ended between the reservation of an attempt and its dispatch."""
        attempt, closed = 0, True
        for event in root.history.events:
            if event.type == ev.REPAIR_RESERVED:
                attempt, closed = event.data["attempt"], "outcome" in event.data
        if closed:
            return
        if newest.started.get("attempt") == attempt:
            await self._close(root, attempt, "dispatched")
            return
        await self._close(root, attempt, "interrupted")
        raise RunRefused(
            "repair_interrupted",
            f"attempt {attempt} was reserved, and the process ended before it was dispatched",
            hint="ask again to spend the next attempt, if one is left",
        )

    def _work(self, history: History) -> Repairable:
        failed = [
            state.node_id
            for state in history.state.nodes.values()
            if state.status not in ("ok", "partial", "skipped")
        ]
        if not failed:
            raise RunRefused(
                "no_repairable_nodes", "no node has failed or was never dispatched: resume the run"
            )
        before, now = history.started.get("policy"), self._engine.policy
        tools = [
            name
            for name in self._engine.registry.names()
            if is_allowed(name, before) and is_allowed(name, now)
        ]
        return Repairable(history, failed, tools)


def _check_plan(history: History) -> None:
    """Refuse the run of an algorithm: no plan can take its place."""
    if history.state.agent is not None:
        raise RunRefused(
            "run_not_resumable",
            f"run {history.run_id!r} is one of algorithm {history.state.agent.name!r}, and not of a plan",
            hint="resume it: engine.resume(run_id, algorithm)",
        )


def _root(history: History) -> str:
    return history.state.lineage.root or history.run_id


def _line(history: History) -> dict[str, Any]:
    repairs = history.state.lineage.repairs
    return {"root_run_id": _root(history), "parent_run_id": history.run_id, "repairs": repairs}


def _check_repairable(history: History) -> None:
    status = history.state.status
    if history.state.agent is not None:
        text = f"run {history.run_id!r} is one of an algorithm: it has no plan to mend"
        raise RunRefused("run_not_repairable", text, hint="resume it instead")
    if status not in ("failed", "partial"):
        raise RunRefused(
            "run_not_repairable",
            f"run {history.run_id!r} is {status}, and only one that ended with failed nodes can be repaired",
            hint=None if status == "completed" else "resume it first",
        )


def inherited(
    history: History, way: Continuation, plan: ExecutionPlan
) -> list[tuple[str, dict[str, Any]]]:
    """Give the events by which a child takes over what its parent has finished."""
    told: list[tuple[str, dict[str, Any]]] = []
    again, partly = set(way.reset), set(way.partly) - way.outdated
    for node in plan.nodes:
        state = history.state.nodes.get(node.id)
        if state is None or (node.id in again and node.id not in partly):
            continue
        mark = {"kept": history.run_id}
        if state.status == "skipped":
            told.append((ev.NODE_SKIPPED, {"node_id": node.id, "reason": state.reason, **mark}))
            continue
        record = history.nodes[node.id]
        if state.total is not None:
            told.append((ev.NODE_PROGRESS, {"node_id": node.id, "total": state.total}))
        told += [(ev.ITEM_FINISHED, {**record.items[i], **mark}) for i in sorted(record.items)]
        if record.chosen is not None and node.id not in again:
            told.append((ev.TOOL_CALLED, {**record.chosen, **mark}))
        if node.id not in again and record.finished is not None:
            told.append((ev.NODE_FINISHED, {**record.finished, **mark}))
    return told
