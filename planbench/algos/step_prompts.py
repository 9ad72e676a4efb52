"""What models are told when a task is planned, when one step of it is done, and when it is summed up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from planbench.llm.client import ReplySchema
from planbench.runtime.recorded import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.plan.steps import Step
    from planbench.tools import Tool

MAX_RESULT: Final = 20_000
"""Characters of one result that a prompt holds."""
_MAX_TOOLS: Final = 100
_MAX_LINE: Final = 200

PLANNER: Final = """You are a planner. You break a task into steps that other workers do, each step alone and
several at the same time. A worker sees the task, its own step, and the results of the
steps that its step depends on, and nothing else.

Answer with one JSON object and nothing around it:
{"steps": [{"id": "a", "description": "what to do, in one sentence", "depends_on": []}]}

Ids are short and no two are the same. depends_on holds the ids of all steps whose results a
step needs, and of no others: steps that wait for nothing run at once. Use as few steps as
the task needs, and no step that only repeats or sums up what others found."""

COMBINE: Final = """Combine the results of the steps into one answer to the task. Use what the results say and
nothing else; where they contradict each other or something is missing, say so. Answer with
the result itself, without telling how it was found."""

STEPS: Final = ReplySchema(
    "step_plan",
    {
        "type": "object",
        "properties": {
            "steps": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "description": {"type": "string"},
                        "depends_on": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["id", "description", "depends_on"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["steps"],
        "additionalProperties": False,
    },
    strict=True,
)


def planning(task: str) -> str:
    """Ask for the steps of a task."""
    return f"Task:\n{task}"


def replanning(
    task: str,
    done: Mapping[str, tuple[Step, Any]],
    failed: Mapping[str, tuple[Step, str]],
    left: Iterable[Step],
) -> str:
    """Ask for the remaining steps, given what is done and what failed."""
    parts = [planning(task), "The plan was begun, and a step failed."]
    if done:
        parts.append(_results("Done, with results:", done))
    lines = [f"- {one.id} ({one.description}): {why}" for one, why in failed.values()]
    parts.append("\n".join(["Failed:", *lines]))
    rest = [f"- {_written(one)}" for one in left]
    if rest:
        parts.append("\n".join(["Not begun, and dropped unless you plan it again:", *rest]))
    parts.append(
        "Give the steps that are still to be done, another way around what failed. Do not"
        " repeat what is done: depends_on may name the ids of done steps."
    )
    return "\n\n".join(parts)


def step_task(task: str, step: Step, needs: Mapping[str, tuple[Step, Any]]) -> str:
    """Tell a worker its step: the step itself first, then the task and what it builds on."""
    parts = [f"Your step ({step.id}): {step.description}", f"It is part of this task:\n{task}"]
    if needs:
        parts.append(_results("Results of the steps that it builds on:", needs))
    parts.append("Do your step only, and answer with its result.")
    return "\n\n".join(parts)


def combining(task: str, results: Mapping[str, tuple[Step, Any]]) -> str:
    """Ask for the answer to the whole task."""
    return f"Task:\n{task}\n\n{_results('Results of the steps:', results)}"


def said(value: Any) -> str:
    """Give the result of a step as a prompt holds it: its text where it has one."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    text = as_text(value)
    if len(text) > MAX_RESULT:
        return f"{text[:MAX_RESULT]}\n... cut: {len(text)} characters in all"
    return text


def _results(title: str, results: Mapping[str, tuple[Step, Any]]) -> str:
    lines = [f"- {step.id} ({step.description}): {said(value)}" for step, value in results.values()]
    return "\n".join([title, *lines])


def _written(step: Step) -> str:
    return json.dumps(step.model_dump(), ensure_ascii=False)


def offer(tools: Iterable[Tool]) -> str:
    """Tell what workers can call, to be added to a question; empty without tools."""
    known = list(tools)
    if not known:
        return ""
    lines = []
    for tool in known[:_MAX_TOOLS]:
        line = " ".join(tool.description.split())[:_MAX_LINE]
        lines.append(f"- {tool.name}: {line}" if line else f"- {tool.name}")
    if len(known) > _MAX_TOOLS:
        lines.append(f"- and {len(known) - _MAX_TOOLS} more")
    return "\n".join(["\n\nWorkers have these tools:", *lines])
