"""What happened in a run, in the order in which it happened.

Only the engine makes events. A run is the list of its events, and its state is
a fold over that list, so nothing that is shown or resumed is kept elsewhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

PREFIX: Final = "planbench."

RUN_STARTED: Final = "planbench.run.started"
RUN_FINISHED: Final = "planbench.run.finished"
RUN_CANCELLED: Final = "planbench.run.cancelled"
RUN_INTERRUPTED: Final = "planbench.run.interrupted"
RUN_PAUSED: Final = "planbench.run.paused"
RUN_CONTINUED: Final = "planbench.run.continued"
NODE_STARTED: Final = "planbench.node.started"
NODE_PROGRESS: Final = "planbench.node.progress"
NODE_FINISHED: Final = "planbench.node.finished"
NODE_FAILED: Final = "planbench.node.failed"
NODE_SKIPPED: Final = "planbench.node.skipped"
NODE_BLOCKED: Final = "planbench.node.blocked"
NODE_RETRIED: Final = "planbench.node.retried"
NODE_CACHED: Final = "planbench.node.cached"
NODE_OUTPUT: Final = "planbench.node.output"
ITEM_FINISHED: Final = "planbench.item.finished"
ITEM_FAILED: Final = "planbench.item.failed"
PLAN_CREATED: Final = "planbench.plan.created"
PLAN_REVISED: Final = "planbench.plan.revised"
TASK_STARTED: Final = "planbench.task.started"
TASK_FINISHED: Final = "planbench.task.finished"
TASK_FAILED: Final = "planbench.task.failed"
LLM_CALLED: Final = "planbench.llm.called"
TOOL_CALLED: Final = "planbench.tool.called"
CHILD_STARTED: Final = "planbench.child.started"
CHILD_FINISHED: Final = "planbench.child.finished"
APPROVAL_REQUESTED: Final = "planbench.approval.requested"
APPROVAL_DECIDED: Final = "planbench.approval.decided"
REPAIR_RESERVED: Final = "planbench.repair.reserved"
BUDGET_EXCEEDED: Final = "planbench.budget.exceeded"

EVENT_TYPES: Final = frozenset(
    value
    for name, value in dict(globals()).items()
    if name.isupper() and name != "PREFIX" and isinstance(value, str)
)
_RECORD: Final = {"seq": int, "run_id": str, "at": str, "type": str, "data": dict}


class Event(NamedTuple):
    """One thing that happened: frozen, numbered from 1 within its run.

    ``timestamp`` is seconds since the epoch; ``data`` holds JSON values only and
    carries ``node_id`` (and ``index`` for an item) where the event is about one.
    A tuple and not a model, since a fan-out of 10,000 items makes 10,000 of them.
    """

    seq: int
    run_id: str
    timestamp: float
    type: str
    data: dict[str, Any]

    @property
    def at(self) -> datetime:
        """The moment as an aware UTC datetime."""
        return datetime.fromtimestamp(self.timestamp, UTC)

    def to_dict(self) -> dict[str, Any]:
        """Give the record form: ``at`` as ISO 8601 text, the rest as it is."""
        return {
            "seq": self.seq,
            "run_id": self.run_id,
            "at": self.at.isoformat(),
            "type": self.type,
            "data": self.data,
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Event:
        """Read the record form back; raises KeyError or ValueError on a damaged one."""
        odd = [key for key, kind in _RECORD.items() if type(record[key]) is not kind]
        if odd:
            raise ValueError(f"the event's {odd[0]} is no {_RECORD[odd[0]].__name__}")
        at = datetime.fromisoformat(record["at"])
        if at.tzinfo is None:
            raise ValueError("the event's time names no zone")
        return cls(record["seq"], record["run_id"], at.timestamp(), record["type"], record["data"])
