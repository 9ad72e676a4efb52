"""Where a tool call happens: on the loop, or in a thread of the run's own pool."""

from __future__ import annotations

import asyncio
import threading
import types
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from contextvars import Context

BLOCKED: Final = 0.1
"""Seconds after which one uninterrupted step of an async tool counts as blocking the loop."""


@types.coroutine
def resume_in(
    context: Context,
    coroutine: Coroutine[Any, Any, Any],
    waiting: Any,
    told: Callable[[float], None],
) -> Generator[Any, Any, Any]:
    """Drive a started coroutine to its end with every step in a context of its own.

    A task per call would isolate context variables as well, at ten times the price.
    ``told`` hears of each step that held the loop for over 0.1 seconds.
    """
    enter = context.run
    while True:
        try:
            value = yield waiting
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001 - handed to the tool, which decides
            begin = monotonic()
            try:
                waiting = enter(coroutine.throw, error)
            except StopIteration as stop:
                return stop.value
        else:
            begin = monotonic()
            try:
                waiting = enter(coroutine.send, value)
            except StopIteration as stop:
                return stop.value
        if (held := monotonic() - begin) > BLOCKED:
            told(held)


async def settle(awaitable: Any) -> Any:
    """Await what an async tool gave when it is no coroutine."""
    return await awaitable


class ToolThreads:
    """The threads in which plain functions run: a run's own, never the loop's default pool.

    They are daemons, since a tool that never returns must not keep the process
    alive; a call that was given up frees its place at once, and what it returns
    later is dropped.
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
        self._abandoned = 0
        self._lock = threading.Lock()
        self._closed = False

    @property
    def abandoned(self) -> int:
        """How many calls were given up and still run."""
        return self._abandoned

    async def call(self, function: Callable[[], Any]) -> Any:
        """Call in a thread; StopIteration comes out as RuntimeError, as a future cannot carry it."""
        future = self._loop.create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < self._limit + self._abandoned:
                self._threads += 1
                threading.Thread(
                    target=self._work, name=f"{self._name}-{self._threads}", daemon=True
                ).start()
        self._calls.put((future, function))
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                with self._lock:
                    self._abandoned += 1
            raise

    def close(self) -> None:
        """Let the threads end as soon as they are free; does not wait for them."""
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._calls.put(None)

    def _work(self) -> None:
        while (job := self._calls.get()) is not None:
            future, function = job
            if future.cancelled():  # given up before it began: it must not run
                self._free(future, None, None)
                continue
            value: Any = None
            error: BaseException | None = None
            try:
                value = function()
            except StopIteration as stop:
                error = _stopped(stop)
            except BaseException as raised:  # noqa: BLE001 - carried to the loop, raised there
                error = raised
            if not self._free(future, value, error):
                return

    def _free(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> bool:
        with self._lock:
            if self._closed:
                self._post(future, value, error)
                return False
            surplus = self._threads > self._limit and future.cancelled()
            if future.cancelled():
                self._abandoned -= 1
            if surplus:
                self._threads -= 1
                return False
            self._idle += 1
        self._post(future, value, error)
        return True

    def _post(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        if self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(_deliver, future, value, error)
        except RuntimeError:  # the loop closed in between: nobody waits any more
            return


def _stopped(stop: StopIteration) -> RuntimeError:
    error = RuntimeError(f"StopIteration: the tool raised StopIteration({stop.value!r})"[:300])
    error.__cause__ = stop
    return error


def _deliver(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return  # given up: a late result never lands
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
