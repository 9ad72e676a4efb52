"""The edges of a node whose ``depends_on`` is left out: what its own fields read.

A reference file that leaves ``depends_on`` out and reads a node is an error there, and
is read here as if the edge were written; one that writes it, ``[]`` included, is held
to what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.fields import FieldProblem
from planbench.plan.model import SOURCE
from planbench.plan.placeholders import MAX_DEPTH, references
from planbench.plan.short_guards import reads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planbench.plan.source import Route
    from planbench.plan.structure import Suggestions

_NODES: Final = frozenset({"artifacts", "nodes"})


class Inferred(NamedTuple):
    """What a node waits for, and the references that lead to no other node."""

    needs: list[str]
    problems: list[FieldProblem]


class _Read(NamedTuple):
    name: str
    path: Route
    text: str


def infer(record: Mapping[str, Any], ids: Suggestions) -> Inferred:
    """Find what a node's record, in the long form, reads: fan-out, arguments, instruction, guard.

    A guard that reads what is not there is told when guards are checked.
    """
    own = record.get("id")
    needs: dict[str, None] = {}
    problems: dict[str, FieldProblem] = {}
    for read in _reads(record):
        if read.name == own:
            message = f"{read.text} is the node's own result: a node cannot read itself"
            problem = FieldProblem("self_dependency", message, read.path, "read another node")
            problems.setdefault(read.name, problem)
        elif read.name in ids:
            needs[read.name] = None
        elif read.name not in problems:
            is_source = read.path[0] == "for_each"
            code = "for_each_not_dependency" if is_source else "undeclared_reference"
            message = f"{read.text} is read, and no node has the id {read.name!r}"
            problems[read.name] = FieldProblem(code, message, read.path, ids.near(read.name))
    when = record.get("when")
    if isinstance(when, str):
        needs |= dict.fromkeys(name for name in reads(when) if name in ids and name != own)
    return Inferred(list(needs), list(problems.values()))


def _reads(record: Mapping[str, Any]) -> Iterator[_Read]:
    each = record.get("for_each")
    alias = None
    if isinstance(each, dict):
        alias = str(each.get("as", "item"))
        source = SOURCE.fullmatch(str(each.get("source")).strip())
        if source is not None:
            yield _Read(source[1], ("for_each", "source"), source.group())
    for path, piece in references(record.get("args"), alias):
        if piece.family in _NODES and len(path) <= MAX_DEPTH:  # what is deeper is refused
            yield _Read(piece.name, ("args", *path), piece.text)
    for _, piece in references(record.get("instruction")):
        if piece.family in _NODES:
            yield _Read(piece.name, ("instruction",), piece.text)
