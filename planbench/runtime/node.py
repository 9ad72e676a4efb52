"""One call of a tool: its place, its time limit, its tries, and the words for how it failed."""

from __future__ import annotations

import asyncio
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.errors import ToolError
from planbench.memory.sizes import measure
from planbench.runtime import output
from planbench.runtime.dispatch import BLOCKED, resume_in, settle
from planbench.runtime.output import as_utf8, keep, place, release
from planbench.runtime.standing import MAX_ERROR_LENGTH
from planbench.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextvars import Context

    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.dispatch import ToolThreads
    from planbench.runtime.masking import Masking
    from planbench.runtime.output import Prints
    from planbench.runtime.run import Run

MUCH_WORSE: Final = 2
CHECKED_HERE: Final = 200
"""Elements of a result up to which it is held to its schema on the loop."""


class CallTimedOut(Exception):  # told to the node, raised to nobody
    """Raised inside the runtime when a call was over its limit; the text says what became of it."""


def error_text(
    error: BaseException, index: int | None = None, secrets: Masking | None = None
) -> str:
    """Name an error in at most 300 characters, the ``[i]`` of an item counted in."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group inside the tool; the cause is what counts
    if isinstance(error, asyncio.CancelledError):
        text = "tool raised CancelledError"
    elif isinstance(error, CallTimedOut):
        text = str(error)
    else:
        try:
            said = str(error)
        except Exception:  # noqa: BLE001 - an error whose __str__ fails is still an error
            said = "(its message cannot be read)"
        text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if secrets is not None:
        text = secrets.mask(text)  # before it is cut: half a secret is one too
    if index is not None:
        text = f"[{index}] {text}"
    if len(text) > MAX_ERROR_LENGTH:
        text = text[: MAX_ERROR_LENGTH - 3] + "..."
    return as_utf8(text)


def opened(value: Any) -> Any:
    """Give what a tool made for agents answered; raises ToolError for an answer that is an error."""
    if type(value) is not ToolResult:
        return value
    if value.success:
        return value.result
    raise ToolError(f"{value.error_code}: {value.error}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def first_step(function: Callable[..., Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Call an async tool and take its first step, inside the context of the call.

    Gives ``(None, value)`` when that was all, else the coroutine and what it waits for.
    """
    work = function(**kwargs)
    if type(work) is not CoroutineType:
        if not hasattr(work, "__await__"):
            return None, work
        work = settle(work)
    try:
        return work, work.send(None)
    except StopIteration as stop:
        return None, stop.value


def _go(work: CoroutineType[Any, Any, Any]) -> tuple[Any, Any]:
    try:
        return work, work.send(None)
    except StopIteration as stop:
        return None, stop.value


def first_step_at(
    where: tuple[Prints, str], function: Callable[..., Any], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Take the first step with prints sent to a node."""
    place.set(where)
    return first_step(function, kwargs)


def whole_call(
    where: tuple[Prints, str], function: Callable[..., Any], kwargs: dict[str, Any]
) -> Any:
    """Call a plain tool, inside the context of the call."""
    place.set(where)
    keep()
    try:
        return function(**kwargs)
    finally:
        release()


class Caller:
    """Makes the calls of a run, each in a copy of the context that the run was started in."""

    def __init__(
        self, run: Run, context: Context, prints: Prints, threads: Callable[[], ToolThreads]
    ) -> None:
        self._run = run
        self._context = context
        self._prints = prints
        self._threads = threads
        self._warned: dict[str, float] = {}
        self.giving_up = False

    def call(
        self, node: CompiledNode, kwargs: dict[str, Any], index: int | None = None
    ) -> Awaitable[Any]:
        """Call under the node's limit and retry policy; the wait grows with each try."""
        if node.once:
            return self._plain(node, kwargs, index)
        return self._tried(node, kwargs, index)

    async def _tried(self, node: CompiledNode, kwargs: dict[str, Any], index: int | None) -> Any:
        attempt = 1
        while True:
            try:
                value = opened(await self._once(node, kwargs, index))
                if node.check_result is not None:
                    await self._check(node, value)
                return value  # noqa: TRY300 - a result that does not fit is tried again, as an error is
            except asyncio.CancelledError:
                raise
            except Exception as error:
                if attempt >= node.attempts or _is_cancelled():
                    raise
                wait = node.backoff * attempt
                data = {
                    "node_id": node.id,
                    "attempt": attempt,
                    "error": error_text(error, secrets=self._run.secrets),
                    "wait": wait,
                }
                if index is not None:
                    data["index"] = index
                self._run.emit(ev.NODE_RETRIED, data)
            await asyncio.sleep(wait)
            attempt += 1

    async def _check(self, node: CompiledNode, value: Any) -> None:
        check = node.check_result
        assert check is not None
        if measure(value, CHECKED_HERE) is None:
            await self._threads().call(lambda: check(value), node.id)
        else:
            check(value)

    async def _once(self, node: CompiledNode, kwargs: dict[str, Any], index: int | None) -> Any:
        limit = node.timeout
        if limit is None:
            return await self._plain(node, kwargs, index)
        began = monotonic()
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                value = await self._plain(node, kwargs, index)
        except TimeoutError as error:
            if not scope.expired():
                raise
            rest = ""
            if not node.is_async and self._threads().left(node.id):
                rest = "; still running in a thread, its result is dropped"
            raise CallTimedOut(f"TimeoutError: over the limit of {limit:g} s{rest}") from error
        took = monotonic() - began
        if took > limit and node.is_async:
            text = f"TimeoutError: took {took:.1f} s, over the limit of {limit:g} s"
            if scope.expired():
                text += ", and swallowed its cancellation"
            elif node.id in self._warned:
                text += (
                    f", and blocked the event loop meanwhile: make {node.tool.name!r} a plain def"
                )
            else:
                text += ", while the event loop was blocked"
            raise CallTimedOut(text)
        return value

    async def _plain(self, node: CompiledNode, kwargs: dict[str, Any], index: int | None) -> Any:
        context = self._context.copy()
        if output.noting and index is not None:
            context.run(output.item.set, index)
        where = (self._prints, node.id)
        if not node.is_async:
            value = await self._threads().call(
                lambda: context.run(whole_call, where, node.function, kwargs), node.id
            )
            if type(value) is CoroutineType:  # a plain wrapper around an async function
                work, value = context.run(_go, value)
                return value if work is None else await self.go_on(node, context, work, value)
            return value
        began = monotonic()
        work, value = context.run(first_step_at, where, node.function, kwargs)
        if monotonic() - began > BLOCKED:
            self.held(node, monotonic() - began)
        return value if work is None else await self.go_on(node, context, work, value)

    def go_on(
        self, node: CompiledNode, context: Context, work: Any, waiting: Any
    ) -> Awaitable[Any]:
        """Take a started async tool to its end."""
        # no coroutine of its own: each layer is gone through at every step of the tool
        return resume_in(context, work, waiting, self, node)

    def held(self, node: CompiledNode, seconds: float) -> None:
        """Say that a node's async tool blocks the loop, and again when it gets much worse."""
        if seconds > MUCH_WORSE * self._warned.get(node.id, 0.0):
            self._warned[node.id] = seconds
            text = (
                f"blocked the event loop for {seconds:.1f} s: make {node.tool.name!r} a plain def"
            )
            self._run.emit(ev.NODE_PROGRESS, {"node_id": node.id, "warning": text})


def printed(run: Run, node_id: str, told: str | dict[str, Any]) -> None:
    """Record what a tool has printed or noted."""
    if isinstance(told, str):
        run.emit(ev.NODE_OUTPUT, {"node_id": node_id, "text": told})
    else:
        run.emit(ev.NODE_PROGRESS, {"node_id": node_id, **told})
