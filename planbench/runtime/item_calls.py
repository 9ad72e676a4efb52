"""The calls of a fan-out's items: each made, its value stored under its key, its end told."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.memory.sizes import measure
from planbench.plan.facets import ItemFacets
from planbench.runtime import output
from planbench.runtime.digests import digest_of
from planbench.runtime.dispatch import BLOCKED
from planbench.runtime.node import error_text, first_step, opened
from planbench.runtime.output import as_utf8, place
from planbench.runtime.spread import MAX_KEY, Call, check_key, given, name_artifact, tolerated
from planbench.runtime.takeover import Earlier, is_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from contextvars import Context

    from planbench.memory.entries import Entry
    from planbench.plan.placeholders import Scope
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.restore import KeptItems
    from planbench.runtime.room import Room
    from planbench.runtime.scheduler import Scheduler

DIGESTED: Final = 262_144
"""Bytes of an average item up to which calls get a digest, and can be reused."""


class ItemCalls:
    """The items of one node, and what came out of those that were called.

    ``next`` is the index of the item that is called next; ``aborted`` says why no more are.
    """

    __slots__ = (
        "_cancelled",
        "_careful",
        "_context",
        "_digests",
        "_earlier",
        "_emit",
        "_identity",
        "_kept",
        "_may_reuse",
        "_merger",
        "_mine",
        "_plain_digests",
        "_sched",
        "_secrets",
        "_tasks",
        "_written",
        "aborted",
        "entries",
        "failed",
        "items",
        "next",
        "node",
        "tolerated",
        "total",
    )

    def __init__(self, sched: Scheduler, node: CompiledNode, items: list[Any]) -> None:
        each = node.node.for_each
        assert each is not None
        self._sched = sched
        self.node = node
        self.items = list(items)  # a tool that changes its source must not change what is called
        self.total = len(items)
        self.next = 0
        self.failed = 0
        self.tolerated = tolerated(each.max_failed, len(items))
        self.aborted: str | None = None
        self.entries: list[Entry | None] = [None] * len(items)
        self._merger = ItemFacets(node.node.facets) if node.facets else None
        self._context = sched.context.copy()
        self._context.run(place.set, (sched.prints, node.id))
        self._emit = sched.run.emitter(ev.ITEM_FINISHED)
        self._secrets = sched.run.secrets
        self._written = sched.values.written
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._digests = not node.secrets and (
            sched.values.bytes_of(each.source_node) <= DIGESTED * max(1, len(items))
        )
        self._identity = node.tool.identity() if node.tool.effects == "read" else None
        met = self._identity is not None and sched.memory.met(self._identity)
        self._may_reuse = met and node.may_reuse
        self._plain_digests = self._digests and not node.arg_reads
        sched.run.bodies[node.id] = self.entries
        self._mine = sched.memory.start_items(node.id)
        self._careful = sched.recorded or sched.room is not None
        self._kept = 0
        self._earlier: Earlier | None = None
        if sched.takeover is not None:
            kept = sched.takeover.items(node.id)
            if node.id not in sched.takeover.anew:
                self._kept = self._take_up(kept)
            elif each.skip_existing:
                self._earlier = Earlier(kept)

    def _take_up(self, kept: KeptItems) -> int:
        """Let items that gave a value before the run was continued stand; gives how many."""
        sched, node = self._sched, self.node
        for index, (entry, data) in kept.items():
            self.entries[index] = entry
            self._written[entry.key] = node.id
            if sched.memory.peek(entry.key) is entry:
                sched.memory.reuse(entry, node.id, index, self._mine)
            if self._merger is not None and "facets" in data:
                self._merger.add(index, data["facets"])
        return len(kept)

    def _noting(self, index: int) -> Context:
        context = self._context.copy()
        context.run(output.item.set, index)
        return context

    def _begin(self, index: int, scope: Scope, began: float) -> Coroutine[Any, Any, None] | None:
        """Make the call of one item; gives what is left to await, None when nothing is."""
        sched, node = self._sched, self.node
        key = ""
        kwargs: dict[str, Any] | None = None
        try:
            key = node.key(scope)
            if (
                key in self._written
                or not 0 < len(key) <= MAX_KEY
                or not key.isascii()
                or self._secrets is not None
            ):
                check_key(key, node.id, self._written.get(key), self._secrets)
            self._written[key] = node.id
            args = node.resolve(scope)
            digest = digest_of(args) if self._plain_digests else self._digest(args, scope)
            if self._may_reuse or self._earlier is not None:
                answered, pending = self._answer(Call(index, key, digest, began, reused=True))
                if answered:
                    return pending
            kwargs = node.validate(args)
            if node.wants_key:
                kwargs["idempotency_key"] = sched.run.call_key(node.id, index)
            if not node.simple:
                call = Call(index, key, digest, began)
                return self._end(call, sched.caller.call(node, kwargs, index))
            context = self._context.copy() if not output.noting else self._noting(index)
            work, value = context.run(first_step, node.function, kwargs)
            took = monotonic() - began
            if took > BLOCKED:
                sched.caller.held(node, took)
            if work is not None:
                call = Call(index, key, digest, began)
                return self._end(call, sched.caller.go_on(node, context, work, value))
            value = opened(value)
            nbytes = measure(value)
            if nbytes is None or self._merger is not None or self._careful:
                return self._end(Call(index, key, digest, began), given(value))
            self._store(index, key, digest, took, value, nbytes, None)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its item's
            self._lose(Call(index, key, None, began), error, called=kwargs is not None)
        return None

    async def _end(self, call: Call, pending: Awaitable[Any]) -> None:
        sched = self._sched
        try:
            sched.relay()
            value = opened(await pending)
            nbytes = measure(value)
            if nbytes is None:
                sched.relay()
                nbytes = await sched.pools.aside(lambda: measure(value, None))
            facets = None
            if self._merger is not None:
                sched.relay()
                facets = await sched.values.facets(self.node, value, nbytes)
            artifact = None
            if sched.recorded:
                sched.relay()
                artifact = await sched.values.persist(value, nbytes)
            index, key, digest, began, reused = call
            took = None if reused else monotonic() - began
            self._store(index, key, digest, took, value, nbytes, facets, artifact)
            value = None  # what this frame holds would count as in use
        except asyncio.CancelledError as error:
            if sched.stopping or asyncio.current_task() in self._cancelled:
                raise
            self._lose(call, error, called=True)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its item's
            self._lose(call, error, called=not call.reused)
        else:
            if sched.room is not None:  # not above: what is on record cannot fail any more
                await self._make_room(sched.room)

    async def _make_room(self, room: Room) -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling() and task not in self._cancelled:
            await self._sched.absorb(task)
        await room.make()

    def _store(
        self,
        index: int,
        key: str,
        digest: str | None,
        seconds: float | None,
        value: Any,
        nbytes: int,
        facets: dict[str, Any] | None,
        artifact: dict[str, Any] | None = None,
    ) -> None:
        node, sched = self.node, self._sched
        entry = sched.memory.put_item(
            key, value, node.id, node.tool_name, index, nbytes, digest, self._identity, self._mine
        )
        self._tell(index, entry, digest, seconds, facets, artifact)

    def _tell(
        self,
        index: int,
        entry: Entry,
        digest: str | None,
        seconds: float | None,
        facets: dict[str, Any] | None,
        artifact: dict[str, Any] | None,
    ) -> None:
        self.entries[index] = entry
        data = {
            "node_id": self.node.id,
            "index": index,
            "key": entry.key,
            "version": entry.version,
            "bytes": entry.nbytes,
            "digest": digest,
        }
        if seconds is None:  # an equal call gave it before
            data["reused"] = True
        else:
            data["seconds"] = seconds
        if self._sched.values.recorded:
            name_artifact(data, entry, artifact)
        if facets is not None and self._merger is not None:
            data["facets"] = facets
            self._merger.add(index, facets)
        self._emit(data)

    def _digest(self, args: dict[str, Any], scope: Scope) -> str | None:
        if not self._digests:
            return None
        if not self.node.arg_reads:
            return digest_of(args)
        return self._sched.values.digest(self.node, args, [scope.item, scope.index])

    def _answer(self, call: Call) -> tuple[bool, Coroutine[Any, Any, None] | None]:
        """Answer a call with what an equal one gave; gives whether, and what is left to await."""
        entry = None if self._earlier is None else self._earlier.take(call.digest)
        if entry is not None:
            return True, self._end(call, self._sched.values.item(entry))
        entry = self._sched.memory.peek(call.key) if self._may_reuse else None
        if entry is None or not is_answer(entry, call.digest, self._identity):
            return False, None
        if self._merger is not None or self._careful:
            return True, self._end_reuse(call, entry)
        self._reuse(call.item, entry, call.digest, None)
        return True, None

    async def _end_reuse(self, call: Call, entry: Entry) -> None:
        sched = self._sched
        try:
            sched.relay()
            facets = None
            if self._merger is not None:
                facets = await sched.values.facets(self.node, entry.value, entry.nbytes)
            artifact = await sched.values.persist(entry.value, entry.nbytes)
            self._reuse(call.item, entry, call.digest, facets, artifact)
        except Exception as error:  # noqa: BLE001 - a value that cannot be read is its item's
            self._lose(call, error, called=False)

    def _reuse(
        self,
        index: int,
        entry: Entry,
        digest: str | None,
        facets: dict[str, Any] | None,
        artifact: dict[str, Any] | None = None,
    ) -> None:
        self._sched.memory.reuse(entry, self.node.id, index, self._mine)
        self._tell(index, entry, digest, None, facets, artifact)

    def _lose(self, call: Call, error: BaseException, *, called: bool) -> None:
        each = self.node.node.for_each
        assert each is not None
        index, key = call.item, call.key
        self.failed += 1
        if self._merger is not None:
            self._merger.add(index, {})
        data: dict[str, Any] = {
            "node_id": self.node.id,
            "index": index,
            "seconds": monotonic() - call.began,
            "calls": int(called),
        }
        if 0 < len(key) <= MAX_KEY and as_utf8(key) is key:
            data["key"] = key
        if each.on_item_error != "skip":
            data["error"] = error_text(error, index, self._secrets)
        self._sched.run.emit(ev.ITEM_FAILED, data)
        if self.aborted is not None:
            return
        if each.on_item_error == "fail":
            self._abort(f"stopped at the first failed item, [{index}]")
        elif self.failed > self.tolerated:
            self._abort(f"{self.failed} items failed, over max_failed of {each.max_failed}")

    def _abort(self, reason: str) -> None:
        self.aborted = reason
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                self._cancelled.add(task)
                task.cancel()
