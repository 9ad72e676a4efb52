"""The answer to a repair: nodes that take the place of those that failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planbench.llm.parsing import extract
from planbench.plan.document import read_document
from planbench.plan.draft import unwrapped
from planbench.plan.source import shown
from planbench.validation import ValidationReport, check_plan

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.llm.client import Usage
    from planbench.plan.document import Document
    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.plan.source import Route
    from planbench.planner.offer import Catalog
    from planbench.tools import ToolRegistry


@dataclass(frozen=True, slots=True)
class PlanDelta:
    """A repair that passed every check: the new nodes, and the whole plan with them in it."""

    nodes: tuple[PlanNode, ...]
    plan: ExecutionPlan
    report: ValidationReport
    attempts: int
    usage: Usage
    text: str
    model: str | None
    catalog: Catalog


def read_delta(
    text: str,
    plan: ExecutionPlan,
    replaceable: Collection[str],
    registry: ToolRegistry,
    allowed_tools: Collection[str] | None,
    env: Mapping[str, Collection[str]] | None,
) -> tuple[ValidationReport, list[str]]:
    """Read an answer as a repair of a plan; gives the report of the repaired plan, and the ids replaced.

    Codes beside those of a check: not_replaceable for a node that has its result,
    unknown_node for a new id.
    """
    found = extract(text, ["nodes"])
    if not found.text:
        return ValidationReport(ok=False, issues=found.issues), []
    document = unwrapped(read_document(found.aligned))
    issues = [*found.issues, *document.problems]
    new, told = _nodes(document, {node.id for node in plan.nodes}, replaceable)
    issues += told
    if any(issue.severity == "error" for issue in issues):
        return ValidationReport(ok=False, issues=[found.placed(issue) for issue in issues]), []
    record = plan.to_dict(compact=True)
    record["nodes"] = [new.get(node["id"], node) for node in record["nodes"]]
    report = check_plan(record, registry, allowed_tools, env=env)
    return report, [*new]


def _nodes(
    document: Document, known: Collection[str], replaceable: Collection[str]
) -> tuple[dict[str, Any], list[ValidationIssue]]:
    """Give the nodes by id, and what is wrong with their being there."""
    value = document.value
    if not document.complete:
        return {}, []
    nodes = value.get("nodes") if isinstance(value, dict) else value
    if not isinstance(nodes, list) or not nodes:
        message = f"a repair is a map with nodes, a list of at least one, not {shown(value)}"
        return {}, [document.issue("missing_field", message, ())]
    found: dict[str, Any] = {}
    issues: list[ValidationIssue] = []
    prefix: Route = ("nodes",) if isinstance(value, dict) else ()
    for position, node in enumerate(nodes):
        where = (*prefix, position)
        node_id = node.get("id") if isinstance(node, dict) else None
        if not isinstance(node_id, str):
            issues.append(document.issue("missing_field", "a node has no id", where))
            continue
        problem = None
        if node_id in found:
            problem = ("duplicate_id", f"node {node_id!r} is given twice")
        elif node_id not in known:
            problem = ("unknown_node", f"the plan has no node {node_id!r}: a repair adds none")
        elif node_id not in replaceable:
            problem = ("not_replaceable", f"node {node_id!r} has its result and stays as it is")
        if problem is not None:
            fix = "may be replaced: " + ", ".join(sorted(replaceable))
            issues.append(document.issue(*problem, where, node_id=node_id, fix=fix))
        found[node_id] = node
    return found, issues
