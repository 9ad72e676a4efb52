"""How the run of an algorithm stands: its steps, what it spent, what it gave; a fold as of any run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.runtime.budget import Spend
from planbench.runtime.sketch import node_name, sketch
from planbench.runtime.standing import NodeState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planbench.events import Event
    from planbench.runtime.state import RunState

MANIFEST_STATUS: Final = {"success": "completed", "budget_exceeded": "partial"}
"""What a manifest calls the ends that a plan does not have."""


class AgentState:
    """What the journal says of the algorithm of a run.

    ``started`` is the data of its first event, ``ended`` that of its last, where its value
    is kept. ``steps`` holds the steps of its plan as they are drawn, by their own ids.
    """

    def __init__(self, started: Mapping[str, Any]) -> None:
        if type(started["algorithm"]) is not str or type(started["inputs"]) is not dict:
            raise TypeError("the start of an algorithm names none, or no inputs")
        self.started = started
        self.name: str = started["algorithm"]
        self.ended: Mapping[str, Any] = {}
        self.steps: dict[str, dict[str, Any]] = {}
        self._own = Spend()
        self._below: dict[str, Spend] = {}

    @property
    def spent(self) -> Spend:
        """What the run took, with the child runs that have ended."""
        total = self._own
        for spend in self._below.values():
            total = total.plus(spend)
        return total

    def spent_without(self, children: set[str]) -> Spend:
        """What the run took, without these of its children."""
        total = self._own
        for run_id, spend in self._below.items():
            if run_id not in children:
                total = total.plus(spend)
        return total

    def node_id(self, step_id: str) -> str:
        """Give the node that shows a step; raises KeyError."""
        name: str = self.steps[step_id]["id"]
        return name

    @property
    def usage(self) -> dict[str, float]:
        """What the run took, as a manifest has it."""
        spent = self.spent
        counts = {"calls": spent.calls, "input_tokens": spent.input_tokens}
        counts["output_tokens"] = spent.output_tokens
        known = {name: float(count) for name, count in counts.items()}
        return known if spent.cost is None else {**known, "cost": spent.cost}

    def asked(self, event: Event) -> None:
        """Count a call of a model."""
        if "usage" in event.data:
            self._own = self._own.plus(Spend.from_dict(event.data["usage"]))

    def child_ended(self, event: Event) -> None:
        """Take over what a child took; one that went on later counts once."""
        self._below[event.data["run_id"]] = Spend.from_dict(event.data["usage"])


def begin(state: RunState, data: Mapping[str, Any]) -> None:
    """Open the run of an algorithm: as long as there is no plan of steps, it is one node."""
    state.agent = AgentState(data)
    state.plan = sketch(state.agent.name, data.get("task"))
    state.nodes = {node.id: NodeState(node.id) for node in state.plan.nodes}
    for node in state.nodes.values():
        node.status = "running"
        node.started = state.started


def end(state: RunState, event: Event) -> None:
    """Close what was open when the run ended."""
    agent = state.agent
    assert agent is not None
    agent.ended = event.data
    whole = not agent.steps
    for node in state.nodes.values():
        if node.status != "running":
            continue
        node.finished = event.timestamp
        node.status = "cancelled"
        node.reason = state.reason or f"the run is {state.status}"
        if whole and state.status == "success":
            node.status, node.reason = "ok", None
            node.done = 1
        elif whole and state.status == "failed":
            node.status, node.reason = "error", None
            node.errors = [state.reason or "failed"]
            state.errors += 1
        state.nodes_done += 1


def go_on(state: RunState) -> None:
    """Open the run again where it is one node; steps are opened by name."""
    agent = state.agent
    if agent is None:
        return
    agent.ended = {}
    if not agent.steps:
        for node_id in [*state.nodes]:
            state.nodes[node_id] = again = NodeState(node_id)
            again.status, again.started = "running", state.started


def _planned(state: RunState, event: Event) -> None:
    """Draw the plan, or its remaining steps anew: those that were never begun make room for them."""
    agent, plan = state.agent, state.plan
    if agent is None or plan is None:
        return
    revised = event.type == ev.PLAN_REVISED
    kept = {
        step_id: step
        for step_id, step in agent.steps.items()
        if revised and state.nodes[step["id"]].status != "waiting"
    }
    agent.steps = dict(kept)
    drawn = {step["id"] for step in kept.values()}
    stays = frozenset(drawn)
    new = event.data["steps"]
    for step in new:
        name = node_name(step["id"], drawn)
        drawn.add(name)
        agent.steps[step["id"]] = {"id": name, "description": str(step["description"])}
    for step in new:
        needs = [agent.steps[need]["id"] for need in step["depends_on"] if need in agent.steps]
        agent.steps[step["id"]]["depends_on"] = needs
    state.plan = sketch(plan.name, plan.objective, list(agent.steps.values()))
    nodes = state.nodes
    state.nodes = {
        node.id: nodes[node.id] if node.id in stays else NodeState(node.id)
        for node in state.plan.nodes
    }
    state.nodes_done = sum(node.ended for node in state.nodes.values())


def _task_started(state: RunState, event: Event) -> None:
    node = _node(state, event)
    if node is None:
        return
    if node.ended:
        state.nodes_done -= 1
        state.nodes[node.node_id] = node = NodeState(node.node_id)
    node.status = "running"
    node.started = event.timestamp


def _task_finished(state: RunState, event: Event) -> None:
    node = _node(state, event)
    if node is None:
        return
    node.status = "ok"
    node.done = 1
    node.finished = event.timestamp
    state.nodes_done += 1


def _task_failed(state: RunState, event: Event) -> None:
    node = _node(state, event)
    if node is None:
        return
    node.status = "error"
    node.errors = [str(event.data.get("reason", "failed"))]
    node.finished = event.timestamp
    state.nodes_done += 1
    state.errors += 1


def _node(state: RunState, event: Event) -> NodeState | None:
    """Find the node of a step; None for an algorithm that told of no plan."""
    agent = state.agent
    step_id = event.data["step_id"]
    if agent is None or step_id not in agent.steps:
        return None
    return state.nodes[agent.node_id(step_id)]


def _called(state: RunState, event: Event) -> None:
    if state.agent is not None:
        state.agent.asked(event)
    elif "usage" in event.data:
        state.spent = state.spent.plus(Spend.from_dict(event.data["usage"]))


def _child_finished(state: RunState, event: Event) -> None:
    if state.agent is not None:
        state.agent.child_ended(event)


APPLY: Final[dict[str, Callable[[RunState, Event], None]]] = {
    ev.PLAN_CREATED: _planned,
    ev.PLAN_REVISED: _planned,
    ev.TASK_STARTED: _task_started,
    ev.TASK_FINISHED: _task_finished,
    ev.TASK_FAILED: _task_failed,
    ev.LLM_CALLED: _called,
    ev.CHILD_FINISHED: _child_finished,
}
"""What an event of an algorithm changes."""
