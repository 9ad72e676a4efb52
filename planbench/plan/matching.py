"""Which nodes of two plans are one node: under another id, or at another place."""

from __future__ import annotations

import bisect
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from planbench.plan.graph import order
from planbench.plan.records import key
from planbench.plan.rename import default_key, rename_in_guard, renamed_node

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from planbench.plan.model import PlanNode

_OWN_KEY = "\0own"  # no key of a user: they are printable


def find_renames(old: Sequence[PlanNode], new: Sequence[PlanNode]) -> dict[str, str]:
    """Give the new id for each old one whose node is there as it was, references followed.

    Nodes are looked at in the order in which they run, so that a renamed source is known
    before what reads it. Of several that are alike, the first is the first.
    """
    before, after = {node.id: node for node in old}, {node.id for node in new}
    wanted: dict[Hashable, deque[str]] = defaultdict(deque)
    for node in new:
        if node.id not in before:
            wanted[_content(node)].append(node.id)
    names: dict[str, str] = {}
    if not wanted:
        return names
    for name in order({node.id: node.depends_on for node in old}):
        if name not in after:
            found = wanted.get(_content(renamed_node(before[name], names)))
            if found:
                names[name] = found.popleft()
    return {name: names[name] for name in before if name in names}


def _content(node: PlanNode) -> Hashable:
    """Give all that a node says, but how it is called."""
    own = default_key(node.id, fan_out=node.for_each is not None)
    said: dict[str, Any] = {name: getattr(node, name) for name in type(node).model_fields}
    said["id"] = ""
    if node.store_as == own:
        said["store_as"] = _OWN_KEY
    if node.when is not None:
        said["when"] = rename_in_guard(node.when, {node.id: ""})
    return key(said)


def moved_nodes(old: Sequence[str], new: Sequence[str]) -> set[str]:
    """Give the fewest ids that, put elsewhere, turn one order into the other.

    Both must hold the same ids. What stays is the longest run that rises in both.
    """
    place = {name: i for i, name in enumerate(new)}
    tails: list[int] = []
    ends: list[str] = []
    previous: dict[str, str | None] = {}
    for name in old:
        at = bisect.bisect_left(tails, place[name])
        previous[name] = ends[at - 1] if at else None
        if at == len(tails):
            tails.append(place[name])
            ends.append(name)
        else:
            tails[at], ends[at] = place[name], name
    last = ends[-1] if ends else None
    staying = set()
    while last is not None:
        staying.add(last)
        last = previous[last]
    return set(old) - staying
