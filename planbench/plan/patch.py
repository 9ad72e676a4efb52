"""A diff made to a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from planbench.errors import PlanInvalid
from planbench.plan.issues import ValidationIssue
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.plan.records import MISSING, changed, path_text, record, same, unsaid, value_at
from planbench.plan.rename import renamed_node
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planbench.plan.diff import PlanDiff
    from planbench.plan.model import PlanModel
    from planbench.plan.records import FieldChange


def applied(diff: PlanDiff, plan: ExecutionPlan) -> ExecutionPlan:
    """Make the changes of a diff; raises PlanInvalid as ``PlanDiff.apply`` says."""
    conflicts = _Conflicts()
    nodes = _nodes(diff, {node.id: node for node in plan.nodes}, conflicts)
    fields = conflicts.changed(plan, diff.fields, None)
    if conflicts.issues:
        raise PlanInvalid(conflicts.issues, name=plan.name)
    try:
        return ExecutionPlan.model_validate({**fields, "nodes": nodes})
    except ValidationError as error:
        raise PlanInvalid(_issues(error), name=plan.name) from error


class _Conflicts:
    """Collects where a diff does not fit."""

    def __init__(self) -> None:
        self.issues: list[ValidationIssue] = []

    def add(self, message: str, node_id: str | None = None) -> None:
        self.issues.append(ValidationIssue(node_id=node_id, code="diff_conflict", message=message))

    def changed(
        self, model: PlanModel, changes: Iterable[FieldChange], node_id: str | None
    ) -> dict[str, Any]:
        """Give the record of a model with the changes made that fit."""
        found = record(model, as_written=True)
        for change in changes:
            try:
                fits = self._fits(model, change, node_id)
                if fits:
                    found = unsaid(model, changed(found, change, change.path), change.path)
            except (LookupError, TypeError):
                self.add(f"{path_text(change.path)}: there is nothing to put it into", node_id)
        return found

    def _fits(self, model: PlanModel, change: FieldChange, node_id: str | None) -> bool:
        current = value_at(model, change.path)
        expected = MISSING if change.kind == "added" else change.old
        if current is MISSING and expected is MISSING:
            return True
        if current is not MISSING and expected is not MISSING and same(current, expected):
            return True
        there = "nothing" if current is MISSING else shown(current)
        wanted = "nothing" if expected is MISSING else shown(expected)
        self.add(
            f"{path_text(change.path)} is {there}, and the diff was made for {wanted}", node_id
        )
        return False


def _nodes(diff: PlanDiff, nodes: dict[str, PlanNode], conflicts: _Conflicts) -> list[PlanNode]:
    _take_out(diff, nodes, conflicts)
    names = {one.old: one.new for one in diff.renamed}
    for name, new_name in names.items():
        if name not in nodes:
            conflicts.add("the node that would be renamed is not there", name)
        if new_name in nodes and new_name not in names:
            conflicts.add(f"the id that node {name!r} would get is taken", new_name)
    found = {one.id: one for one in (renamed_node(node, names) for node in nodes.values())}
    for one in diff.changed:
        if one.id in found:
            made = conflicts.changed(found[one.id], one.changes, one.id)
            found[one.id] = found[one.id] if conflicts.issues else _node(made, one.id)
        else:
            conflicts.add("the node that would be changed is not there", one.id)
    for new in diff.added:
        if new.node.id in found:
            conflicts.add("the node that would be added is there already", new.node.id)
        found[new.node.id] = new.node
    return _ordered(diff, found, conflicts)


def _take_out(diff: PlanDiff, nodes: dict[str, PlanNode], conflicts: _Conflicts) -> None:
    for gone in diff.removed:
        there = nodes.pop(gone.node.id, None)
        if there is None:
            conflicts.add("the node that would be removed is not there", gone.node.id)
        elif not same(there, gone.node):
            conflicts.add("the node that would be removed is not what it was", gone.node.id)


def _node(made: Mapping[str, Any], node_id: str) -> PlanNode:
    try:
        return PlanNode.model_validate(made)
    except ValidationError as error:
        raise PlanInvalid(_issues(error, node_id)) from error


def _ordered(
    diff: PlanDiff, nodes: Mapping[str, PlanNode], conflicts: _Conflicts
) -> list[PlanNode]:
    """Put each node that is new or moved behind the one that it follows."""
    follows = {new.node.id: new.after for new in diff.added}
    follows |= {one.id: one.after for one in diff.moved}
    behind: dict[str | None, list[str]] = {}
    for name, after in follows.items():
        if name not in nodes or (after is not None and after not in nodes):
            conflicts.add(f"the node that it should follow, {after!r}, is not there", name)
        behind.setdefault(after, []).append(name)
    found: list[PlanNode] = []
    stack: list[str] = [name for name in reversed(list(nodes)) if name not in follows]
    stack += reversed(behind.pop(None, []))
    while stack:
        name = stack.pop()
        if name in nodes:
            found.append(nodes[name])
        stack += reversed(behind.pop(name, []))
    if behind and not conflicts.issues:
        for names in behind.values():
            conflicts.add("the nodes that it should follow wait for each other", names[0])
    return found


def _issues(error: ValidationError, node_id: str | None = None) -> Sequence[ValidationIssue]:
    """Say what would be wrong with the result."""
    found = []
    for one in error.errors(include_url=False, include_input=False, include_context=True):
        problems = (one.get("ctx") or {}).get("problems") or ()
        found += [
            ValidationIssue(node_id=p.node_id, code=p.code, message=p.message, fix=p.fix)
            for p in problems
        ]
        if not problems:
            where = path_text(one["loc"])
            found.append(
                ValidationIssue(
                    node_id=node_id,
                    code="bad_field",
                    message=f"{where}: {one['msg']}" if where else one["msg"],
                )
            )
    return found
