"""The calls of items without more to them than a call and its result: the way for 10,000 in a row.

When many calls end at once, as they do after a wait, those that come next are made first:
what was given is stored, and what comes after them made ready, when all of them wait again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import ToolError
from planbench.memory.sizes import measure
from planbench.plan.placeholders import Scope
from planbench.runtime import output
from planbench.runtime.digests import digest_of
from planbench.runtime.dispatch import BLOCKED
from planbench.runtime.item_calls import ItemCalls
from planbench.runtime.node import first_step, opened
from planbench.runtime.spread import MAX_KEY, Call, check_key, given
from planbench.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.scheduler import Scheduler


AHEAD: Final = 256
"""Calls that are made ready in a row, where an average item is not over ``SMALL`` bytes."""
SMALL: Final = 4_096
AT_ONCE: Final = 0.002
"""Seconds for which calls are made ready in a row."""


class _Ready(NamedTuple):
    """A call that only has to be made, or why it cannot be."""

    item: int
    key: str
    digest: str | None
    kwargs: dict[str, Any] | None
    fault: BaseException | None = None


class PlainCalls(ItemCalls):
    """Calls plain items: no facets, no record outside of memory, no earlier result to look for."""

    __slots__ = ("_ahead", "_given", "_plain", "_ready", "_scope")

    def __init__(self, sched: Scheduler, node: CompiledNode, items: list[Any]) -> None:
        super().__init__(sched, node, items)
        self._given: list[tuple[Call, Any, int, float]] = []
        self._ready: deque[_Ready] = deque()
        values, each = sched.values, node.node.for_each
        assert each is not None
        small = values.bytes_of(each.source_node) <= SMALL * len(items)
        self._ahead = AHEAD if small else each.max_concurrency
        self._scope = Scope(values.artifact, values.ref, secret=values.secret)
        self._plain = (
            node.simple
            and not node.wants_key
            and self._digests == self._plain_digests
            and not (self._careful or self._may_reuse or self._kept or self._earlier)
            and all(one is None for one in (self._merger, self._secrets, sched.journal))
        )

    @property
    def left(self) -> int:
        """How many items nobody has begun to call."""
        return self.total - self.next + len(self._ready)

    def _sweep(  # noqa: C901, PLR0912 - each call saved here is saved an item
        self, task: asyncio.Task[Any], began: float
    ) -> Coroutine[Any, Any, None] | None:
        """Call items until one has to wait, or others want their turn; gives what is left to await."""
        sched, node = self._sched, self.node  # looked up here, once, and not for 10,000 items
        caller, emit, put, context = sched.caller, self._emit, sched.memory.put_item, self._context
        key_of, resolve, read, function = node.key, node.resolve, node.tool.read, node.function
        node_id, tool_name, identity, mine = node.id, node.tool_name, self._identity, self._mine
        items, entries, written, digests = self.items, self.entries, self._written, self._digests
        scope, ready, until, total = self._scope, self._ready, sched.until, self.total
        one_only = self._is_awaited()
        while True:
            key, args, kwargs = "", None, None
            try:
                if ready:
                    index, key, digest, kwargs, fault = ready.popleft()
                    if kwargs is None:
                        raise fault or RuntimeError
                else:
                    index = self.next
                    self.next = index + 1
                    scope.item = items[index]
                    scope.index = index
                    key = key_of(scope)
                    if key in written or not 0 < len(key) <= MAX_KEY or not key.isascii():
                        check_key(key, node_id, written.get(key), None)
                    written[key] = node_id
                    args = resolve(scope)
                    digest = digest_of(args) if digests else None
                    kwargs = read(args)
                own = context.copy() if not output.noting else self._noting(index)
                work, value = own.run(first_step, function, kwargs)
                ended = monotonic()
                if (took := ended - began) > BLOCKED:
                    caller.held(node, took)
                if work is not None:
                    call = Call(index, key, digest, began)
                    return self._wait(call, caller.go_on(node, own, work, value))
                if type(value) is ToolResult:
                    value = opened(value)
                nbytes = measure(value)
                if nbytes is None:
                    return self._wait(Call(index, key, digest, began), given(value))
                if self._given:
                    self.settle()
                entries[index] = entry = put(
                    key, value, node_id, tool_name, index, nbytes, digest, identity, mine
                )
                data = {
                    "node_id": node_id,
                    "index": index,
                    "key": key,
                    "version": entry.version,
                    "bytes": nbytes,
                    "digest": digest,
                    "seconds": took,
                }
                emit(data)
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its item's
                told = error if kwargs is not None or args is None else self._told(args, error)
                self._lose(Call(index, key, None, began), told, called=kwargs is not None)
                ended = monotonic()
            if one_only or ended > until or self.aborted is not None or task.cancelling():
                return None
            if self.next >= total and not ready:
                return None
            began = ended

    async def _wait(self, call: Call, pending: Awaitable[Any]) -> None:
        sched = self._sched
        try:
            sched.relay()
            value = await pending
            if type(value) is ToolResult:
                value = opened(value)
            nbytes = measure(value)
            if nbytes is None:
                sched.relay()
                nbytes = await sched.pools.aside(lambda: measure(value, None))
        except asyncio.CancelledError as error:
            if sched.stopping or asyncio.current_task() in self._cancelled:
                raise
            self._lose(call, error, called=True)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its item's
            self._lose(call, error, called=True)
        else:
            self._given.append((call, value, nbytes, monotonic() - call.began))
            if len(self._given) == 1:
                sched.loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """Store what was given, and see that there are calls to be made next."""
        count = len(self._given)
        self.settle()
        if len(self._ready) >= count or self.aborted is not None or self._is_awaited():
            return
        until = monotonic() + AT_ONCE
        while self.next < self.total and len(self._ready) < self._ahead and monotonic() < until:
            self._ready.append(self._made_ready())

    def settle(self) -> None:
        """Store what calls have given and is not stored yet."""
        done, self._given = self._given, []
        for call, value, nbytes, seconds in done:
            try:
                self._store(call.item, call.key, call.digest, seconds, value, nbytes, None)
            except BaseException as error:  # noqa: BLE001 - a value that cannot be stored is its item's
                self._lose(call, error, called=True)

    def _made_ready(self) -> _Ready:
        node, scope, index = self.node, self._scope, self.next
        self.next = index + 1
        scope.item = self.items[index]
        scope.index = index
        key, digest = "", None
        try:
            key = node.key(scope)
            check_key(key, node.id, self._written.get(key), None)
            self._written[key] = node.id
            args = node.resolve(scope)
            digest = digest_of(args) if self._digests else None
            return _Ready(index, key, digest, node.validate(args))
        except BaseException as error:  # noqa: BLE001 - it is told in its turn, as that of a call
            return _Ready(index, key, digest, None, error)

    def _lose(self, call: Call, error: BaseException, *, called: bool) -> None:
        if self._given:  # they ended before
            self.settle()
        super()._lose(call, error, called=called)

    def _abort(self, reason: str) -> None:
        super()._abort(reason)
        for one in self._ready:
            if one.fault is None:  # its key is free for others
                del self._written[one.key]
        self._ready.clear()

    def _told(self, args: dict[str, Any], error: BaseException) -> BaseException:
        """Give what ``validate`` says of arguments that could not be read."""
        try:
            self.node.validate(args)
        except ToolError as told:
            return told
        return error

    def _is_awaited(self) -> bool:
        """Whether somebody waits for the place of the worker that calls items here."""
        sched = self._sched
        return bool(sched.ready or sched.claimed or len(sched.fanouts) > 1 or sched.stopping)
