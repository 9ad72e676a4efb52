"""plan_repair: what it may replace, what it keeps, and how its attempts are counted."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import MemoryStore, open_store
from planbench.events import Event
from planbench.llm import FakeLLMClient
from planbench.memory import TaskScope, WorkingMemory
from planbench.runtime import PlanRecoveryConfig

RUN = {"plan_name": "chain", "params": {"x": "x"}}
GOOD = {
    "nodes": [{"id": "b", "tool": "other", "args": {"value": "{artifacts.a}"}, "depends_on": ["a"]}]
}


def code_of(answer):
    return answer.error_code


async def red(lab, toolkit):
    lab.broken = {"x!"}
    first = await toolkit.plan_execute(**RUN)
    assert first.result["status"] == "partial"
    lab.calls.clear()
    return first.result["run_id"]


async def test_failed_nodes_are_replaced_and_the_rest_is_kept(lab):
    async with lab.open(planner_llm=lab.planner(GOOD), checkpoint_store=MemoryStore()) as toolkit:
        run_id = await red(lab, toolkit)
        answer = await toolkit.plan_repair(run_id)
        found = answer.result
        assert answer.success, answer
        assert lab.calls == ["other x", "x!"]
        assert found["root_run_id"] == found["parent_run_id"] == run_id
        assert found["run_id"] != run_id
        assert found["repair_attempts_used"] == 1
        # the root's answers are those of the newest child, its counters those of now
        status = (await toolkit.plan_status(run_id)).result
        assert status["run_id"] == status["active_child_run_id"] == found["run_id"]
        assert status["nodes_total"] == 3
        child = (await toolkit.plan_status(found["run_id"])).result
        assert child["active_child_run_id"] is None


async def test_no_payload_and_no_new_id_and_no_finished_node_is_in_a_repair(lab):
    new = {"nodes": [{"id": "d", "tool": "other", "args": {"value": 1}}]}
    done = {"nodes": [{"id": "a", "tool": "other", "args": {"value": 1}}]}
    async with lab.open(
        planner_llm=lab.planner(new, done), checkpoint_store=MemoryStore()
    ) as toolkit:
        run_id = await red(lab, toolkit)
        answer = await toolkit.plan_repair(run_id)
        assert code_of(answer) == "delta_invalid"
        assert answer.result["run_id"] == run_id
        assert answer.result["repair_attempts_used"] == 1
        assert len(lab.prompts) == 2  # one structural correction, and no more
        assert (await toolkit.plan_status(run_id)).result["repair_attempts_used"] == 1
    assert lab.calls == []


async def test_two_rounds_and_no_third(lab):
    broken = {"nodes": [{"id": "b", "tool": "give", "args": {"value": "x!"}, "depends_on": ["a"]}]}
    async with lab.open(
        planner_llm=lab.planner(broken, broken, broken), checkpoint_store=MemoryStore()
    ) as toolkit:
        run_id = await red(lab, toolkit)
        for used in (1, 2):
            assert (await toolkit.plan_repair(run_id)).result["repair_attempts_used"] == used
        answer = await toolkit.plan_repair(run_id)
        assert code_of(answer) == "repair_limit_reached"
        assert answer.result["repair_attempts_used"] == 2
        assert len(lab.prompts) == 2


@pytest.mark.parametrize("rounds", [0, 1])
async def test_the_host_sets_the_number_of_rounds(lab, rounds):
    async with lab.open(
        planner_llm=lab.planner("nonsense", "nonsense"),
        checkpoint_store=MemoryStore(),
        recovery=PlanRecoveryConfig(max_repair_rounds=rounds),
    ) as toolkit:
        run_id = await red(lab, toolkit)
        codes = [code_of(await toolkit.plan_repair(run_id)) for _ in range(2)]
        spent = "delta_invalid" if rounds else "repair_limit_reached"
        assert codes == [spent, "repair_limit_reached"]


async def test_what_cannot_be_repaired_says_why(lab):
    async with lab.open(planner_llm=lab.planner(), checkpoint_store=MemoryStore()) as toolkit:
        done = (await toolkit.plan_execute(**RUN)).result["run_id"]
        assert code_of(await toolkit.plan_repair(done)) == "run_not_repairable"
        lab.plan(
            "fan",
            "name: f\nobjective: o\nnodes:\n"
            "  - {id: src, tool: give, args: {value: [1, 2]}}\n"
            "  - id: fan\n    tool: give\n    args: {value: '{item}'}\n    depends_on: [src]\n"
            "    for_each: {source: '{artifacts.src}'}\n    store_as: 'fan.{index}'\n",
        )
        lab.registry.remove("give")

        @lab.registry.register
        async def give(value):
            if value == 2:
                raise ValueError("2")
            return value

        run_id = (await toolkit.plan_execute(plan_name="fan")).result["run_id"]
        assert code_of(await toolkit.plan_repair(run_id)) == "no_repairable_nodes"
        assert code_of(await toolkit.plan_repair("run_x")) == "missing_or_expired"


async def test_without_a_planner_there_is_no_repair(lab):
    async with lab.open(checkpoint_store=MemoryStore()) as toolkit:
        run_id = await red(lab, toolkit)
        answer = await toolkit.plan_repair(run_id)
        assert code_of(answer) == "planner_unavailable"
        assert answer.result["repair_attempts_used"] == 0


async def test_a_crash_between_reservation_and_dispatch_is_told_once(lab):
    store = open_store(f"sqlite:///{lab.folder / 'runs.db'}")
    async with store, lab.open(planner_llm=lab.planner(GOOD), durable_store=store) as toolkit:
        run_id = await red(lab, toolkit)
        last = (await store.read(run_id))[-1]
        event = Event(last.seq + 1, run_id, last.timestamp, ev.REPAIR_RESERVED, {"attempt": 1})
        await store.append(run_id, [event])
        answer = await toolkit.plan_repair(run_id)
        assert code_of(answer) == "repair_interrupted"
        assert lab.prompts == []
        answer = await toolkit.plan_repair(run_id)
        assert answer.result["repair_attempts_used"] == 2
        assert answer.success


async def test_two_repairs_at_once_one_is_busy(lab):
    async with lab.open(planner_llm=lab.planner(GOOD), checkpoint_store=MemoryStore()) as toolkit:
        run_id = await red(lab, toolkit)
        answers = await asyncio.gather(toolkit.plan_repair(run_id), toolkit.plan_repair(run_id))
        assert sorted(str(code_of(answer)) for answer in answers) == ["None", "run_busy"]
        assert len(lab.prompts) == 1


async def test_the_allowlist_is_as_it_was_and_as_it_is(lab):
    store = MemoryStore()
    async with lab.open(checkpoint_store=store, allowed_tools=["give"]) as toolkit:
        run_id = await red(lab, toolkit)
    async with lab.open(
        planner_llm=lab.planner(GOOD, GOOD), checkpoint_store=store, allowed_tools=["give", "other"]
    ) as toolkit:
        answer = await toolkit.plan_repair(run_id)
        assert code_of(answer) == "delta_invalid"
        assert "Give a value back, too" not in str(lab.prompts[0])
    assert lab.calls == []


@pytest.mark.parametrize(
    ("now", "code"),
    [
        ({"scope": TaskScope("others")}, "scope_mismatch"),
        ({"allowed_tools": ["other"]}, "policy_mismatch"),
        ({"working_memory": WorkingMemory()}, "artifacts_unavailable"),
    ],
)
async def test_a_host_that_cannot_continue_a_run_asks_no_model_and_spends_no_attempt(
    lab, now, code
):
    store = MemoryStore()
    async with lab.open(checkpoint_store=store) as toolkit:
        run_id = await red(lab, toolkit)
    async with lab.open(planner_llm=lab.planner(GOOD), checkpoint_store=store, **now) as toolkit:
        answer = await toolkit.plan_repair(run_id)
        assert code_of(answer) == code
        assert answer.result["repair_attempts_used"] == 0
    assert lab.prompts == []
    assert lab.calls == []


async def test_a_planner_that_breaks_has_used_its_attempt_and_says_why(lab):
    def broken(request):
        raise RuntimeError("the connection pool is closed")

    async with lab.open(
        planner_llm=FakeLLMClient(broken), checkpoint_store=MemoryStore()
    ) as toolkit:
        run_id = await red(lab, toolkit)
        for used in (1, 2):
            answer = await toolkit.plan_repair(run_id)
            assert code_of(answer) == "planner_unavailable"
            assert "RuntimeError: the connection pool is closed" in answer.error
            assert answer.result["repair_attempts_used"] == used
