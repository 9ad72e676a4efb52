"""Runs or resumes a plan of steps against a store; its tool notes each call in a file.

Usage: crash_program.py URL FOLDER run|resume [RUN_ID]
"""

import asyncio
import json
import sys
from pathlib import Path

from planbench.algos import PlanAndExecute, ToolLoop
from planbench.llm import FakeLLMClient, LLMHandler
from planbench.llm.fake import text, together, tool_call
from planbench.runtime import Budget, Engine
from planbench.tools import ToolHandler, ToolRegistry

NAMES = [f"s{i}" for i in range(6)]
STEPS = [{"id": name, "description": name, "depends_on": []} for name in NAMES]
STEPS.append({"id": "last", "description": "all of it", "depends_on": NAMES})
USED = {"input_tokens": 10, "output_tokens": 1, "cost": 1.0}


def main(url, folder, mode, run_id=None):
    folder = Path(folder)

    def note(what: str) -> str:
        with (folder / "calls.txt").open("a") as file:
            file.write(f"{what}\n")
        return what

    async def model(request):
        system, last = request.messages[0].content, request.messages[-1]
        if "planner" in system:
            return text(json.dumps({"steps": STEPS}), **USED)
        if "Combine" in system:
            return text("all", **USED)
        step = request.messages[1].content.split("Your step (")[1].split(")")[0]
        if last.role == "tool":
            return text(f"done {step}", **USED)
        if mode == "run" and step in ("s4", "s5", "last"):
            await asyncio.sleep(600)  # killed here
        return together(tool_call("note", what=step), **USED)

    async def work():
        async with Engine(url) as engine:
            registry = ToolRegistry([note])
            LLMHandler(FakeLLMClient(model, reports_cost=True)).attach(engine)
            ToolHandler(registry).attach(engine)
            agent = PlanAndExecute(ToolLoop(registry), max_parallel=2)
            if mode == "run":
                run = await engine.start(agent, {"task": "t"}, budget=Budget(max_cost=17.5))
                (folder / "run_id").write_text(run.run_id)
            else:
                run = await engine.resume(run_id, agent)
            outcome = await run.result()
        print(
            json.dumps(
                {"status": outcome.status, "value": outcome.value, "usage": list(outcome.usage)}
            )
        )

    asyncio.run(work())


if __name__ == "__main__":
    main(*sys.argv[1:])
