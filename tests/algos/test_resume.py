"""Continuing algorithms: what is on record is given again, and only the rest is asked."""

import asyncio
import json
import random
from collections import Counter

import pytest

from planbench import events as ev
from planbench.algos import PlanAndExecute, ToolLoop
from planbench.checkpoints import MemoryStore
from planbench.errors import ConfigurationError, ModelError, RunRefused
from planbench.llm import FakeLLMClient, LLMHandler, Message, ModelRequest
from planbench.llm.fake import text, tool_call
from planbench.runtime import Budget, Engine, replay


class Journal(MemoryStore):
    """A store that is appended to, and remembers in which order everything came."""

    def __init__(self, batches=()):
        super().__init__()
        self.batches = list(batches)

    def adopt(self, run_id, journal):
        return False

    async def append(self, run_id, events, lease=None):
        await super().append(run_id, events, lease)
        self.batches += [(run_id, event) for event in events]

    async def cut(self, count):
        """Give a store that knows the first events only, as after a crash."""
        left = Journal()
        for run_id, event in self.batches[:count]:
            await left.append(run_id, [event])
        return left


async def until(condition):
    """Let the loop go on until something has come about, at most a minute."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


def first_run(store):
    return store.batches[0][0]


def recorded_calls(batches):
    return sum(event.type == ev.LLM_CALLED for _, event in batches)


def tools_of(calls):
    async def look(what: str) -> str:
        calls.append(what)
        return f"seen {what}"

    return [look]


def script(stage):
    """Each step looks something up and answers with it; step b fails once its tool has run."""

    def step(request, step_id):
        if request.messages[-1].role != "tool":
            return tool_call("look", what=step_id)
        if step_id == "b":
            return text("", refusal="no way", **stage.usage)
        return f"{request.messages[-1].content}!"

    return step


@pytest.fixture
def tree(stage, plan_of):
    """A plan whose step b fails; what was not begun by then is planned again."""

    async def answer(request):
        question = request.messages[-1].content
        if "planner" in request.messages[0].content and "a step failed" in question:
            stage.asked.append("planner")
            left = question.partition("Not begun")[2]
            again = {one: "" for one in "cd" if f'"id": "{one}"' in left}
            return text(plan_of(b2="a", e="b2", **again), **stage.usage)
        return await plain(request)

    plain = stage.answer
    stage.answer = answer
    stage.client = FakeLLMClient(answer, reports_cost=True)
    stage.plans = [plan_of(a="", b="", c="", d="a", e="b")]
    stage.step = script(stage)
    return stage


def steps_in(outcome):
    return {name.removeprefix("r1-") for name in outcome.value["results"]}


async def whole(stage, store, seed, **options):
    """Run to the end, with a model whose answers take different times."""
    dice = random.Random(seed)
    plain = stage.answer

    async def answer(request):
        for _ in range(dice.randrange(6)):
            await asyncio.sleep(0)
        return await plain(request)

    calls = []
    client = FakeLLMClient(answer, reports_cost=True)
    async with stage.engine(client, store) as engine:
        agent = stage.agent(ToolLoop(tools_of(calls)), **options)
        run = await engine.start(agent, {"task": "t"})
        return await run.result(), calls


@pytest.mark.parametrize("parallel", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_wherever_a_run_breaks_off_the_rest_of_it_comes_to_the_same_end(tree, seed, parallel):
    async def main():
        full = Journal()
        outcome, _ = await whole(tree, full, seed, max_parallel=parallel)
        assert outcome.status == "success"
        total = recorded_calls(full.batches)
        for count in range(1, len(full.batches)):
            store = await full.cut(count)
            known = recorded_calls(store.batches)
            tree.asked.clear()
            done = {
                e.data["step_id"]
                for _, e in store.batches
                if e.type == ev.CHILD_FINISHED and e.data["status"] == "success"
            }
            calls = []
            async with tree.engine(store=store) as engine:
                agent = tree.agent(ToolLoop(tools_of(calls)), max_parallel=parallel)
                run = await engine.resume(first_run(full), agent)
                again = await run.result()
            assert again.status == "success", (count, again)
            assert again.usage[:3] == outcome.usage[:3], count
            assert again.usage.cost == pytest.approx(outcome.usage.cost)
            assert len(tree.asked) == total - known, count
            assert again.value["text"] == outcome.value["text"]
            assert steps_in(again) == steps_in(outcome)
            assert not done & set(calls), count
            assert replay(run.events).manifest() == run.manifest()

    asyncio.run(main())


def test_with_the_whole_journal_no_model_and_no_tool_is_needed(tree, deaf_client):
    async def main():
        full = Journal()
        outcome, _ = await whole(tree, full, 1)
        store = await full.cut(len(full.batches) - 1)
        assert full.batches[-1][1].type == ev.RUN_FINISHED
        calls = []
        async with tree.engine(deaf_client, store) as engine:
            run = await engine.resume(first_run(full), tree.agent(ToolLoop(tools_of(calls))))
            again = await run.result()
        assert again.value == outcome.value
        assert again.usage[:4] == outcome.usage[:4]
        assert calls == []
        news = [event.type for _, event in store.batches[len(full.batches) - 1 :]]
        assert news == [ev.RUN_INTERRUPTED, ev.RUN_CONTINUED, ev.RUN_FINISHED]

    asyncio.run(main())


@pytest.mark.parametrize(
    "value",
    [float("inf"), float("nan"), [[]], 2**70, -0.0, "half \ud800", {"half \ud800": 1}, "deep"],
    ids=repr,
)
def test_whatever_a_model_asks_for_a_run_can_be_resumed_from_its_record(stage, deaf_client, value):
    value = json.loads("[" * 300 + "]" * 300) if value == "deep" else value
    calls = []

    def look(what: object) -> str:
        calls.append(what)
        return "seen"

    async def main():
        full = Journal()
        left = [tool_call("look", what=value), text("done")]
        async with stage.engine(FakeLLMClient(lambda _: left.pop(0)), full) as engine:
            run = await engine.start(ToolLoop([look]), {"task": "t"})
            assert (await run.result()).status == "success"
        made = len(calls)
        store = await full.cut(len(full.batches) - 1)
        async with stage.engine(deaf_client, store) as engine:
            run = await engine.resume(first_run(full), ToolLoop([look]))
            assert (await run.result()).value == {"text": "done"}
        assert len(calls) == made

    asyncio.run(main())


def test_a_run_that_came_to_its_end_is_not_resumed(stage):
    async def main():
        async with stage.engine() as engine:
            agent = stage.agent()
            run = await engine.start(agent, {"task": "t"})
            await run.result()
            with pytest.raises(RunRefused) as caught:
                await engine.resume(run.run_id, agent)
        assert caught.value.code == "run_not_resumable"

    asyncio.run(main())


def test_a_finished_journal_tells_the_outcome_without_running_anything(stage):
    async def main():
        async with stage.engine() as engine:
            run = await engine.start(stage.agent(), {"task": "t"})
            outcome = await run.result()
            history = await engine.history(run.run_id)
        assert history.state.status == "success"
        assert history.state.agent.ended["value"] == outcome.value
        assert history.state.agent.spent == outcome.usage[:4]

    asyncio.run(main())


def test_a_cancelled_run_goes_on_where_it_was(stage):
    async def main():
        gate = asyncio.Event()

        async def step(request, step_id):
            if step_id == "c":
                await gate.wait()
            return step_id

        stage.step = step
        agent = stage.agent()
        async with stage.engine() as engine:
            run = await engine.start(agent, {"task": "t"})
            await until(lambda: "c" in stage.asked)
            run.cancel()
            outcome = await run.result()
            assert outcome.status == "cancelled"
            assert outcome.value == {"results": {"a": "a", "b": "b"}}
            assert run.state.nodes["c"].status == "cancelled"
            gate.set()
            again = await engine.resume(run.run_id, agent)
            assert again.run_id == run.run_id
            outcome = await again.result()
        assert outcome.status == "success"
        assert outcome.value["results"] == {one: one for one in "abc"}
        assert stage.asked == ["planner", "a", "b", "c", "c", "combine"]
        assert again.nodes_done == 3
        assert {ref.status for ref in again.refs.values()} == {"ok"}

    asyncio.run(main())


def test_what_failed_is_tried_again_when_the_run_is_resumed(stage):
    down = True

    def step(request, step_id):
        if down and step_id == "b":
            raise ModelError("model_unreachable", "nobody there")
        return step_id

    stage.step = step

    async def main():
        nonlocal down
        agent = stage.agent(max_replans=0)
        async with stage.engine() as engine:
            run = await engine.start(agent, {"task": "t"})
            outcome = await run.result()
            assert (outcome.status, outcome.reason) == ("failed", "nobody there")
            down = False
            again = await engine.resume(run.run_id, agent)
            outcome = await again.result()
        assert outcome.status == "success"
        assert stage.asked == ["planner", "a", "b", "b", "c", "combine"]
        statuses = [e.type.rpartition(".")[2] for e in again.events if e.data.get("step_id") == "b"]
        before, after = statuses[:4], statuses[4:]
        assert before == ["started", "started", "finished", "failed"]
        assert after == ["started", "finished", "finished"]

    asyncio.run(main())


def test_a_failure_that_the_run_went_on_from_stays_one(stage, plan_of, deaf_client):
    stage.plans = [plan_of(a="", b=""), plan_of(c="a")]
    healthy = False

    def step(request, step_id):
        if step_id == "b" and not healthy:
            raise ModelError("model_unreachable", "nobody there")
        return step_id

    stage.step = step

    async def main():
        nonlocal healthy
        full = Journal()
        async with stage.engine(store=full) as engine:
            outcome = await (await engine.start(stage.agent(), {"task": "t"})).result()
        healthy = True
        store = await full.cut(len(full.batches) - 1)
        async with stage.engine(deaf_client, store) as engine:
            again = await (await engine.resume(first_run(full), stage.agent())).result()
        assert again.value == outcome.value
        assert list(again.value["results"]) == ["a", "r1-c"]

    asyncio.run(main())


@pytest.mark.parametrize("what", ["prompt", "task of a step", "tool call"])
def test_a_record_that_does_not_fit_what_is_asked_now_is_refused(stage, what):
    def step(request, step_id):
        if request.messages[-1].role != "tool":
            return tool_call("look", what=step_id)
        raise ModelError("model_unreachable", "nobody there")

    stage.step = step

    class Odd(ToolLoop):
        async def run(self, agent, inputs):
            if what == "tool call":
                inputs = {**inputs, "task": inputs["task"] + " quickly"}
            return await super().run(agent, inputs)

    class OddPlan(PlanAndExecute):
        async def run(self, agent, inputs):
            if what == "task of a step":
                child = agent.child
                agent.child = lambda a, i, **more: child(a, {**i, "task": "other"}, **more)
            return await super().run(agent, inputs)

    async def main():
        calls = []
        full = Journal()
        async with stage.engine(store=full) as engine:
            agent = stage.agent(ToolLoop(tools_of(calls)), max_replans=0)
            run = await engine.start(agent, {"task": "t"})
            assert (await run.result()).status == "failed"
        asked, called = len(stage.asked), len(calls)
        system = "You are another planner." if what == "prompt" else None
        more = {} if system is None else {"planner_system": system}
        async with stage.engine(store=full) as engine:
            agent = OddPlan(Odd(tools_of(calls)), max_replans=0, **more)
            run = await engine.resume(first_run(full), agent)
            with pytest.raises(RunRefused) as caught:
                await run.result()
            assert caught.value.code == "run_not_resumable"
            assert "does not fit its record" in caught.value.message
            assert (len(stage.asked), len(calls)) == (asked, called)
            # it is left as it was, and goes on with the right prompts
            assert (await engine.history(run.run_id)).state.status == "interrupted"
        stage.step = lambda request, step_id: (
            step_id if len(request.messages) > 3 else tool_call("look", what=step_id)
        )
        async with stage.engine(store=full) as engine:
            agent = stage.agent(ToolLoop(tools_of(calls)), max_replans=0)
            outcome = await (await engine.resume(run.run_id, agent)).result()
            assert outcome.status == "success"

    asyncio.run(main())


def test_another_model_or_tool_description_is_no_other_question(stage):
    async def main():
        full = Journal()
        async with stage.engine(store=full) as engine:
            await (await engine.start(stage.agent(), {"task": "t"})).result()
        store = await full.cut(len(full.batches) - 1)
        async with stage.engine(store=store) as engine:
            agent = stage.agent(ToolLoop(tools_of([]), model="other"), model="another")
            outcome = await (await engine.resume(first_run(full), agent)).result()
        assert outcome.status == "success"
        assert stage.asked == ["planner", "a", "b", "c", "combine"]

    asyncio.run(main())


def test_other_limits_on_a_resume_are_no_obstacle(tree):
    async def main():
        full = Journal()
        outcome, _ = await whole(tree, full, 3, max_parallel=3)
        store = await full.cut(len(full.batches) - 1)
        async with tree.engine(store=store) as engine:
            agent = tree.agent(ToolLoop(tools_of([])), max_parallel=1)
            again = await (await engine.resume(first_run(full), agent)).result()
        assert again.value == outcome.value

    asyncio.run(main())


def test_a_run_out_of_budget_goes_on_with_a_larger_one_and_counts_once(stage, plan_of):
    stage.plans = [plan_of(**{f"s{i}": "" for i in range(6)})]

    async def main():
        agent = stage.agent(max_parallel=1)
        async with stage.engine() as engine:
            run = await engine.start(agent, {"task": "t"}, budget=Budget(max_cost=0.035))
            outcome = await run.result()
            assert outcome.status == "budget_exceeded"
            assert outcome.usage.calls == 4
            again = await engine.resume(run.run_id, agent)
            outcome = await again.result()
            assert (outcome.status, outcome.usage.calls) == ("budget_exceeded", 4)
            again = await engine.resume(run.run_id, agent, budget=Budget(max_cost=0.055))
            outcome = await again.result()
            assert (outcome.status, outcome.usage.calls) == ("budget_exceeded", 6)
            again = await engine.resume(run.run_id, agent, budget=Budget(max_cost=1))
            outcome = await again.result()
        assert outcome.status == "success"
        assert outcome.usage.calls == len(stage.asked) == 8
        assert outcome.usage.cost == pytest.approx(0.08)
        assert len(outcome.value["results"]) == 6

    asyncio.run(main())


def test_the_spend_of_a_child_that_had_no_end_counts_when_the_tree_goes_on(tree):
    async def main():
        full = Journal()
        await whole(tree, full, 0)
        places = [
            i
            for i, (run_id, event) in enumerate(full.batches)
            if event.type == ev.LLM_CALLED and run_id != first_run(full)
        ]
        store = await full.cut(places[2] + 1)  # children at work, none of their spend rolled up
        spent = recorded_calls(store.batches)
        limit = 0.01 * spent
        async with tree.engine(store=store) as engine:
            agent = tree.agent(ToolLoop(tools_of([])))
            asked = len(tree.asked)
            run = await engine.resume(first_run(full), agent, budget=Budget(max_cost=limit))
            outcome = await run.result()
        assert outcome.status == "budget_exceeded"
        assert len(tree.asked) == asked
        assert outcome.usage.calls == spent

    asyncio.run(main())


def test_a_registered_algorithm_is_found_by_its_name(stage, deaf_client):
    async def main():
        full = Journal()
        async with stage.engine(store=full) as engine:
            await (await engine.start(stage.agent(), {"task": "t"})).result()
        store = await full.cut(len(full.batches) - 1)
        async with stage.engine(deaf_client, store) as engine:
            with pytest.raises(ConfigurationError, match="plan_and_execute"):
                await engine.resume(first_run(full))
            engine.register(stage.agent())
            outcome = await (await engine.resume(first_run(full))).result()
        assert outcome.status == "success"

    asyncio.run(main())


def test_a_child_alone_can_be_resumed_by_the_name_of_its_algorithm(stage):
    async def main():
        full = Journal()
        async with stage.engine(store=full) as engine:
            await (await engine.start(stage.agent(), {"task": "t"})).result()
        child = next(e.data["run_id"] for _, e in full.batches if e.type == ev.CHILD_STARTED)
        last = max(i for i, (run_id, e) in enumerate(full.batches) if run_id == child)
        store = await full.cut(last)
        async with stage.engine(store=store) as engine:
            engine.register(stage.agent())
            outcome = await (await engine.resume(child)).result()
        assert outcome.value == {"text": "result of a"}

    asyncio.run(main())


def test_another_algorithm_than_that_of_the_run_is_refused(stage):
    async def main():
        full = Journal()
        async with stage.engine(store=full) as engine:
            await (await engine.start(stage.agent(), {"task": "t"})).result()
        store = await full.cut(len(full.batches) - 1)
        async with stage.engine(store=store) as engine:
            with pytest.raises(RunRefused) as caught:
                await engine.resume(first_run(full), ToolLoop(name="other"))
        assert caught.value.code == "run_not_resumable"
        assert await store.lease(first_run(full)) is None

    asyncio.run(main())


def test_a_damaged_record_is_refused(stage):
    async def main():
        full = Journal()
        async with stage.engine(store=full) as engine:
            await (await engine.start(stage.agent(), {"task": "t"})).result()
        kinds = (
            ev.LLM_CALLED,
            ev.CHILD_STARTED,
            ev.CHILD_FINISHED,
            ev.RUN_STARTED,
            ev.PLAN_CREATED,
        )
        for place, (run_id, event) in enumerate(full.batches):
            if event.type in kinds and run_id == first_run(full):
                store = Journal()
                for at, (one, kept) in enumerate(full.batches[:-1]):
                    await store.append(one, [kept._replace(data={}) if at == place else kept])
                async with stage.engine(store=store) as engine:
                    with pytest.raises(RunRefused) as caught:
                        await engine.resume(first_run(full), stage.agent())
                assert caught.value.code == "checkpoint_invalid", event

    asyncio.run(main())


def test_calls_that_an_algorithm_makes_side_by_side_keep_their_answers():
    class Crowd:
        name = "crowd"

        async def chain(self, agent, name):
            said = []
            for i in range(3):
                request = ModelRequest([Message(role="user", content=f"{name}{i}{said}")])
                said.append((await agent.complete(request)).content)
            return said

        async def run(self, agent, inputs):
            return await asyncio.gather(*(self.chain(agent, name) for name in "xyz"))

    def model(seed, asked):
        dice = random.Random(seed)

        async def answer(request):
            asked.append(request.messages[0].content)
            for _ in range(dice.randrange(8)):
                await asyncio.sleep(0)
            return text(f"<{request.messages[0].content[:2]}>")

        return FakeLLMClient(answer)

    async def main(seed):
        full = Journal()
        first, later = [], []
        async with Engine(full) as engine:
            LLMHandler(model(seed, first)).attach(engine)
            outcome = await (await engine.start(Crowd())).result()
        for count in range(1, len(full.batches)):
            store = await full.cut(count)
            later.clear()
            async with Engine(store) as engine:
                LLMHandler(model(seed + 100, later)).attach(engine)
                again = await (await engine.resume(first_run(full), Crowd())).result()
            assert again.value == outcome.value
            known = Counter(first) - Counter(later)
            assert known.total() == recorded_calls(full.batches[:count])

    for seed in range(6):
        asyncio.run(main(seed))
