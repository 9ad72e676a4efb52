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
    ) -> Any:
        """Call a tool and give its value; ``key`` is the idempotency key for tools that take one.

        With ``offered`` only tools that are in it can be called; the host's own tool of
        that name goes before the one in it.
        """
        tool = (self._registry if offered is None else offered).get_tool(name)
        tool = self._registry.get(name) or tool
        if not is_allowed(name, self._allowed):
            raise ToolNotAllowed(f"tool {name!r} is not allowed here", tool=name)
        kwargs = tool.validate(dict(args))
        if tool.wants_idempotency_key:
            kwargs[IDEMPOTENCY_KEY] = key
        # in a task of its own: context variables that the tool sets stay with it
        task = asyncio.create_task(self._made(tool, kwargs))
        try:
            return await task
        except ToolError:
            raise
        except asyncio.CancelledError as error:
            asking = asyncio.current_task()
            if asking is None or asking.cancelling():
                raise
            raise _failed(name, error) from error
        except Exception as error:
            raise _failed(name, error) from error

    async def _made(self, tool: Tool, kwargs: dict[str, Any]) -> Any:
        try:
            if tool.is_async:
                value = tool.function(**kwargs)
            else:
                function = functools.partial(
                    contextvars.copy_context().run, tool.function, **kwargs
                )
                value = await self._pools.tools().call(function, tool.name)
            return await value if inspect.isawaitable(value) else value
        except SystemExit as error:  # a task would hand it on to the loop, which ends with it
            raise _failed(tool.name, error) from error


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
