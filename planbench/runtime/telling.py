"""What an algorithm may tell in the journal of its run, checked before it is there for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from planbench import events as ev
from planbench.errors import ConfigurationError
from planbench.plan.source import shown
from planbench.plan.steps import Step, step_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.runtime.state import RunState

TOLD: Final = frozenset(
    {ev.PLAN_CREATED, ev.PLAN_REVISED, ev.TASK_STARTED, ev.TASK_FINISHED, ev.TASK_FAILED}
)
"""The events of the engine that are an algorithm's to tell."""
_PLANS: Final = frozenset({ev.PLAN_CREATED, ev.PLAN_REVISED})


def is_told(kind: str) -> bool:
    """Whether an event is an algorithm's to tell: those of plans and tasks, and any of its own."""
    return kind in TOLD or kind not in ev.EVENT_TYPES


def check_told(kind: str, data: Mapping[str, Any], state: RunState) -> None:
    """Raise ConfigurationError for what cannot be told."""
    if not kind or not is_told(kind):
        raise ConfigurationError(
            f"an algorithm cannot tell {shown(kind)}: the engine does",
            hint="tell plan.created, plan.revised, task.started, task.finished, task.failed, or a type of your own",
        )
    if kind in _PLANS:
        _check_steps(kind, data.get("steps"), state)
    elif kind in TOLD and not isinstance(data.get("step_id"), str):
        raise ConfigurationError(f"event {kind!r} needs a step_id")


def _check_steps(kind: str, steps: Any, state: RunState) -> None:
    if not isinstance(steps, list) or not steps:
        raise ConfigurationError(f"event {kind!r} needs steps: a list of at least one")
    try:
        read = [Step.model_validate(step) for step in steps]
    except ValidationError as error:
        raise ConfigurationError(f"a step of event {kind!r} is wrong: {error}") from error
    agent = state.agent
    known = set(agent.steps) if agent is not None and kind == ev.PLAN_REVISED else set()
    problems = step_problems(read, known)
    if problems:
        raise ConfigurationError(
            f"the steps of event {kind!r} are wrong: {'; '.join(p.message for p in problems)}"
        )
