"""The tool calls of an agent: checked, allowed, made on the loop or in the run's own threads."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ToolArgumentsInvalid, ToolError, ToolNotAllowed, UnknownTool
from planbench.runtime.node import error_text
from planbench.tools import is_allowed
from planbench.tools.signature import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.runtime.dispatch import Pools
    from planbench.tools import Tool, ToolRegistry

_KINDS: Final[dict[str, type[ToolError]]] = {
    kind.code: kind for kind in (ToolError, UnknownTool, ToolNotAllowed)
}


class ToolCaller:
    """Calls the tools of a host for one run; whatever a tool raises comes out as ToolError."""

    def __init__(
        self, registry: ToolRegistry, allowed: Collection[str] | None, pools: Pools
    ) -> None:
        self._registry = registry
        self._allowed = allowed
        self._pools = pools

    async def call(
        self, name: str, args: Mapping[str, Any], key: str, offered: ToolRegistry | None
    ) -> tuple[Any, asyncio.CancelledError | None]:
        """Call a tool and give its value; ``key`` is the idempotency key for tools that take one.

        With ``offered`` only tools that are in it can be called; the host's own tool of
        that name goes before the one in it. A cancellation that came when the tool was done,
        or that the tool let pass, is given beside the value, to be raised when that is on record.
        """
        tool = (self._registry if offered is None else offered).get_tool(name)
        tool = self._registry.get(name) or tool
        if not is_allowed(name, self._allowed):
            raise ToolNotAllowed(f"tool {name!r} is not allowed here", tool=name)
        kwargs = tool.validate(dict(args))
        if tool.wants_idempotency_key:
            kwargs[IDEMPOTENCY_KEY] = key
        given: list[Any] = []
        # in a task of its own: context variables that the tool sets stay with it
        task = asyncio.create_task(self._made(tool, kwargs, given))
        before, cancelled = _cancellations(), None
        try:
            await task
        except asyncio.CancelledError as error:
            cancelled = error
            if not given and _cancellations() > before:
                raise
            if not given:
                raise _failed(name, error) from error
        except Exception as error:
            if _cancellations() > before:  # it may have failed of that
                raise asyncio.CancelledError from error
            if isinstance(error, ToolError):
                raise
            raise _failed(name, error) from error
        if _cancellations() == before:
            return given[0], None
        return given[0], cancelled or asyncio.CancelledError()

    async def _made(self, tool: Tool, kwargs: dict[str, Any], given: list[Any]) -> None:
        try:
            if tool.is_async:
                value = tool.function(**kwargs)
            else:
                function = functools.partial(
                    contextvars.copy_context().run, tool.function, **kwargs
                )
                value = await self._pools.tools().call(function, tool.name)
            value = await value if inspect.isawaitable(value) else value
            if tool.check_result is not None:
                check = functools.partial(tool.check_result, value)
                await self._pools.aside(check)  # it takes long for a large one
            given.append(value)
        except SystemExit as error:  # a task would hand it on to the loop, which ends with it
            raise _failed(tool.name, error) from error


def _cancellations() -> int:
    """Count how often the one who asks was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def error_record(error: ToolError) -> dict[str, Any]:
    """Give an error of a tool as an event holds it."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def recorded_error(name: str, record: Mapping[str, Any]) -> ToolError:
    """Make the error again that a call was recorded with."""
    code, message, hint = record["code"], record["message"], record["hint"]
    if code == ToolArgumentsInvalid.code:
        return ToolArgumentsInvalid(message, tool=name)
    return _KINDS.get(code, ToolError)(message, tool=name, hint=hint)


def _failed(name: str, error: BaseException) -> ToolError:
    return ToolError(f"tool {name!r} failed: {error_text(error)}", tool=name)
