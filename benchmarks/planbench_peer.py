"""planbench with all its duties: arguments checked, placeholders resolved, results stored
by key with their bytes, events recorded."""

from __future__ import annotations

from workloads import ITEM_TOOLS, Case, Prepared, Unsupported, blocking_tool, tool

from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan, ForEach, PlanMetadata, PlanNode
from planbench.runtime import Engine
from planbench.tools import Tool, ToolRegistry

NAME = "planbench"
NEEDS = ["planbench"]


def plan_of(case: Case) -> ExecutionPlan:
    if case.is_dag:
        nodes = [
            PlanNode(
                id=name,
                tool="work",
                args={"name": name, "deps": [f"{{artifacts.{need}}}" for need in needs]},
                depends_on=list(needs),
            )
            for name, needs in case.dag.items()
        ]
    else:
        each = ForEach(
            source="{artifacts.listing}",
            select="items[]",
            max_items=100_000,
            max_concurrency=case.concurrency,
        )
        nodes = [
            PlanNode(id="listing", tool="listing"),
            PlanNode(
                id="each",
                tool="work",
                args={"item": "{item}"},
                store_as="out_{index}",
                depends_on=["listing"],
                for_each=each,
            ),
        ]
    width = case.concurrency if case.kind == "threads" else 64
    return ExecutionPlan(
        name="bench",
        objective="measure",
        nodes=nodes,
        metadata=PlanMetadata(max_parallel_tasks=width),
    )


def prepare(case: Case) -> Prepared:
    if case.durable:
        raise Unsupported("no durable store yet")
    if case.is_dag:
        work = blocking_tool if case.kind == "threads" else tool
    else:
        work = ITEM_TOOLS[case.kind]
    size = case.size

    async def listing() -> dict:
        return {"items": list(range(size))}

    registry = ToolRegistry(
        [
            Tool.from_function(work, name="work"),
            Tool.from_function(listing, name="listing"),
        ]
    )
    plan = plan_of(case)
    kept: list[object] = []

    async def run() -> object:
        memory = WorkingMemory()
        if case.kind == "payload":
            kept.append(memory)
        async with Engine(registry=registry, memory=memory) as engine:
            started = await engine.start(plan)
            outcome = await started.result()
        if outcome.status != "completed":
            raise RuntimeError(started.failure_text())
        return outcome

    return Prepared(run)
