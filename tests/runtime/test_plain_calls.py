"""Plain items: those that come next are called first, and what was given is on record all the same."""

from __future__ import annotations

import asyncio
import random

import pytest

from planbench import events as ev


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
