"""Continues runs from their record, and tells what is on it."""

from __future__ import annotations

import asyncio
import contextlib
from time import time
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.errors import LeaseLost, RecordDamaged, RunRefused, StoreError
from planbench.events import Event
from planbench.runtime.budget import Budget, time_limit
from planbench.runtime.dispatch import ToolThreads
from planbench.runtime.history import History, continuation
from planbench.runtime.leases import is_gone, take_lease
from planbench.runtime.restore import Restorer
from planbench.runtime.run import Run
from planbench.runtime.standing import RESUMABLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from planbench.checkpoints import Lease, RunRecord
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.engine import Engine
    from planbench.runtime.history import Continuation
    from planbench.runtime.restore import Resumed

LONGEST_LINE: Final = 100
"""Children behind one another that are followed to the newest."""
GONE: Final = "the process that ran it has ended"


class Held:
    """A run that nobody else can continue meanwhile."""

    def __init__(self, lease: Lease, history: History) -> None:
        self.lease = lease
        self.history = history
        self.handed_over = False

    def hand_over(self) -> Lease:
        """Give the lease to whoever gives it back."""
        self.handed_over = True
        return self.lease


class Recovery:
    """Reads the runs of one engine's store back, and takes them up again.

    Every refusal is a RunRefused with the code of the reference; nothing was called then.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # -- looking ----------------------------------------------------------------------

    async def records(self) -> list[RunRecord]:
        """List the runs on record, oldest first; one whose process has ended is ``interrupted``."""
        found = await self._answer(self._engine.store.runs())
        return [await self._told(record) for record in found]

    async def _told(self, record: RunRecord) -> RunRecord:
        if record.status not in ("running", "waiting") or self._engine.is_live(record.run_id):
            return record
        holder = await self._answer(self._engine.store.lease(record.run_id))
        if holder is not None and not is_gone(holder.owner):
            return record
        return record._replace(status="interrupted")

    async def history(self, run_id: str) -> History:
        """Read a run back; raises RunRefused unknown_run, missing_or_expired, checkpoint_invalid."""
        store = self._engine.store
        try:
            events = await self._answer(store.read(run_id))
        except RecordDamaged as error:
            raise RunRefused("checkpoint_invalid", error.message, hint=error.hint) from error
        if not events:
            if self._engine.outlives:
                raise RunRefused("unknown_run", f"there is no record of run {run_id!r}")
            raise RunRefused(
                "missing_or_expired",
                f"there is no record of run {run_id!r} any more",
                hint="an ephemeral store keeps runs for a time; a durable one keeps them",
            )
        try:
            return History(run_id, events)
        except RecordDamaged as error:
            raise RunRefused("checkpoint_invalid", error.message, hint=error.hint) from error

    async def newest(self, run_id: str) -> History:
        """Read the run, or the newest of the children that were made to continue it."""
        history = await self.history(run_id)
        for _ in range(LONGEST_LINE):
            child = history.state.lineage.child
            if child is None:
                break
            try:
                found = await self.history(child)
            except RunRefused as error:
                if error.code == "checkpoint_invalid":
                    raise
                break  # the process ended before the child's first event was on record
            repairs = max(history.state.lineage.repairs, found.state.lineage.repairs)
            found.state.lineage.repairs = repairs
            history = found
        return history

    async def look(self, run_id: str) -> History:
        """Read the newest of a run's line, its status as it is now."""
        history = await self.newest(run_id)
        if await self._is_interrupted(history):
            history.state.status = "interrupted"
        try:
            self.check_host(history)
        except RunRefused as refusal:
            history.state.refusal = f"{refusal.code}: {refusal.message}"
        return history

    async def _is_interrupted(self, history: History) -> bool:
        """Whether the run says that it is at work, and nobody is."""
        if history.state.status not in ("running", "waiting"):
            return False
        if self._engine.is_live(history.run_id):
            return False
        holder = await self._answer(self._engine.store.lease(history.run_id))
        return holder is None or is_gone(holder.owner)

    async def _answer(self, question: Awaitable[Any]) -> Any:
        limit = self._engine.recovery.checkpoint_probe_timeout
        try:
            async with asyncio.timeout(limit):
                return await question
        except TimeoutError as error:
            raise RunRefused(
                "run_not_resumable", f"the checkpoint store gave no answer within {limit:g} s"
            ) from error
        except RecordDamaged:
            raise
        except StoreError as error:
            raise RunRefused(
                "run_not_resumable", f"the checkpoint store does not answer: {error.message}"
            ) from error

    # -- the same run again -----------------------------------------------------------

    async def resume(self, run_id: str, work: Any = None, budget: Budget | None = None) -> Run:
        """Go on with a run, or with the newest of its children; what has ended is not called."""
        async with self.held(await self.newest(run_id)) as held:
            history = held.history
            self._check_status(history)
            self.check_host(history)
            if history.state.agent is not None:
                return await self._engine.agents.resume(held, work, budget)
            budget = budget or Budget.from_dict(history.started.get("budget"))
            time_limit(history.plan, budget, history.seconds)
            compiled = self._engine.compile(history.plan)
            way = self.way(history, history.plan, set())
            resumed = await self.restored(self.restorer(history), way)
            run = Run(history.plan, history.run_id, history)
            run.budget = budget
            events = []
            if history.state.finished is None:
                running = [n.node_id for n in history.state.nodes.values() if n.status == "running"]
                gone = {"status": "interrupted", "cancelled": dict.fromkeys(running, GONE)}
                events.append((ev.RUN_INTERRUPTED, gone))
            events.append((ev.RUN_CONTINUED, self._continued(history, way, compiled.tools)))
            lease = held.hand_over()
            return await self._engine.launch(run, compiled, events, lease=lease, resumed=resumed)

    def _continued(
        self, history: History, way: Continuation, tools: dict[str, str]
    ) -> dict[str, Any]:
        return {
            "reset": way.reset,
            "partly": way.partly,
            "reruns": way.reruns,
            "seconds": history.seconds,
            "tools": tools,
            "memory_id": self._engine.memory.memory_id,
        }

    def _check_status(self, history: History) -> None:
        status = history.state.status
        if status not in RESUMABLE and status not in ("running", "waiting", "pending"):
            raise RunRefused(
                "run_not_resumable",
                f"run {history.run_id!r} is {status}: nothing of it is left to do",
            )

    def check_host(self, history: History) -> None:
        """Refuse another scope, a stricter policy, and values that died with their process."""
        engine, started = self._engine, history.started
        scope = None if engine.scope is None else engine.scope.to_dict()
        if started.get("scope") != scope:
            raise RunRefused(
                "scope_mismatch",
                f"run {history.run_id!r} belongs to another scope than this host's",
            )
        allowed, before = engine.policy, started.get("policy")
        if allowed is not None and (before is None or not set(before) <= set(allowed)):
            raise RunRefused(
                "policy_mismatch",
                f"run {history.run_id!r} was started under a wider policy than allowed_tools gives now",
                hint="start it anew under the policy of now",
            )
        if history.state.agent is not None:
            return  # all that an algorithm was given is in its journal
        level = history.state.lineage.resume_level
        if level != "cross_restart" and history.memory_id != engine.memory.memory_id:
            raise RunRefused(
                "artifacts_unavailable",
                f"what run {history.run_id!r} stored was kept in the memory of another process",
                hint="a run outlives its process with a durable store, durable artifacts and a scope",
            )

    # -- steps ------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def held(self, history: History) -> AsyncIterator[Held]:
        """Hold a run while it is continued, and read again what happened before it was ours.

        The lease is given back at the end, unless it was handed over. Raises RunRefused
        run_busy where the run is at work, or is being continued by somebody.
        """
        run_id = history.run_id
        busy = RunRefused("run_busy", f"run {run_id!r} is at work, here or in another process")
        if self._engine.is_live(run_id) or run_id in self._engine.continuing:
            raise busy
        self._engine.continuing.add(run_id)
        try:
            lease = await self._take(run_id)
            if lease is None:
                raise busy
            held = Held(lease, history)
            try:
                if await self._answer(self._engine.store.read(run_id, history.events[-1].seq)):
                    held.history = await self.history(run_id)
                yield held
            finally:
                if not held.handed_over:
                    with contextlib.suppress(StoreError):  # it ends with its time
                        await self._engine.store.release_lease(lease)
        finally:
            self._engine.continuing.discard(run_id)

    async def _take(self, run_id: str) -> Lease | None:
        engine = self._engine
        question = take_lease(engine.store, run_id, engine.owner, engine.lease_seconds)
        try:
            found: Lease | None = await self._answer(question)
        except LeaseLost:
            return None
        return found

    async def record(self, held: Held, kind: str, data: dict[str, Any]) -> None:
        """Add an event to the journal of a run that is held and not at work."""
        last = held.history.events[-1].seq
        event = Event(last + 1, held.history.run_id, time(), kind, data)
        await self._engine.store.append(event.run_id, [event], held.lease)
        held.history.events.append(event)
        held.history.state.apply(event)

    def way(
        self, history: History, plan: ExecutionPlan, changed: set[str], *, again: bool = True
    ) -> Continuation:
        """Work out what runs: beside what failed or never ran, the changed nodes and those of changed tools."""
        states = history.state.nodes
        registry, before = self._engine.registry, history.tools
        for node in plan.nodes:
            state = states.get(node.id)
            if state is None or state.status == "skipped":
                continue
            name = node.tool or state.chosen
            tool = registry.get(name or "")
            if tool is not None and before.get(tool.name) not in (None, tool.fingerprint):
                changed.add(node.id)
        return continuation(states, plan, changed, again=again, records=history.nodes)

    def restorer(self, history: History) -> Restorer:
        """Give what puts the values of this engine's own runs back."""
        engine = self._engine
        limit = engine.recovery.max_restore_bytes
        return Restorer(history, engine.memory, engine.artifacts(), limit)

    async def restored(self, restorer: Restorer, way: Continuation) -> Resumed:
        """Read values back in threads."""
        threads = ToolThreads(2, "planbench-restore")
        try:
            return await restorer.restore(way, threads.call)
        finally:
            threads.close()
