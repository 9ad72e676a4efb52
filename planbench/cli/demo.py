"""The demo: the daily security sweep without a browser, and what it leaves behind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from planbench.cli import notebooks
from planbench.cli.execution import FINE, execute, verdict
from planbench.cli.record import session_page
from planbench.cli.terminal import output
from planbench.errors import CommandError
from planbench.examples.security_sweep import DATA, PLAN, scan_dates, sweep_tools
from planbench.render.page import PageTable
from planbench.tools import ToolRegistry
from planbench.workbench import Workbench

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from planbench.runtime.run import Run

NOTEBOOK: Final = "02_daily_security_sweep.ipynb"
PAGE: Final = "daily_security_sweep.html"
# Files on a disk are there at once; with this the run looks like one over a network.
LATENCY_SECONDS: Final = 0.2
CONTROL: Final = ("control", "tsc", "section", "new_findings")
FINDING: Final = ("severity", "region", "service", "check_id", "resource_uid")
REPORT: Final = ("region", "n_findings", "n_previous", "still_failing", "new", "resolved")
FAILED: Final = ("report_id", "region", "scanned_at", "state")
SEVERITIES: Final = ("critical", "high", "medium", "low", "informational")


def demo(options: argparse.Namespace) -> int:
    """Run the sweep, say what it found, and leave a page and an executed notebook."""
    data: Path = options.data or DATA
    date = options.date or _latest_date(data)
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    screen = output()
    workbench = Workbench(ToolRegistry(sweep_tools(data, latency=LATENCY_SECONDS)), store="memory")
    session = workbench.session(PLAN, {"date": date})
    screen.line(f"the security scans of {date}")
    run, signalled = execute(workbench, session, screen)
    code = verdict(run, strict=True) if signalled is None else signalled
    if code == FINE:
        for line in findings(run):
            screen.line(line)
    page = session_page(session, found_tables(run) if code == FINE else ())
    (folder / PAGE).write_text(page, encoding="utf-8")
    screen.line(f"wrote {folder / PAGE}")
    if code != FINE:
        return code
    screen.line(f"executing {NOTEBOOK}")
    given = {"date": date, "data": str(data.resolve())} if options.data else {"date": date}
    notebooks.execute(notebooks.find(NOTEBOOK), folder / NOTEBOOK, given)
    screen.line(f"wrote {folder / NOTEBOOK}")
    return FINE


def _latest_date(data: Path) -> str:
    try:
        dates = scan_dates(data)
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(
            f"the listings in {data} cannot be read: {error}",
            hint="the folder needs listing_today.json and listing_previous.json",
        ) from error
    if not dates:
        raise CommandError(f"there are no scans in {data}")
    return dates[0]


def findings(run: Run) -> list[str]:
    """Say what the sweep found: counts from the facets, the failed reports by name."""
    diff, soc2 = run.refs["diff"].facets, run.refs["soc2"].facets
    severities, controls = diff["new_by_severity"], soc2["new_by_control"]
    lines = [
        f"new {diff['n_new']}, resolved {diff['n_resolved']}",
        f"new by severity: {_counts({name: severities[name] for name in _ranked(severities)})}",
        f"SOC2 controls: {_counts(controls)}",
        f"checks without a control: {soc2['n_unmapped_checks']}",
    ]
    lines += [
        f"failed report: {row['report_id']} ({row['region']}, {row['state']})"
        for row in run.value("listing")["failed"]
    ]
    return lines


def found_tables(run: Run) -> list[PageTable]:
    """Give the tables that a reader of the page looks for first."""
    listing, diff, soc2 = run.value("listing"), run.value("diff"), run.value("soc2")
    severity = Counter(row["severity"] for row in diff["new"])
    ranks = _ranked(severity)
    new = sorted(diff["new"], key=lambda row: ranks.index(row["severity"]))
    return [
        PageTable(
            "New findings by severity", ("severity", "new"), [(s, severity[s]) for s in ranks]
        ),
        _table("SOC2 controls of the new findings", soc2["controls"], CONTROL),
        _table("New findings", new, FINDING),
        _table("Reports", diff["reports"], REPORT),
        _table("Reports that failed", listing["failed"], FAILED),
        _table("Resolved since the scan before", diff["resolved"], FINDING),
    ]


def _table(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> PageTable:
    cells = [[row.get(name) for name in columns] for row in rows]
    return PageTable(title, [name.replace("_", " ") for name in columns], cells)


def _ranked(severities: Any) -> list[str]:
    known = [name for name in SEVERITIES if name in severities]
    return [*known, *(name for name in severities if name not in SEVERITIES)]


def _counts(groups: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in groups.items()) or "none"
