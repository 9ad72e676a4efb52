"""Runs in a memory with a budget: what is in use stays, the rest makes room and comes back equal."""

import asyncio

import pytest

from planbench.memory import WorkingMemory

MB = 1_000_000
BUDGET = 5 * MB


@pytest.fixture
def small(lab, tmp_path):
    """A laboratory whose memory holds five values of a megabyte."""
    lab.memory = WorkingMemory(max_bytes=BUDGET, spill_dir=tmp_path)

    @lab.tool
    async def big(value=None):
        return bytes([value]) * MB

    @lab.tool
    def size(body=None, value=None):
        assert lab.memory.resident_bytes <= BUDGET + 3 * MB
        return [len(body), body[0], value]

    return lab


def pinned(memory):
    """The keys whose values may not be spilled."""
    return [entry.key for entry in memory.entries() if entry.cell.pins]


def test_a_fan_out_over_the_budget_keeps_to_it_and_loses_nothing(small):
    run = small.run(
        *small.items(list(range(40)), "big", each={"max_concurrency": 4}),
        small.node("all", "give", {"value": "{nodes.fan.output}"}, "fan"),
    )
    assert small.memory.resident_bytes <= BUDGET
    assert small.memory.spilled_bytes >= 34 * MB
    assert [value[0] for value in run.value("fan")] == list(range(40))
    assert all(len(value) == MB for value in small.memory.get("fan"))
    assert run.outcome().status == "completed"


def test_a_spilled_argument_is_read_back_whole(small):
    nodes = []
    for i in range(12):
        nodes += [
            small.node(f"big{i}", "big", {"value": i}, f"big{i - 1}" if i else ()),
            small.node(
                f"size{i}",
                "size",
                {"body": f"{{artifacts.big{i}}}", "value": i},
                [f"big{i}", "big11"] if i < 11 else [f"big{i}"],
            ),
        ]
    run = small.run(*nodes, max_parallel_tasks=1)
    assert [run.value(f"size{i}") for i in range(12)] == [[MB, i, i] for i in range(12)]


def test_a_fan_out_over_spilled_items_reads_each(small):
    run = small.run(
        *small.items(list(range(12)), "big"),
        small.node(
            "sizes",
            "size",
            {"body": "{item}", "value": "{index}"},
            "fan",
            for_each={"source": "{artifacts.fan}", "max_concurrency": 2},
        ),
    )
    assert run.value("sizes") == [[MB, i, i] for i in range(12)]


def test_a_guard_counts_what_was_spilled(small):
    run = small.run(
        small.node("a", "big", {"value": 1}),
        *[small.node(f"b{i}", "big", {"value": i}, "a") for i in range(8)],
        small.node(
            "yes", "give", {"value": 1}, [f"b{i}" for i in range(8)] + ["a"],
            when=f"ctx.artifacts.a.count == {MB}",
        ),
    )  # fmt: skip
    assert run.refs["yes"].status == "ok"


def test_nothing_stays_pinned_when_the_run_has_ended(small):
    small.run(*small.items(list(range(3)), "big"))
    assert pinned(small.memory) == []

    async def main():
        @small.tool
        async def hold(value=None):
            await asyncio.sleep(60)

        async with small.engine() as engine:
            run = await engine.start(
                small.plan(
                    small.node("x", "big", {"value": 1}),
                    small.node("y", "hold", {"value": "{artifacts.x}"}, "x"),
                )
            )
            await small.until(lambda: run.state.nodes["y"].status == "running")
            assert pinned(small.memory) == ["x"]
            run.cancel()
            await run

    asyncio.run(main())
    assert pinned(small.memory) == []
