"""Plans of steps: checked before a step runs, run side by side, planned anew, summed up."""

import asyncio
import gc
import json

import pytest

from planbench import events as ev
from planbench.algos import PlanAndExecute, ToolLoop
from planbench.checkpoints import MemoryStore
from planbench.errors import ConfigurationError, StoreError
from planbench.llm.fake import text, tool_call
from planbench.runtime import replay


def told(log, kind):
    return [event.data["step_id"] for event in log if event.type == kind]


def same(run):
    """What is shown of a run is what its record says."""
    again = replay(run.events)
    assert again.manifest() == run.manifest()
    assert again.plan == run.plan
    assert {n: s.status for n, s in again.nodes.items()} == {
        n: s.status for n, s in run.state.nodes.items()
    }


async def finished(stage, agent, task="the task", **options):
    async with stage.engine() as engine:
        run = await engine.start(agent, {"task": task}, **options)
        outcome = await run.result()
    same(run)
    return run, outcome


def run_of(stage, **options):
    return asyncio.run(finished(stage, stage.agent(**options)))


def test_steps_run_and_their_results_are_summed_up(stage):
    run, outcome = run_of(stage)

    assert outcome.status == "success"
    assert outcome.reason is None
    assert outcome.value == {
        "text": "all together",
        "results": {one: f"result of {one}" for one in "abc"},
    }
    assert stage.asked == ["planner", "a", "b", "c", "combine"]
    assert outcome.usage.calls == 5
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (50, 25)
    assert outcome.usage.cost == pytest.approx(0.05)
    assert run.verdict() == "fine"


def test_without_a_synthesis_the_results_are_the_value(stage):
    _, outcome = run_of(stage, synthesize=False)

    assert outcome.value == {"results": {one: f"result of {one}" for one in "abc"}}
    assert "combine" not in stage.asked


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"steps": [{"id": "a", "description": "x"}, {"id": "a", "description": "y"}]}, "twice"),
        ({"steps": [{"id": "a", "description": "x", "depends_on": ["b"]}]}, "no step has that id"),
        (
            {
                "steps": [
                    {"id": "a", "description": "x", "depends_on": ["b"]},
                    {"id": "b", "description": "x", "depends_on": ["a"]},
                ]
            },
            "a -> b -> a",
        ),
        ({"steps": []}, "at least one step"),
        ("I cannot do that", "no JSON"),
    ],
)
def test_an_invalid_plan_fails_before_any_step_runs(stage, answer, reason):
    stage.plans = [answer if isinstance(answer, str) else json.dumps(answer)]
    run, outcome = run_of(stage)

    assert outcome.status == "failed"
    assert outcome.reason.startswith("invalid plan: ")
    assert reason in outcome.reason
    assert stage.asked == ["planner"]
    assert outcome.value == {"results": {}}
    assert not any(event.type == ev.TASK_STARTED for event in run.events)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"id": "s2", "description": "x", "depends_on": ["s9"]}, ["step 's2'", "'s9'"]),
        (
            {"id": "s2", "description": "x", "dependsOn": []},
            ["step 's2'", "did you mean", "depends_on"],
        ),
        ({"id": "s2", "description": "x", "depends_on": "s1"}, ["step 's2'", "depends_on: [s1]"]),
    ],
)
def test_the_reason_names_the_step_that_is_wrong_and_the_way_to_mend_it(stage, step, words):
    first = {"id": "s1", "description": "x", "depends_on": []}
    stage.plans = [json.dumps({"steps": [first, step]})]
    _, outcome = run_of(stage)

    assert all(word in outcome.reason for word in words), outcome.reason


def test_a_planner_that_calls_a_tool_instead_of_answering_is_named(stage):
    async def answer(request):
        return tool_call("no_such")

    stage.client = type(stage.client)(answer, reports_cost=True)
    _, outcome = run_of(stage)

    assert (outcome.status, outcome.reason) == (
        "failed",
        "the model called 'no_such' where no tool was offered",
    )


def test_a_step_gets_the_task_itself_and_what_it_builds_on(stage):
    seen = {}

    def step(request, step_id):
        seen[step_id] = request.messages[-1].content
        return f"result of {step_id}"

    stage.step = step
    asyncio.run(finished(stage, stage.agent(), task="count the people"))

    assert "count the people" in seen["a"]
    assert "do a" in seen["a"]
    assert "result of" not in seen["a"]
    assert "Your step (c): do c" in seen["c"]
    assert "result of a" in seen["c"]
    assert "result of b" in seen["c"]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_at_most_so_many_steps_run_at_once(stage, plan_of, limit):
    stage.plans = [plan_of(**{f"s{i}": "" for i in range(8)})]
    now, most = 0, 0
    full = asyncio.Event()

    async def step(request, step_id):
        nonlocal now, most
        now += 1
        most = max(most, now)
        if most == limit:
            full.set()
        await full.wait()  # the first ones stay until as many as may have come
        await asyncio.sleep(0.002)
        now -= 1
        return step_id

    stage.step = step
    _, outcome = run_of(stage, max_parallel=limit)

    assert outcome.status == "success"
    assert most == limit


def test_a_step_starts_when_what_it_needs_is_done_and_not_later(stage, plan_of):
    stage.plans = [plan_of(slow="", quick="", after="quick")]

    async def main():
        reached = asyncio.Event()

        async def step(request, step_id):
            if step_id == "after":
                reached.set()
            if step_id == "slow":
                await reached.wait()
            return step_id

        stage.step = step
        async with asyncio.timeout(60):
            return await finished(stage, stage.agent())

    run, outcome = asyncio.run(main())
    assert outcome.status == "success"
    moments = [(event.type, event.data.get("step_id")) for event in run.events]
    began = moments.index((ev.TASK_STARTED, "after"))
    assert moments.index((ev.TASK_FINISHED, "quick")) < began
    assert began < moments.index((ev.TASK_FINISHED, "slow"))
    assert list(outcome.value["results"]) == ["slow", "quick", "after"]


class Full(MemoryStore):
    """A store with no room, from some moment on."""

    full = False

    def adopt(self, run_id, journal):
        return False

    async def append(self, run_id, events, lease=None):
        if self.full:
            raise StoreError("the disk is full")
        await super().append(run_id, events, lease)


def test_when_all_steps_break_off_at_once_one_is_raised_and_none_is_lost_unseen(stage, plan_of):
    stage.plans = [plan_of(**dict.fromkeys("abcd", ""))]
    unseen = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unseen.append(told))
        store, begun = Full(), []
        together = asyncio.Event()

        async def step(request, step_id):
            begun.append(step_id)
            if len(begun) == 4:
                store.full = True
                together.set()
            await together.wait()
            return step_id

        stage.step = step
        async with stage.engine(store=store) as engine:
            run = await engine.start(stage.agent(max_parallel=4), {"task": "t"})
            with pytest.raises(StoreError, match="disk is full"):
                await run.result()
        del run
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert unseen == []


def failing(*names):
    def step(request, step_id):
        if step_id in names:
            return text("", refusal=f"no way to do {step_id}")
        return f"result of {step_id}"

    return step


def test_a_failed_step_leads_to_a_new_plan_for_what_is_left(stage, plan_of):
    stage.plans = [
        plan_of(a="", b="", c="a b"),
        plan_of(b2="a", c="b2"),
    ]
    stage.step = failing("b")
    run, outcome = run_of(stage)

    assert outcome.status == "success"
    assert list(outcome.value["results"]) == ["a", "r1-b2", "r1-c"]
    assert told(run.events, ev.TASK_FAILED) == ["b"]
    [revised] = [event for event in run.events if event.type == ev.PLAN_REVISED]
    assert [one["depends_on"] for one in revised.data["steps"]] == [["a"], ["r1-b2"]]
    assert revised.data["dropped"] == ["c"]
    question = stage.client.requests[3].messages[-1].content
    assert "result of a" in question
    assert "no way to do b" in question
    assert '"id": "c"' in question


def test_the_new_steps_are_drawn_beside_what_was_done_and_failed(stage, plan_of):
    stage.plans = [plan_of(a="", b="", c="a b"), plan_of(b2="a", c="b2")]
    stage.step = failing("b")
    run, _ = run_of(stage)

    assert {name: ref.status for name, ref in run.refs.items()} == {
        "a": "ok",
        "b": "error",
        "r1-b2": "ok",
        "r1-c": "ok",
    }
    assert run.plan.node("r1-c").depends_on == ["r1-b2"]
    assert run.plan.node("r1-b2").depends_on == ["a"]
    assert (run.nodes_done, run.nodes_total) == (4, 4)
    assert run.verdict() == "fine"


def test_beyond_the_replans_the_run_fails_with_the_reason_of_the_step(stage, plan_of):
    stage.plans = [plan_of(a="", b=""), plan_of(b="")]
    stage.step = failing("b", "r1-b")
    run, outcome = run_of(stage)

    assert outcome.status == "failed"
    assert outcome.reason == "the model refused: no way to do r1-b"
    assert outcome.value == {"results": {"a": "result of a"}}
    assert run.verdict() == "red"
    assert stage.asked.count("planner") == 2


def test_without_replans_the_first_failure_is_the_end(stage):
    stage.step = failing("b")
    run, outcome = run_of(stage, max_replans=0)

    assert (outcome.status, outcome.reason) == ("failed", "the model refused: no way to do b")
    assert stage.asked == ["planner", "a", "b"]
    assert run.state.nodes["c"].status == "waiting"


def test_a_second_replan_has_a_prefix_of_its_own(stage, plan_of):
    stage.plans = [plan_of(a=""), plan_of(a=""), plan_of(a="")]
    stage.step = failing("a", "r1-a")
    _, outcome = run_of(stage, max_replans=2)

    assert list(outcome.value["results"]) == ["r2-a"]


def test_a_step_that_is_done_and_planned_again_as_it_was_is_not_done_again(stage, plan_of):
    stage.plans = [plan_of(a="", b="a"), plan_of(a="", c="a")]
    stage.step = failing("b")
    run, outcome = run_of(stage)

    assert outcome.status == "success"
    assert list(outcome.value["results"]) == ["a", "r1-c"]
    assert stage.asked.count("a") == 1
    [revised] = [event.data["steps"] for event in run.events if event.type == ev.PLAN_REVISED]
    assert revised == [{"id": "r1-c", "description": "do c", "depends_on": ["a"]}]


def test_a_replan_of_nothing_but_done_steps_fails_the_run(stage, plan_of):
    stage.plans = [plan_of(a="", b="a"), plan_of(a="")]
    stage.step = failing("b")
    _, outcome = run_of(stage)

    assert outcome.reason == "invalid plan: all of its steps are done already"


def test_an_invalid_replan_fails_the_run(stage, plan_of):
    stage.plans = [plan_of(a="", b=""), plan_of(x="b")]
    stage.step = failing("b")
    _, outcome = run_of(stage)

    assert outcome.status == "failed"
    assert outcome.reason.startswith("invalid plan: ")
    assert "'b'" in outcome.reason


def test_the_other_steps_at_work_are_waited_for_when_one_fails(stage, plan_of):
    stage.plans = [plan_of(a="", b="", c="")]

    async def main():
        failed = asyncio.Event()

        async def step(request, step_id):
            if step_id == "a":
                failed.set()
                return text("", refusal="no")
            await failed.wait()
            await asyncio.sleep(0.01)
            return "late and kept"

        stage.step = step
        return await finished(stage, stage.agent(max_replans=0, max_parallel=2))

    _, outcome = asyncio.run(main())
    assert outcome.status == "failed"
    assert outcome.value == {"results": {"b": "late and kept"}}
    assert "c" not in stage.asked


def test_a_plan_of_steps_can_be_one_step_of_another(stage, plan_of):
    inner = stage.agent(synthesize=True)
    outer = PlanAndExecute(inner)
    assert inner.name != outer.name

    run, outcome = asyncio.run(finished(stage, outer))

    assert outcome.status == "success"
    children = [event.data for event in run.events if event.type == ev.CHILD_STARTED]
    assert [one["algorithm"] for one in children] == [inner.name] * 3
    assert outcome.value["results"]["a"] == {
        "text": "all together",
        "results": {one: f"result of {one}" for one in "abc"},
    }
    # 3 inner plans of 5 calls each, and the outer plan and its synthesis
    assert outcome.usage.calls == 17


def test_any_algorithm_can_do_the_steps(stage):
    class Upper:
        name = "upper"

        async def run(self, agent, inputs):
            return inputs["step"]["id"].upper()

    _, outcome = asyncio.run(finished(stage, stage.agent(Upper())))

    assert outcome.value["results"] == {"a": "A", "b": "B", "c": "C"}


def test_the_planner_is_told_of_the_tools_of_the_executor(stage):
    def fetch_it(url: str) -> str:
        """Fetch a page."""
        return url

    asyncio.run(finished(stage, stage.agent(ToolLoop([fetch_it]))))
    question = stage.client.requests[0]

    assert "- fetch_it: Fetch a page." in question.messages[-1].content
    assert question.schema is not None
    assert question.schema.schema["properties"]["steps"]["items"]["required"] == [
        "id",
        "description",
        "depends_on",
    ]


def test_the_planner_prompt_and_the_model_can_be_chosen(stage):
    stage.answer_step = None
    agent = stage.agent(planner_system="You are a terse planner.", model="big")
    asyncio.run(finished(stage, agent))

    assert stage.client.requests[0].messages[0].content == "You are a terse planner."
    assert {one.model for one in stage.client.requests if "planner" in one.messages[0].content} == {
        "big"
    }
    assert stage.client.requests[1].model is None


def test_steps_are_drawn_while_they_run(stage):
    looks = []

    async def main():
        async with stage.engine() as engine:
            run = await engine.start(stage.agent(), {"task": "t"})
            run.subscribe(
                lambda event: looks.append(
                    (run.nodes_done, run.nodes_total, [n.status for n in run.state.nodes.values()])
                )
            )
            await run.result()

    asyncio.run(main())
    assert looks[0][1] == 1  # the run as a whole, as long as there is no plan
    assert (0, 3, ["running", "running", "waiting"]) in looks
    assert looks[-1] == (3, 3, ["ok", "ok", "ok"])


def test_ids_that_no_node_can_have_are_drawn_under_others(stage):
    listed = [
        {"id": "1", "description": "one {artifacts.x}", "depends_on": []},
        {"id": "1.1 ü", "description": "", "depends_on": ["1"]},
    ]
    stage.plans = [json.dumps({"steps": listed})]
    run, outcome = run_of(stage)

    assert list(outcome.value["results"]) == ["1", "1.1 ü"]
    assert [node.depends_on for node in run.plan.nodes] == [[], ["s_1"]]
    assert {ref.status for ref in run.refs.values()} == {"ok"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PlanAndExecute("tool_loop"), "executor"),
        (lambda: PlanAndExecute(ToolLoop), "executor"),
        (lambda: PlanAndExecute(ToolLoop(), max_parallel=0), "max_parallel"),
        (lambda: PlanAndExecute(ToolLoop(), max_replans=-1), "max_replans"),
        (lambda: PlanAndExecute(ToolLoop(), model=object()), "model"),
        (lambda: ToolLoop(max_turns=0), "max_turns"),
        (lambda: ToolLoop(system=""), "system"),
        (lambda: PlanAndExecute(ToolLoop(), planner_system=None), "planner_system"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_they_are_made(make, words):
    with pytest.raises(ConfigurationError, match=words):
        make()


def test_a_run_without_a_task_is_refused(stage):
    async def main():
        async with stage.engine() as engine:
            for inputs in (None, {}, {"task": ""}, {"task": 3}):
                with pytest.raises(ConfigurationError, match="task"):
                    await engine.start(stage.agent(), inputs)
            assert await engine.store.runs() == []

    asyncio.run(main())


def test_a_tool_that_fails_is_told_to_the_model_and_not_to_the_plan(stage):
    def broken(city: str) -> int:
        raise ValueError("no such city")

    def step(request, step_id):
        if request.messages[-1].role == "tool":
            return request.messages[-1].content
        return tool_call("broken", city="Atlantis")

    stage.step = step
    _, outcome = asyncio.run(finished(stage, stage.agent(ToolLoop([broken]))))

    assert outcome.status == "success"
    assert "no such city" in outcome.value["results"]["a"]
