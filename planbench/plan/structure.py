"""What can be said about a plan's structure without knowing any tool."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.graph import cycles
from planbench.plan.placeholders import MAX_DEPTH, Placeholder, near_misses, references, scan, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from planbench.plan.issues import Severity
    from planbench.plan.model import PlanNode

ITEM_FAMILIES: Final = ("item", "index")
_NOT_IN_KEYS: Final = ("artifacts", "nodes")
_PARAMETER: Final = "{params."
_DIGITS: Final = re.compile(r"[0-9]+")
_MAX_INDEX_DIGITS: Final = 6  # a fan-out has at most 100,000 items
_MAX_SUGGESTIONS: Final = 50


class StructureProblem(NamedTuple):
    """One problem and the field that holds it, as a path from the node downwards."""

    code: str
    message: str
    node_id: str | None = None
    field: tuple[str | int, ...] = ()
    severity: Severity = "error"
    fix: str | None = None
    position: int | None = None


class Suggestions:
    """Near names for misspelled ones, as many as a person reads: each costs a look at all names."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = dict.fromkeys(known)
        self._left = _MAX_SUGGESTIONS

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def near(self, name: str) -> str | None:
        """Give "did you mean 'x'?" for a near miss, else None."""
        if self._left <= 0:
            return None
        self._left -= 1
        return suggestion(name, self._known)


def suggestion(name: str, known: Collection[str]) -> str | None:
    """Give "did you mean 'x'?" for a near miss among the first 2,000 names, else None."""
    near = difflib.get_close_matches(name[:200], list(known)[:2000], n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


def structure_problems(nodes: Sequence[PlanNode]) -> list[StructureProblem]:
    """Find every structural problem, in the order of the nodes; linear in the plan's size."""
    found: list[StructureProblem] = []
    first: dict[str, int] = {}
    braces: set[int] = set()
    for position, node in enumerate(nodes):
        if node.id in first:
            text = (
                f"id {node.id!r} is used twice; the first is node {first[node.id] + 1} of the plan"
            )
            found.append(
                StructureProblem("duplicate_id", text, node.id, ("id",), position=position)
            )
        else:
            first[node.id] = position
        found.extend(p._replace(position=position) for p in _key_problems(node))
        is_deep, has_braces = _glance(node.args)
        if is_deep:
            text = f"args are nested deeper than {MAX_DEPTH} levels"
            found.append(StructureProblem("bad_field", text, node.id, ("args",), position=position))
        elif has_braces:
            braces.add(position)
            found.extend(p._replace(position=position) for p in _literal_braces(node))
    found.extend(_dependency_problems(nodes, first, braces))
    found.extend(_key_conflicts(nodes))
    needs = {
        nodes[i].id: [d for d in nodes[i].depends_on if d != nodes[i].id] for i in first.values()
    }
    found.extend(
        StructureProblem(
            "cycle",
            f"nodes wait for each other: {' -> '.join(loop)}",
            loop[0],
            ("depends_on",),
            position=first.get(loop[0]),
        )
        for loop in cycles(needs)
    )
    return found


def _dependency_problems(
    nodes: Sequence[PlanNode], first: dict[str, int], braces: set[int]
) -> Iterator[StructureProblem]:
    names = Suggestions(first)
    for position, node in enumerate(nodes):
        seen: set[str] = set()
        for i, need in enumerate(node.depends_on):
            where = ("depends_on", i)
            if need == node.id:
                text = "the node waits for itself"
                yield StructureProblem("self_dependency", text, node.id, where, position=position)
            elif need in seen:
                text = f"{need!r} stands twice in depends_on"
                yield StructureProblem(
                    "duplicate_dependency", text, node.id, where, position=position
                )
            elif need not in first and _PARAMETER not in need:
                yield StructureProblem(
                    "unknown_dependency",
                    f"depends_on names {need!r}, and no node has that id",
                    node.id,
                    where,
                    fix=names.near(need),
                    position=position,
                )
            seen.add(need)
        args = node.args if position in braces else {}
        for problem in _reference_problems(node, args, seen, names):
            yield problem._replace(position=position)


def _reference_problems(
    node: PlanNode, args: Any, declared: set[str], names: Suggestions
) -> Iterator[StructureProblem]:
    def advice(name: str) -> str | None:
        return f"add {name} to depends_on" if name in names else names.near(name)

    source = source_of(node)
    if source and source not in declared:
        text = f"for_each reads {source!r}, which depends_on does not name"
        where = ("for_each", "source")
        yield StructureProblem("for_each_not_dependency", text, node.id, where, fix=advice(source))
    told: set[str] = set()
    for path, piece in references(args, alias_of(node)):
        name = piece.name
        if piece.family in _NOT_IN_KEYS and name not in declared and name not in told:
            told.add(name)
            text = f"{piece.text} is read, and depends_on does not name {name!r}"
            yield StructureProblem(
                "undeclared_reference", text, node.id, ("args", *path), fix=advice(name)
            )


def alias_of(node: PlanNode) -> str | None:
    """Give the name under which a fan-out's item stands; None for a node without one."""
    return node.for_each.alias if node.for_each else None


def source_of(node: PlanNode) -> str | None:
    """Give the id of the node that is fanned out over, where one is named."""
    for piece in scan(node.for_each.source) if node.for_each else ():
        if isinstance(piece, Placeholder) and piece.family == "artifacts":
            return piece.name
    return None


def _key_problems(node: PlanNode) -> Iterator[StructureProblem]:
    in_key = [p for p in scan(node.store_as, alias_of(node)) if isinstance(p, Placeholder)]
    where = ("store_as",)
    for piece in in_key:
        if piece.family in _NOT_IN_KEYS:
            text = f"store_as holds {piece.text}, and a key can only hold items and parameters"
            yield StructureProblem("bad_field", text, node.id, where)
    varies = any(piece.family in ITEM_FAMILIES for piece in in_key)
    if node.for_each and not varies:
        yield StructureProblem(
            "constant_item_key",
            f"store_as {node.store_as!r} is the same for every item, so each would overwrite the one before",
            node.id,
            where,
            fix=f'store_as: "{node.store_as}_{{index}}"',
        )
    if not node.for_each and varies:
        yield StructureProblem(
            "item_variable_without_for_each",
            f"store_as {node.store_as!r} names an item, and the node has no for_each",
            node.id,
            where,
            fix="add for_each, or give store_as a plain name",
        )


def _literal_braces(node: PlanNode) -> Iterator[StructureProblem]:
    alias = alias_of(node)
    for path, text in walk(node.args):
        if "{" not in text:
            continue
        if not node.for_each:
            for piece in scan(text):
                if isinstance(piece, Placeholder) and piece.family in ITEM_FAMILIES:
                    yield StructureProblem(
                        "literal_item_variable",
                        f"{piece.text} stays as written: the node has no for_each",
                        node.id,
                        ("args", *path),
                        "warning",
                    )
        for miss in near_misses(text, alias):
            yield StructureProblem(
                "literal_placeholder",
                f"{miss} is no placeholder and stays as written",
                node.id,
                ("args", *path),
                "warning",
                fix="write {artifacts.<id>} for a result, {nodes.<id>.output} for its ref",
            )


def _glance(value: Any) -> tuple[bool, bool]:
    """Say whether a value is nested too deep, and whether any text in it holds a brace."""
    braces = False
    stack = [(value, 0)]
    while stack:
        current, depth = stack.pop()
        if isinstance(current, str):
            braces = braces or "{" in current
            continue
        if depth > MAX_DEPTH:
            return True, braces
        if isinstance(current, dict):
            stack.extend((item, depth + 1) for item in current.values())
        elif isinstance(current, list | tuple):
            stack.extend((item, depth + 1) for item in current)
    return False, braces


def _key_conflicts(nodes: Sequence[PlanNode]) -> Iterator[StructureProblem]:
    owners: dict[str, str] = {}
    numbered: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, node in enumerate(nodes):
        owner = owners.setdefault(node.store_as, node.id)
        if owner != node.id:
            yield _conflict(node, owner, position)
        elif node.for_each and "{index}" in node.store_as:
            around = _around_index(node)
            if around is not None:
                numbered[around].append(position)
    if not numbered:
        return
    for node in nodes:
        if node.for_each is None:
            for around in _readings(node.store_as):
                for position in numbered.get(around, ()):
                    yield _conflict(nodes[position], node.id, position)


def _around_index(node: PlanNode) -> tuple[str, str] | None:
    """Give the texts before and after {index}, for a key that varies by nothing else."""
    pieces = scan(node.store_as, alias_of(node))
    at = [i for i, piece in enumerate(pieces) if isinstance(piece, Placeholder)]
    if len(at) != 1 or getattr(pieces[at[0]], "family", None) != "index":
        return None
    before = "".join(piece for piece in pieces[: at[0]] if isinstance(piece, str))
    return before, "".join(piece for piece in pieces[at[0] + 1 :] if isinstance(piece, str))


def _readings(key: str) -> Iterator[tuple[str, str]]:
    """Give each way in which a key may be a numbered one: what stands around the number."""
    for run in _DIGITS.finditer(key):
        start, end = run.span()
        for first in range(start, end):
            longest = first + (1 if key[first] == "0" else _MAX_INDEX_DIGITS)
            for last in range(first + 1, min(end, longest) + 1):
                yield key[:first], key[last:]


def _conflict(node: PlanNode, owner: str, position: int) -> StructureProblem:
    return StructureProblem(
        "key_conflict",
        f"store_as {node.store_as!r} collides with the key of node {owner!r}",
        node.id,
        ("store_as",),
        fix="give each node a key of its own",
        position=position,
    )
