"""Plans in what a model answers: read exactly, or refused with what is wrong and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PlanInvalid
from planbench.llm.parsing import extract
from planbench.plan.collector import paused_collector
from planbench.plan.document import in_order, read_document
from planbench.plan.draft import draft, unwrapped
from planbench.plan.issues import ValidationIssue
from planbench.plan.steps import read_steps
from planbench.tools import Tool, ToolRegistry
from planbench.validation.calls import Calls
from planbench.validation.conditions import guard_issues
from planbench.validation.host import Host
from planbench.validation.outputs import Outputs
from planbench.validation.report import ValidationReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from planbench.llm.parsing import Extracted
    from planbench.plan.draft import Draft
    from planbench.plan.model import ExecutionPlan
    from planbench.plan.steps import StepPlan

# who may call what, and with which secret, is asked of the host before a run
_OF_THE_HOST: Final = frozenset({"no_registry", "env_not_allowed"})


def parse_plan(
    text: str | None,
    tools: ToolRegistry | Iterable[Any] | None = None,
    name: str | None = None,
    objective: str | None = None,
) -> ExecutionPlan:
    """Read a model's answer as a plan of tool calls.

    ``tools`` is a registry, or the names of all tools that there are; without it, tools are
    not checked. ``name`` and ``objective`` stand in for what the answer leaves out. Raises
    PlanInvalid with everything that is wrong, at the lines and columns of ``text``.
    """
    given = {"name": name, "objective": objective}
    host = Host(_registry(tools), None, None)
    report, named = _read(text, host, lambda value: _filled(value, given), skip=_OF_THE_HOST)
    if report.plan is None or not report.ok:
        raise PlanInvalid(report.issues, name=named)
    return report.plan


def read_plan(
    text: str | None, host: Host, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> ValidationReport:
    """Read a model's answer as a plan and check it against a host; never raises on its content.

    ``change`` gives the record to be read for the one in the answer: what it adds or
    leaves out is not the model's to say.
    """
    return _read(text, host, change)[0]


def parse_steps(text: str | None, known: Collection[str] = ()) -> StepPlan:
    """Read a model's answer as a plan of steps.

    ``known`` names steps of an earlier plan that these may wait for. Raises PlanInvalid
    with everything that is wrong, at the lines and columns of ``text``.
    """
    found = _found(text, "steps")
    plan, issues = read_steps(read_document(found.aligned), known)
    issues = _in_the_answer(found, issues)
    if plan is None or issues:
        raise PlanInvalid(issues)
    return plan


def _read(
    text: str | None,
    host: Host,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    skip: Collection[str] = (),
) -> tuple[ValidationReport, str | None]:
    """Give the report, and the plan's name where there is one."""
    try:
        found = _found(text, "nodes")
    except PlanInvalid as error:
        return ValidationReport(ok=False, issues=error.issues), None
    with paused_collector():
        document = unwrapped(read_document(found.aligned))
        if document.complete and isinstance(document.value, dict):
            document = document.replaced(change(document.value))
        made = draft(document)
        of_host = [issue for issue in _issues(made, host) if issue.code not in skip]
        issues = _in_the_answer(found, [*made.issues, *of_host])
    is_ok = made.plan is not None and all(issue.severity != "error" for issue in issues)
    report = ValidationReport(
        plan=made.plan, ok=is_ok, issues=issues, inferred=made.inferred, draft=made.partial_plan
    )
    return report, made.name


def _found(text: str | None, key: str) -> Extracted:
    """Find the plan in an answer; raises PlanInvalid where there is none to be read."""
    if text is None:
        raise PlanInvalid([ValidationIssue(code="no_json", message="the answer has no text")])
    found = extract(text, [key])
    if not found.text:
        raise PlanInvalid(found.issues)
    return found


def _filled(value: dict[str, Any], defaults: dict[str, str | None]) -> dict[str, Any]:
    given = {key: default for key, default in defaults.items() if default is not None}
    return {**given, **value}


def _issues(made: Draft, host: Host) -> Iterator[ValidationIssue]:
    if made.nodes:
        yield from Calls(made, host).issues()
        yield from guard_issues(made)
        yield from Outputs(made, host).issues()


def _in_the_answer(found: Extracted, issues: list[ValidationIssue]) -> list[ValidationIssue]:
    """Give issues of the extracted text the places of the answer, and those of JSON their code."""
    told = {(issue.line, issue.column) for issue in found.issues}
    placed = [found.placed(issue) for issue in issues]
    if found.is_json:
        code = {"code": "invalid_json"}
        placed = [i.model_copy(update=code) if i.code == "yaml_syntax" else i for i in placed]
    # what is wrong with a stand-in was said of what it stands for
    left = [issue for issue in placed if (issue.line, issue.column) not in told]
    return in_order([*found.issues, *left])


def _registry(tools: ToolRegistry | Iterable[Any] | None) -> ToolRegistry | None:
    if tools is None or isinstance(tools, ToolRegistry):
        return tools
    given = [tools] if isinstance(tools, str) else list(tools)
    return ToolRegistry(
        Tool.from_function(_anything, name=one) if isinstance(one, str) else one for one in given
    )


def _anything(**arguments: Any) -> Any:
    """Stand for a tool of which only the name is known: it takes and gives anything."""
    return arguments
