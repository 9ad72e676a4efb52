"""The tools that can be called right now, by name."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import traceback
import types
import uuid
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from planbench.errors import ConfigurationError, ToolError, UnknownTool
from planbench.plan.structure import suggestion
from planbench.tools.catalog import catalog_entry, is_allowed
from planbench.tools.definition import Tool
from planbench.tools.observed import ObservedShapes
from planbench.tools.signature import IDEMPOTENCY_KEY
from planbench.tools.sources import tools_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Callback = Callable[["RegistryChange"], None]

PERMISSION_CONTEXT: Final[ContextVar[Any]] = ContextVar(
    "planbench_permission_context", default=None
)
"""What the host gave as ``permission_context`` for the call that is running; None without one."""

_MAX_ERROR: Final = 300
_SHOWN: Final = 10
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """One change of a registry, told to its subscribers after it was made."""

    kind: Literal["added", "changed", "removed"]
    name: str


class ToolRegistry:
    """The tools of one kernel or process, in the order in which they came.

    Registering a name again replaces its tool. That is a change whenever the function
    is another object, also when its source is the same (a cell that ran twice):
    the next call uses the newest function. Any thread may register; subscribers are
    called in that thread.
    """

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._version = 0
        self._lock = threading.Lock()
        self._subscribers: list[Callback] = []
        self._observed = ObservedShapes()
        self.register(_given(tools))

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        return self._version

    def register(self, obj: Any) -> Tool | list[Tool]:
        """Add a function, a Tool, a module, a toolkit, or a list of them; gives what was added.

        Raises ToolError, and then adds nothing.
        """
        made = tools_of(obj)
        changes = []
        with self._lock:
            # A new map each time: readers in other threads never meet a change in mid-loop.
            tools = dict(self._tools)
            for one in [made] if isinstance(made, Tool) else made:
                old = tools.get(one.name)
                if old is None or not _is_same(old, one):
                    kind: Literal["added", "changed"] = "added" if old is None else "changed"
                    changes.append(RegistryChange(kind, one.name))
                tools[one.name] = one
            self._tools = tools
            self._version += len(changes)
        self._tell(changes)
        return made

    register_tool = register

    def remove(self, name: str) -> None:
        """Take a tool out; raises UnknownTool."""
        with self._lock:
            if name not in self._tools:
                raise self._unknown(name)
            self._tools = {key: one for key, one in self._tools.items() if key != name}
            self._version += 1
        self._tell([RegistryChange("removed", name)])

    def get_tool(self, name: str) -> Tool:
        """Give the tool of that name; raises UnknownTool, which names a near one."""
        found = self._tools.get(name)
        if found is None:
            raise self._unknown(name)
        return found

    def get(self, name: str) -> Tool | None:
        """Give the tool of that name, or None."""
        return self._tools.get(name)

    def observe(self, tool: Tool, value: Any) -> None:
        """Note the names and types of what a call of a tool gave, never a value.

        Most calls are not looked at and cost next to nothing.
        """
        self._observed.observe(tool, value)

    def observed(self, tool: Tool) -> dict[str, Any] | None:
        """Give the JSON Schema of what earlier calls of a tool gave; None where none was seen."""
        return self._observed.schema(tool)

    def list_tools(self) -> list[Tool]:
        """Give all tools, in the order in which they came."""
        return list(self._tools.values())

    def names(self) -> list[str]:
        """Name all tools, in the order in which they came."""
        return list(self._tools)

    def catalog(self, allowed_tools: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Describe the allowed tools as JSON values: what a planner is shown."""
        tools = self._tools.values()
        return [catalog_entry(one) for one in tools if is_allowed(one.name, allowed_tools)]

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Be told of each change; gives the way to end it. A callback that fails is logged."""
        if not callable(callback):
            raise ConfigurationError(
                f"a subscriber is a function, not {type(callback).__name__}",
                hint="write: registry.subscribe(lambda change: ...)",
            )
        with self._lock:
            self._subscribers = [*self._subscribers, callback]

        def unsubscribe() -> None:
            with self._lock:
                # A bound method is another object each time it is named.
                self._subscribers = [one for one in self._subscribers if one is not callback]

        return unsubscribe

    async def execute_tool(
        self, name: str, args: dict[str, Any], *, permission_context: Any = None
    ) -> Any:
        """Validate the arguments, call the tool and give its value; raises ToolError.

        A plain function runs in a thread. What the tool itself raised is the cause of the
        error. The tool finds ``permission_context`` in ``PERMISSION_CONTEXT``.
        """
        found = self.get_tool(name)
        kwargs = found.validate(args)
        if found.wants_idempotency_key:
            kwargs[IDEMPOTENCY_KEY] = uuid.uuid4().hex
        token = PERMISSION_CONTEXT.set(permission_context)
        try:
            value = await _called(found, kwargs)
            if found.check_result is not None:
                await asyncio.to_thread(found.check_result, value)  # it takes long for a large one
            return value  # noqa: TRY300 - what is checked is what is given
        except ToolError:
            raise
        except (Exception, SystemExit) as error:
            text = traceback.format_exception_only(error)[-1].strip()[:_MAX_ERROR]
            raise ToolError(f"tool {name!r} failed: {text}", tool=name) from error
        finally:
            PERMISSION_CONTEXT.reset(token)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.list_tools())

    def __repr__(self) -> str:
        names = self.names()
        more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"<ToolRegistry of {len(names)}: {', '.join(names[:_SHOWN])}{more}>"

    def _unknown(self, name: str) -> UnknownTool:
        hint = suggestion(str(name), self.names())
        if hint is None:
            names = self.names()
            more = ", ..." if len(names) > _SHOWN else ""
            hint = (
                f"registered: {', '.join(names[:_SHOWN])}{more}"
                if names
                else "no tool is registered"
            )
        return UnknownTool(f"there is no tool {name!r}", tool=name, hint=hint)

    def _tell(self, changes: list[RegistryChange]) -> None:
        for change in changes:
            for callback in self._subscribers:
                try:
                    callback(change)
                except Exception:
                    _logger.exception("a subscriber failed at %r", change)


def _given(tools: Any) -> Any:
    """Give what a registry is made of; raises ConfigurationError for what holds no tools."""
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping | Tool):
        return list(tools)
    if isinstance(tools, Tool | types.ModuleType) or inspect.isroutine(tools):
        return tools
    raise ConfigurationError(
        f"a registry is made of a list of functions and tools, not of {type(tools).__name__}",
        hint="write: ToolRegistry([my_function])",
    )


def _is_same(old: Tool, new: Tool) -> bool:
    """Whether replacing one by the other changes nothing that anybody could see."""
    if old is new:
        return True
    functions = old.function, new.function
    same = functions[0] is functions[1] or (
        all(isinstance(one, types.MethodType) for one in functions) and functions[0] == functions[1]
    )
    return same and all(
        getattr(old, field) == getattr(new, field)
        for field in ("fingerprint", "description", "effects", "idempotent", "cost")
    )


async def _called(tool: Tool, kwargs: dict[str, Any]) -> Any:
    value = (
        tool.function(**kwargs) if tool.is_async else await asyncio.to_thread(_plain, tool, kwargs)
    )
    return await value if inspect.isawaitable(value) else value


def _plain(tool: Tool, kwargs: dict[str, Any]) -> Any:
    try:
        return tool.function(**kwargs)
    except StopIteration as stop:  # a future cannot carry it: the caller would wait for ever
        raise ToolError(f"tool {tool.name!r} failed: StopIteration", tool=tool.name) from stop
