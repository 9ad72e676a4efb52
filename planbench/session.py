"""A plan that is open: checked live against the tools, run, and looked at while it runs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import PydanticSerializationError

from planbench.errors import PlanInvalid
from planbench.memory.frames import to_frame
from planbench.plan.document import format_yaml
from planbench.plan.placeholders import as_text
from planbench.plan.shapes import describe
from planbench.render.view import GraphView, NodeView, graph_view
from planbench.runtime.output import as_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from planbench.events import Event
    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.runtime import NodeState
    from planbench.runtime.run import Run
    from planbench.tools import ToolRegistry
    from planbench.validation import ValidationReport

_logger = logging.getLogger(__name__)

SHOWN_KEYS: Final = 50
SHOWN_ROWS: Final = 20
SHOWN_COLUMNS: Final = 20
SHOWN_TEXT: Final = 200


class Bench(Protocol):
    """What a session needs of its workbench."""

    registry: ToolRegistry
    sessions: set[PlanSession]

    def check(
        self,
        source: str | Path | Mapping[str, Any] | ExecutionPlan,
        params: Mapping[str, Any] | None = None,
    ) -> ValidationReport:
        """Check a plan."""
        ...

    async def start(self, plan: ExecutionPlan, params: Mapping[str, Any] | None = None) -> Run:
        """Start a run."""
        ...


class PlanSession:
    """One open plan, with its latest report and its latest run.

    Subscribers hear ``"report"`` when it was checked again, ``"run"`` when a run
    began, ``"event"`` with each event of it, ``"finished"`` at its end. Where a loop
    runs they are called on it, also when a tool changes in another thread.
    """

    def __init__(
        self,
        workbench: Bench,
        source: str | Path | ExecutionPlan,
        params: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.workbench = workbench
        self.source = source
        self.params = None if params is None else dict(params)
        self.run: Run | None = None
        self._given_name = name
        self._subscribers: list[list[Callable[[str], None]]] = []
        self._loop = _running_loop()
        self._stale = False
        self._leave_registry = workbench.registry.subscribe(self._tool_changed)
        self._leave_run: Callable[[], None] | None = None
        self.report = workbench.check(source, self.params)
        workbench.sessions.add(self)

    def __repr__(self) -> str:
        return f"<PlanSession {self.name!r}: {'ok' if self.report.ok else 'invalid'}, run {self.run and self.run.run_id}>"

    @property
    def name(self) -> str:
        """The plan's name, or what it was called when it could not be read."""
        plan = self.draft
        return self._given_name or (plan.name if plan is not None else "plan")

    @property
    def plan(self) -> ExecutionPlan | None:
        """The plan when it is sound in itself, with the parameters put in where given."""
        return self.report.plan

    @property
    def draft(self) -> ExecutionPlan | None:
        """What there is to be drawn: the plan, or as much of a broken one as could be read."""
        return self.report.plan or self.report.draft

    # -- checking ---------------------------------------------------------------------

    def validate(self) -> ValidationReport:
        """Check the plan again and tell the subscribers."""
        self._stale = False
        self.report = self.workbench.check(self.source, self.params)
        self._tell("report")
        return self.report

    def _tool_changed(self, change: object) -> None:
        """Check again within one turn of the session's loop, or at once where none runs."""
        del change
        if self._loop is None or not self._loop.is_running():
            self._loop, self._stale = _running_loop(), False
        if self._stale:
            return  # many changes in one turn are looked at together
        self._stale = True
        if self._loop is None:
            self.validate()
            return
        try:
            self._loop.call_soon_threadsafe(self._validate_if_stale)
        except RuntimeError:  # the loop was closed in between
            self.validate()

    def _validate_if_stale(self) -> None:
        if self._stale:
            self.validate()

    # -- running ----------------------------------------------------------------------

    async def start(self) -> Run:
        """Check and start; the run becomes the session's. Raises PlanInvalid and RunRefused."""
        report = self.validate()
        if report.plan is None or not report.ok:
            raise PlanInvalid(report.issues, name=self.name)
        self._loop = asyncio.get_running_loop()
        run = await self.workbench.start(report.plan)
        self.follow(run)
        return run

    def follow(self, run: Run) -> None:
        """Show this run, live or ended."""
        if self._leave_run is not None:
            self._leave_run()
        self.run = run
        self._leave_run = run.subscribe(self._event)
        self._tell("run")
        if run.finished:
            self._tell("finished")

    def cancel(self) -> None:
        """Cancel the latest run, if it is live; may be called from any thread."""
        if self.run is not None:
            self.run.cancel()

    def _event(self, event: Event) -> None:
        del event
        self._tell("event")
        if self.run is not None and self.run.finished:
            self._tell("finished")

    # -- telling ----------------------------------------------------------------------

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the kind of each change; returns the way out.

        A callback that raises does not keep the others from being told: it is logged.
        """
        cell: list[Callable[[str], None]] = [callback]
        self._subscribers.append(cell)
        self._loop = _running_loop() or self._loop

        def leave() -> None:
            cell.clear()
            if cell in self._subscribers:
                self._subscribers.remove(cell)

        return leave

    def _tell(self, kind: str) -> None:
        for cell in tuple(self._subscribers):
            for callback in tuple(cell):
                try:
                    callback(kind)
                except Exception:
                    _logger.exception("a subscriber of %r failed at %r", self.name, kind)

    def close(self) -> None:
        """Stop listening; the run goes on."""
        self._leave_registry()
        if self._leave_run is not None:
            self._leave_run()
            self._leave_run = None
        for cell in self._subscribers:
            cell.clear()
        self._subscribers.clear()
        self.workbench.sessions.discard(self)

    # -- showing ----------------------------------------------------------------------

    def view(self) -> GraphView | None:
        """Give the graph as it stands: run states, and red what has become wrong since.

        None when nothing can be drawn.
        """
        run = self.run
        plan = run.plan if run is not None else self.draft
        if plan is None or not plan.nodes:
            return None
        if run is not None and not run.finished:
            return run_view(run)
        views = {}
        for node in plan.nodes:
            idle = NodeView(id=node.id, title=node.id, kind=kind_of(node))
            views[node.id] = (
                idle if run is None else node_view(node, run.state.nodes[node.id], ended=True)
            )
        for issue in reversed(self.report.issues):
            view = views.get(issue.node_id or "")
            if view is not None and issue.severity == "error":
                views[view.id] = dataclasses.replace(view, status="invalid", note=issue.message)
        return graph_view(plan, views, self.report.inferred)

    def details(self, node_id: str) -> dict[str, Any]:
        """Give all there is to know about a node, as JSON values; raises KeyError."""
        run = self.run
        plan = run.plan if run is not None else self.draft
        if plan is None:
            raise KeyError(node_id)
        node = plan.node(node_id)
        state = run.state.nodes[node_id] if run is not None else None
        found = _written(node)
        found["issues"] = [
            issue.model_dump(mode="json")
            for issue in self.report.issues
            if issue.node_id == node_id
        ]
        found.update(_stands(state))
        found["table"] = None
        if run is not None and state is not None and (state.store_key or state.item_keys):
            found["table"] = _table(run, node_id)
        return found


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def kind_of(node: PlanNode) -> str:
    """Say how a node is drawn."""
    if node.type == "delegate":
        return "delegate"
    return "fan_out" if node.for_each is not None else "tool"


def run_view(run: Run) -> GraphView:
    """Give the graph of a run with the states of its nodes."""
    ended = run.finished
    return graph_view(
        run.plan,
        {
            node.id: node_view(node, run.state.nodes[node.id], ended=ended)
            for node in run.plan.nodes
        },
    )


def node_view(node: PlanNode, state: NodeState, *, ended: bool = False) -> NodeView:
    """Give one node as it stands in a run; what never started in a run that ended is idle."""
    note = state.reason or (state.errors[0] if state.errors else None)
    status = "idle" if ended and state.status == "waiting" else state.status
    return NodeView(
        id=node.id,
        title=node.id,
        kind=kind_of(node),
        status=status,
        done=None if state.total is None else state.done + state.failed,
        total=state.total,
        seconds=state.seconds,
        nbytes=state.nbytes or None,
        note=note,
        reused=state.reused,
        failed=state.failed,
        tool=node.tool or "",
    )


def _written(node: PlanNode) -> dict[str, Any]:
    try:
        record = node.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    except (PydanticSerializationError, UnicodeDecodeError):  # a parameter that is no JSON value
        told = {"args": {name: f"({describe(value)})" for name, value in node.args.items()}}
        node = node.model_copy(update=told)
        record = node.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return {
        "id": node.id,
        "tool": node.tool,
        "type": node.type,
        "description": node.description,
        "args_text": format_yaml(record.get("args", {})) if node.args else "",
        "when": node.when,
        "depends_on": list(node.depends_on),
        "for_each": record.get("for_each"),
        "retry": record.get("retry"),
        "timeout": node.timeout,
        "store_as": node.store_as,
    }


def _stands(state: NodeState | None) -> dict[str, Any]:
    if state is None:
        return {
            "status": "idle",
            "reason": None,
            "facets": {},
            "errors": [],
            "output": "",
            "warnings": [],
            "seconds": None,
            "nbytes": 0,
            "done": 0,
            "total": None,
            "failed": 0,
            "reused": 0,
            "keys": [],
        }
    return {
        "status": state.status,
        "reason": state.reason,
        "facets": dict(state.facets),
        "errors": list(state.errors),
        "output": state.output,
        "warnings": list(state.warnings),
        "seconds": state.seconds,
        "nbytes": state.nbytes,
        "done": state.done,
        "total": state.total,
        "failed": state.failed,
        "reused": state.reused,
        "keys": state.keys[:SHOWN_KEYS],
    }


def _table(run: Run, node_id: str) -> dict[str, Any] | None:
    if node_id not in run.bodies:
        return None
    value = run.value(node_id)
    if isinstance(value, list):
        frame, rows = to_frame(value[:SHOWN_ROWS]), len(value)
    else:
        frame = to_frame(value)
        rows = len(frame)
    shown = frame.iloc[:SHOWN_ROWS, :SHOWN_COLUMNS]
    return {
        "columns": [_shown(column) for column in shown.columns],
        "rows": [
            [_shown(cell) for cell in row] for row in shown.itertuples(index=False, name=None)
        ],
        "n_rows": rows,
    }


def _shown(value: Any) -> str:
    """Write a cell as text, whatever it is; what cannot be written is described."""
    try:
        text = as_text(value)
    except Exception:  # noqa: BLE001 - objects of users may raise anything when they are asked for words
        text = f"({describe(value)} that cannot be written)"
    return as_utf8(text[:SHOWN_TEXT])
