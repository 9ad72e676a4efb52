"""Begins a run where an earlier one left off: what has ended stands, what is watched waits its turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from planbench.memory.entries import Entry
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.restore import KeptItems, Resumed
    from planbench.runtime.run import Run
    from planbench.runtime.scheduler import Scheduler

_NOTHING: Final[frozenset[str]] = frozenset()


class Takeover:
    """What a continued run knows of the nodes that had ended before.

    ``fresh`` names the nodes that have stored something, or were skipped, since it goes on;
    ``anew`` those that ran before and read something else now, so that nothing of theirs stands.
    """

    def __init__(self, run: Run, resumed: Resumed) -> None:
        self._watched = dict(resumed.way.watched)
        self._doubtful = resumed.way.doubtful
        self._items = resumed.items
        self.fresh: set[str] = set()
        self.anew: set[str] = set(resumed.way.outdated)
        run.bodies.update(resumed.bodies)

    def begin(self, sched: Scheduler) -> deque[CompiledNode]:
        """Count what has ended; gives the nodes that wait for nothing."""
        states = sched.run.state.nodes
        ended = {
            node.id
            for node in sched.nodes.values()
            if states[node.id].ended and node.id not in self._watched
        }
        for node_id in ended:
            self._keep(sched, sched.nodes[node_id])
            for kid in sched.nodes[node_id].kids:
                sched.unmet[kid] -= 1
        for node_id in ended:
            sched.unmet[node_id] = -1  # never comes down to nothing: it does not get ready again
        return deque(
            node
            for node in sched.nodes.values()
            if node.id not in ended and not sched.unmet[node.id]
        )

    def stands(self, sched: Scheduler, node: CompiledNode) -> bool:
        """Whether a node need not run again, since nothing that it reads is new; it counts as ended then."""
        reads = self._watched.pop(node.id, None)
        if reads is None:
            return False
        if reads & self.fresh:
            sched.run.bodies.pop(node.id, None)
            self.anew.add(node.id)
            return False
        self._keep(sched, node)
        sched.finish(node, failed=False)
        return True

    def mark(self, node_id: str, data: dict[str, Any]) -> None:
        """Say in the record of a start whether the node begins anew."""
        if self._doubtful.get(node_id, _NOTHING) & self.fresh:
            self.anew.add(node_id)
        if node_id in self.anew:
            data["anew"] = True

    def items(self, node_id: str) -> KeptItems:
        """Give the items of a fan-out that gave a value; they stand where it does not begin anew."""
        return self._items.pop(node_id, {})

    @staticmethod
    def _keep(sched: Scheduler, node: CompiledNode) -> None:
        if sched.run.state.nodes[node.id].status == "skipped":
            sched.conditions.skipped.add(node.id)
        body = sched.run.bodies.get(node.id)
        entries = body if isinstance(body, list) else [body]
        sched.values.written.update({e.key: node.id for e in entries if e is not None})


class Earlier:
    """What a fan-out gave before it began anew: an equal call is answered with that, and not made again."""

    def __init__(self, items: KeptItems) -> None:
        self._found: dict[str, list[Entry]] = {}
        for _, (entry, data) in sorted(items.items(), reverse=True):
            if data.get("digest") is not None:
                self._found.setdefault(data["digest"], []).append(entry)

    def take(self, digest: str | None) -> Entry | None:
        """Give the value of an equal call, each once."""
        found = None if digest is None else self._found.get(digest)
        return found.pop() if found else None


def is_answer(entry: Entry, digest: str | None, identity: str | None) -> bool:
    """Whether a stored value is what the same code gave for equal arguments."""
    return digest is not None and entry.digest == digest and entry.fingerprint == identity
