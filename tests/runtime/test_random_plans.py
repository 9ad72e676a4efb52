"""Random plans against what their tools saw: nothing is called twice, nothing that ended is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import events as ev
from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan, PlanMetadata, PlanNode
from planbench.runtime import Engine, replay
from planbench.tools import Tool, ToolRegistry, ToolResult

LOST = ("raises", "cancels", "refuses", "unstorable", "misfit")
"""What an item can do that makes it fail, and nothing else."""
KEPT = ("gives", "answers", "swallows")
ENDS = (ev.ITEM_FINISHED, ev.ITEM_FAILED)


class Seen:
    """Tools that do what their arguments say, and what they saw: calls begun, calls ended."""

    def __init__(self, sources):
        self.begun = Counter()
        self.ended = {}
        self.sources = sources
        self.run = None
        self.cancel_after = None

    async def on_loop(self, node: str, number: int, does: str, turns: int) -> object:
        self._begin(node, number)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            if does != "swallows":
                raise
        return self._end(node, number, does)

    def in_thread(self, node: str, number: int, does: str, turns: int) -> object:
        del turns
        self._begin(node, number)
        return self._end(node, number, does)

    def _begin(self, node, number):
        self.begun[node, number] += 1
        if self.cancel_after is not None and self.begun.total() == self.cancel_after:
            self.run.cancel()

    def _end(self, node, number, does):
        self.ended.setdefault(node, []).append((number, does))
        if does == "raises":
            raise ValueError(number)
        if does == "cancels":
            raise asyncio.CancelledError
        if does == "refuses":
            return ToolResult.failed("no", "NO")
        if does == "unstorable":
            return (letter for letter in "ab")
        return ToolResult.ok({"n": number}) if does == "answers" else {"n": number}

    def registry(self):
        given = [Tool.from_function(source(items), name=f"s{i}") for i, items in self.sources]
        return ToolRegistry([self.on_loop, self.in_thread, *given])


def source(items):
    return lambda: items


@st.composite
def items_of(draw):
    does = st.sampled_from((*KEPT, *LOST) if draw(st.booleans()) else KEPT)
    listed = draw(st.lists(st.tuples(does, st.integers(0, 4)), max_size=40))
    return [
        {"number": "none" if what == "misfit" else i, "does": what, "turns": turns}
        for i, (what, turns) in enumerate(listed)
    ]


@st.composite
def plans(draw):
    sources = list(enumerate(draw(st.lists(items_of(), min_size=1, max_size=2))))
    nodes = [PlanNode(id=f"s{i}", tool=f"s{i}") for i, _ in sources]
    for i in range(draw(st.integers(1, 5))):
        name, before = f"n{i}", [node.id for node in nodes]
        needs = draw(st.lists(st.sampled_from(before), unique=True, min_size=1, max_size=2))
        tool = draw(st.sampled_from(["on_loop", "on_loop", "on_loop", "in_thread"]))
        if draw(st.integers(0, 2)):
            of = draw(st.sampled_from([f"s{k}" for k, _ in sources]))
            each = {
                "source": f"{{artifacts.{of}}}",
                "max_concurrency": draw(st.sampled_from([1, 2, 3, 8, 64])),
                "on_item_error": draw(st.sampled_from(["collect", "collect", "skip", "fail"])),
                "max_failed": draw(st.sampled_from([None, None, 0, 2, "10%"])),
            }
            args = {"number": "{item.number}", "does": "{item.does}", "turns": "{item.turns}"}
            needs = list(dict.fromkeys([*needs, of]))
        else:
            each, args = (
                None,
                {
                    "number": 0,
                    "does": draw(st.sampled_from(["gives", "gives", "answers", "raises"])),
                    "turns": draw(st.integers(0, 4)),
                },
            )
        args["node"] = name
        nodes.append(PlanNode(id=name, tool=tool, args=args, depends_on=needs, for_each=each))
    metadata = PlanMetadata(max_parallel_tasks=draw(st.sampled_from([1, 2, 3, 16])))
    return ExecutionPlan(name="random", objective="o", nodes=nodes, metadata=metadata), sources


def finished(seen, plan, **memory):
    """Run to the end; nothing may be left on the loop, and nothing comes after the last event."""

    async def main():
        engine = Engine(registry=seen.registry(), memory=WorkingMemory(**memory))
        async with engine:
            seen.run = run = await engine.start(plan)
            await asyncio.wait_for(run.result(), 60)
        count = len(run.events)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert len(run.events) == count
        return run

    return asyncio.run(main())


def told(run, node_id, kinds=ENDS):
    return [e.data["index"] for e in run.events if e.type in kinds and e.data["node_id"] == node_id]


def check_journal(run, seen):
    """What holds for every run, however it ended."""
    assert run.events[-1].type in (ev.RUN_FINISHED, ev.RUN_CANCELLED)
    assert replay(run.events).manifest() == run.manifest()
    assert max(seen.begun.values(), default=0) <= 1
    ended = set()
    for event in run.events[1:-1]:
        assert event.data["node_id"] not in ended
        if event.type in (ev.NODE_FINISHED, ev.NODE_FAILED, ev.NODE_SKIPPED, ev.NODE_BLOCKED):
            ended.add(event.data["node_id"])
    for node_id, counts in run.manifest().items.items():
        both = told(run, node_id)
        assert len(set(both)) == len(both)
        done = told(run, node_id, [ev.ITEM_FINISHED])
        assert (counts.ok, counts.failed) == (len(done), len(both) - len(done))
        if node_id in run.bodies:
            assert [value["n"] for value in run.value(node_id)] == sorted(done)


def check_calls_on_loop(run, seen, node_id):
    """What ended on the loop is on record, in the order in which it ended."""
    ended = seen.ended.get(node_id, ())
    assert told(run, node_id, [ev.ITEM_FINISHED]) == [
        number for number, does in ended if does in KEPT
    ]
    at_once = [number for number, does in ended if does != "unstorable"]  # that is found out later
    assert [i for i in told(run, node_id) if i in set(at_once)] == at_once


@settings(max_examples=150, deadline=None, derandomize=True)
@given(plans())
def test_every_item_is_called_once_and_told_once_and_the_statuses_follow_from_that(drawn):
    plan, sources = drawn
    seen = Seen(sources)
    run = finished(seen, plan)
    check_journal(run, seen)
    statuses = {node.id: run.refs[node.id].status for node in plan.nodes if node.id in run.refs}
    states = {node_id: state.status for node_id, state in run.state.nodes.items()}
    for node in plan.nodes:
        if node.for_each is None or states[node.id] == "blocked":
            continue
        items = dict(sources)[int(node.for_each.source_node[1:])]
        failed, both = told(run, node.id, [ev.ITEM_FAILED]), told(run, node.id)
        assert all((items[i]["does"] in LOST) == (i in failed) for i in both)
        if node.tool == "on_loop":
            check_calls_on_loop(run, seen, node.id)
        reason = run.refs[node.id].errors[:1]
        aborted = statuses[node.id] == "error" and len(failed) < len(items)
        if not aborted:
            assert sorted(both) == list(range(len(items)))
            assert statuses[node.id] == (
                "ok" if not failed else "error" if _is_over(node, items, failed) else "partial"
            )
        else:
            assert _is_over(node, items, failed), reason
    bad = {"error", "blocked"} & set(states.values())
    if not bad and "partial" not in states.values():
        assert run.status == "completed"
    else:
        assert run.status == ("partial" if {"ok", "partial"} & set(states.values()) else "failed")


def _is_over(node, items, failed):
    each = node.for_each
    most = {None: len(items), "10%": len(items) // 10}.get(each.max_failed, each.max_failed)
    return bool(failed) and (
        each.on_item_error == "fail" or len(failed) > most or len(failed) == len(items)
    )


@settings(max_examples=100, deadline=None, derandomize=True)
@given(plans(), st.integers(1, 60))
def test_what_ended_before_a_run_was_cancelled_is_on_record_and_nothing_is_called_twice(
    drawn, when
):
    plan, sources = drawn
    seen = Seen(sources)
    seen.cancel_after = when
    run = finished(seen, plan)
    check_journal(run, seen)
    for node in plan.nodes:
        if node.for_each is not None and node.tool == "on_loop":
            check_calls_on_loop(run, seen, node.id)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans())
def test_the_same_holds_within_a_budget_of_the_memory(drawn):
    plan, sources = drawn
    seen = Seen(sources)
    run = finished(seen, plan, max_bytes=2_000)
    check_journal(run, seen)
    for node in plan.nodes:
        if node.for_each is not None and node.tool == "on_loop":
            kept = [number for number, does in seen.ended.get(node.id, ()) if does in KEPT]
            assert sorted(told(run, node.id, [ev.ITEM_FINISHED])) == sorted(kept)
