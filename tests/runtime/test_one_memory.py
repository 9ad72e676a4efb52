"""Several runs in one memory, and runs in a memory with a budget."""

from __future__ import annotations

import asyncio

import pandas as pd
import pytest

from planbench import WorkingMemory

SIZE = 5


def sweep(lab, *, store_as=None):
    """A plan whose rows carry the number of the run that made them.

    Both runs begin their fan-out before either stores more than one item, and the first
    stores its last items when the second has ended.
    """
    begun = {1: asyncio.Event(), 2: asyncio.Event()}
    ended = asyncio.Event()

    @lab.tool
    async def numbers(run: int) -> list[dict]:
        return [{"run": run, "i": i} for i in range(SIZE)]

    @lab.tool
    async def row(item: dict) -> list[dict]:
        if item["i"] == 1:
            begun[item["run"]].set()
            await begun[3 - item["run"]].wait()
        if item["run"] == 1 and item["i"] == SIZE - 2:
            await ended.wait()
        if item["run"] == 2 and item["i"] == SIZE - 1:
            ended.set()
        return [item]

    more = {} if store_as is None else {"store_as": store_as}
    return lab.plan(
        lab.node("numbers", args={"run": "{params.run}"}, tool="numbers"),
        lab.node(
            "rows", "row", {"item": "{item}"}, "numbers",
            for_each={"source": "{artifacts.numbers}", "max_concurrency": 1}, **more,
        ),
        lab.node("all", "give", {"value": "{artifacts.rows}"}, "rows"),
    )  # fmt: skip


def test_two_runs_of_one_plan_at_once_leave_the_rows_of_one_and_read_their_own(lab):
    async def main():
        plan = sweep(lab)
        async with lab.engine() as engine:
            runs = [await engine.start(plan, {"run": number}) for number in (1, 2)]
            await asyncio.gather(*(run.result() for run in runs))
        return runs

    runs = asyncio.run(main())

    assert [run.status for run in runs] == ["completed"] * 2
    for number, run in enumerate(runs, 1):
        own = [row["run"] for body in run.value("all") for row in body]
        assert own == [number] * SIZE
    memory = lab.memory
    for table in (memory.concat("rows"), memory.concat("rows.*"), memory.df("rows")):
        assert len(set(table["run"])) == 1
        assert table["i"].tolist() == list(range(SIZE))
    assert [body[0]["i"] for body in memory["rows"]] == list(range(SIZE))


def test_a_later_run_with_fewer_items_and_another_name_for_its_node_mixes_nothing(lab):
    @lab.tool
    async def some(run: int, n: int) -> list[dict]:
        return [{"run": run, "i": i} for i in range(n)]

    def plan(node):
        return lab.plan(
            lab.node("src", "some", {"run": "{params.run}", "n": "{params.n}"}),
            lab.node(
                node, "give", {"value": "{item}"}, "src",
                for_each={"source": "{artifacts.src}"}, store_as="report.{item.i}",
            ),
        )  # fmt: skip

    async def main():
        async with lab.engine() as engine:
            await (await engine.start(plan("fetch"), {"run": 1, "n": 4}))
            await (await engine.start(plan("fetch"), {"run": 2, "n": 3}))
            assert lab.memory.concat("report.*")["run"].tolist() == [2] * 3
            await (await engine.start(plan("get"), {"run": 3, "n": 2}))

    asyncio.run(main())

    assert lab.memory.concat("report.*")["run"].tolist() == [3] * 2
    assert lab.memory["report.3"]["run"] == 1


@pytest.mark.parametrize("frames", [False, True])
def test_a_plan_runs_the_same_in_a_memory_that_holds_a_tenth_of_its_results(lab, tmp_path, frames):
    def made(n):
        if frames:
            return pd.DataFrame({"n": [n] * 1_000})
        return {"n": n, "text": f"{n}".ljust(8_000)}

    @lab.tool
    def fetch(n: int):
        return made(n)

    @lab.tool
    async def read(value: list, first: object) -> int:
        return sum(int(one["n"].iloc[0]) if frames else one["n"] for one in value)

    lab.memory = WorkingMemory(20_000, tmp_path)
    lab.tool(lambda: list(range(25)), name="source")
    run = lab.run(
        lab.node("src", "source"),
        lab.node("fan", "fetch", {"n": "{item}"}, "src", for_each={"source": "{artifacts.src}"}),
        lab.node(
            "sum", "read", {"value": "{artifacts.fan}", "first": "{artifacts.one}"}, ["fan", "one"]
        ),
        lab.node("one", "fetch", {"n": 99}),
        max_parallel_tasks=4,
    )

    assert run.status == "completed", run.failure_text()
    assert run.value("sum") == sum(range(25))
    lab.memory.spill()
    assert lab.memory.resident_bytes <= 20_000
    assert lab.memory.usage().spilled > 20
    for n, value in enumerate(lab.memory["fan"]):
        if frames:
            pd.testing.assert_frame_equal(value, made(n))
        else:
            assert value == made(n)
