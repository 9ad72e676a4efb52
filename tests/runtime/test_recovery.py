"""Continuing runs: what is on record is not called again, what failed or never ran is."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import MemoryStore
from planbench.errors import PlanInvalid, RunRefused
from planbench.runtime import replay


class World:
    """What the tools of a test fail at, outside of their code."""

    def __init__(self):
        self.broken = set()
        self.gate = None


@pytest.fixture
def world(lab):
    found = World()

    @lab.tool
    async def shaky(value=None):
        lab.note(value)
        if value in found.broken:
            raise ValueError(f"{value} is broken")
        if found.gate is not None:
            await found.gate.wait()
        return value

    return found


def same(run):
    """What is shown of a run is what its record says."""
    assert replay(run.events).manifest() == run.manifest()
    assert [event.seq for event in run.events] == sorted({event.seq for event in run.events})


async def refused(work, code):
    with pytest.raises(RunRefused) as caught:
        await work
    assert caught.value.code == code
    return caught.value


def test_what_failed_and_what_was_behind_it_run_and_nothing_else(lab, world):
    world.broken.add("b")

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("a", "shaky", {"value": "a"}),
                    lab.node("b", "shaky", {"value": "b"}, "a"),
                    lab.node("c", "shaky", {"value": "{artifacts.b}!"}, "b"),
                )
            )
            first = await run
            assert first.status == "partial"
            assert first.value.resumable
            version = run.bodies["a"].version
            world.broken.clear()
            again = await engine.resume(run.run_id)
            assert again.run_id == run.run_id
            second = await again
            assert second.status == "completed"
            assert lab.calls == ["a", "b", "b", "b!"]
            assert again.bodies["a"].version == version
            assert again.value("c") == "b!"
            assert second.value.nodes_failed == 0
            assert not second.value.resumable
            assert second.value.reruns == []
            same(again)
            await refused(engine.resume(run.run_id), "run_not_resumable")

    asyncio.run(main())


def test_only_the_failed_items_of_a_fan_out_are_called_again(lab, world):
    world.broken = {2, 5}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    *lab.items(
                        list(range(8)),
                        "shaky",
                        each={"max_concurrency": 1},
                        facets={"paths": {}, "counts": {}},
                    ),
                    lab.node("all", "give", {"value": "{artifacts.fan}"}, "fan"),
                    lab.node("apart", "give", {"value": "apart"}, "fan"),
                )
            )
            assert (await run).status == "partial"
            assert lab.calls == [*range(8), [0, 1, 3, 4, 6, 7], "apart"]
            lab.calls.clear()
            world.broken = {5}
            again = await engine.resume(run.run_id)
            outcome = await again
            # the reader gets what has come in; who reads nothing of it stands
            assert lab.calls == [2, 5, [0, 1, 2, 3, 4, 6, 7]]
            assert outcome.value.reruns == ["all"]
            assert outcome.value.items["fan"].ok == 7
            assert again.value("fan") == [0, 1, 2, 3, 4, 6, 7]
            assert lab.memory.get("fan") == [0, 1, 2, 3, 4, 6, 7]
            same(again)

    asyncio.run(main())


def test_who_reads_a_fan_out_stands_when_its_failed_items_fail_again(lab, world):
    world.broken = {1}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    *lab.items([0, 1, 2], "shaky"),
                    lab.node("all", "give", {"value": "{artifacts.fan}"}, "fan"),
                    lab.node("then", "give", {"value": "{artifacts.all}"}, "all"),
                )
            )
            await run
            lab.calls.clear()
            again = await engine.resume(run.run_id)
            outcome = await again
            assert lab.calls == [1]
            assert outcome.status == "partial"
            assert again.value("then") == [0, 2]
            same(again)

    asyncio.run(main())


def test_a_run_that_was_cancelled_in_a_fan_out_goes_on_with_the_missing_items(lab, world):
    async def main():
        async with lab.engine(store="memory") as engine:
            world.gate = asyncio.Event()
            world.gate.set()
            nodes = lab.items(list(range(50)), "shaky", each={"max_concurrency": 2})
            run = await engine.start(lab.plan(*nodes))

            def stop(event):
                if event.type == ev.ITEM_FINISHED and event.data["index"] == 20:
                    world.gate.clear()
                    run.cancel()

            run.subscribe(stop)
            assert (await run).status == "cancelled"
            done = {e.data["index"] for e in run.events if e.type == ev.ITEM_FINISHED}
            assert 20 <= len(done) < 50
            lab.calls.clear()
            world.gate.set()
            again = await engine.resume(run.run_id)
            assert (await again).status == "completed"
            assert sorted(lab.calls) == sorted(set(range(50)) - done)
            assert again.value("fan") == list(range(50))
            same(again)

    asyncio.run(main())


def test_a_fan_out_whose_items_are_all_on_record_is_closed_without_a_call(lab, world):
    world.broken = {"end"}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    *lab.items([1, 2, 3], "shaky"),
                    lab.node("end", "shaky", {"value": "end"}, "fan"),
                )
            )
            await run
            lab.calls.clear()
            world.broken.clear()
            again = await engine.resume(run.run_id)
            assert (await again).status == "completed"
            assert lab.calls == ["end"]
            assert again.value("fan") == [1, 2, 3]

    asyncio.run(main())


def test_skipped_nodes_stay_skipped_and_so_do_their_readers(lab, world):
    world.broken = {"bad"}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("a", "give", {"value": 1}),
                    lab.node("no", "give", {"value": 1}, "a", when="ctx.artifacts.a.count > 5"),
                    lab.node("bad", "shaky", {"value": "bad"}, "no"),
                    lab.node("reads", "give", {"value": "{artifacts.no}"}, ["no", "bad"]),
                )
            )
            await run
            world.broken.clear()
            lab.calls.clear()
            again = await engine.resume(run.run_id)
            outcome = await again
            assert lab.calls == ["bad"]
            assert again.refs["no"].status == "skipped"
            assert "was skipped" in again.refs["reads"].errors[0]
            assert outcome.status == "completed"
            same(again)

    asyncio.run(main())


def test_a_changed_tool_runs_its_nodes_again_and_what_reads_them(lab, world):
    world.broken = {"bad"}

    async def main():
        async with lab.engine(store="memory") as engine:

            @lab.tool
            async def one():
                lab.note("one")
                return 1

            run = await engine.start(
                lab.plan(
                    lab.node("a", "one"),
                    lab.node("reads", "give", {"value": "{artifacts.a}"}, "a"),
                    lab.node("after", "give", {"value": "after"}, "a"),
                    lab.node("bad", "shaky", {"value": "bad"}),
                )
            )
            await run
            lab.calls.clear()
            world.broken.clear()

            @lab.tool(name="one")
            async def other():
                lab.note("one")
                return 11

            again = await engine.resume(run.run_id)
            outcome = await again
            assert sorted(map(str, lab.calls)) == ["11", "bad", "one"]
            assert outcome.value.reruns == ["a", "reads"]
            assert again.value("reads") == 11
            same(again)

    asyncio.run(main())


def test_a_live_run_is_busy_for_this_engine_and_for_any_other(lab, world):
    async def main():
        store = MemoryStore()
        world.gate = asyncio.Event()
        async with lab.engine(store=store) as engine, lab.engine(store=store) as other:
            run = await engine.start(lab.plan(lab.node("a", "shaky", {"value": 1})))
            await lab.until(lambda: lab.calls)
            await refused(engine.resume(run.run_id), "run_busy")
            await refused(other.resume(run.run_id), "run_busy")
            await refused(other.fork(run.run_id, run.plan), "run_busy")
            world.gate.set()
            await run

    asyncio.run(main())


def test_of_two_that_resume_at_once_one_wins(lab, world):
    world.broken = {1}

    async def main():
        store = MemoryStore()
        async with lab.engine(store=store) as engine, lab.engine(store=store) as other:
            run = await engine.start(lab.plan(lab.node("a", "shaky", {"value": 1})))
            await run
            found = await asyncio.gather(
                engine.resume(run.run_id), other.resume(run.run_id), return_exceptions=True
            )
            lost = [one for one in found if isinstance(one, RunRefused)]
            assert [one.code for one in lost] == ["run_busy"]

    asyncio.run(main())


def test_a_run_that_nobody_has_on_record_is_missing_or_expired(lab):
    async def main():
        async with lab.engine(store="memory") as engine:
            await refused(engine.resume("run_nothing"), "missing_or_expired")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("before", "now", "refuses"),
    [
        (None, ["shaky"], True),
        (["shaky", "give"], ["shaky"], True),
        (["shaky"], ["shaky", "give"], False),
        (["shaky"], None, False),
    ],
)
def test_a_stricter_policy_refuses_and_a_wider_one_does_not(lab, world, before, now, refuses):
    world.broken = {1}

    async def main():
        store = MemoryStore()
        async with lab.engine(store=store, allowed_tools=before) as engine:
            run = await engine.start(lab.plan(lab.node("a", "shaky", {"value": 1})))
            await run
        async with lab.engine(store=store, allowed_tools=now) as engine:
            if refuses:
                await refused(engine.resume(run.run_id), "policy_mismatch")
            else:
                await (await engine.resume(run.run_id))

    asyncio.run(main())


def test_a_run_of_another_process_whose_values_were_in_memory_is_refused(lab, world):
    world.broken = {1}

    async def main():
        from planbench.memory import WorkingMemory

        store = MemoryStore()
        async with lab.engine(store=store) as engine:
            run = await engine.start(lab.plan(lab.node("a", "shaky", {"value": 1})))
            await run
        lab.memory = WorkingMemory()
        async with lab.engine(store=store) as engine:
            await refused(engine.resume(run.run_id), "artifacts_unavailable")

    asyncio.run(main())


def test_a_fork_keeps_what_the_new_plan_leaves_untouched(lab, world):
    world.broken = {"bad"}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    *lab.items([1, 2, 3], "shaky"),
                    lab.node("sum", "give", {"value": "{artifacts.fan}"}, "fan"),
                    lab.node("bad", "shaky", {"value": "bad"}, "sum"),
                    lab.node("other", "give", {"value": "x"}),
                )
            )
            await run
            lab.calls.clear()
            mended = lab.plan(
                *lab.items([1, 2, 3], "shaky"),
                lab.node("sum", "give", {"value": ["{artifacts.fan}"]}, "fan"),
                lab.node("bad", "shaky", {"value": "good"}, "sum"),
                lab.node("other", "give", {"value": "x"}, description="said better", timeout=5.0),
                lab.node("more", "give", {"value": "{artifacts.sum}"}, "sum"),
            )
            child = await engine.fork(run.run_id, mended)
            outcome = await child
            assert outcome.status == "completed"
            assert sorted(map(str, lab.calls)) == ["[[1, 2, 3]]", "[[1, 2, 3]]", "good"]
            manifest = outcome.value
            assert manifest.parent_run_id == manifest.root_run_id == run.run_id
            assert manifest.reruns == ["sum"]
            assert child.value("fan") == [1, 2, 3]
            same(child)
            # a root means its newest child now, which has ended well
            await refused(engine.resume(run.run_id), "run_not_resumable")
            log = await engine.store.read(run.run_id)
            assert log[-1].type == ev.CHILD_STARTED
            assert replay(log).manifest().active_child_run_id == child.run_id

    asyncio.run(main())


def test_a_fork_of_a_fork_leads_back_to_the_root(lab, world):
    world.broken = {1, 2}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(lab.plan(lab.node("a", "shaky", {"value": 1})))
            await run
            child = await engine.fork(run.run_id, lab.plan(lab.node("a", "shaky", {"value": 2})))
            await child
            last = await engine.fork(run.run_id, lab.plan(lab.node("a", "shaky", {"value": 3})))
            manifest = (await last).value
            assert manifest.root_run_id == run.run_id
            assert manifest.parent_run_id == child.run_id
            assert manifest.status == "completed"

    asyncio.run(main())


def test_a_fork_whose_plan_does_not_fit_leaves_no_trace(lab, world):
    world.broken = {1}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(lab.plan(lab.node("a", "shaky", {"value": 1})))
            await run
            before = len(await engine.store.read(run.run_id))
            with pytest.raises(PlanInvalid):
                await engine.fork(run.run_id, lab.plan(lab.node("a", "nothing_here")))
            assert len(await engine.store.read(run.run_id)) == before
            world.broken.clear()
            assert (await (await engine.resume(run.run_id))).status == "completed"

    asyncio.run(main())


def test_runs_tell_which_are_interrupted(lab, world):
    async def main():
        store = MemoryStore()
        async with lab.engine(store=store) as engine:
            done = await engine.start(lab.plan(lab.node("a", "give")))
            await done
            assert [record.status for record in await engine.runs()] == ["completed"]
            # a journal that nobody writes any more
            await store.append("run_gone", [e._replace(run_id="run_gone") for e in done.events[:2]])
            found = {record.run_id: record.status for record in await engine.runs()}
            assert found["run_gone"] == "interrupted"

    asyncio.run(main())
