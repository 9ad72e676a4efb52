"""Where the values of a working memory stand: by key with versions, by node, under a budget."""

from __future__ import annotations

import asyncio
import secrets
from copy import copy
from time import time
from typing import TYPE_CHECKING, Any

from planbench.errors import ArtifactConflict, ConfigurationError
from planbench.memory.entries import MAX_DIGITS, PLAIN, Entry, artifact_parts, kept
from planbench.memory.nodes import Items, Nodes
from planbench.memory.sizes import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from planbench.memory.budget import Budget, MemoryUsage


_new = Entry.__new__


class Shelf:
    """Stores values and finds them again; what is read of them is the working memory's matter.

    ``bounded`` says whether there is a budget, in which case a value may stand in a
    file: see ``Entry.spilled``.
    """

    def __init__(
        self,
        max_bytes: int | None = None,
        spill_dir: str | Path | None = None,
        *,
        keep_versions: int = 3,
    ) -> None:
        if keep_versions < 1:
            raise ConfigurationError(f"keep_versions must be 1 or more, not {keep_versions}")
        self.keep_versions = keep_versions
        self.memory_id = f"wm{secrets.token_hex(5)}"
        self._budget = _budget(max_bytes, spill_dir)
        self.bounded = self._budget is not None
        self._make: Callable[..., Entry] = Entry if self._budget is None else self._budget.entry
        self._count = 0
        self._nbytes = 0
        self._current: dict[str, Entry] = {}
        self._former: dict[str, list[Entry]] = {}
        self._keys: dict[int, str] = {}
        self._foreign: dict[str, str] = {}
        self._nodes = Nodes()
        self._callers: set[str] = set()

    # -- storing --------------------------------------------------------------------

    def put(
        self,
        key: str,
        value: Any,
        *,
        node: str | None = None,
        tool: str | None = None,
        index: int | None = None,
        description: str = "",
        nbytes: int | None = None,
    ) -> Entry:
        """Store a value under a key as its new current version.

        ``index`` is its place in the node's fan-out. ``nbytes`` is measured when it is
        not given, which takes time for a large value. With a budget, values are
        spilled here and now.
        """
        _require_text(key)
        if nbytes is None:
            nbytes = measure(value, None)
        entry = self.put_item(key, value, node, tool, index, nbytes)
        entry.description = description
        if self._budget is not None:
            del value  # what this frame holds would count as in use
            self._budget.make_room()
        return entry

    def put_item(  # noqa: PLR0913, PLR0917 - as in Entry
        self,
        key: str,
        value: Any,
        node: str | None,
        tool: str | None,
        index: int | None,
        nbytes: int,
        digest: str | None = None,
        fingerprint: str | None = None,
        items: Items | None = None,
    ) -> Entry:
        """Store a value as ``put`` does, with all said by place: the way for 10,000 in a row.

        ``digest`` and ``fingerprint`` are kept in the entry, so that an equal call of a
        later run can be recognised. ``items`` is what ``start_items`` gave: an item
        belongs to the node only while that is what the node means.
        """
        if type(value) not in PLAIN:
            value = kept(key, value)
        former = self._current.get(key)
        if former is None:
            self._count = number = self._count + 1
            self._keys[number] = key
            version = 1
            memory_id = self.memory_id
        else:
            number = former.number
            version = former.version + 1
            memory_id = former.memory_id
            if self._budget is not None:
                self._budget.goes_first(former)
        if self._budget is None:  # what Entry() does, without the call: that is a third of its time
            entry = _new(Entry)
            entry.key = key
            entry.value = value
            entry.node = node
            entry.tool = tool
            entry.index = index
            entry.nbytes = nbytes
            entry.created = time()
            entry.version = version
            entry.memory_id = memory_id
            entry.number = number
            entry.description = ""
            entry.digest = digest
            entry.fingerprint = fingerprint
        else:
            entry = self._budget.entry(
                key,
                value,
                node,
                tool,
                index,
                nbytes,
                time(),
                version,
                memory_id,
                number,
                "",
                digest,
                fingerprint,
            )
        self._current[key] = entry
        self._nbytes += nbytes
        if node is not None:
            if index is None:
                self._nodes[node] = key
            elif items is not None:
                if not items and node not in self._nodes:  # all before were dropped
                    self._nodes[node] = items
                items[key] = entry
            else:
                self._nodes.items_of(node)[key] = entry
        if former is not None:
            self._supersede(former, node)
        return entry

    def start_items(self, node: str) -> Items:
        """Begin a fan-out anew: from here on the node id means only the items put after this.

        Items of an earlier run stay readable under their keys. A fan-out over nothing
        reads as an empty list. Who gives what is returned to ``put_item`` and ``reuse``
        keeps the items of two runs at once apart.
        """
        self._nodes[node] = made = Items()
        return made

    def met(self, fingerprint: str) -> bool:
        """Whether a tool of this fingerprint has stored items here before; remembers that it does now."""
        known = fingerprint in self._callers
        self._callers.add(fingerprint)
        return known

    def peek(self, key: str) -> Entry | None:
        """Give the current entry of a key itself, or None; a node id is no key here."""
        return self._current.get(key)

    def reuse(self, entry: Entry, node: str, index: int, items: Items | None = None) -> None:
        """Count a kept version of a key among the items of a node, without a new version."""
        if any(entry is one for one in self._versions(entry.key)):
            self._place(entry, node, index, items)

    def restore(  # noqa: PLR0913 - what is on record of a value, by name
        self,
        key: str,
        value: Any,
        *,
        artifact_id: str,
        version: int,
        node: str | None = None,
        tool: str | None = None,
        index: int | None = None,
        nbytes: int | None = None,
        created: float | None = None,
        digest: str | None = None,
        fingerprint: str | None = None,
        description: str = "",
        items: Items | None = None,
    ) -> Entry:
        """Put a value back under the artifact id and version that it had, here or in another process.

        The next put of the key gives ``version + 1`` of the same artifact. A key that holds
        exactly this version gives the entry that is there. Raises ArtifactConflict when the
        key holds anything else, or when the artifact stands under another key.
        """
        _require_text(key)
        memory_id, number = artifact_parts(artifact_id, version)
        entry = self._current.get(key)
        if entry is None:
            other = self._key_of(artifact_id)
            if other is not None:
                raise ArtifactConflict(
                    f"{artifact_id}@{version} belongs under {key!r}, and that artifact is {other!r} here",
                    hint="the record and this memory do not belong together: take a new memory",
                )
            if type(value) not in PLAIN:
                value = kept(key, value)
            if nbytes is None:
                nbytes = measure(value, None)
            entry = self._make(
                key,
                value,
                node,
                tool,
                index,
                nbytes,
                time() if created is None else created,
                version,
                memory_id,
                number,
                description,
                digest,
                fingerprint,
            )
            if memory_id == self.memory_id:
                self._count = max(self._count, number)
                self._keys[number] = key
            else:
                self._foreign[artifact_id] = key
            self._current[key] = entry
            self._nbytes += nbytes
        elif (entry.artifact_id, entry.version) != (artifact_id, version):
            raise ArtifactConflict(
                f"{key!r} holds {entry.artifact_id}@{entry.version}, and {artifact_id}@{version} is to be put back there",
                hint=f"take a new memory, or drop it first: memory.drop({key!r})",
            )
        return entry if node is None else self._place(entry, node, index, items)

    def _place(self, entry: Entry, node: str, index: int | None, items: Items | None) -> Entry:
        """Let a version be what a node stored; gives the entry that says so."""
        if entry.node != node:
            self._nodes.leave(entry, taken=True)
        if (entry.node, entry.index) != (node, index):
            moved = copy(entry)
            moved.node, moved.index = node, index
            self._replace(entry, moved)
            entry = moved
        if index is None:
            self._nodes[node] = entry.key
        else:
            (self._nodes.items_of(node) if items is None else items)[entry.key] = entry
        return entry

    def _replace(self, entry: Entry, moved: Entry) -> None:
        if self._current.get(entry.key) is entry:
            self._current[entry.key] = moved
            return
        former = self._former[entry.key]
        former[next(at for at, one in enumerate(former) if one is entry)] = moved

    # -- versions -------------------------------------------------------------------

    def entry(self, artifact_id: str, version: int) -> Entry | None:
        """Give the entry of one version of an artifact, or None for one that is not kept."""
        key = self._key_of(artifact_id)
        return None if key is None else self.entry_of(key, version)

    def entry_of(self, key: str, version: int) -> Entry | None:
        """Give the entry of one version of a key, or None for one that is not kept."""
        return next((one for one in self._versions(key) if one.version == version), None)

    def prune(self) -> None:
        """Forget the superseded versions of every key, but for those that a node id still means."""
        for key, entries in list(self._former.items()):
            left = [entry for entry in entries if self._nodes.holds(entry)]
            self._nbytes -= sum(one.nbytes for one in entries) - sum(one.nbytes for one in left)
            if left:
                self._former[key] = left
            else:
                del self._former[key]

    def clear(self) -> None:
        """Forget everything."""
        self._current.clear()
        self._former.clear()
        self._keys.clear()
        self._foreign.clear()
        self._nodes.clear()
        self._nbytes = 0
        self.tidy()

    @property
    def nbytes(self) -> int:
        """The bytes of all versions that are kept, each as measured when it was put."""
        return self._nbytes

    def _key_of(self, artifact_id: str) -> str | None:
        key = self._foreign.get(artifact_id)
        if key is not None:
            return key
        memory_id, _, number = artifact_id.rpartition("-")
        if memory_id != self.memory_id or not number.isdecimal() or len(number) > MAX_DIGITS:
            return None
        return self._keys.get(int(number))

    def _versions(self, key: str) -> Iterator[Entry]:
        current = self._current.get(key)
        if current is not None:
            yield current
        yield from tuple(self._former.get(key, ()))

    def _supersede(self, entry: Entry, node: str | None) -> None:
        if entry.node != node:
            self._nodes.leave(entry, taken=node is not None)
        former = self._former.setdefault(entry.key, [])
        former.append(entry)
        # An item that its node means stays, whatever a run beside it has put since.
        over = len(former) - self.keep_versions + 1
        while over > 0:
            old = next((one for one in former if not self._nodes.holds(one)), None)
            if old is None:
                return
            former.remove(old)
            self._nbytes -= old.nbytes
            over -= 1

    def _forget(self, entry: Entry) -> None:
        """Forget a key with all its versions; of a version that is not the current one only that."""
        self._nodes.leave(entry)
        if self._current.get(entry.key) is not entry:
            former = self._former.get(entry.key, [])
            if entry in former:
                former.remove(entry)
                self._nbytes -= entry.nbytes
            return
        del self._current[entry.key]
        if entry.memory_id == self.memory_id:
            del self._keys[entry.number]
        else:
            del self._foreign[entry.artifact_id]
        for old in (entry, *self._former.pop(entry.key, ())):
            self._nodes.leave(old)
            self._nbytes -= old.nbytes

    # -- the budget -----------------------------------------------------------------

    @property
    def resident_bytes(self) -> int:
        """The bytes of the values in memory; with a budget also of those that only a run still holds."""
        return self._nbytes if self._budget is None else self._budget.resident_bytes

    @property
    def spilled_bytes(self) -> int:
        """The bytes of the values that stand in files only, as measured when they were put."""
        return 0 if self._budget is None else self._budget.spilled_bytes

    @property
    def over(self) -> bool:
        """Whether values should be spilled: there is more in memory than the budget, and some may go."""
        return self._budget is not None and self._budget.over

    def spill(self) -> None:
        """Spill what was used longest ago until the budget is kept; any thread may do that.

        It encodes and writes files, so on an event loop ``make_room`` is the way.
        """
        if self._budget is not None:
            self._budget.spill()

    def tidy(self) -> None:
        """Remove the files of values that nobody can read any more."""
        if self._budget is not None:
            self._budget.tidy()

    async def make_room(self) -> None:
        """Spill as ``spill`` does, in a thread, and come back when that is done."""
        if self.over:
            await asyncio.to_thread(self.spill)

    def usage(self) -> MemoryUsage:
        """Say where the values are: bytes and counts, and what could not be spilled and why."""
        from planbench.memory.budget import usage_of  # noqa: PLC0415 - as in _budget

        entries = [one for key in list(self._current) for one in self._versions(key)]
        return usage_of(self._budget, self.resident_bytes, entries)


def _budget(max_bytes: int | None, spill_dir: str | Path | None) -> Budget | None:
    if max_bytes is None:
        if spill_dir is not None:
            raise ConfigurationError(
                "a spill_dir without max_bytes is never used",
                hint="say how much may stay in memory: WorkingMemory(max_bytes=2_000_000_000, spill_dir=...)",
            )
        return None
    from planbench.memory.budget import Budget  # noqa: PLC0415 - a memory without a budget needs no files

    return Budget(max_bytes, spill_dir)


def _require_text(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a key is text, not {type(key).__name__}")
