"""A fan-out: one call per item, drained by the run's workers, never a task per item."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

from planbench import events as ev
from planbench.memory.entries import Entry
from planbench.plan.placeholders import Scope
from planbench.runtime.item_calls import ItemCalls

if TYPE_CHECKING:
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.room import Held
    from planbench.runtime.scheduler import Scheduler


class FanOut(ItemCalls):
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
        return min(self.most - self.active, self.total - self.next)

    async def drain(  # noqa: C901, PLR0912 - one loop, told in the order in which it goes
        self, task: asyncio.Task[Any]
    ) -> None:
        """Take items until none is left or somebody else waits for the worker's place."""
        sched, values = self._sched, self._sched.values
        self.active += 1
        self._tasks.add(task)
        scope = Scope(values.artifact, values.ref, secret=values.secret)
        journal, kept, careful, plain = sched.journal, self._kept, self._careful, self._plain
        now = monotonic()
        try:
            while self.next < self.total and self.aborted is None:
                if journal is not None:
                    sched.relay()
                    await journal.kept()
                    if self.next >= self.total or self.aborted is not None:
                        break
                if plain:
                    pending = self._sweep(scope, task, now)
                else:
                    scope.index = index = self.next
                    self.next = index + 1
                    if kept and self.entries[index] is not None:
                        continue
                    scope.item = item = self.items[index]
                    if careful and isinstance(item, Entry):
                        sched.relay()
                        scope.item = await values.item(item)
                    pending = self._begin(index, scope, now)
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
            self._cancelled.discard(task)
            self._tasks.discard(task)
            self.active -= 1
        if not self.active and (self.next >= self.total or self.aborted is not None):
            self._done()

    def _done(self) -> None:
        if not (self._sched.stopping and self.aborted is None and self._lost()):
            self.close()

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
