"""Whether guards can be read, and what they read is there when they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planbench.errors import GuardError, PathError
from planbench.plan.conditions import dotted
from planbench.plan.graph import not_upstream
from planbench.plan.guards import compile_guard
from planbench.plan.paths import EACH, compile_path
from planbench.plan.placeholders import holds
from planbench.plan.short_guards import unknown
from planbench.plan.structure import Suggestions, suggestion

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
        if node.when is None or "when" in made.left_out.get(position, ()):
            continue
        if holds(node.when, "params"):
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
                target, compared = where[name], read in guard.compared
                yield from _facet(made, position, target, read[2], compared=compared)
    yield from _order(made, reads)


def _facet(
    made: Draft, position: int, target: int, facet: str, *, compared: bool
) -> Iterator[ValidationIssue]:
    node = made.nodes[target]
    facets = node.facets.names()
    if facet in node.facets.paths:
        lists = list(_list_facet(made, position, target, facet))
        yield from lists or (_distinct(made, position, target, facet) if compared else ())
    if facet in facets or facet in BUILT_IN_FACETS or "facets" in made.left_out.get(target, ()):
        return
    known = [*facets, *BUILT_IN_FACETS]
    message = f"the guard reads facet {facet!r}, which node {node.id!r} does not have"
    fix = suggestion(facet, known) or f"it has {', '.join(known)}"
    yield _issue(made, position, "guard_unknown_facet", message, fix)


def _list_facet(made: Draft, position: int, target: int, facet: str) -> Iterator[ValidationIssue]:
    """Refuse a facet that is a list in the result, of which a guard would see a description."""
    node = made.nodes[target]
    path = node.facets.paths[facet]
    try:
        if not compile_path(path).gives_list:
            return
    except PathError:
        return  # it is told where the path stands
    counted = path[: path.rindex(EACH) + len(EACH)]
    name = next(
        name for name in ("n", f"n_{facet}", f"n_of_{facet}") if name not in node.facets.names()
    )
    message = (
        f"the guard reads facet {facet!r} of node {node.id!r}: the path {path!r} gives a list, "
        "which is kept as a description and never as its items"
    )
    fix = (
        f"count the path: the facet `{name}: count({counted})` and the guard "
        f"`{dotted(('artifacts', node.id, name))} > 0`; `{facet}: groups({path})` counts by value"
    )
    yield _issue(made, position, "bad_guard", message, fix)


def _distinct(made: Draft, position: int, target: int, facet: str) -> Iterator[ValidationIssue]:
    """Refuse to compare the list that a fan-out has of a facet: no list equals a plain value."""
    node = made.nodes[target]
    if node.for_each is None:
        return
    shown = dotted(("artifacts", node.id, facet))
    message = (
        f"the guard compares facet {facet!r} of node {node.id!r} with a plain value, "
        "and over the items of a fan-out it is the list of its distinct values"
    )
    fix = f"write `value in {shown}`, or `{shown}.all(x, x == value)`"
    yield _issue(made, position, "bad_guard", message, fix)


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
