"""The live panel of a plan: a widget that shows one session and takes its four buttons."""

from __future__ import annotations

import asyncio
import importlib
import secrets
import sys
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets as t

from planbench.errors import PlanbenchError
from planbench.notebook import wire
from planbench.notebook.bundle import static_text
from planbench.notebook.drawing import draw_panel
from planbench.render.stages import by_stage
from planbench.render.theme import HOST_STYLE, ICONS, STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from planbench.notebook.drawing import Drawing
    from planbench.render.view import GraphView
    from planbench.session import PlanSession

STATIC: Final = Path(__file__).parent / "static"
TICK: Final = 1.0
LEAST_PAUSE: Final = 0.06
MOST_PAUSE: Final = 1.0
SHARE: Final = 0.04
DETAILS_PAUSE: Final = 0.5
MAX_OPEN: Final = 16


_LIKE: Final = {
    "pending": "waiting",
    "completed": "ok",
    "success": "ok",
    "budgetexceeded": "error",  # class names are letters only
    "failed": "error",
    "interrupted": "cancelled",
}
_HUES: Final = "".join(
    f".pb-is-{name}{{--pb-hue:{STATES[_LIKE.get(name, name)].hue}}}\n" for name in (*STATES, *_LIKE)
)


class PlanPanel(anywidget.AnyWidget):
    """Shows a session live, and lets it be run, cancelled and checked from the browser.

    The drawing goes over once a layout. ``states``, ``status`` and ``buttons`` are
    changed in place and told as deltas, so that a page that is loaded again reads
    them as they are now; at the end of a run they are sent whole.
    """

    _esm = STATIC / "panel.js"
    _css = (STATIC / "panel.css").read_text(encoding="utf-8") + HOST_STYLE + _HUES

    icons = t.Dict(default_value=ICONS).tag(sync=True)
    key = t.Unicode().tag(sync=True)
    name = t.Unicode().tag(sync=True)
    svg = t.Unicode().tag(sync=True)
    graph_note = t.Unicode().tag(sync=True)
    interactive = t.Bool(default_value=True).tag(sync=True)
    nodes: t.List[wire.Record] = t.List().tag(sync=True)
    states = t.Dict().tag(sync=True)
    status = t.Dict().tag(sync=True)
    buttons = t.Dict().tag(sync=True)
    issues: t.List[wire.Record] = t.List().tag(sync=True)

    def __init__(self, session: PlanSession, *, interactive: bool = True) -> None:
        self.session = session
        self._watch = wire.NodeWatch(session)
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._pause = LEAST_PAUSE
        self._drawn: tuple[Any, ...] | None = None
        self._plan = wire.shown_plan(session)
        self._waits_for_drawing = False
        self._trouble = ""
        self._starting = False
        self._staged = self._counting = self._recount = False
        self._opened: dict[tuple[str, int], float] = {}
        self._leave: Callable[[], None] | None = None
        self.seen = False
        now = time()
        super().__init__(
            key=secrets.token_hex(8),
            name=session.name,
            interactive=interactive,
            states=self._watch.changed(now),
            status=wire.status_record(session, now),
            buttons=wire.button_records(session),
            issues=wire.issue_records(session),
        )
        _warm_up(self._loop)
        self.on_msg(self._receive)
        self._leave = session.subscribe(self._hear)
        self._draw()

    def __repr__(self) -> str:
        return f"<PlanPanel of {self.name!r}>"

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**data, "text/plain": static_text(self.session)}, metadata

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the panel was made on; None where none ran."""
        return self._loop

    def close(self) -> None:
        """Stop listening to the session and leave every page; the run goes on."""
        if self._leave is not None:
            self._leave()
            self._leave = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in tuple(self._tasks):
            task.cancel()
        super().close()

    # -- from the session -----------------------------------------------------------------

    def _hear(self, kind: str) -> None:
        # A fault of the panel must not reach the run that tells it something.
        self.guard(self._take, kind)

    def _take(self, kind: str) -> None:
        if kind == "event":
            if wire.shown_plan(self.session) is not self._plan:
                self._draw()  # an algorithm made its plan, or another one of what is left
            self._later(self._pause)
            return
        if kind in ("run", "report"):
            with self.hold_sync():
                self.issues = wire.issue_records(self.session)
                self.name = self.session.name
            self._draw()
        self._flush()
        for index in {index for _, index in self._opened}:
            self._tell_details(index)
        if kind == "finished":
            self.send_state(["states", "status", "buttons"])

    def _later(self, pause: float) -> None:
        """Flush after the pause, or sooner where that is planned already."""
        if self._loop is None:
            if monotonic() - self._due >= LEAST_PAUSE:
                self._flush()
            return
        due = self._loop.time() + pause
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._flush)

    def _flush(self) -> None:
        self.guard(self._tell)

    def _tell(self) -> None:
        """Tell the browser what changed since the last time, in one message."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        started, now = monotonic(), time()
        # the browser knows nodes by their place, and has them of the former plan yet
        states = {} if self._waits_for_drawing else self._watch.changed(now)
        status = wire.status_record(self.session, now)
        if self._trouble:
            status.update(message=self._trouble, tone="error")
        delta: dict[str, Any] = {"type": "delta"}
        for name, fresh in (
            ("states", states), ("status", status), ("buttons", wire.button_records(self.session)),
        ):  # fmt: skip
            held = getattr(self, name)
            delta[name] = {key: value for key, value in fresh.items() if held.get(key) != value}
            held.update(delta[name])
        if any(delta[name] for name in ("states", "status", "buttons")):
            self.send(delta)
        self._tell_opened(delta["states"])
        if self._staged and states and self._loop is not None:
            self._recount = True
            if not self._counting:
                self._counting = True
                self.keep(self._tell_stages())
        # The panel takes a small share of the loop, however large the plan is.
        self._pause = min(MOST_PAUSE, max(LEAST_PAUSE, (monotonic() - started) / SHARE))
        if self._loop is None:
            self._due = started
        elif wire.is_live(self.session.run):
            self._later(max(TICK, self._pause))

    # -- drawing ----------------------------------------------------------------------------

    def _draw(self) -> None:
        """Lay the graph out where its structure is another than before; off the loop."""
        self._plan = plan = wire.shown_plan(self.session)
        drawn = None if plan is None else (wire.structure(plan), dict(self.session.inferred))
        if drawn is not None and drawn == self._drawn:
            return
        view = wire.graph(self.session, time())
        if plan is None or view is None:
            self._drawn = None
            self._waits_for_drawing = False
            with self.hold_sync():
                self.nodes, self.svg = [], ""
                self.graph_note = "There is nothing to draw yet: see the issues."
            return
        self._drawn = drawn
        self._waits_for_drawing = bool(self.svg)
        if not self._waits_for_drawing:
            self._show_nodes()
        if self._loop is None:
            self._show_drawing(draw_panel(view))
        else:
            self.keep(self._lay_out(drawn, view))

    def _show_nodes(self) -> None:
        """Give the nodes anew, for a drawing that is there or on its way."""
        self._waits_for_drawing = False
        self._watch.forget()
        plan = wire.shown_plan(self.session)
        with self.hold_sync():
            self.nodes = [] if plan is None else wire.outline(plan)
            self.states = self._watch.changed(time())

    async def _lay_out(self, drawn: tuple[Any, ...] | None, view: GraphView) -> None:
        assert self._loop is not None
        drawing = await self._loop.run_in_executor(None, draw_panel, view)
        if drawn == self._drawn:
            self._show_drawing(drawing)

    def _show_drawing(self, drawing: Drawing) -> None:
        self._staged = drawing.staged
        self._watch.rooms = drawing.rooms
        self._watch.forget()
        with self.hold_sync():
            if self._waits_for_drawing:
                self._show_nodes()
            self.svg, self.graph_note = drawing.svg, drawing.note
        for index in {index for _, index in self._opened}:
            self._tell_details(index)
        self._flush()

    async def _tell_stages(self) -> None:
        """Bring a drawing of stages up to date; the counting is done off the loop."""
        assert self._loop is not None
        try:
            while self._recount:
                self._recount = False
                states = await self._loop.run_in_executor(None, self._stage_records)
                fresh = {key: one for key, one in states.items() if self.states.get(key) != one}
                self.states.update(fresh)
                if fresh:
                    self.send({"type": "delta", "states": fresh, "status": {}, "buttons": {}})
        finally:
            self._counting = False

    def _stage_records(self) -> dict[str, wire.Record]:
        view = wire.graph(self.session, time())
        stages = () if view is None else by_stage(view).nodes
        return {f"s{number}": wire.node_record(stage) for number, stage in enumerate(stages)}

    # -- from the browser -------------------------------------------------------------------

    def _receive(self, _: object, content: Any, __: object) -> None:
        """Take a message over to the loop; some kernels deliver it in another thread."""
        if self._loop is None:
            self.guard(self._do, content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.guard, self._do, content)

    def _do(self, content: Any) -> None:
        match content:
            case {"type": "ping"}:
                self.seen = True
                self.send({"type": "pong"})
            case {"type": "run" | "resume" | "cancel" | "validate" as action} if self.interactive:
                self._trouble = ""
                self._act(action)
            case {"type": "open", "node": int(index), "view": str(view)}:
                self._opened.pop((view, index), None)
                while len(self._opened) >= MAX_OPEN:
                    self._opened.pop(next(iter(self._opened)))
                self._opened[view, index] = 0.0
                self._tell_details(index)
            case {"type": "close", "node": int(index), "view": str(view)}:
                self._opened.pop((view, index), None)
            case _:
                raise PlanbenchError(f"the panel does not know the message {str(content)[:80]!r}")

    def _act(self, action: str) -> None:
        if action in ("run", "resume"):
            if not self._starting and not wire.is_live(self.session.run):
                self._start(action)  # else it was pressed in two views at once
            return
        if action == "cancel":
            self.session.cancel()
        else:
            self.session.validate()
        self._done(action)

    def _start(self, action: str) -> None:
        if self._loop is None:
            raise PlanbenchError(
                "the panel was made where no event loop runs",
                hint="start the run from a cell: await session.start()",
            )
        self._starting = True
        self.keep(self._run(action))

    async def _run(self, action: str) -> None:
        try:
            await (self.session.start() if action == "run" else self.session.resume())
        finally:
            self._starting = False
            self._done(action)

    def _done(self, action: str) -> None:
        self._flush()
        self.send({"type": "done", "action": action})

    def _tell_opened(self, changed: dict[str, Any]) -> None:
        """Bring open inspectors up to date, not more often than can be read."""
        told = {index: moment for (_, index), moment in self._opened.items()}
        for index, moment in told.items():
            if str(index) not in changed:
                continue
            if monotonic() - moment >= DETAILS_PAUSE or not wire.is_live(self.session.run):
                self._tell_details(index)

    def _tell_details(self, index: int) -> None:
        plan = wire.shown_plan(self.session)
        openings = [opening for opening in self._opened if opening[1] == index]
        if plan is None or not 0 <= index < len(plan.nodes):
            for opening in openings:
                del self._opened[opening]
            return
        self._opened |= dict.fromkeys(openings, monotonic())
        if self._loop is None:
            self._send_details(index, self._details(plan.nodes[index].id))
        else:
            self.keep(self._look_up(index, plan.nodes[index].id))

    async def _look_up(self, index: int, node_id: str) -> None:
        # Off the loop: a table may be made of many items, and pandas may have to be loaded for it.
        assert self._loop is not None
        details = await self._loop.run_in_executor(None, self._details, node_id)
        if any(index == opened for _, opened in self._opened):
            self._send_details(index, details)

    def _details(self, node_id: str) -> wire.Record:
        return wire.details_record(self.session.details(node_id))

    def _send_details(self, index: int, details: wire.Record) -> None:
        self.send({"type": "details", "node": index, "details": details})

    # -- tasks and trouble --------------------------------------------------------------------

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task for the panel: held on to, and seen when it fails."""
        assert self._loop is not None
        task = self._loop.create_task(work, name="planbench panel")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def guard(self, act: Callable[..., None], *arguments: Any) -> None:
        """Do what nobody waits for; the panel is the place where it is seen when it fails."""
        try:
            act(*arguments)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        self._trouble = (
            text if isinstance(error, PlanbenchError) else f"{type(error).__name__}: {text}"
        )
        status = {"message": self._trouble, "tone": "error"}
        self.status.update(status)
        self.send({"type": "delta", "states": {}, "status": status, "buttons": {}})


def _warm_up(loop: asyncio.AbstractEventLoop | None) -> None:
    """Load pandas beside the loop: the first table should not wait for it."""
    if loop is not None and "pandas" not in sys.modules:
        loop.run_in_executor(None, importlib.import_module, "pandas")
