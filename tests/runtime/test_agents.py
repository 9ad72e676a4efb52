"""Runs of algorithms: their names, their end, what they leave behind, what a parent owns."""

import asyncio
import gc
import shutil
import weakref

import pandas as pd
import pytest

from planbench import events as ev
from planbench.algos import PlanAndExecute, ToolLoop
from planbench.checkpoints import MemoryStore
from planbench.errors import ConfigurationError, RunRefused, StoreError, ToolError
from planbench.llm import FakeLLMClient, LLMHandler, Message, ModelRequest
from planbench.llm.fake import text
from planbench.memory import TaskMemoryRuntime, TaskScope
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.runtime import Budget, Engine, replay
from planbench.tools import ToolHandler


class Does:
    """An algorithm that is a function."""

    def __init__(self, function, name="does", **more):
        self.function = function
        self.name = name
        vars(self).update(more)

    async def run(self, agent, inputs):
        return await self.function(agent, inputs)


def ask(words="hello"):
    return ModelRequest([Message(role="user", content=words)])


def model(**fields):
    return LLMHandler(FakeLLMClient(lambda request: text(request.messages[-1].content, **fields)))


async def alone():
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def until(condition):
    """Let the loop go on until something has come about, at most a minute."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def ended(function, inputs=None, **options):
    """Run a function as an algorithm to its end; nothing may be left behind."""
    engine_options = options.pop("engine", {})
    async with Engine(**engine_options) as engine:
        model().attach(engine)
        run = await engine.start(Does(function), inputs, **options)
        outcome = await run.result()
        assert replay(run.events).manifest() == run.manifest()
    await alone()
    return run, outcome


# how a run ends


def test_what_an_algorithm_gives_is_the_value_of_its_run():
    async def work(agent, inputs):
        return {"twice": 2 * inputs["x"]}

    run, outcome = asyncio.run(ended(work, {"x": 4}))

    assert (outcome.status, outcome.value, outcome.reason) == ("success", {"twice": 8}, None)
    assert [event.type for event in run.events] == [ev.RUN_STARTED, ev.RUN_FINISHED]
    assert run.refs["does"].status == "ok"
    assert run.plan.name == "does"


def test_an_error_of_an_algorithm_is_the_failure_of_its_run_and_of_nothing_else():
    async def work(agent, inputs):
        agent.partial = ["half"]
        raise KeyError("gone")

    run, outcome = asyncio.run(ended(work))

    assert (outcome.status, outcome.value) == ("failed", ["half"])
    assert outcome.reason == "KeyError: 'gone'"
    assert run.verdict() == "red"
    assert "KeyError" in run.failure_text()
    assert run.manifest().status == "failed"


def test_errors_of_this_package_speak_for_themselves():
    async def work(agent, inputs):
        raise ToolError("the tool is broken")

    run, outcome = asyncio.run(ended(work))

    assert outcome.reason == "the tool is broken"
    assert run.state.code == "tool_error"


def test_a_cancelled_run_says_so_and_holds_what_it_had():
    async def main():
        begun = asyncio.Event()

        async def work(agent, inputs):
            agent.partial = 7
            begun.set()
            await asyncio.sleep(60)

        async with Engine() as engine:
            run = await engine.start(Does(work))
            await begun.wait()
            run.cancel()
            outcome = await run.result()
        await alone()
        assert (outcome.status, outcome.value) == ("cancelled", 7)
        assert run.verdict() == "cancelled"
        assert run.events[-1].type == ev.RUN_CANCELLED

    asyncio.run(main())


def test_whoever_is_cancelled_while_waiting_cancels_the_run_and_its_children():
    async def main():
        begun = asyncio.Event()

        async def inner(agent, inputs):
            begun.set()
            await asyncio.sleep(60)

        async def outer(agent, inputs):
            return await agent.child(Does(inner, "inner"), {}, step_id="s")

        store = MemoryStore()
        async with Engine(store) as engine:
            run = await engine.start(Does(outer, "outer"))

            async def wait():
                await run.result()

            waiting = asyncio.create_task(wait())
            await begun.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert {one.status for one in await store.runs()} == {"cancelled"}
        await alone()

    asyncio.run(main())


def test_leaving_the_engine_ends_a_whole_tree():
    async def main():
        begun = asyncio.Event()
        started = []

        async def inner(agent, inputs):
            started.append(agent)
            if len(started) == 5:
                begun.set()
            await asyncio.sleep(60)

        async def outer(agent, inputs):
            await asyncio.gather(
                *(agent.child(Does(inner, f"i{n}"), {}, step_id=str(n)) for n in range(5))
            )

        store = MemoryStore()
        async with Engine(store) as engine:
            await engine.start(Does(outer, "outer"))
            await begun.wait()
        await alone()
        records = await store.runs()
        assert len(records) == 6
        assert {one.status for one in records} == {"cancelled"}

    asyncio.run(main())


def test_a_run_that_is_cancelled_before_its_first_step_is_cancelled():
    async def main():
        async def work(agent, inputs):
            raise AssertionError("it ran")

        async with Engine() as engine:
            run = await engine.start(Does(work))
            run.root.cancel()
            outcome = await run.result()
            assert (outcome.status, outcome.value) == ("cancelled", None)

    asyncio.run(main())


def test_an_interrupt_within_an_algorithm_is_on_record():
    async def work(agent, inputs):
        raise SystemExit(3)

    async def main():
        async with Engine() as engine:
            run = await engine.start(Does(work))
            return run, await run.result()

    with pytest.raises(SystemExit):
        asyncio.run(main())


# what is left at work


def test_what_an_algorithm_left_at_work_is_ended_with_it():
    begun, ends, kept = [], [], []

    async def child(agent, inputs):
        begun.append("child")
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("child")

    async def slow():
        begun.append("tool")
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("tool")

    async def work(agent, inputs):
        kept.append(asyncio.create_task(agent.child(Does(child, "c"), {}, step_id="c")))
        kept.append(asyncio.create_task(agent.call_tool("slow", {})))
        await until(lambda: len(begun) == 2)
        return "early"

    async def main():
        async with Engine(registry=[slow]) as engine:
            run = await engine.start(Does(work))
            outcome = await run.result()
            assert outcome.value == "early"
            [child_end] = [e for e in run.events if e.type == ev.CHILD_FINISHED]
            assert child_end.data["status"] == "cancelled"
            assert run.events[-1].type == ev.RUN_FINISHED
            assert not engine._live
        await alone()

    asyncio.run(main())
    assert sorted(ends) == ["child", "tool"]


def test_an_agent_cannot_be_asked_after_its_run_has_ended():
    kept = []

    async def work(agent, inputs):
        kept.append(agent)

    async def main():
        await ended(work)
        with pytest.raises(RuntimeError, match="has ended"):
            await kept[0].complete(ask())

    asyncio.run(main())


def test_an_ended_run_holds_neither_its_algorithm_nor_its_agent():
    async def main():
        async with Engine() as engine:
            algorithm = ToolLoop()
            model().attach(engine)
            run = await engine.start(algorithm, {"task": "t"})
            await run.result()
            seen = weakref.ref(algorithm)
            del algorithm
            gc.collect()
            assert seen() is None
            assert run.outcome().value == {"text": "t"}

    asyncio.run(main())


# children


def test_a_child_is_a_run_of_its_own_and_its_spend_is_its_parents_too():
    async def inner(agent, inputs):
        return (await agent.complete(ask(inputs["words"]))).content

    async def outer(agent, inputs):
        first = await agent.child(Does(inner, "inner"), {"words": "one"}, step_id="a")
        await agent.complete(ask())
        return first.value

    async def main():
        async with Engine(MemoryStore()) as engine:
            model(input_tokens=7, cost=0.5).attach(engine)
            run = await engine.start(Does(outer, "outer"))
            outcome = await run.result()
            records = {one.run_id: one for one in await engine.runs()}
            return run, outcome, records

    run, outcome, records = asyncio.run(main())
    assert outcome.value == "one"
    assert outcome.usage[:4] == (2, 14, 0, 1.0)
    [started] = [e.data for e in run.events if e.type == ev.CHILD_STARTED]
    child = records[started["run_id"]]
    assert (child.plan_name, child.status) == ("inner", "success")
    assert (child.parent_run_id, child.root_run_id) == (run.run_id, run.run_id)
    [finished] = [e.data for e in run.events if e.type == ev.CHILD_FINISHED]
    assert (finished["step_id"], finished["status"], finished["value"]) == ("a", "success", "one")
    assert finished["usage"]["cost"] == 0.5


def test_a_failed_child_is_told_and_not_raised():
    async def inner(agent, inputs):
        raise ValueError("no")

    async def outer(agent, inputs):
        outcome = await agent.child(Does(inner, "inner"), {}, step_id="a")
        return [outcome.status, outcome.reason]

    _, outcome = asyncio.run(ended(outer))
    assert outcome.value == ["failed", "ValueError: no"]


def test_a_cancelled_child_does_not_cancel_its_parent():
    async def main():
        begun = asyncio.Event()

        async def inner(agent, inputs):
            begun.set()
            await asyncio.sleep(60)

        async def outer(agent, inputs):
            return (await agent.child(Does(inner, "inner"), {}, step_id="a")).status

        async with Engine() as engine:
            run = await engine.start(Does(outer, "outer"))
            await begun.wait()
            child = next(e.data["run_id"] for e in run.events if e.type == ev.CHILD_STARTED)
            engine._live[child].cancel()
            assert (await run.result()).value == "cancelled"

    asyncio.run(main())


def test_the_same_step_can_have_several_children():
    async def inner(agent, inputs):
        return agent.run_id

    async def outer(agent, inputs):
        return [(await agent.child("inner", {}, step_id="again")).value for _ in range(3)]

    async def main():
        async with Engine() as engine:
            engine.register(Does(inner, "inner"))
            run = await engine.start(Does(outer, "outer"))
            return (await run.result()).value

    assert len(set(asyncio.run(main()))) == 3


# names


def test_a_name_belongs_to_one_algorithm():
    async def main():
        async with Engine() as engine:
            one, other = ToolLoop(), ToolLoop()
            engine.register(one)
            engine.register(one)
            with pytest.raises(ConfigurationError, match="tool_loop"):
                engine.register(other)
            with pytest.raises(ConfigurationError, match="tool_loop"):
                await engine.start(PlanAndExecute(other), {"task": "t"})
            engine.register(ToolLoop(name="another"))
            assert await engine.store.runs() == []

    asyncio.run(main())


def test_the_executors_of_an_algorithm_are_registered_with_it():
    async def main():
        async with Engine() as engine:
            agent = PlanAndExecute(ToolLoop(name="worker"))
            engine.register(agent)
            assert engine.agents.known("worker") is agent.executor
            with pytest.raises(ConfigurationError, match="worker"):
                engine.register(ToolLoop(name="worker"))

    asyncio.run(main())


def test_a_name_is_free_again_when_the_runs_of_an_algorithm_that_nobody_registered_have_ended():
    async def main():
        held = []  # as the cells of a notebook hold what they showed
        async with Engine() as engine:
            model().attach(engine)
            for _ in range(3):  # a cell that is run again
                agent = PlanAndExecute(ToolLoop())
                held.append(agent)
                run = await engine.start(agent, {"task": "t"})
                await run.result()
            assert engine.agents.known("tool_loop") is held[-1].executor

    asyncio.run(main())


def test_while_a_run_is_at_work_no_other_algorithm_has_its_name():
    async def main():
        begun, gate = asyncio.Event(), asyncio.Event()

        async def answer(request):
            begun.set()
            await gate.wait()
            return text("done")

        async with Engine() as engine:
            LLMHandler(FakeLLMClient(answer)).attach(engine)
            run = await engine.start(ToolLoop(), {"task": "t"})
            await begun.wait()
            with pytest.raises(ConfigurationError, match="tool_loop"):
                await engine.start(PlanAndExecute(ToolLoop()), {"task": "t"})
            gate.set()
            assert (await run.result()).status == "success"
            again = await engine.start(ToolLoop(), {"task": "t"})
            assert (await again.result()).status == "success"

    asyncio.run(main())


def test_two_executors_of_one_algorithm_have_two_names():
    async def main():
        inner = PlanAndExecute(ToolLoop(name="one"), name="other")
        async with Engine() as engine:
            agent = PlanAndExecute(inner, name="one")
            with pytest.raises(ConfigurationError, match="'one'"):
                await engine.start(agent, {"task": "t"})
            with pytest.raises(ConfigurationError, match="'one'"):
                engine.register(agent)
            engine.register(ToolLoop(name="one"))  # nothing of the refused one was kept

    asyncio.run(main())


@pytest.mark.parametrize("work", [None, "plan", ToolLoop, object(), {"name": "x"}, lambda: None])
def test_what_cannot_be_run_is_refused(work):
    async def main():
        async with Engine() as engine:
            with pytest.raises(ConfigurationError, match="an ExecutionPlan or an algorithm"):
                await engine.start(work)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, None, 3])
def test_an_algorithm_needs_a_name(name):
    async def work(agent, inputs):
        return None

    async def main():
        async with Engine() as engine:
            with pytest.raises(ConfigurationError, match="name of an algorithm"):
                await engine.start(Does(work, name))

    asyncio.run(main())


def test_inputs_that_cannot_be_recorded_are_refused():
    async def work(agent, inputs):
        return None

    async def main():
        async with Engine() as engine:
            with pytest.raises(ConfigurationError, match="inputs of 'does'"):
                await engine.start(Does(work), {"x": object()})
            assert await engine.store.runs() == []

    asyncio.run(main())


# telling


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (ev.RUN_FINISHED, {"status": "success"}),
        (ev.LLM_CALLED, {}),
        (ev.CHILD_FINISHED, {}),
        (ev.NODE_FINISHED, {}),
        ("", {}),
        (ev.TASK_STARTED, {}),
        (ev.TASK_FAILED, {"step_id": 3}),
        (ev.PLAN_CREATED, {}),
        (ev.PLAN_CREATED, {"steps": []}),
        (ev.PLAN_CREATED, {"steps": [{"id": "a"}]}),
        (ev.PLAN_CREATED, {"steps": [{"id": "a", "description": "", "depends_on": ["b"]}]}),
        ("mine", {"value": object()}),
    ],
)
def test_what_the_engine_tells_or_cannot_read_is_refused(kind, data):
    async def work(agent, inputs):
        with pytest.raises(ConfigurationError):
            agent.emit(kind, data)
        return len(agent.run.events)

    _, outcome = asyncio.run(ended(work))
    assert outcome.value == 1


def test_an_algorithm_can_tell_events_of_its_own():
    async def work(agent, inputs):
        agent.emit("mine.noted", {"what": [1, 2]})

    run, _ = asyncio.run(ended(work))
    assert [e.data for e in run.events if e.type == "mine.noted"] == [{"what": [1, 2]}]


def test_half_of_a_sign_in_what_is_told_becomes_a_question_mark():
    async def work(agent, inputs):
        agent.emit("mine.noted", {"what": ["name-\udcff.txt", 2]})

    run, outcome = asyncio.run(ended(work))
    assert outcome.status == "success", outcome.reason
    assert [e.data for e in run.events if e.type == "mine.noted"] == [{"what": ["name-?.txt", 2]}]


def test_steps_without_a_plan_are_told_and_not_drawn():
    async def work(agent, inputs):
        agent.emit(ev.TASK_STARTED, {"step_id": "a"})
        agent.emit(ev.TASK_FINISHED, {"step_id": "a"})

    run, outcome = asyncio.run(ended(work))
    assert outcome.status == "success"
    assert list(run.refs) == ["does"]


# values


class Odd:
    def __init__(self):
        self.x = 1


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        "text",
        "x" * 100_000,
        b"\x00bytes",
        [1, (2, 3)],
        {"a": {1, 2}},
        float("inf"),
        pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("durable", [False, True])
def test_values_come_back_from_the_record_as_they_were(value, durable, tmp_path):
    """From a tool, from a child, and as the value of the run: equal, without being made again."""
    made = []

    async def give():
        made.append("tool")
        return value

    async def inner(agent, inputs):
        made.append("child")
        return value

    inner = Does(inner, "inner")
    seen = []

    async def outer(agent, inputs):
        seen.append(
            [
                await agent.call_tool("give", {}),
                (await agent.child(inner, {}, step_id="a")).value,
                inputs["x"],
            ]
        )
        if len(seen) == 1:
            await asyncio.sleep(60)
        return value

    def same(one):
        return one.equals(value) if isinstance(value, pd.DataFrame) else one == value

    async def main():
        options = {}
        if durable:
            options["task_memory_runtime"] = TaskMemoryRuntime(str(tmp_path))
            options["scope"] = TaskScope("tests")
            await options["task_memory_runtime"].start()
        async with Engine(MemoryStore(), [give], **options) as engine:
            work = Does(outer, "outer")
            run = await engine.start(work, {"x": value})
            await until(lambda: seen)
            run.cancel()
            await run.result()
            again = await engine.resume(run.run_id, work)
            outcome = await again.result()
            log = await engine.store.read(run.run_id)
        assert made == ["tool", "child"]
        assert all(same(one) for row in seen for one in row)
        assert same(outcome.value)
        if isinstance(value, str) and len(value) > 50_000:
            kept = [e for e in log if "artifact" in e.data]
            assert (len(kept) > 0) is durable
            assert (max(len(str(e.data)) for e in log) < 50_000) is durable
        if durable:
            await options["task_memory_runtime"].close()
        await alone()

    asyncio.run(main())


def test_what_no_record_can_hold_comes_as_plain_data_both_times():
    def give():
        return {"odd": Odd(), "n": 1}

    seen = []

    async def work(agent, inputs):
        seen.append(await agent.call_tool("give", {}))

    asyncio.run(ended(work, engine={"registry": [give]}))
    assert seen[0]["n"] == 1
    assert isinstance(seen[0]["odd"], str)


def test_artifacts_that_are_gone_are_said_to_be(tmp_path):
    async def give():
        return "x" * 100_000

    ready = []

    async def work(agent, inputs):
        await agent.call_tool("give", {})
        ready.append(True)
        if len(ready) == 1:
            await asyncio.sleep(60)

    async def main():
        store = MemoryStore()
        algorithm = Does(work)
        async with TaskMemoryRuntime(str(tmp_path)) as runtime:
            scope = TaskScope("tests")
            options = {"task_memory_runtime": runtime, "scope": scope}
            async with Engine(store, [give], **options) as engine:
                run = await engine.start(algorithm)
                await until(lambda: ready)
            for file in tmp_path.rglob("*.txt"):
                file.unlink()
            async with Engine(store, [give], **options) as engine:
                again = await engine.resume(run.run_id, algorithm)
                outcome = await again.result()
        assert outcome.status == "failed"
        assert again.state.code == "artifacts_unavailable"

    asyncio.run(main())


def test_a_result_that_cannot_be_stored_interrupts_the_run(tmp_path):
    async def work(agent, inputs):
        folder = tmp_path / "artifacts"
        for place in [folder, *folder.rglob("*")]:
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
        folder.write_text("no folder any more")
        return "x" * 100_000

    async def main():
        async with TaskMemoryRuntime(str(tmp_path / "artifacts")) as runtime:
            scope = TaskScope("tests")
            async with Engine(task_memory_runtime=runtime, scope=scope) as engine:
                run = await engine.start(Does(work))
                with pytest.raises(StoreError):
                    await run.result()
                assert run.status == "interrupted"
                assert run.events[-1].type == ev.RUN_INTERRUPTED
            (tmp_path / "artifacts").unlink()

    asyncio.run(main())


# hosts


def test_a_scope_of_its_own_is_on_record_and_must_be_the_hosts_on_a_resume():
    async def work(agent, inputs):
        raise ValueError("no")

    async def main():
        async with Engine(MemoryStore()) as engine:
            algorithm = Does(work)
            run = await engine.start(algorithm, scope=TaskScope("other"))
            await run.result()
            assert run.events[0].data["scope"]["namespace"] == "other"
            with pytest.raises(RunRefused) as caught:
                await engine.resume(run.run_id, algorithm)
            assert caught.value.code == "scope_mismatch"

    asyncio.run(main())


def test_a_run_of_an_algorithm_takes_no_other_plan():
    async def work(agent, inputs):
        raise ValueError("no")

    async def main():
        async with Engine(MemoryStore()) as engine:
            run = await engine.start(Does(work))
            await run.result()
            plan = ExecutionPlan(name="p", objective="o", nodes=[PlanNode(id="a", tool="t")])
            with pytest.raises(RunRefused) as caught:
                await engine.fork(run.run_id, plan)
            assert caught.value.code == "run_not_resumable"
            with pytest.raises(RunRefused) as caught:
                await engine.repair(run.run_id, None)
            assert caught.value.code == "run_not_repairable"

    asyncio.run(main())


class Failing(MemoryStore):
    """A store that fails from some append on."""

    def __init__(self, good):
        super().__init__()
        self.good = good

    def adopt(self, run_id, journal):
        return False

    async def append(self, run_id, events, lease=None):
        self.good -= 1
        if self.good < 0:
            raise StoreError("the disk is full")
        await super().append(run_id, events, lease)


@pytest.mark.parametrize("good", [1, 2, 3, 4, 6])
def test_a_store_that_fails_ends_the_whole_tree_and_says_so(good):
    async def inner(agent, inputs):
        for i in range(3):
            await agent.complete(ask(str(i)))

    async def outer(agent, inputs):
        await asyncio.gather(
            *(agent.child(Does(inner, f"i{n}"), {}, step_id=str(n)) for n in range(3))
        )

    async def main():
        async with Engine(Failing(good)) as engine:
            model().attach(engine)
            run = await engine.start(Does(outer, "outer"))
            with pytest.raises(StoreError, match="the disk is full"):
                await run.result()
            assert run.status == "interrupted"
            assert not engine._live
        await alone()

    asyncio.run(main())


def test_a_handler_makes_its_tools_those_of_the_engine():
    def one() -> int:
        return 1

    async def work(agent, inputs):
        return await agent.call_tool("one", {})

    async def main():
        async with Engine() as engine:
            handler = ToolHandler([one]).attach(engine)
            assert engine.registry is handler.registry
            return (await (await engine.start(Does(work))).result()).value

    assert asyncio.run(main()) == 1


def test_a_live_run_is_busy():
    async def main():
        gate = asyncio.Event()

        async def work(agent, inputs):
            await gate.wait()

        async with Engine(MemoryStore()) as engine:
            algorithm = Does(work)
            run = await engine.start(algorithm, budget=Budget(max_tokens=5))
            with pytest.raises(RunRefused) as caught:
                await engine.resume(run.run_id, algorithm)
            assert caught.value.code == "run_busy"
            gate.set()
            assert (await run.result()).status == "success"

    asyncio.run(main())
