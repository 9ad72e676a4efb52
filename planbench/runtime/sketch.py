"""The steps of an agent's run as a plan, so that it is drawn and counted as any other run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.model import ExecutionPlan, PlanNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 200


def node_name(step_id: str, taken: Iterable[str] = ()) -> str:
    """Give the id of the node that shows a step: its own id where that can be one of a node."""
    name = _OTHER.sub("_", step_id)
    if not name[:1].isalpha() or not name.isascii():
        name = f"s_{name}"
    used, plain, number = set(taken), name, 1
    while name in used:
        number += 1
        name = f"{plain}_{number}"
    return name


def sketch(name: str, task: Any, steps: Sequence[Mapping[str, Any]] = ()) -> ExecutionPlan:
    """Draw a run: a node for each step (id, description, depends_on), or one for the whole.

    It is for looking at, and no engine can run it: what is to be called is not in it.
    """
    objective = task if isinstance(task, str) else ""
    if not steps:
        steps = [{"id": node_name(name), "description": objective, "depends_on": []}]
    nodes = [
        PlanNode(
            id=step["id"],
            type="delegate",
            instruction=step["description"] or step["id"],
            description=step["description"] or None,
            depends_on=list(step["depends_on"]),
        )
        for step in steps
    ]
    return ExecutionPlan(name=name[:_LONGEST], objective=objective, nodes=nodes)
