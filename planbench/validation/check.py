"""One look at a plan that reports everything: text, structure, tools, guards and paths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planbench.plan.collector import paused_collector
from planbench.plan.document import Document, in_order, read_document
from planbench.plan.draft import Draft, draft, draft_of
from planbench.plan.model import ExecutionPlan
from planbench.plan.parameters import bind_document, record_of
from planbench.validation.calls import Calls
from planbench.validation.conditions import guard_issues
from planbench.validation.host import Host
from planbench.validation.outputs import Outputs
from planbench.validation.report import ValidationReport
from planbench.validation.text import read_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from planbench.plan.issues import ValidationIssue
    from planbench.tools import ToolRegistry


def check_plan(
    source: str | Path | Mapping[str, Any] | ExecutionPlan,
    registry: ToolRegistry | None = None,
    allowed_tools: Collection[str] | None = None,
    params: Mapping[str, Any] | None = None,
    env: Mapping[str, Collection[str]] | None = None,
) -> ValidationReport:
    """Check a plan and report all that is wrong with it; never raises on its content.

    A str is text, a Path a file (PlanLoadError when there is none). Without ``params``
    the parameters are unknowns; with them, also with ``{}``, they are put in first.
    ``allowed_tools`` are names and patterns, None allows all. ``env`` says which tools
    may receive which secret: ``{"GITHUB_TOKEN": ["github_*"]}``.
    """
    with paused_collector():
        made, issues = _made(source, params)
        host = Host(registry, allowed_tools, env)
        issues = in_order([*issues, *made.issues, *_host_issues(made, host)])
        return ValidationReport(
            plan=made.plan,
            ok=all(issue.severity != "error" for issue in issues),
            issues=issues,
            inferred=made.inferred,
            draft=made.partial_plan,
        )


def validate_plan(
    plan: ExecutionPlan,
    registry: ToolRegistry | None = None,
    allowed_tools: Collection[str] | None = None,
    env: Mapping[str, Collection[str]] | None = None,
) -> ValidationReport:
    """Check a plan that is a model already, as ``check_plan`` does."""
    return check_plan(plan, registry, allowed_tools, env=env)


def _made(source: Any, params: Mapping[str, Any] | None) -> tuple[Draft, list[ValidationIssue]]:
    if isinstance(source, ExecutionPlan) and params is None:
        return draft_of(source), []
    document = _document(source)
    issues: list[ValidationIssue] = []
    if params is not None:
        document, issues = bind_document(document, params)
    return draft(document), issues


def _document(source: Any) -> Document:
    if isinstance(source, str):
        return read_document(source)
    if isinstance(source, Path):
        return read_document(read_text(source))
    if isinstance(source, ExecutionPlan):
        return Document(record_of(source))
    return Document(dict(source) if isinstance(source, Mapping) else source)


def _host_issues(made: Draft, host: Host) -> list[ValidationIssue]:
    if not made.nodes:
        return []
    return [*Calls(made, host).issues(), *guard_issues(made), *Outputs(made, host).issues()]
