"""The engine: what it refuses before anything is called, what it keeps, what it closes."""

import asyncio
import gc
import threading
import weakref

import pytest

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore
from planbench.checkpoints.leases import LocalLeases
from planbench.errors import ConfigurationError, PlanInvalid, RunRefused
from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.runtime import Engine, preparation
from planbench.runtime import engine as engine_module
from planbench.tools import ToolRegistry


def start(lab, plan, inputs=None, **options):
    """Start a plan that must be refused: gives the error, when nothing was called or recorded."""

    async def main():
        store = MemoryStore()
        async with lab.engine(store=store, **options) as engine:
            with pytest.raises((PlanInvalid, RunRefused, ConfigurationError)) as raised:
                await engine.start(plan, inputs)
            assert await store.runs() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return raised.value

    error = asyncio.run(main())
    assert lab.calls == []
    assert len(lab.memory) == 0
    return error


# Refused before anything is called


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tool": "nothing_like_it"}, "unknown_tool"),
        ({"args": {"wrong": 1}}, "unknown_args"),
        ({"tool": "typed", "args": {"value": "text"}}, "bad_arg_type"),
        ({"tool": "typed"}, "missing_args"),
        ({"when": "ctx.artifacts.a.nothing > 0 &&"}, "bad_guard"),
    ],
)
def test_a_plan_that_does_not_fit_the_registry_is_invalid(lab, fields, code):
    async def typed(value: int):
        lab.calls.append(value)

    lab.tool(typed)
    node = PlanNode.model_validate({"id": "b", "tool": "give", "depends_on": ["a"], **fields})
    error = start(lab, lab.plan(lab.node("a"), node))
    assert isinstance(error, PlanInvalid)
    assert [issue.code for issue in error.issues if issue.severity == "error"] == [code]
    assert error.issues[0].node_id == "b"


def test_a_tool_that_is_not_allowed_makes_the_plan_invalid(lab):
    error = start(lab, lab.plan(lab.node("a")), allowed_tools=["plain", "p*"])
    assert [issue.code for issue in error.issues] == ["tool_not_allowed"]


def test_an_empty_list_allows_no_tool(lab):
    error = start(lab, lab.plan(lab.node("a")), allowed_tools=[])
    assert [issue.code for issue in error.issues] == ["tool_not_allowed"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"type": "delegate", "instruction": "choose"}, "delegate_not_configured"),
        ({"tool": "give", "approve": True}, "approval_not_available"),
        ({"tool": "give", "approve": "really?"}, "approval_not_available"),
        ({"tool": "give", "cache": True}, "cache_not_available"),
        ({"tool": "give", "cache": 60}, "cache_not_available"),
    ],
)
def test_what_is_not_built_yet_is_refused_with_a_code_that_names_the_node(lab, fields, code):
    node = PlanNode.model_validate({"id": "b", **fields})
    error = start(lab, lab.plan(lab.node("a"), node))
    assert isinstance(error, RunRefused)
    assert (error.code, error.node_id) == (code, "b")
    assert "'b'" in str(error)


def test_a_secret_for_a_tool_that_may_not_have_it_makes_the_plan_invalid(lab):
    plan = lab.plan(lab.node("a", args={"value": "{env.TOKEN}"}))
    assert [i.code for i in start(lab, plan, env={"TOKEN": ["github_*"]}).issues] == [
        "env_not_allowed"
    ]


def test_durable_without_a_durable_store_is_a_configuration_error(lab):
    error = start(lab, lab.plan(lab.node("a"), durable=True))
    assert isinstance(error, ConfigurationError)
    assert "durable" in str(error)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [(None, "missing_param"), ({}, "missing_param"), ({"date": 1, "other": 2}, "unused_param")],
)
def test_parameters_that_are_missing_or_unused_make_the_plan_invalid(lab, inputs, code):
    plan = lab.plan(lab.node("a", args={"value": "{params.date}"}))
    assert [issue.code for issue in start(lab, plan, inputs).issues] == [code]


def test_parameters_for_a_plan_without_any_are_an_error(lab):
    assert start(lab, lab.plan(lab.node("a")), {"x": 1}).issues[0].code == "unused_param"


# Parameters


def test_parameters_are_put_in_before_the_run_and_are_on_record(lab):
    run = lab.run(lab.node("a", args={"value": "{params.date}"}), params={"date": "2026-08-06"})
    assert lab.calls == ["2026-08-06"]
    assert run.plan.nodes[0].args == {"value": "2026-08-06"}
    assert run.events[0].data["plan"]["nodes"][0]["args"] == {"value": "2026-08-06"}


def test_a_parameter_never_becomes_a_placeholder(lab):
    lab.run(
        lab.node("secret", args={"value": "SECRET"}),
        lab.node("a", args={"value": "{params.text}"}, after="secret"),
        params={"text": "{artifacts.secret}"},
    )
    assert lab.calls[-1] == "{artifacts.secret}"


def test_a_declared_default_is_taken(lab):
    plan = ExecutionPlan.model_validate(
        {
            "name": "p",
            "objective": "o",
            "params": {"n": {"type": "int", "default": 7}},
            "nodes": [{"id": "a", "tool": "give", "args": {"value": "{params.n}"}}],
        }
    )

    async def main():
        async with lab.engine() as engine:
            await (await engine.start(plan))
            await (await engine.start(plan, {"n": 8}))

    asyncio.run(main())
    assert lab.calls == [7, 8]


# What is kept between runs


def test_a_changed_tool_is_used_by_the_next_run(lab):
    lab.tool(lambda: "old", name="work")
    plan = lab.plan(lab.node("a", "work"))

    async def main():
        async with lab.engine() as engine:
            await (await engine.start(plan))
            assert lab.memory["a"] == "old"
            lab.tool(lambda: "new", name="work")
            await (await engine.start(plan))
            assert lab.memory["a"] == "new"
            lab.registry.remove("work")
            with pytest.raises(PlanInvalid):
                await engine.start(plan)

    asyncio.run(main())


def test_a_tool_that_changes_while_a_plan_is_checked_is_not_missed_by_the_next_run(
    lab, monkeypatch
):
    lab.tool(lambda: "old", name="work")
    plan = lab.plan(lab.node("a", "work"))
    check = preparation.CompiledPlan

    def slow(*args):
        compiled = check(*args)
        if lab.registry.get_tool("work").function() == "old":
            lab.tool(lambda: "new", name="work")
        return compiled

    monkeypatch.setattr(preparation, "CompiledPlan", slow)

    async def main():
        async with lab.engine() as engine:
            await (await engine.start(plan))
            await (await engine.start(plan))

    asyncio.run(main())
    assert lab.memory["a"] == "new"


def test_what_one_engine_allows_is_not_allowed_by_another(lab):
    plan = lab.plan(lab.node("a"))

    async def main():
        async with lab.engine() as engine:
            await (await engine.start(plan))
        async with lab.engine(allowed_tools=["plain"]) as engine:
            with pytest.raises(PlanInvalid):
                await engine.start(plan)
        async with lab.engine(allowed_tools=["g*"]) as engine:
            await (await engine.start(plan))

    asyncio.run(main())
    assert len(lab.calls) == 2


async def give_one():
    return 1


def test_registries_and_runs_are_let_go():
    async def main():
        registry = ToolRegistry([give_one])
        plan = ExecutionPlan(name="p", objective="o", nodes=[PlanNode(id="a", tool="give_one")])
        async with Engine(registry=registry) as engine:
            run = await engine.start(plan)
            await run
            return weakref.ref(registry), weakref.ref(run)

    registry, run = asyncio.run(main())
    gc.collect()
    assert registry() is None
    assert run() is None


def test_two_engines_may_share_registry_and_memory(lab):
    async def main():
        async with lab.engine() as one, lab.engine() as two:
            runs = [
                await engine.start(lab.plan(lab.node(name)))
                for engine, name in ((one, "a"), (two, "b"))
            ]
            for run in runs:
                await run

    asyncio.run(main())
    assert {"a", "b"} <= set(lab.memory)


def test_engines_on_loops_of_two_threads_do_not_meet(lab):
    runs = []

    def work():
        runs.append(lab.run(*[lab.node(f"n{i}", "plain") for i in range(20)]))

    threads = [threading.Thread(target=work) for _ in range(2)]
    lab.memory = WorkingMemory()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [run.status for run in runs] == ["completed"] * 2


# Stores


class Noted(LocalLeases, CheckpointStore):
    kind = "noted"

    def __init__(self):
        super().__init__()
        self.calls = []
        self.events = []

    async def open(self):
        self.calls.append("open")

    async def close(self):
        self.calls.append("close")

    async def append(self, run_id, events, lease=None):
        self.check_writer(run_id, lease)
        await asyncio.sleep(0)
        self.events.extend(events)

    async def read(self, run_id, after=0):
        return [event for event in self.events if event.run_id == run_id and event.seq > after]

    async def runs(self, status=None):
        return []

    async def delete(self, run_id):
        pass


def test_a_store_given_as_an_object_is_only_used(lab):
    store = Noted()

    async def main():
        async with lab.engine(store=store) as engine:
            await (await engine.start(lab.plan(lab.node("a"))))

    asyncio.run(main())
    assert store.calls == []
    assert store.events


def test_a_store_given_as_a_url_is_opened_and_closed(lab, monkeypatch):
    store = Noted()
    monkeypatch.setattr(engine_module, "open_store", lambda url: store)

    async def main():
        async with lab.engine(store="memory") as engine:
            assert engine.store is store
            assert store.calls == ["open"]

    asyncio.run(main())
    assert store.calls == ["open", "close"]


def test_the_journal_can_be_read_from_the_store(lab):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            await run
            assert await engine.store.read(run.run_id) == run.events
            assert await engine.store.read(run.run_id, after=3) == run.events[3:]
            (record,) = await engine.store.runs("completed")
            assert (record.run_id, record.plan_name) == (run.run_id, "lab")

    asyncio.run(main())


@pytest.mark.parametrize("store", [MemoryStore, Noted])
def test_a_run_that_says_checkpoint_false_stays_out_of_the_store(lab, store):
    store = store()

    async def main():
        async with lab.engine(store=store) as engine:
            run = await engine.start(lab.plan(lab.node("a"), checkpoint=False))
            await run
            assert run.status == "completed"
            assert await store.read(run.run_id) == []
            assert await store.runs() == []

    asyncio.run(main())


def test_arguments_are_on_record_as_written_with_a_digest(lab):
    run = lab.run(
        lab.node("a", args={"value": "body"}),
        lab.node("b", args={"value": "text {artifacts.a}"}, after="a"),
        lab.node("c", args={"value": "text {artifacts.a}"}, after="a"),
    )
    written = {node["id"]: node["args"] for node in run.events[0].data["plan"]["nodes"]}
    assert written["b"] == {"value": "text {artifacts.a}"}
    digests = {
        e.data["node_id"]: e.data["digest"] for e in run.events if e.type == ev.NODE_FINISHED
    }
    assert digests["b"] == digests["c"] != digests["a"]
    assert all(len(digest) == 32 for digest in digests.values())


def test_the_digest_is_of_the_arguments_as_they_were_before_the_tool_changed_them(lab):
    async def spoils(value):
        value.append("changed")
        return 1

    lab.tool(spoils)

    async def main():
        spoiling = lab.node("a", "spoils", {"value": ["x", {"y": 1}]})
        runs = [await lab.finish(spoiling) for _ in range(2)]
        return [e.data["digest"] for run in runs for e in run.events if e.type == ev.NODE_FINISHED]

    one, two = asyncio.run(main())
    assert one == two


def test_the_arguments_of_a_plan_are_not_changed_by_a_tool_that_changes_its_own(lab):
    async def spoils(value):
        value.append("changed")
        return len(value)

    lab.tool(spoils)
    plan = lab.plan(lab.node("a", "spoils", {"value": ["x"]}))

    async def main():
        async with lab.engine() as engine:
            for _ in range(2):
                await (await engine.start(plan))
                assert lab.memory["a"] == 2

    asyncio.run(main())
    assert plan.nodes[0].args == {"value": ["x"]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"store": 5},
        {"memory": 5},
        {"memory": {}},
        {"registry": 5},
        {"allowed_tools": 5},
        {"env": "x"},
    ],
)
def test_an_engine_says_what_it_cannot_be_made_of(wrong):
    with pytest.raises(ConfigurationError):
        Engine(**wrong)


def test_an_engine_runs_plans_only_and_takes_parameters_as_a_map():
    plan = ExecutionPlan(name="p", objective="o", nodes=[PlanNode(id="a", tool="t")])

    async def main():
        async with Engine() as engine:
            with pytest.raises(ConfigurationError, match="the engine runs an ExecutionPlan"):
                await engine.start("name: x")
            for params in ([1], "x", ""):
                with pytest.raises(ConfigurationError, match="params is a map"):
                    await engine.start(plan, params)

    asyncio.run(main())


def test_an_allowed_tool_given_as_text_is_one_pattern():
    def t():
        return 1

    plan = ExecutionPlan(name="p", objective="o", nodes=[PlanNode(id="a", tool="t")])

    async def main(allowed):
        async with Engine(registry=[t], allowed_tools=allowed) as engine:
            return (await (await engine.start(plan)).result()).status

    assert asyncio.run(main("t*")) == "completed"
    with pytest.raises(PlanInvalid, match=r"not allowed here.*\(allowed: github_read\)"):
        asyncio.run(main("github_read"))
