"""A diff in words: what every form of it says, and the lines for a terminal."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.records import path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planbench.plan.diff import DiffEdge, PlanDiff
    from planbench.plan.model import PlanNode
    from planbench.plan.records import FieldChange

_LONG: Final = 100
_BEFORE: Final = 20


class Phrases(NamedTuple):
    """The lines of one form of a diff; ``quote`` writes what users wrote.

    ``after`` is where a node stands, ``place`` the same as one quoted piece.
    """

    quote: Callable[[str], str]
    after: str
    plan: str
    added: str
    removed: str
    renamed: str
    changed: str
    field: str
    moved: str
    edge_added: str
    edge_removed: str
    value_added: str
    value_removed: str
    value_changed: str


_WORDS: Final = Phrases(
    quote=str,
    after="after {id}",
    plan="  ~ {said}",
    added="  + node {id}, {after}: {called}",
    removed="  - node {id}: {called}",
    renamed="  > node {old} is now {new}",
    changed="  ~ node {id}",
    field="      {said}",
    moved="  = node {id} stands {place} now",
    edge_added="  + edge {source} -> {target}",
    edge_removed="  - edge {source} -> {target}",
    value_added="{where}: added {new}",
    value_removed="{where}: removed {old}",
    value_changed="{where}: {old} -> {new}",
)


def text(diff: PlanDiff) -> str:
    """Write a diff as lines; no character in them steers a terminal."""
    return "\n".join([f"{title(diff)}: {summary(diff)}", *lines(diff, _WORDS)])


def lines(diff: PlanDiff, say: Phrases) -> Iterator[str]:
    """Tell every change, a line each, in the words of one form."""
    quote = say.quote
    for change in diff.fields:
        yield say.plan.format(said=_said(change, say))
    for new in diff.added:
        after = "first" if new.after is None else say.after.format(id=quote(new.after))
        called = quote(_called(new.node))
        yield say.added.format(id=quote(new.node.id), after=after, called=called)
    for gone in diff.removed:
        yield say.removed.format(id=quote(gone.node.id), called=quote(_called(gone.node)))
    for one in diff.renamed:
        yield say.renamed.format(old=quote(one.old), new=quote(one.new))
    for node in diff.changed:
        yield say.changed.format(id=quote(node.id))
        for change in node.changes:
            yield say.field.format(said=_said(change, say))
    for moved in diff.moved:
        place = "first" if moved.after is None else f"after {moved.after}"
        yield say.moved.format(id=quote(moved.id), place=quote(place))
    edges = ((say.edge_added, diff.edges_added), (say.edge_removed, diff.edges_removed))
    for phrase, found in edges:
        for edge in _loose(found, diff):
            yield phrase.format(source=quote(edge.source), target=quote(edge.target))


def title(diff: PlanDiff) -> str:
    """Name the plan, or both names of one that is called otherwise now."""
    names = dict.fromkeys([diff.old_name, diff.new_name])
    return " -> ".join(printable(name) for name in names)


def summary(diff: PlanDiff) -> str:
    """Count what is different, in one line."""
    counts = [
        (len(diff.added), "node", "added"),
        (len(diff.removed), "node", "removed"),
        (len(diff.renamed), "node", "renamed"),
        (len(diff.changed), "node", "changed"),
        (len(diff.moved), "node", "moved"),
        (len(diff.fields), "field of the plan", "changed"),
    ]
    said = [
        f"{count:,} {noun if count == 1 else noun.replace('node', 'nodes').replace('field', 'fields')} {what}"
        for count, noun, what in counts
        if count
    ]
    return ", ".join(said) or "no difference"


def _loose(edges: Sequence[DiffEdge], diff: PlanDiff) -> list[DiffEdge]:
    """Leave out the arrows of nodes that came or went, which go without saying."""
    ends = {one.node.id for one in diff.added} | {one.node.id for one in diff.removed}
    return [edge for edge in edges if ends.isdisjoint((edge.source, edge.target))]


def _called(node: PlanNode) -> str:
    """Say what a node calls."""
    if node.type == "delegate":
        return "a delegate"
    return f"{'calls' if node.for_each is None else 'calls for each item'} {printable(node.tool or '')}"


def _pair(change: FieldChange) -> tuple[str, str]:
    """Write the old and the new value; of long ones, the part where they begin to differ."""
    old, new = value_text(change.old), value_text(change.new)
    if change.kind != "changed":
        return _cut(old, 0), _cut(new, 0)
    if max(len(old), len(new)) <= _LONG:
        return old, new
    alike = itertools.takewhile(lambda signs: signs[0] == signs[1], zip(old, new, strict=False))
    start = max(0, sum(1 for _ in alike) - _BEFORE)
    return _cut(old, start), _cut(new, start)


def value_text(value: Any) -> str:
    """Write a value as JSON, on one line; of what JSON cannot hold, its type."""
    try:
        return printable(json.dumps(value, ensure_ascii=False, default=_type_text))
    except (TypeError, ValueError):  # keys that are no text, or a number of too many digits
        return _type_text(value)


def printable(written: str) -> str:
    """Write out every character that is none to be seen."""
    if written.isprintable():
        return written
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode()
        for sign in written
    )


def _said(change: FieldChange, say: Phrases) -> str:
    phrases = {"added": say.value_added, "removed": say.value_removed}
    old, new = (say.quote(value) for value in _pair(change))
    where = say.quote(path_text(change.path))
    return phrases.get(change.kind, say.value_changed).format(where=where, old=old, new=new)


def _cut(written: str, start: int) -> str:
    end = start + _LONG
    return f"{'...' if start else ''}{written[start:end]}{'...' if len(written) > end else ''}"


def _type_text(value: Any) -> str:
    return f"<{type(value).__name__}>"
