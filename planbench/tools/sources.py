"""What may be registered, and which tools that makes."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planbench.errors import ToolError
from planbench.tools.definition import Tool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def tools_of(thing: Any) -> Tool | list[Tool]:
    """Make tools of a function, a tool, a module, a toolkit, or a list of such things.

    A module gives its tools and the public functions that it defines; a toolkit, which is an
    object that cannot be called, its public async methods and those marked with
    ``@tool``, but those that its ``hidden_tools`` names. Raises ToolError for anything else, and where nothing is found.
    """
    if isinstance(thing, Tool):
        return _whole(thing)
    if isinstance(thing, ModuleType):
        return _some(thing, list(_of_module(thing)), "public functions of its own")
    if isinstance(thing, list | tuple | set | frozenset):
        return [made for one in thing for made in _as_list(tools_of(one))]
    if callable(thing) and not isinstance(thing, type):
        return _whole(Tool.from_function(thing))
    if isinstance(thing, str | bytes | dict | type) or thing is None:
        raise ToolError(
            f"{thing.__name__ if isinstance(thing, type) else type(thing).__name__} gives no tools",
            hint="register a function, a tool, a module, or an object with async methods",
        )
    return _some(thing, list(_of_toolkit(thing)), "public async methods")


def _whole(made: Tool) -> Tool:
    if made.needs_object:
        owner = made.function.__qualname__.rpartition(".")[0]
        raise ToolError(
            f"{made.name!r} is a method of {owner} and lacks its object",
            tool=made.name,
            hint=f"register the object, or its bound method: {owner}(...).{made.function.__name__}",
        )
    return made


def _some(thing: Any, found: list[Tool], what: str) -> list[Tool]:
    if not found:
        name = getattr(thing, "__name__", type(thing).__name__)
        raise ToolError(f"{name!r} has no {what}, so it gives no tools")
    return found


def _as_list(made: Tool | list[Tool]) -> list[Tool]:
    return [made] if isinstance(made, Tool) else made


def _of_module(module: ModuleType) -> Iterator[Tool]:
    public = getattr(module, "__all__", None)
    for name, value in list(vars(module).items()):
        if name.startswith("_") if public is None else name not in public:
            continue
        if isinstance(value, Tool):
            if value.module == module.__name__ and not value.needs_object:
                yield value
        elif _is_function(value) and value.__module__ == module.__name__:
            yield Tool.from_function(value, name=name)


def _is_function(value: Any) -> bool:
    """Whether it is a function, or one under a decorator that gives an object."""
    if isinstance(value, type):
        return False
    return inspect.isroutine(value) or (callable(value) and hasattr(value, "__wrapped__"))


def _of_toolkit(toolkit: Any) -> Iterator[Tool]:
    """Give its tools in the order written, those of base classes first."""
    kind = type(toolkit)
    hidden: Collection[str] = getattr(toolkit, "hidden_tools", ())
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    for name in names:
        if name.startswith("_") or name in hidden:
            continue
        static = inspect.getattr_static(kind, name)
        if isinstance(static, Tool):
            made = getattr(toolkit, name)
            if not made.needs_object:
                yield made
        elif isinstance(static, staticmethod | classmethod) or inspect.isfunction(static):
            method = getattr(toolkit, name)
            if inspect.iscoroutinefunction(method):
                yield Tool.from_function(method, name=name)
