"""A process that is killed: runs or resumes one plan, and notes each call in a file.

    python crash_program.py start|resume|fork STORE ARTIFACTS CALLS [RUN_ID]

``KILL=before:b`` ends the process when ``b`` is about to be called, ``KILL=after:b`` when it
was called and nothing of it is on record yet.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from planbench.memory import TaskMemoryRuntime, TaskScope
from planbench.plan.model import ExecutionPlan
from planbench.runtime import Engine

COMMAND, STORE, ARTIFACTS, CALLS, *REST = sys.argv[1:]


def noted(name):
    kill = os.environ.get("KILL", "")
    if kill == f"before:{name}":
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(CALLS).open("a") as file:
        file.write(f"{name}\n")
    if kill == f"after:{name}":
        os.kill(os.getpid(), signal.SIGKILL)


def listing(n: int) -> list:
    """List the items."""
    noted("listing")
    return [{"n": i, "odd": bool(i % 2)} for i in range(n)]


def fetch(n: int, idempotency_key: str) -> dict:
    """Fetch one item; every seventh cannot be had."""
    noted(f"fetch {n} {idempotency_key.split(':', 1)[1]}")
    if n % 7 == 3:
        raise ValueError(f"{n} cannot be had")
    return {"n": n, "square": (n * n, n)}


def frame(rows: list) -> object:
    """Make a table."""
    import pandas as pd

    noted("frame")
    return pd.DataFrame({"n": [row["n"] for row in rows], "pair": [row["square"] for row in rows]})


def total(table: object, extra: int = 0) -> int:
    """Sum a table."""
    noted("total")
    return int(table["n"].sum()) + extra


PLAN = {
    "name": "crash",
    "objective": "to be killed",
    "metadata": {"max_parallel_tasks": 4},
    "nodes": [
        {"id": "listing", "tool": "listing", "args": {"n": int(os.environ.get("ITEMS", "20"))}},
        {
            "id": "fetch",
            "tool": "fetch",
            "args": {"n": "{item.n}"},
            "depends_on": ["listing"],
            "for_each": {"source": "{artifacts.listing}", "max_concurrency": 4},
            "store_as": "fetch.{index}",
            "facets": {"counts": {"n_fields": "square[]"}, "paths": {"n": "n"}},
        },
        {
            "id": "frame",
            "tool": "frame",
            "args": {"rows": "{artifacts.fetch}"},
            "depends_on": ["fetch"],
        },
        {
            "id": "total",
            "tool": "total",
            "args": {"table": "{artifacts.frame}"},
            "depends_on": ["frame"],
        },
    ],
}


async def main():
    plan = ExecutionPlan.model_validate(PLAN)
    async with (
        TaskMemoryRuntime(ARTIFACTS) as runtime,
        Engine(
            STORE, [listing, fetch, frame, total], task_memory_runtime=runtime,
            scope=TaskScope("tests"),
        ) as engine,
    ):  # fmt: skip
        if COMMAND == "start":
            run = await engine.start(plan)
        elif COMMAND == "fork":
            plan = json.loads(json.dumps(PLAN))
            plan["nodes"][3]["args"]["extra"] = 1000
            run = await engine.fork(REST[0], ExecutionPlan.model_validate(plan))
        else:
            run = await engine.resume(REST[0])
        print(run.run_id, flush=True)
        outcome = await run
        versions = {
            f"{event.data['node_id']} {event.data.get('index')}": (
                f"{event.data['artifact_id']}@{event.data['version']}"
            )
            for event in run.events
            if "artifact_id" in event.data
        }
        value = run.value("total") if "total" in run.bodies else None
        told = {
            "manifest": outcome.value.model_dump(mode="json"),
            "versions": versions,
            "total": value,
        }
        print(json.dumps(told))


asyncio.run(main())
