"""Where a workbench keeps its runs, what it forgets, and what it does without."""

import asyncio
import itertools
import os
import shutil
import time

import pytest

from planbench import Engine, Workbench, load_plan, open_store
from planbench.checkpoints import MemoryStore
from planbench.errors import ConfigurationError, LeaseLost, RunRefused, StoreError
from planbench.memory import TaskMemoryRuntime, TaskScope
from planbench.runtime import PlanRecoveryConfig
from planbench.runtime import remembering as module
from planbench.runtime.remembering import Limits, Remembering

NODES = [
    {"id": "a", "tool": "give", "args": {"value": 1}},
    {"id": "b", "tool": "odd"},
    {"id": "c", "tool": "boom", "depends_on": ["a", "b"]},
]


class Odd:
    """What no codec takes."""


async def give(value=0):
    return value


async def odd():
    return Odd()


async def boom():
    raise ValueError("boom")


def plan(*nodes, name="p"):
    return load_plan({"name": name, "objective": "o", "nodes": list(nodes or NODES)})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder in which a workbench remembers by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLANBENCH_STORE")
    return tmp_path


async def finished(bench, work):
    run = await bench.start(work)
    await run
    return run


def once(work, *, tools=(give, odd, boom), **options):
    """Run a plan in a workbench of its own."""

    async def main():
        bench = Workbench(list(tools), **options)
        try:
            return await finished(bench, work)
        finally:
            await bench.close()

    return asyncio.run(main())


def on_record(folder):
    async def main():
        async with open_store(f"sqlite:///{folder}/.planbench/journal.db") as store:
            return [record.run_id for record in await store.runs()]

    return asyncio.run(main())


def test_runs_are_kept_in_the_working_folder_which_git_ignores(folder):
    run = once(plan(NODES[0]))
    assert on_record(folder) == [run.run_id]
    assert (folder / ".planbench" / ".gitignore").read_text() == "*\n"
    assert run.manifest().resume_level == "cross_restart"
    assert run.manifest().artifact_mode == "durable"


def test_nothing_is_made_before_something_runs(folder):
    bench = Workbench([give])
    bench.check(plan(NODES[0]))
    assert asyncio.run(bench.records()) == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_memory_opts_out(folder, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("PLANBENCH_STORE", "memory")
    once(plan(NODES[0]), store="memory" if how == "argument" else None)
    assert list(folder.iterdir()) == []


def test_a_store_is_named_by_the_variable_and_the_argument_goes_before_it(folder, monkeypatch):
    monkeypatch.setenv("PLANBENCH_STORE", "sqlite:///mine.db")
    once(plan(NODES[0]))
    assert (folder / "mine.db").exists()
    assert not (folder / ".planbench" / "journal.db").exists()
    once(plan(NODES[0]), store="sqlite:///other.db")
    assert (folder / "other.db").exists()


def test_a_store_that_is_none_is_refused_at_once(folder):
    with pytest.raises(ConfigurationError):
        Workbench(store="floppy://x")


def test_the_folder_stays_when_the_process_goes_elsewhere(folder):
    bench = Workbench([give])
    (folder / "else").mkdir()
    os.chdir(folder / "else")

    async def main():
        await finished(bench, plan(NODES[0]))
        await bench.close()

    asyncio.run(main())
    assert len(on_record(folder)) == 1
    assert not (folder / "else" / ".planbench").exists()


# What cannot be kept


def test_an_odd_value_is_no_failure_and_a_later_resume_names_it(folder):
    run = once(plan())
    assert [run.state.nodes[name].status for name in "abc"] == ["ok", "ok", "error"]
    told = {e.data["node_id"]: e.data for e in run.events if e.type.endswith("node.finished")}
    assert "artifact" in told["a"]
    assert "artifact" not in told["b"]

    async def again():
        bench = Workbench([give, odd, boom])
        try:
            with pytest.raises(RunRefused, match=r"node 'b'.*could not be kept as it is") as caught:
                await bench.resume(run.run_id)
            assert caught.value.code == "artifacts_unavailable"
        finally:
            await bench.close()

    asyncio.run(again())


def test_memory_that_was_asked_to_be_durable_refuses_an_odd_value(tmp_path):
    async def main():
        async with (
            TaskMemoryRuntime(tmp_path) as runtime,
            Engine(
                registry=[give, odd, boom], task_memory_runtime=runtime, scope=TaskScope("team")
            ) as engine,
        ):
            run = await engine.start(plan())
            await run
            assert run.state.nodes["b"].status == "error"

    asyncio.run(main())


def test_a_value_that_holds_a_secret_is_not_written(folder, monkeypatch):
    monkeypatch.setenv("TOKEN", "hunter2-hunter2")
    work = plan({"id": "a", "tool": "give", "args": {"value": "{env.TOKEN}"}})
    run = once(work, env={"TOKEN": ["give"]})
    assert run.value("a") == "hunter2-hunter2"
    for file in (folder / ".planbench").rglob("*"):
        if file.is_file():
            assert b"hunter2" not in file.read_bytes()


def test_a_value_above_the_limit_stays_in_memory(folder, monkeypatch):
    monkeypatch.setattr("planbench.runtime.values.LARGEST_EFFORT", 100)
    run = once(plan({"id": "a", "tool": "give", "args": {"value": "x" * 200}}))
    assert "artifact" not in next(e for e in run.events if e.type.endswith("finished")).data


def test_a_folder_that_cannot_be_made_is_a_note_and_no_failure(folder):
    (folder / ".planbench").write_text("in the way")
    bench = Workbench([give])

    async def main():
        run = await finished(bench, plan(NODES[0]))
        assert run.status == "completed"
        await bench.close()

    asyncio.run(main())
    assert "in this process only" in bench.note
    assert (folder / ".planbench").read_text() == "in the way"


def test_a_journal_that_is_no_database_is_a_note_and_stays_as_it_is(folder):
    (folder / ".planbench").mkdir()
    journal = folder / ".planbench" / "journal.db"
    journal.write_text("x" * 10_000)
    assert once(plan(NODES[0])).status == "completed"
    assert journal.read_text() == "x" * 10_000


def test_a_store_that_was_asked_for_and_cannot_be_opened_fails(folder):
    (folder / "bad.db").write_text("x" * 10_000)
    with pytest.raises(Exception, match="no SQLite database"):
        once(plan(NODES[0]), store="sqlite:///bad.db")


def test_a_folder_that_is_removed_under_a_kernel_fails_no_run(folder):
    async def remove():
        shutil.rmtree(folder / ".planbench")

    async def main():
        bench = Workbench([give, remove])
        first = plan(
            NODES[0],
            {"id": "gone", "tool": "remove", "depends_on": ["a"]},
            {"id": "z", "tool": "give", "depends_on": ["gone"]},
        )
        assert (await finished(bench, first)).status == "completed"
        assert (await finished(bench, plan(NODES[0]))).status == "completed"
        await bench.close()

    asyncio.run(main())


class Failing(MemoryStore):
    """Keeps the first records and fails then."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def adopt(self, run_id, journal):
        return False

    async def append(self, run_id, events, lease=None):
        if any(event.type.endswith("node.finished") for event in events):
            raise self.error
        await super().append(run_id, events, lease)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("error", [StoreError("full"), RuntimeError("odd"), LeaseLost("removed")])
def test_a_run_goes_on_without_a_record_where_that_is_wanted(durability, error, caplog):
    class Removed(Failing):
        async def lease(self, run_id):
            return None

    async def main():
        settings = PlanRecoveryConfig(on_store_error="go_on")
        async with Engine(
            Removed(error), [give], recovery=settings, durability=durability
        ) as engine:
            nodes = [{**NODES[0], "id": f"n{i}"} for i in range(3)]
            for before, node in itertools.pairwise(nodes):
                node["depends_on"] = [before["id"]]
            run = await engine.start(plan(*nodes))
            await run
            assert run.status == "completed"

    asyncio.run(main())
    assert caplog.text.count("no more of run") == 1


def test_a_run_that_another_process_has_taken_over_ends_all_the_same():
    async def main():
        settings = PlanRecoveryConfig(on_store_error="go_on")
        async with Engine(
            Failing(LeaseLost("taken")), [give], recovery=settings, durability="async"
        ) as engine:
            again = {**NODES[0], "id": "z", "depends_on": ["a"]}
            run = await engine.start(plan(NODES[0], again))
            with pytest.raises(LeaseLost):
                await run
            assert run.status in ("interrupted", "completed")

    asyncio.run(main())


def test_a_run_that_is_not_to_be_kept_leaves_no_results_either(folder):
    work = load_plan(
        {"name": "p", "objective": "o", "metadata": {"checkpoint": False}, "nodes": [NODES[0]]}
    )
    once(work)
    assert on_record(folder) == []
    assert values(folder) == 0


# Forgetting


def forget(folder, limits):
    (folder / ".planbench" / "pruned").unlink(missing_ok=True)

    async def main():
        kept = Remembering(limits=limits)
        await kept.open()
        try:
            return await kept.forget()
        finally:
            await kept.close()

    return asyncio.run(main())


def values(folder):
    async def main():
        kept = Remembering()
        await kept.open()
        try:
            artifacts = kept.runtime.store(kept.scope)
            return len([*artifacts._stored()])
        finally:
            await kept.close()

    return asyncio.run(main())


def runs_with(*texts):
    return [
        once(plan({"id": "a", "tool": "give", "args": {"value": text}})).run_id for text in texts
    ]


@pytest.fixture
def at_once(monkeypatch):
    """Results that nobody names are forgotten at once, and not in an hour."""
    monkeypatch.setattr(module, "_OFTEN", -1.0)


def test_the_oldest_runs_above_the_number_go_with_what_only_they_name(folder, at_once):
    ids = runs_with("only the first", "shared", "shared")
    assert values(folder) == 2
    assert forget(folder, Limits(runs=1)) == ids[:2]
    assert on_record(folder) == ids[2:]
    assert values(folder) == 1


def test_runs_that_are_too_old_go_also_those_that_broke_off(folder, at_once, monkeypatch):
    (first,) = runs_with("x")

    async def break_off():
        async with open_store("sqlite:///.planbench/journal.db") as store:
            (started, *_) = await store.read(first)
            await store.append("run_gone", [started._replace(run_id="run_gone")])

    asyncio.run(break_off())
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 10 * 86_400)
    assert forget(folder, Limits(days=11)) == []
    assert sorted(forget(folder, Limits(days=9))) == sorted([first, "run_gone"])
    assert values(folder) == 0


def test_above_the_bytes_the_oldest_runs_go_until_the_rest_fits(folder, at_once):
    ids = runs_with("a" * 1_000, "b" * 1_000, "c" * 1_000)
    assert forget(folder, Limits(nbytes=2_200)) == ids[:1]
    assert values(folder) == 2


def test_a_result_that_was_stored_a_moment_ago_stays_also_without_a_record(folder):
    ids = runs_with("a", "b")
    assert forget(folder, Limits(runs=1)) == ids[:1]
    assert values(folder) == 2


def test_it_is_looked_at_once_an_hour(folder, monkeypatch):
    runs_with("a")
    assert (folder / ".planbench" / "pruned").exists()

    async def main():
        kept = Remembering(limits=Limits(runs=0))
        await kept.open()
        found = await kept.forget()
        await kept.close()
        return found

    assert asyncio.run(main()) == []


def test_a_store_of_ones_own_is_never_pruned(folder):
    async def main():
        kept = Remembering("sqlite:///mine.db", Limits(runs=0))
        await kept.open()
        found = await kept.forget()
        await kept.close()
        return found

    once(plan(NODES[0]), store="sqlite:///mine.db")
    assert asyncio.run(main()) == []
