"""Real workflow graphs load, pass the check and run, each node after its parents."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from planbench import events as ev
from planbench.files import load_plan
from planbench.plan.graph import width
from planbench.runtime import Engine, replay
from planbench.tools import Tool, ToolRegistry
from planbench.validation import check_plan, validate_plan

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "workflows"
FILES = sorted(path for path in DATA.glob("*/*.json") if path.name != "index.json")

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FILES, reason="the larger data sets are not there"),
]


async def on_loop(name: str) -> str:
    return name


def in_thread(name: str) -> str:
    return name


REGISTRY = ToolRegistry(
    [Tool.from_function(on_loop, name="async_noop"), Tool.from_function(in_thread, name="noop")]
)


def needs_of(path):
    """Give the parents of each task; dots in ids become ``_``."""
    tasks = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    needs = {
        task["id"].replace(".", "_"): [need.replace(".", "_") for need in task["parents"]]
        for task in tasks
    }
    assert len(needs) == len(tasks)
    return needs


def text_of(path, needs, tool, cap):
    nodes = [
        {"id": node, "tool": tool, "args": {"name": node}, "depends_on": parents}
        for node, parents in needs.items()
    ]
    return json.dumps(
        {
            "name": path.stem[:200],
            "objective": "to run a real graph",
            "metadata": {"max_parallel_tasks": cap},
            "nodes": nodes,
        }
    )


def certain(needs):
    """How many nodes are ready at the same moment for sure: those that wait for the same parents."""
    return max(Counter(tuple(sorted(parents)) for parents in needs.values()).values())


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def graph(request):
    return request.param, needs_of(request.param)


def test_the_graph_loads_and_is_a_valid_plan(graph):
    path, needs = graph
    text = text_of(path, needs, "noop", 10)
    report = check_plan(text, REGISTRY)
    assert report.issues == []
    plan = load_plan(text)
    assert {node.id: node.depends_on for node in plan.nodes} == needs
    assert validate_plan(plan, REGISTRY).ok


@pytest.mark.parametrize(("tool", "cap"), [("async_noop", 10), ("noop", 10), ("noop", 128)])
def test_every_node_runs_once_after_its_parents_and_never_too_many_at_once(graph, tool, cap):
    path, needs = graph
    plan = load_plan(text_of(path, needs, tool, cap))

    async def main():
        async with Engine(registry=REGISTRY) as engine:
            run = await engine.start(plan)
            await run
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return run

    run = asyncio.run(main())
    assert run.status == "completed", run.failure_text()
    assert run.manifest().nodes_ok == len(needs)
    assert replay(run.events).manifest() == run.manifest()
    ended, at_once, most = set(), 0, 0
    for event in run.events:
        node = event.data.get("node_id")
        if event.type == ev.NODE_STARTED:
            assert ended.issuperset(needs[node])
            at_once += 1
            most = max(most, at_once)
        elif event.type == ev.NODE_FINISHED:
            assert node not in ended
            ended.add(node)
            at_once -= 1
    assert ended == set(needs)
    assert min(certain(needs), cap) <= most <= cap
    if certain(needs) >= min(width(needs), cap):
        assert most >= min(width(needs), cap)


def test_the_width_of_each_graph_is_reached_where_ten_may_run_at_once():
    for path in FILES:
        needs = needs_of(path)
        assert min(certain(needs), 10) == min(width(needs), 10), path.stem
