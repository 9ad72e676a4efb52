"""The saved form of a plan or a run: a picture, a table and a text that need no kernel.

Nothing in it is a payload unless the caller asks for previews: statuses, counts,
facets and capped errors, as in the manifest. All text is escaped.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from time import gmtime, strftime, time
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import RenderError
from planbench.notebook import wire
from planbench.render.svg import as_text, draw
from planbench.render.theme import HOST_STYLE, STATES, STYLE
from planbench.runtime import Run
from planbench.session import PlanSession
from planbench.validation import ValidationReport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from planbench.plan.model import ExecutionPlan
    from planbench.render.view import GraphView

MAX_TEXT: Final = 1900
MAX_ROWS: Final = 200
MAX_ISSUES: Final = 50
MAX_CELL: Final = 600
LAYOUT_SECONDS: Final = 5.0
RED: Final = frozenset({"error", "failed", "invalid", "blocked", "budget_exceeded"})
GREEN: Final = frozenset({"ok", "completed", "success", "valid"})
AMBER: Final = frozenset({"partial", "cancelled", "interrupted"})
_STATE_RULE: Final = re.compile(r"\.pb-([a-z]+) ")
_SHAPE: Final = re.compile(r';d:path\("[^"]*"\)')
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

LAYOUT: Final = """
.pb-static{padding:8px 12px;border:1px solid var(--jp-border-color2,#dfe3e8);border-radius:4px;color:var(--jp-ui-font-color1,#1c2128);font:13px/1.45 var(--jp-ui-font-family,system-ui,sans-serif);text-align:left}
.pb-static>svg{display:block;max-width:100%;height:auto;margin:8px auto}
.pb-static>p{margin:4px 0}
.pbs.pbs{width:100%;margin:6px 0;border:0;border-collapse:collapse;font-size:12px;table-layout:auto}
.pbs.pbs tr:nth-child(n){border:0;background:none}
.pbs.pbs td,.pbs.pbs th{max-width:none;padding:2px 12px 2px 0;border:0;border-bottom:1px solid var(--jp-border-color2,#dfe3e8);text-align:left;vertical-align:top;white-space:nowrap}
.pbs.pbs td:last-child{white-space:normal;overflow-wrap:anywhere}
.pbs-scroll{overflow-x:auto}
.pbs.pbs thead th,.pbs-soft.pbs-soft.pbs-soft{color:var(--jp-ui-font-color2,#59636e);font-weight:400}
.pbs-num.pbs-num.pbs-num{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.pbs-pre{white-space:pre-wrap;overflow-wrap:anywhere}
.pbs-red{color:var(--jp-error-color1,#c62828)}
.pbs-green{color:var(--jp-success-color1,#2e7d32)}
.pbs-amber{color:var(--jp-warn-color0,#a15c00)}
"""


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _RunAlone:
    """A run as something to be shown, where no session holds it."""

    run: Run
    inferred: Mapping[str, Collection[str]]

    @property
    def name(self) -> str:
        return self.run.plan.name

    @property
    def plan(self) -> ExecutionPlan:
        return self.run.plan

    draft = plan
    resumable = None

    @property
    def report(self) -> ValidationReport:
        return ValidationReport(plan=self.run.plan, ok=True)


def static_bundle(
    source: PlanSession | Run,
    *,
    key: str | None = None,
    drawn: bool = True,
    previews: bool = False,
    inferred: Mapping[str, Collection[str]] | None = None,
    note: str | None = None,
) -> dict[str, str]:
    """Give the MIME bundle of a session or a run as it stands: HTML, SVG and text under 2 kB.

    ``key`` marks the HTML as the place of a live panel. Without ``drawn`` there is no
    graph, which needs a layout. ``previews`` adds the first rows of the artifacts.
    ``inferred`` are the edges of a run that nobody wrote; a session knows its own.
    ``note`` stands at the end, in place of what is said of a live panel there.
    """
    subject: wire.Subject = _RunAlone(source, inferred or {}) if isinstance(source, Run) else source
    view = wire.graph(subject, time())
    svg = _drawing(view) if drawn and view is not None else None
    status = wire.status_record(subject, time())
    parts = [
        Html(f"<style>{LAYOUT}{'' if svg is None else _needed(HOST_STYLE, svg)}</style>"),
        _head(subject.name, status),
        # In a page the drawing takes the style of the page: one inside it would rule the page too.
        "" if svg is None else Html(svg.replace(f"<style>{STYLE}</style>", "")),
        _nodes(subject),
        _issues(subject.report),
    ]
    if previews and isinstance(source, PlanSession):
        parts += _previews(source)
    classes = "pb-static" if key is None else f"pb-static pb-place pb-place-{key}"
    bundle = {
        "text/html": str(tag("div", *parts, _note(subject, note), class_=classes)),
        "text/plain": static_text(subject),
    }
    if svg is not None:
        bundle["image/svg+xml"] = svg.replace(STYLE, _needed(STYLE, svg))
    return bundle


def tag(name: str, /, *content: str, **attributes: str | None) -> Html:
    """Make an element; here, and nowhere else, text becomes HTML."""
    written = "".join(
        f' {key.rstrip("_")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(part if isinstance(part, Html) else escaped(part) for part in content)
    return Html(f"<{name}{written}>{inner}</{name}>")


def escaped(text: str) -> str:
    """Escape text; what no document may hold becomes a replacement character."""
    return html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def _drawing(view: GraphView) -> str | None:
    try:
        return draw(view, timeout=LAYOUT_SECONDS)
    except RenderError:
        return None  # the table says the same without a picture


def _needed(style: str, svg: str) -> str:
    """Keep the rules for the states that a drawing shows, without the shapes that it brings along."""
    lines = []
    for line in style.splitlines():
        state = _STATE_RULE.match(line)
        if state is None or state[1] not in STATES or f"pb-{state[1]}" in svg:
            lines.append(_SHAPE.sub("", line))
    return "\n".join(lines)


def _colour(status: str) -> str | None:
    for names, colour in ((RED, "pbs-red"), (GREEN, "pbs-green"), (AMBER, "pbs-amber")):
        if status in names:
            return colour
    return None


def _head(name: str, status: wire.Record) -> Html:
    facts = " \N{MIDDLE DOT} ".join(filter(None, (status["progress"], status["elapsed"])))
    said = tag("p", status["message"], class_="pbs-pre") if status["message"] else ""
    return tag(
        "div",
        tag("b", name),
        " ",
        tag("b", status["state"], class_=_colour(status["state"])),
        " ",
        tag("span", facts, class_="pbs-soft"),
        said,
    )


def _nodes(subject: wire.Subject) -> Html | str:
    plan = wire.shown_plan(subject)
    if plan is None:
        return ""
    records = wire.NodeWatch(subject).changed(time())
    refs = {} if subject.run is None else subject.run.refs
    rows = []
    for index, node in enumerate(plan.nodes[:MAX_ROWS]):
        record = records[str(index)]
        ref = refs.get(node.id)
        rows.append(
            tag(
                "tr",
                tag("td", node.id),
                tag("td", cut(wire.called(node)) or "chosen by a model", class_="pbs-soft"),
                tag("td", record["s"], class_=_colour(record["s"])),
                *(tag("td", record.get(name, ""), class_="pbs-num") for name in "itb"),
                tag(
                    "td",
                    *_facts(record, wire.facet_text(ref) if ref else "", ref.errors if ref else []),
                ),
            )
        )
    if len(plan.nodes) > MAX_ROWS:
        rows.append(tag("tr", tag("td", f"and {len(plan.nodes) - MAX_ROWS:,} more", colspan="7")))
    names = ("node", "tool", "status", "items", "time", "stored", "facets and errors")
    head = [
        tag("th", name, class_="pbs-num" if name in ("items", "time", "stored") else None)
        for name in names
    ]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows), class_="pbs")
    return tag("div", table, class_="pbs-scroll")


def _facts(record: wire.Record, facets: str, errors: Sequence[str]) -> list[Html]:
    found = [tag("div", cut(facets))] if facets else []
    said = errors or ([record["n"]] if "n" in record else [])
    colour = _colour(record["s"])
    if said:
        found.append(tag("div", cut(said[0]), class_=f"pbs-pre {colour or ''}"))
    if len(said) > 1:
        more = [tag("div", cut(text), class_="pbs-pre") for text in said[1:]]
        found.append(tag("details", tag("summary", f"{len(said) - 1} more"), *more))
    return found


def cut(text: str) -> str:
    """Keep a cell of the table readable."""
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]} \N{HORIZONTAL ELLIPSIS}"


def _issues(report: ValidationReport) -> Html | str:
    if not report.issues:
        return ""
    shown = [tag("div", str(issue), class_="pbs-pre") for issue in report.issues[:MAX_ISSUES]]
    if len(report.issues) > MAX_ISSUES:
        shown.append(tag("div", f"and {len(report.issues) - MAX_ISSUES:,} more"))
    return tag("details", tag("summary", wire.plural(len(report.issues), "issue")), *shown, open="")


def _previews(session: PlanSession) -> list[Html]:
    found = []
    run = session.run
    for node in run.plan.nodes[:MAX_ROWS] if run is not None else ():
        table: dict[str, Any] | None = session.details(node.id)["table"]
        if table is None:
            continue
        head = tag("tr", *(tag("th", name) for name in table["columns"]))
        body = [tag("tr", *(tag("td", cell) for cell in row)) for row in table["rows"]]
        title = f"{node.id}: first {len(table['rows'])} of {wire.plural(table['n_rows'], 'row')}"
        found.append(
            tag(
                "details",
                tag("summary", title),
                tag("table", tag("thead", head), tag("tbody", *body), class_="pbs"),
            )
        )
    return found


def _note(subject: wire.Subject, said: str | None) -> Html:
    run = subject.run
    if said is not None:
        return tag("p", said, class_="pbs-soft")
    if run is None:
        text = "A saved picture of a check, not a live one: run the cell again for the live panel."
        return tag("p", text, class_="pbs-soft")
    if wire.is_live(run):
        text = f"A picture of run {run.run_id}, taken while it was going on; not a live one."
        return tag("p", text, class_="pbs-soft")
    started = run.state.started
    when = "" if started is None else strftime(", started %Y-%m-%d %H:%M UTC", gmtime(started))
    return tag(
        "p",
        f"A saved picture of run {run.run_id}{when}. It is not live; while the kernel that ran it is up, ",
        tag("code", f"%plan show {run.run_id}"),
        " opens the live panel again.",
        class_="pbs-soft",
    )


def static_text(subject: wire.Subject) -> str:
    """Give a session or a run as text of less than 2 kB: how it stands, node by node."""
    now = time()
    run, view, status = subject.run, wire.graph(subject, now), wire.status_record(subject, now)
    facts = [
        f"{subject.name}: {status['state']}",
        status["progress"],
        status["elapsed"],
        "" if run is None else f"run {run.run_id}",
    ]
    lines = [", ".join(filter(None, facts)), *filter(None, [status["message"]])]
    if view is not None:
        lines += as_text(view).splitlines()[1:]
    lines += [str(issue) for issue in subject.report.issues]
    return _short(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", "\n".join(lines)))


def _short(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_TEXT:
        return text
    return data[:MAX_TEXT].decode(errors="ignore").rpartition("\n")[0] + "\n\N{HORIZONTAL ELLIPSIS}"
