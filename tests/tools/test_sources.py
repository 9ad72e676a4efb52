from __future__ import annotations

import functools
import types

import pytest

from planbench.errors import ToolError
from planbench.tools import Tool, ToolRegistry, tool
from planbench.tools.sources import tools_of


class Base:
    async def first(self, key: str) -> str:
        """First of all."""
        return key


class Toolkit(Base):
    def __init__(self) -> None:
        self.touched = False

    async def second(self, n: int) -> int:
        return n

    async def first(self, key: str, more: int = 0) -> str:
        """First, changed."""
        return key

    @tool(effects="write")
    def marked(self, n: int) -> int:
        """Write one."""
        return n

    @staticmethod
    async def loose(n: int) -> int:
        return n

    def plain(self) -> None: ...

    async def _hidden(self) -> None: ...

    @property
    def state(self) -> int:
        self.touched = True
        return 1


def module_of(source: str, name: str = "some_tools") -> types.ModuleType:
    module = types.ModuleType(name)
    exec(source, vars(module))
    return module


def test_a_toolkit_gives_its_public_async_and_marked_methods():
    toolkit = Toolkit()
    made = tools_of(toolkit)
    assert [one.name for one in made] == ["first", "second", "marked", "loose"]
    assert not toolkit.touched
    assert made[0].signature_text == "first(key: str, more: int = 0) -> str"
    assert made[2].effects == "write"
    assert made[2](n=1) == 1
    assert all(not one.needs_object for one in made)


def test_a_module_gives_the_public_functions_that_it_defines():
    module = module_of(
        "import functools\n"
        "from os.path import join\n"
        "from planbench.tools import tool\n"
        "class Thing: pass\n"
        "thing = Thing()\n"
        "def fetch(key: str): return key\n"
        "@functools.lru_cache\n"
        "def cached(n: int): return n\n"
        "@tool(effects='write')\n"
        "def send(to: str): return to\n"
        "double = lambda n: 2 * n\n"
        "def _hidden(*args): return args\n"
    )
    made = tools_of(module)
    assert [one.name for one in made] == ["fetch", "cached", "send", "double"]
    assert made[2].effects == "write"
    assert made[3](n=2) == 4


def test_a_module_that_says_what_is_public_is_believed():
    module = module_of("__all__ = ['fetch']\ndef fetch(key): ...\ndef other(*args): ...\n")
    assert [one.name for one in tools_of(module)] == ["fetch"]


def test_a_tool_that_a_module_only_imports_is_not_its_own():
    module = module_of("def fetch(key): ...\n")
    module.imported = Tool.from_function(module_of("def other(a): ...\n", "elsewhere").other)
    assert [one.name for one in tools_of(module)] == ["fetch"]


def test_lists_are_taken_apart_and_single_things_are_not():
    def f(a): ...

    assert isinstance(tools_of(f), Tool)
    assert isinstance(tools_of(functools.partial(f)), Tool)
    assert [one.name for one in tools_of([f, (Toolkit(),)])] == [
        "f",
        "first",
        "second",
        "marked",
        "loose",
    ]
    assert tools_of([]) == []


@pytest.mark.parametrize("thing", ["fetch", b"x", {"a": 1}, None, Toolkit, 3, object()])
def test_what_gives_no_tools_is_refused(thing):
    with pytest.raises(ToolError, match="gives no tools"):
        tools_of(thing)


def test_a_module_without_functions_is_refused_by_name():
    with pytest.raises(ToolError, match="'some_tools' has no public functions"):
        tools_of(module_of("x = 1"))


def test_a_method_without_its_object_is_refused_with_the_way_out():
    registry = ToolRegistry()
    for thing in (Base.first, Toolkit.marked):
        with pytest.raises(
            ToolError, match=r"is a method of .* and lacks its object\nregister the object"
        ):
            registry.register(thing)
    assert len(registry) == 0


def test_a_method_that_cannot_be_a_tool_is_named():
    class Bad:
        async def fine(self, a): ...

        async def star(self, *args): ...

    with pytest.raises(ToolError, match=r"'star' takes \*args"):
        tools_of(Bad())
