"""A fan-out: one call per item, drained by the run's workers, never a task per item."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

from planbench import events as ev
from planbench.memory.entries import Entry
from planbench.plan.placeholders import Scope
from planbench.runtime.plain_calls import PlainCalls

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.room import Held
    from planbench.runtime.scheduler import Scheduler


class FanOut(PlainCalls):
    """The items of one node and who is at work on them."""

    __slots__ = ("_held", "active", "most")

    def __init__(
        self, sched: Scheduler, node: CompiledNode, items: list[Any], held: Held | None = None
    ) -> None:
        super().__init__(sched, node, items)
        each = node.node.for_each
        assert each is not None
        self.most = each.max_concurrency
        self.active = 0
        self._held = held

    @property
    def places(self) -> int:
        """How many more workers could take an item now."""
        if self.aborted is not None:
            return 0
        return min(self.most - self.active, self.left)

    async def drain(  # noqa: C901, PLR0912 - one loop, told in the order in which it goes
        self, task: asyncio.Task[Any]
    ) -> None:
        """Take items until none is left or somebody else waits for the worker's place."""
        sched = self._sched
        self.active += 1
        self._tasks.add(task)
        values, now = sched.values, monotonic()
        # of this worker alone: others go on while it waits for an item to be read
        scope = Scope(values.artifact, values.ref, secret=values.secret)
        try:
            while self.left and self.aborted is None:
                if self._plain:
                    pending = self._sweep(task, now)
                else:
                    pending = await self._next(scope, now)
                if pending is not None:
                    await pending
                now = monotonic()
                if self._is_awaited():
                    break  # somebody else waits for the place that this worker holds
                if task.cancelling() and task not in self._cancelled:
                    await sched.absorb(task)
                if now > sched.until:
                    await sched.turn()
                    now = monotonic()
            if task in self._cancelled:
                await asyncio.sleep(0)  # lets a cancellation arrive that is still on its way
                task.uncancel()
        except asyncio.CancelledError:
            if sched.stopping or task not in self._cancelled:
                raise
            task.uncancel()
        finally:
            self.settle()
            self._cancelled.discard(task)
            self._tasks.discard(task)
            self.active -= 1
        if not self.active and (not self.left or self.aborted is not None):
            if sched.stopping and self.aborted is None and self._lost():
                return
            self.close()

    async def _next(self, scope: Scope, now: float) -> Coroutine[Any, Any, None] | None:
        """Make the next call; gives what is left to await, None when nothing is."""
        sched = self._sched
        if sched.journal is not None:
            sched.relay()
            await sched.journal.kept()
            if self.next >= self.total or self.aborted is not None:
                return None
        index = self.next
        self.next = index + 1
        if self._kept and self.entries[index] is not None:
            return None
        scope.index, scope.item = index, self.items[index]
        if self._careful and isinstance(scope.item, Entry):
            sched.relay()
            scope.item = await sched.values.item(scope.item)
        return self._begin(index, scope, now)

    def _stored(self) -> int:
        return sum(entry is not None for entry in self.entries)

    def _lost(self) -> bool:
        """Whether items were called that neither gave a value nor failed."""
        return self.failed + self._stored() < self.total

    def close(self) -> None:
        """Record how the node ended, and let its dependents know."""
        sched, node = self._sched, self.node
        if sched.expired:
            return
        sched.leave(self)
        sched.prints.flush(node.id)
        self.items = []
        if sched.room is not None:
            sched.room.give_back(self._held)
        if sched.takeover is not None and (
            node.id in sched.takeover.anew or self._stored() > self._kept
        ):
            sched.takeover.fresh.add(node.id)
        data: dict[str, Any] = {"node_id": node.id}
        if self._merger is not None:
            data["facets"] = self._merger.result()
        reason = self.aborted
        if reason is None and self.total and self.failed == self.total:
            reason = f"all {self.total} items failed"
        if reason is not None:
            sched.run.emit(ev.NODE_FAILED, {**data, "error": reason})
            sched.finish(node, failed=True)
            return
        data["status"] = "partial" if self.failed else "ok"
        data["entry_type"] = next((e.entry_type for e in self.entries if e is not None), None)
        sched.run.emit(ev.NODE_FINISHED, data)
        sched.finish(node, failed=False)
