"""A session as a page: the drawing, the facts of its run, and every node's details."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from planbench.errors import RenderError
from planbench.render.figures import duration, size
from planbench.render.page import PageData, PageNode, PageTable, page
from planbench.render.svg import draw
from planbench.render.text import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.render.view import GraphView
    from planbench.runtime.run import Run
    from planbench.session import PlanSession

MAX_NODES: Final = 300


def session_page(session: PlanSession, tables: Sequence[PageTable] = ()) -> str:
    """Give the page of the session's plan, with the latest run where there is one.

    ``tables`` are what the reader should see first; without them the details are open.
    Raises RenderError when there is nothing to draw.
    """
    view = session.view()
    if view is None:
        raise RenderError(f"there is nothing to draw in {session.name!r}")
    run = session.run
    plan = session.plan or session.draft
    shown = _most_telling(view)
    nodes = [
        PageNode.from_details(number, view.nodes[number], session.details(view.nodes[number].id))
        for number in shown
    ]
    return page(
        PageData(
            title=view.name,
            status=run.status if run else "valid" if session.report.ok else "invalid",
            objective=plan.objective if plan else "",
            facts=run_facts(run) if run else [("nodes", f"{len(view.nodes):,}")],
            svg=_drawing(view),
            text=as_text(view),
            nodes=nodes,
            tables=tables,
            left_out=len(view.nodes) - len(shown),
        )
    )


def _drawing(view: GraphView) -> str | None:
    try:
        return draw(view, interactive=True)
    except RenderError:
        return None  # the page shows the graph in words then


def _most_telling(view: GraphView) -> list[int]:
    """Choose the nodes that the page shows: all of them, or the red ones and then the first."""
    places = range(len(view.nodes))
    if len(places) <= MAX_NODES:
        return list(places)
    red = {"error": 0, "invalid": 0, "partial": 1, "cancelled": 1}
    return sorted(sorted(places, key=lambda at: red.get(view.nodes[at].status, 2))[:MAX_NODES])


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Give what is worth knowing of a run as a whole, as name and text."""
    manifest = run.manifest()
    facts = [("run", run.run_id)]
    if run.state.started is not None:
        started = datetime.fromtimestamp(run.state.started, UTC)
        facts.append(("started", f"{started:%Y-%m-%d %H:%M:%S} UTC"))
    facts += [
        ("took", duration(manifest.duration_seconds)),
        ("nodes ok", f"{manifest.nodes_ok} of {manifest.nodes_total}"),
        ("skipped", str(manifest.nodes_skipped)),
        ("failed or partial", str(manifest.nodes_failed)),
        ("calls", str(run.state.calls)),
        ("stored", size(manifest.total_bytes_stored)),
    ]
    return facts
