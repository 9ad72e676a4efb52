"""A small stage: a scripted model, tools that note their calls, and plans in a line."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from planbench.algos import PlanAndExecute, ToolLoop
from planbench.checkpoints import MemoryStore
from planbench.llm import FakeLLMClient, LLMHandler
from planbench.llm.fake import text
from planbench.runtime import Engine


def steps(**needs):
    """Write a plan: ``steps(a="", c="a b")``."""
    listed = [
        {"id": step_id, "description": f"do {step_id}", "depends_on": after.split()}
        for step_id, after in needs.items()
    ]
    return json.dumps({"steps": listed})


def step_of(request):
    """Name the step that an executor is asked for; None for anybody else."""
    first = request.messages[1].content if len(request.messages) > 1 else ""
    return first.split("Your step (")[1].split(")")[0] if "Your step (" in first else None


def role_of(request):
    system = request.messages[0].content
    if "planner" in system:
        return "planner"
    return "combine" if "Combine" in system else "executor"


class Stage:
    """A model that plays three roles, and all that it was asked."""

    def __init__(self):
        self.plans = [steps(a="", b="", c="a b")]
        self.store = MemoryStore()
        self.asked = []
        self.usage = {"input_tokens": 10, "output_tokens": 5, "cost": 0.01}
        self.step = self.answer_step
        self.client = FakeLLMClient(self.answer, reports_cost=True)

    def answer_step(self, request, step):
        return f"result of {step}"

    async def answer(self, request):
        role = role_of(request)
        step = step_of(request)
        self.asked.append(step if role == "executor" else role)
        if role == "planner":
            said = self.plans[min(self.asked.count("planner"), len(self.plans)) - 1]
        elif role == "combine":
            said = "all together"
        else:
            said = self.step(request, step)
            if asyncio.iscoroutine(said):
                said = await said
        return text(said, **self.usage) if isinstance(said, str) else said

    @asynccontextmanager
    async def engine(self, client=None, store=None, **options):
        async with Engine(self.store if store is None else store, **options) as engine:
            LLMHandler(client or self.client).attach(engine)
            yield engine
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    def agent(self, executor=None, **options):
        return PlanAndExecute(executor or ToolLoop(), **options)


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def plan_of():
    return steps


def deaf(request):
    raise AssertionError("the model was asked")


@pytest.fixture
def deaf_client():
    """A model that must not be asked."""
    return FakeLLMClient(deaf)
