"""One call: where it happens, its limit and tries, its context, and the words for how it failed."""

import asyncio
import contextvars
import re
import threading
import time

import pytest

from planbench import events as ev
from planbench.errors import PlanbenchError
from planbench.runtime import node as node_module
from planbench.runtime.node import error_text
from planbench.tools import Tool, ToolResult

VARIABLE = contextvars.ContextVar("variable", default="unset")


def warnings(run, node_id):
    return list(run.state.nodes[node_id].warnings)


# Where


def test_async_tools_run_on_the_loop_and_plain_ones_in_threads_of_the_run(lab):
    async def on_loop():
        return threading.current_thread().name

    def in_thread():
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return threading.current_thread().name

    lab.tool(on_loop)
    lab.tool(in_thread)
    lab.run(lab.node("a", "on_loop"), lab.node("b", "in_thread"))
    assert lab.memory["a"] == threading.main_thread().name
    assert lab.memory["b"].startswith("planbench-")


def test_plain_tools_run_side_by_side_as_wide_as_the_plan_allows(lab):
    meet = threading.Barrier(12)

    def wait():
        return meet.wait(10)

    lab.tool(wait)
    run = lab.run(*[lab.node(f"n{i}", "wait") for i in range(12)], max_parallel_tasks=12)
    assert run.status == "completed", run.failure_text()


@pytest.mark.parametrize("fan", [False, True])
def test_a_plain_wrapper_of_an_async_function_is_awaited(lab, fan):
    async def inner(value):
        await asyncio.sleep(0)
        return f"awaited {value}"

    def wrapper(value):
        return inner(value)

    lab.tool(wrapper)
    nodes = lab.items([1], "wrapper") if fan else [lab.node("fan", "wrapper", {"value": 1})]
    run = lab.run(*nodes)
    assert run.status == "completed"
    assert lab.memory["fan"] == (["awaited 1"] if fan else "awaited 1")


def test_a_tool_of_a_schema_may_be_sync_or_async(lab):
    async def call(**args):
        return args

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    lab.registry.register(Tool.from_schema("later", "", schema, call))
    lab.registry.register(Tool.from_schema("now", "", schema, lambda **args: args))
    run = lab.run(lab.node("a", "later", {"x": 1}), lab.node("b", "now", {"x": 2}))
    assert run.status == "completed", run.failure_text()
    assert (lab.memory["a"], lab.memory["b"]) == ({"x": 1}, {"x": 2})


def test_an_awaitable_that_is_no_coroutine_is_awaited(lab):
    class Later:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return "awaited"

    class Callable:
        async def __call__(self):
            return await Later()

    async def future():
        return await asyncio.ensure_future(asyncio.sleep(0, "future"))

    lab.tool(Callable(), name="callable")
    lab.tool(future)
    run = lab.run(lab.node("a", "callable"), lab.node("b", "future"))
    assert run.status == "completed", run.failure_text()
    assert (lab.memory["a"], lab.memory["b"]) == ("awaited", "future")


# StopIteration


def test_stop_iteration_of_a_tool_is_an_error_of_its_node(lab):
    def plain(value=None):
        return next(iter([]))

    async def later(value=None):
        await asyncio.sleep(0)
        return next(iter([]))

    async def now(value=None):
        return next(iter([]))

    lab.tool(plain, name="stops")
    lab.tool(later)
    lab.tool(now)
    run = lab.run(
        lab.node("a", "stops"),
        lab.node("b", "later"),
        lab.node("c", "now"),
        lab.node("d", "stops", timeout=30, retry={"max_attempts": 2}),
        *lab.items([1], "stops"),
    )
    assert run.state.nodes["src"].status == "ok"
    for name in ("a", "b", "c", "d", "fan"):
        assert run.refs[name].status == "error"
        assert "StopIteration" in run.refs[name].errors[-1], name


def test_stop_async_iteration_of_a_tool_is_an_error_of_its_node(lab):
    async def stops():
        raise StopAsyncIteration

    lab.tool(stops)
    assert "StopAsyncIteration" in lab.run(lab.node("a", "stops")).refs["a"].errors[0]


# Limits


def test_a_call_over_its_limit_is_cancelled_and_an_error(lab):
    seen = []

    async def slow():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    lab.tool(slow)
    run = lab.run(lab.node("a", "slow", timeout=0.02), lab.node("b", after="a"))
    assert run.refs["a"].errors == ["TimeoutError: over the limit of 0.02 s"]
    assert run.state.nodes["b"].status == "blocked"
    assert seen == ["cancelled"]


def test_each_item_has_the_limit_for_itself(lab):
    async def slow(value):
        if value:
            lab.pass_time(60)
        await asyncio.sleep(value)
        return value

    lab.tool(slow)
    each = {"max_concurrency": 1}
    run = lab.run(*lab.items([0, 3_600, 0], "slow", timeout=60, each=each))
    assert run.refs["fan"].errors == ["[1] TimeoutError: over the limit of 60 s"]
    assert lab.memory["fan"] == [0, 0]


def test_a_timeout_of_the_tool_itself_is_told_from_the_limit(lab):
    async def raises():
        raise TimeoutError("the far end")

    lab.tool(raises)
    run = lab.run(lab.node("a", "raises", timeout=30))
    assert run.refs["a"].errors == ["TimeoutError: the far end"]


def test_a_tool_that_swallows_its_timeout_is_still_over_its_limit(lab):
    async def swallow():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "late"

    lab.tool(swallow)
    run = lab.run(lab.node("a", "swallow", timeout=0.02), lab.node("b"))
    (error,) = run.refs["a"].errors
    assert error.startswith("TimeoutError: took ")
    assert error.endswith("over the limit of 0.02 s, and swallowed its cancellation")
    assert "a" not in lab.memory
    assert run.state.nodes["b"].status == "ok"


def test_an_async_tool_that_blocks_past_its_limit_is_named(lab):
    async def block():
        time.sleep(0.15)  # noqa: ASYNC251 - the fault that is looked for

    lab.tool(block)
    run = lab.run(lab.node("a", "block", timeout=0.05))
    (error,) = run.refs["a"].errors
    assert error.startswith("TimeoutError: took ")
    assert error.endswith("blocked the event loop meanwhile: make 'block' a plain def")


def test_a_call_within_its_limit_gives_its_value_whatever_blocks_beside_it(lab):
    async def quick():
        await asyncio.sleep(0)
        return "ok"

    lab.tool(quick)
    run = lab.run(*[lab.node(f"n{i}", "quick", timeout=60) for i in range(20)])
    assert run.status == "completed"


# Blocking


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("fan", [False, True])
def test_an_async_tool_that_blocks_the_loop_is_named_in_a_warning(lab, late, fan):
    async def block(value=None):
        if late:
            await asyncio.sleep(0)
        time.sleep(0.12)  # noqa: ASYNC251 - the fault that is looked for

    lab.tool(block)
    run = lab.run(*(lab.items([1], "block") if fan else [lab.node("fan", "block")]))
    assert run.status == "completed"
    (warning,) = warnings(run, "fan")
    held = re.fullmatch(
        r"blocked the event loop for (\d+\.\d) s: make 'block' a plain def", warning
    )
    assert 0.1 <= float(held[1]) < 60  # how much longer than it slept is a matter of the machine


def test_blocking_is_not_said_again_unless_it_gets_much_worse():
    class Run:
        said = ()

        def emit(self, kind, data):
            self.said += (data["warning"],)

    class Node:
        id = "a"
        tool = Tool.from_function(lambda: None, name="block")

    run = Run()
    caller = node_module.Caller(run, contextvars.copy_context(), None, None)
    for seconds in (0.2, 0.3, 0.4, 0.5, 0.9, 1.1, 5.0):
        caller.held(Node, seconds)
    assert [text.split(":")[0] for text in run.said] == [
        "blocked the event loop for 0.2 s",
        "blocked the event loop for 0.5 s",
        "blocked the event loop for 1.1 s",
        "blocked the event loop for 5.0 s",
    ]


def test_a_plain_tool_that_blocks_is_no_reason_for_a_warning(lab):
    def block():
        time.sleep(0.12)

    lab.tool(block)
    assert warnings(lab.run(lab.node("a", "block")), "a") == []


# Tries


def test_a_call_is_tried_as_often_as_said_and_the_wait_grows(lab, monkeypatch):
    waits = []
    sleep = asyncio.sleep

    async def noted(seconds, *rest):
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(node_module.asyncio, "sleep", noted)
    run = lab.run(
        lab.node("a", "boom", {"value": 1}, retry={"max_attempts": 4, "backoff_seconds": 2})
    )
    assert lab.calls == [1, 1, 1, 1]
    assert [seconds for seconds in waits if seconds] == [2, 4, 6]
    retried = [e.data for e in run.events if e.type == ev.NODE_RETRIED]
    assert retried == [
        {"node_id": "a", "attempt": i, "error": "ValueError: boom 1", "wait": 2 * i}
        for i in (1, 2, 3)
    ]
    assert run.refs["a"].errors == ["ValueError: boom 1"]


def test_a_try_that_succeeds_ends_the_tries(lab):
    async def flaky():
        lab.calls.append(1)
        if len(lab.calls) < 3:
            raise ValueError("not yet")
        return "at last"

    lab.tool(flaky)
    run = lab.run(lab.node("a", "flaky", retry={"max_attempts": 10}))
    assert run.status == "completed"
    assert lab.memory["a"] == "at last"
    assert len(lab.calls) == 3
    assert run.outcome().usage.calls == 3


def test_a_timeout_counts_for_each_try(lab):
    async def slow():
        lab.calls.append(1)
        if len(lab.calls) == 1:
            lab.pass_time(60)
            await asyncio.sleep(3_600)
        await asyncio.sleep(0.01)
        return "second"

    lab.tool(slow)
    run = lab.run(lab.node("a", "slow", timeout=60, retry={"max_attempts": 2}))
    assert run.status == "completed", run.failure_text()


def test_items_are_tried_again_one_by_one(lab):
    async def flaky(value):
        lab.calls.append(value)
        if lab.calls.count(value) == 1 and value == 2:
            raise ValueError("not yet")
        return value

    lab.tool(flaky)
    run = lab.run(*lab.items([1, 2, 3], "flaky", retry={"max_attempts": 2}))
    assert run.status == "completed"
    assert sorted(lab.calls) == [1, 2, 2, 3]
    (retried,) = [e.data for e in run.events if e.type == ev.NODE_RETRIED]
    assert (retried["node_id"], retried["index"]) == ("fan", 1)


def test_arguments_that_do_not_fit_are_not_tried_again(lab):
    async def typed(value: int):
        lab.calls.append(value)

    lab.tool(typed)
    run = lab.run(
        lab.node("a", args={"value": "text"}),
        lab.node("b", "typed", {"value": "{artifacts.a}"}, "a", retry={"max_attempts": 5}),
    )
    assert run.refs["b"].errors[0].startswith("ToolArgumentsInvalid: tool 'typed' refuses")
    assert lab.calls == ["text"]
    assert run.outcome().usage.calls == 1


def test_a_tool_that_turns_its_cancellation_into_an_error_is_not_tried_again(lab):
    async def turns(value=None):
        lab.calls.append("try")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ValueError("stopped") from None

    lab.tool(turns)

    async def main():
        async with lab.engine() as engine:
            retry = {"max_attempts": 5, "backoff_seconds": 30}
            run = await engine.start(lab.plan(lab.node("a", "turns", retry=retry)))
            await lab.until(lambda: lab.calls)
            run.cancel()
            await asyncio.wait_for(run.result(), 20)  # another try would come after 30
            assert run.status == "cancelled"
            assert lab.calls == ["try"]

    asyncio.run(main())


# Context variables


def test_tools_see_the_context_of_whoever_started_the_run(lab):
    async def on_loop(value=None):
        before = VARIABLE.get()
        await asyncio.sleep(0)
        return before, VARIABLE.get()

    def in_thread(value=None):
        return VARIABLE.get()

    lab.tool(on_loop)
    lab.tool(in_thread)

    async def main():
        VARIABLE.set("the caller's")
        async with lab.engine() as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("a", "on_loop"),
                    lab.node("b", "in_thread"),
                    lab.node("c", "on_loop", timeout=30),
                    *lab.items([1], "in_thread"),
                    lab.node(
                        "d",
                        "on_loop",
                        {"value": "{item}"},
                        "src",
                        for_each={"source": "{artifacts.src}"},
                    ),
                )
            )
            VARIABLE.set("changed since")
            await run
        assert lab.memory["a"] == lab.memory["c"] == ("the caller's", "the caller's")
        assert lab.memory["b"] == "the caller's"
        assert lab.memory["fan"] == ["the caller's"]
        assert lab.memory["d"] == [("the caller's", "the caller's")]

    asyncio.run(main())


@pytest.mark.parametrize("limit", [None, 30])
def test_what_a_tool_sets_does_not_leak_into_another_call(lab, limit):
    async def on_loop(value=None):
        seen = [VARIABLE.get()]
        VARIABLE.set(f"set by {value}")
        await asyncio.sleep(0)
        seen.append(VARIABLE.get())
        await asyncio.sleep(0)
        VARIABLE.set("set again")
        return seen

    def in_thread(value=None):
        seen = VARIABLE.get()
        VARIABLE.set("set")
        return seen

    lab.tool(on_loop)
    lab.tool(in_thread)
    chain = [lab.node("n0", "on_loop", {"value": 0}, timeout=limit)]
    chain += [
        lab.node(
            f"n{i}", "in_thread" if i % 2 else "on_loop", {"value": i}, f"n{i - 1}", timeout=limit
        )
        for i in range(1, 6)
    ]
    run = lab.run(*chain, *lab.items([7, 8, 9], "on_loop", timeout=limit))
    assert run.status == "completed", run.failure_text()
    for i in (0, 2, 4):
        assert lab.memory[f"n{i}"] == ["unset", f"set by {i}"]
    for i in (1, 3, 5):
        assert lab.memory[f"n{i}"] == "unset"
    assert lab.memory["fan"] == [["unset", f"set by {i}"] for i in (7, 8, 9)]
    assert VARIABLE.get() == "unset"


def test_a_token_of_a_context_can_be_reset_after_a_wait(lab):
    async def resets(value=None):
        token = VARIABLE.set("inner")
        await asyncio.sleep(0)
        VARIABLE.reset(token)
        return VARIABLE.get()

    lab.tool(resets)
    run = lab.run(
        lab.node("a", "resets"), lab.node("b", "resets", timeout=30), *lab.items([1], "resets")
    )
    assert run.status == "completed", run.failure_text()
    assert lab.memory["fan"] == ["unset"]


def test_tasks_that_a_tool_starts_have_its_context(lab):
    async def inner():
        return VARIABLE.get()

    async def outer():
        VARIABLE.set("of the tool")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(inner())
        return task.result(), await asyncio.to_thread(VARIABLE.get)

    lab.tool(outer)
    lab.run(lab.node("a", "outer"))
    assert lab.memory["a"] == ("of the tool", "of the tool")


# Words


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Odd(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (PlanbenchError("what", hint="what to do"), "PlanbenchError: what\nwhat to do"),
        (Unreadable(), "Unreadable: (its message cannot be read)"),
        (Odd(1, "m"), "Odd: m"),
        (asyncio.CancelledError(), "tool raised CancelledError"),
        (SystemExit(3), "SystemExit: 3"),
        (
            ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
            "ExceptionGroup: two (2 sub-exceptions)",
        ),
        (ExceptionGroup("g", [ExceptionGroup("h", [ValueError("a")])]), "ValueError: a"),
        (ValueError("half \ud800"), "ValueError: half ?"),
    ],
)
def test_an_error_is_named_with_its_type_and_message(error, text):
    assert error_text(error) == text
    assert error_text(error, 7) == f"[7] {text}"


@pytest.mark.parametrize("index", [None, 7, 99_999])
@pytest.mark.parametrize("length", [280, 290, 300, 301, 5_000])
def test_the_text_of_an_error_is_capped_with_its_index_counted_in(index, length):
    text = error_text(ValueError("x" * length), index)
    assert len(text) <= 300
    whole = f"{'' if index is None else f'[{index}] '}ValueError: {'x' * length}"
    assert text == (whole if len(whole) <= 300 else whole[:297] + "...")


def test_a_task_group_inside_a_tool_is_seen_through_to_the_cause(lab):
    async def grouped():
        async with asyncio.TaskGroup() as group:
            group.create_task(lab.registry.get_tool("boom")(1))

    lab.tool(grouped)
    assert lab.run(lab.node("a", "grouped")).refs["a"].errors == ["ValueError: boom 1"]


@pytest.mark.parametrize("kind", ["async", "plain", "with retries"])
def test_an_answer_made_for_agents_is_opened_and_a_refusal_fails_the_node(lab, kind):
    tries = []

    async def answer(value):
        tries.append(value)
        if value is None or (kind == "with retries" and len(tries) < 3):
            return ToolResult.failed("there is none", "not_there")
        return ToolResult.ok({"value": value})

    def plain(value):
        return asyncio.run(answer(value))

    lab.tool(plain if kind == "plain" else answer, name="ask")
    retry = {"max_attempts": 3} if kind == "with retries" else {}
    run = lab.run(
        lab.node("good", "ask", {"value": 1}, retry=retry),
        lab.node("bad", "ask", {"value": None}, "good"),
        *lab.items([2, None], "ask"),
    )
    assert run.value("good") == {"value": 1}
    assert run.refs["bad"].errors == ["ToolError: not_there: there is none"]
    assert run.value("fan") == [{"value": 2}]
    assert run.refs["fan"].errors == ["[1] ToolError: not_there: there is none"]


# Declared results


def test_a_result_that_breaks_the_declared_schema_is_the_error_of_its_call(lab):
    given = iter([{"n": "x"}, {"n": 1}, {"n": "x"}, {"n": 2}])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    lab.registry.register(
        Tool.from_schema("count", "", {"type": "object"}, lambda: next(given), schema)
    )
    lab.registry.register(
        Tool.from_schema("big", "", {"type": "object"}, lambda: {"n": ["x"] * 1000}, schema)
    )
    run = lab.run(
        lab.node("bad", "count"),
        lab.node("again", "count", after="bad"),
        max_parallel_tasks=1,
    )
    assert run.state.nodes["bad"].status == "error"
    assert "n should be an integer (got str)" in run.refs["bad"].errors[0]
    assert run.state.nodes["again"].status == "blocked"

    run = lab.run(
        lab.node("tries", "count"),
        lab.node("second", "count", retry={"max_attempts": 2}, after="tries"),
        lab.node("large", "big"),
        max_parallel_tasks=1,
    )
    assert run.state.nodes["tries"].status == "ok"
    assert run.state.nodes["second"].status == "ok"
    assert "n should be an integer (got list)" in run.refs["large"].errors[0]
