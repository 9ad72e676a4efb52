"""One look at a plan that reports everything: text, structure, tools, guards and paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planbench.errors import PlanInvalid
from planbench.plan.collector import paused_collector
from planbench.plan.document import in_order
from planbench.plan.draft import Draft, draft, draft_of
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.plan.parameters import bind_document
from planbench.validation.calls import Calls
from planbench.validation.conditions import guard_issues
from planbench.validation.given import built, document_of
from planbench.validation.host import Host
from planbench.validation.outputs import Outputs
from planbench.validation.record import args_issues
from planbench.validation.report import ValidationReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from planbench.plan.document import Limits
    from planbench.plan.issues import ValidationIssue
    from planbench.tools import ToolRegistry
    from planbench.validation.given import Buildable


def check_plan(
    source: str | Path | Mapping[str, Any] | ExecutionPlan | Buildable,
    registry: ToolRegistry | Iterable[Any] | None = None,
    allowed_tools: Collection[str] | None = None,
    params: Mapping[str, Any] | None = None,
    env: Mapping[str, Collection[str]] | None = None,
    *,
    limits: Limits | None = None,
) -> ValidationReport:
    """Check a plan and report all that is wrong with it; never raises on its content.

    A str is text, a Path a file (PlanLoadError when there is none). ``registry`` may be a
    plain list of functions and tools. Without ``params`` the parameters are unknowns; with them, also with ``{}``, they are put in first.
    ``allowed_tools`` are names and patterns, or one of them; None allows all. ``env`` says which tools
    may receive which secret: ``{"GITHUB_TOKEN": ["github_*"]}``. ``limits`` bound the text. Raises
    ConfigurationError where one of them is something else.
    """
    host = Host(registry, allowed_tools, env)
    try:
        source = built(source)
    except PlanInvalid as error:
        return ValidationReport(ok=False, issues=error.issues)
    with paused_collector():
        made, issues = _made(source, params, limits)
        unfit = args_issues(made) if _holds_models(source) else []
        issues = in_order([*issues, *made.issues, *unfit, *_host_issues(made, host)])
        return ValidationReport(
            plan=None if unfit else made.plan,
            ok=all(issue.severity != "error" for issue in issues),
            issues=issues,
            inferred=made.inferred,
            draft=made.partial_plan,
        )


def validate_plan(
    plan: ExecutionPlan,
    registry: ToolRegistry | Iterable[Any] | None = None,
    allowed_tools: Collection[str] | None = None,
    env: Mapping[str, Collection[str]] | None = None,
) -> ValidationReport:
    """Check a plan that is a model already, as ``check_plan`` does."""
    return check_plan(plan, registry, allowed_tools, env=env)


def _made(
    source: Any, params: Mapping[str, Any] | None, limits: Limits | None
) -> tuple[Draft, list[ValidationIssue]]:
    if isinstance(source, ExecutionPlan) and params is None:
        return draft_of(source), []
    document = document_of(source, limits)
    issues: list[ValidationIssue] = []
    if params is not None:
        document, issues = bind_document(document, params)
    return draft(document), issues


def _holds_models(source: Any) -> bool:
    """Whether nodes were made by a program, which may hold what no text could give."""
    if isinstance(source, ExecutionPlan):
        return True
    nodes = source.get("nodes") if isinstance(source, Mapping) else None
    return isinstance(nodes, list | tuple) and any(isinstance(node, PlanNode) for node in nodes)


def _host_issues(made: Draft, host: Host) -> list[ValidationIssue]:
    if not made.nodes:
        return []
    return [*Calls(made, host).issues(), *guard_issues(made), *Outputs(made, host).issues()]
