"""Scenarios: who cancels when, what was at work then, and what is left (nothing)."""

import asyncio
import contextlib
import signal
import threading
import time

import pytest

from planbench import events as ev
from planbench.runtime import dispatch, idle_threads, replay, scheduler


def others():
    return asyncio.all_tasks() - {asyncio.current_task()}


def recorded_cancelled(run, *nodes):
    """The run is on record as cancelled, and so is each of these nodes."""
    assert run.status == "cancelled"
    assert run.events[-1].type == ev.RUN_CANCELLED
    assert [e.type for e in run.events].count(ev.RUN_CANCELLED) == 1
    assert ev.RUN_FINISHED not in [e.type for e in run.events]
    assert replay(run.events).status == "cancelled"
    for node in nodes:
        assert run.state.nodes[node].status == "cancelled"
        assert run.refs[node].status == "error"
        assert run.refs[node].errors[-1].startswith("cancelled")


@pytest.fixture
def sleeper(lab):
    """Two tools that wait for ever, on the loop and in a thread, and say when they wait."""

    class Sleeper:
        waiting = 0
        ended = 0

    async def asleep(value=None):
        Sleeper.waiting += 1
        try:
            await asyncio.sleep(3_600)
        finally:
            Sleeper.ended += 1

    lab.tool(asleep)
    return Sleeper


@pytest.fixture
def bsleep(lab, gate):
    def bsleep(value=None):
        lab.calls.append("begun")
        gate.wait(30)
        lab.calls.append("ended")
        return "late"

    lab.tool(bsleep)


# When


def test_cancel_before_first_step(lab):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            run.cancel()
            outcome = await run
            assert outcome.status == "cancelled"
            recorded_cancelled(run)
            assert (await engine.store.runs())[0].status == "cancelled"
        assert not others()

    asyncio.run(main())


def test_root_task_cancelled_before_first_step(lab):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            run.root.cancel()
            outcome = await run
            assert outcome.status == "cancelled"
            recorded_cancelled(run)
            assert [event.seq async for event in run] == list(range(1, len(run.events) + 1))
        assert not others()
        assert lab.calls == []

    asyncio.run(main())


def test_loop_closed_before_first_step(lab):
    async def main():
        return await lab.engine().start(lab.plan(lab.node("a")))

    run = asyncio.run(main())
    recorded_cancelled(run)


def test_cancel_while_node_waits(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("a"), lab.node("b", "asleep", after="a"), lab.node("c", after="b")
                )
            )
            await lab.until(lambda: sleeper.waiting)
            run.cancel()
            outcome = await run
            assert outcome.status == "cancelled"
            assert outcome.value.status == "cancelled"
            recorded_cancelled(run, "b")
            assert run.state.nodes["b"].reason == "cancelled"
            assert run.state.nodes["c"].status == "waiting"
            assert run.refs["a"].status == "ok"
            assert "c" not in run.refs
            assert sleeper.ended == 1
            assert not others()

    asyncio.run(main())


def test_cancel_while_fan_out_runs(lab):
    note = lab.note

    async def work(value):
        if value >= 3:
            await asyncio.sleep(3_600)
        note(value)
        return value

    lab.tool(work)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*lab.items(list(range(20)), "work")))
            await lab.until(lambda: len(lab.calls) == 3)
            await asyncio.sleep(0.01)
            run.cancel()
            await run
            recorded_cancelled(run, "fan")
            assert run.state.nodes["fan"].reason == "cancelled after 3 of 20 items"
            assert run.manifest().items["fan"].model_dump() == {
                "ok": 3, "failed": 0, "skipped": 17, "reused": 0,
            }  # fmt: skip
            assert lab.memory["fan"] == [0, 1, 2]
            assert not others()
        again = await lab.finish(*lab.items([0, 1, 2], "work"))
        assert again.status == "completed"
        assert again.manifest().items["fan"].reused == 3

    asyncio.run(main())


def test_cancel_while_tools_never_wait(lab):
    async def main():
        async with lab.engine() as engine:
            items = list(range(50_000))
            run = await engine.start(lab.plan(*lab.items(items, each={"max_items": 100_000})))
            await lab.until(lambda: lab.calls)
            run.cancel()
            await run
            recorded_cancelled(run, "fan")
            assert 0 < len(lab.calls) < 50_000
            assert not others()

    asyncio.run(main())


def test_cancel_while_retry_backoff_waits(lab):
    async def main():
        async with lab.engine() as engine:
            retry = {"max_attempts": 5, "backoff_seconds": 30}
            run = await engine.start(lab.plan(lab.node("a", "boom", retry=retry)))
            await lab.until(lambda: lab.calls)
            await asyncio.sleep(0)
            run.cancel()
            await run
            recorded_cancelled(run, "a")
            assert lab.calls == [None]
            assert not others()

    asyncio.run(main())


def test_cancel_while_thread_backoff_waits_names_no_thread(lab):
    def bad():
        lab.calls.append("called")
        raise ValueError("no")

    lab.tool(bad)

    async def main():
        async with lab.engine() as engine:
            retry = {"max_attempts": 5, "backoff_seconds": 30}
            run = await engine.start(lab.plan(lab.node("a", "bad", retry=retry)))
            await lab.until(lambda: any(e.type == ev.NODE_RETRIED for e in run.events))
            run.cancel()
            await run
            assert run.state.nodes["a"].reason == "cancelled"

    asyncio.run(main())


def test_cancel_while_retried_tool_waits_makes_no_other_try(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(
                lab.plan(lab.node("a", "asleep", retry={"max_attempts": 5}, timeout=60))
            )
            await lab.until(lambda: sleeper.waiting)
            run.cancel()
            await run
            recorded_cancelled(run, "a")
            assert sleeper.waiting == sleeper.ended == 1
            assert not others()

    asyncio.run(main())


def test_cancel_during_off_loop_measure(lab, monkeypatch, gate):
    begun = threading.Event()

    def slow(value, budget=None):
        if budget is None and threading.current_thread() is not threading.main_thread():
            begun.set()
            gate.wait(30)
            return 8
        return None if value == "large" else 8

    monkeypatch.setattr(scheduler, "measure", slow)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", args={"value": "large"})))
            await lab.until(begun.is_set)
            run.cancel()
            await run
            recorded_cancelled(run, "a")
            assert run.state.nodes["a"].reason == "cancelled"
            assert "a" not in lab.memory
            assert not others()

    asyncio.run(main())


def test_cancel_after_the_end_changes_nothing(lab):
    async def main():
        run = await lab.finish(lab.node("a"))
        events = list(run.events)
        run.cancel()
        await asyncio.sleep(0)
        assert (await run).status == "completed"
        assert run.events == events

    asyncio.run(main())


def test_cancel_after_the_loop_is_gone_changes_nothing(lab):
    run = lab.run(lab.node("a"))
    run.cancel()
    assert run.status == "completed"


# Who


def test_cancel_twice(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            await lab.until(lambda: sleeper.waiting)
            run.cancel()
            run.cancel()
            await asyncio.sleep(0)
            run.cancel()
            await run
            run.cancel()
            recorded_cancelled(run, "a")
            assert not others()

    asyncio.run(main())


def test_cancel_twice_while_tool_cleans_up(lab):
    begun = asyncio.Event()

    async def tidy():
        begun.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            lab.calls.append("cleaning")
            try:
                await asyncio.sleep(3_600)
            finally:
                lab.calls.append("cut short")

    lab.tool(tidy)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "tidy")))
            await begun.wait()
            run.cancel()
            await lab.until(lambda: lab.calls)
            run.cancel()
            await asyncio.wait_for(run.result(), 60)
            recorded_cancelled(run, "a")
            assert lab.calls == ["cleaning", "cut short"]
            assert not others()

    asyncio.run(main())


def test_cancel_lets_tool_clean_up(lab):
    begun = asyncio.Event()

    async def tidy():
        begun.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0.02)
            lab.calls.append("cleaned up")

    lab.tool(tidy)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "tidy")))
            await begun.wait()
            run.cancel()
            await run
            recorded_cancelled(run, "a")
            assert lab.calls == ["cleaned up"]

    asyncio.run(main())


def test_cancel_from_another_thread(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            await lab.until(lambda: sleeper.waiting)
            thread = threading.Thread(target=run.cancel)
            thread.start()
            outcome = await asyncio.wait_for(run.result(), 60)
            thread.join()
            assert outcome.status == "cancelled"
            recorded_cancelled(run, "a")
            assert not others()

    asyncio.run(main())


def test_cancel_from_signal_handler_wakes_a_sleeping_loop(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            await lab.until(lambda: sleeper.waiting)
            before = signal.signal(signal.SIGALRM, lambda *_: run.cancel())
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                await run  # the loop has nothing else to wake up for
            finally:
                signal.signal(signal.SIGALRM, before)
            recorded_cancelled(run, "a")

    asyncio.run(main())


def test_cancel_from_subscriber(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", "asleep", after="a")))
            run.subscribe(lambda event: run.cancel() if event.type == ev.NODE_FINISHED else None)
            await run
            assert run.status == "cancelled"
            assert run.refs["a"].status == "ok"
            assert not others()

    asyncio.run(main())


def test_cancel_from_inside_a_tool(lab):
    runs = []

    async def stop():
        runs[0].cancel()
        await asyncio.sleep(3_600)

    lab.tool(stop)

    async def main():
        async with lab.engine() as engine:
            runs.append(await engine.start(lab.plan(lab.node("a", "stop"))))
            await runs[0]
            recorded_cancelled(runs[0], "a")
            assert not others()

    asyncio.run(main())


def test_cancelling_the_awaiting_task_cancels_the_run(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            waiter = asyncio.create_task(run.result())
            await lab.until(lambda: sleeper.waiting)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            recorded_cancelled(run, "a")  # recorded before the waiter went on
            assert sleeper.ended == 1
            assert not others()

    asyncio.run(main())


def test_cancelling_one_of_two_awaiting_tasks_gives_the_other_the_outcome(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            one, two = asyncio.create_task(run.result()), asyncio.create_task(run.result())
            await lab.until(lambda: sleeper.waiting)
            one.cancel()
            assert (await two).status == "cancelled"
            with pytest.raises(asyncio.CancelledError):
                await one

    asyncio.run(main())


def test_timeout_around_the_run_cancels_it(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            await lab.until(lambda: sleeper.waiting)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await run
            recorded_cancelled(run, "a")
            assert not others()

    asyncio.run(main())


def test_leaving_engine_cancels_and_awaits_live_runs(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            runs = [await engine.start(lab.plan(lab.node("a", "asleep"))) for _ in range(3)]
            await lab.until(lambda: sleeper.waiting == 3)
        for run in runs:
            recorded_cancelled(run, "a")
        assert sleeper.ended == 3
        assert not others()

    asyncio.run(main())


def test_leaving_engine_by_an_error_cancels_live_runs(lab, sleeper):
    async def main():
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - how it is left is the matter
            async with lab.engine() as engine:
                run = await engine.start(lab.plan(lab.node("a", "asleep")))
                await lab.until(lambda: sleeper.waiting)
                raise ZeroDivisionError
        recorded_cancelled(run, "a")
        assert not others()

    asyncio.run(main())


def test_cancelling_one_run_leaves_the_other_alone(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            one = await engine.start(lab.plan(lab.node("a", "asleep")))
            two = await engine.start(lab.plan(lab.node("a", "asleep")))
            await lab.until(lambda: sleeper.waiting == 2)
            one.cancel()
            await one
            assert two.status == "running"
            assert sleeper.ended == 1

    asyncio.run(main())


def test_result_of_a_cancelled_run_returns_at_once_and_again(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            run.cancel()
            assert (await run.result()).status == "cancelled"
            assert (await run.result()).status == "cancelled"
        assert (await run).status == "cancelled"

    asyncio.run(main())


# Tools that do not behave


def test_tool_that_swallows_cancelled_error(lab):
    begun = asyncio.Event()

    async def swallow():
        begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            return "swallowed"

    lab.tool(swallow)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "swallow"), lab.node("b", after="a")))
            await begun.wait()
            run.cancel()
            outcome = await run
            assert outcome.status == "cancelled"
            recorded_cancelled(run)
            assert run.state.nodes["a"].status == "ok"  # it did end, and so it is on record
            assert run.state.nodes["b"].status != "ok"
            assert lab.calls == []
            assert not others()

    asyncio.run(main())


def test_tool_that_swallows_cancelled_error_and_gives_something_large(lab, monkeypatch):
    monkeypatch.setattr(scheduler, "measure", lambda value, budget=20_000: None if budget else 8)

    begun = asyncio.Event()

    async def swallow():
        begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            return "swallowed"

    lab.tool(swallow)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(
                lab.plan(lab.node("a", "swallow"), *[lab.node(f"b{i}") for i in range(3)])
            )
            await begun.wait()
            run.cancel()
            await run
            assert run.status == "cancelled"
            assert run.state.nodes["a"].errors == ()
            assert not others()

    asyncio.run(main())


def test_item_that_swallows_cancelled_error_is_the_last_one(lab):
    async def swallow(value):
        lab.calls.append(value)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3_600)
        return value

    lab.tool(swallow)

    async def main():
        async with lab.engine() as engine:
            nodes = lab.items([0, 1, 2, 3], "swallow", each={"max_concurrency": 2})
            run = await engine.start(lab.plan(*nodes))
            await lab.until(lambda: len(lab.calls) == 2)
            run.cancel()
            await run
            recorded_cancelled(run, "fan")
            assert lab.calls == [0, 1]
            assert not others()

    asyncio.run(main())


def test_tool_that_swallows_again_and_again_is_given_up(lab, monkeypatch):
    monkeypatch.setattr(scheduler, "GRACE", 0.02)
    begun = asyncio.Event()

    async def stubborn():
        begun.set()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3_600)

    lab.tool(stubborn)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "stubborn")))
            await begun.wait()
            run.cancel()
            await asyncio.wait_for(run.result(), 60)
            recorded_cancelled(run, "a")
            assert not others()

    asyncio.run(main())


def test_tool_that_swallows_again_and_again_does_not_outlive_the_execution_timeout(
    lab, monkeypatch
):
    monkeypatch.setattr(scheduler, "GRACE", 0.02)

    async def stubborn():
        lab.pass_time(60)
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3_600)

    lab.tool(stubborn)
    run = lab.run(lab.node("a", "stubborn"), execution_timeout=60)
    assert run.status == "failed"
    assert run.refs["a"].errors[0].startswith("TimeoutError")


def test_tool_that_raises_cancelled_error_fails_its_node_and_the_run_goes_on(lab):
    async def quits():
        raise asyncio.CancelledError("from the tool")

    async def later():
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    def thread():
        raise asyncio.CancelledError

    for tool in (quits, later, thread):
        lab.tool(tool)
    run = lab.run(
        *[lab.node(name, name) for name in ("quits", "later", "thread")],
        lab.node("limited", "later", timeout=30, retry={"max_attempts": 3}),
        lab.node("good"),
        lab.node("behind", after="later"),
    )
    assert run.status == "partial"
    for name in ("quits", "later", "thread", "limited"):
        assert run.refs[name].errors == ["tool raised CancelledError"], name
    assert run.state.nodes["good"].status == "ok"
    assert run.state.nodes["behind"].status == "blocked"


def test_item_that_raises_cancelled_error_fails_alone(lab):
    async def picky(value):
        if value == 1:
            await asyncio.sleep(0)
            raise asyncio.CancelledError
        if value == 2:
            raise asyncio.CancelledError
        return value

    lab.tool(picky)
    run = lab.run(*lab.items([0, 1, 2, 3], "picky"))
    assert run.status == "partial"
    assert sorted(run.refs["fan"].errors) == [
        "[1] tool raised CancelledError",
        "[2] tool raised CancelledError",
    ]
    assert lab.memory["fan"] == [0, 3]


@pytest.mark.parametrize("waits", [True, False])
def test_tool_that_cancels_the_task_it_runs_in_fails_alone_or_not_at_all(lab, waits):
    async def own(value=None):
        asyncio.current_task().cancel()
        if waits:
            await asyncio.sleep(0)
        return "fine"

    lab.tool(own)
    run = lab.run(
        lab.node("a", "own"),
        *[lab.node(f"n{i}", args={"value": i}) for i in range(30)],
        lab.node("end", args={"value": "end"}, after=[f"n{i}" for i in range(30)]),
        *lab.items([1, 2, 3], "own"),
        max_parallel_tasks=2,
    )
    wanted = ("error", "error", 0) if waits else ("ok", "ok", 3)
    fan = run.state.nodes["fan"]
    assert (run.state.nodes["a"].status, fan.status, fan.done) == wanted
    assert lab.calls[-1:] == ["end"] or "end" in lab.calls
    assert run.nodes_done == run.nodes_total


def test_timeouts_inside_tools_are_their_own(lab):
    async def limited(value=None):
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            return "caught"

    async def waits_for(value=None):
        await asyncio.wait_for(asyncio.sleep(30), 0.01)

    lab.tool(limited)
    lab.tool(waits_for)
    run = lab.run(
        lab.node("a", "limited"),
        lab.node("b", "waits_for", timeout=30),
        *lab.items([1, 2], "limited"),
    )
    assert lab.memory["a"] == "caught"
    assert lab.memory["fan"] == ["caught", "caught"]
    assert run.refs["b"].errors == ["TimeoutError"]


def test_keyboard_interrupt_that_an_async_tool_raises_is_the_error_of_its_node_and_stops_no_loop(
    lab,
):
    async def interrupted():
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    async def at_once():
        raise KeyboardInterrupt

    lab.tool(interrupted)
    lab.tool(at_once)
    run = lab.run(
        lab.node("a", "interrupted"),
        lab.node("b", "at_once"),
        *lab.items([1, 2], "at_once", args={}),
    )
    assert run.status == "partial"
    for node in ("a", "b"):
        assert run.refs[node].errors == ["KeyboardInterrupt"]
    assert run.refs["fan"].errors[1:] == ["[0] KeyboardInterrupt", "[1] KeyboardInterrupt"]


def test_keyboard_interrupt_raised_in_a_thread_is_the_error_of_its_node(lab):
    def interrupted():
        raise KeyboardInterrupt

    lab.tool(interrupted)
    run = lab.run(lab.node("a", "interrupted"))
    assert run.status == "failed"
    assert "KeyboardInterrupt" in run.refs["a"].errors[0]


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit()])
def test_exits_of_tools_are_errors_of_their_nodes(lab, error):
    async def leaves():
        raise error

    async def later():
        await asyncio.sleep(0)
        raise error

    def thread():
        raise error

    for tool in (leaves, later, thread):
        lab.tool(tool)
    run = lab.run(*[lab.node(name, name) for name in ("leaves", "later", "thread")])
    assert run.status == "failed"
    for name in ("leaves", "later", "thread"):
        assert type(error).__name__ in run.refs[name].errors[0]


# Threads


def test_thread_that_outlives_the_run_is_named_and_its_late_result_never_lands(lab, bsleep, gate):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("c", "bsleep"), lab.node("d", after="c")))
            await lab.until(lambda: lab.calls)
            run.cancel()
            outcome = await asyncio.wait_for(run.result(), 20)  # the thread waits for longer
            assert outcome.status == "cancelled"
            recorded_cancelled(run, "c")
            assert run.state.nodes["c"].reason == "cancelled; abandoned, thread still running"
            events = list(run.events)
            gate.set()
            await lab.until(lambda: "ended" in lab.calls)
            await asyncio.sleep(0.02)
            assert run.events == events
            assert "c" not in lab.memory
            assert not others()

    asyncio.run(main())


def test_threads_of_a_fan_out_that_outlive_the_run_are_counted(lab, bsleep, gate):
    async def main():
        async with lab.engine() as engine:
            nodes = lab.items(list(range(9)), "bsleep", each={"max_concurrency": 3})
            run = await engine.start(lab.plan(*nodes))
            await lab.until(lambda: len(lab.calls) == 3)
            run.cancel()
            await run
            assert run.state.nodes["fan"].reason == (
                "cancelled after 0 of 9 items; abandoned, 3 threads still running"
            )
            gate.set()
            await lab.until(lambda: lab.calls.count("ended") == 3)
            await asyncio.sleep(0.02)
            assert lab.calls.count("begun") == 3  # what had not begun never does
            assert lab.memory["fan"] == []

    asyncio.run(main())


def test_node_that_was_claimed_and_not_begun_has_no_thread(lab, gate):
    async def hold(value=None):
        lab.calls.append("holding")
        gate.wait(1)  # holds the loop: the next node is claimed and cannot begin

    def plain(value=None):
        lab.calls.append("thread")

    lab.tool(hold)
    lab.tool(plain)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "hold"), lab.node("b", "plain")))
            run.subscribe(lambda _: None)
            asyncio.get_running_loop().call_later(0, run.cancel)
            threading.Timer(0.05, gate.set).start()
            await run
            state = run.state.nodes["b"]
            if state.status == "cancelled" and "thread" not in lab.calls:
                assert state.reason == "cancelled"

    asyncio.run(main())


def test_call_that_timed_out_frees_its_place_though_its_thread_goes_on(lab, gate):
    def stuck():
        lab.pass_time(60)
        gate.wait(30)

    lab.tool(stuck)
    run = lab.run(
        *[lab.node(f"stuck{i}", "stuck", timeout=60) for i in range(3)],
        *[
            lab.node(f"n{i}", "plain", {"value": i}, [f"stuck{j}" for j in range(0)])
            for i in range(5)
        ],
        max_parallel_tasks=1,
    )
    assert run.status == "partial"
    for i in range(3):
        assert run.refs[f"stuck{i}"].errors == [
            "TimeoutError: over the limit of 60 s; still running in a thread, its result is dropped"
        ]
    assert lab.calls == [0, 1, 2, 3, 4]
    gate.set()


def test_late_thread_result_never_overwrites_the_rerun(lab, gate):
    turn = []

    def work():
        turn.append(len(turn))
        if len(turn) == 1:
            lab.pass_time(60)
            gate.wait(30)
            return "late"
        return "fresh"

    lab.tool(work)

    async def main():
        first = await lab.finish(lab.node("a", "work", timeout=60), lab.node("b", after="a"))
        assert first.refs["a"].status == "error"
        assert first.state.nodes["b"].status == "blocked"
        second = await lab.finish(lab.node("a", "work"))
        gate.set()
        await asyncio.sleep(0.05)
        assert lab.memory["a"] == "fresh"
        assert lab.memory.info("a").version == 1
        assert second.refs["a"].status == "ok"
        assert first.refs["a"].status == "error"

    asyncio.run(main())


def test_threads_that_are_free_end_soon_after_the_run(lab, monkeypatch):
    monkeypatch.setattr(idle_threads, "PATIENCE", 0.01)
    monkeypatch.setattr(idle_threads, "_idle", [])
    before = set(threading.enumerate())
    lab.run(*[lab.node(f"n{i}", "plain") for i in range(20)])
    deadline = time.monotonic() + 60
    while set(threading.enumerate()) - before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_pool_gives_every_place_back_whatever_was_given_up(lab, gate):
    def hold():
        lab.calls.append("begun")
        gate.wait(30)

    async def main():
        pool = dispatch.ToolThreads(2)
        held = [asyncio.create_task(pool.call(hold)) for _ in range(2)]
        await lab.until(lambda: len(lab.calls) == 2)
        for task in held:
            task.cancel()
        await asyncio.wait(held)
        # as many as the limit run at once beside those that were given up
        both = threading.Barrier(2)
        await asyncio.wait_for(
            asyncio.gather(pool.call(lambda: both.wait(20)), pool.call(lambda: both.wait(20))), 20
        )
        assert pool.abandoned == 2
        gate.set()
        await lab.until(lambda: pool.abandoned == 0)
        await asyncio.wait_for(
            asyncio.gather(pool.call(lambda: both.wait(20)), pool.call(lambda: both.wait(20))), 20
        )
        pool.close()

    asyncio.run(main())


def test_pool_never_begins_a_call_that_was_given_up_in_the_queue(gate):
    async def main():
        pool = dispatch.ToolThreads(1)
        called = []
        first = asyncio.create_task(pool.call(lambda: gate.wait(30)))
        second = asyncio.create_task(pool.call(lambda: called.append("second")))
        await asyncio.sleep(0.02)
        second.cancel()
        await asyncio.wait([second])
        assert pool.abandoned == 0
        gate.set()
        await first
        assert await asyncio.wait_for(pool.call(lambda: "third"), 20) == "third"
        assert called == []
        pool.close()

    asyncio.run(main())


# What is on record


def test_outcome_is_recorded_before_result_returns(lab, sleeper):
    async def main():
        seen = []
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            run.subscribe(lambda event: seen.append(event.type))
            await lab.until(lambda: sleeper.waiting)
            run.cancel()
            await run
            assert seen[-1] == ev.RUN_CANCELLED
            stored = await engine.store.read(run.run_id)
            assert stored == run.events
            assert stored[-1].data["cancelled"] == {"a": "cancelled"}

    asyncio.run(main())


def test_reason_of_a_cancelled_node_stands_first_among_its_errors(lab):
    async def work(value):
        if value == 99:
            await asyncio.sleep(3_600)
        raise ValueError("no")

    lab.tool(work)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*lab.items([*range(30), 99], "work")))
            await lab.until(lambda: run.state.nodes["fan"].failed == 30)
            run.cancel()
            await run
            errors = run.refs["fan"].errors
            assert len(errors) == 20
            assert errors[0] == "cancelled after 30 of 31 items"

    asyncio.run(main())


def test_run_that_was_cancelled_can_be_run_again_in_the_same_engine(lab, sleeper):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "asleep")))
            run.cancel()
            await run
            again = await engine.start(lab.plan(lab.node("a")))
            assert (await again).status == "completed"

    asyncio.run(main())
