"""What a run shows while it runs: a redrawn table in a terminal, lines in a pipe."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from planbench import events as ev
from planbench.cli.terminal import Screen, printable
from planbench.render.figures import duration, size

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from rich.console import Group, OverflowMethod, RenderableType

    from planbench.events import Event
    from planbench.runtime.run import Run
    from planbench.runtime.standing import NodeState

REDRAW_SECONDS: Final = 0.1
MAX_NAME: Final = 28
BAR: Final = 22
_ENDS: Final = frozenset({ev.NODE_FINISHED, ev.NODE_FAILED, ev.NODE_SKIPPED, ev.NODE_BLOCKED})
_KEPT: Final = frozenset({"ok", "skipped"})
_COLOURS: Final = {
    "ok": "green",
    "running": "cyan",
    "partial": "yellow",
    "cancelled": "yellow",
    "error": "red",
    "blocked": "red",
    "waiting": "dim",
    "skipped": "dim",
}


class Progress(Protocol):
    """Follows a run for as long as the context is open."""

    def follow(self, run: Run) -> contextlib.AbstractAsyncContextManager[None]:
        """Show the run until it has ended."""
        ...


def progress(screen: Screen) -> Progress:
    """Choose what fits the screen."""
    return LiveTable(screen) if screen.interactive else Lines(screen)


class Lines:
    """One line when a node starts, one when it has ended."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._width = 0
        self._tools: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def follow(self, run: Run) -> AsyncIterator[None]:
        """Write the lines of the run; of what a former process did, only what stays as it is."""
        self._width = min(MAX_NAME, max(len(node.id) for node in run.plan.nodes))
        self._tools = {node.id: node.tool or node.type for node in run.plan.nodes}

        def show(event: Event) -> None:
            text = self._text(event, run)
            if text is not None:
                self._screen.line(text)

        said = list(run.events)
        begun = max(
            (n for n, event in enumerate(said) if event.type == ev.RUN_CONTINUED), default=0
        )
        ended = {event.data["node_id"]: event for event in said[:begun] if event.type in _ENDS}
        kept = [end for name, end in ended.items() if run.state.nodes[name].status in _KEPT]
        for event in [*kept, *said[begun:]]:
            show(event)
        leave = run.subscribe(show)
        try:
            yield
        finally:
            leave()
            for node in run.state.nodes.values():
                if node.status == "cancelled":
                    self._screen.line(self._row(node.node_id, "cancelled", node.reason or ""))

    def _text(self, event: Event, run: Run) -> str | None:
        node_id = event.data.get("node_id", "")
        if event.type == ev.NODE_STARTED:
            return self._row(node_id, "started", self._tools[node_id])
        if event.type in _ENDS:
            node = run.state.nodes[node_id]
            return self._row(node_id, node.status, told(node))
        return None

    def _row(self, node_id: str, status: str, rest: str) -> str:
        return f"  {node_id:<{self._width}}  {status:<9}  {rest}".rstrip()


class LiveTable:
    """A table of the nodes, redrawn in place; a fan-out has a bar.

    Where the plan has more nodes than the terminal has lines, those that run and
    those that are red come first.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    @contextlib.asynccontextmanager
    async def follow(self, run: Run) -> AsyncIterator[None]:
        """Redraw the table until the run has ended; its last state stays."""
        from rich.console import Console  # noqa: PLC0415 - a pipe and the other commands need no rich
        from rich.live import Live  # noqa: PLC0415 - as above

        console = Console(file=self._screen.stream, markup=False, highlight=False, emoji=False)
        tools = {node.id: node.tool or node.type for node in run.plan.nodes}
        limit = max(4, console.height - 4)
        overflow: OverflowMethod = "ellipsis" if self._screen.is_unicode else "crop"

        async def paint(live: Live) -> None:
            while True:
                live.update(_table(run, tools, limit, overflow), refresh=True)
                await asyncio.sleep(REDRAW_SECONDS)

        with Live(console=console, auto_refresh=False) as live:
            painter = asyncio.create_task(paint(live))
            try:
                yield
            finally:
                painter.cancel()
                await asyncio.wait([painter])
                live.update(_table(run, tools, limit, overflow), refresh=True)


def _table(run: Run, tools: Mapping[str, str], limit: int, overflow: OverflowMethod) -> Group:
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    nodes = list(run.state.nodes.values())
    shown = _most_telling(nodes, limit)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False, expand=True)
    for texts in (
        [node.node_id for node in shown],
        [tools[node.node_id] for node in shown],
        list(_COLOURS),
    ):
        width = min(MAX_NAME, max(map(len, texts)))
        table.add_column(no_wrap=True, overflow=overflow, min_width=width, max_width=width)
    has_bars = any(node.total for node in shown)
    if has_bars:
        table.add_column(min_width=BAR, max_width=BAR)
    table.add_column(no_wrap=True, overflow=overflow, ratio=1)
    for node in shown:
        colour = _COLOURS.get(node.status, "dim")
        cells: list[RenderableType] = [
            Text(printable(node.node_id)),
            Text(printable(tools[node.node_id]), style="dim"),
            Text(node.status, style=colour),
        ]
        if has_bars:
            done = node.done + node.failed
            cells.append(ProgressBar(node.total, done, width=BAR) if node.total else "")
        said = printable(told(node)).replace("\n", " ")
        table.add_row(*cells, Text(said, style=colour if node.errors else "dim"))
    rest = f", {len(shown)} shown" if len(shown) < len(nodes) else ""
    return Group(table, Text(f"{run.nodes_done} of {run.nodes_total} nodes{rest}", style="bold"))


def _most_telling(nodes: list[NodeState], limit: int) -> list[NodeState]:
    """Choose at most ``limit`` nodes and keep their order."""
    if len(nodes) <= limit:
        return nodes
    rank = {"running": 0, "error": 1, "partial": 2, "cancelled": 3, "waiting": 5}
    chosen = sorted(range(len(nodes)), key=lambda place: rank.get(nodes[place].status, 4))[:limit]
    return [nodes[place] for place in sorted(chosen)]


def told(node: NodeState) -> str:
    """Say in one line what a node did: items, time, bytes, and why it is not whole."""
    parts = []
    if node.total is not None:
        items = f"{node.done:,} of {node.total:,} items"
        parts.append(f"{items}, {node.reused:,} reused" if node.reused else items)
    if node.seconds is not None and node.status not in ("skipped", "blocked"):
        parts.append(duration(node.seconds))
    if node.nbytes:
        parts.append(size(node.nbytes))
    cause = (node.errors or [node.reason or ""])[0]
    if cause:
        parts.append(cause.splitlines()[0])
    return ", ".join(parts)
