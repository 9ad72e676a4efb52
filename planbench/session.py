"""A plan that is open: checked live against the tools, run, and looked at while it runs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from planbench.errors import PlanbenchError, PlanInvalid, RunRefused
from planbench.files import make_lock
from planbench.plan.issues import ValidationIssue
from planbench.render.view import GraphView, NodeView, graph_view
from planbench.runtime.details import kind_of, node_details, node_view, run_view
from planbench.runtime.outlook import outlook_of
from planbench.tools import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping
    from weakref import WeakKeyDictionary

    from planbench.events import Event
    from planbench.files import PlanFileStore
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.outlook import Outlook
    from planbench.runtime.run import Run
    from planbench.validation import ValidationReport

_logger = logging.getLogger(__name__)


class Origin(NamedTuple):
    """What a run was made of: its source as it was given, and the edges that nobody wrote in it."""

    source: str | Path | ExecutionPlan
    params: Mapping[str, Any] | None
    inferred: Mapping[str, Collection[str]]


class Bench(Protocol):
    """What a session needs of its workbench."""

    registry: ToolRegistry
    plans: PlanFileStore
    sessions: set[PlanSession]
    origins: WeakKeyDictionary[Run, Origin]

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

    async def resume(self, name: str | None = None, plan: ExecutionPlan | None = None) -> Run:
        """Continue a run."""
        ...

    def interrupted(self) -> list[Outlook]:
        """The runs that earlier kernels left interrupted."""
        ...

    def keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something that outlives the session."""
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
        self._tools: ToolRegistry | None = None
        self._locking: asyncio.Task[None] | None = None
        self._not_locked: str | None = None
        self._left: tuple[Run, int, Outlook | None] | None = None
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

    @property
    def inferred(self) -> Mapping[str, Collection[str]]:
        """The edges of what is shown that nobody wrote, by node."""
        if self.run is None:
            return self.report.inferred
        origin = self.workbench.origins.get(self.run)
        return {} if origin is None else origin.inferred

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
        tools = ToolRegistry(self.workbench.registry)
        run = await self.workbench.start(report.plan)
        self.workbench.origins[run] = Origin(self.source, self.params, report.inferred)
        self._tools, self._locking, self._not_locked = tools, None, None
        self.follow(run)
        return run

    @property
    def resumable(self) -> Outlook | None:
        """What is left of the latest run when it ended with calls left, or of one of an earlier kernel.

        That is a run of this very plan which was interrupted, as far as the workbench has
        looked. None where there is nothing to resume.
        """
        run, plan = self.run, self.plan
        if run is None:
            found = [one for one in self.workbench.interrupted() if plan and one.plan == plan]
            return found[-1] if found else None
        if not run.finished:
            return None
        if self._left is None or self._left[:2] != (run, len(run.events)):
            self._left = (run, len(run.events), outlook_of(run))
        return self._left[2]

    async def resume(self) -> Run:
        """Go on with what ``resumable`` tells of; the run becomes the session's.

        It has the plan that is on its record. Raises RunRefused and PlanInvalid.
        """
        found = self.resumable
        if found is None:
            raise RunRefused("run_not_resumable", f"no run of plan {self.name!r} has calls left")
        self._loop = asyncio.get_running_loop()
        run = await self.workbench.resume(found.run_id)
        self._tools, self._locking, self._not_locked = None, None, None
        self.follow(run)
        return run

    async def locked(self) -> str | None:
        """Wait until a green run that has ended is in the lock of its plan.

        Only the plan of a file in the plans folder has one. Gives what kept it from being
        written: that fails no run.
        """
        if self._locking is not None:
            await asyncio.wait([self._locking])
        return self._not_locked

    def follow(self, run: Run) -> None:
        """Show this run, live or ended."""
        if self._leave_run is not None:
            self._leave_run()
        self.run = run
        self._leave_run = run.subscribe(self._event)
        self._tell("run")
        if run.finished:
            self._finished(run)

    def cancel(self) -> None:
        """Cancel the latest run, if it is live; may be called from any thread."""
        if self.run is not None:
            self.run.cancel()

    def _event(self, event: Event) -> None:
        del event
        self._tell("event")
        if self.run is not None and self.run.finished:
            self._finished(self.run)

    def _finished(self, run: Run) -> None:
        """Put the tools of a green run that was started here on record, and tell of the end."""
        tools, self._tools = self._tools, None
        if tools is not None and isinstance(self.source, Path) and run.verdict() == "fine":
            name = self.workbench.plans.name_of(self.source)
            if name is not None:
                self._locking = self.workbench.keep(self._lock(name, run.plan, tools))
        self._tell("finished")

    async def _lock(self, name: str, plan: ExecutionPlan, tools: ToolRegistry) -> None:
        try:
            lock = await asyncio.to_thread(make_lock, plan, tools)
            await asyncio.to_thread(self.workbench.plans.write_lock, name, lock)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with the record, the run was green
            text = error.message if isinstance(error, PlanbenchError) else repr(error)
            self._not_locked = text
            issue = ValidationIssue(code="lock_not_written", message=text, severity="warning")
            self.report = self.report.model_copy(update={"issues": [*self.report.issues, issue]})
            self._tell("report")

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
            return run_view(run, self.inferred)
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
        return graph_view(plan, views, self.inferred)

    def details(self, node_id: str) -> dict[str, Any]:
        """Give all there is to know about a node, as JSON values; raises KeyError."""
        run = self.run
        plan = run.plan if run is not None else self.draft
        if plan is None:
            raise KeyError(node_id)
        found = node_details(plan.node(node_id), run)
        found["issues"] = [
            issue.model_dump(mode="json")
            for issue in self.report.issues
            if issue.node_id == node_id
        ]
        return found


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
