from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading

import pytest

from planbench.errors import ConfigurationError, ToolArgumentsInvalid, ToolError, UnknownTool
from planbench.tools import PERMISSION_CONTEXT, RegistryChange, Tool, ToolRegistry, tool


def fetch(key: str, limit: int = 10) -> dict:
    """Fetch one report."""
    return {"key": key, "limit": limit}


async def compare(left: dict, right: dict) -> bool:
    """Compare two reports."""
    return left == right


def registered(**functions):
    return ToolRegistry([Tool.from_function(one, name=name) for name, one in functions.items()])


def test_tools_are_held_in_the_order_in_which_they_came():
    registry = ToolRegistry([fetch, tool(compare)])
    assert registry.names() == ["fetch", "compare"]
    assert [one.name for one in registry] == [one.name for one in registry.list_tools()]
    assert (len(registry), "fetch" in registry, "none" in registry) == (2, True, False)
    assert registry.get_tool("fetch") is registry.get("fetch")
    assert registry.get("none") is None
    assert repr(registry) == "<ToolRegistry of 2: fetch, compare>"


def test_register_gives_what_it_added_under_both_spellings():
    registry = ToolRegistry()
    made = registry.register(fetch)
    assert isinstance(made, Tool)
    assert registry.register_tool([compare, fetch])[0].name == "compare"
    assert registry.register(made) is made


def test_an_unknown_tool_is_named_with_a_near_one():
    registry = ToolRegistry([fetch, compare])
    with pytest.raises(
        UnknownTool, match=r"there is no tool 'fetsh'\ndid you mean 'fetch'\?"
    ) as caught:
        registry.get_tool("fetsh")
    assert caught.value.tool == "fetsh"
    with pytest.raises(UnknownTool, match="registered: fetch, compare"):
        registry.get_tool("zzz")
    with pytest.raises(UnknownTool, match="no tool is registered"):
        ToolRegistry().get_tool("fetch")


def test_each_change_is_told_and_counted():
    registry, heard = ToolRegistry(), []
    stop = registry.subscribe(heard.append)
    registry.register(fetch)
    registry.register(Tool.from_function(compare, name="fetch"))
    registry.remove("fetch")
    assert heard == [
        RegistryChange("added", "fetch"),
        RegistryChange("changed", "fetch"),
        RegistryChange("removed", "fetch"),
    ]
    assert registry.version == 3
    stop()
    stop()
    registry.register(fetch)
    assert (len(heard), registry.version) == (3, 4)


def test_registering_the_same_function_again_is_no_change():
    class Store:
        async def load(self, key: str): ...

    store = Store()
    registry, heard = ToolRegistry([fetch, store]), []
    registry.subscribe(heard.append)
    registry.register([fetch, store])
    assert (heard, registry.version) == ([], 2)


def test_a_cell_that_ran_again_is_a_change_and_the_newest_function_is_used():
    def cell():
        def f(a: int) -> int:
            return a

        return f

    first, second = cell(), cell()
    registry, heard = ToolRegistry([first]), []
    registry.subscribe(heard.append)
    assert Tool.from_function(first).fingerprint == Tool.from_function(second).fingerprint
    registry.register(second)
    assert heard == [RegistryChange("changed", "f")]
    assert registry.get_tool("f").function is second


def test_other_effects_of_the_same_function_are_a_change():
    registry, heard = ToolRegistry([fetch]), []
    registry.subscribe(heard.append)
    registry.register(Tool.from_function(fetch, effects="write"))
    assert heard == [RegistryChange("changed", "fetch")]


def test_a_replaced_tool_keeps_its_place():
    registry = ToolRegistry([fetch, compare])
    registry.register(Tool.from_function(compare, name="fetch"))
    assert registry.names() == ["fetch", "compare"]


def test_removing_an_unknown_tool_is_an_error_and_no_change():
    registry = ToolRegistry([fetch])
    with pytest.raises(UnknownTool):
        registry.remove("fetsh")
    assert registry.version == 1


def test_a_subscriber_that_fails_is_logged_and_the_others_hear(caplog):
    def fail(_):
        raise RuntimeError("subscriber")

    registry, heard = ToolRegistry(), []
    registry.subscribe(fail)
    registry.subscribe(heard.append)
    with caplog.at_level(logging.ERROR):
        registry.register(fetch)
    assert len(heard) == 1
    assert "subscriber" in caplog.text


def test_a_subscriber_may_change_the_registry_and_subscribers():
    registry, heard = ToolRegistry(), []

    def once(change):
        heard.append(change)
        stop()
        registry.register(compare)

    stop = registry.subscribe(once)
    registry.register(fetch)
    assert heard == [RegistryChange("added", "fetch")]
    assert registry.names() == ["fetch", "compare"]


def test_a_failed_registration_adds_nothing():
    registry = ToolRegistry()
    with pytest.raises(ToolError):
        registry.register([fetch, lambda a: a])
    assert (registry.names(), registry.version) == ([], 0)


def test_threads_may_register_while_others_read():
    registry, failures = ToolRegistry(), []

    def write(prefix):
        try:
            for i in range(50):
                registry.register(Tool.from_function(fetch, name=f"{prefix}{i}"))
        except Exception as error:  # noqa: BLE001 - whatever it was fails the test below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(prefix,)) for prefix in "abc"]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        assert len(registry.catalog()) <= 150
        assert all(one.name in registry for one in registry)
    for one in threads:
        one.join()
    assert failures == []
    assert (len(registry), registry.version) == (150, 150)


def test_the_catalog_holds_the_allowed_tools_as_json():
    registry = registered(github_list=fetch, github_get=fetch, send=compare)
    assert [one["name"] for one in registry.catalog(["github_*"])] == ["github_list", "github_get"]
    assert [one["name"] for one in registry.catalog([])] == []
    assert len(registry.catalog()) == 3
    assert registry.catalog(["send"]) == [
        {
            "name": "send",
            "description": "Compare two reports.",
            "signature": "send(left: dict, right: dict) -> bool",
            "parameters": registry.get_tool("send").parameters,
            "effects": "read",
        }
    ]


def execute(registry, name, args, **options):
    return asyncio.run(registry.execute_tool(name, args, **options))


def test_execute_validates_calls_and_gives_the_value():
    registry = ToolRegistry([fetch, compare])
    assert execute(registry, "fetch", {"key": "a", "limit": "3"}) == {"key": "a", "limit": 3}
    assert execute(registry, "compare", {"left": {}, "right": {}}) is True
    with pytest.raises(ToolArgumentsInvalid):
        execute(registry, "fetch", {"limit": 3})
    with pytest.raises(UnknownTool):
        execute(registry, "fetsh", {})


def test_a_plain_function_runs_in_a_thread_with_the_callers_context():
    seen = contextvars.ContextVar("seen", default=None)

    def look():
        return threading.current_thread() is threading.main_thread(), seen.get()

    async def main():
        seen.set("here")
        return await registered(look=look).execute_tool("look", {})

    assert asyncio.run(main()) == (False, "here")


def test_a_plain_function_that_gives_a_coroutine_is_awaited():
    def wrapper(left: dict, right: dict):
        return compare(left, right)

    assert execute(registered(wrapper=wrapper), "wrapper", {"left": {}, "right": {}}) is True


def _boom():
    raise ValueError("boom")


async def _aboom():
    raise ValueError("boom")


@pytest.mark.parametrize("function", [_boom, _aboom])
def test_what_a_tool_raises_is_the_cause_of_a_tool_error(function):
    with pytest.raises(ToolError, match="tool 'f' failed: ValueError: boom") as caught:
        execute(registered(f=function), "f", {})
    assert isinstance(caught.value.__cause__, ValueError)
    assert (caught.value.tool, caught.value.code) == ("f", "tool_error")


def test_an_error_text_is_bounded_and_an_error_without_text_is_still_told():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def long():
        raise ValueError("x" * 10_000)

    def odd():
        raise Odd

    with pytest.raises(ToolError) as caught:
        execute(registered(f=long), "f", {})
    assert len(str(caught.value)) < 400
    with pytest.raises(ToolError, match="Odd"):
        execute(registered(f=odd), "f", {})


def test_stop_iteration_and_exit_are_errors_of_the_tool():
    def stops():
        return next(iter([]))

    async def astops():
        return next(iter([]))

    def leaves():
        sys.exit(3)

    registry = registered(stops=stops, astops=astops, leaves=leaves)
    with pytest.raises(ToolError, match="StopIteration"):
        execute(registry, "stops", {})
    with pytest.raises(ToolError, match="StopIteration"):
        execute(registry, "astops", {})
    with pytest.raises(ToolError, match="SystemExit: 3"):
        execute(registry, "leaves", {})


def test_a_tool_error_of_the_tool_itself_comes_out_as_it_is():
    def inner():
        raise ToolError("said so", tool="inner")

    with pytest.raises(ToolError, match=r"^said so$"):
        execute(registered(f=inner), "f", {})


def test_cancelling_passes_through():
    async def main():
        started = asyncio.Event()

        async def waits():
            started.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(registered(f=waits).execute_tool("f", {}))
        await started.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_the_permission_context_is_there_during_the_call_only():
    def who():
        return PERMISSION_CONTEXT.get()

    async def awho():
        return PERMISSION_CONTEXT.get()

    async def main():
        registry = registered(who=who, awho=awho)
        inside = [
            await registry.execute_tool(name, {}, permission_context={"user": "a"})
            for name in ("who", "awho")
        ]
        return inside, await registry.execute_tool("who", {}), PERMISSION_CONTEXT.get()

    assert asyncio.run(main()) == ([{"user": "a"}] * 2, None, None)


def test_a_tool_that_wants_an_idempotency_key_receives_a_new_one_each_time():
    def send(to: str, idempotency_key: str):
        return idempotency_key

    registry = registered(send=send)
    first, second = (execute(registry, "send", {"to": "a"}) for _ in range(2))
    assert len(first) == 32
    assert first != second


@pytest.mark.parametrize("tools", [5, None, "tool", {}, int])
def test_a_registry_is_made_of_nothing_but_tools(tools):
    with pytest.raises(ConfigurationError, match="a registry is made of a list"):
        ToolRegistry(tools)


def test_only_a_function_subscribes():
    with pytest.raises(ConfigurationError, match="a subscriber is a function, not int"):
        ToolRegistry().subscribe(5)
