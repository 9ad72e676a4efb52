"""A run as others hold it: refs, items, events followed live and afterwards, subscribers, values."""

import asyncio
import logging

import pandas as pd
import pytest

from planbench import events as ev
from planbench.errors import ArtifactNotFound
from planbench.events import Event
from planbench.runtime import Outcome, Run

# What it is


def test_refs_are_by_node_id_and_only_of_nodes_that_have_ended(lab):
    async def main():
        hold = asyncio.Event()
        lab.tool(hold.wait, name="wait")
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", "wait", after="a")))
            assert (run.status, run.nodes_total, run.finished) == ("running", 2, False)
            await lab.until(lambda: run.nodes_done == 1)
            assert list(run.refs) == ["a"]
            hold.set()
            await run
            assert list(run.refs) == ["a", "b"]
            assert (run.status, run.nodes_done, run.finished) == ("completed", 2, True)

    asyncio.run(main())


def test_a_ref_names_keys_type_bytes_and_facets_and_never_the_body(lab):
    run = lab.run(
        lab.node(
            "a", args={"value": {"k": "secret"}}, store_as="mine", facets={"counts": {"n": "k[]"}}
        ),
        *lab.items([{"k": ["secret"]}], facets={"counts": {"n": "k[]"}}),
    )
    one, fan = run.refs["a"], run.refs["fan"]
    assert (one.keys, one.entry_type, one.status, one.item_count) == (["mine"], "json", "ok", None)
    assert (fan.keys, fan.entry_type, fan.item_count, fan.facets) == (
        ["fan.0"],
        "json",
        1,
        {"n": 1},
    )
    assert one.bytes_stored == lab.memory.info("mine").nbytes
    assert fan.bytes_stored == lab.memory.info("fan.0").nbytes
    assert "secret" not in repr(run.refs)


def test_the_output_placeholder_gives_the_ref_as_a_dict(lab):
    run = lab.run(
        lab.node("a", args={"value": 1}),
        lab.node("b", args={"value": "{nodes.a.output}"}, after="a"),
    )
    assert lab.memory["b"] == run.refs["a"].model_dump(mode="json")


def test_a_run_says_in_one_line_how_it_stands(lab):
    run = lab.run(lab.node("a"), lab.node("b", "boom"))
    assert repr(run) == f"<Run {run.run_id} of 'lab': partial, 2 of 2 nodes>"
    assert run.run_id.startswith("run_")
    assert repr(run.outcome()).startswith(
        "Outcome(status='partial', reason=None, usage=Usage(calls=2"
    )


def test_the_value_of_an_outcome_is_made_when_it_is_asked_for():
    made = []
    outcome = Outcome("completed", lambda: made.append(1) or "value", None, None)
    assert made == []
    assert (outcome.value, outcome.value, made) == ("value", "value", [1])


# Items


def test_items_is_a_table_of_how_each_item_ended_in_item_order(lab):
    lab.run(*lab.items([5], "picky", store_as="k_{item}"))
    run = lab.run(*lab.items([3, -1, 5], "picky", store_as="k_{item}"))
    table = run.items("fan")
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == ["index", "key", "status", "bytes", "seconds", "error"]
    assert list(table["index"]) == [0, 1, 2]
    assert list(table["key"]) == ["k_3", "k_-1", "k_5"]
    assert list(table["status"]) == ["ok", "failed", "reused"]
    assert list(table["bytes"]) == [8, 0, 8]
    assert table["error"].isna().tolist() == [True, False, True]
    assert table["error"][1] == "[1] ValueError: -1 is negative"
    assert (table["seconds"][:2] >= 0).all()


def test_items_of_a_node_that_makes_one_call_is_an_empty_table(lab):
    run = lab.run(lab.node("a"))
    assert run.items("a").empty
    assert "key" in run.items("a").columns


def test_items_of_an_unknown_node_names_near_ones(lab):
    run = lab.run(lab.node("listing"))
    with pytest.raises(KeyError, match="listing"):
        run.items("listings")


def test_items_can_be_had_while_the_fan_out_runs(lab):
    async def main():
        hold = asyncio.Event()

        async def work(value):
            if value:
                await hold.wait()
            return value

        lab.tool(work)
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*lab.items([0, 1, 2], "work")))
            await lab.until(lambda: run.state.nodes["fan"].done == 1)
            assert list(run.items("fan")["index"]) == [0]
            hold.set()
            await run
            assert len(run.items("fan")) == 3

    asyncio.run(main())


# Values


def test_a_run_gives_what_its_own_nodes_stored_also_when_it_was_overwritten(lab):
    first = lab.run(lab.node("a", args={"value": "first"}), *lab.items([1, 2]))
    second = lab.run(lab.node("a", args={"value": "second"}), *lab.items([3]))
    assert (first.value("a"), second.value("a")) == ("first", "second")
    assert (first.value("fan"), second.value("fan")) == ([1, 2], [3])


def test_a_node_without_a_value_says_so(lab):
    run = lab.run(lab.node("a", "boom"))
    with pytest.raises(ArtifactNotFound):
        run.value("a")


def test_nodes_of_a_run_read_its_own_versions_whatever_another_run_stores(lab):
    async def main():
        hold = asyncio.Event()
        lab.tool(hold.wait, name="wait")
        async with lab.engine() as engine:
            one = await engine.start(
                lab.plan(
                    lab.node("a", args={"value": "of one"}),
                    lab.node("w", "wait", after="a"),
                    lab.node(
                        "b", args={"value": "{artifacts.a}"}, store_as="seen", after=["a", "w"]
                    ),
                )
            )
            await lab.until(lambda: one.nodes_done == 1)
            await lab.finish(lab.node("a", args={"value": "of two"}))
            hold.set()
            await one
        assert lab.memory["a"] == "of two"
        assert lab.memory["seen"] == "of one"

    asyncio.run(main())


# Following


def test_iterating_replays_from_the_first_event_and_then_follows(lab):
    async def main():
        hold = asyncio.Event()
        lab.tool(hold.wait, name="wait")
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", "wait", after="a")))
            await lab.until(lambda: run.nodes_done == 1)
            seen = []
            async for event in run:
                seen.append(event)
                if event.data.get("node_id") == "b":
                    hold.set()
            assert seen == run.events
            assert seen[-1].type == ev.RUN_FINISHED
            assert [event async for event in run] == seen

    asyncio.run(main())


def test_two_may_follow_at_once_and_one_may_stop(lab):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*[lab.node(f"n{i}", "plain") for i in range(20)]))

            async def first():
                return await anext(aiter(run))

            async def all_of_them():
                return [event.seq async for event in run]

            one, two, three = await asyncio.gather(first(), all_of_them(), all_of_them())
            assert one.seq == 1
            assert two == three == list(range(1, len(run.events) + 1))

    asyncio.run(main())


def test_a_run_can_be_followed_on_another_loop_when_it_has_ended(lab):
    run = lab.run(lab.node("a"))

    async def follow():
        return [event async for event in run]

    assert asyncio.run(follow()) == run.events


def test_who_is_cancelled_while_following_leaves_the_run_alone(lab):
    async def main():
        hold = asyncio.Event()
        lab.tool(hold.wait, name="wait")
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("b", "wait")))

            async def follow():
                async for _ in run:
                    pass

            follower = asyncio.create_task(follow())
            await asyncio.sleep(0.01)
            follower.cancel()
            await asyncio.wait([follower])
            assert run.status == "running"
            hold.set()
            assert (await run).status == "completed"

    asyncio.run(main())


# Subscribers


def subscribed(lab, *callbacks):
    """Run a node with these subscribers; gives the run and the ways out."""

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", after="a")))
            leave.extend(run.subscribe(callback) for callback in callbacks)
            await run
            return run

    leave = []
    return asyncio.run(main()), leave


def test_a_subscriber_hears_every_event_from_then_on_in_order_on_the_loop(lab):
    heard = []

    def hear(event):
        assert asyncio.get_running_loop()
        heard.append(event)

    run, _ = subscribed(lab, hear)
    assert heard == run.events[1:]
    assert all(isinstance(event, Event) for event in heard)


def test_who_has_left_hears_no_more_and_may_leave_twice(lab):
    heard = []

    def hear(event):
        heard.append(event.type)
        if event.type == ev.NODE_FINISHED:
            leave[0]()
            leave[0]()

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", after="a")))
            leave.append(run.subscribe(hear))
            await run
            return [event.type for event in run.events]

    leave = []
    told = asyncio.run(main())
    assert heard == told[1 : told.index(ev.NODE_FINISHED) + 1]
    assert told.count(ev.NODE_FINISHED) == 2


def test_a_subscriber_that_another_one_took_out_hears_not_even_that_event(lab):
    heard = []

    def first(event):
        leave[1]()

    def second(event):
        heard.append(event)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            leave.extend([run.subscribe(first), run.subscribe(second)])
            await run

    leave = []
    asyncio.run(main())
    assert heard == []


def test_a_subscriber_may_bring_in_another_one(lab):
    heard = []

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", after="a")))

            def first(event):
                if event.type == ev.NODE_FINISHED and not heard:
                    heard.append("first")
                    run.subscribe(lambda event: heard.append(event.type))

            run.subscribe(first)
            await run
            return [event.type for event in run.events]

    told = asyncio.run(main())
    assert heard == ["first", *told[told.index(ev.NODE_FINISHED) + 1 :]]
    assert heard.count(ev.NODE_FINISHED) == 1


def test_one_callback_that_was_subscribed_twice_is_called_twice_until_it_leaves_once(lab):
    heard = []

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            run.subscribe(heard.append)
            leave = run.subscribe(heard.append)
            leave()
            leave()
            await run
            return run

    run = asyncio.run(main())
    assert heard == run.events[1:]


def test_a_subscriber_that_raises_disturbs_nobody_and_is_logged_once(lab, caplog):
    heard = []

    def broken(event):
        raise RuntimeError("the panel is gone")

    with caplog.at_level(logging.ERROR, logger="planbench"):
        run, _ = subscribed(lab, broken, lambda event: heard.append(event.seq))
    assert run.status == "completed"
    assert heard == [event.seq for event in run.events[1:]]
    (record,) = caplog.records
    assert "a subscriber of" in record.getMessage()
    assert run.run_id in record.getMessage()
    assert "the panel is gone" in str(record.exc_info[1])


def test_a_subscriber_that_is_interrupted_is_not_taken_for_broken(lab):
    def stop(event):
        raise KeyboardInterrupt

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            run.subscribe(stop)
            await run

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


# Awaiting


def test_many_may_await_one_run_and_each_gets_the_outcome(lab):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            outcomes = await asyncio.gather(run, run.result(), run)
            assert [outcome.status for outcome in outcomes] == ["completed"] * 3
            assert outcomes[0].value == run.manifest()

    asyncio.run(main())


def test_awaiting_never_raises_for_failed_nodes(lab):
    run = lab.run(lab.node("a", "boom"))
    assert run.outcome().status == "failed"
    assert run.failure_text() == "node 'a' (boom): ValueError: boom None"


def test_the_failure_text_names_node_tool_and_cause_and_counts_the_rest(lab):
    nodes = [lab.node(f"n{i}", "boom", {"value": i}) for i in range(8)]
    run = lab.run(*nodes, lab.node("behind", after="n0"), *lab.items([1, -1], "picky"))
    lines = run.failure_text().splitlines()
    assert lines[0] == "node 'n0' (boom): ValueError: boom 0"
    assert len(lines) == 7
    assert "and 4 more nodes" in lines[5]
    assert "behind" in lines[6]
    assert lab.run(lab.node("a")).failure_text() == ""


def test_the_failure_text_of_a_partial_fan_out_says_how_many_items(lab):
    run = lab.run(*lab.items([1, -1, -2], "picky"))
    assert run.failure_text() == "node 'fan' (picky) (2 of 3 items): [1] ValueError: -1 is negative"


def test_a_run_that_was_never_begun_is_pending(lab):
    run = Run(lab.plan(lab.node("a")))
    run.cancel()
    assert (run.status, run.finished, run.refs, run.events) == ("pending", False, {}, [])
