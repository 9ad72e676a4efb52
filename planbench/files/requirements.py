"""The report of a check that also says where missing tools live, and which are not what they were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PlanLoadError
from planbench.files.lock import compared, known_tools
from planbench.plan.document import in_order
from planbench.plan.issues import ValidationIssue
from planbench.tools import ToolRegistry, is_allowed
from planbench.validation import no_match, no_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.files.lock import LockedTool, PlanLock
    from planbench.files.store import PlanFileStore
    from planbench.plan.model import ExecutionPlan
    from planbench.validation import ValidationReport

_SHOWN: Final = 5


def with_lock(
    report: ValidationReport, registry: ToolRegistry | None, store: PlanFileStore, source: Any
) -> ValidationReport:
    """Add to a report what ``requires`` and the plan's lock say of its tools.

    A plan has a lock when its ``source`` is a file of the plans folder. A lock that cannot
    be read is a warning, ``lock_unreadable``.
    """
    name = store.name_of(source) if isinstance(source, Path) else None
    if name is None:
        return with_requirements(report, registry, None)
    try:
        lock = store.read_lock(name)
    except PlanLoadError as error:
        issue = ValidationIssue(
            code="lock_unreadable", message=error.message, severity="warning", fix=error.hint
        )
        report = report.model_copy(update={"issues": [*report.issues, issue]})
        lock = None
    return with_requirements(report, registry, lock)


def with_requirements(
    report: ValidationReport, registry: ToolRegistry | None, lock: PlanLock | None
) -> ValidationReport:
    """Add to a report what is known of the plan's tools; one message for each tool and place.

    ``unknown_tool`` gains where the tool lives, ``tool_changed`` is a warning. Where the
    check has nothing against a tool that is missing (no registry was given, or a delegate
    has others to choose from), ``tool_missing`` is a warning too.
    """
    plan = report.draft or report.plan
    if plan is None or (lock is None and not plan.requires):
        return report
    known, issues = known_tools(plan, lock)
    told = _told(plan, known)
    placed = [_placed(issue, told.get(issue.message, ()), known) for issue in report.issues]
    named = {
        name
        for issue in report.issues
        if issue.code == "unknown_tool"
        for name in told.get(issue.message, ())
    }
    for name, issue in compared(plan, registry or ToolRegistry(), known):
        if name not in named:
            issues.append(issue.model_copy(update={"severity": "warning"}))
    return report.model_copy(update={"issues": in_order([*placed, *issues])})


def _told(plan: ExecutionPlan, known: Mapping[str, LockedTool]) -> dict[str, list[str]]:
    """Give for each way in which a check misses tools the known ones that it means."""
    told = {no_tool(name): [name] for name in known}
    for pattern in {one for node in plan.nodes for one in node.tools or ()}:
        told[no_match(pattern)] = [name for name in known if is_allowed(name, [pattern])]
    return told


def _placed(issue: ValidationIssue, names: Any, known: Mapping[str, LockedTool]) -> ValidationIssue:
    if issue.code != "unknown_tool" or not names:
        return issue
    named = names[:_SHOWN]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    subject = ["it"] if issue.message == no_tool(names[0]) else [repr(name) for name in named]
    places = [
        f"{who} lives in {known[name].place()}" for who, name in zip(subject, named, strict=True)
    ]
    ways = dict.fromkeys(known[name].way() for name in named)
    return issue.model_copy(
        update={
            "message": f"{issue.message}; {', '.join(places)}{more}",
            "fix": "; ".join(ways),
        }
    )
