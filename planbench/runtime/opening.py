"""Opens fan-outs: finds the items, off the loop where that takes long, and lets workers at them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.runtime.fanout import FanOut
from planbench.runtime.node import error_text
from planbench.runtime.results import forgotten
from planbench.runtime.spread import SourceNotList, open_items
from planbench.runtime.standing import MAX_ERROR_LENGTH
from planbench.runtime.values import LARGE

if TYPE_CHECKING:
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.room import Held
    from planbench.runtime.scheduler import Scheduler

SMALL: Final = 2_000
"""Elements up to which a source is opened on the loop."""


class Opening:
    """The fan-outs of one run that are to be opened; ``waiting`` are those that a worker must take."""

    def __init__(self) -> None:
        self.waiting: deque[CompiledNode] = deque()

    def open(self, sched: Scheduler, node: CompiledNode) -> None:
        """Open at once where that is quick, else leave it to a worker."""
        if sched.room is None and node.select is None:
            source = sched.values.artifact(_source_of(node))
            if type(source) is list and len(source) <= SMALL:
                try:
                    self._spread(sched, node, open_items(node, source), None)
                except SourceNotList as error:
                    self._fail(sched, node, error, None)
                return
        self.waiting.append(node)

    async def open_next(self, sched: Scheduler) -> None:
        """Open the next that waits."""
        node = self.waiting.popleft()
        held = None
        try:
            body = sched.run.bodies[_source_of(node)]
            if sched.room is not None:
                sched.relay()
                if isinstance(body, list) and node.select is None:
                    # each is read when its call comes: all together may be over the budget
                    held = await sched.room.hold(node.arg_reads)
                    entries = [entry for entry in body if entry is not None]
                    self._spread(sched, node, open_items(node, entries), held)
                    return
                held = await sched.room.hold([_source_of(node), *node.arg_reads])
            source = sched.values.artifact(_source_of(node))
            nbytes = LARGE + 1 if isinstance(body, list) else body.nbytes
            if nbytes > LARGE:
                sched.relay()
                items = await sched.pools.aside(lambda: open_items(node, source))
            else:
                items = open_items(node, source)
        except Exception as error:  # noqa: BLE001 - a path or source that does not fit is the node's error
            self._fail(sched, node, error, held)
            return
        self._spread(sched, node, items, held)

    def _spread(
        self, sched: Scheduler, node: CompiledNode, items: list[Any], held: Held | None
    ) -> None:
        try:
            fan = FanOut(sched, node, items, held)
        except Exception as error:  # noqa: BLE001 - as in open_next
            self._fail(sched, node, error, held)
            return
        sched.run.emit(ev.NODE_PROGRESS, {"node_id": node.id, "total": fan.total})
        if fan.total:
            sched.fanouts.append(fan)
        else:
            fan.close()

    def _fail(
        self, sched: Scheduler, node: CompiledNode, error: Exception, held: Held | None
    ) -> None:
        if sched.room is not None:
            sched.room.give_back(held)
        text = error_text(error)
        if isinstance(error, SourceNotList):
            reads = (_source_of(node),)
            text = str(error) + forgotten(node, sched.nodes, sched.run.bodies, reads)
        sched.run.emit(ev.NODE_FAILED, {"node_id": node.id, "error": text[:MAX_ERROR_LENGTH]})
        sched.finish(node, failed=True)


def _source_of(node: CompiledNode) -> str:
    each = node.node.for_each
    assert each is not None
    return each.source_node
