"""A diff in words: what every form of it says, and the lines for a terminal."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.records import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planbench.plan.diff import DiffEdge, PlanDiff
    from planbench.plan.model import PlanNode
    from planbench.plan.records import FieldChange

_LONG: Final = 100
_BEFORE: Final = 20


def text(diff: PlanDiff) -> str:
    """Write a diff as lines; no character in them steers a terminal."""
    return "\n".join([f"{title(diff)}: {summary(diff)}", *_lines(diff)])


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


def loose_edges(edges: Sequence[DiffEdge], diff: PlanDiff) -> list[DiffEdge]:
    """Leave out the arrows of nodes that came or went, which go without saying."""
    ends = {one.node.id for one in diff.added} | {one.node.id for one in diff.removed}
    return [edge for edge in edges if ends.isdisjoint((edge.source, edge.target))]


def called(node: PlanNode) -> str:
    """Say what a node calls."""
    if node.type == "delegate":
        return "a delegate"
    return f"{'calls' if node.for_each is None else 'calls for each item'} {printable(node.tool or '')}"


def place(after: str | None) -> str:
    """Say where a node stands."""
    return "first" if after is None else f"after {after}"


def pair(change: FieldChange) -> tuple[str, str]:
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


def _lines(diff: PlanDiff) -> Iterator[str]:
    for change in diff.fields:
        yield f"  ~ {_said(change)}"
    for new in diff.added:
        yield f"  + node {new.node.id}, {place(new.after)}: {called(new.node)}"
    for gone in diff.removed:
        yield f"  - node {gone.node.id}: {called(gone.node)}"
    for one in diff.renamed:
        yield f"  > node {one.old} is now {one.new}"
    for node in diff.changed:
        yield f"  ~ node {node.id}"
        for change in node.changes:
            yield f"      {_said(change)}"
    for moved in diff.moved:
        yield f"  = node {moved.id} stands {place(moved.after)} now"
    for edge in loose_edges(diff.edges_added, diff):
        yield f"  + edge {edge.source} -> {edge.target}"
    for edge in loose_edges(diff.edges_removed, diff):
        yield f"  - edge {edge.source} -> {edge.target}"


def _said(change: FieldChange) -> str:
    old, new = pair(change)
    where = path_text(change.path)
    if change.kind == "added":
        return f"{where}: added {new}"
    return f"{where}: removed {old}" if change.kind == "removed" else f"{where}: {old} -> {new}"


def _cut(written: str, start: int) -> str:
    end = start + _LONG
    return f"{'...' if start else ''}{written[start:end]}{'...' if len(written) > end else ''}"


def _type_text(value: Any) -> str:
    return f"<{type(value).__name__}>"
