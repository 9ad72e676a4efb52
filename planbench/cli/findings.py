"""What a check found, as lines of the form that editors and CI systems know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.issues import ValidationIssue
    from planbench.validation import ValidationReport

SHOWN_EDGES: Final = 20


def finding(issue: ValidationIssue, called: str) -> str:
    """Give an issue as the line that editors and CI systems know."""
    place = called if issue.line is None else f"{called}:{issue.line}:{issue.column or 1}"
    node = "" if issue.node_id is None else f"node {issue.node_id!r}: "
    fix = "" if issue.fix is None else f" ({issue.fix})"
    return f"{place}: {issue.severity}: {node}{issue.message} [{issue.code}]{fix}"


def findings(report: ValidationReport, called: str) -> str:
    """Give all issues, a line each."""
    return "\n".join(finding(issue, called) for issue in report.issues)


def inferred(report: ValidationReport) -> Iterator[str]:
    """Tell the edges that nobody wrote: a node waits for what it reads."""
    for node_id, needs in list(report.inferred.items())[:SHOWN_EDGES]:
        yield f"node {node_id!r} waits for {', '.join(needs)}, which it reads [inferred]"
    if len(report.inferred) > SHOWN_EDGES:
        yield f"and {len(report.inferred) - SHOWN_EDGES:,} more nodes; --json names them all"


def counted(report: ValidationReport) -> str:
    """Say how a check ended, as ``ok, 2 nodes, 1 warning``."""
    counts = {
        kind: sum(issue.severity == kind for issue in report.issues)
        for kind in ("error", "warning")
    }
    said = [f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in counts.items() if n]
    if report.ok and report.plan is not None:
        nodes = len(report.plan.nodes)
        said.insert(0, f"ok, {nodes} node{'s' if nodes > 1 else ''}")
    return ", ".join(said)
