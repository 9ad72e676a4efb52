"""Plans that a model writes: its answer read exactly, or refused with what is wrong and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PlanInvalid
from planbench.llm import extract
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planbench.llm import Extracted
    from planbench.plan.document import Document
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
    found = _found(text, "nodes")
    host = Host(_registry(tools), None, None)
    with paused_collector():
        made = draft(_filled(read_document(found.aligned), {"name": name, "objective": objective}))
        issues = _in_the_answer(found, [*made.issues, *_issues(made, host)])
    if made.plan is None or any(issue.severity == "error" for issue in issues):
        raise PlanInvalid(issues, name=made.name)
    return made.plan


def parse_steps(text: str | None) -> StepPlan:
    """Read a model's answer as a plan of steps.

    Raises PlanInvalid with everything that is wrong, at the lines and columns of ``text``.
    """
    found = _found(text, "steps")
    plan, issues = read_steps(read_document(found.aligned))
    issues = _in_the_answer(found, issues)
    if plan is None or issues:
        raise PlanInvalid(issues)
    return plan


def _found(text: str | None, key: str) -> Extracted:
    """Find the plan in an answer; raises PlanInvalid where there is none to be read."""
    if text is None:
        raise PlanInvalid([ValidationIssue(code="no_json", message="the answer has no text")])
    found = extract(text, [key])
    if not found.text:
        raise PlanInvalid(found.issues)
    return found


def _filled(document: Document, defaults: dict[str, str | None]) -> Document:
    document = unwrapped(document)
    if not document.complete or not isinstance(document.value, dict):
        return document
    given = {key: value for key, value in defaults.items() if value is not None}
    return document.replaced({**given, **document.value})


def _issues(made: Draft, host: Host) -> Iterator[ValidationIssue]:
    if made.nodes:
        yield from (i for i in Calls(made, host).issues() if i.code not in _OF_THE_HOST)
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
