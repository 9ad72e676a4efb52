"""How many calls run at once, in which order, and who gets a turn."""

import asyncio
import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import events as ev
from planbench.memory import sizes
from planbench.plan.facets import FacetReader
from planbench.plan.model import ExecutionPlan, PlanMetadata, PlanNode
from planbench.runtime import Engine, opening, scheduler
from planbench.tools import ToolRegistry


class Watch:
    """Tools that note how many of them are at work, of each node and in all."""

    def __init__(self):
        self.at_work = Counter()
        self.most = Counter()
        self.begun = []
        self.ended = set()
        self.lock = threading.Lock()

    def enter(self, name):
        with self.lock:
            self.begun.append(name)
            for key in (name, "all"):
                self.at_work[key] += 1
                self.most[key] = max(self.most[key], self.at_work[key])

    def leave(self, name):
        with self.lock:
            self.ended.add(name)
            for key in (name, "all"):
                self.at_work[key] -= 1

    async def on_loop(self, name, naps=0, needs=(), item=None):
        assert set(needs) <= self.ended
        self.enter(name)
        for _ in range(naps):
            await asyncio.sleep(0)
        self.leave(name)
        return list(range(5))

    def in_thread(self, name, naps=0, needs=(), item=None):
        assert set(needs) <= self.ended
        self.enter(name)
        self.leave(name)
        return list(range(5))

    def registry(self):
        return ToolRegistry([self.on_loop, self.in_thread])


def most_at_once(events, plan):
    """Give, from the journal alone, how many calls of plain nodes were open at once, at most."""
    fans = {node.id for node in plan.nodes if node.for_each is not None}
    at_once = most = 0
    for event in events:
        if event.data.get("node_id") in fans:
            continue
        if event.type == ev.NODE_STARTED:
            at_once += 1
            most = max(most, at_once)
        elif event.type in (ev.NODE_FINISHED, ev.NODE_FAILED):
            at_once -= 1
    return most


@st.composite
def dags(draw):
    nodes = []
    for i in range(draw(st.integers(1, 14))):
        needs = (
            draw(st.lists(st.sampled_from([f"n{j}" for j in range(i)]), unique=True, max_size=3))
            if i
            else []
        )
        tool = draw(st.sampled_from(["on_loop", "on_loop", "on_loop", "in_thread"]))
        args = {"name": f"n{i}", "naps": draw(st.integers(0, 3)), "needs": needs}
        fields = {}
        if needs and draw(st.integers(0, 2)) == 0:
            args["item"] = "{item}"
            fields["for_each"] = {
                "source": f"{{artifacts.{needs[0]}}}",
                "max_concurrency": draw(st.integers(1, 4)),
            }
        if draw(st.integers(0, 4)) == 0:
            fields["timeout"] = 60
        nodes.append(PlanNode(id=f"n{i}", tool=tool, args=args, depends_on=needs, **fields))
    metadata = PlanMetadata(max_parallel_tasks=draw(st.integers(1, 5)))
    return ExecutionPlan(name="random", objective="o", nodes=nodes, metadata=metadata)


@settings(max_examples=150, deadline=None)
@given(dags())
def test_never_more_calls_at_once_than_allowed_and_each_after_its_parents(plan):
    watch = Watch()

    async def main():
        async with Engine(registry=watch.registry()) as engine:
            run = await engine.start(plan)
            await asyncio.wait_for(run.result(), 30)
            return run

    run = asyncio.run(main())
    assert run.status == "completed", run.failure_text()
    assert watch.most["all"] <= plan.metadata.max_parallel_tasks
    assert most_at_once(run.events, plan) <= plan.metadata.max_parallel_tasks
    ended = set()
    for event in run.events[1:-1]:
        node = plan.node(event.data["node_id"])
        if event.type == ev.NODE_STARTED:
            assert set(node.depends_on) <= ended
        elif event.type == ev.NODE_FINISHED:
            ended.add(node.id)
    for node in plan.nodes:
        calls = 1 if node.for_each is None else 5
        assert watch.begun.count(node.id) == calls
        if node.for_each is not None:
            assert watch.most[node.id] <= node.for_each.max_concurrency


# Reached where the width allows


@pytest.mark.parametrize("tool", ["on_loop", "in_thread"])
@pytest.mark.parametrize(("width", "cap"), [(7, 3), (3, 7), (5, 5), (20, 16), (1, 1)])
def test_as_many_nodes_run_at_once_as_are_ready_and_allowed(lab, tool, width, cap):
    wanted = min(width, cap)
    meet = threading.Barrier(wanted)
    here = []

    async def on_loop():
        here.append(1)
        await lab.until(lambda: len(here) >= wanted)

    def in_thread():
        here.append(1)
        if len(here) <= wanted:
            meet.wait(60)

    lab.tool(on_loop)
    lab.tool(in_thread)
    plan = lab.plan(*[lab.node(f"n{i}", tool) for i in range(width)], max_parallel_tasks=cap)
    run = lab.run(*plan.nodes, max_parallel_tasks=cap)
    assert run.status == "completed", run.failure_text()
    assert most_at_once(run.events, plan) == wanted


@pytest.mark.parametrize("tool", ["on_loop", "in_thread"])
@pytest.mark.parametrize(
    ("own", "cap", "total"), [(4, 10, 20), (10, 4, 20), (8, 8, 3), (1, 5, 4), (64, 128, 64)]
)
def test_as_many_items_run_at_once_as_both_caps_allow(lab, tool, own, cap, total):
    wanted = min(own, cap, total)
    meet = threading.Barrier(wanted)
    at_work, most, here = [], [], []
    lock = threading.Lock()

    def enter(item):
        with lock:
            here.append(item)
            at_work.append(item)
            most.append(len(at_work))
            return len(here) <= wanted

    async def on_loop(item):
        if enter(item):
            await lab.until(lambda: len(here) >= wanted)
        at_work.remove(item)

    def in_thread(item):
        if enter(item):
            meet.wait(60)
        with lock:
            at_work.remove(item)

    lab.tool(on_loop)
    lab.tool(in_thread)
    nodes = lab.items(
        list(range(total)), tool, args={"item": "{item}"}, each={"max_concurrency": own}
    )
    run = lab.run(*nodes, max_parallel_tasks=cap)
    assert run.status == "completed", run.failure_text()
    assert max(most) == wanted


def test_fan_outs_and_plain_nodes_share_the_cap(lab):
    watch = Watch()
    lab.registry.register([watch.on_loop, watch.in_thread])
    each = {"source": "{artifacts.src}", "max_concurrency": 8}
    nodes = [lab.node("src", "on_loop", {"name": "src"})]
    for i in range(3):
        args = {"name": f"f{i}", "naps": 2, "item": "{item}"}
        nodes.append(lab.node(f"f{i}", "on_loop", args, "src", for_each=each))
        nodes.append(lab.node(f"p{i}", "on_loop", {"name": f"p{i}", "naps": 5}, "src"))
    run = lab.run(*nodes, max_parallel_tasks=4)
    assert run.status == "completed"
    assert watch.most["all"] == 4


def test_a_fan_out_takes_no_place_itself(lab):
    run = lab.run(
        *lab.items([1, 2], "plain"),
        lab.node(
            "again", "plain", {"value": "{item}"}, "fan", for_each={"source": "{artifacts.fan}"}
        ),
        max_parallel_tasks=1,
    )
    assert run.status == "completed"


# Nobody starves


def test_a_fan_out_gets_a_turn_beside_a_long_chain_of_plain_nodes(lab):
    chain = [lab.node("src", args={"value": [0, 1, 2]})]
    chain += [
        lab.node(f"n{i}", args={"value": f"n{i}"}, after=f"n{i - 1}" if i else "src")
        for i in range(50)
    ]
    fan = lab.node(
        "fan", args={"value": "{item}"}, after="src", for_each={"source": "{artifacts.src}"}
    )
    run = lab.run(*chain, fan, max_parallel_tasks=1)
    assert run.status == "completed"
    assert lab.calls.index(2) < lab.calls.index("n10")


def test_a_chain_of_plain_nodes_gets_a_turn_beside_a_long_fan_out(lab):
    nodes = [lab.node("src", args={"value": list(range(200))})]
    nodes.append(
        lab.node(
            "fan", args={"value": "{item}"}, after="src", for_each={"source": "{artifacts.src}"}
        )
    )
    nodes += [
        lab.node(f"n{i}", args={"value": f"n{i}"}, after=f"n{i - 1}" if i else "src")
        for i in range(10)
    ]
    run = lab.run(*nodes, max_parallel_tasks=1)
    assert run.status == "completed"
    assert lab.calls.index("n9") < lab.calls.index(100)


@pytest.mark.parametrize("tool", ["give", "plain"])
def test_two_fan_outs_take_turns(lab, tool):
    nodes = [lab.node("src", args={"value": list(range(50))})]
    for name in ("one", "two"):
        args = {"value": name + " {item}"}
        nodes.append(lab.node(name, tool, args, "src", for_each={"source": "{artifacts.src}"}))
    run = lab.run(*nodes, max_parallel_tasks=1)
    assert run.status == "completed"
    order = [str(value).split()[0] for value in lab.calls[1:]]
    assert "two" in order[:3]
    assert "one" in order[-3:] or "two" in order[-3:]
    for k in range(10, 100, 10):
        assert abs(order[:k].count("one") - order[:k].count("two")) <= 2


def test_other_tasks_of_the_loop_get_turns_while_tools_never_wait(lab):
    turns = []

    async def tick():
        while True:
            turns.append(len(lab.calls))
            await asyncio.sleep(0)

    async def main():
        ticker = asyncio.create_task(tick())
        nodes = lab.items(list(range(20_000)), each={"max_items": 20_000})
        chain = [lab.node(f"n{i}", after=f"n{i - 1}" if i else []) for i in range(2_000)]
        run = await lab.finish(*nodes, *chain)
        ticker.cancel()
        assert run.status == "completed"

    asyncio.run(main())
    assert len(set(turns)) > 10  # it saw the work in many places between start and end


@pytest.mark.parametrize("kind", ["skipped", "blocked", "nothing"])
def test_long_rows_of_nodes_without_a_call_yield_turns_too(lab, kind, monkeypatch):
    monkeypatch.setattr(scheduler, "TURN", 0.0)
    turns = []

    async def tick(run):
        while not run.finished:
            turns.append(run.nodes_done)
            await asyncio.sleep(0)

    first = {
        "skipped": lab.node("n0", when="false"),
        "blocked": lab.node("n0", "boom"),
        "nothing": lab.node("n0", args={"value": []}),
    }[kind]
    nodes = [first]
    for i in range(1, 500):
        fields = {"for_each": {"source": f"{{artifacts.n{i - 1}}}"}} if kind == "nothing" else {}
        args = {"value": "{item}" if kind == "nothing" else f"{{artifacts.n{i - 1}}}"}
        nodes.append(lab.node(f"n{i}", args=args, after=f"n{i - 1}", **fields))

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(*nodes))
            await asyncio.gather(tick(run), run)
            assert run.nodes_done == 500

    asyncio.run(main())
    assert len(set(turns)) > 100


# Large values stay off the loop


@pytest.fixture
def threads(monkeypatch):
    """The names of the threads in which results were measured and facets read."""
    seen = {"measure": set(), "facets": set()}
    measure, read = sizes.measure, FacetReader.read

    def noted_measure(value, budget=20_000):
        found = measure(value, budget)
        if found is not None and found > 1_000_000:
            seen["measure"].add(threading.current_thread().name.rpartition("-")[0])
        return found

    def noted_read(self, value):
        seen["facets"].add(threading.current_thread().name.rpartition("-")[0])
        return read(self, value)

    monkeypatch.setattr(scheduler, "measure", noted_measure)
    monkeypatch.setattr("planbench.runtime.item_calls.measure", noted_measure)
    monkeypatch.setattr(FacetReader, "read", noted_read)
    return seen


@pytest.mark.parametrize("fan", [False, True])
def test_large_results_are_measured_and_read_in_a_thread_beside_the_tools(lab, threads, fan):
    async def large(value=None):
        return {"rows": [{"n": i, "t": "some text"} for i in range(60_000)]}

    lab.tool(large)
    facets = {"counts": {"n": "rows[]"}}
    nodes = (
        lab.items([1], "large", facets=facets) if fan else [lab.node("fan", "large", facets=facets)]
    )
    run = lab.run(*nodes)
    assert run.status == "completed", run.failure_text()
    assert run.refs["fan"].facets == {"n": 60_000}
    assert threads == {"measure": {"planbench-aside"}, "facets": {"planbench-aside"}}
    assert run.refs["fan"].bytes_stored > 1_000_000


def test_small_results_are_measured_and_read_where_they_are(lab, threads):
    run = lab.run(lab.node("a", args={"value": {"rows": [1]}}, facets={"counts": {"n": "rows[]"}}))
    assert run.refs["a"].facets == {"n": 1}
    assert threads == {"measure": set(), "facets": {""}}


def test_a_large_source_is_spread_in_a_thread(lab, monkeypatch):
    seen = []
    spread = opening.open_items

    def noted(node, source):
        seen.append(threading.current_thread().name.rpartition("-")[0])
        return spread(node, source)

    monkeypatch.setattr(opening, "open_items", noted)
    rows = [{"n": i, "t": "x" * 400} for i in range(3_000)]
    lab.run(*lab.items(rows, args={"value": "{item.n}"}, each={"max_items": 3_000}))
    lab.run(*lab.items([1, 2]))
    assert seen == ["planbench-aside", ""]


def test_a_run_goes_on_while_a_large_result_is_measured(lab, monkeypatch, gate):
    begun = threading.Event()

    def slow(value, budget=20_000):
        if value != "large":
            return 8
        if budget is not None:
            return None
        begun.set()
        gate.wait(10)
        return 1_000

    monkeypatch.setattr(scheduler, "measure", slow)

    async def main():
        async with lab.engine() as engine:
            chain = [
                lab.node(f"n{i}", args={"value": i}, after=f"n{i - 1}" if i else [])
                for i in range(20)
            ]
            run = await engine.start(lab.plan(lab.node("a", args={"value": "large"}), *chain))
            await lab.until(lambda: run.nodes_done == 20 and begun.is_set())
            assert run.state.nodes["a"].status == "running"
            gate.set()
            await run
            assert run.refs["a"].bytes_stored == 1_000

    asyncio.run(main())
