"""Plain items: those that come next are called first, and what was given is on record all the same."""

from __future__ import annotations

import asyncio
import random
from typing import Annotated

import pytest
from pydantic import AfterValidator

from planbench import events as ev
from planbench.memory import WorkingMemory
from planbench.runtime import dispatch, scheduler


def told(run, kind):
    return [e.data["index"] for e in run.events if e.type == kind]


@pytest.mark.parametrize("seed", range(5))
def test_items_are_on_record_in_the_order_in_which_they_ended(lab, seed):
    draw = random.Random(seed)
    turns = [draw.choice([0, 0, 1, 2, 5]) for _ in range(200)]
    ended = []

    async def work(value: int) -> int:
        for _ in range(turns[value]):
            await asyncio.sleep(0)
        ended.append(value)
        if value % 17 == 3:
            raise ValueError(value)
        return value

    lab.tool(work)
    run = lab.run(*lab.items(list(range(200)), "work", each={"max_concurrency": 16}))
    kinds = (ev.ITEM_FINISHED, ev.ITEM_FAILED)
    assert [e.data["index"] for e in run.events if e.type in kinds] == ended
    assert lab.memory["fan"] == [i for i in range(200) if i % 17 != 3]


def test_what_ended_before_the_run_was_cancelled_is_on_record(lab):
    async def main():
        ended = []

        async def work(value: int) -> int:
            await asyncio.sleep(0)
            ended.append(value)
            if len(ended) == 10:
                run.cancel()
            return value

        lab.tool(work)
        nodes = lab.items(list(range(1000)), "work", each={"max_concurrency": 7})
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*nodes))
            await run
        assert run.status == "cancelled"
        assert 10 <= len(ended) < 100
        assert told(run, ev.ITEM_FINISHED) == ended
        assert run.events[-1].type == ev.RUN_CANCELLED
        assert [run.value("fan")[i] for i in range(len(ended))] == sorted(ended)

    asyncio.run(main())


def test_what_ended_before_the_time_of_the_run_was_over_is_on_record(lab):
    async def work(value: int) -> int:
        await asyncio.sleep(0)
        if value == 3:
            lab.pass_time(60)
            await asyncio.Event().wait()
        return value

    lab.tool(work)
    run = lab.run(*lab.items([1, 2, 3], "work", each={"max_concurrency": 2}), execution_timeout=30)
    assert run.refs["fan"].status == "error"
    assert told(run, ev.ITEM_FINISHED) == [0, 1]
    assert [e.type for e in run.events][-2:] == [ev.NODE_FAILED, ev.RUN_FINISHED]


def test_an_item_whose_arguments_do_not_fit_is_lost_in_its_turn(lab):
    called = []

    async def work(value: int) -> int:
        called.append(value)
        await asyncio.sleep(0)
        return value

    lab.tool(work, effects="write")
    items = [0, 1, 2, 3, "x", 5, 6]
    run = lab.run(*lab.items(items, "work", each={"max_concurrency": 1, "on_item_error": "fail"}))
    assert called == [0, 1, 2, 3]
    assert told(run, ev.ITEM_FINISHED) == [0, 1, 2, 3]
    (error, reason) = run.refs["fan"].errors[1], run.refs["fan"].errors[0]
    assert reason == "stopped at the first failed item, [4]"
    assert error.startswith("[4] ToolArgumentsInvalid: ")
    assert "value" in error

    called.clear()
    run = lab.run(*lab.items(items, "work", each={"max_concurrency": 1}))
    assert called == [0, 1, 2, 3, 5, 6]
    assert run.refs["fan"].status == "partial"


def test_no_call_that_was_made_ready_is_made_once_the_node_has_failed(lab):
    called = []

    async def work(value: int) -> int:
        called.append(value)
        await asyncio.sleep(0)
        if value == 20:
            raise ValueError(value)
        return value

    lab.tool(work)
    nodes = lab.items(
        list(range(100)), "work", each={"max_concurrency": 4, "on_item_error": "fail"}
    )
    run = lab.run(*nodes)
    assert run.refs["fan"].status == "error"
    assert max(called) <= 24


def test_a_value_that_cannot_be_stored_loses_its_own_item_only(lab):
    async def work(value: int) -> object:
        await asyncio.sleep(0)
        return (i for i in "ab") if value == 2 else value

    lab.tool(work)
    run = lab.run(*lab.items([1, 2, 3], "work"))
    assert told(run, ev.ITEM_FINISHED) == [0, 2]
    assert run.refs["fan"].errors[0].startswith("[1] ArtifactRefused")


def test_two_items_of_one_key_lose_the_second_also_when_it_was_made_ready_ahead(lab):
    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return value

    lab.tool(work)
    nodes = lab.items([1, 2, 3, 2, 4], "work", store_as="k{item}", each={"max_concurrency": 1})
    run = lab.run(*nodes)
    assert run.refs["fan"].status == "partial"
    assert [e[:3] for e in run.refs["fan"].errors] == ["[3]"]
    assert lab.memory["k2"] == 2


class Odd(BaseException):
    """What only a broken validator raises."""


@pytest.mark.parametrize("kind", [Odd, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt])
def test_whatever_a_validator_raises_for_a_call_that_is_made_ready_loses_that_item(lab, kind):
    def picky(value: int) -> int:
        if value == 20:
            raise kind
        return value

    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return value

    work.__annotations__["value"] = Annotated[int, AfterValidator(picky)]
    lab.tool(work)
    run = lab.run(*lab.items(list(range(50)), "work"))
    assert run.status == "partial"
    counts = run.manifest().items["fan"]
    assert (counts.ok, counts.failed, counts.skipped) == (49, 1, 0)


def test_keys_of_calls_that_were_not_made_are_free_for_other_nodes(lab):
    async def fails(value: str) -> str:
        await asyncio.sleep(0)
        if value == "k1":
            raise ValueError(value)
        return value

    lab.tool(fails)
    each = {"on_item_error": "fail", "max_concurrency": 1}
    names = [f"k{i}" for i in range(50)]
    src, first = lab.items(names, "fails", each=each, store_as="{item}")
    second = lab.node(
        "second",
        "give",
        {"value": "{item}"},
        "src",
        for_each={"source": "{artifacts.src}", "max_concurrency": 1},
        store_as="k{index}",
    )
    run = lab.run(src, first, second, max_parallel_tasks=1)
    assert run.refs["fan"].status == "error"
    made, taken = run.manifest().items["fan"], run.manifest().items["second"]
    assert made.skipped > 40
    assert taken.failed <= made.ok + made.failed


@pytest.mark.parametrize(
    "fields",
    [{}, {"facets": {"paths": {"v": "v"}}}, {"timeout": 60}, {"retry": {"max_attempts": 2}}],
)
def test_the_loop_comes_round_whatever_else_instant_calls_have_to_do(lab, monkeypatch, fields):
    monkeypatch.setattr(scheduler, "TURN", 0)
    turns = 0

    async def main():
        nonlocal turns
        nodes = lab.items(list(range(300)), args={"value": {"v": "{item}"}}, **fields)
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*nodes))
            while not run.finished:
                turns += 1
                await asyncio.sleep(0)
            assert run.status == "completed"

    asyncio.run(main())
    assert turns > 75


def test_a_subscriber_that_raises_a_cancellation_disturbs_no_item(lab, caplog):
    async def main():
        async def work(value: int) -> int:
            await asyncio.sleep(0)
            return value

        def listen(event):
            if event.type == ev.ITEM_FINISHED:
                raise asyncio.CancelledError

        lab.tool(work)
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*lab.items([1, 2, 3], "work")))
            run.subscribe(listen)
            await run
        assert run.status == "completed"
        assert run.manifest().items["fan"].failed == 0

    asyncio.run(main())
    assert "a subscriber of" in caplog.text


@pytest.mark.parametrize("max_bytes", [None, 10_000_000])
def test_a_tool_that_cancels_its_own_task_and_ends_harms_neither_itself_nor_others(lab, max_bytes):
    lab.memory = WorkingMemory(max_bytes=max_bytes)

    async def own(value: object = None) -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return value

    lab.tool(own)
    nodes = lab.items(list(range(20)), "own")
    others = [lab.node(f"n{i}", "own", {"value": i}) for i in range(6)]
    run = lab.run(*nodes, *others, max_parallel_tasks=2)
    assert run.status == "completed"
    counts = run.manifest().items["fan"]
    assert (counts.ok, counts.failed) == (20, 0)
    assert len(told(run, ev.ITEM_FINISHED)) == 20


def test_threads_that_cannot_be_started_take_no_place_for_ever(monkeypatch):
    real, refused = dispatch.lend, []

    def lend(work, name):
        if len(refused) < 2:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        real(work, name)

    monkeypatch.setattr(dispatch, "lend", lend)

    async def main():
        threads = dispatch.ToolThreads(2)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="new thread"):
                await threads.call(int)
        async with asyncio.timeout(60):
            assert await asyncio.gather(*(threads.call(lambda: 1) for _ in range(5))) == [1] * 5
        threads.close()

    asyncio.run(main())
