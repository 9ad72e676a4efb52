"""A session as a page: the drawing, the facts of its run, and every node's details."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from planbench.errors import RenderError
from planbench.render.page import PageData, PageNode, PageTable, page
from planbench.render.text import as_text
from planbench.runtime.run_page import drawing, lanes, lineage, most_telling, run_facts, run_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.runtime.masking import Masking
    from planbench.session import PlanSession


def session_page(session: PlanSession, tables: Sequence[PageTable] = ()) -> str:
    """Give the page of the session's plan, with the latest run where there is one.

    ``tables`` are what the reader should see first; without them the details are open.
    Raises RenderError when there is nothing to draw.
    """
    view = session.view()
    if view is None:
        raise RenderError(f"there is nothing to draw in {session.name!r}")
    run = session.run
    if run is not None and run.secrets is not None:
        tables = [_without_secrets(table, run.secrets) for table in tables]
    plan = session.plan or session.draft
    shown = most_telling(view)
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
            svg=drawing(view),
            text=as_text(view),
            nodes=nodes,
            tables=tables,
            left_out=len(view.nodes) - len(shown),
            lanes=lanes(run, view, shown) if run else (),
            seconds=run_seconds(run) if run else 0.0,
            lineage=lineage(run) if run else (),
        )
    )


def _without_secrets(table: PageTable, secrets: Masking) -> PageTable:
    return dataclasses.replace(
        table, columns=secrets.clean(table.columns), rows=secrets.clean(table.rows)
    )
