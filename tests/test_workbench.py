"""The workbench: its runs by name, what it keeps and what it lets go, and the ways to run a plan."""

import asyncio
import threading

import pytest

from planbench import workbench as workbench_module
from planbench.checkpoints import CheckpointStore, MemoryStore
from planbench.errors import (
    ArtifactNotFound,
    CommandError,
    ConfigurationError,
    PlanInvalid,
    PlanLoadError,
)
from planbench.files import load_plan
from planbench.llm import FakeLLMClient
from planbench.llm.fake import tool_call
from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.runbook import KEPT_RUNS, KEPT_VALUES
from planbench.runtime import Run
from planbench.tools import ToolRegistry
from planbench.validation import check_plan
from planbench.workbench import (
    Workbench,
    get_workbench,
    run_plan,
    run_sync,
    set_workbench,
)


async def give(value=None):
    return value


async def wait():
    await asyncio.sleep(3_600)


def boom():
    raise ValueError("boom")


def plan(*tools, **fields):
    nodes = [PlanNode(id=f"n{i}", tool=tool, **fields) for i, tool in enumerate(tools or ["give"])]
    return ExecutionPlan(name="p", objective="o", nodes=nodes)


@pytest.fixture
def bench(tmp_path):
    return Workbench(ToolRegistry([give, wait, boom]), plans_dir=tmp_path)


@pytest.fixture
def no_workbench(monkeypatch):
    monkeypatch.setattr(workbench_module, "_workbench", None)


def ended(bench, *run_ids):
    """Put ended runs of these ids into the workbench."""
    for run_id in run_ids:
        run = Run(plan(), run_id)
        run.state.status = "completed"
        bench._runs[run_id] = run


# Runs by name


def test_without_a_name_the_latest_run_is_meant(bench):
    ended(bench, "run_ab12", "run_cd34")
    assert bench.run().run_id == "run_cd34"
    assert bench.run(None).run_id == "run_cd34"
    assert [run.run_id for run in bench.runs] == ["run_ab12", "run_cd34"]


@pytest.mark.parametrize("name", ["run_ab12", "run_a", "ab12", "a"])
def test_a_run_is_found_by_its_id_or_the_start_of_it(bench, name):
    ended(bench, "run_ab12", "run_cd34")
    assert bench.run(name).run_id == "run_ab12"


def test_the_whole_id_wins_over_longer_ones_that_start_with_it(bench):
    ended(bench, "run_abc", "run_ab")
    assert bench.run("run_ab").run_id == "run_ab"


def test_a_start_that_several_runs_share_is_an_error_that_names_them(bench):
    ended(bench, "run_ab12", "run_ab34")
    with pytest.raises(CommandError, match="'ab' is the start of 2 runs") as raised:
        bench.run("ab")
    assert "runs: run_ab34, run_ab12" in str(raised.value)


@pytest.mark.parametrize("name", ["zz", "", "run_ab123", "un_ab12", "*"])
def test_an_unknown_name_is_an_error_that_names_the_runs_there_are(bench, name):
    ended(bench, "run_ab12")
    with pytest.raises(CommandError) as raised:
        bench.run(name)
    assert "run_ab12" in str(raised.value)


def test_before_the_first_run_the_error_says_so(bench):
    for name in (None, "ab"):
        with pytest.raises(CommandError, match="none yet"):
            bench.run(name)


def test_of_many_runs_only_the_latest_are_named(bench):
    ended(bench, *[f"run_{i:04}" for i in range(30)])
    with pytest.raises(CommandError) as raised:
        bench.run("zz")
    assert str(raised.value).count("run_") == 10
    assert "run_0029, run_0028" in str(raised.value)
    assert "and 20 older ones" in str(raised.value)


# What is kept


def test_the_latest_fifty_runs_are_kept_with_their_journals(bench):
    async def main():
        first = await bench.start(plan())
        await first
        for _ in range(KEPT_RUNS + 4):
            await (await bench.start(plan()))
        assert KEPT_RUNS == 50
        assert len(bench.runs) == KEPT_RUNS
        assert first not in bench.runs
        store = bench.engine.store
        assert [record.run_id for record in await store.runs()] == [
            run.run_id for run in bench.runs
        ]
        assert await store.read(first.run_id) == []
        with pytest.raises(CommandError):
            bench.run(first.run_id)
        await bench.close()

    asyncio.run(main())


def test_a_live_run_is_never_let_go(bench):
    async def main():
        live = [await bench.start(plan("wait")) for _ in range(3)]
        for _ in range(KEPT_RUNS + 2):
            await (await bench.start(plan()))
        assert bench.runs[:3] == live
        assert len(bench.runs) == KEPT_RUNS
        await bench.close()
        assert [run.status for run in live] == ["cancelled"] * 3

    asyncio.run(main())


def test_older_runs_hold_their_values_no_longer_but_the_memory_does(bench):
    async def main():
        runs = []
        for i in range(KEPT_VALUES + 2):
            runs.append(await bench.start(plan(args={"value": i})))
            await runs[-1]
        assert runs[-1].value("n0") == KEPT_VALUES + 1
        assert runs[2].value("n0") == 2
        for run in runs[:2]:
            with pytest.raises(ArtifactNotFound):
                run.value("n0")
            assert run.refs["n0"].status == "ok"
        assert bench.memory["n0"] == KEPT_VALUES + 1
        await bench.close()

    asyncio.run(main())


def test_a_live_run_keeps_its_values_however_old_it_is(bench):
    async def main():
        hold = asyncio.Event()
        bench.registry.register(hold.wait)
        nodes = [
            PlanNode(id="a", tool="give", args={"value": "kept"}),
            PlanNode(id="w", tool="wait", depends_on=["a"]),
            PlanNode(id="b", tool="give", args={"value": "{artifacts.a}"}, depends_on=["a", "w"]),
        ]
        run = await bench.start(ExecutionPlan(name="p", objective="o", nodes=nodes))
        for _ in range(KEPT_VALUES + 5):
            await (await bench.start(plan()))
        hold.set()
        await run
        assert run.status == "completed"
        assert bench.memory["b"] == "kept"
        await bench.close()

    asyncio.run(main())


# Stores


class Noted(MemoryStore):
    def __init__(self):
        super().__init__()
        self.calls = []

    async def open(self):
        self.calls.append("open")

    async def close(self):
        self.calls.append("close")


def test_a_store_given_as_an_object_is_neither_opened_nor_closed(tmp_path):
    store = Noted()
    bench = Workbench(ToolRegistry([give]), plans_dir=tmp_path, store=store)

    async def main():
        await (await bench.start(plan()))
        await bench.close()

    asyncio.run(main())
    assert store.calls == []
    assert isinstance(bench.engine.store, CheckpointStore)


def test_its_own_store_is_opened_once_before_the_first_run(bench, monkeypatch):
    store = Noted()
    monkeypatch.setattr(bench.remembering, "store", store)

    async def main():
        for _ in range(3):
            await (await bench.start(plan()))
        await bench.close()

    asyncio.run(main())
    assert store.calls == ["open", "close"]


def test_a_store_that_could_not_be_opened_is_tried_again(bench, monkeypatch):
    class Shy(Noted):
        async def open(self):
            await super().open()
            if len(self.calls) == 1:
                raise OSError("not yet")

    store = Shy()
    monkeypatch.setattr(bench.remembering, "store", store)

    async def main():
        with pytest.raises(OSError, match="not yet"):
            await bench.start(plan())
        await (await bench.start(plan()))

    asyncio.run(main())
    assert store.calls == ["open", "open"]


# Settings


def test_what_is_allowed_is_allowed_for_checks_and_for_runs_also_when_it_changes(bench):
    async def main():
        await (await bench.start(plan()))
        assert bench.check(plan()).ok
        bench.allowed_tools = ["boom"]
        assert not bench.check(plan()).ok
        with pytest.raises(PlanInvalid):
            await bench.start(plan())
        bench.allowed_tools = None
        assert bench.check(plan()).ok
        await bench.close()

    asyncio.run(main())


def test_the_same_plan_object_is_refused_when_it_is_no_longer_allowed(bench):
    mine = plan()

    async def main():
        await (await bench.start(mine))
        bench.allowed_tools = ["boom"]
        with pytest.raises(PlanInvalid):
            await bench.start(mine)
        await bench.close()

    asyncio.run(main())


def test_secrets_are_for_the_tools_that_may_have_them(bench):
    secret = plan(args={"value": "{env.TOKEN}"})
    assert [issue.code for issue in bench.check(secret).issues] == ["env_not_allowed"]
    bench.env = {"TOKEN": ["give"]}
    assert bench.check(secret).ok


def test_closing_ends_sessions_and_live_runs(bench):
    async def main():
        session = bench.session(plan("wait"))
        run = await session.start()
        assert bench.sessions == {session}
        await bench.close()
        assert bench.sessions == set()
        assert run.status == "cancelled"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


# The one of this process


@pytest.mark.usefixtures("no_workbench")
def test_there_is_one_workbench_a_process_whoever_asks_first():
    found = []
    threads = [threading.Thread(target=lambda: found.append(get_workbench())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert found[0] is get_workbench()


@pytest.mark.usefixtures("no_workbench")
def test_a_workbench_of_your_own_can_take_its_place(bench):
    set_workbench(bench)
    assert get_workbench() is bench


# run_plan and run_sync


def test_run_plan_gives_the_manifest_and_failed_nodes_are_data():
    memory = WorkingMemory()
    registry = ToolRegistry([give, boom])
    manifest = asyncio.run(run_plan(plan("give", "boom"), registry=registry, memory=memory))
    assert (manifest.status, manifest.nodes_ok, manifest.nodes_failed) == ("partial", 1, 1)
    assert manifest.failures()[0].errors == ["ValueError: boom"]
    assert "n0" in memory


@pytest.mark.usefixtures("no_workbench")
def test_without_a_registry_the_tools_are_those_of_the_workbench(bench):
    set_workbench(bench)
    assert asyncio.run(run_plan(plan())).status == "completed"
    with pytest.raises(PlanInvalid):
        asyncio.run(run_plan(plan(), registry=ToolRegistry()))


def test_run_plan_takes_parameters_a_store_and_what_is_allowed():
    store = MemoryStore()
    registry = ToolRegistry([give])
    wanting = plan(args={"value": "{params.x}"})

    async def main():
        manifest = await run_plan(wanting, registry=registry, params={"x": 1}, store=store)
        assert [record.run_id for record in await store.runs()] == [manifest.run_id]
        for options in (
            {},
            {"params": {}},
            {"params": {"y": 1}},
            {"params": {"x": 1}, "allowed_tools": []},
        ):
            with pytest.raises(PlanInvalid):
                await run_plan(wanting, registry=registry, **options)
        with pytest.raises(ConfigurationError):
            await run_plan(plan(), registry=registry, store="floppy://f.db")

    asyncio.run(main())


def test_whoever_cancels_run_plan_cancels_the_run():
    store = MemoryStore()

    async def main():
        begun = asyncio.Event()

        async def stay():
            begun.set()
            await wait()

        task = asyncio.create_task(
            run_plan(plan("stay"), registry=ToolRegistry([stay]), store=store)
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [record.status for record in await store.runs()] == ["cancelled"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_run_sync_takes_the_same_arguments_and_gives_the_same():
    memory = WorkingMemory()
    manifest = run_sync(
        plan(args={"value": "{params.x}"}),
        registry=ToolRegistry([give]),
        memory=memory,
        params={"x": 7},
        store="memory",
        allowed_tools=["g*"],
        env=None,
    )
    assert manifest.status == "completed"
    assert memory["n0"] == 7


TEXT = "name: p\nobjective: o\nnodes:\n  - {id: a, tool: give, args: {value: '{params.v}'}}\n"


def test_a_plan_is_run_from_text_a_file_a_record_and_what_builds_one(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    made = ExecutionPlan.model_validate(load_plan(TEXT).to_dict())

    class Builder:
        def build(self):
            return made

    for source in (TEXT, file, made.to_dict(), made, Builder()):
        manifest = run_sync(source, registry=[give], params={"v": 1})
        assert manifest.status == "completed"
        assert check_plan(source, [give]).ok

    async def main():
        bench = Workbench([give])
        outcome = await (await bench.start(TEXT, {"v": 1})).result()
        await bench.close()
        return outcome.status

    assert asyncio.run(main()) == "completed"


def test_a_text_without_its_parameters_is_refused_with_their_lines():
    with pytest.raises(PlanInvalid, match=r"line 4, .*params.v"):
        run_sync(TEXT, registry=[give])


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (5, {}),
        (None, {}),
        (TEXT, {"memory": {}}),
        (TEXT, {"registry": 5}),
        (TEXT, {"registry": [5]}),
        (TEXT, {"params": [1]}),
        (TEXT, {"params": "x"}),
        (TEXT, {"store": 5}),
        (TEXT, {"allowed_tools": [5]}),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_line_with_the_fix(source, options):
    options = {"registry": [give], "params": {"v": 1}, **options}
    with pytest.raises((ConfigurationError, PlanLoadError)) as caught:
        run_sync(source, **options)
    assert "\n" not in caught.value.message


KEPT_TEXT = "# kept\nname: p\nobjective: o\nnodes:\n  - {id: a, tool: give}\n"


def test_a_plan_is_saved_as_it_was_written_and_is_told_when_it_is_new(bench):
    saved = [
        bench.save(text, "p")
        for text in (KEPT_TEXT, KEPT_TEXT, KEPT_TEXT.replace("id: a", "id: b"))
    ]
    assert [(one.version, one.is_new) for one in saved] == [(1, True), (1, False), (2, True)]
    assert [str(one) for one in saved[:2]] == ["saved p, version 1", "p is as it was, version 1"]
    assert bench.plans.read("p@1") == KEPT_TEXT


def test_a_plan_that_does_not_fit_the_tools_is_saved_only_by_force(bench):
    wrong = KEPT_TEXT.replace("give", "gvie")
    with pytest.raises(PlanInvalid, match="gvie"):
        bench.save(wrong, "p")
    assert bench.plans.list() == []
    assert [issue.code for issue in bench.save(wrong, "p", force=True).report.issues] == [
        "unknown_tool"
    ]
    with pytest.raises(PlanInvalid):
        bench.save("name: p", "p", force=True)


def test_where_a_saved_file_is_open_it_is_checked_again(bench):
    bench.save(KEPT_TEXT, "p")
    session = bench.session(bench.plans.path("p"))
    other = bench.session(KEPT_TEXT)
    bench.save(KEPT_TEXT.replace("id: a", "id: b"), "p")
    assert session.plan.nodes[0].id == "b"
    assert other.plan.nodes[0].id == "a"


def test_work_that_is_kept_is_waited_for_at_the_end(bench):
    done = []

    async def work():
        await asyncio.sleep(0)
        done.append(True)

    async def main():
        bench.keep(work())
        await bench.close()
        assert done == [True]

    asyncio.run(main())


def test_run_plan_and_the_workbench_take_a_model_for_delegates():
    node = PlanNode(id="pick", type="delegate", instruction="choose")
    chosen = ExecutionPlan(name="p", objective="o", nodes=[node])
    model = FakeLLMClient(lambda _: tool_call("give", value=3))
    memory = WorkingMemory()
    manifest = run_sync(chosen, registry=[give], memory=memory, delegate_llm=model)
    assert (manifest.status, memory["pick"]) == ("completed", 3)

    async def main():
        bench = Workbench([give], store="memory", delegate_llm=model)
        run = await bench.start(chosen)
        await run
        await bench.close()
        return run

    assert asyncio.run(main()).value("pick") == 3
