"""What goes over to the browser: plain JSON values, and texts that are ready to be shown."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from planbench.render.cards import LINE_SIZE, RIGHT, TEXT_X, card
from planbench.render.figures import duration, size
from planbench.render.lettering import shorten_end, text_width
from planbench.render.view import GraphView, NodeView, counter_text, graph_view
from planbench.runtime.details import kind_of, node_view

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.plan.manifest import ArtifactRef
    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.runtime import NodeState, Run
    from planbench.runtime.outlook import Outlook
    from planbench.validation import ValidationReport

Record = dict[str, Any]

MAX_NOTE: Final = 300
_VALID: Final[Record] = {"s": "valid"}
_WAITING: Final[Record] = {"s": "waiting", "c": "waiting"}
MAX_ISSUES: Final = 500
_FULL: Final = 0.65


class Subject(Protocol):
    """What is shown: a session, or a run alone."""

    @property
    def name(self) -> str:
        """The name above the graph."""
        ...

    @property
    def run(self) -> Run | None:
        """The latest run."""
        ...

    @property
    def report(self) -> ValidationReport:
        """What the latest check found."""
        ...

    @property
    def plan(self) -> ExecutionPlan | None:
        """The plan when it is sound."""
        ...

    @property
    def draft(self) -> ExecutionPlan | None:
        """What there is to be drawn."""
        ...

    @property
    def inferred(self) -> Mapping[str, Collection[str]]:
        """The edges that nobody wrote."""
        ...

    @property
    def resumable(self) -> Outlook | None:
        """What is left of a run that can be continued."""
        ...


def is_live(run: Run | None) -> bool:
    """Whether a run is going on."""
    return run is not None and run.status in ("pending", "running", "waiting")


def shown_plan(subject: Subject) -> ExecutionPlan | None:
    """Give the plan whose nodes are on the screen: the one that ran, else the one that was read."""
    return subject.draft if subject.run is None else subject.run.plan


def outline(plan: ExecutionPlan) -> list[Record]:
    """Give each node with its tool and the places of the nodes that it waits for."""
    place = {node.id: index for index, node in enumerate(plan.nodes)}
    return [
        {
            "id": node.id,
            "tool": called(node),
            "kind": kind_of(node),
            "after": [place[other] for other in node.depends_on if other in place],
        }
        for node in plan.nodes
    ]


def called(node: PlanNode) -> str:
    """Name the tool of a node, or say what the step of an algorithm does."""
    return node.tool or (node.description or "" if node.type == "delegate" else "")


def node_look(node: PlanNode, run: Run | None, red: str | None, now: float) -> NodeView:
    """Give a node as it stands: in the run, red where the plan has become wrong since."""
    if run is None:
        status = "valid" if red is None else "invalid"
        return NodeView(node.id, node.id, kind_of(node), status, note=red)
    state = run.state.nodes[node.id]
    view = node_view(node, state, ended=run.finished)
    if red is not None:
        return dataclasses.replace(view, status="invalid", note=red)
    return dataclasses.replace(view, seconds=_elapsed(state, now), failed=state.failed)


def graph(subject: Subject, now: float) -> GraphView | None:
    """Give the graph as it stands; None where there is nothing to draw."""
    plan = shown_plan(subject)
    if plan is None or not plan.nodes:
        return None
    red = first_errors(subject)
    looks = {node.id: node_look(node, subject.run, red.get(node.id), now) for node in plan.nodes}
    return graph_view(plan, looks, subject.inferred)


def structure(plan: ExecutionPlan) -> tuple[Any, ...]:
    """Give what a layout depends on, at a small part of its cost."""
    return tuple(
        (node.id, node.tool, node.type, *node.depends_on, node.when, node.for_each, node.approve)
        for node in plan.nodes
    )


def node_record(view: NodeView, room: float | None = None) -> Record:
    """Give one node as the panel shows it; what there is nothing to say about is left out.

    ``room`` is the width of the counter in the drawing, in points.
    """
    record = {
        "s": view.status,
        "c": _fitting(counter_text(view), room),
        "i": items_text(view),
        "t": "" if view.seconds is None else duration(view.seconds),
        "b": "" if not view.nbytes else size(view.nbytes),
        "n": (view.note or "")[:MAX_NOTE],
        "p": round((view.done or 0) / view.total, 4) if view.total else 0,
    }
    return {key: value for key, value in record.items() if value}


def _fitting(counter: str, room: float | None) -> str:
    """Leave out the last facts of a counter before one is cut in the middle."""
    if room is None or text_width(counter, LINE_SIZE) <= room:
        return counter
    kept, dot, _ = counter.rpartition(" \N{MIDDLE DOT} ")
    if dot and text_width(kept, LINE_SIZE) > _FULL * room:
        return _fitting(kept, room)
    return shorten_end(counter, room, LINE_SIZE)


def items_text(view: NodeView) -> str:
    """Say how many items of a fan-out are done, as ``12 of 300``; empty for one call."""
    if view.total is None:
        return ""
    text = f"{view.done or 0:,} of {view.total:,}"
    return f"{text}, {view.reused:,} reused" if view.reused else text


def rooms(view: GraphView) -> tuple[float, ...]:
    """Give the room for the counter on the card of each node."""
    return tuple(card(node).width - TEXT_X - RIGHT / 2 for node in view.nodes)


class NodeWatch:
    """Tells which nodes look different from the last time, at a fraction of a drawing's cost."""

    def __init__(self, subject: Subject) -> None:
        self.rooms: tuple[float, ...] = ()
        self._subject = subject
        self._about: tuple[Any, ...] = ()
        self._marks: dict[int, Any] = {}

    def forget(self) -> None:
        """Take every node as changed at the next look."""
        self._marks = {}

    def changed(self, now: float) -> dict[str, Record]:
        """Give the records of the nodes that changed, by the place of the node as text."""
        plan, run = shown_plan(self._subject), self._subject.run
        if plan is None:
            return {}
        red = first_errors(self._subject)
        about = (run, run is not None and run.finished, red)
        if about != self._about:
            self._about = about
            self.forget()
        marks, states = self._marks, {} if run is None else run.state.nodes
        drawn = len(self.rooms) == len(plan.nodes)
        found = {}
        for index, node in enumerate(plan.nodes):
            state = states.get(node.id)
            mark: Any = "" if state is None else state.status
            if mark == "running" and state is not None:
                # The other states stand still: that is what makes a look at a large plan cheap.
                mark = (state.done, state.failed, state.total, state.nbytes, _elapsed(state, now))
            if marks.get(index) == mark:
                continue
            marks[index] = mark
            if node.id not in red and (run is None or (mark == "waiting" and not run.finished)):
                found[str(index)] = _WAITING if run is not None else _VALID
                continue
            view = node_look(node, run, red.get(node.id), now)
            found[str(index)] = node_record(view, self.rooms[index] if drawn else None)
        return found


def first_errors(subject: Subject) -> dict[str, str]:
    """Give the first error of each node that has one; none while a run is going on."""
    found: dict[str, str] = {}
    if not is_live(subject.run):
        for issue in subject.report.issues:
            if issue.node_id is not None and issue.severity == "error":
                found.setdefault(issue.node_id, issue.message)
    return found


def _elapsed(state: NodeState, now: float) -> float | None:
    """The seconds of a node that ended; whole ones while it runs, so that it changes once a second."""
    if state.seconds is not None:
        return state.seconds
    if state.status != "running" or state.started is None or now - state.started < 1:
        return None
    return float(int(now - state.started))


def status_record(subject: Subject, now: float) -> Record:
    """Give the header: state, progress and elapsed time as text, and what there is to say."""
    run, report = subject.run, subject.report
    errors = sum(issue.severity == "error" for issue in report.issues)
    if run is None:
        plan = subject.draft
        count = "" if plan is None else plural(len(plan.nodes), "node")
        left = subject.resumable
        return {
            "state": "valid" if report.ok else "invalid",
            "progress": count,
            "nodes": count,
            "elapsed": "",
            "run_id": None,
            "message": "" if left is None else _interrupted(left),
            "tone": "" if left is None else "warning",
        }
    nodes = f"{run.nodes_done} of {plural(run.nodes_total, 'node')}"
    states = run.state.nodes.values()
    total = sum(node.total or 0 for node in states)
    done = sum(node.done + node.failed for node in states if node.total is not None)
    items = f", {done:,} of {plural(total, 'item')}" if total else ""
    message, tone = _said(subject, errors)
    return {
        "state": run.status if is_live(run) or report.ok else "invalid",
        "progress": nodes + items,
        "nodes": nodes,
        "elapsed": _run_seconds(run, now),
        "run_id": run.run_id,
        "message": message,
        "tone": tone,
    }


def _interrupted(left: Outlook) -> str:
    return f"run {left.run_id} of this plan was interrupted, {left.calls_left}: %plan resume {left.run_id}"


def _said(subject: Subject, errors: int) -> tuple[str, str]:
    run = subject.run
    if run is None:
        return "", ""
    if is_live(run):
        held = f"run {run.run_id} is being cancelled; a tool has not ended yet"
        return (held, "warning") if run.cancelling else ("", "")
    if errors:
        return (
            f"run {run.run_id} was {run.status}; since then the plan has {plural(errors, 'error')}",
            "error",
        )
    if run.status in ("failed", "partial", "budget_exceeded"):
        told = run.failure_text() if run.status != "budget_exceeded" else ""
        return told or run.state.reason or "", "error"
    if run.status in ("cancelled", "interrupted"):
        why = run.state.reason or "what had finished is kept"
        return f"run {run.run_id} was {run.status}; {why}", "warning"
    return "", ""


def _run_seconds(run: Run, now: float) -> str:
    state = run.state
    if state.started is None:
        return ""
    if state.finished is not None:
        return duration(state.finished - state.started)
    return f"{max(0.0, now - state.started):.0f} s" if now - state.started >= 1 else ""


def button_records(subject: Subject) -> dict[str, Record]:
    """Give each button: whether it can be pressed, and the words that say why not."""
    live = is_live(subject.run)
    errors = sum(issue.severity == "error" for issue in subject.report.issues)
    if live:
        run = (False, "A run is going on: wait for it, or cancel it")
    elif subject.run is not None and subject.run.state.agent is not None:
        run = (False, "An algorithm is started from a cell: %plan run NAME --param task=...")
    elif errors or subject.plan is None:
        run = (False, f"The plan has {plural(errors, 'error')}: see the issues")
    else:
        run = (True, "Run the plan on this kernel")
    cancel = (
        (True, "End the run; what has finished is kept") if live else (False, "No run is going on")
    )
    validate = (True, "Check the plan again, against the tools that the kernel holds now")
    left = subject.resumable
    resume = (False, "No run of this plan has calls left")
    if left is not None:
        resume = (True, f"Go on with run {left.run_id}: what is on record is not called again")
    label = "" if left is None else f"Resume: {left.calls_left}"
    found: dict[str, Record] = {
        name: {"enabled": enabled, "title": title}
        for name, (enabled, title) in {
            "run": run,
            "resume": resume,
            "cancel": cancel,
            "validate": validate,
        }.items()
    }
    found["resume"]["label"] = label
    return found


def issue_records(subject: Subject) -> list[Record]:
    """Give the issues in the order of the plan's text, each with the place of its node."""
    plan = shown_plan(subject)
    place = {} if plan is None else {node.id: index for index, node in enumerate(plan.nodes)}
    return [
        {**issue.model_dump(mode="json"), "node": place.get(issue.node_id or "")}
        for issue in subject.report.issues[:MAX_ISSUES]
    ]


def details_record(details: Mapping[str, Any]) -> Record:
    """Give what ``PlanSession.details`` tells, with facts and facets as pairs of texts."""
    kept = (
        "id", "tool", "description", "args_text", "status", "reason", "errors", "output",
        "warnings", "keys", "issues", "table",
    )  # fmt: skip
    facets = [(name, plain(value)) for name, value in details["facets"].items()]
    return {**{name: details[name] for name in kept}, "facts": _facts(details), "facets": facets}


def _facts(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    retry, each = details["retry"] or {}, details["for_each"] or {}
    facts = {
        "waits for": ", ".join(details["depends_on"]),
        "only when": details["when"] or "",
        "for each": ", ".join(f"{name} {plain(value)}" for name, value in each.items()),
        "retry": ", ".join(f"{name} {plain(value)}" for name, value in retry.items()),
        "timeout": "" if details["timeout"] is None else plain(details["timeout"]),
        "items": _item_counts(details),
        "time": "" if details["seconds"] is None else duration(details["seconds"]),
        "stored": "" if not details["nbytes"] else size(details["nbytes"]),
    }
    return [(name, text) for name, text in facts.items() if text]


def _item_counts(details: Mapping[str, Any]) -> str:
    if details["total"] is None:
        return ""
    parts = [f"{details['done'] + details['failed']:,} of {details['total']:,}"]
    parts += [f"{details[name]:,} {name}" for name in ("failed", "reused") if details[name]]
    return ", ".join(parts)


def facet_text(ref: ArtifactRef) -> str:
    """Give all facets of a node on one line."""
    return ", ".join(f"{name} {plain(value)}" for name, value in ref.facets.items())


def plain(value: Any) -> str:
    """Give a JSON value as text for people: lists and small maps without their brackets."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{name}: {plain(one)}" for name, one in value.items())
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return json.dumps(value, ensure_ascii=False, default=str)


def plural(count: int, noun: str) -> str:
    """Give ``1 node``, ``2 nodes``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
