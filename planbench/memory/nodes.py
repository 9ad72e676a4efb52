"""What a node id means in a working memory: the key that it stored last, or its items."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planbench.memory.entries import Entry


class Items(dict[str, "Entry"]):
    """The items of one fan-out of one run, by key.

    A fan-out that runs again, or in two runs at once, has one of these for each time.
    ``taken`` says that another node has stored under one of the keys since: what is
    left is then no longer shown by a pattern.
    """

    __slots__ = ("started", "taken")

    def __init__(self) -> None:
        super().__init__()
        self.started = time()
        self.taken = False


class Nodes(dict[str, "str | Items"]):
    """By node id the key that a plain node stored last, or the items of the fan-out begun last."""

    __slots__ = ()

    def items_of(self, node: str) -> Items:
        """Give the items that a node means now; one that means none begins with an empty lot."""
        items = self.get(node)
        if isinstance(items, Items):
            return items
        self[node] = made = Items()
        return made

    def holds(self, entry: Entry) -> bool:
        """Whether this very version is among the items that its node means."""
        items = None if entry.node is None else self.get(entry.node)
        return isinstance(items, Items) and items.get(entry.key) is entry

    def is_left(self, entry: Entry) -> bool:
        """Whether the entry's node means something else now, of a later run or of one beside it."""
        members = None if entry.node is None else self.get(entry.node)
        if isinstance(members, Items):
            return members.get(entry.key) is not entry
        return members is not None and members != entry.key

    def shown(self, entry: Entry, seen: dict[str, str | dict[str, Entry] | None]) -> Entry | None:
        """Give what a pattern shows of a key whose current version is ``entry``, if anything.

        Of a fan-out that is the version of the run that the node means. Nothing is shown
        of an item of any other run, nor of items of which another node took some.
        ``seen`` is one map for one look: a node that begins anew meanwhile changes nothing.
        """
        node = entry.node
        if node is None:
            return entry
        if node not in seen:
            members = self.get(node)
            if isinstance(members, Items):
                seen[node] = {} if members.taken else dict(members)
            else:
                seen[node] = members
        found = seen[node]
        if isinstance(found, dict):
            return found.get(entry.key)
        return entry if found is None or found == entry.key else None

    def leave(self, entry: Entry, *, taken: bool = False) -> None:
        """Let a key belong to the entry's node no longer; a node whose last key is dropped is gone.

        ``taken`` says that another node has the key now.
        """
        if entry.node is None:
            return
        members = self.get(entry.node)
        if isinstance(members, Items):
            if members.pop(entry.key, None) is None:
                return
            members.taken = members.taken or taken
            if members or taken:
                return
        elif members != entry.key:
            return
        self.pop(entry.node, None)
