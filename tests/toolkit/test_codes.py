"""Every code of the reference is reached through the public tools, and no other is its."""

import asyncio
import contextlib
import sqlite3
import time

import pytest

from planbench import events as ev
from planbench.checkpoints import MemoryStore, open_store
from planbench.errors import StoreError
from planbench.events import Event
from planbench.memory import TaskScope, WorkingMemory
from planbench.runtime import PlanRecoveryConfig

RUN = {"plan_name": "chain", "params": {"x": "x"}}
GOOD = {"nodes": [{"id": "b", "tool": "other", "args": {"value": 1}, "depends_on": ["a"]}]}
MINUTE = 60

REFERENCE = [
    "unknown_run",
    "missing_or_expired",
    "checkpoint_unavailable",
    "checkpoint_invalid",
    "checkpoint_write_failed",
    "run_busy",
    "run_not_resumable",
    "run_not_repairable",
    "no_repairable_nodes",
    "repair_limit_reached",
    "repair_interrupted",
    "delta_invalid",
    "planner_unavailable",
    "scope_mismatch",
    "policy_mismatch",
    "artifacts_unavailable",
    "artifact_alias_conflict",
    "restore_budget_exceeded",
]

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


async def red(lab, **options):
    """Leave a run behind whose second node has failed, in a process that is gone."""
    lab.broken = {"x!"}
    async with lab.open(**options) as toolkit:
        answer = await toolkit.plan_execute(**RUN)
    assert answer.result["status"] == "partial", answer
    lab.broken = set()
    return answer.result["run_id"]


async def resumed(lab, run_id, **options):
    async with lab.open(**options) as toolkit:
        return await toolkit.plan_resume(run_id)


@scenario
async def unknown_run(lab):
    return await resumed(lab, "run_x", **lab.durable())


@scenario
async def missing_or_expired(lab):
    return await resumed(lab, "run_x", checkpoint_store="memory")


@scenario
async def checkpoint_unavailable(lab):
    return await resumed(lab, "run_x")


@scenario
async def checkpoint_invalid(lab):
    run_id = await red(lab, **lab.durable())
    with contextlib.closing(sqlite3.connect(lab.folder / "runs.db")) as connection:
        connection.execute("UPDATE planbench_events SET body = x'7b' WHERE seq = 2")
        connection.commit()
    other = await red(lab, **lab.durable())  # the others still list and load
    async with lab.open(**lab.durable()) as toolkit:
        assert (await toolkit.plan_status(other)).success
        return await toolkit.plan_resume(run_id)


class Failing(MemoryStore):
    """Fails from the first finished node on."""

    def adopt(self, run_id, journal):
        return False

    async def append(self, run_id, events, lease=None):
        if any(event.type == ev.NODE_FINISHED for event in events):
            raise StoreError("the disk is full")
        await super().append(run_id, events, lease)


@scenario
async def checkpoint_write_failed(lab):
    async with lab.open(durable_store=Failing()) as toolkit:
        answer = await toolkit.plan_execute(**RUN)
    assert answer.result["status"] == "interrupted"
    assert answer.result["nodes_total"] == 3
    return answer


@scenario
async def run_busy(lab):
    run_id = await red(lab, **lab.durable())
    store = open_store(lab.durable()["durable_store"])
    async with store:
        assert await store.acquire_lease(run_id, "another/host", MINUTE)
        return await resumed(lab, run_id, **lab.durable())


@scenario
async def run_not_resumable(lab):
    async with lab.open(checkpoint_store="memory") as toolkit:
        done = await toolkit.plan_execute(**RUN)
        return await toolkit.plan_resume(done.result["run_id"])


@scenario
async def run_not_repairable(lab):
    async with lab.open(checkpoint_store="memory", planner_llm=lab.planner()) as toolkit:
        done = await toolkit.plan_execute(**RUN)
        return await toolkit.plan_repair(done.result["run_id"])


@scenario
async def no_repairable_nodes(lab):
    lab.plan(
        "fan",
        "name: f\nobjective: o\nnodes:\n"
        "  - {id: src, tool: other, args: {value: [1, 2]}}\n"
        "  - id: fan\n    tool: picky\n    args: {value: '{item}'}\n    depends_on: [src]\n"
        "    for_each: {source: '{artifacts.src}'}\n    store_as: 'fan.{index}'\n",
    )

    @lab.registry.register
    async def picky(value):
        if value == 1:
            raise ValueError("1")
        return value

    async with lab.open(checkpoint_store="memory", planner_llm=lab.planner()) as toolkit:
        done = await toolkit.plan_execute(plan_name="fan")
        assert done.result["status"] == "partial"
        return await toolkit.plan_repair(done.result["run_id"])


async def repaired(lab, *answers, **options):
    store = MemoryStore()
    run_id = await red(lab, checkpoint_store=store)
    async with lab.open(checkpoint_store=store, **options) as toolkit:
        for _ in range(len(answers)):
            answer = await toolkit.plan_repair(run_id)
        return answer


@scenario
async def repair_limit_reached(lab):
    settings = PlanRecoveryConfig(max_repair_rounds=0)
    return await repaired(lab, 1, planner_llm=lab.planner(), recovery=settings)


@scenario
async def repair_interrupted(lab):
    run_id = await red(lab, **lab.durable())
    async with open_store(lab.durable()["durable_store"]) as store:
        last = (await store.read(run_id))[-1].seq
        reserved = Event(last + 1, run_id, time.time(), ev.REPAIR_RESERVED, {"attempt": 1})
        await store.append(run_id, [reserved])
    async with lab.open(**lab.durable(planner_llm=lab.planner())) as toolkit:
        return await toolkit.plan_repair(run_id)


@scenario
async def delta_invalid(lab):
    new = {"nodes": [{"id": "new", "tool": "give", "args": {"value": 1}}]}
    return await repaired(lab, 1, planner_llm=lab.planner(new, new))


@scenario
async def planner_unavailable(lab):
    return await repaired(lab, 1)


@scenario
async def scope_mismatch(lab):
    run_id = await red(lab, **lab.durable())
    return await resumed(lab, run_id, **lab.durable(scope=TaskScope("others")))


@scenario
async def policy_mismatch(lab):
    run_id = await red(lab, **lab.durable())
    return await resumed(lab, run_id, **lab.durable(allowed_tools=["give"]))


@scenario
async def artifacts_unavailable(lab):
    run_id = await red(lab, **lab.durable())
    bodies = [path for path in (lab.folder / "artifacts").rglob("*") if path.is_file()]
    assert bodies
    for path in bodies:
        path.unlink()
    lab.memory = WorkingMemory()
    return await resumed(lab, run_id, **lab.durable())


@scenario
async def artifact_alias_conflict(lab):
    run_id = await red(lab, **lab.durable())
    lab.memory = WorkingMemory()
    lab.memory.put("a", "something else")
    return await resumed(lab, run_id, **lab.durable())


@scenario
async def restore_budget_exceeded(lab):
    run_id = await red(lab, **lab.durable())
    lab.memory = WorkingMemory()
    settings = PlanRecoveryConfig(max_restore_bytes=0)
    return await resumed(lab, run_id, **lab.durable(recovery=settings))


@pytest.mark.parametrize("code", SCENARIOS)
async def test_each_code_is_reached_by_what_it_stands_for(lab, code):
    answer = await SCENARIOS[code](lab)
    assert answer.error_code == code
    assert not answer.success
    known = code not in ("unknown_run", "missing_or_expired", "checkpoint_unavailable")
    unreadable = code in ("checkpoint_invalid", "delta_invalid")
    if known and not unreadable:
        assert answer.result["run_id"].startswith("run_")


def test_the_codes_are_those_of_the_reference():
    assert sorted(SCENARIOS) == sorted(REFERENCE)


async def test_wrong_bytes_refuse_a_run_as_missing_ones_do(lab):
    run_id = await red(lab, **lab.durable())
    for path in (lab.folder / "artifacts").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"\0" * path.stat().st_size)
    lab.memory = WorkingMemory()
    answer = await resumed(lab, run_id, **lab.durable())
    assert answer.error_code == "artifacts_unavailable"


async def test_a_fresh_process_without_durable_artifacts_is_refused(lab):
    options = {"durable_store": f"sqlite:///{lab.folder / 'runs.db'}"}
    run_id = await red(lab, **options)
    lab.memory = WorkingMemory()
    answer = await resumed(lab, run_id, **options)
    assert answer.error_code == "artifacts_unavailable"
    assert answer.result["resume_level"] == "process"
    assert not answer.result["resumable"]  # by this process; its status says so beforehand
    assert answer.result["recovery_reason"].startswith("artifacts_unavailable: ")


async def test_a_store_that_gives_no_answer_in_time_refuses_the_run(lab):
    class Silent(MemoryStore):
        async def read(self, run_id, after=0):
            await asyncio.sleep(MINUTE)

    settings = PlanRecoveryConfig(checkpoint_probe_timeout=0.05)
    answer = await resumed(lab, "run_x", checkpoint_store=Silent(), recovery=settings)
    assert answer.error_code == "run_not_resumable"
