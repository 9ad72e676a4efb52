"""A run: its journal, its state, and the ways to wait for it, follow it and end it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
from time import time
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from planbench import events as ev
from planbench.errors import ArtifactNotFound
from planbench.events import Event
from planbench.runtime.state import APPLY, FAILED, RunState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

    import pandas as pd

    from planbench.memory.entries import Entry
    from planbench.plan.manifest import ArtifactRef, PlanRunManifest
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.state import NodeState

WAKE: Final = 0.2
"""Seconds after which the loop is woken while somebody waits for a run."""
STRICT_VARIABLE: Final = "PLANBENCH_STRICT"

Verdict = Literal["fine", "lost", "red", "cancelled", "waiting"]

_logger = logging.getLogger(__name__)
_new = tuple.__new__  # half the time of Event(...), which is Python code


class Usage(NamedTuple):
    """What a run cost: tool calls, model tokens, money, seconds."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class Outcome:
    """How a run ended: ``status``, ``value``, ``reason``, ``usage``.

    For a plan ``value`` is its PlanRunManifest, made when it is first asked for.
    """

    def __init__(
        self, status: str, make_value: Callable[[], Any], reason: str | None, usage: Usage
    ) -> None:
        self.status = status
        self.reason = reason
        self.usage = usage
        self._make_value = make_value

    @functools.cached_property
    def value(self) -> Any:
        """What the run gave."""
        return self._make_value()

    def __repr__(self) -> str:
        return f"Outcome(status={self.status!r}, reason={self.reason!r}, usage={self.usage!r})"


class Run:
    """One execution of a plan, live or ended.

    ``await run`` gives the Outcome and does not raise for failed nodes nor for a
    cancelled run. Whoever is cancelled while waiting cancels the run with it.
    Iterating replays the events from the first and then follows.
    """

    def __init__(self, plan: ExecutionPlan, run_id: str | None = None) -> None:
        self.run_id = run_id or f"run_{secrets.token_hex(6)}"
        self.plan = plan
        self.events: list[Event] = []
        self.state = RunState(node.id for node in plan.nodes)
        self.state.plan = plan
        self.bodies: dict[str, Entry | list[Entry | None]] = {}
        self._subscribers: list[_Subscriber] = []
        self._root: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

        self._grown: asyncio.Event | None = None

    def __repr__(self) -> str:
        state = self.state
        return f"<Run {self.run_id} of {self.plan.name!r}: {state.status}, {state.nodes_done} of {len(state.nodes)} nodes>"

    # -- what it is ---------------------------------------------------------------

    @property
    def status(self) -> str:
        """``pending``, ``running``, or how it ended."""
        return self.state.status

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen."""
        return self.state.status not in ("pending", "running", "waiting")

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

    def verdict(self, *, strict: bool = False) -> Verdict:
        """Say what a surface must make of the run: one rule for cells, nbmake and the CLI.

        ``fine``; ``lost`` when items failed and nothing else did; ``red`` for a node in
        error or blocked; ``cancelled``; ``waiting``. With ``strict``, or
        PLANBENCH_STRICT=1, lost items are red.
        """
        if self.status in ("cancelled", "waiting"):
            return "cancelled" if self.status == "cancelled" else "waiting"
        statuses = {node.status for node in self.state.nodes.values()}
        if self.status == "failed" or statuses & FAILED:
            return "red"
        if "partial" not in statuses:
            return "fine"
        strict = strict or os.environ.get(STRICT_VARIABLE, "") not in ("", "0")
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

        Columns: index, key, status (ok, reused, failed), bytes, seconds, error.
        Raises KeyError for a node that the plan does not have.
        """
        import pandas as pd  # noqa: PLC0415 - half a second that scripts without tables save

        if node_id not in self.state.nodes:
            raise ArtifactNotFound(node_id, list(self.state.nodes))
        rows = []
        for event in self.events:
            data = event.data
            if data.get("node_id") != node_id:
                continue
            if event.type == ev.ITEM_FINISHED:
                status = "reused" if "reused" in data else "ok"
                rows.append(
                    (data["index"], data["key"], status, data["bytes"], data.get("seconds"), None)
                )
            elif event.type == ev.ITEM_FAILED:
                rows.append(
                    (
                        data["index"],
                        data.get("key"),
                        "failed",
                        0,
                        data.get("seconds"),
                        data.get("error"),
                    )
                )
        rows.sort(key=lambda row: row[0])
        return pd.DataFrame(rows, columns=["index", "key", "status", "bytes", "seconds", "error"])

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
        if self._root is not None and not self._root.cancelled():
            error = self._root.exception()
            if error is not None:
                raise error
        return self.outcome()

    def outcome(self) -> Outcome:
        """Give the Outcome as it stands."""
        state = self.state
        usage = Usage(calls=state.calls, seconds=state.seconds)
        return Outcome(state.status, self.manifest, state.reason, usage)

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
        if self.finished:
            self.bodies.clear()

    # -- for the engine -----------------------------------------------------------

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        """Record that something happened; the engine alone calls this, on its loop."""
        events = self.events
        event = _new(Event, (len(events) + 1, self.run_id, time(), kind, data))
        events.append(event)
        apply = APPLY.get(kind)
        if apply is not None:
            apply(self.state, event)
        if self._subscribers:
            for subscriber in tuple(self._subscribers):
                subscriber.hear(event)
        if self._grown is not None:
            self._grown.set()
            self._grown = None

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
        except Exception:
            if not self.failed:
                _logger.exception("a subscriber of %s failed at %s", event.run_id, event.type)
            self.failed = True


def _retrieve(task: asyncio.Task[None]) -> None:
    """Keep asyncio from reporting what ``result`` raises to those who wait."""
    if not task.cancelled():
        task.exception()


def failure_text(plan: ExecutionPlan, state: RunState, limit: int = 5) -> str:
    """Name the red nodes, their tools and causes, the first ``limit`` of them."""
    tools = {node.id: node.tool or "a delegate" for node in plan.nodes}
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
        return node.reason or "no reason recorded"
    first = node.errors[0]
    item = next((error for error in node.errors if error.startswith("[")), first)
    return first if item is first else f"{first}; {item}"
