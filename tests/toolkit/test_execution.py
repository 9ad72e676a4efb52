"""ExecutionPlanToolkit: what each tool answers, and what it never does."""

import asyncio
import json

import pytest

from planbench.checkpoints import MemoryStore
from planbench.errors import ConfigurationError
from planbench.memory import TaskMemoryRuntime, TaskScope, WorkingMemory
from planbench.plan.manifest import ExecutionManifest, PlanRunManifest
from planbench.runtime import PlanRecoveryConfig
from planbench.toolkit import ExecutionPlanToolkit
from planbench.toolkit.answers import ENVELOPE
from planbench.tools import PERMISSION_CONTEXT, ToolRegistry

RUN = {"plan_name": "chain", "params": {"x": "x"}}


def refused(answer, code):
    assert not answer.success
    assert answer.status == "error"
    assert answer.error_code == code
    assert answer.error
    return answer


def given(answer):
    assert answer.success, answer
    assert answer.status == "success"
    assert answer.error is answer.error_code is None
    json.dumps(answer.result)
    return answer.result


async def at_its_end(toolkit, run_id):
    """Give the status of a run that has ended."""
    async with asyncio.timeout(60):
        while (found := given(await toolkit.plan_status(run_id)))["status"] == "running":  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
    return found


async def test_a_named_plan_runs_to_its_manifest(lab):
    async with lab.open() as toolkit:
        found = given(await toolkit.plan_execute(**RUN))
        assert lab.calls == ["x", "x!", "x!!"]
        assert found["status"] == "completed"
        assert lab.memory["c"] == "x!!"
        manifest = PlanRunManifest.model_validate(found)
        assert manifest.resume_level == "none"
        assert not manifest.checkpoint_enabled
        strict = {name: found[name] for name in ExecutionManifest.model_fields}
        assert ExecutionManifest.model_validate(strict).nodes_ok == 3
        assert given(await toolkit.plan_status(found["run_id"])) == found
        artifacts = given(await toolkit.plan_artifacts(found["run_id"]))
        assert set(artifacts) == {*ENVELOPE, "artifacts"}
        assert [ref["keys"] for ref in artifacts["artifacts"]] == [["a"], ["b"], ["c"]]
        assert "x!!" not in json.dumps([found, artifacts])


async def test_failed_nodes_are_data_and_not_an_error(lab):
    lab.broken = {"x!"}
    async with lab.open() as toolkit:
        found = given(await toolkit.plan_execute(**RUN))
        assert found["status"] == "partial"
        assert found["nodes_failed"] == 2
        assert "x! is broken" in found["artifacts"][1]["errors"][0]


async def test_the_soft_timeout_answers_and_cancels_nothing(lab):
    lab.gate = asyncio.Event()
    async with lab.open(soft_timeout=0.01) as toolkit:
        found = given(await toolkit.plan_execute(**RUN))
        assert found["status"] == "running"
        assert (found["nodes_total"], found["nodes_done"]) == (3, 0)
        assert set(found) == {*ENVELOPE, "status", "nodes_total", "nodes_done"}
        assert given(await toolkit.plan_status(found["run_id"])) == found
        assert given(await toolkit.plan_artifacts(found["run_id"]))["artifacts"] == []
        lab.gate.set()
        assert (await at_its_end(toolkit, found["run_id"]))["status"] == "completed"
        assert "c" in lab.memory


async def test_who_stops_waiting_leaves_the_run_at_work(lab):
    lab.gate = asyncio.Event()
    async with lab.open() as toolkit:
        waiting = asyncio.ensure_future(toolkit.plan_execute(**RUN))
        await lab.until(lambda: lab.calls)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        lab.gate.set()
        await lab.until(lambda: "c" in lab.memory)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_arguments"),
        ({"objective": "do it", "plan_name": "chain"}, "invalid_arguments"),
        ({"objective": "do it", "params": {"x": 1}}, "invalid_arguments"),
        ({"objective": ""}, "invalid_arguments"),
        ({"plan_name": 7}, "invalid_arguments"),
        ({"plan_name": "chain", "params": [1]}, "invalid_arguments"),
        ({"objective": "do it"}, "planner_unavailable"),
        ({"plan_name": "no_such"}, "plan_unreadable"),
        ({"plan_name": "../chain"}, "plan_unreadable"),
    ],
)
async def test_misuse_has_a_code_each(lab, arguments, code):
    async with lab.open() as toolkit:
        refused(await toolkit.plan_execute(**arguments), code)
        refused(await toolkit.plan_validate(**arguments), code)
    assert lab.calls == []


async def test_without_a_folder_a_name_means_nothing(lab):
    async with lab.open(plans_dir=None, planner_llm=lab.planner()) as toolkit:
        refused(await toolkit.plan_execute(plan_name="chain"), "plans_dir_unavailable")


async def test_parameters_that_are_missing_or_unused_make_a_plan_invalid(lab):
    async with lab.open() as toolkit:
        for params, code in ((None, "missing_param"), ({"x": 1, "y": 2}, "unused_param")):
            answer = refused(await toolkit.plan_execute("", "chain", params), "invalid_arguments")
            answer = refused(
                await toolkit.plan_execute(plan_name="chain", params=params), "plan_invalid"
            )
            assert [issue["code"] for issue in answer.result["issues"]] == [code]
    assert lab.calls == []


async def test_validating_answers_the_plan_verbatim_also_when_it_is_invalid(lab):
    lab.plan("broken", "name: b\nobjective: o\nnodes:\n  - {id: a, tool: nothing, args: {}}\n")
    lab.plan("no_plan", "- 1\n- 2\n")
    async with lab.open() as toolkit:
        found = given(await toolkit.plan_validate(plan_name="broken"))
        assert not found["ok"]
        assert found["plan"]["nodes"][0]["tool"] == "nothing"
        assert [issue["code"] for issue in found["issues"]] == ["unknown_tool"]
        found = given(await toolkit.plan_validate(plan_name="no_plan"))
        assert (found["ok"], found["plan"]) == (False, [1, 2])
        found = given(await toolkit.plan_validate(plan_name="chain", params={"x": 1}))
        assert found["ok"]
        assert found["plan"]["nodes"][0]["args"] == {"value": 1}
        refused(await toolkit.plan_execute(plan_name="broken"), "plan_invalid")
    assert lab.calls == []


async def test_the_allowlist_is_checked_before_anything_runs(lab):
    async with lab.open(allowed_tools=["other"]) as toolkit:
        answer = refused(await toolkit.plan_execute(**RUN), "plan_invalid")
        assert {issue["code"] for issue in answer.result["issues"]} == {"tool_not_allowed"}
    assert lab.calls == []


async def test_only_what_has_a_plan_to_work_on_is_a_tool(lab):
    assert ToolRegistry([ExecutionPlanToolkit(lab.registry)]).names() == [
        "plan_status",
        "plan_artifacts",
    ]
    every = [
        *("plan_execute", "plan_validate", "plan_status", "plan_artifacts"),
        *("plan_resume", "plan_repair"),
    ]
    assert ToolRegistry([lab.toolkit()]).names() == every
    assert ToolRegistry([lab.toolkit(plans_dir=None, planner_llm=lab.planner())]).names() == every


async def test_the_tools_that_call_tools_are_not_read_only(lab):
    async with lab.toolkit() as toolkit:
        writing = [tool.name for tool in ToolRegistry([toolkit]) if tool.effects == "write"]
        answer = await toolkit.plan_execute(**RUN)
    assert writing == ["plan_execute", "plan_resume", "plan_repair"]
    assert answer.result["status"] == "completed"


async def test_the_tools_work_through_a_registry(lab):
    async with lab.open() as toolkit:
        agent = ToolRegistry([toolkit])
        answer = await agent.execute_tool("plan_execute", RUN)
        assert answer.result["status"] == "completed"
        assert given(await agent.execute_tool("plan_status", {"run_id": answer.result["run_id"]}))


async def test_completed_runs_are_let_go_oldest_first_and_live_ones_never(lab):
    lab.gate = asyncio.Event()
    async with lab.open(soft_timeout=0.01, max_completed_runs=2) as toolkit:
        live = given(await toolkit.plan_execute(**RUN))["run_id"]
        lab.plan(
            "short", "name: s\nobjective: o\nnodes:\n  - {id: s, tool: other, args: {value: 1}}\n"
        )
        done = []
        for _ in range(4):
            done.append(given(await toolkit.plan_execute(plan_name="short"))["run_id"])
            await at_its_end(toolkit, done[-1])  # the call itself may have been answered earlier
        await asyncio.sleep(0)
        for run_id in done[:2]:
            refused(await toolkit.plan_status(run_id), "unknown_run")
        for run_id in done[2:]:
            assert given(await toolkit.plan_status(run_id))["status"] == "completed"
        assert given(await toolkit.plan_status(live))["status"] == "running"
        lab.gate.set()


async def test_an_unknown_run_without_a_store(lab):
    async with lab.open() as toolkit:
        refused(await toolkit.plan_status("run_x"), "unknown_run")
        refused(await toolkit.plan_artifacts("run_x"), "unknown_run")
        refused(await toolkit.plan_resume("run_x"), "checkpoint_unavailable")
        refused(await toolkit.plan_repair("run_x"), "checkpoint_unavailable")
        for tool in (toolkit.plan_status, toolkit.plan_resume, toolkit.plan_repair):
            refused(await tool(7), "invalid_arguments")


async def test_a_known_run_without_a_store_is_refused_with_its_envelope(lab):
    lab.broken = {"x!"}
    async with lab.open() as toolkit:
        run_id = given(await toolkit.plan_execute(**RUN))["run_id"]
        answer = refused(await toolkit.plan_resume(run_id), "checkpoint_unavailable")
        assert answer.result["run_id"] == run_id
        assert answer.result["resume_level"] == "none"
        assert not answer.result["resumable"]


async def test_resume_continues_with_what_failed_and_never_asks_a_model(lab):
    lab.broken = {"x!"}
    async with lab.open(checkpoint_store=MemoryStore(), planner_llm=lab.planner()) as toolkit:
        first = given(await toolkit.plan_execute(**RUN))
        assert first["resumable"]
        assert first["resume_level"] == "process"
        lab.broken = set()
        again = given(await toolkit.plan_resume(first["run_id"]))
        assert again["status"] == "completed"
        assert again["run_id"] == first["run_id"]
        assert lab.calls == ["x", "x!", "x!", "x!!"]
        assert lab.prompts == []
        answer = refused(await toolkit.plan_resume(first["run_id"]), "run_not_resumable")
        assert answer.result["run_id"] == first["run_id"]


async def test_a_fresh_process_goes_on_with_durable_artifacts(lab):
    lab.broken = {"x!"}
    async with lab.open(**lab.durable()) as toolkit:
        first = given(await toolkit.plan_execute(**RUN))
        assert first["resume_level"] == "cross_restart"
        assert first["artifact_mode"] == "durable"
    lab.broken = set()
    lab.memory = WorkingMemory()
    async with lab.open(**lab.durable()) as toolkit:
        assert given(await toolkit.plan_status(first["run_id"])) == first
        again = given(await toolkit.plan_resume(first["run_id"]))
        assert again["status"] == "completed"
    assert lab.calls == ["x", "x!", "x!", "x!!"]
    assert lab.memory["a"] == "x"


async def test_a_borrowed_task_memory_is_never_closed(lab):
    async with TaskMemoryRuntime(lab.folder / "artifacts") as runtime:
        toolkit = lab.toolkit(task_memory_runtime=runtime, scope=TaskScope("tests"))
        given(await toolkit.plan_execute(**RUN))
        await toolkit.close()
        assert runtime.started


def test_a_durable_memory_without_a_scope_is_a_mistake_of_the_host(lab):
    with pytest.raises(ConfigurationError, match="scope"):
        lab.toolkit(task_memory_runtime=TaskMemoryRuntime(lab.folder / "artifacts"))


def test_settings_out_of_range_are_refused(lab):
    odd = [("soft_timeout", -1), ("soft_timeout", "9"), ("soft_timeout", float("nan"))]
    odd += [("max_completed_runs", -1), ("working_memory", 7), ("on_node_event", 3)]
    odd += [("recovery", {"max_repair_rounds": 1}), ("scope", "team"), ("task_memory_runtime", 3)]
    for name, value in odd:
        with pytest.raises(ConfigurationError):
            lab.toolkit(**{name: value})


@pytest.mark.parametrize("name", ["max_repair_rounds", "max_restore_bytes", "lease_ttl"])
def test_recovery_settings_out_of_range_are_refused(name):
    for value in (-1, "much", 3.5 if name != "lease_ttl" else float("inf")):
        with pytest.raises(ConfigurationError, match=name):
            PlanRecoveryConfig(**{name: value})


async def test_node_events_are_told_on_the_loop(lab):
    heard = []

    async def hear(event):
        heard.append((event.type, event.data["node_id"]))

    async with lab.open(on_node_event=hear) as toolkit:
        given(await toolkit.plan_execute(**RUN))
        await asyncio.sleep(0)
    assert ("planbench.node.finished", "c") in heard
    assert len(heard) == 6


async def test_tools_find_the_permission_context_of_the_host(lab):
    found = []

    @lab.registry.register
    async def whose(value):
        found.append(PERMISSION_CONTEXT.get())
        return value

    lab.plan("whose", "name: w\nobjective: o\nnodes:\n  - {id: s, tool: whose, args: {value: 1}}\n")
    async with lab.open(permission_context={"user": "ada"}) as toolkit:
        given(await toolkit.plan_execute(plan_name="whose"))
    assert found == [{"user": "ada"}]
    assert PERMISSION_CONTEXT.get() is None


NESTED = """
name: nested
objective: to run itself
nodes:
  - {id: a, tool: plan_execute, args: {plan_name: nested}}
  - {id: b, tool: give, args: {value: 1}, depends_on: [a]}
"""


async def test_a_plan_that_runs_itself_comes_to_an_end(lab):
    heard = []
    lab.plan("nested", NESTED)
    async with lab.open(on_node_event=heard.append) as toolkit:
        lab.registry.register(toolkit)
        answer = given(await toolkit.plan_execute(plan_name="nested"))
        assert answer["status"] == "completed"  # what the run within gave is data
    failed = [event.data for event in heard if event.type == "planbench.node.failed"]
    (innermost,) = failed
    assert innermost["error"].startswith("ToolError: invalid_arguments: 8 runs are at work")
    assert lab.calls == [1] * 7


async def test_closing_ends_the_runs_that_runs_have_started(lab):
    called = asyncio.Event()

    @lab.registry.register
    async def wait(value):
        called.set()
        await asyncio.Event().wait()

    lab.plan(
        "waiting", "name: w\nobjective: o\nnodes:\n  - {id: s, tool: wait, args: {value: 1}}\n"
    )
    lab.plan("nested", NESTED.replace("plan_name: nested", "plan_name: waiting"))
    async with lab.open() as toolkit:
        lab.registry.register(toolkit)
        asking = asyncio.create_task(toolkit.plan_execute(plan_name="nested"))
        await called.wait()
    answer = given(await asking)
    assert answer["status"] == "cancelled"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_listener_that_fails_is_logged_and_one_that_waits_is_ended(lab, caplog):
    ended = []

    async def hear(event):
        if event.type == "planbench.node.started":
            raise ValueError("deaf")
        if event.type != "planbench.node.finished":
            return  # a step that was held is told as progress, on a machine with other work
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(event.data["node_id"])

    async with lab.open(on_node_event=hear) as toolkit:
        given(await toolkit.plan_execute(**RUN))
        await asyncio.sleep(0)
    assert sorted(ended) == ["a", "b", "c"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert caplog.text.count("ValueError: deaf") == 3
