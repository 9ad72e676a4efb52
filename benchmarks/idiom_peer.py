"""What most people write by hand: gather and a semaphore, a task a node, to_thread."""

from __future__ import annotations

import asyncio

from workloads import ITEM_TOOLS, Case, Prepared, Unsupported, blocking_tool, tool

NAME = "idiom"
NEEDS: list[str] = []


def prepare(case: Case) -> Prepared:
    if case.durable:
        raise Unsupported("no store")
    if not case.is_dag:
        work = ITEM_TOOLS[case.kind]

        async def fan_out():
            gate = asyncio.Semaphore(case.concurrency)

            async def one(item):
                async with gate:
                    return await work(item)

            return await asyncio.gather(*(one(item) for item in range(case.size)))

        return Prepared(fan_out)
    dag = case.dag

    async def graph():
        gate = asyncio.Semaphore(case.concurrency)
        tasks = {}

        async def node(name):
            deps = [await tasks[need] for need in dag[name]]
            if case.kind != "threads":
                return await tool(name, deps)
            async with gate:
                return await asyncio.to_thread(blocking_tool, name, deps)

        async with asyncio.TaskGroup() as group:
            for name in dag:
                tasks[name] = group.create_task(node(name))
        return {name: task.result() for name, task in tasks.items()}

    return Prepared(graph)
