"""Who runs next: counters of unfinished needs, workers instead of a task per call.

A worker takes one claimed call after the other, so a tool that never waits costs
no turn of the loop; every few milliseconds the workers together give the loop one.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.errors import ToolArgumentsInvalid
from planbench.memory.sizes import measure
from planbench.plan.placeholders import Scope
from planbench.runtime.budget import time_limit
from planbench.runtime.conditions import Conditions, Refused
from planbench.runtime.dispatch import BLOCKED, Pools
from planbench.runtime.node import Caller, error_text, first_step_at, opened, printed
from planbench.runtime.opening import Opening
from planbench.runtime.output import Prints
from planbench.runtime.results import forgotten
from planbench.runtime.room import Room
from planbench.runtime.standing import MAX_ERROR_LENGTH
from planbench.runtime.takeover import Takeover
from planbench.runtime.values import Values
from planbench.tools import ToolResult

if TYPE_CHECKING:
    from planbench.memory import WorkingMemory
    from planbench.runtime.compiled import CompiledNode, CompiledPlan
    from planbench.runtime.fanout import FanOut
    from planbench.runtime.restore import Keeping, Resumed
    from planbench.runtime.run import Run

TURN: Final = 0.001
"""Seconds after which the workers give the loop a turn, or after as many again; a gap is a few of them."""
GRACE: Final = 5.0
"""Seconds that a cancelled tool has to clean up before it is cancelled again."""
PATIENCE: Final = 2
"""How often a tool is cancelled before it is given up."""


class Scheduler:
    """Runs one compiled plan to its end, recording everything in the run's journal."""

    def __init__(
        self,
        run: Run,
        compiled: CompiledPlan,
        memory: WorkingMemory,
        keeping: Keeping | None = None,
        resumed: Resumed | None = None,
    ) -> None:
        self.run = run
        self.memory = memory
        self.nodes = compiled.nodes
        self.loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        self.cap = compiled.plan.metadata.max_parallel_tasks
        # None of these refers back to the scheduler: a run that is let go is freed at once,
        # and not by a full collection, which stops a large process for a long moment.
        self.pools = Pools(self.cap)
        self.prints = Prints(self.loop, functools.partial(printed, run), run.secrets)
        self.caller = Caller(run, self.context, self.prints, self.pools.tools)
        self.free = self.cap
        self.values = Values(run, memory, self.pools.aside, keeping)
        self.recorded = keeping is not None and keeping.artifacts is not None
        self.room = Room(memory, run.bodies, self.pools.aside) if memory.bounded else None
        self.journal = None if keeping is None else keeping.journal
        self.scope = Scope(self.values.artifact, self.values.ref, secret=self.values.secret)
        self.stopping = False
        self.expired = False
        self.unmet = {node.id: node.needs for node in compiled.nodes.values()}
        self._behind_failure: set[str] = set()
        self.conditions = Conditions(run)
        self.ready: deque[CompiledNode] = deque(compiled.roots)
        self.claimed: deque[CompiledNode] = deque()
        self.opening = Opening()
        self.fanouts: list[FanOut] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._done = self.loop.create_future()
        self._failure: BaseException | None = None
        self._idle = 0
        self._hurried = False
        self._asked = False
        self.until = monotonic() + TURN
        self.limit, self.limited_by = time_limit(run.plan, run.budget, run.state.seconds_before)
        self.takeover: Takeover | None = None if resumed is None else Takeover(run, resumed)
        if self.takeover is not None:
            self.ready = self.takeover.begin(self)

    # -- the whole run --------------------------------------------------------------

    async def work(self) -> None:
        """Run until nothing is left; a cancellation from outside passes through."""
        timer = self.loop.call_later(self.limit, self._expire) if self.limit else None
        try:
            self._claim()
            self.relay()
            if self._workers:
                await self._done
        finally:
            if timer is not None:
                timer.cancel()
            await self._stop()
            self.fanouts.clear()
            if self.room is not None:
                await self.room.close()
            self.pools.close()
            self.prints.close()
        if self._failure is not None:
            raise self._failure
        if self.expired:
            self._fail_unfinished()
        state = self.run.state
        if state.nodes_done < len(state.nodes):
            left = [node.node_id for node in state.nodes.values() if not node.ended]
            raise RuntimeError(f"nodes were left over: {', '.join(left[:10])}")

    def left_running(self, node_id: str) -> int:
        """Tell how many calls of a node were given up and still run in a thread."""
        return self.pools.left(node_id)

    async def _stop(self) -> None:
        """Cancel what is at work and see it end; a tool that swallows it is given up in the end."""
        tries = 0
        while self._workers:
            self.stopping = True
            self.caller.giving_up = tries >= PATIENCE
            tries += 1
            for worker in self._workers:
                worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):  # asked again, and so are the tools
                await asyncio.wait(self._workers, timeout=GRACE)

    def _gone(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled():
            self._failure = self._failure or worker.exception()
        if (not self._workers or self._failure is not None) and not self._done.done():
            self._done.set_result(None)

    def _expire(self) -> None:
        self.expired = self.stopping = True
        if not self._done.done():
            self._done.set_result(None)

    def _fail_unfinished(self) -> None:
        for state in self.run.state.nodes.values():
            if state.ended:
                continue
            text = f"TimeoutError: {self.limited_by} was over"
            if state.status == "waiting":
                text += "; never dispatched"
            elif self.left_running(state.node_id):
                text += "; still running in a thread, its result is dropped"
            self.run.emit(ev.NODE_FAILED, {"node_id": state.node_id, "error": text})

    # -- claiming and hiring --------------------------------------------------------

    def _claim(self) -> None:
        """Give free places to ready nodes, in order; a fan-out needs no place itself."""
        ready = self.ready
        skipped = self.conditions.skipped
        self._hurried = False
        while ready:
            node = ready[0]
            data: dict[str, Any] = {"node_id": node.id}
            if self.takeover is not None and self.takeover.stands(self, node):
                ready.popleft()
            elif self._behind_failure and node.id in self._behind_failure:
                ready.popleft()
                self.run.emit(ev.NODE_BLOCKED, data)
                self.finish(node, failed=True)
            elif node.spreads:
                ready.popleft()
                if (node.guard is None and not skipped) or self._admits(node, data):
                    self._begin(node, data)
                    self.opening.open(self, node)
            elif self.free <= 0:
                return
            else:
                ready.popleft()
                if (node.guard is None and not skipped) or self._admits(node, data):
                    self._begin(node, data)
                    self.free -= 1
                    self.claimed.append(node)
                    continue
            if monotonic() > self.until:
                self._hurried = bool(ready)  # a row of nodes without a call must not hold the loop
                return

    def _begin(self, node: CompiledNode, data: dict[str, Any]) -> None:
        if self.takeover is not None:
            self.takeover.mark(node.id, data)
        self.run.emit(ev.NODE_STARTED, data)

    def _admits(self, node: CompiledNode, data: dict[str, Any]) -> bool:
        try:
            data.update(self.conditions.check(node))
        except Refused as refusal:
            self._skip(node, refusal)
            return False
        return True

    def _skip(self, node: CompiledNode, refusal: Refused) -> None:
        self.conditions.skipped.add(node.id)
        if self.takeover is not None:
            self.takeover.fresh.add(node.id)
        data = {"node_id": node.id, "reason": str(refusal), **refusal.seen}
        self.run.emit(ev.NODE_SKIPPED, data)
        self.finish(node, failed=False)

    def relay(self) -> None:
        """Before a worker waits: see that another is there for what can go on meanwhile.

        So there are as many workers as calls that wait, and one that looks for more;
        calls that never wait are made by a single worker.
        """
        if self._idle or self.stopping:
            return
        if self.claimed or self.opening.waiting or self._hurried or self._least_busy() is not None:
            self._idle += 1
            worker = self.loop.create_task(self._worker())
            self._workers.add(worker)
            worker.add_done_callback(self._gone)

    async def _worker(self) -> None:  # noqa: C901, PLR0912 - what may be next, in the order of its weight
        self._idle -= 1
        task = asyncio.current_task()
        assert task is not None
        while not self.stopping:
            if self.opening.waiting:
                await self.opening.open_next(self)
            elif self.claimed:
                if self.room is None:
                    await self._execute(self.claimed.popleft())
                else:
                    await self._execute_in(self.room, self.claimed.popleft())
                if task.cancelling():
                    await self.absorb(task)
                if self.room is not None:
                    await self.room.make()
                self.free += 1
                if self.ready and self.fanouts:
                    await self._serve_waiting(task)
            elif (fan := self._least_busy()) is not None:
                self._give_place(fan)
                await fan.drain(task)
                self.free += 1
            elif not self._hurried:
                return
            if self.ready:
                self._claim()
            if task.cancelling():
                await self.absorb(task)
            if monotonic() > self.until:
                await self.turn()

    def _give_place(self, fan: FanOut) -> None:
        self.free -= 1
        if len(self.fanouts) > 1:  # to the end of the queue, so that all come round
            self.fanouts.remove(fan)
            self.fanouts.append(fan)

    async def _serve_waiting(self, task: asyncio.Task[Any]) -> None:
        """Give the last free place to a fan-out that has none, before the next plain nodes."""
        for fan in self.fanouts if self.free == 1 else ():
            if not fan.active and fan.places > 0:
                self._give_place(fan)
                await fan.drain(task)
                self.free += 1
                return

    async def absorb(self, task: asyncio.Task[Any]) -> None:
        """Take back a cancellation that a tool asked of the worker itself; one of the run goes on."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        while task.uncancel():
            pass
        if self.stopping:
            raise asyncio.CancelledError

    def _least_busy(self) -> FanOut | None:
        if self.free <= 0:
            return None
        best = None
        for fan in self.fanouts:
            if fan.places > 0 and (best is None or fan.active < best.active):
                best = fan
        return best

    async def turn(self) -> None:
        """Let the loop do other things, unless it may just have done so.

        Workers that come back from a wait find that their time is over, though nobody has held
        the loop: the first one goes on for as long again, and the loop says when it came round.
        """
        if not self._asked:
            self._asked = True
            self.until = monotonic() + TURN
            self.loop.call_soon(self._renew)
            return
        self._idle += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._idle -= 1

    def _renew(self) -> None:
        self._asked = False
        self.until = monotonic() + TURN

    # -- one plain node -------------------------------------------------------------

    async def _execute_in(self, room: Room, node: CompiledNode) -> None:
        """Execute within the budget of the memory: what the call reads stays, the rest makes room."""
        self.relay()
        held = await room.hold(node.arg_reads)
        try:
            await self._execute(node)
        finally:
            room.give_back(held)

    async def _execute(  # noqa: C901, PLR0912 - the hot path: each call saved here is saved a node
        self, node: CompiledNode
    ) -> None:
        kwargs = None
        try:
            if self.journal is not None:
                self.relay()
                await self.journal.kept()
            args = node.resolve(self.scope)
            digest = self.values.digest(node, args, None)
            kwargs = node.validate(args)
            if node.wants_key:
                kwargs["idempotency_key"] = self.run.call_key(node.id)
            if node.simple:
                context = self.context.copy()
                began = monotonic()
                work, value = context.run(
                    first_step_at, (self.prints, node.id), node.function, kwargs
                )
                if (took := monotonic() - began) > BLOCKED:
                    self.caller.held(node, took)
                if work is not None:
                    self.relay()
                    value = await self.caller.go_on(node, context, work, value)
            else:
                self.relay()
                value = await self.caller.call(node, kwargs)
            if type(value) is ToolResult:
                value = opened(value)
            nbytes = measure(value)
            if nbytes is None:
                self.relay()
                nbytes = await self.pools.aside(lambda: measure(value, None))
            facets = (
                await self.values.facets(node, value, nbytes) if node.facets is not None else None
            )
            artifact = None
            if self.recorded:
                self.relay()
                artifact = await self.values.persist(value, nbytes)
            data = self.values.store(node, digest, value, nbytes, artifact)
        except asyncio.CancelledError as error:
            if self.stopping:
                raise
            self._failed(node, error, called=True)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its node's
            self._failed(node, error, called=kwargs is not None)
        else:
            if facets is not None:
                data["facets"] = facets
            if self.prints.waiting:
                self.prints.flush(node.id)
            if self.takeover is not None:
                self.takeover.fresh.add(node.id)
            self.run.emit(ev.NODE_FINISHED, data)
            self.finish(node, failed=False)

    def _failed(self, node: CompiledNode, error: BaseException, *, called: bool) -> None:
        self.prints.flush(node.id)
        if node.delegate is not None:
            if isinstance(error, Refused):  # its model chose no tool
                self._skip(node, error)
                return
            called = node.delegate.called
        text = error_text(error, secrets=self.run.secrets)
        if isinstance(error, ToolArgumentsInvalid):
            text += forgotten(node, self.nodes, self.run.bodies, node.arg_reads)
        data = {"node_id": node.id, "error": text[:MAX_ERROR_LENGTH], "calls": int(called)}
        self.run.emit(ev.NODE_FAILED, data)
        self.finish(node, failed=True)

    def leave(self, fan: FanOut) -> None:
        """Take a finished fan-out out of the round."""
        if fan in self.fanouts:
            self.fanouts.remove(fan)

    def finish(self, node: CompiledNode, *, failed: bool) -> None:
        """Tell the dependents that a node has ended; behind a failure they are blocked."""
        unmet, behind = self.unmet, self._behind_failure
        if failed:
            behind.update(node.kids)
        for kid in node.kids:
            left = unmet[kid] = unmet[kid] - 1
            if left:
                continue
            if behind and kid in behind:
                self.ready.appendleft(self.nodes[kid])  # needs no place, and so waits for none
            else:
                self.ready.append(self.nodes[kid])
