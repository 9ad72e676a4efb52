"""Budgets: what they take, and what they stop, over a whole tree of runs."""

import asyncio
import json

import pytest

import planbench
from planbench import events as ev
from planbench.algos import PlanAndExecute, ToolLoop
from planbench.errors import ConfigurationError, ModelError, RunRefused
from planbench.llm import FakeLLMClient, LLMHandler, Message, ModelReply, ModelRequest, Usage
from planbench.llm.fake import text, tool_call
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.runtime import Budget, Engine
from planbench.runtime.budget import Ledger, Spend
from planbench.tools import ToolHandler, ToolRegistry


def plan_text(count):
    listed = [{"id": f"s{i}", "description": "x", "depends_on": []} for i in range(count)]
    return json.dumps({"steps": listed})


def ask(words="hello", **fields):
    return ModelRequest([Message(role="user", content=words)], **fields)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "1", True])
@pytest.mark.parametrize("name", ["max_cost", "max_tokens", "max_seconds"])
def test_a_limit_is_a_number_above_nothing(name, value):
    with pytest.raises(ConfigurationError, match=name):
        Budget(**{name: value})


def test_tokens_are_counted_whole():
    with pytest.raises(ConfigurationError, match="max_tokens"):
        Budget(max_tokens=1.5)


def test_the_budget_is_a_name_of_the_package():
    assert planbench.Budget is Budget
    assert "Budget" in planbench.__all__


def test_a_budget_goes_into_an_event_and_back():
    budget = Budget(max_cost=0.5, max_tokens=10)

    assert budget.to_dict() == {"max_cost": 0.5, "max_tokens": 10}
    assert Budget.from_dict(budget.to_dict()) == budget
    assert Budget.from_dict(None) is None


@pytest.mark.parametrize("record", [{"max_cost": -1}, {"other": 1}, {"max_tokens": "many"}])
def test_a_damaged_budget_on_record_is_refused(record):
    with pytest.raises(RunRefused) as caught:
        Budget.from_dict(record)
    assert caught.value.code == "checkpoint_invalid"


def test_a_sum_with_an_unknown_cost_is_unknown():
    known, unknown = Spend(1, 2, 3, 0.5), Spend(1, 0, 0, None)

    assert known.plus(known) == Spend(2, 4, 6, 1.0)
    assert known.plus(unknown) == Spend(2, 2, 3, None)
    assert Spend.from_dict(known.to_dict()) == known
    with pytest.raises(TypeError):
        Spend.from_dict({**known.to_dict(), "calls": "1"})


def test_a_call_of_unknown_cost_ends_a_budget_for_cost():
    ledger = Ledger(Budget(max_cost=1))
    assert ledger.refusal() is None
    ledger.charge(Usage(input_tokens=1), "m")

    assert "'m'" in ledger.refusal()
    assert "without its cost" in ledger.refusal()


def test_a_call_of_unknown_tokens_ends_a_budget_for_tokens():
    ledger = Ledger(Budget(max_tokens=100))
    ledger.charge(Usage(reported=False), "m")

    assert "without its tokens" in ledger.refusal()


class Stage:
    """A model with a price, a tree of steps, and the number of its calls at once."""

    def __init__(self, steps, cost=1.0, tokens=10):
        self.steps = steps
        self.cost = cost
        self.tokens = tokens
        self.calls = 0
        self.spent = 0.0
        self.now = 0
        self.most = 0
        self.client = FakeLLMClient(self.answer, reports_cost=True)

    async def answer(self, request):
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.001)
        finally:
            self.now -= 1
        self.spent += self.cost
        used = {"input_tokens": self.tokens, "output_tokens": 0, "cost": self.cost}
        if "planner" in request.messages[0].content:
            return text(plan_text(self.steps), **used)
        if "Combine" in request.messages[0].content:
            return text("all", **used)
        reply = tool_call("work") if len(request.messages) < 8 else text("done")
        return reply.model_copy(update={"usage": Usage(**used)})

    async def run(self, budget, parallel=20, **options):
        def work() -> str:
            return "worked"

        async with Engine() as engine:
            LLMHandler(self.client).attach(engine)
            ToolHandler(ToolRegistry([work])).attach(engine)
            agent = PlanAndExecute(ToolLoop([work]), max_parallel=parallel, **options)
            run = await engine.start(agent, {"task": "t"}, budget=budget)
            outcome = await run.result()
            assert not engine._live
            records = await engine.store.runs()
            logs = {one.run_id: await engine.store.read(one.run_id) for one in records}
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return run, outcome, records, logs


@pytest.mark.parametrize("limit", [5.0, 17.0, 30.5, 61.0])
def test_a_tree_of_twenty_children_stops_within_one_call_of_each(limit):
    stage = Stage(steps=20)
    run, outcome, records, logs = asyncio.run(stage.run(Budget(max_cost=limit)))

    assert outcome.status == "budget_exceeded"
    assert "max_cost" in outcome.reason
    assert limit <= stage.spent <= limit + 20
    # all of it is accounted for, in the run and in the journals of the tree
    assert outcome.usage.cost == pytest.approx(stage.spent)
    assert outcome.usage.calls == stage.calls
    recorded = [
        e.data["usage"]["cost"] for log in logs.values() for e in log if e.type == ev.LLM_CALLED
    ]
    assert sum(recorded) == pytest.approx(stage.spent)
    # nothing is left running, on record neither
    assert stage.now == 0
    assert {one.status for one in records} <= {"budget_exceeded", "success"}
    assert any(event.type == ev.BUDGET_EXCEEDED for event in run.events)


def test_the_value_holds_the_results_so_far():
    stage = Stage(steps=20)
    # a plan, and four calls a step: two steps at a time
    _, outcome, _, _ = asyncio.run(stage.run(Budget(max_cost=18), parallel=2))

    assert outcome.status == "budget_exceeded"
    assert outcome.value == {"results": {f"s{i}": "done" for i in range(4)}}
    assert stage.spent <= 18 + 2


def test_tokens_are_a_limit_as_well():
    stage = Stage(steps=20)
    _, outcome, _, _ = asyncio.run(stage.run(Budget(max_tokens=100), parallel=3))

    assert outcome.status == "budget_exceeded"
    assert "max_tokens of 100" in outcome.reason
    assert 100 <= outcome.usage.input_tokens <= 130


def test_one_budget_holds_for_plans_within_plans():
    stage = Stage(steps=3)

    async def main():
        async with Engine() as engine:
            LLMHandler(stage.client).attach(engine)
            agent = PlanAndExecute(PlanAndExecute(ToolLoop([])))
            run = await engine.start(agent, {"task": "t"}, budget=Budget(max_cost=8))
            return await run.result()

    outcome = asyncio.run(main())
    assert outcome.status == "budget_exceeded"
    assert outcome.usage.cost == pytest.approx(stage.spent)
    assert stage.spent <= 8 + 9


def test_a_budget_that_is_not_reached_changes_nothing():
    stage = Stage(steps=2)
    _, outcome, _, _ = asyncio.run(
        stage.run(Budget(max_cost=100, max_tokens=10_000, max_seconds=60))
    )

    assert outcome.status == "success"


def test_time_that_is_over_cancels_what_is_at_work(lab):
    begun, ended = [], []

    async def slow(request):
        if "planner" in request.messages[0].content:
            return text(plan_text(3))
        begun.append(True)
        if len(begun) == 3:
            lab.pass_time(60)
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(True)
        return text("never")

    async def main():
        lab.loop = asyncio.get_running_loop()
        async with Engine() as engine:
            LLMHandler(FakeLLMClient(slow)).attach(engine)
            agent = PlanAndExecute(ToolLoop())
            run = await engine.start(agent, {"task": "t"}, budget=Budget(max_seconds=60))
            outcome = await run.result()
            records = await engine.store.runs()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return outcome, records

    outcome, records = asyncio.run(main())
    assert outcome.status == "budget_exceeded"
    assert outcome.reason == "max_seconds of 60 is over"
    assert outcome.value == {"results": {}}
    assert ended == [True] * 3
    assert {one.status for one in records} == {"budget_exceeded"}


def test_calls_that_one_run_makes_side_by_side_are_held_to_the_limit_too():
    class Crowd:
        name = "crowd"

        async def run(self, agent, inputs):
            return await asyncio.gather(*(agent.complete(ask(str(i))) for i in range(10)))

    asked = []

    async def answer(request):
        asked.append(request)
        await asyncio.sleep(0)
        return text("x", cost=1.0)

    async def main():
        async with Engine() as engine:
            LLMHandler(FakeLLMClient(answer, reports_cost=True)).attach(engine)
            run = await engine.start(Crowd(), budget=Budget(max_cost=3))
            return await run.result()

    outcome = asyncio.run(main())
    assert outcome.status == "budget_exceeded"
    assert len(asked) == 3
    assert outcome.usage.cost == 3.0


@pytest.mark.parametrize("model", [None, "big"])
def test_a_budget_for_cost_without_a_price_is_refused_before_anything_is_asked(model):
    client = FakeLLMClient(lambda request: text("x"), model="small")

    async def main():
        async with Engine() as engine:
            LLMHandler(client).attach(engine)
            agent = PlanAndExecute(ToolLoop(model=model))
            with pytest.raises(ConfigurationError) as caught:
                await engine.start(agent, {"task": "t"}, budget=Budget(max_cost=1))
            assert await engine.store.runs() == []
        return caught.value

    error = asyncio.run(main())
    assert "'small'" in error.message  # the plan itself is made by the client's own model
    assert "LLMHandler(client, prices={" in error.hint
    assert client.requests == []


def test_a_model_of_an_executor_without_a_price_is_named():
    async def main():
        async with Engine() as engine:
            handler = LLMHandler(
                FakeLLMClient(lambda r: text("x"), model="small"), {"small": (1, 1)}
            )
            handler.attach(engine)
            agent = PlanAndExecute(ToolLoop(model="big"))
            with pytest.raises(ConfigurationError, match="'big'"):
                await engine.start(agent, {"task": "t"}, budget=Budget(max_cost=1))

    asyncio.run(main())


def test_a_model_without_a_price_that_is_asked_for_later_fails_the_run_unasked():
    class Sly:
        name = "sly"

        async def run(self, agent, inputs):
            await agent.complete(ask(model="small"))
            return await agent.complete(ask(model="big"))

    client = FakeLLMClient(lambda request: text("x", input_tokens=1), model="small")

    async def main():
        async with Engine() as engine:
            LLMHandler(client, {"small": (1, 1)}).attach(engine)
            run = await engine.start(Sly(), budget=Budget(max_cost=1))
            return await run.result()

    outcome = asyncio.run(main())
    assert outcome.status == "failed"
    assert "'big'" in outcome.reason
    assert len(client.requests) == 1


def test_an_algorithm_that_swallows_the_refusal_is_over_its_budget_all_the_same():
    class Stubborn:
        name = "stubborn"

        async def run(self, agent, inputs):
            tries = 0
            for _ in range(5):
                try:
                    await agent.complete(ask())
                except Exception:  # noqa: BLE001 - that is the matter
                    tries += 1
            return tries

    async def main():
        async with Engine() as engine:
            LLMHandler(FakeLLMClient(lambda r: text("x", cost=1.0), reports_cost=True)).attach(
                engine
            )
            run = await engine.start(Stubborn(), budget=Budget(max_cost=2))
            return run, await run.result()

    run, outcome = asyncio.run(main())
    assert (outcome.status, outcome.value) == ("budget_exceeded", 3)
    assert sum(event.type == ev.BUDGET_EXCEEDED for event in run.events) == 1


def test_a_failed_call_of_the_model_costs_nothing():
    def answer(request):
        raise ModelError("model_failed", "gone")

    async def main():
        async with Engine() as engine:
            LLMHandler(FakeLLMClient(answer, reports_cost=True)).attach(engine)
            run = await engine.start(ToolLoop(), {"task": "t"}, budget=Budget(max_cost=2))
            return await run.result()

    outcome = asyncio.run(main())
    assert (outcome.status, outcome.usage.calls, outcome.usage.cost) == ("failed", 0, 0.0)


def test_calls_without_a_price_cost_an_unknown_sum():
    async def main():
        async with Engine() as engine:
            LLMHandler(FakeLLMClient(lambda r: text("x", input_tokens=3))).attach(engine)
            run = await engine.start(ToolLoop(), {"task": "t"})
            return await run.result()

    outcome = asyncio.run(main())
    assert outcome.usage.cost is None
    assert outcome.usage.input_tokens == 3


# plans


def slow_plan(**metadata):
    nodes = [PlanNode(id="a", tool="quick"), PlanNode(id="b", tool="slow", depends_on=["a"])]
    return ExecutionPlan(name="p", objective="o", nodes=nodes, metadata=metadata)


async def quick():
    return 1


async def slow():
    await asyncio.sleep(3_600)


def slow_of(lab):
    """Give a tool that never ends, and the time of the run is over when it is called."""

    async def slow():
        lab.pass_time(60)
        await asyncio.sleep(3_600)

    return slow


def test_the_time_of_a_plan_is_bounded_too(lab):
    async def main():
        lab.loop = asyncio.get_running_loop()
        async with Engine(registry=[quick, slow_of(lab)]) as engine:
            run = await engine.start(slow_plan(), budget=Budget(max_seconds=60))
            return await run.result()

    outcome = asyncio.run(main())
    assert outcome.status == "partial"
    [failure] = outcome.value.failures()
    assert failure.errors == ["TimeoutError: the budget's max_seconds of 60 was over"]


def test_the_shorter_of_two_limits_is_named(lab):
    async def main():
        lab.loop = asyncio.get_running_loop()
        async with Engine(registry=[quick, slow_of(lab)]) as engine:
            plan = slow_plan(execution_timeout=60)
            run = await engine.start(plan, budget=Budget(max_seconds=600))
            return await run.result()

    outcome = asyncio.run(main())
    [failure] = outcome.value.failures()
    assert failure.errors == ["TimeoutError: the plan's execution_timeout of 60 s was over"]


def test_a_plan_whose_time_is_used_up_goes_on_with_a_larger_budget_only():
    async def main():
        async with Engine(registry=[quick, slow], store="memory") as engine:
            run = await engine.start(slow_plan(), budget=Budget(max_seconds=0.1))
            await run.result()
            with pytest.raises(RunRefused) as caught:
                await engine.resume(run.run_id)
            assert caught.value.code == "run_not_resumable"
            again = await engine.resume(run.run_id, budget=Budget(max_seconds=0.4))
            outcome = await again.result()
            assert outcome.status == "partial"
            assert 0.3 < outcome.usage.seconds < 60

    asyncio.run(main())


def test_replies_without_usage_are_no_surprise():
    reply = ModelReply(content="x", usage=Usage(reported=False))

    async def main():
        async with Engine() as engine:
            LLMHandler(FakeLLMClient(lambda r: reply)).attach(engine)
            run = await engine.start(ToolLoop(), {"task": "t"}, budget=Budget(max_tokens=5))
            return await run.result()

    assert asyncio.run(main()).status == "success"
