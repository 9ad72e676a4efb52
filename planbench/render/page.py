"""A plan or a run as one HTML page: graph, facts and tables, read offline from disk.

The page holds all that it shows. It refers to nothing outside itself, and its
content policy lets no text of a plan or a tool become more than text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from planbench.render.figures import duration, size
from planbench.render.markup import Html, pill, tag
from planbench.render.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planbench.render.timeline import Lane
    from planbench.render.view import NodeView

MAX_ROWS: Final = 500
OPENED: Final = 12
FITTED: Final = 40  # nodes of a drawing that is still read when it is fitted to the page
_NUMBER: Final = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?\s?%?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table as text; ``n_rows`` counts all rows where ``rows`` holds only the first."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    n_rows: int | None = None
    note: str = ""
    limit: int = MAX_ROWS


@dataclass(frozen=True, slots=True)
class PageNode:
    """A node with its state and whatever can be opened below it.

    ``number`` is its place in the plan, by which the drawing knows it.
    """

    number: int
    view: NodeView
    tool: str = ""
    description: str = ""
    written: str = ""
    facts: Sequence[tuple[str, str]] = ()
    facets: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()
    output: str = ""
    keys: Sequence[str] = ()
    table: PageTable | None = None

    @classmethod
    def from_details(cls, number: int, view: NodeView, details: Mapping[str, Any]) -> PageNode:
        """Take a node as ``PlanSession.details`` gives it."""
        table = details.get("table")
        issues = [f"{issue['message']} [{issue['code']}]" for issue in details.get("issues") or ()]
        reason = details.get("reason")
        return cls(
            number,
            view,
            tool=details.get("tool") or details.get("type") or "",
            description=details.get("description") or "",
            written=details.get("args_text") or "",
            facts=[
                (name, _plain(details[key]))
                for key, name in _FACTS.items()
                if details.get(key) not in (None, "", [], {})
            ],
            facets=details.get("facets") or {},
            problems=[
                *([reason] if reason else []),
                *(text for text in details.get("errors") or () if text != reason),
                *(details.get("warnings") or ()),
                *issues,
            ],
            output=details.get("output") or "",
            keys=details.get("keys") or (),
            table=table
            and PageTable(
                view.id,
                table["columns"],
                table["rows"],
                n_rows=table["n_rows"],
                limit=max(MAX_ROWS, len(table["rows"])),
            ),
        )


@dataclass(frozen=True, slots=True)
class PageData:
    """All that stands on the page; ``svg`` is a drawing that ``svg.draw`` made.

    ``left_out`` counts the nodes of the plan that are not among ``nodes``. ``text`` is the drawing in words: it stands for the drawing where there is none,
    and beside it for those who cannot see it. ``lanes`` say when each node was at work,
    within ``seconds``; ``notes`` what a reader must know of what the page does not show.
    """

    title: str
    status: str
    nodes: Sequence[PageNode]
    objective: str = ""
    facts: Sequence[tuple[str, str]] = ()
    svg: str | None = None
    text: str = ""
    tables: Sequence[PageTable] = ()
    left_out: int = 0
    lanes: Sequence[Lane] = ()
    seconds: float = 0.0
    lineage: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


_FACTS: Final = {
    "depends_on": "waits for",
    "when": "only when",
    "for_each": "for each",
    "retry": "retry",
    "timeout": "timeout (s)",
}


def page(data: PageData) -> str:
    """Give the page as HTML text, without any reference to the outside."""
    style = _asset("page.css")
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="planbench"),
        tag("title", f"{data.title}: {data.status}"),
        Html(f"<style>{style}</style>"),
    )
    body = tag(
        "body",
        _header(data),
        tag(
            "main",
            _graph(data),
            _node_table(data),
            _section("Timeline", timeline(data.lanes, data.seconds)) if data.lanes else "",
            *(_section(table.title, _table(table)) for table in data.tables),
            _details(data),
            _lineage(data),
        ),
        Html(f"<script>{script}</script>"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(data: PageData) -> Html:
    return tag(
        "header",
        tag("h1", data.title, pill(data.status)),
        tag("p", data.objective, class_="objective") if data.objective else "",
        _fact_list(data.facts),
        *(tag("p", note, class_="note") for note in data.notes),
    )


def _fact_list(facts: Sequence[tuple[str, str]]) -> Html | str:
    told = [tag("div", tag("dt", name), tag("dd", value), class_="fact") for name, value in facts]
    return tag("dl", *told, class_="facts") if told else ""


def _lineage(data: PageData) -> Html | str:
    return _section("Lineage", _fact_list(data.lineage)) if data.lineage else ""


def _graph(data: PageData) -> Html:
    if data.svg is None:
        return _section("Graph", tag("pre", data.text, class_="twin"))
    twin = tag("details", tag("summary", "The graph as text"), tag("pre", data.text, class_="twin"))
    kind = "graph" if len(data.nodes) <= FITTED else "graph large"
    drawing = tag("div", Html(data.svg), class_=kind)
    return _section("Graph", drawing, twin if data.text else "")


def _node_table(data: PageData) -> Html:
    columns = ("node", "tool", "status", "items", "time", "stored", "facts")
    rows = [
        (
            tag("a", node.view.id, href=f"#d{node.number}"),
            node.tool,
            pill(node.view.status),
            _items(node.view),
            "" if node.view.seconds is None else duration(node.view.seconds),
            "" if not node.view.nbytes else size(node.view.nbytes),
            _facets(node.facets) if node.facets else node.view.note or "",
        )
        for node in data.nodes
    ]
    more = f"and {data.left_out:,} more nodes" if data.left_out else ""
    return _section(
        "Nodes",
        _grid(columns, rows, numeric={3, 4, 5}),
        tag("p", more, class_="count") if more else "",
    )


def _details(data: PageData) -> Html:
    # Where no table was chosen for the reader, the results are what there is to see.
    opened = "" if not data.tables and len(data.nodes) <= OPENED else None
    return _section("Details", *(_node_details(node, opened) for node in data.nodes))


def _node_details(node: PageNode, opened: str | None) -> Html:
    facts = [*node.facts, *((name, _plain(value)) for name, value in node.facets.items())]
    summary = tag(
        "summary",
        tag("span", node.view.id, class_="name"),
        tag("span", node.tool, class_="tool"),
        pill(node.view.status),
    )
    parts = [
        tag("p", node.description) if node.description else "",
        *(tag("p", problem, class_="problem") for problem in node.problems),
        _block("Arguments, as written", node.written),
        _fact_list(facts),
        tag("p", "Stored as ", _listed(node.keys)) if node.keys else "",
        _block("Printed by the tool", node.output),
        _table(node.table) if node.table is not None else "",
    ]
    return tag("details", summary, *parts, class_="node", id=f"d{node.number}", open=opened)


def _facets(facets: Mapping[str, Any]) -> Html:
    return tag(
        "span",
        *(
            tag("span", tag("b", name), f" {_plain(value)}", class_="facet")
            for name, value in facets.items()
        ),
    )


def _listed(keys: Sequence[str], shown: int = 12) -> Html:
    parts: list[str] = []
    for key in keys[:shown]:
        parts += [", ", tag("code", key)]
    more = f" and {len(keys) - shown:,} more" if len(keys) > shown else ""
    return tag("span", *parts[1:], more)


def _block(title: str, text: str) -> Html | str:
    if not text.strip():
        return ""
    return tag("figure", tag("figcaption", title), tag("pre", text.rstrip()))


def _table(table: PageTable) -> Html:
    total = len(table.rows) if table.n_rows is None else table.n_rows
    shown = [[_plain(cell) for cell in row] for row in table.rows[: table.limit]]
    if total > len(shown):
        count = f"the first {len(shown):,} of {total:,} rows"
    else:
        count = "1 row" if total == 1 else f"{total:,} rows"
    note = f"{table.note}, {count}" if table.note else count
    numeric = {
        place
        for place in range(len(table.columns))
        if shown and all(_NUMBER.fullmatch(row[place]) for row in shown if row[place])
    }
    return tag("div", _grid(table.columns, shown, numeric), tag("p", note, class_="count"))


def _grid(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = ()
) -> Html:
    right = set(numeric)

    def line(kind: str, cells: Sequence[str]) -> Html:
        return tag(
            "tr",
            *(
                tag(kind, cell, class_="number" if place in right else None)
                for place, cell in enumerate(cells)
            ),
        )

    head = tag("thead", line("th", columns))
    body = tag("tbody", *(line("td", row) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll", tabindex="0")


def _section(title: str, *content: str) -> Html:
    return tag("section", tag("h2", title), *content)


def _items(view: NodeView) -> str:
    if view.total is None:
        return ""
    parts = [f"{view.done or 0:,} of {view.total:,}"]
    parts += [
        f"{count:,} {name}"
        for count, name in ((view.failed, "failed"), (view.reused, "reused"))
        if count
    ]
    return ", ".join(parts)


def _plain(value: Any) -> str:
    """One line of text for a JSON value."""
    if isinstance(value, str):
        return value
    if isinstance(value, float | int | bool) or value is None:
        return "" if value is None else f"{value:,}" if type(value) is int else str(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    return json.dumps(value, ensure_ascii=False, default=str)


def _asset(name: str) -> str:
    return (files("planbench.render") / "static" / name).read_text(encoding="utf-8")
