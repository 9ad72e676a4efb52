"""What has gone wrong in other systems of this sort, in planbench's terms: the runtime's part."""

import asyncio
import contextvars
import gc
import json
import threading
import time

import numpy as np
import pandas as pd
import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.errors import ConfigurationError, PlanbenchError, PlanInvalid
from planbench.files import load_plan
from planbench.memory import WorkingMemory
from planbench.plan.diff import diff_plans
from planbench.plan.model import ExecutionPlan, PlanMetadata, PlanNode
from planbench.runtime import Engine, replay
from planbench.runtime.compiled import CompiledPlan
from planbench.tools import Tool, ToolRegistry
from planbench.validation import check_plan, validate_plan
from planbench.workbench import run_plan, run_sync

CV = contextvars.ContextVar("cv", default="unset")


class Tools:
    """The tools that the cases use, and the calls that they noted."""

    def __init__(self):
        self.calls = []
        self.gate = threading.Event()
        self.memory = WorkingMemory()
        self.registry = ToolRegistry(
            [
                self.echo, self.asleep, self.bsleep, self.frame, self.empty, self.boom, self.nxt,
                self.cv, self.blocks, self.raises_cancelled,
            ]
        )  # fmt: skip

    def echo(self, value=None):
        self.calls.append(value)
        return value

    async def asleep(self, seconds: float):
        await asyncio.sleep(seconds)
        self.calls.append("asleep")
        return seconds

    def bsleep(self, seconds: float):
        self.calls.append("bsleep begun")
        self.gate.wait(seconds)
        self.calls.append("bsleep")
        return seconds

    def frame(self, n: int = 3):
        return pd.DataFrame({"a": range(n)})

    def empty(self):
        return []

    def boom(self):
        raise ValueError("boom")

    def nxt(self):
        return next(iter([]))

    def cv(self):
        return CV.get()

    async def blocks(self, seconds: float):
        time.sleep(seconds)  # noqa: ASYNC251 - the fault that is looked for

    async def raises_cancelled(self):
        raise asyncio.CancelledError

    async def start(self, engine, *nodes, **metadata):
        return await engine.start(plan(*nodes, **metadata))

    def engine(self):
        return Engine(registry=self.registry, memory=self.memory)

    def run(self, *nodes, **metadata):
        async def main():
            async with self.engine() as engine:
                run = await self.start(engine, *nodes, **metadata)
                await run
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return run

        return asyncio.run(main())


def plan(*nodes, **metadata):
    return ExecutionPlan(
        name="case", objective="o", nodes=list(nodes), metadata=PlanMetadata(**metadata)
    )


def node(id, tool="echo", args=None, after=(), **fields):  # noqa: A002 - the field of the model
    return PlanNode(id=id, tool=tool, args=args or {}, depends_on=list(after), **fields)


@pytest.fixture
def tools():
    made = Tools()
    yield made
    made.gate.set()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


# 1: asyncio.run() inside a running loop


def test_case_1_run_sync_where_a_loop_runs_names_the_await_form_in_one_line(tools):
    async def main():
        with pytest.raises(ConfigurationError) as raised:
            run_sync(plan(node("a")), registry=tools.registry)
        assert "await run_plan(" in str(raised.value)
        assert "cannot be called from a running event loop" not in str(raised.value)
        assert len(raised.value._render_traceback_()) == 2
        manifest = await run_plan(plan(node("a")), registry=tools.registry)
        assert manifest.status == "completed"

    asyncio.run(main())
    assert tools.calls == [None]


def test_case_1_run_sync_runs_where_no_loop_runs(tools):
    for _ in range(2):
        assert run_sync(plan(node("a")), registry=tools.registry).status == "completed"


# 2: interrupts while blocking calls are inside


def test_case_2_an_interrupted_run_ends_at_once_and_the_next_one_works(tools):
    async def main():
        async with tools.engine() as engine:
            run = await tools.start(
                engine,
                node("a", "asleep", {"seconds": 30}),
                node("b", "asleep", {"seconds": 30}),
                node("c", "bsleep", {"seconds": 30}),
            )
            cell = asyncio.create_task(run.result())
            await until(lambda: "bsleep begun" in tools.calls)
            cell.cancel()  # what the kernel does on an interrupt
            await asyncio.wait([cell], timeout=20)
            assert cell.cancelled()
            assert run.status == "cancelled"
            assert {n: s.status for n, s in run.state.nodes.items()} == dict.fromkeys(
                "abc", "cancelled"
            )
            assert run.state.nodes["a"].reason == run.state.nodes["b"].reason == "cancelled"
            assert "abandoned, thread still running" in run.state.nodes["c"].reason
            (record,) = await engine.store.runs()
            assert record.status == "cancelled"
            assert replay(await engine.store.read(run.run_id)).status == "cancelled"
            assert asyncio.all_tasks() == {asyncio.current_task()}
            again = await tools.start(engine, node("a", "echo", {"value": 1}))
            assert (await again).status == "completed"

    asyncio.run(main())


# 5: errors of background tasks are silent


def test_case_5_a_failed_run_in_the_background_names_node_and_tool_and_is_never_lost(tools):
    async def main():
        async with tools.engine() as engine:
            run = await tools.start(engine, node("first"), node("bad", "boom", after=["first"]))
            await until(lambda: run.finished)  # nobody awaits it
            assert run.status == "partial"
            assert run.failure_text() == "node 'bad' (boom): ValueError: boom"

    asyncio.run(main())


# 7: output of tasks and threads lands in the wrong cell


def test_case_7_what_tools_print_is_in_the_log_of_their_node_and_not_in_the_other_cell(
    tools, capsys
):
    async def main():
        go_on = asyncio.Event()

        async def prints():
            print("before")
            await go_on.wait()
            print("after")

        def prints_in_thread():
            print("in a thread")

        tools.registry.register([prints, prints_in_thread])
        async with tools.engine() as engine:
            run = await tools.start(engine, node("a", "prints"), node("b", "prints_in_thread"))
            await until(lambda: run.state.nodes["b"].status == "ok")
            print("the other cell")
            go_on.set()
            await run
        assert run.state.nodes["a"].output == "before\nafter\n"
        assert run.state.nodes["b"].output == "in a thread\n"

    asyncio.run(main())
    assert capsys.readouterr() == ("the other cell\n", "")


# 9: CancelledError is swallowed in cleanup


def test_case_9_a_cancelled_call_is_not_tried_again(tools):
    async def main():
        async with tools.engine() as engine:
            run = await tools.start(
                engine, node("a", "asleep", {"seconds": 30}, retry={"max_attempts": 5})
            )
            await until(lambda: run.state.nodes["a"].status == "running")
            await asyncio.sleep(0.01)
            run.root.cancel()
            await run
            assert run.status == "cancelled"
            assert ev.NODE_RETRIED not in [event.type for event in run.events]
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_case_9_a_tool_that_raises_cancelled_error_fails_its_node_and_the_run_goes_on(tools):
    run = tools.run(node("a", "raises_cancelled"), node("b"), node("c", after=["b"]))
    assert run.status == "partial"
    assert run.refs["a"].errors == ["tool raised CancelledError"]
    assert [run.refs[n].status for n in "bc"] == ["ok", "ok"]


# 10: a timeout does not stop a sync task


def test_case_10_a_timeout_frees_the_run_and_the_late_result_never_lands(tools):
    async def main():
        async with tools.engine() as engine:
            limited = node("a", "bsleep", {"seconds": 30}, timeout=1)
            first = await tools.start(engine, limited, node("b", after=["a"]))
            await asyncio.wait_for(first.result(), 20)
            assert first.refs["a"].errors == [
                "TimeoutError: over the limit of 1 s; still running in a thread, its result is dropped"
            ]
            assert first.state.nodes["b"].status == "blocked"
            assert None not in tools.calls
            again = await tools.start(engine, node("a", "echo", {"value": "of the rerun"}))
            await again
            tools.gate.set()
            await until(lambda: "bsleep" in tools.calls)
            await asyncio.sleep(0.02)
            assert tools.memory["a"] == "of the rerun"
            assert tools.memory.info("a").version == 1
            assert again.state.nodes["a"].status == "ok"
            assert first.state.nodes["a"].status == "error"

    asyncio.run(main())


def test_case_10_an_async_tool_that_blocks_is_named_as_such(tools):
    run = tools.run(
        node("a", "blocks", {"seconds": 0.15}, timeout=0.1), node("b", "blocks", {"seconds": 0.15})
    )
    assert "blocked the event loop" in run.refs["a"].errors[0]
    assert "make 'blocks' a plain def" in run.refs["a"].errors[0]
    assert "blocked the event loop" in run.state.nodes["b"].warnings[0]


# 11: StopIteration from a thread hangs for ever


def test_case_11_stop_iteration_is_an_error_of_the_node_and_never_hangs(tools):
    async def main():
        async with tools.engine() as engine:
            run = await tools.start(engine, node("a", "nxt"))
            return await asyncio.wait_for(run.result(), 60)

    outcome = asyncio.run(main())
    assert outcome.status == "failed"
    assert "StopIteration" in outcome.value.artifacts[0].errors[0]


# 32: the truth value of a DataFrame is ambiguous


@pytest.mark.parametrize(
    "value",
    [pd.DataFrame({"a": [1, 2]}), pd.Series([1, 2]), np.array([1, 2]), pd.DataFrame(), np.zeros(0)],
    ids=["frame", "series", "array", "empty frame", "empty array"],
)
def test_case_32_nothing_asks_a_frame_whether_it_is_true(tools, value):
    def make(extra=value):
        return value

    def items():
        return [value, value]

    tools.registry.register([make, items])
    each = {"source": "{artifacts.items}"}
    facets = {"paths": {"p": "a"}, "counts": {"n": "a[]"}}
    nodes = [
        node("v", "make", facets=facets),
        node("arg", "echo", {"value": "{artifacts.v}"}, ["v"], when="ctx.artifacts.v.count >= 0"),
        node("given", "make", {"extra": "{artifacts.v}"}, ["v"]),
        node("deep", "echo", {"value": {"k": ["{artifacts.v}"]}}, ["v"]),
        node("text", "echo", {"value": "as text {artifacts.v}"}, ["v"]),
        node("items", "items"),
        node("fan", "echo", {"value": "{item}"}, ["items"], for_each=each, facets=facets),
        node("both", "echo", {"value": "{item} {artifacts.v}"}, ["items", "v"], for_each=each),
    ]
    for _ in range(2):  # the second run compares with what the first one left
        run = tools.run(*nodes)
        assert run.status == "completed", run.failure_text()
        assert replay(run.events).manifest() == run.manifest()
        assert run.items("fan")["status"].isin(["ok", "reused"]).all()


def test_case_32_a_frame_as_a_parameter_is_refused_by_name_before_anything_is_called(tools):
    frame = pd.DataFrame({"a": [1, 2]})
    wanting = plan(node("a", "echo", {"value": "{params.frame}"}))

    async def main():
        async with tools.engine() as engine:
            with pytest.raises(PlanInvalid) as raised:
                await engine.start(wanting, {"frame": frame})
            (issue,) = raised.value.issues
            assert issue.node_id == "a"
            assert "DataFrame" in issue.message

    asyncio.run(main())
    assert tools.calls == []
    assert diff_plans(wanting, wanting).to_text() is not None


# 41: RecursionError on long chains


def chain(length, tool="echo"):
    return [node(f"n{i}", tool, {"value": i}, [f"n{i - 1}"] if i else []) for i in range(length)]


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_case_41_a_chain_of_5000_nodes_is_checked_and_runs(tools, order):
    nodes = chain(5_000)

    async def echo(value=None):
        tools.calls.append(value)

    tools.registry.register(echo)
    if order == "backward":
        nodes.reverse()
    made = plan(*nodes)
    assert validate_plan(made, tools.registry).ok
    run = tools.run(*nodes)
    assert run.status == "completed"
    assert tools.calls == list(range(5_000))
    assert run.manifest().nodes_ok == 5_000


def test_case_41_a_chain_of_5000_nodes_behind_a_failure_is_blocked_without_recursion(tools):
    nodes = chain(5_000)
    nodes[0] = node("n0", "boom")
    run = tools.run(*nodes)
    assert run.status == "failed"
    assert len(run.refs) == 5_000


def test_case_41_a_chain_of_100000_nodes_loads_and_is_made_ready(tools):
    nodes = [
        {"id": f"n{i}", "tool": "echo", **({"depends_on": [f"n{i - 1}"]} if i else {})}
        for i in range(100_000)
    ]
    text = json.dumps({"name": "long", "objective": "o", "nodes": nodes})
    gc.disable()  # it would visit millions of objects again and again
    try:
        made = load_plan(text)
        compiled = CompiledPlan(made, tools.registry)
    finally:
        gc.enable()
    assert len(made.nodes) == len(compiled.nodes) == 100_000
    assert [ready.id for ready in compiled.roots] == ["n0"]


def nested(depth, leaf="x"):
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


def test_case_41_arguments_nested_2000_deep_are_a_clear_error(tools):
    text = "name: deep\nobjective: o\nnodes:\n- {id: a, tool: echo, args: {value: %s1%s}}\n"
    report = check_plan(text % ("[" * 2_000, "]" * 2_000), tools.registry)
    assert not report.ok
    assert all("RecursionError" not in issue.message for issue in report.issues)
    with pytest.raises(Exception, match="deep") as raised:
        plan(node("a", "echo", {"value": nested(2_000)}))
    assert not isinstance(raised.value, RecursionError)


def test_case_41_an_artifact_nested_5000_deep_is_kept_and_fails_only_where_it_must_be_written(
    tools,
):
    def deep():
        return nested(5_000)

    tools.registry.register(deep)
    facets = {"counts": {"n": "[]"}}
    run = tools.run(
        node("a", "deep", facets=facets),
        node("whole", "echo", {"value": "{artifacts.a}"}, ["a"]),
        node("text", "echo", {"value": "as text {artifacts.a}"}, ["a"]),
        node("fan", "echo", {"value": "{item}"}, ["a"], for_each={"source": "{artifacts.a}"}),
    )
    assert run.refs["a"].status == "ok"
    assert run.refs["a"].facets == {"n": 1}
    assert run.refs["whole"].status == "ok"
    assert run.refs["fan"].status == "ok"
    assert run.refs["text"].status == "error"
    assert "nested too deep" in run.refs["text"].errors[0]


# 42: a fan-out over an empty list deadlocks


def test_case_42_fan_outs_over_nothing_are_ok_and_chain(tools):
    nodes = [
        node("a", "empty"),
        node("b", "echo", {"value": "{item}"}, ["a"], for_each={"source": "{artifacts.a}"}),
        node("c", "echo", {"value": "{item}"}, ["b"], for_each={"source": "{artifacts.b}"}),
        node("d", "echo", {"value": "{artifacts.b}"}, ["b", "c"]),
    ]
    for _ in range(2):
        run = tools.run(*nodes)
        assert run.status == "completed"
        assert [run.refs[n].item_count for n in "bc"] == [0, 0]
        assert tools.memory["d"] == []
    assert tools.calls == [[], []]


@pytest.mark.parametrize(
    ("source", "named"),
    [(None, "None"), ({"a": 1}, "a dict"), ("text", "a str"), (7, "an int"), ({1}, "a set")],
)
def test_case_42_a_source_of_another_type_gives_a_named_error(tools, source, named):
    def make():
        return source

    tools.registry.register(make)
    run = tools.run(
        node("a", "make"),
        node("b", "echo", {"value": "{item}"}, ["a"], for_each={"source": "{artifacts.a}"}),
        node("c", after=["b"]),
    )
    text, _, more = run.refs["b"].errors[0].partition(";")
    assert text == f"for_each needs a list, and {{artifacts.a}} is {named}"
    assert ("returned None" in more) == (source is None)
    assert run.state.nodes["c"].status == "blocked"
    assert tools.calls == []


def test_case_42_a_generator_is_refused_by_name_where_it_is_given(tools):
    def make():
        return (i for i in range(3))

    tools.registry.register(make)
    run = tools.run(
        node("a", "make"),
        node("b", "echo", {"value": "{item}"}, ["a"], for_each={"source": "{artifacts.a}"}),
    )
    assert "a generator" in run.refs["a"].errors[0]
    assert run.state.nodes["b"].status == "blocked"
    assert tools.calls == []


def test_case_42_a_frame_is_spread_by_its_rows(tools):
    run = tools.run(
        node("a", "frame"),
        node("b", "echo", {"value": "{item.a}"}, ["a"], for_each={"source": "{artifacts.a}"}),
    )
    assert run.status == "completed"
    assert sorted(tools.calls) == [0, 1, 2]


# 43: a join after a skipped branch


def test_case_43_a_join_runs_unless_it_reads_what_was_skipped(tools):
    run = tools.run(
        node("s"),
        node("x", "echo", {"value": "x"}, ["s"], when="true"),
        node("y", "echo", {"value": "y"}, ["s"], when="false"),
        node("j", "echo", {"value": "{artifacts.x}"}, ["x", "y"]),
        node("k", "echo", {"value": "{artifacts.y}"}, ["x", "y"]),
    )
    assert run.status == "completed"
    assert run.refs["j"].status == "ok"
    assert run.refs["k"].status == "skipped"
    assert run.refs["k"].errors == ["reads {artifacts.y}, and 'y' was skipped"]


def test_case_43_when_all_branches_are_skipped_the_join_that_reads_none_runs(tools):
    run = tools.run(
        node("s"),
        node("x", "echo", {"value": "x"}, ["s"], when="false"),
        node("y", "echo", {"value": "y"}, ["s"], when="false"),
        node("j", "echo", {"value": "j"}, ["x", "y"]),
        node("k", "echo", {"value": ["{artifacts.x}", "{artifacts.y}"]}, ["x", "y"]),
    )
    assert run.status == "completed"
    assert {n: s.status for n, s in run.state.nodes.items()} == {
        "s": "ok", "x": "skipped", "y": "skipped", "j": "ok", "k": "skipped",
    }  # fmt: skip


# The tools of these cases, where nothing goes wrong


def test_contextvars_of_the_caller_reach_threads(tools):
    CV.set("the caller's")
    try:
        tools.run(node("a", "cv"))
    finally:
        CV.set("unset")
    assert tools.memory["a"] == "the caller's"


def test_an_error_of_the_project_is_shown_as_one_short_block():
    error = PlanbenchError("what happened", hint="what to do next")
    assert error._render_traceback_() == ["PlanbenchError: what happened", "  what to do next"]


def test_case_36_a_result_that_breaks_its_declared_schema_or_cannot_be_stored_fails_its_node_only(
    tmp_path,
):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    anything = {"type": "object"}
    registry = ToolRegistry(
        [
            Tool.from_schema("wrong", "", anything, lambda: {"n": "1"}, schema),
            Tool.from_schema("right", "", anything, lambda: {"n": 1}, schema),
            Tool.from_schema("lazy", "", anything, lambda: (x for x in "ab")),
        ]
    )
    plan = load_plan(
        "name: p\nobjective: o\nnodes:\n"
        "  - {id: a, tool: right}\n  - {id: b, tool: wrong}\n  - {id: c, tool: lazy}\n"
    )

    async def main():
        async with open_store(f"sqlite:///{tmp_path}/f.db") as store:
            async with Engine(store=store, registry=registry) as engine:
                run = await engine.start(plan)
                await run
            return run, [record.run_id for record in await store.runs()]

    run, listed = asyncio.run(main())
    assert run.status == "partial"
    assert {name: ref.status for name, ref in run.refs.items()} == {
        "a": "ok",
        "b": "error",
        "c": "error",
    }
    assert "n should be an integer (got str)" in run.refs["b"].errors[0]
    assert "ArtifactRefused" in run.refs["c"].errors[0]
    assert listed == [run.run_id]
