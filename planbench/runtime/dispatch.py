"""Where a tool call happens: on the loop, or in a thread of the run's own pool."""

from __future__ import annotations

import asyncio
import threading
import types
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from planbench.runtime.idle_threads import lend

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from contextvars import Context

    from planbench.runtime.compiled import CompiledNode

BLOCKED: Final = 0.1
"""Seconds after which one uninterrupted step of an async tool counts as blocking the loop."""


class Watch(Protocol):
    """Who watches over calls: hears what holds the loop, and says when to give up."""

    giving_up: bool

    def held(self, node: CompiledNode, seconds: float) -> None:
        """Hear of a step that held the loop for over 0.1 seconds."""
        ...


@types.coroutine
def resume_in(
    context: Context,
    coroutine: Coroutine[Any, Any, Any],
    waiting: Any,
    watch: Watch,
    node: CompiledNode,
) -> Generator[Any, Any, Any]:
    """Drive a started coroutine to its end with every step in a context of its own.

    A task per call would isolate context variables as well, at ten times the price.
    """
    enter = context.run
    while True:
        step = coroutine.send
        try:
            given = yield waiting
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            if watch.giving_up:
                _drop(enter, coroutine)
                raise
            step, given = coroutine.throw, error
        begin = monotonic()
        try:
            waiting = enter(step, given)
        except StopIteration as stop:
            return stop.value
        finally:
            given = None  # an error would keep this frame alive, and all that it holds
            if (held := monotonic() - begin) > BLOCKED:
                watch.held(node, held)


def _drop(enter: Callable[..., Any], coroutine: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine that has swallowed its cancellation again and again."""
    try:
        enter(coroutine.close)
    except BaseException as error:  # noqa: BLE001 - what it raises last has nobody to go to
        del error


async def settle(awaitable: Any) -> Any:
    """Await what an async tool gave when it is no coroutine."""
    return await awaitable


class ToolThreads:
    """The threads in which plain functions run: a run's own, never the loop's default pool.

    A call that was given up frees its place at once, and what it returns later is dropped.
    """

    def __init__(self, limit: int, name: str = "planbench") -> None:
        self._limit = limit
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = (
            SimpleQueue()
        )
        self._threads = 0
        self._idle = 0
        self._queued = 0
        self._at_work: set[asyncio.Future[Any]] = set()
        self._given_up: dict[asyncio.Future[Any], str] = {}
        self._ended: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def abandoned(self) -> int:
        """How many calls were given up and still run."""
        return len(self._given_up)

    def left(self, owner: str) -> int:
        """Tell how many calls of one owner were given up and still run."""
        with self._lock:
            return sum(name == owner for name in self._given_up.values())

    async def call(self, function: Callable[[], Any], owner: str = "") -> Any:
        """Call in a thread; StopIteration comes out as RuntimeError, as a future cannot carry it."""
        future = self._loop.create_future()
        with self._lock:
            self._queued += 1
            try:
                self._hire()
            except BaseException:  # no thread can be started
                self._queued -= 1
                raise
        self._calls.put((future, function))
        try:
            return await future
        except asyncio.CancelledError:
            with self._lock:
                if future in self._at_work:
                    self._given_up[future] = owner
                    self._hire()
            raise

    def _hire(self) -> None:
        if self._queued <= self._idle or self._threads >= self._limit + len(self._given_up):
            return
        lend(self._work, f"{self._name}-{self._threads + 1}")
        self._threads += 1
        self._idle += 1

    def close(self) -> None:
        """Let the threads end as soon as they are free; does not wait for them."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._calls.put(None)

    def _work(self) -> None:
        while (job := self._calls.get()) is not None:
            future, function = job
            value: Any = None
            error: BaseException | None = None
            if self._begins(future):
                try:
                    value = function()
                except (StopIteration, GeneratorExit, KeyboardInterrupt) as raised:
                    error = _carried(raised)
                except BaseException as raised:  # noqa: BLE001 - carried to the loop, raised there
                    error = raised
            if not self._free(future, value, error):
                return
            # a thread that waits for its next call must not hold what the last one gave
            job = future = function = value = error = None  # type: ignore[assignment]  # all are set anew

    def _begins(self, future: asyncio.Future[Any]) -> bool:
        """Whether the call is still wanted: one that was given up in the queue must not run."""
        with self._lock:
            self._queued -= 1
            self._idle -= 1
            if future.cancelled():
                return False
            self._at_work.add(future)
            return True

    def _free(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> bool:
        with self._lock:
            self._at_work.discard(future)
            self._given_up.pop(future, None)
            goes_on = not self._closed and self._threads <= self._limit + len(self._given_up)
            if goes_on:
                self._idle += 1
            else:
                self._threads -= 1
            self._ended.append((future, value, error))
            is_first = len(self._ended) == 1
        if is_first:  # the loop is woken once for all that end before it gets to them
            self._wake()
        return goes_on

    def _wake(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop closed in between: nobody waits any more
            return

    def _deliver(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for future, value, error in ended:
            if future.done():
                continue  # given up: a late result never lands
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


def _carried(raised: BaseException) -> RuntimeError:
    """Wrap what would mean something else outside of the thread, where it is thrown into a task."""
    name = type(raised).__name__
    error = RuntimeError(f"{name}: the tool raised {raised!r}"[:300])
    error.__cause__ = raised
    return error


class Pools:
    """The two pools of a run, each made when it is first needed: for tools, and for the engine's own work."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._tools: ToolThreads | None = None
        self._aside: ToolThreads | None = None

    def tools(self) -> ToolThreads:
        """Give the threads in which plain tools run."""
        if self._tools is None:
            self._tools = ToolThreads(self._cap)
        return self._tools

    async def aside(self, function: Callable[[], Any]) -> Any:
        """Do a piece of the engine's own work off the loop."""
        if self._aside is None:
            self._aside = ToolThreads(2, "planbench-aside")
        return await self._aside.call(function)

    def left(self, node_id: str) -> int:
        """Tell how many calls of a node were given up and still run in a thread."""
        return 0 if self._tools is None else self._tools.left(node_id)

    def close(self) -> None:
        """Let all threads end as soon as they are free."""
        for pool in (self._tools, self._aside):
            if pool is not None:
                pool.close()
