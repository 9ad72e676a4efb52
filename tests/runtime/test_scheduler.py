"""The table of what becomes of a node: guards, skipped readers, blocked dependents, limits of time."""

import asyncio

import pandas as pd
import pytest

from planbench import events as ev
from planbench.runtime import replay, scheduler
from planbench.runtime.standing import BLOCKED_REASON


def types(run, node_id):
    return [e.type for e in run.events if e.data.get("node_id") == node_id]


# Guards


def test_a_node_whose_guard_is_false_is_skipped_with_the_reason_and_its_dependents_run(lab):
    run = lab.run(
        lab.node("a", args={"value": [1]}, facets={"counts": {"n": "[]"}}),
        lab.node("b", after="a", when="ctx.artifacts.a.n > 1"),
        lab.node("c", args={"value": 7}, after="b"),
    )
    assert run.status == "completed"
    assert run.refs["b"].status == "skipped"
    assert run.refs["b"].errors == ["guard 'ctx.artifacts.a.n > 1' is false"]
    assert run.state.nodes["c"].status == "ok"
    assert run.manifest().nodes_skipped == 1
    assert types(run, "b") == [ev.NODE_SKIPPED]
    assert lab.calls == [[1], 7]


def test_a_node_whose_guard_is_true_runs(lab):
    run = lab.run(
        lab.node("a", args={"value": [1, 2]}, facets={"counts": {"n": "[]"}}),
        lab.node("b", args={"value": "ran"}, after="a", when="ctx.artifacts.a.n > 1"),
    )
    assert run.state.nodes["b"].status == "ok"


@pytest.mark.parametrize(
    ("value", "when", "said"),
    [
        ({}, "ctx.artifacts.a.f > 1", "ctx.artifacts.a.f has no value"),
        ({"f": "text"}, "ctx.artifacts.a.f > 1", "cannot be evaluated"),
        ({"f": None}, "ctx.artifacts.a.f > 1", "cannot be evaluated"),
        ({"f": 1}, "ctx.artifacts.a.f", "must give true or false"),
        ({"f": 0}, "1 / ctx.artifacts.a.f == 1", "cannot be evaluated"),
    ],
)
def test_a_guard_that_cannot_be_evaluated_skips_its_node_and_says_why(lab, value, when, said):
    run = lab.run(
        lab.node("a", args={"value": value}, facets={"paths": {"f": "f"}}),
        lab.node("b", after="a", when=when),
        lab.node("c", args={"value": "after"}, after="b"),
    )
    assert run.status == "completed"
    (reason,) = run.refs["b"].errors
    assert reason.startswith(f"cannot be evaluated: guard {when!r}: ")
    assert said in reason
    assert run.state.nodes["b"].reason == reason
    assert lab.calls == [value, "after"]


@pytest.mark.parametrize("value", [[], [1, 2], "x" * 201])
@pytest.mark.parametrize("when", ["size({}) > 0", "size({}) == 2", "{}.contains('<')"])
def test_a_guard_has_no_answer_from_the_description_of_a_value(lab, value, when):
    when = when.format("ctx.artifacts.a.f")
    run = lab.run(
        lab.node("a", args={"value": {"f": value}}, facets={"paths": {"f": "f"}}),
        lab.node("b", after="a", when=when),
    )
    assert run.state.nodes["b"].status == "skipped"
    (reason,) = run.refs["b"].errors
    assert reason.startswith(f"cannot be evaluated: guard {when!r}: ctx.artifacts.a.f ")


def test_the_built_in_facets_of_a_plain_node_are_its_length_and_its_bytes(lab):
    a = lab.node("a", args={"value": ["x", "y", "z"]})
    guards = {
        "count": "ctx.artifacts.a.count == 3",
        "bytes": "ctx.artifacts.a.bytes == 27",
        "ok": "ctx.artifacts.a.items_ok == 1",
        "failed": "ctx.artifacts.a.items_failed == 0",
        "status": "ctx.status.a == 'ok'",
    }
    nodes = [lab.node(name, after="a", when=when) for name, when in guards.items()]
    run = lab.run(a, *nodes)
    assert {n: s.reason for n, s in run.state.nodes.items() if s.status != "ok"} == {}


def test_the_built_in_facets_of_a_fan_out_count_its_items(lab):
    guards = {
        "count": "ctx.artifacts.fan.count == 2",
        "bytes": "ctx.artifacts.fan.bytes == 16",
        "ok": "ctx.artifacts.fan.items_ok == 2",
        "failed": "ctx.artifacts.fan.items_failed == 1",
        "status": "ctx.status.fan == 'partial'",
    }
    nodes = [lab.node(name, after="fan", when=when) for name, when in guards.items()]
    run = lab.run(*lab.items([1, -1, 2], "picky"), *nodes)
    assert {n: s.reason for n, s in run.state.nodes.items() if s.status == "skipped"} == {}


def test_a_facet_of_the_plan_wins_over_the_built_in_one_of_that_name(lab):
    run = lab.run(
        lab.node("a", args={"value": {"k": ["x"] * 5}}, facets={"counts": {"count": "k[]"}}),
        lab.node("b", after="a", when="ctx.artifacts.a.count == 5"),
    )
    assert run.state.nodes["b"].status == "ok"


def test_a_guard_may_read_all_facets_of_a_node_as_a_map(lab):
    run = lab.run(
        lab.node("a", args={"value": {"f": 1}}, facets={"paths": {"f": "f"}}),
        lab.node("b", after="a", when="'f' in ctx.artifacts.a && 'count' in ctx.artifacts.a"),
    )
    assert run.refs["b"].errors == []
    assert run.refs["b"].status == "ok"


def test_a_guard_sees_that_a_node_was_skipped(lab):
    run = lab.run(
        lab.node("a"),
        lab.node("b", after="a", when="ctx.status.a == 'error'"),
        lab.node("c", after="b", when="ctx.status.b == 'skipped'"),
    )
    assert run.state.nodes["c"].status == "ok"


def test_the_number_of_errors_that_a_guard_saw_is_in_the_journal_either_way(lab):
    run = lab.run(
        lab.node("bad", "boom"),
        lab.node("first", "give"),
        lab.node("no", after="first", when="ctx.errors == 0"),
        lab.node("yes", after="first", when="ctx.errors > 0"),
        max_parallel_tasks=1,
    )
    seen = {e.data["node_id"]: (e.type, e.data["errors"]) for e in run.events if "errors" in e.data}
    assert seen == {"no": (ev.NODE_SKIPPED, 1), "yes": (ev.NODE_STARTED, 1)}


def test_a_result_whose_length_cannot_be_told_makes_the_guard_not_evaluable(lab):
    class Odd:
        def __len__(self):
            raise OSError("gone")

    def odd():
        return Odd()

    lab.tool(odd)
    run = lab.run(
        lab.node("a", "odd"),
        lab.node("b", after="a", when="ctx.artifacts.a.count > 0"),
        lab.node("c", after="b"),
    )
    assert run.status == "completed"
    assert run.refs["b"].status == "skipped"
    assert "cannot be evaluated" in run.refs["b"].errors[0]


def test_a_frame_is_never_asked_whether_it_is_true(lab):
    frame = pd.DataFrame({"a": [1, 2]})
    lab.tool(lambda: frame, name="frame")
    run = lab.run(
        lab.node("a", "frame"),
        lab.node(
            "b", args={"value": "{artifacts.a}"}, after="a", when="ctx.artifacts.a.count == 2"
        ),
    )
    assert run.status == "completed", run.failure_text()
    assert lab.memory["b"].equals(frame)


# Readers of what was skipped


@pytest.mark.parametrize(
    "args",
    [
        {"value": "{artifacts.b}"},
        {"value": "text {artifacts.b} text"},
        {"value": {"deep": [{"er": "{artifacts.b}"}]}},
    ],
)
def test_a_reader_of_a_skipped_artifact_is_skipped_with_that_reason(lab, args):
    run = lab.run(
        lab.node("a"),
        lab.node("b", after="a", when="ctx.status.a == 'error'"),
        lab.node("c", args=args, after="b"),
        lab.node("d", args={"value": "still runs"}, after="c"),
    )
    assert run.status == "completed"
    assert run.refs["c"].status == "skipped"
    assert run.refs["c"].errors == ["reads {artifacts.b}, and 'b' was skipped"]
    assert lab.calls == [None, "still runs"]


def test_a_fan_out_over_a_skipped_artifact_is_skipped_and_so_are_the_readers_behind_it(lab):
    run = lab.run(
        lab.node("a"),
        lab.node("b", after="a", when="false"),
        lab.node("c", args={"value": "{item}"}, after="b", for_each={"source": "{artifacts.b}"}),
        lab.node("d", args={"value": "{artifacts.c}"}, after="c"),
        lab.node("e", args={"value": "{artifacts.d}"}, after="d"),
        lab.node("f", args={"value": "end"}, after="e"),
    )
    assert run.status == "completed"
    assert [run.refs[n].errors[0] for n in "cde"] == [
        "reads {artifacts.b}, and 'b' was skipped",
        "reads {artifacts.c}, and 'c' was skipped",
        "reads {artifacts.d}, and 'd' was skipped",
    ]
    assert lab.calls == [None, "end"]


def test_the_ref_of_a_skipped_node_can_be_read(lab):
    run = lab.run(
        lab.node("a"),
        lab.node("b", after="a", when="false"),
        lab.node("c", args={"value": "{nodes.b.output}"}, after="b"),
    )
    assert run.status == "completed"
    assert lab.memory["c"]["status"] == "skipped"
    assert lab.memory["c"]["errors"] == ["guard 'false' is false"]


def test_a_join_behind_a_taken_and_a_skipped_branch_runs_unless_it_reads_the_skipped_one(lab):
    run = lab.run(
        lab.node("s"),
        lab.node("x", args={"value": "x"}, after="s", when="true"),
        lab.node("y", args={"value": "y"}, after="s", when="false"),
        lab.node("j", args={"value": "{artifacts.x}"}, after=["x", "y"]),
        lab.node("k", args={"value": "{artifacts.y}"}, after=["x", "y"]),
    )
    assert run.status == "completed"
    assert lab.memory["j"] == "x"
    assert run.refs["k"].errors == ["reads {artifacts.y}, and 'y' was skipped"]


def test_a_long_chain_of_skipped_readers_is_no_recursion(lab):
    nodes = [lab.node("n0"), lab.node("n1", after="n0", when="false")]
    nodes += [
        lab.node(f"n{i}", args={"value": f"{{artifacts.n{i - 1}}}"}, after=f"n{i - 1}")
        for i in range(2, 3_000)
    ]
    run = lab.run(*nodes)
    assert run.status == "completed"
    assert run.manifest().nodes_skipped == 2_999
    assert lab.calls == [None]


# Blocked


def test_dependents_of_a_failed_node_are_errors_that_were_never_dispatched(lab):
    run = lab.run(
        lab.node("a", "boom"),
        lab.node("b", after="a"),
        lab.node("c", after="b"),
        lab.node("d", args={"value": "free"}),
    )
    assert BLOCKED_REASON == "node never dispatched: blocked by a failed dependency"
    assert run.status == "partial"
    assert {n: run.state.nodes[n].status for n in "abcd"} == {
        "a": "error", "b": "blocked", "c": "blocked", "d": "ok",
    }  # fmt: skip
    assert [run.refs[n].status for n in "bc"] == ["error", "error"]
    assert [run.refs[n].errors for n in "bc"] == [[BLOCKED_REASON]] * 2
    assert types(run, "b") == [ev.NODE_BLOCKED]
    assert sorted(map(str, lab.calls)) == ["None", "free"]


def test_a_node_behind_a_failed_and_a_skipped_one_is_blocked(lab):
    run = lab.run(
        lab.node("a", "boom"),
        lab.node("b", when="false", after="z"),
        lab.node("z"),
        lab.node("c", args={"value": "{artifacts.b}"}, after=["a", "b"]),
    )
    assert run.state.nodes["c"].status == "blocked"


def test_a_node_is_never_called_while_one_of_its_needs_still_runs(lab):
    async def main():
        hold = asyncio.Event()

        async def slow():
            await hold.wait()
            lab.calls.append("slow")

        lab.tool(slow)
        async with lab.engine() as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("a", "boom", {"value": "a"}),
                    lab.node("b", "slow"),
                    lab.node("c", args={"value": "c"}, after=["a", "b"]),
                    lab.node("d", args={"value": "d"}, after="b"),
                )
            )
            await lab.until(lambda: lab.calls == ["a"])
            for _ in range(10):
                await asyncio.sleep(0)
            assert run.state.nodes["c"].status == "waiting"
            hold.set()
            await run
        assert run.state.nodes["c"].status == "blocked"
        assert lab.calls == ["a", "slow", "d"]

    asyncio.run(main())


# The status of the run


@pytest.mark.parametrize(
    ("tools", "status"),
    [
        (["give", "give"], "completed"),
        (["give", "boom"], "partial"),
        (["boom", "boom"], "failed"),
        (["boom", "skip"], "partial"),
        (["skip", "skip"], "completed"),
    ],
)
def test_the_status_of_a_run_follows_from_those_of_its_nodes(lab, tools, status):
    nodes = [
        lab.node(
            f"n{i}", "give" if tool == "skip" else tool, when="false" if tool == "skip" else None
        )
        for i, tool in enumerate(tools)
    ]
    run = lab.run(*nodes)
    assert run.status == status
    assert run.manifest().status == status
    assert run.outcome().status == status
    assert run.events[-1].data["status"] == status


def test_a_run_with_a_partial_fan_out_is_partial_and_counts_it_as_failed(lab):
    run = lab.run(*lab.items([1, -1], "picky"))
    assert run.status == "partial"
    manifest = run.manifest()
    assert (manifest.nodes_ok, manifest.nodes_failed, manifest.nodes_total) == (1, 1, 2)


# The plan's own limit of time


def test_what_is_unfinished_at_the_execution_timeout_is_an_error(lab):
    async def sleep():
        lab.pass_time(60)
        await asyncio.sleep(3_600)

    lab.tool(sleep)
    run = lab.run(
        lab.node("a", args={"value": 1}),
        lab.node("b", "sleep", after="a"),
        lab.node("c", after="b"),
        execution_timeout=60,
    )
    assert run.status == "partial"
    assert [run.refs[n].status for n in "abc"] == ["ok", "error", "error"]
    assert run.refs["b"].errors == ["TimeoutError: the plan's execution_timeout of 60 s was over"]
    assert run.refs["c"].errors[0].endswith("was over; never dispatched")
    assert run.events[-1].type == ev.RUN_FINISHED


def test_a_plan_of_which_nothing_was_done_in_time_is_failed(lab):
    lab.tool(asyncio.sleep, name="sleep")
    run = lab.run(lab.node("b", "sleep", {"delay": 30}), execution_timeout=0.02)
    assert run.status == "failed"


def test_a_fan_out_that_the_timeout_met_keeps_its_finished_items(lab):
    async def nap(value):
        await asyncio.sleep(3_600 if value else 0)
        return value

    lab.tool(nap)

    async def main():
        lab.loop = asyncio.get_running_loop()
        async with lab.engine() as engine:
            nodes = lab.items([0, 1, 0, 1], "nap")
            run = await engine.start(lab.plan(*nodes, execution_timeout=60))
            await lab.until(lambda: run.state.nodes["fan"].done == 2)
            lab.pass_time(60)
            await run
            return run

    run = asyncio.run(main())
    node = run.state.nodes["fan"]
    assert (node.status, node.done, node.failed, node.total) == ("error", 2, 0, 4)
    assert lab.memory["fan"] == [0, 0]
    assert run.manifest().items["fan"].model_dump() == {
        "ok": 2, "failed": 0, "skipped": 2, "reused": 0,
    }  # fmt: skip


def test_a_thread_that_outlives_the_execution_timeout_is_named_and_changes_nothing(lab, gate):
    def block():
        lab.pass_time(60)
        gate.wait(30)
        return "late"

    lab.tool(block)
    run = lab.run(lab.node("a", "block"), execution_timeout=60)
    assert run.status == "failed"
    assert "still running in a thread" in run.refs["a"].errors[0]
    gate.set()
    assert "a" not in lab.memory


def test_a_tool_that_swallows_the_timeout_keeps_what_it_gave(lab):
    async def stubborn():
        lab.pass_time(60)
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            return "given all the same"

    lab.tool(stubborn)
    run = lab.run(lab.node("a", "stubborn"), lab.node("b", after="a"), execution_timeout=60)
    assert lab.memory["a"] == "given all the same"
    assert run.state.nodes["a"].status == "ok"
    assert run.state.nodes["b"].status == "error"
    assert run.status == "partial"


# Whatever happens, the journal and the state agree


def test_the_state_is_what_the_journal_gives_back(lab):
    run = lab.run(
        *lab.items([1, -1, 2], "picky", facets={"paths": {"v": "v"}}),
        lab.node("bad", "boom"),
        lab.node("blocked", after="bad"),
        lab.node("off", when="false"),
    )
    again = replay(run.events)
    assert again.manifest() == run.manifest()
    assert again.status == run.status


def test_each_node_ends_once_and_nothing_follows_the_end_of_the_run(lab):
    run = lab.run(
        *lab.items([1, -1, 2], "picky"),
        lab.node("bad", "boom"),
        lab.node("blocked", after="bad"),
        lab.node("off", when="false"),
    )
    ends = {ev.NODE_FINISHED, ev.NODE_FAILED, ev.NODE_SKIPPED, ev.NODE_BLOCKED}
    ended = [e.data["node_id"] for e in run.events if e.type in ends]
    assert sorted(ended) == sorted(run.state.nodes)
    assert run.nodes_done == run.nodes_total == 5
    assert run.events[0].type == ev.RUN_STARTED
    assert [e.type for e in run.events].index(ev.RUN_FINISHED) == len(run.events) - 1


def test_a_defect_of_the_engine_itself_is_on_record_and_is_raised(lab, monkeypatch):
    def defect(self, node, *, failed):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(scheduler.Scheduler, "finish", defect)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", after="a")))
            with pytest.raises(ZeroDivisionError):
                await run
            assert run.status == "cancelled"
            assert run.events[-1].type == ev.RUN_CANCELLED
            assert run.state.reason == "the run broke off: ZeroDivisionError: a defect"
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_nodes_that_were_left_over_never_pass_for_a_completed_run(lab, monkeypatch):
    monkeypatch.setattr(scheduler.Scheduler, "finish", lambda self, node, failed: None)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", after="a")))
            with pytest.raises(RuntimeError, match="nodes were left over: b"):
                await run
            assert run.status == "cancelled"

    asyncio.run(main())


def test_the_idempotency_key_is_one_per_call_and_no_argument_of_the_plan(lab):
    async def pay(value, idempotency_key):
        lab.calls.append(idempotency_key)

    lab.tool(pay, effects="write")
    run = lab.run(lab.node("one", "pay", {"value": 1}), *lab.items([1, 2], "pay"))
    assert run.status == "completed", run.failure_text()
    assert sorted(lab.calls) == [f"{run.run_id}:fan:0", f"{run.run_id}:fan:1", f"{run.run_id}:one"]
