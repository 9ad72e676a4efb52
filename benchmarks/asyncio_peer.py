"""The limit: the same work on bare asyncio with nothing that is not needed.

A graph runs on a count of unmet needs with one task a node; a list is shared out
among workers that call the coroutine without a task.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from workloads import ITEM_TOOLS, Case, Prepared, Unsupported, blocking_tool, tool

NAME = "asyncio"
NEEDS: list[str] = []


async def run_graph(dag, kids, call):
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    unmet = {name: len(needs) for name, needs in dag.items()}
    results = {}
    alive = set()

    def start(name):
        task = loop.create_task(call(name, [results[need] for need in dag[name]]))
        alive.add(task)
        task.add_done_callback(lambda done: finish(name, done))

    def finish(name, task):
        alive.discard(task)
        if ended.done():
            return
        if task.cancelled() or task.exception() is not None:
            ended.set_exception(task.exception() or asyncio.CancelledError())
            return
        results[name] = task.result()
        for kid in kids[name]:
            unmet[kid] -= 1
            if not unmet[kid]:
                start(kid)
        if len(results) == len(dag):
            ended.set_result(results)

    for name in [name for name, count in unmet.items() if not count]:
        start(name)
    return await ended


async def run_list(items, call, concurrency):
    results = [None] * len(items)
    source = iter(enumerate(items))

    async def worker():
        for index, item in source:
            results[index] = await call(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    return results


def prepare(case: Case) -> Prepared:
    if case.durable:
        raise Unsupported("no store")
    if not case.is_dag:
        items = list(range(case.size))
        work = ITEM_TOOLS[case.kind]
        return Prepared(lambda: run_list(items, work, case.concurrency))
    dag = case.dag
    kids = {name: [] for name in dag}
    for name, needs in dag.items():
        for need in needs:
            kids[need].append(name)
    if case.kind != "threads":
        return Prepared(lambda: run_graph(dag, kids, tool))
    pool = ThreadPoolExecutor(case.concurrency)

    async def call(name, deps):
        return await asyncio.get_running_loop().run_in_executor(pool, blocking_tool, name, deps)

    return Prepared(lambda: run_graph(dag, kids, call), pool.shutdown)
