"""The tools of the daily security sweep: list, fetch, compare, map to SOC2 controls.

They read a folder that stands for a bucket of scan reports::

    listing_today.json, listing_previous.json   reports: report_id, region, scanned_at, state, path
    today/..., previous/...                     the reports, each with its findings
    soc2_aws.json                               which check speaks for which control (optional)

A tool is a plain typed function. Its docstring is what a planner reads, its annotations
are what arguments are checked against, and what it returns is stored under the key that
the plan chose. Nothing here knows of plans; ``daily_security_sweep.yaml`` wires them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# the tools, so that the module itself is a source of tools: --tools planbench.examples.security_sweep
__all__ = ["compare_scans", "map_report_to_soc2", "s3_filter_reports", "s3_get_latest_report"]

DATA: Final = Path(__file__).parent / "data" / "prowler_sweep"
PLAN: Final = Path(__file__).parent / "daily_security_sweep.yaml"

SCANNER: Final = "prowler"
LISTINGS: Final = ("listing_today.json", "listing_previous.json")
CONTROLS: Final = "soc2_aws.json"

Row = dict[str, Any]


class Listing(TypedDict):
    """The reports of one day: those that can be fetched, and the scans that failed."""

    date: str
    scanner: str
    reports: list[Row]
    failed: list[Row]


class Report(TypedDict):
    """One scan of one region."""

    report_id: str
    region: str
    scanned_at: str
    findings: list[Row]


class Diff(TypedDict):
    """What changed between each report and the scan before it.

    ``reports`` has a row for each report with its counts, the other lists a row for
    each finding, led by its ``report_id``.
    """

    reports: list[Row]
    new: list[Row]
    resolved: list[Row]
    severity_changed: list[Row]
    duplicates: list[Row]
    without_previous: list[Row]


class ControlMap(TypedDict):
    """New findings by SOC2 control, and the checks that speak for none."""

    controls: list[Row]
    mapped: list[Row]
    unmapped_checks: list[Row]


@dataclass(frozen=True)
class ScanFolder:
    """A folder of scan reports; no path of a listing ever leads out of it."""

    root: Path

    def listing(self) -> list[Row]:
        """Give the rows of all listings, each with the ``date`` of its scan (UTC)."""
        names = [name for name in LISTINGS if (self.root / name).is_file()]
        if not names:
            raise FileNotFoundError(f"there is no {LISTINGS[0]} in the folder of the reports")
        return [
            {**row, "date": _moment(row["scanned_at"]).date().isoformat()}
            for name in names
            for row in _rows(json.loads(self.read(name)), "reports", name)
        ]

    def report(self, path: str) -> Report:
        """Read one report; raises ValueError for a file that is none."""
        return _report(self.read(path), path)

    def read(self, path: str) -> bytes:
        """Read a file below the folder; raises ValueError for a path that leads elsewhere."""
        file = (self.root / path).resolve()
        if not file.is_relative_to(self.root):
            raise ValueError(f"the path {path!r} leads out of the folder of the reports")
        return file.read_bytes()

    def digest(self, path: str) -> str | None:
        """Give the digest of a file's content, as an object store does; None for no such file."""
        try:
            return _digest(self.read(path))
        except (OSError, ValueError):
            return None


def sweep_tools(data: Path = DATA, *, latency: float = 0.0) -> list[Callable[..., Any]]:
    """Give the four tools of the sweep, reading the folder ``data``.

    ``latency`` is the number of seconds that each fetch takes longer, so that a run of
    local files looks like one over a network.
    """
    folder = ScanFolder(data.resolve())

    def s3_filter_reports(scanner: str, date: str) -> Listing:
        """List the reports that a scanner made on one day, given as 2023-03-18 (UTC)."""
        rows = folder.listing()
        made = [row for row in rows if row.get("scanner", SCANNER) == scanner]
        if not made:
            known = sorted({row.get("scanner", SCANNER) for row in rows})
            raise ValueError(f"no reports of {scanner!r}; there are some of {', '.join(known)}")
        found = [row for row in made if row["date"] == date]
        if not found:
            dates = sorted({row["date"] for row in made})
            raise ValueError(f"no scan on {date}; there are scans on {', '.join(dates)}")
        usable = [row for row in found if _is_complete(row)]
        return {
            "date": date,
            "scanner": scanner,
            "reports": [{**row, "etag": folder.digest(row["path"])} for row in usable],
            "failed": [row for row in found if not _is_complete(row)],
        }

    async def s3_get_latest_report(report_id: str, path: str, etag: str | None = None) -> Report:
        """Fetch one report; with the etag of a listing, only what was listed is accepted."""
        await asyncio.sleep(latency)
        content = await asyncio.to_thread(folder.read, path)
        if etag is not None and _digest(content) != etag:
            raise ValueError(f"{path} changed after it was listed; list the reports again")
        report = _report(content, path)
        if report["report_id"] != report_id:
            raise ValueError(f"{path} is the report {report['report_id']!r}, not {report_id!r}")
        return report

    def compare_scans(reports: list[Report]) -> Diff:
        """Compare each report with the latest scan of the same region before it.

        A finding is new when it fails now and did not before; without a scan before,
        every failing one is new. A finding that is listed twice counts once.
        """
        rows = folder.listing()
        return compare(
            (report, folder.report(before["path"]) if before is not None else None)
            for report in reports
            for before in [_latest_before(rows, report)]
        )

    def map_report_to_soc2(diff: Diff) -> ControlMap:
        """Map the new findings of a comparison to the SOC2 controls that they speak for."""
        own = (folder.root / CONTROLS).is_file()
        content = folder.read(CONTROLS) if own else (DATA / CONTROLS).read_bytes()
        return map_controls(diff["new"], _rows(json.loads(content), "controls", CONTROLS))

    return [s3_filter_reports, s3_get_latest_report, compare_scans, map_report_to_soc2]


tools: Final = sweep_tools()
s3_filter_reports, s3_get_latest_report, compare_scans, map_report_to_soc2 = tools


def scan_dates(data: Path = DATA) -> list[str]:
    """Name the days that the folder has scans of, the latest first."""
    return sorted({row["date"] for row in ScanFolder(data.resolve()).listing()}, reverse=True)


def compare(pairs: Iterable[tuple[Report, Report | None]]) -> Diff:
    """Compare each report with the one before it, or with nothing."""
    diff: Diff = {
        "reports": [],
        "new": [],
        "resolved": [],
        "severity_changed": [],
        "duplicates": [],
        "without_previous": [],
    }
    for report, before in pairs:
        place = {"report_id": report["report_id"], "region": report["region"]}
        now, then = _failing(report), _failing(before)
        still = now.keys() & then.keys()
        found: dict[str, list[Row]] = {
            "new": [row for uid, row in now.items() if uid not in then],
            "resolved": [row for uid, row in then.items() if uid not in now],
            "severity_changed": [
                {**row, "severity_before": then[uid]["severity"]}
                for uid, row in now.items()
                if uid in still and row["severity"] != then[uid]["severity"]
            ],
            "duplicates": [
                {"uid": uid, "times": times} for uid, times in _uids(report).items() if times > 1
            ],
        }
        diff["reports"].append(
            {
                **place,
                "scanned_at": report["scanned_at"],
                "previous_scan": None if before is None else before["scanned_at"],
                "n_findings": len(report["findings"]),
                "n_previous": None if before is None else len(before["findings"]),
                "still_failing": len(still),
                **{name: len(rows) for name, rows in found.items()},
            }
        )
        if before is None:
            diff["without_previous"].append(place)
        diff["new"] += [{**place, **row} for row in found["new"]]
        diff["resolved"] += [{**place, **row} for row in found["resolved"]]
        diff["severity_changed"] += [{**place, **row} for row in found["severity_changed"]]
        diff["duplicates"] += [{**place, **row} for row in found["duplicates"]]
    return diff


def map_controls(findings: Iterable[Row], controls: Iterable[Row]) -> ControlMap:
    """Map findings to the controls whose checks they come from."""
    known = {control["id"]: control for control in controls}
    mapped: list[Row] = []
    unmapped: Counter[str] = Counter()
    for finding in findings:
        check = finding["check_id"]
        speaks_for = [name for name, control in known.items() if check in control["checks"]]
        unmapped.update([] if speaks_for else [check])
        mapped += [{"control": name, "tsc": known[name]["tsc"], **finding} for name in speaks_for]
    counts = Counter(row["control"] for row in mapped)
    return {
        "controls": [
            {
                "control": name,
                "tsc": control["tsc"],
                "section": control["section"],
                "new_findings": counts[name],
            }
            for name, control in known.items()
            if counts[name]
        ],
        "mapped": mapped,
        "unmapped_checks": [{"check_id": c, "new_findings": n} for c, n in unmapped.items()],
    }


def _failing(report: Report | None) -> dict[str, Row]:
    if report is None:
        return {}
    return {row["uid"]: row for row in report["findings"] if row["status"] == "FAIL"}


def _uids(report: Report) -> Counter[str]:
    return Counter(row["uid"] for row in report["findings"])


def _latest_before(rows: list[Row], report: Report) -> Row | None:
    """Find the last complete scan before a report; None where there is none."""
    scanned = _moment(report["scanned_at"])
    earlier = [
        row
        for row in rows
        if row["report_id"] == report["report_id"]
        and _is_complete(row)
        and _moment(row["scanned_at"]) < scanned
    ]
    return max(earlier, key=lambda row: _moment(row["scanned_at"]), default=None)


def _is_complete(row: Mapping[str, Any]) -> bool:
    return row.get("state") == "completed" and isinstance(row.get("path"), str)


def _report(content: bytes, path: str) -> Report:
    report: Report = json.loads(content)
    _rows(report, "findings", path)
    missing = [name for name in ("report_id", "region", "scanned_at") if name not in report]
    if missing:
        raise ValueError(f"{path} is no report: it has no {', '.join(missing)}")
    return report


def _rows(body: Any, name: str, source: str) -> list[Row]:
    rows = body.get(name) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise ValueError(f"{source} has no list {name!r}")  # noqa: TRY004 - the content is wrong, not a type in the program
    return rows


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
