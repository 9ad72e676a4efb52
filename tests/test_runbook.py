"""Runs of earlier kernels: found, told of, gone on with, repaired."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from planbench import Workbench, load_plan
from planbench.errors import CommandError, RunRefused
from planbench.llm import FakeLLMClient
from planbench.llm.fake import text
from planbench.planner import PlanPlanner

KILLED = -9
PLAN = {
    "name": "p",
    "objective": "o",
    "nodes": [
        {"id": "listing", "tool": "listing"},
        {
            "id": "each",
            "tool": "fetch",
            "for_each": {"source": "{artifacts.listing}", "max_concurrency": 1},
            "args": {"n": "{item}"},
        },
        {"id": "total", "tool": "total", "args": {"values": "{artifacts.each}"}},
    ],
}
PROGRAM = """
import asyncio
from planbench import Workbench
from tests.test_runbook import PLAN, TOOLS

async def main():
    bench = Workbench(TOOLS)
    await (await bench.start(PLAN))

asyncio.run(main())
"""


def recorded_items():
    with contextlib.closing(sqlite3.connect(".planbench/journal.db", timeout=20)) as connection:
        return connection.execute(
            "SELECT count(*) FROM planbench_events WHERE body LIKE '%item.finished%'"
        ).fetchone()[0]


def note(said):
    with Path("calls").open("a", encoding="utf-8") as file:
        file.write(f"{said}\n")


def listing() -> list:
    note("listing")
    return list(range(5))


def fetch(n: int) -> int:
    if n == 3 and os.environ.get("DIE"):
        while recorded_items() < 3:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    note(f"fetch {n}")
    return n


def total(values: list) -> int:
    note("total")
    return sum(values)


TOOLS = [listing, fetch, total]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLANBENCH_STORE")
    return tmp_path


def calls(folder):
    found = (folder / "calls").read_text().splitlines()
    (folder / "calls").unlink()
    return found


def kill_in_the_middle(folder):
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": root, "DIE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == KILLED, done.stderr


def in_bench(work, given=None):
    async def main():
        bench = Workbench(TOOLS if given is None else given)
        try:
            return await work(bench)
        finally:
            await bench.close()

    return asyncio.run(main())


def test_a_run_that_was_killed_is_told_of_and_finished_without_calling_again(folder):
    kill_in_the_middle(folder)
    before = calls(folder)
    assert before == ["listing", "fetch 0", "fetch 1", "fetch 2"]

    async def main(bench):
        (record,) = await bench.records()
        assert record.status == "interrupted"
        (left,) = bench.interrupted()
        assert left.calls_left == "3 of 7 calls left"
        assert left.calls == {"each": "2 of 5 items", "total": ""}
        assert "to be called: each (2 of 5 items), total" in left.text()
        session = bench.session(load_plan(PLAN))
        assert session.resumable == left
        run = await session.resume()
        await run
        assert bench.interrupted() == []
        assert bench.run() is session.run is run
        assert run in bench.origins
        assert session.resumable is None
        return run.run_id == record.run_id, run.status, run.value("total")

    assert in_bench(main) == (True, "completed", 10)
    assert calls(folder) == ["fetch 3", "fetch 4", "total"]


def test_a_session_of_another_plan_has_nothing_to_resume(folder):
    kill_in_the_middle(folder)

    async def main(bench):
        await bench.recall()
        other = {**PLAN, "objective": "another"}
        session = bench.session(load_plan(other))
        assert session.resumable is None
        with pytest.raises(RunRefused, match="no run of plan 'p' has calls left"):
            await session.resume()

    in_bench(main)


def test_a_run_on_record_is_read_back_with_its_values(folder):
    kill_in_the_middle(folder)

    async def main(bench):
        (record,) = await bench.records()
        found = await bench.recorded(record.run_id[:8])
        assert found.run.status == "interrupted"
        assert found.run.state.nodes["each"].status == "cancelled"
        assert found.value("listing") == [0, 1, 2, 3, 4]
        assert found.value("each") == [0, 1, 2]
        assert found.notes() == []
        with pytest.raises(CommandError, match="there is no run 'nobody'"):
            await bench.recorded("nobody")

    in_bench(main)


def broken(values: list) -> int:
    raise ValueError("not today")


def red_run(folder):
    given = [*TOOLS[:2], broken]

    async def main(bench):
        plan = {**PLAN, "nodes": [*PLAN["nodes"][:2], {**PLAN["nodes"][2], "tool": "broken"}]}
        run = await bench.start(plan)
        await run
        assert run.status == "partial"
        return run

    run = in_bench(main, given)
    calls(folder)
    return run


def test_a_red_run_goes_on_with_a_mended_plan_that_keeps_the_rest(folder):
    red = red_run(folder)

    async def main(bench):
        left = await bench.outlook(red.run_id, load_plan(PLAN))
        assert left.calls == {"total": ""}
        run = await bench.resume(red.run_id, load_plan(PLAN))
        await run
        assert run.manifest().parent_run_id == red.run_id
        assert run.value("total") == 10

    in_bench(main)
    assert calls(folder) == ["total"]


def test_a_run_of_an_earlier_kernel_is_repaired_by_a_model(folder):
    red = red_run(folder)
    answer = '{"nodes": [{"id": "total", "tool": "total", "args": {"values": "{artifacts.each}"}}]}'

    async def main(bench):
        planner = PlanPlanner(FakeLLMClient(lambda _: text(answer)), bench.registry)
        run = await bench.repair(red.run_id, planner)
        await run
        assert run.value("total") == 10
        assert run.manifest().repair_attempts_used == 1

    in_bench(main, [*TOOLS, broken])
    assert calls(folder) == ["total"]


def test_without_a_model_a_repair_is_refused(folder):
    red = red_run(folder)

    async def main(bench):
        with pytest.raises(RunRefused) as caught:
            await bench.repair(red.run_id, None)
        assert caught.value.code == "planner_unavailable"

    in_bench(main, [*TOOLS, broken])


def test_without_a_name_the_latest_run_that_can_go_on_is_meant(folder):
    kill_in_the_middle(folder)

    async def main(bench):
        with pytest.raises(CommandError, match="there is no run 'x'"):
            await bench.find("x")
        run = await bench.resume()
        await run
        assert run.status == "completed"
        with pytest.raises(CommandError, match="no run can be continued"):
            await bench.resume()

    in_bench(main)


def test_runs_in_memory_are_resumed_in_their_process(monkeypatch):
    gate = {"shut": True}

    def fetch() -> int:
        if gate["shut"]:
            raise ValueError("shut")
        return 5

    async def main():
        bench = Workbench([fetch])
        session = bench.session(
            load_plan({"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "fetch"}]})
        )
        first = await session.start()
        await first
        assert session.resumable.calls_left == "1 of 1 calls left"
        gate["shut"] = False
        again = await session.resume()
        await again
        assert again.run_id == first.run_id
        assert again.value("a") == 5
        assert bench.origins[again] == bench.origins[first]
        assert [run.run_id for run in bench.runs] == [again.run_id]
        await bench.close()

    asyncio.run(main())


def test_runs_that_are_at_work_stay_in_their_store_when_another_is_chosen(folder):
    async def main():
        started = asyncio.Event()
        go = asyncio.Event()

        async def wait() -> int:
            started.set()
            await go.wait()
            return 1

        bench = Workbench([wait])
        plan = {"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "wait"}]}
        first = await bench.start(plan)
        await started.wait()
        bench.remember("memory")
        second = await bench.start(plan)
        go.set()
        assert (await first).status == (await second).status == "completed"
        assert [one.run_id for one in await bench.records()] == [second.run_id]
        await bench.close()
        bench.remember(None)
        assert [one.run_id for one in await bench.records()] == [first.run_id]
        await bench.close()

    asyncio.run(main())
