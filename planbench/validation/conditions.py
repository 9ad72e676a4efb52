"""Whether guards can be read, and what they read is there when they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planbench.errors import GuardError
from planbench.plan.graph import not_upstream
from planbench.plan.guards import compile_guard
from planbench.plan.short_guards import unknown
from planbench.plan.structure import Suggestions, suggestion
from planbench.validation.calls import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.draft import Draft
    from planbench.plan.issues import ValidationIssue

BUILT_IN_FACETS: Final = ("count", "bytes", "items_ok", "items_failed")
_NODE_READ: Final = 2
_FACET_READ: Final = 3


def guard_issues(made: Draft) -> Iterator[ValidationIssue]:
    """Give everything that is wrong with the guards, node by node."""
    where = {node.id: position for position, node in reversed(list(enumerate(made.nodes)))}
    names = Suggestions(where)
    reads: list[tuple[int, str]] = []
    for position, node in enumerate(made.nodes):
        if not node.when or PARAMETER in node.when or "when" in made.left_out.get(position, ()):
            continue
        try:
            guard = compile_guard(node.when)
        except GuardError as error:
            hints = [_meant(node.when, names, where), error.hint]
            fix = "; ".join(hint for hint in hints if hint) or None
            yield _issue(made, position, "bad_guard", error.message, fix)
            continue
        for read in guard.reads:
            if read[0] not in ("artifacts", "status") or len(read) < _NODE_READ:
                continue
            name = read[1]
            if name not in where:
                message = f"the guard reads {name!r}, and no node has that id"
                fix = names.near(name) or _hyphened(name, where)
                yield _issue(made, position, "guard_unknown_node", message, fix)
                continue
            reads.append((position, name))
            if read[0] == "artifacts" and len(read) >= _FACET_READ:
                yield from _facet(made, position, where[name], read[2])
    yield from _order(made, reads)


def _facet(made: Draft, position: int, target: int, facet: str) -> Iterator[ValidationIssue]:
    node = made.nodes[target]
    facets = node.facets.names()
    if facet in facets or facet in BUILT_IN_FACETS or "facets" in made.left_out.get(target, ()):
        return
    known = [*facets, *BUILT_IN_FACETS]
    message = f"the guard reads facet {facet!r}, which node {node.id!r} does not have"
    fix = suggestion(facet, known) or f"it has {', '.join(known)}"
    yield _issue(made, position, "guard_unknown_facet", message, fix)


def _order(made: Draft, reads: list[tuple[int, str]]) -> Iterator[ValidationIssue]:
    needs = {node.id: node.depends_on for node in reversed(made.nodes)}
    nodes = made.nodes
    early = not_upstream(needs, ((nodes[position].id, name) for position, name in reads))
    for position, name in dict.fromkeys(reads):
        node = nodes[position]
        if (node.id, name) in early and "depends_on" not in made.left_out.get(position, ()):
            if node.id == name:
                message, fix = "the guard reads its own node, which has not run yet", None
            else:
                message = f"the guard reads {name!r}, which may still run: {node.id!r} does not wait for it"
                fix = f"add {name} to depends_on"
            yield _issue(made, position, "guard_not_upstream", message, fix)


def _meant(text: str, names: Suggestions, where: dict[str, int]) -> str | None:
    """Say which node a guard in the short form may mean, where a name in it is none."""
    for name in unknown(text, where):
        if name in where:
            return f'write ctx.artifacts["{name}"]: a hyphen is a minus in the short form'
        if (near := names.near(name)) is not None:
            return near
    return None


def _hyphened(name: str, where: dict[str, int]) -> str | None:
    """Tell how to write an id with a hyphen, which CEL reads as a subtraction."""
    found = next((known for known in where if known.startswith(f"{name}-")), None)
    return f'write ctx.artifacts["{found}"]: a hyphen is a minus in dotted form' if found else None


def _issue(made: Draft, position: int, code: str, message: str, fix: str | None) -> ValidationIssue:
    path = (*made.routes[position], "when")
    return made.document.issue(code, message, path, node_id=made.node_id(position), fix=fix)
