"""A folder of plans, tools that note their calls, and toolkits over them."""

import asyncio
import contextlib
import inspect
import json

import pytest

from planbench.errors import StoreError
from planbench.llm import FakeLLMClient
from planbench.llm.fake import text
from planbench.memory import TaskMemoryRuntime, TaskScope, WorkingMemory
from planbench.toolkit import ExecutionPlanToolkit
from planbench.tools import ToolRegistry

PLAN = """
name: chain
objective: to prove a rule
nodes:
  - id: a
    tool: give
    args: {value: "{params.x}"}
  - id: b
    tool: give
    args: {value: "{artifacts.a}!"}
    depends_on: [a]
  - id: c
    tool: give
    args: {value: "{artifacts.b}!"}
    depends_on: [b]
"""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run each async test on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Lab:
    """The tools fail at the values in ``broken``, and wait for ``gate`` where there is one."""

    def __init__(self, folder):
        self.folder = folder
        self.calls = []
        self.broken = set()
        self.gate = None
        self.memory = WorkingMemory()
        self.prompts = []
        self.answers = []

        async def give(value):
            """Give a value back."""
            self.calls.append(value)
            if self.gate is not None:
                await self.gate.wait()
            if value in self.broken:
                raise ValueError(f"{value} is broken")
            return value

        async def other(value):
            """Give a value back, too."""
            self.calls.append(f"other {value}")
            return value

        self.registry = ToolRegistry([give, other])
        self.plan("chain", PLAN)

    def plan(self, name, source):
        (self.folder / f"{name}.yaml").write_text(source)

    def toolkit(self, **options):
        options = {
            "tool_manager": self.registry,
            "working_memory": self.memory,
            "plans_dir": self.folder,
            **options,
        }
        return ExecutionPlanToolkit(**options)

    def planner(self, *answers):
        """A model that gives these answers, one after the other."""
        self.answers = list(answers)

        def model(request):
            self.prompts.append(request)
            answer = self.answers.pop(0)
            return (
                answer
                if not isinstance(answer, dict | str)
                else text(answer if isinstance(answer, str) else json.dumps(answer))
            )

        return FakeLLMClient(model)

    def durable(self, **options):
        return {
            "durable_store": f"sqlite:///{self.folder / 'runs.db'}",
            "task_memory_runtime": TaskMemoryRuntime(self.folder / "artifacts"),
            "scope": TaskScope("tests"),
            **options,
        }

    @contextlib.asynccontextmanager
    async def open(self, **options):
        toolkit = self.toolkit(**options)
        runtime = options.get("task_memory_runtime")
        if runtime is not None:
            await runtime.start()
        try:
            yield toolkit
        finally:
            with contextlib.suppress(StoreError):
                await toolkit.close()
            if runtime is not None:
                await runtime.close()
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    @staticmethod
    async def until(condition):
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)
