"""A run as one page that is read offline, and as a small piece of HTML for a notebook."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from planbench.errors import ArtifactUnavailable, ConfigurationError, FrameError, RenderError
from planbench.files.atomic import write_whole
from planbench.memory.frames import stack, to_frame
from planbench.memory.sizes import format_bytes
from planbench.plan.source import shown
from planbench.render.figures import duration, size
from planbench.render.markup import pill, tag
from planbench.render.page import PageData, PageNode, page
from planbench.render.svg import draw
from planbench.render.text import as_text
from planbench.render.timeline import Lane
from planbench.runtime.details import cell_text, node_details, run_view
from planbench.runtime.run import Shown
from planbench.runtime.run_file import shown_plan, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planbench.plan.model import PlanNode
    from planbench.render.view import GraphView
    from planbench.runtime.run import Run
    from planbench.runtime.standing import NodeState

MAX_NODES: Final = 300
FULL_CHARACTERS: Final = 20_000_000
"""Characters of results on one page with all data."""
FULL_ROWS: Final = 100_000
_CELL: Final = 20_000
_CELL_COST: Final = 10
_FRAGMENT_ROWS: Final = 100
_NOTES: Final = 20
_RED: Final = {"error": 0, "invalid": 0, "partial": 1, "cancelled": 1}


def save_page(run: Run, path: str | Path, data: Shown) -> Path:
    """Write the page as ``Run.to_html`` says; gives the path."""
    path = Path(path)
    text = run_page(run, data)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def run_page(run: Run, data: Shown = "preview", notes: Sequence[str] = ()) -> str:
    """Give a run as a page: graph, nodes, timeline, details with results, lineage."""
    if data not in get_args(Shown):
        raise ConfigurationError(
            f"data is {shown(data)}", hint='it takes "none", "preview" or "full"'
        )
    plan = shown_plan(run)
    view = run_view(run, plan=plan)
    places = most_telling(view)
    results = _Results(run, data)
    nodes = [
        PageNode.from_details(place, view.nodes[place], results.details(plan.nodes[place]))
        for place in places
    ]
    return page(
        PageData(
            title=view.name,
            status=run.status,
            objective=plan.objective,
            facts=run_facts(run),
            svg=drawing(view),
            text=as_text(view),
            nodes=nodes,
            left_out=len(view.nodes) - len(places),
            lanes=lanes(run, view, places),
            seconds=run_seconds(run),
            lineage=lineage(run),
            notes=[*_first(notes), *results.notes],
        )
    )


def fragment(run: Run, notes: Sequence[str] = ()) -> str:
    """Give a run as a table of its nodes, without a style of its own."""
    rows = []
    states = list(run.state.nodes.values())
    for state in states[:_FRAGMENT_ROWS]:
        said = (state.errors or [state.reason or ""])[0]
        cells = (state.node_id, state.status, _items(state), _took(state), _clean(run, said))
        rows.append(tag("tr", *(tag("td", cell, style="text-align:left") for cell in cells)))
    if len(states) > _FRAGMENT_ROWS:
        more = f"and {len(states) - _FRAGMENT_ROWS:,} more nodes"
        rows.append(tag("tr", tag("td", more, colspan="5")))
    head = [
        tag("th", name, style="text-align:left") for name in ("node", "status", "items", "time", "")
    ]
    told = ", ".join(f"{name} {value}" for name, value in run_facts(run))
    return str(
        tag(
            "div",
            tag("p", tag("b", run.plan.name), " ", pill(run.status), " ", told),
            *(tag("p", note) for note in _first(notes)),
            tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows)),
        )
    )


def _first(notes: Sequence[str]) -> list[str]:
    more = len(notes) - _NOTES
    return [*notes[:_NOTES], *([f"and {more:,} more notes"] if more > 0 else [])]


def drawing(view: GraphView) -> str | None:
    """Draw the graph; None where it cannot be drawn, and the page shows it in words."""
    try:
        return draw(view, interactive=True)
    except RenderError:
        return None


def most_telling(view: GraphView) -> list[int]:
    """Choose the nodes that a page shows: all of them, or the red ones and then the first."""
    places = range(len(view.nodes))
    if len(places) <= MAX_NODES:
        return list(places)
    return sorted(sorted(places, key=lambda at: _RED.get(view.nodes[at].status, 2))[:MAX_NODES])


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Give what is worth knowing of a run as a whole, as name and text."""
    manifest = run.manifest()
    facts = [("run", run.run_id)]
    if run.state.started is not None:
        facts.append(("started", _moment(run.state.started)))
    facts += [
        ("took", duration(manifest.duration_seconds)),
        ("nodes ok", f"{manifest.nodes_ok} of {manifest.nodes_total}"),
        ("skipped", str(manifest.nodes_skipped)),
        ("failed or partial", str(manifest.nodes_failed)),
        ("calls", str(run.state.calls)),
        ("stored", size(manifest.total_bytes_stored)),
    ]
    return facts


def lineage(run: Run) -> list[tuple[str, str]]:
    """Say where a run comes from and what became of it; empty for one that stands alone."""
    known = run.state.lineage
    facts = [
        ("first run of its line", known.root if known.root != run.run_id else None),
        ("continues", known.parent),
        ("continued by", known.child),
        ("ran again", ", ".join(known.reruns)),
        ("repairs", f"{known.repairs} of {known.max_repairs}" if known.repairs else None),
        ("why it ended", run.state.reason),
    ]
    return [(name, _clean(run, text)) for name, text in facts if text]


def lanes(run: Run, view: GraphView, places: Iterable[int]) -> list[Lane]:
    """Give when each node was at work, in seconds since the run's first event."""
    if not run.events:
        return []
    begun, last = run.events[0].timestamp, run.events[-1].timestamp
    found = []
    for place in places:
        node = view.nodes[place]
        state = run.state.nodes[node.id]
        start, end = state.started, state.finished
        if start is None:
            told = "taken over" if state.status in ("ok", "partial") else node.status
            found.append(Lane(place, node.id, node.status, None, None, told))
            continue
        begin = max(0.0, start - begun)
        until = max(begin, (last if end is None else end) - begun)
        told = ", ".join(filter(None, (duration(until - begin), _items(state))))
        found.append(Lane(place, node.id, node.status, begin, until, told))
    return found


def run_seconds(run: Run) -> float:
    """Give the seconds from the first event of a run to its last."""
    return run.events[-1].timestamp - run.events[0].timestamp if run.events else 0.0


class _Results:
    """What the page shows of the results, within a number of characters for all together."""

    def __init__(self, run: Run, data: Shown) -> None:
        self._run = run
        self._data = data
        self._left = FULL_CHARACTERS
        self._cut: list[str] = []

    @property
    def notes(self) -> list[str]:
        """Say what was cut."""
        if not self._cut:
            return []
        shown_ids = ", ".join(self._cut[:5]) + (", ..." if len(self._cut) > 5 else "")  # noqa: PLR2004 - a handful
        return [
            f"Not all results are shown: a page holds {format_bytes(FULL_CHARACTERS)} of them, and what was over that is cut ({shown_ids})."
        ]

    def details(self, node: PlanNode) -> dict[str, Any]:
        """Give the details of a node, with as much of its result as is wanted."""
        found = node_details(node, self._run, table=self._data == "preview")
        if self._data == "full" and node.id in self._run.bodies:
            try:
                found["table"] = self._whole(node.id)
            except ArtifactUnavailable as error:
                found["warnings"] = [*found["warnings"], error.message]
        return found

    def _whole(self, node_id: str) -> Mapping[str, Any]:
        value = self._run.value(node_id)
        frame = _frame(value)
        secrets = self._run.secrets
        columns = [cell_text(column, secrets) for column in frame.columns]
        rows: list[list[str]] = []
        for row in frame.itertuples(index=False, name=None):
            if self._left <= 0 or len(rows) >= FULL_ROWS:
                self._cut.append(node_id)
                break
            cells = [cell_text(cell, secrets, _CELL) for cell in row]
            self._left -= sum(map(len, cells)) + _CELL_COST * len(cells)
            rows.append(cells)
        return {"columns": columns, "rows": rows, "n_rows": len(frame)}


def _frame(value: Any) -> Any:
    """Give a value as one table; of a fan-out whose items are tables, one below the other."""
    if not isinstance(value, list) or not value:
        return to_frame(value)
    try:
        return stack([({}, one) for one in value], ())
    except FrameError:
        return to_frame(value)


def _items(state: NodeState) -> str:
    if state.total is None:
        return ""
    parts = [f"{state.done + state.failed:,} of {state.total:,} items"]
    parts += [
        f"{count:,} {name}"
        for count, name in ((state.failed, "failed"), (state.reused, "reused"))
        if count
    ]
    return ", ".join(parts)


def _took(state: NodeState) -> str:
    return "" if state.seconds is None else duration(state.seconds)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _clean(run: Run, text: str) -> str:
    return text if run.secrets is None else run.secrets.mask(text)
