"""A document turned into nodes, one by one, with everything that is wrong and its place.

A field that cannot be read is left out, and its node is built from the rest, so that
one look finds what a strict reading would find one at a time.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from planbench.plan.bounds import bounded
from planbench.plan.document import Document
from planbench.plan.fields import FieldProblem, field_problems
from planbench.plan.inference import infer
from planbench.plan.model import ExecutionPlan, PlanMetadata, PlanNode
from planbench.plan.source import shown
from planbench.plan.structure import MAX_PROBLEMS, structure_problems
from planbench.plan.sugar import Vocabulary, long_form

if TYPE_CHECKING:
    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import PlanModel
    from planbench.plan.source import Route
    from planbench.plan.structure import StructureProblem

M = TypeVar("M", bound="PlanModel")

MAX_GUARDS: Final = 1_000_000
"""Characters of all guards of a plan, which are compiled while it is read."""

_OF_A_GUARD: Final = 200  # of each, which do not count: an ordinary one has about fifty
_ROUNDS: Final = 6
_ANY_SOURCE: Final = "{artifacts.source}"
_ANY_NODE: Final = PlanNode(id="node", tool="tool")
# what is told of a node without depends_on where its edges are inferred
_TOLD: Final = frozenset({"undeclared_reference", "for_each_not_dependency", "self_dependency"})
# what cannot be said of a node whose field was left out
_FOLLOWS: Final = {
    "depends_on": {"undeclared_reference", "for_each_not_dependency", "cycle"},
    "for_each": {"item_variable_without_for_each", "literal_item_variable"},
    "store_as": {"constant_item_key", "key_conflict"},
}


@dataclass(slots=True)
class Draft:
    """What could be read of a plan, and what is wrong with it.

    ``plan`` is there when nothing is; ``partial_plan`` is what there is to draw. Each of
    ``nodes`` has its path in ``routes``; ``inferred`` names, for each node that leaves
    ``depends_on`` out, what it waits for because it reads it.
    """

    document: Document
    plan: ExecutionPlan | None = None
    partial_plan: ExecutionPlan | None = None
    nodes: list[PlanNode] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    issues: list[ValidationIssue] = field(default_factory=list)
    left_out: dict[int, set[str]] = field(default_factory=dict)
    inferred: dict[str, list[str]] = field(default_factory=dict)
    unlisted: set[int] = field(default_factory=set)
    moved: dict[Route, Route] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The plan's name, where one could be read."""
        name = self.document.value.get("name") if isinstance(self.document.value, dict) else None
        return name if isinstance(name, str) else None

    def node_id(self, position: int) -> str | None:
        """The id as written of a node; None where a stand-in had to be made."""
        node = self.nodes[position].id
        lost = "id" in self.left_out.get(position, ())
        return None if lost and node == f"unnamed_{position + 1}" else node


def unwrapped(document: Document) -> Document:
    """Give the plan's own document, for a text that wraps it in ``plan:`` too."""
    value = document.value
    if isinstance(value, dict) and "nodes" not in value and isinstance(value.get("plan"), dict):
        return document.inside("plan")
    return document


def draft(document: Document) -> Draft:
    """Read a document as a plan; everything that is wrong comes as issues, never as an error."""
    made = Draft(unwrapped(document))
    made.document = document = made.document.moved(made.moved)
    root = document.value
    made.issues += [
        issue.model_copy(update={"node_id": node_id_at(root, route)})
        for issue, route in zip(document.problems, document.routes, strict=True)
    ]
    if not document.complete:
        return made
    if not isinstance(root, dict):
        made.issues.append(_no_map(made, root))
        return made
    head = _head(made, root)
    if not _read_nodes(made, root):
        if len(made.issues) > MAX_PROBLEMS:
            message = f"there are more than {MAX_PROBLEMS} problems: what follows was not looked at"
            made.issues.append(made.document.issue("bad_field", message, made.routes[-1]))
        made.nodes.clear()
        return made
    for problem in structure_problems(made.nodes):
        _add_structure_problem(made, problem)
    if made.nodes:
        made.partial_plan = head.model_copy(update={"nodes": made.nodes})
        if all(issue.severity != "error" for issue in made.issues):
            made.plan = made.partial_plan
    return made


def draft_of(plan: ExecutionPlan) -> Draft:
    """Look at a plan that is a model already; its issues have no lines."""
    made = Draft(Document(None), nodes=list(plan.nodes), partial_plan=plan)
    made.document.value = {"name": plan.name}
    made.routes = [("nodes", i) for i in range(len(made.nodes))]
    for problem in structure_problems(made.nodes):
        _add_structure_problem(made, problem)
    if all(issue.severity != "error" for issue in made.issues):
        made.plan = plan
    return made


def node_id_at(root: Any, route: Route) -> str | None:
    """Give the id of the node that a path of a plan's record leads into, where it has one."""
    try:
        found = root["nodes"][route[1]]["id"] if route[:1] == ("nodes",) else None
    except (KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _no_map(made: Draft, root: Any) -> ValidationIssue:
    fix = None
    if root is None:
        message = "the text is empty: a plan has name, objective and nodes"
    else:
        message = f"a plan is a map with name, objective and nodes, not {shown(root)}"
    if isinstance(root, str) and root.endswith((".yaml", ".yml", ".json")):
        fix = f"text is read as a plan itself: give Path({root!r}) to read a file"
    return made.document.issue("bad_field", message, (), fix=fix)


def _head(made: Draft, root: dict[str, Any]) -> ExecutionPlan:
    """Read all but the nodes."""
    record = bounded({key: value for key, value in root.items() if key != "nodes"})
    record["nodes"] = [_ANY_NODE]
    stand_ins: dict[Route, Any] = {("name",): "plan", ("objective",): ""}
    plan, problems = _lenient(ExecutionPlan, record, stand_ins)
    for problem in problems:
        _add_field_problem(made, problem, (), None)
    if plan is None:
        plan = ExecutionPlan.model_construct(
            name="plan", objective="", nodes=[_ANY_NODE], metadata=PlanMetadata(), params={}
        )
    return plan


def _read_nodes(made: Draft, root: dict[str, Any]) -> bool:
    """Read the nodes one by one; False where it ends before the last, with too many problems."""
    if "nodes" not in root:
        made.issues.append(made.document.issue("missing_field", "field 'nodes' is missing", ()))
        return True
    nodes = root["nodes"]
    where: list[tuple[str | int, Any]] = []
    if isinstance(nodes, list):
        where = list(enumerate(nodes))
        if not nodes:
            message = "nodes is empty: a plan has at least one node"
            made.issues.append(made.document.issue("bad_field", message, ("nodes",)))
    else:
        message = f"nodes must be a list, not {shown(nodes)}"
        fix = "write each node as an item: - id: ..."
        made.issues.append(made.document.issue("bad_field", message, ("nodes",), fix=fix))
        if isinstance(nodes, dict) and all(isinstance(node, dict) for node in nodes.values()):
            where = [(key, {"id": key, **node}) for key, node in nodes.items()]
    known = Vocabulary(record for _, record in where)
    room = MAX_GUARDS
    for position, (key, record) in enumerate(where):
        route = ("nodes", key)
        if len(made.issues) > MAX_PROBLEMS:
            made.routes.append(route)
            return False
        room -= _length_of_guard(record)
        if room < 0:
            made.issues.append(_long_guards(made, route))
            made.routes.append(route)
            return False
        if isinstance(record, PlanNode):
            node = record
        elif isinstance(record, dict):
            node = _read_node(made, record, route, known)
        else:
            message = f"node {position + 1} must be a map, not {shown(record)}"
            made.issues.append(made.document.issue("bad_field", message, route))
            continue
        made.nodes.append(node)
        made.routes.append(route)
    return True


def _length_of_guard(record: Any) -> int:
    guard = record.get("when") if isinstance(record, dict) else None
    return max(0, len(guard) - _OF_A_GUARD) if isinstance(guard, str) else 0


def _long_guards(made: Draft, route: Route) -> ValidationIssue:
    message = (
        f"the guards of the plan are too long: more than {MAX_GUARDS} characters, "
        f"not counting {_OF_A_GUARD} of each"
    )
    fix = "let a tool work out what they ask, and guard on its facet"
    return made.document.issue("bad_guard", message, (*route, "when"), fix=fix)


def _read_node(made: Draft, record: dict[str, Any], route: Route, known: Vocabulary) -> PlanNode:
    position = len(made.nodes)
    form = long_form(bounded(record), known)
    record = form.record
    problems = form.problems
    made.moved |= {(*route, *long): (*route, *short) for long, short in form.moved.items()}
    if form.problems:
        made.left_out[position] = form.lost
    if "depends_on" not in record:
        inferred = infer(record, known.ids)
        problems = [*problems, *inferred.problems]
        made.unlisted.add(position)
        if inferred.needs:
            record = {**record, "depends_on": inferred.needs}
    node_id = record.get("id") if isinstance(record.get("id"), str) else None
    for problem in problems:
        _add_field_problem(made, problem, route, node_id)
    try:
        node = PlanNode.model_validate(record)
    except ValidationError:
        node = _read_broken_node(made, record, route)
    if position in made.unlisted and node.depends_on:
        made.inferred[node.id] = list(node.depends_on)
    return node


def _read_broken_node(made: Draft, record: dict[str, Any], route: Route) -> PlanNode:
    """Build a node from what can be read of it; what is wrong with the rest goes to the issues."""
    written = record.get("id")
    needs = record.get("depends_on")
    unnamed = f"unnamed_{len(made.nodes) + 1}"
    stand_ins: dict[Route, Any] = {
        ("id",): unnamed,
        ("tool",): "?",
        ("instruction",): "?",
        ("type",): "delegate" if "instruction" in record and "tool" not in record else "tool",
        ("depends_on",): [needs] if isinstance(needs, str) else [],
        ("for_each",): {"source": _ANY_SOURCE},
        ("for_each", "source"): _ANY_SOURCE,
    }
    node, problems = _lenient(PlanNode, record, stand_ins)
    for problem in problems:
        node_id = written if isinstance(written, str) else None
        _add_field_problem(made, problem, route, node_id)
    lost = {str(problem.path[0]) for problem in problems if problem.path}
    made.left_out.setdefault(len(made.nodes), set()).update(lost)
    if node is None:
        node = PlanNode(id=unnamed, tool="?")
    update: dict[str, Any] = {n: None for n in ("tool", "instruction") if getattr(node, n) == "?"}
    if "id" in lost and isinstance(written, str) and written:
        update["id"] = written
        if "store_as" not in record:
            update["store_as"] = node.store_as.replace(unnamed, written, 1)
    if node.for_each is not None and node.for_each.source == _ANY_SOURCE:
        source = _written_source(record.get("for_each"))
        update["for_each"] = node.for_each.model_copy(update={"source": source})
    return node.model_copy(update=update)


def _written_source(each: Any) -> str:
    source = each.get("source") if isinstance(each, dict) else each
    return source if isinstance(source, str) else ""


def _lenient(
    model: type[M], record: dict[str, Any], stand_ins: dict[Route, Any]
) -> tuple[M | None, list[FieldProblem]]:
    """Validate, leave out what is wrong, and validate again, until the rest fits."""
    found: dict[tuple[str, Route], FieldProblem] = {}
    current = record
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(current), list(found.values())
        except ValidationError as error:
            problems = field_problems(error, current, model)
        for problem in problems:
            found.setdefault((problem.code, problem.path), problem)
        current = dict(current)
        copied = {id(current)}
        for problem in sorted(problems, key=_last_items_first, reverse=True):
            _leave_out(current, problem, stand_ins, copied)
    return None, list(found.values())


def _last_items_first(problem: FieldProblem) -> list[tuple[int, str]]:
    """Order problems so that leaving out one item of a list does not move the others."""
    return [(part, "") if isinstance(part, int) else (-1, part) for part in problem.path]


def _leave_out(
    record: Any, problem: FieldProblem, stand_ins: dict[Route, Any], copied: set[int]
) -> None:
    """Take a field out of a record that is a copy at its top; what it holds is copied on the way.

    ``copied`` are the ids of what is a copy already.
    """
    path = problem.path
    for part in path[:-1]:
        try:
            inner = record[part]
        except (KeyError, IndexError):  # it was left out whole
            return
        if not isinstance(inner, dict | list):
            return
        if id(inner) not in copied:
            inner = record[part] = inner.copy()
            copied.add(id(inner))
        record = inner
    if path in stand_ins and not problem.superfluous:
        record[path[-1]] = stand_ins[path]
    elif path:
        with contextlib.suppress(KeyError, IndexError):  # one path may have two problems
            del record[path[-1]]


def _add_field_problem(
    made: Draft, problem: FieldProblem, route: Route, node_id: str | None
) -> None:
    path = (*route, *(problem.path[:-1] if problem.absent else problem.path))
    made.issues.append(
        made.document.issue(
            problem.code,
            problem.message,
            path,
            node_id=node_id,
            fix=problem.fix,
            at_key=problem.superfluous,
        )
    )


def _add_structure_problem(made: Draft, problem: StructureProblem) -> None:
    position = problem.position
    if position is None:
        made.issues.append(made.document.issue(problem.code, problem.message, (), fix=problem.fix))
        return
    lost = made.left_out.get(position, set())
    if any(problem.code in _FOLLOWS.get(name, ()) for name in lost):
        return
    if position in made.unlisted and problem.code in _TOLD:
        return
    if problem.field == ("args",) and problem.code == "bad_field":
        made.left_out.setdefault(position, set()).add("args")
    made.issues.append(
        made.document.issue(
            problem.code,
            problem.message,
            (*made.routes[position], *problem.field),
            node_id=made.node_id(position),
            severity=problem.severity,
            fix=problem.fix,
        )
    )
