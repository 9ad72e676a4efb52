"""A run: its journal, its state, and the ways to wait for it, follow it and end it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
from time import time
from typing import TYPE_CHECKING, Any, Final, Literal

from planbench.errors import ArtifactNotFound
from planbench.events import Event
from planbench.runtime.items import items_table
from planbench.runtime.outcome import Outcome, outcome_of
from planbench.runtime.standing import FAILED
from planbench.runtime.state import APPLY, RunState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
    from pathlib import Path

    import pandas as pd

    from planbench.memory.entries import Entry
    from planbench.memory.scope import TaskScope
    from planbench.plan.manifest import ArtifactRef, PlanRunManifest
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.budget import Budget
    from planbench.runtime.history import History
    from planbench.runtime.secrets import Secrets
    from planbench.runtime.standing import NodeState

WAKE: Final = 0.2
"""Seconds after which the loop is woken while somebody waits for a run."""
STRICT_VARIABLE: Final = "PLANBENCH_STRICT"
KEPT_BYTES: Final = 256_000_000
"""Bytes of results that a run file holds unless more are asked for."""

Kept = int | Literal["all", "none"]
Shown = Literal["none", "preview", "full"]
Verdict = Literal["fine", "lost", "red", "cancelled", "waiting"]

_logger = logging.getLogger(__name__)
_new = tuple.__new__  # half the time of Event(...), which is Python code


class Run:
    """One execution of a plan, live or ended.

    ``await run`` gives the Outcome and does not raise for failed nodes nor for a
    cancelled run. Whoever is cancelled while waiting cancels the run with it.
    Iterating replays the events from the first and then follows.

    ``strict`` makes lost items red, ``modules`` says where its tools live. ``epilogue``
    is what is still done when it has ended, and what waits for the run waits for that
    too; ``saved_as`` says where it was saved then.
    """

    def __init__(
        self, plan: ExecutionPlan, run_id: str | None = None, history: History | None = None
    ) -> None:
        self.run_id = run_id or f"run_{secrets.token_hex(6)}"
        self.events: list[Event] = [] if history is None else history.events
        self.state = RunState(node.id for node in plan.nodes) if history is None else history.state
        self.state.plan = plan
        self._seq = self.events[-1].seq if self.events else 0
        self.bodies: dict[str, Entry | list[Entry | None]] = {}
        self.secrets: Secrets | None = None
        self.budget: Budget | None = None
        self.scope: TaskScope | None = None
        self.value_given: Callable[[], Any] | None = None
        self.modules: Mapping[str, str] = {}
        self.strict = False
        self.epilogue: asyncio.Task[None] | None = None
        self.saved_as = ""
        self._subscribers: list[_Subscriber] = []
        self._root: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

        self._grown: asyncio.Event | None = None

    def __repr__(self) -> str:
        state = self.state
        return f"<Run {self.run_id} of {self.plan.name!r}: {state.status}, {state.nodes_done} of {len(state.nodes)} nodes>"

    # -- what it is ---------------------------------------------------------------

    @property
    def plan(self) -> ExecutionPlan:
        """The plan that runs; of an algorithm its steps as far as they are known, to be looked at."""
        assert self.state.plan is not None
        return self.state.plan

    @property
    def status(self) -> str:
        """``pending``, ``running``, or how it ended."""
        return self.state.status

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen."""
        return self.state.status not in ("pending", "running", "waiting")

    @property
    def cancelling(self) -> bool:
        """Whether the run was cancelled, and a tool has not ended yet."""
        root = self._root
        return root is not None and not self.finished and root.cancelling() > 0

    @property
    def refs(self) -> dict[str, ArtifactRef]:
        """The refs of the nodes that have ended, by node id."""
        return {node.node_id: node.ref() for node in self.state.nodes.values() if node.ended}

    @property
    def nodes_done(self) -> int:
        """How many nodes have ended, whichever way."""
        return self.state.nodes_done

    @property
    def nodes_total(self) -> int:
        """How many nodes the plan has."""
        return len(self.state.nodes)

    def manifest(self) -> PlanRunManifest:
        """Give the manifest as it stands."""
        return self.state.manifest()

    def save(self, path: str | Path, *, artifacts: Kept = KEPT_BYTES) -> Path:
        """Write the run, live or ended, into one file that ``planbench.open_run`` reads anywhere.

        ``artifacts`` bounds the bytes of the results in it: a number, ``"all"`` or
        ``"none"``. What is over it, the largest first, and what cannot be kept as it is,
        stays out and is named in the file. Raises StoreError where no file can be written.
        """
        from planbench.runtime.run_file import save_run  # noqa: PLC0415 - few runs become a file

        return save_run(self, path, artifacts)

    def to_html(self, path: str | Path, data: Shown = "preview") -> Path:
        """Write the run as one page that is read offline: graph, timeline, nodes, results.

        ``data`` says what is shown of the results: ``"none"``, the first rows of each
        (``"preview"``), or all that a page can hold (``"full"``). Raises StoreError.
        """
        from planbench.runtime.run_page import save_page  # noqa: PLC0415 - as in save

        return save_page(self, path, data)

    def verdict(self, *, strict: bool = False) -> Verdict:
        """Say what a surface must make of the run: one rule for cells, nbmake and the CLI.

        ``fine``; ``lost`` when items failed and nothing else did; ``red`` for a node in
        error or blocked; ``cancelled``; ``waiting``. With ``strict``, that of the run or
        PLANBENCH_STRICT=1, lost items are red.
        """
        if self.status in ("cancelled", "waiting"):
            return "cancelled" if self.status == "cancelled" else "waiting"
        if self.state.agent is not None:
            return "fine" if self.status == "success" else "red"
        statuses = {node.status for node in self.state.nodes.values()}
        if self.status == "failed" or statuses & FAILED:
            return "red"
        if "partial" not in statuses:
            return "fine"
        strict = strict or self.strict or os.environ.get(STRICT_VARIABLE, "") not in ("", "0")
        return "red" if strict else "lost"

    def failure_text(self) -> str:
        """Name the red nodes, their tools and causes: one short block, empty when none is red."""
        return failure_text(self.plan, self.state)

    def value(self, node_id: str) -> Any:
        """Give what a node of this very run stored: the body, or the list of a fan-out's bodies.

        Raises ArtifactNotFound where the node stored nothing, or the run is so old that
        its values were let go.
        """
        body = self.bodies.get(node_id)
        if body is None:
            raise ArtifactNotFound(node_id, list(self.bodies))
        if isinstance(body, list):
            return [entry.value for entry in body if entry is not None]
        return body.value

    def items(self, node_id: str) -> pd.DataFrame:
        """Tell how each item of a fan-out ended, one row an item, in item order.

        Columns: index, key, status (ok, reused, failed), bytes, seconds, error, and those
        that the tool noted. Raises KeyError for a node that the plan does not have.
        """
        if node_id not in self.state.nodes:
            raise ArtifactNotFound(node_id, list(self.state.nodes))
        return items_table(self.events, node_id)

    # -- waiting, following, ending -----------------------------------------------

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.result().__await__()

    async def result(self) -> Outcome:
        """Wait for the end and give the Outcome."""
        if self._root is not None and not self._root.done():
            try:
                # In small waits: the kernel's interrupt cancels the waiting task in a signal
                # handler, which does not wake a loop that sleeps until the next timer.
                while not self._root.done():
                    await asyncio.wait([self._root], timeout=WAKE)
            except asyncio.CancelledError:
                self.cancel()
                await asyncio.wait([self._root])
                raise
        if self.epilogue is not None:
            await asyncio.wait([self.epilogue])
        if self._root is not None and not self._root.cancelled():
            error = self._root.exception()
            if error is not None:
                raise error
        return self.outcome()

    def outcome(self) -> Outcome:
        """Give the Outcome as it stands."""
        return outcome_of(self)

    def cancel(self) -> None:
        """End the run, from any thread or signal handler; what has finished stays, and is on record.

        Asked again, tools that still clean up are cancelled again.
        """
        root, loop = self._root, self._loop
        if root is None or loop is None or root.done() or self.finished:
            return
        # Not at once, also on the loop's own thread: a handler must wake the loop, and a
        # task that is cancelled before its first step would never record it.
        with contextlib.suppress(RuntimeError):  # the loop was closed, and the run ended with it
            loop.call_soon_threadsafe(root.cancel)

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back with each event from now on, on the run's loop; returns the way out.

        A callback that raises does not disturb the run: the first time is logged.
        """
        subscriber = _Subscriber(callback)
        self._subscribers.append(subscriber)

        def leave() -> None:
            subscriber.callback = None
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return leave

    async def __aiter__(self) -> AsyncIterator[Event]:
        seen = 0
        while True:
            while seen < len(self.events):
                seen += 1
                yield self.events[seen - 1]
            if self.finished:
                return
            if self._grown is None:
                self._grown = asyncio.Event()
            await self._grown.wait()

    def let_go(self) -> None:
        """Hold the values of the ended run no longer; the memory keeps its own versions."""
        if self.finished and (self.epilogue is None or self.epilogue.done()):
            self.bodies.clear()

    # -- for the engine -----------------------------------------------------------

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        """Record that something happened; the engine alone calls this, on its loop."""
        events = self.events
        if self.secrets is not None:
            data = self.secrets.event(kind, data)
        self._seq = seq = self._seq + 1
        event = _new(Event, (seq, self.run_id, time(), kind, data))
        events.append(event)
        apply = APPLY.get(kind)
        if apply is not None:
            apply(self.state, event)
        if self._subscribers or self._grown is not None:
            self._tell(event)

    def emitter(self, kind: str) -> Callable[[dict[str, Any]], None]:
        """Give ``emit`` for one type of event, of which there may be one for each of 10,000 items."""
        if self.secrets is not None:
            return functools.partial(self.emit, kind)
        run_id, state, apply = self.run_id, self.state, APPLY[kind]
        append, subscribers = self.events.append, self._subscribers

        def emit(data: dict[str, Any]) -> None:
            self._seq = seq = self._seq + 1
            event = _new(Event, (seq, run_id, time(), kind, data))
            append(event)
            apply(state, event)
            if subscribers or self._grown is not None:
                self._tell(event)

        return emit

    def _tell(self, event: Event) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber.hear(event)
        if self._grown is not None:
            self._grown.set()
            self._grown = None

    def call_key(self, node_id: str, index: int | None = None) -> str:
        """Name a call for a service that makes each once: the same over attempts and resumes.

        A node that begins anew, since what it reads is another, makes other calls.
        """
        place = node_id if index is None else f"{node_id}:{index}"
        rounds = self.state.nodes[node_id].rounds
        return f"{self.run_id}:{place}#{rounds}" if rounds else f"{self.run_id}:{place}"

    @property
    def root(self) -> asyncio.Task[None]:
        """The task that everything of the run is below."""
        assert self._root is not None
        return self._root

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Make the root task; everything of the run is below it."""
        self._loop = asyncio.get_running_loop()

        self._root = self._loop.create_task(work, name=f"planbench {self.run_id}")
        self._root.add_done_callback(_retrieve)


class _Subscriber:
    """A callback, until it leaves; one that fails must not disturb the run."""

    __slots__ = ("callback", "failed")

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self.callback: Callable[[Event], None] | None = callback
        self.failed = False

    def hear(self, event: Event) -> None:
        if self.callback is None:
            return
        try:
            self.callback(event)
        except (Exception, asyncio.CancelledError):
            if not self.failed:
                _logger.exception("a subscriber of %s failed at %s", event.run_id, event.type)
            self.failed = True


def _retrieve(task: asyncio.Task[None]) -> None:
    """Keep asyncio from reporting what ``result`` raises to those who wait."""
    if not task.cancelled():
        task.exception()


def failure_text(plan: ExecutionPlan, state: RunState, limit: int = 5) -> str:
    """Name the red nodes, their tools and causes, the first ``limit`` of them."""
    chooses = "a delegate" if state.agent is None else "a step"
    tools = {node.id: node.tool or chooses for node in plan.nodes}
    red = [n for n in state.nodes.values() if n.status in ("error", "cancelled")]
    lost = [n for n in state.nodes.values() if n.status == "partial"]
    blocked = [n.node_id for n in state.nodes.values() if n.status == "blocked"]
    lines = [
        f"node {node.node_id!r} ({tools[node.node_id]}){_share(node)}: {_cause(node)}"
        for node in [*red, *lost][:limit]
    ]
    if len(red) + len(lost) > limit:
        lines.append(f"and {len(red) + len(lost) - limit} more nodes")
    if blocked:
        shown = ", ".join(blocked[:limit]) + (", ..." if len(blocked) > limit else "")
        lines.append(f"never dispatched behind them: {shown}")
    return "\n".join(lines)


def _share(node: NodeState) -> str:
    if node.total is None or not node.failed:
        return ""
    return f" ({node.failed} of {node.total} items)"


def _cause(node: NodeState) -> str:
    """The first error, and of a fan-out that failed as a whole the first of its items too."""
    if not node.errors:
        counted = "only counted, as on_item_error: skip says"
        return node.reason or (counted if node.failed else "no reason recorded")
    first = node.errors[0]
    item = next((error for error in node.errors if error.startswith("[")), first)
    return first if item is first else f"{first}; {item}"
