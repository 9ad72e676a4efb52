"""What can be said about a plan's structure without knowing any tool."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.graph import cycles
from planbench.plan.placeholders import (
    MAX_DEPTH,
    Placeholder,
    holds,
    near_misses,
    references,
    scan,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from planbench.plan.issues import Severity
    from planbench.plan.model import PlanNode

ITEM_FAMILIES: Final = ("item", "index")
_NOT_IN_KEYS: Final = ("artifacts", "nodes")
_DIGITS: Final = re.compile(r"[0-9]+")
_MAX_INDEX_DIGITS: Final = 6  # a fan-out has at most 100,000 items
_MAX_SUGGESTIONS: Final = 50
_MAX_COMPARED: Final = 20_000_000  # characters by characters, over all suggestions of a plan
_MAX_LOOP: Final = 20
_LONGEST: Final = 200
MAX_PROBLEMS: Final = 5000
"""How many problems are told; whoever mends that many looks again."""
_MOST: Final = 2000


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
        self._budget = _MAX_COMPARED

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def near(self, name: str) -> str | None:
        """Give "did you mean 'x'?" for a near miss, else None."""
        if self._left <= 0:
            return None
        self._left -= 1
        self._budget -= min(len(name), _LONGEST) * self._size
        return suggestion(name, self._known) if self._budget >= 0 else None

    @functools.cached_property
    def _size(self) -> int:
        return sum(map(len, itertools.islice(self._known, _MOST)))


def suggestion(name: str, known: Collection[str]) -> str | None:
    """Give "did you mean 'x'?" for a near miss among the first 2,000 names, else None."""
    names = list(itertools.islice(known, _MOST))
    near = difflib.get_close_matches(name[:_LONGEST], names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


def listed(names: Sequence[str], most: int = 8) -> str:
    """Name the first few, and say how many more there are."""
    rest = len(names) - most
    text = ", ".join(names[:most])
    return (f"{text} and {rest} more" if rest > 0 else text) or "none"


def structure_problems(nodes: Sequence[PlanNode]) -> list[StructureProblem]:
    """Find the structural problems, in the order of the nodes; linear in the plan's size.

    Of more than 5,000 errors, or as many warnings, the first are told.
    """
    found: list[StructureProblem] = []
    warnings = 0
    for problem in _problems(nodes):
        if problem.severity == "warning":
            warnings += 1
            if warnings > MAX_PROBLEMS:
                continue
        found.append(problem)
        if len(found) - min(warnings, MAX_PROBLEMS) >= MAX_PROBLEMS:
            break
    return found


def _problems(nodes: Sequence[PlanNode]) -> Iterator[StructureProblem]:
    first: dict[str, int] = {}
    braces: set[int] = set()
    for position, node in enumerate(nodes):
        if node.id in first:
            text = (
                f"id {node.id!r} is used twice; the first is node {first[node.id] + 1} of the plan"
            )
            yield StructureProblem("duplicate_id", text, node.id, ("id",), position=position)
        else:
            first[node.id] = position
        yield from (p._replace(position=position) for p in _key_problems(node))
        is_deep, has_braces = _glance(node.args)
        if is_deep:
            text = f"args are nested deeper than {MAX_DEPTH} levels"
            yield StructureProblem("bad_field", text, node.id, ("args",), position=position)
        elif has_braces:
            braces.add(position)
            yield from (p._replace(position=position) for p in _literal_braces(node))
    yield from _dependency_problems(nodes, first, braces)
    yield from _key_conflicts(nodes)
    needs = {
        nodes[i].id: [d for d in nodes[i].depends_on if d != nodes[i].id] for i in first.values()
    }
    for loop in cycles(needs):
        text = f"nodes wait for each other: {' -> '.join(_shortened(loop))}"
        place = first.get(loop[0])
        yield StructureProblem("cycle", text, loop[0], ("depends_on",), position=place)


def _shortened(loop: list[str]) -> list[str]:
    """Leave out the middle of a cycle that is too long to be read."""
    if len(loop) <= _MAX_LOOP:
        return loop
    half = _MAX_LOOP // 2
    return [*loop[:half], f"... {len(loop) - 2 * half} more ...", *loop[-half:]]


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
            elif need not in first and not holds(need, "params"):
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
    if source and source not in declared and source == node.id:
        yield _reads_itself(node, f"{{artifacts.{source}}}", ("for_each", "source"))
    elif source and source not in declared:
        text = f"for_each reads {source!r}, which depends_on does not name"
        where = ("for_each", "source")
        yield StructureProblem("for_each_not_dependency", text, node.id, where, fix=advice(source))
    told: set[str] = set()
    for path, piece in references(args, alias_of(node)):
        name = piece.name
        if piece.family in _NOT_IN_KEYS and name not in declared and name not in told:
            told.add(name)
            if name == node.id:
                yield _reads_itself(node, piece.text, ("args", *path))
                continue
            text = f"{piece.text} is read, and depends_on does not name {name!r}"
            yield StructureProblem(
                "undeclared_reference", text, node.id, ("args", *path), fix=advice(name)
            )


def _reads_itself(node: PlanNode, text: str, where: tuple[str | int, ...]) -> StructureProblem:
    message = f"{text} is the node's own result: a node cannot read itself"
    return StructureProblem("self_dependency", message, node.id, where, fix="read another node")


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
