"""The state is a fold over the events: live and read back they agree, after each of them."""

import asyncio
import time

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import events as ev
from planbench.events import EVENT_TYPES, Event
from planbench.plan.model import ExecutionPlan, PlanMetadata, PlanNode
from planbench.runtime import Engine, NodeState, RunState, replay
from planbench.tools import ToolRegistry


def picture(state: RunState):
    """All that a state says, as plain values."""
    nodes = {
        name: {field: getattr(node, field) for field in ("node_id", *NodeState.__annotations__)}
        | {"keys": node.keys, "seconds": node.seconds, "ref": node.ref()}
        for name, node in state.nodes.items()
    }
    for node in nodes.values():
        node["errors"], node["warnings"] = list(node["errors"]), list(node["warnings"])
        node["facets"] = dict(node["facets"])
        node["item_keys"] = dict(node["item_keys"] or {})
    return {
        "run": (state.run_id, state.status, state.started, state.finished, state.reason),
        "counts": (state.nodes_done, state.errors, state.calls, state.total_bytes),
        "nodes": nodes,
    }


# A random plan over tools that behave in every way


async def behave(value=None, deed="ok"):
    if deed == "wait":
        await asyncio.sleep(0)
    if deed == "print":
        print("said")
    if deed == "fail" or value == "fail":
        raise ValueError("failed")
    return value if value is not None else ["a", "fail", "b", "fail"][: len(deed)]


def in_thread(value=None, deed="ok"):
    time.sleep(0)
    if deed == "fail" or value == "fail":
        raise ValueError("failed")
    return value if value is not None else []


@st.composite
def plans(draw):
    nodes = []
    for i in range(draw(st.integers(1, 7))):
        needs = [f"n{j}" for j in range(i) if draw(st.booleans())]
        deed = draw(st.sampled_from(["ok", "ok", "wait", "print", "fail"]))
        tool = draw(st.sampled_from(["behave", "behave", "in_thread"]))
        fields = {}
        if needs and draw(st.integers(0, 3)) == 0:
            fields["when"] = draw(
                st.sampled_from(
                    [
                        "true",
                        "false",
                        "ctx.errors == 0",
                        f"ctx.artifacts.{needs[0]}.count > 0",
                        f"1 / ctx.artifacts.{needs[0]}.items_failed > 0",  # by zero, mostly
                    ]
                )
            )
        args = {"deed": deed}
        if needs and draw(st.booleans()):
            args["value"] = f"{{artifacts.{needs[-1]}}}"
        if needs and draw(st.integers(0, 2)) == 0:
            args["value"] = "{item}"
            fields["for_each"] = {
                "source": f"{{artifacts.{needs[0]}}}",
                "on_item_error": draw(st.sampled_from(["collect", "skip", "fail"])),
                "max_concurrency": draw(st.integers(1, 3)),
                "max_failed": draw(st.sampled_from([None, 0, 1, "50%"])),
            }
        if draw(st.integers(0, 3)) == 0:
            fields["retry"] = {"max_attempts": 2}
        if draw(st.integers(0, 3)) == 0:
            fields["facets"] = {"counts": {"n": "[]"}, "paths": {"p": "x"}}
        nodes.append(PlanNode(id=f"n{i}", tool=tool, args=args, depends_on=needs, **fields))
    metadata = PlanMetadata(max_parallel_tasks=draw(st.integers(1, 4)))
    return ExecutionPlan(name="random", objective="o", nodes=nodes, metadata=metadata)


def carried_out(plan, cancel_after=None):
    """Run a plan; gives the run with a picture of its live state after every event."""
    seen = []

    async def main():
        async with Engine(registry=ToolRegistry([behave, in_thread])) as engine:
            run = await engine.start(plan)
            seen.append(picture(run.state))

            def look(event):
                seen.append(picture(run.state))
                if event.seq == cancel_after:
                    run.cancel()

            run.subscribe(look)
            await asyncio.wait_for(run.result(), 20)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return run

    return asyncio.run(main()), seen


@settings(max_examples=120, deadline=None)
@given(plans(), st.none() | st.integers(2, 12))
def test_replay_equals_the_live_state_at_every_prefix(plan, cancel_after):
    run, seen = carried_out(plan, cancel_after)
    assert len(seen) == len(run.events)
    state = RunState()
    for event, live in zip(run.events, seen, strict=True):
        state.apply(event)
        assert picture(state) == live
    assert picture(replay(run.events)) == picture(run.state)
    assert replay(run.events).manifest() == run.manifest()


@settings(max_examples=80, deadline=None)
@given(plans(), st.none() | st.integers(2, 12))
def test_a_journal_is_in_order_and_names_only_what_the_plan_has(plan, cancel_after):
    run, _ = carried_out(plan, cancel_after)
    events = run.events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.run_id for event in events} == {run.run_id}
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    assert {event.type for event in events} <= EVENT_TYPES
    assert events[0].type == ev.RUN_STARTED
    assert [e.type for e in events if e.type in (ev.RUN_FINISHED, ev.RUN_CANCELLED)] == [
        events[-1].type
    ]
    needs = {node.id: node.depends_on for node in plan.nodes}
    ends = (ev.NODE_FINISHED, ev.NODE_FAILED, ev.NODE_SKIPPED, ev.NODE_BLOCKED)
    started, ended = {}, {}
    for event in events[1:-1]:
        node = event.data["node_id"]
        assert node in needs
        assert node not in ended
        if event.type == ev.NODE_STARTED:
            assert node not in started
            started[node] = event.seq
        elif event.type in ends:
            ended[node] = event.seq
            if event.type in (ev.NODE_FINISHED, ev.NODE_FAILED):
                assert node in started
        if event.type in (ev.NODE_STARTED, *ends):
            assert all(need in ended for need in needs[node])
    if run.status != "cancelled":
        assert set(ended) == set(needs)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_events_are_json_values_and_come_back_from_their_records(plan):
    run, _ = carried_out(plan)
    for event in run.events:
        record = orjson.loads(orjson.dumps(event.to_dict()))
        again = Event.from_dict(record)
        assert again.data == event.data
        assert (again.seq, again.run_id, again.type) == (event.seq, event.run_id, event.type)
        assert again.at == event.at
        assert event.at.tzinfo is not None
        assert event.at.utcoffset().total_seconds() == 0


@settings(max_examples=60, deadline=None)
@given(plans(), st.none() | st.integers(2, 12))
def test_the_counters_of_the_manifest_add_up(plan, cancel_after):
    run, _ = carried_out(plan, cancel_after)
    manifest = run.manifest()
    refs = {ref.node_id: ref for ref in manifest.artifacts}
    assert refs == run.refs
    assert manifest.nodes_total == len(plan.nodes) == run.nodes_total
    assert len(refs) == run.nodes_done
    assert manifest.nodes_ok + manifest.nodes_skipped + manifest.nodes_failed == len(refs)
    assert manifest.total_bytes_stored == sum(ref.bytes_stored for ref in refs.values())
    assert manifest.session_id == manifest.run_id == manifest.root_run_id == run.run_id
    assert manifest.status == run.status
    assert manifest.duration_seconds == run.state.seconds >= 0
    for node, counts in manifest.items.items():
        state = run.state.nodes[node]
        assert counts.ok + counts.failed + counts.reused + counts.skipped == state.total
        assert min(counts.ok, counts.failed, counts.reused, counts.skipped) >= 0
        if node in refs:
            assert refs[node].item_count == counts.ok + counts.reused == len(refs[node].keys)
    for ref in refs.values():
        assert len(ref.errors) <= 20
        assert all(len(text) <= 300 for text in ref.errors)
        if ref.status in ("error", "skipped"):
            assert ref.errors


# Limits


def test_a_node_keeps_twenty_errors_of_three_hundred_characters(lab):
    async def long(value):
        raise ValueError("x" * 10_000)

    lab.tool(long)
    run = lab.run(*lab.items(list(range(50)), "long"))
    errors = run.refs["fan"].errors
    assert len(errors) == 20
    assert errors[0] == "all 50 items failed"
    assert {len(text) for text in errors[1:]} == {300}
    assert run.state.nodes["fan"].failed == 50
    assert all(len(e.data["error"]) <= 300 for e in run.events if "error" in e.data)


def test_texts_in_facets_are_cut_at_two_hundred_characters(lab):
    run = lab.run(lab.node("a", args={"value": {"t": "x" * 1_000}}, facets={"paths": {"t": "t"}}))
    assert len(run.refs["a"].facets["t"]) == 200


def test_reasons_and_warnings_are_capped_as_well(lab):
    guard = " || ".join(["ctx.artifacts.a.count == 1000"] * 100)
    run = lab.run(lab.node("a"), lab.node("b", after="a", when=guard))
    assert len(run.refs["b"].errors[0]) <= 300
    many = {f"facet_{i}_{'x' * 400}": "missing.path[]" for i in range(40)}
    run = lab.run(lab.node("a", facets={"counts": many}))
    assert len(run.state.nodes["a"].warnings) == 20
    assert all(len(text) <= 300 for text in run.state.nodes["a"].warnings)


# What is counted


def test_calls_counts_the_calls_that_were_made(lab):
    async def typed(value: int):
        return value

    lab.tool(typed)
    run = lab.run(
        lab.node("ok"),
        lab.node("fails", "boom", retry={"max_attempts": 3}),
        lab.node("skipped", when="false"),
        lab.node("text", args={"value": "text"}),
        lab.node("refused", "typed", {"value": "{artifacts.text}"}, "text"),
        *lab.items([1, -1, "text", 3], "typed", args={"value": "{item}"}, store_as="k_{item}"),
    )
    # ok, three tries of fails, text, src, and three of the items
    assert run.outcome().usage.calls == 1 + 3 + 1 + 1 + 3
    assert run.manifest().usage["calls"] == 9


def test_a_manifest_can_be_had_at_any_time(lab):
    async def main():
        hold = asyncio.Event()
        lab.tool(hold.wait, name="wait")
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a"), lab.node("b", "wait", after="a")))
            await lab.until(lambda: run.state.nodes["b"].status == "running")
            manifest = run.manifest()
            assert (manifest.nodes_total, manifest.nodes_ok) == (2, 1)
            assert [ref.node_id for ref in manifest.artifacts] == ["a"]
            hold.set()
            await run
            assert run.manifest().nodes_ok == 2

    asyncio.run(main())


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_every_type_of_event_has_the_prefix(kind):
    assert kind.startswith("planbench.")
