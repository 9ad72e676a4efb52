"""What stands of a run that goes on: an earlier result, while all that it was made from is the same."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.memory import TaskMemoryRuntime, TaskScope, WorkingMemory
from planbench.runtime import Engine, replay

ITEMS = [0, 1, 2, 3]


@pytest.fixture
def nested(lab):
    """A fan-out over the survivors of another, and what reads it; ``broken`` is what fails."""
    broken = set()

    @lab.tool
    async def first(x):
        if ("first", x) in broken:
            raise ValueError("broken")
        return x * 10

    async def second(x, idempotency_key):
        lab.note((x, idempotency_key.rpartition(":")[2]))
        if ("second", x) in broken:
            raise ValueError("broken")
        return x + 1

    lab.tool(second, effects="write")
    lab.tool(lambda: list(ITEMS), name="source")
    each = {"max_concurrency": 1}
    lab.wanted = lab.plan(
        lab.node("last", "give", {"value": "{artifacts.outer}"}, "outer"),
        lab.node("src", "source"),
        lab.node("inner", "first", {"x": "{item}"}, "src", for_each={"source": "{artifacts.src}", **each}),
        lab.node("outer", "second", {"x": "{item}"}, "inner", for_each={"source": "{artifacts.inner}", **each}),
    )  # fmt: skip
    return broken


def ends_well(run, lab):
    assert run.status == "completed", run.failure_text()
    assert run.value("outer") == lab.memory.get("outer") == [1, 11, 21, 31]
    assert run.value("last") == [1, 11, 21, 31]
    assert "failed" not in set(run.items("outer")["status"])
    assert replay(run.events).manifest() == run.manifest()


def test_items_stand_only_while_they_are_of_the_same_source(lab, nested):
    nested |= {("first", 1), ("second", 30)}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(lab.wanted)
            await run
            assert run.value("outer") == [1, 21]
            assert lab.calls == [(0, "0"), (20, "1"), (30, "2"), [1, 21]]
            lab.calls.clear()
            nested.clear()
            again = await engine.resume(run.run_id)
            outcome = await again
            ends_well(again, lab)
            # equal calls are answered with what they gave; others are others for their service too
            assert lab.calls == [(10, "1#1"), (30, "3#1"), [1, 11, 21, 31]]
            assert outcome.value.items["outer"].model_dump() == {
                "ok": 2, "failed": 0, "skipped": 0, "reused": 2,
            }  # fmt: skip
            assert outcome.value.reruns == ["outer", "last"]

    asyncio.run(main())


@pytest.mark.parametrize("stop", ["inner", "outer"])
def test_who_ended_before_what_it_reads_is_run_again_also_after_a_second_interruption(
    lab, nested, stop
):
    nested |= {("first", 1)}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(lab.wanted)
            await run
            assert run.value("last") == [1, 21, 31]
            nested.clear()
            again = await engine.resume(run.run_id)

            def end(event):
                if event.type == ev.ITEM_FINISHED and event.data["node_id"] == stop:
                    again.cancel()

            again.subscribe(end)
            assert (await again).status == "cancelled"
            third = await engine.resume(run.run_id)
            await third
            ends_well(third, lab)

    asyncio.run(main())


def test_a_source_that_is_empty_now_is_news_too(lab):
    @lab.tool
    async def source():
        return [1, 2]

    async def main():
        plan = lab.plan(
            lab.node("src", "source"),
            lab.node("fan", "give", {"value": "{item}"}, "src", for_each={"source": "{artifacts.src}"}),
            lab.node("all", "give", {"value": "{artifacts.fan}"}, "fan"),
            lab.node("bad", "boom"),
        )  # fmt: skip
        async with lab.engine(store="memory") as engine:
            run = await engine.start(plan)
            await run
            assert run.value("all") == [1, 2]

            @lab.tool(name="source")
            async def emptied():
                return []

            again = await engine.resume(run.run_id)
            await again
            assert again.value("fan") == []
            assert again.value("all") == []

    asyncio.run(main())


def test_a_fork_keeps_no_item_of_a_source_that_it_changes(lab, nested):
    nested |= {("second", 30)}

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(lab.wanted)
            await run
            nested.clear()
            lab.tool(lambda: [3, 0], name="other")
            nodes = [
                node.model_copy(update={"tool": "other"}) if node.id == "src" else node
                for node in lab.wanted.nodes
            ]
            child = await engine.fork(run.run_id, lab.plan(*nodes))
            await child
            assert child.value("outer") == [31, 1]
            assert child.value("last") == [31, 1]

    asyncio.run(main())


def test_a_journal_that_ends_anywhere_leads_to_the_same_end(lab, nested, tmp_path):
    async def main():
        async with TaskMemoryRuntime(str(tmp_path / "artifacts")) as runtime:

            def engine(store):
                return Engine(
                    store,
                    lab.registry,
                    WorkingMemory(),
                    task_memory_runtime=runtime,
                    scope=TaskScope("tests"),
                )

            url = f"sqlite:///{tmp_path / 'runs.db'}"
            async with engine(url) as first:
                nested.update({("first", 1), ("second", 30)})
                run = await first.start(lab.wanted)
                await run
                nested.clear()
                nested.add(("second", 10))
                again = await first.resume(run.run_id)
                assert (await again).status == "partial"
                nested.clear()
            for number in range(1, len(again.events) + 1):
                url = f"sqlite:///{tmp_path / f'{number}.db'}"
                async with open_store(url) as store:
                    await store.append(run.run_id, again.events[:number])
                async with engine(url) as fresh:
                    third = await fresh.resume(run.run_id)
                    await third
                    assert third.status == "completed", third.failure_text()
                    assert third.value("outer") == fresh.memory.get("outer") == [1, 11, 21, 31]
                    assert third.value("last") == [1, 11, 21, 31]
                    assert replay(third.events).manifest() == third.manifest()

    asyncio.run(main())
