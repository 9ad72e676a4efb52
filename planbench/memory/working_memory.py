"""The working memory: what tools gave, by key, with versions and what is known of each."""

from __future__ import annotations

import difflib
import secrets
from copy import copy
from operator import itemgetter
from time import time
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ArtifactNotFound, ConfigurationError
from planbench.memory.catalog import catalog_frame, catalog_html
from planbench.memory.entries import ENTRY_TYPES, PLAIN, Entry, items_info, kept
from planbench.memory.frames import to_frame
from planbench.memory.selection import family, is_pattern, matches, text_of, words
from planbench.memory.sizes import format_bytes, measure
from planbench.memory.tables import concat_entries, read_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd

    from planbench.memory.entries import EntryInfo, EntryType

_REQUIRED: Final = object()
_SHOWN_NEAR: Final = 5
_COMPARED: Final = 2_000


class _Items(dict[str, int]):
    """The keys of a fan-out's items, each with its index."""

    __slots__ = ("started",)

    def __init__(self) -> None:
        super().__init__()
        self.started = time()


class WorkingMemory:
    """Keeps values by key; each put is a new version, and former ones stay readable.

    A node id works wherever a key does: it means what the node stored last, and for a
    fan-out all of its items in item order. A key of that name goes first.

    Values are immutable by contract. Frames are kept and handed out as copy-on-write
    views, so what a reader writes into one never reaches the memory. Up to
    ``keep_versions`` versions of a key are kept, the current one included, and all of
    them count in ``nbytes``.

    Puts and drops belong to one thread, that of the event loop. Reads may come from
    any: each looks at a snapshot of the keys, and a value read stays whole.
    """

    def __init__(self, *, keep_versions: int = 3) -> None:
        if keep_versions < 1:
            raise ConfigurationError(f"keep_versions must be 1 or more, not {keep_versions}")
        self.keep_versions = keep_versions
        self.memory_id = f"wm{secrets.token_hex(5)}"
        self._count = 0
        self._nbytes = 0
        self._current: dict[str, Entry] = {}
        self._former: dict[str, list[Entry]] = {}
        self._keys: dict[int, str] = {}
        self._nodes: dict[str, str | _Items] = {}
        self._callers: set[str] = set()

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
        not given, which takes time for a large value.
        """
        _require_text(key)
        if nbytes is None:
            nbytes = measure(value, None)
        entry = self.put_item(key, value, node, tool, index, nbytes)
        entry.description = description
        return entry

    def put_item(
        self,
        key: str,
        value: Any,
        node: str | None,
        tool: str | None,
        index: int | None,
        nbytes: int,
        digest: str | None = None,
        fingerprint: str | None = None,
    ) -> Entry:
        """Store a value as ``put`` does, with all said by place: the way for 10,000 in a row.

        ``digest`` and ``fingerprint`` are kept in the entry, so that an equal call of a
        later run can be recognised.
        """
        if type(value) not in PLAIN:
            value = kept(key, value)
        former = self._current.get(key)
        if former is None:
            self._count = number = self._count + 1
            self._keys[number] = key
            version = 1
        else:
            number = former.number
            version = former.version + 1
            self._supersede(former, node)
        entry = Entry(
            key,
            value,
            node,
            tool,
            index,
            nbytes,
            time(),
            version,
            self.memory_id,
            number,
            "",
            digest,
            fingerprint,
        )
        self._current[key] = entry
        self._nbytes += nbytes
        if index is not None and node is not None:
            group = self._nodes.get(node)
            if type(group) is not _Items:
                group = self._join_items(node)
            group[key] = index
        elif node is not None:
            self._nodes[node] = key
        return entry

    def start_items(self, node: str) -> None:
        """Begin a fan-out anew: from here on the node id means only the items put after this.

        Items of an earlier run stay readable under their keys. A fan-out over nothing
        reads as an empty list.
        """
        self._nodes[node] = _Items()

    def met(self, fingerprint: str) -> bool:
        """Whether a tool of this fingerprint has stored items here before; remembers that it does now."""
        known = fingerprint in self._callers
        self._callers.add(fingerprint)
        return known

    def peek(self, key: str) -> Entry | None:
        """Give the current entry of a key itself, or None; a node id is no key here."""
        return self._current.get(key)

    def reuse(self, entry: Entry, node: str, index: int) -> None:
        """Count the current entry of a key among the items of a node, without a new version."""
        if entry.node != node or entry.index != index:
            self._leave_node(entry)
            entry = copy(entry)
            entry.node, entry.index = node, index
            self._current[entry.key] = entry
        self._join_items(node)[entry.key] = index

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """Give the value under a key, or of a node; a fan-out gives the list of its items.

        Raises ArtifactNotFound, a KeyError, that names near keys; with a default, gives that.
        """
        found = self._find(key)
        if isinstance(found, Entry):
            return found.view()
        if found is not None:
            return [entry.view() for entry in found]
        if default is not _REQUIRED:
            return default
        raise self._not_found(key)

    def version(self, artifact_id: str, version: int) -> Any:
        """Give one version of an artifact; raises ArtifactNotFound for one that is not kept."""
        memory_id, _, number = artifact_id.rpartition("-")
        if memory_id == self.memory_id and number.isdecimal():
            key = self._keys.get(int(number), "")
            for entry in (self._current.get(key), *self._former.get(key, ())):
                if entry is not None and entry.version == version:
                    return entry.view()
        raise ArtifactNotFound(
            f"{artifact_id}@{version}",
            hint=f"the last {self.keep_versions} versions of a key are kept, until it is dropped",
        )

    def drop(self, key: str) -> None:
        """Forget a key with all its versions, or all items of a node."""
        found = self._find(key)
        if found is None:
            raise self._not_found(key)
        if isinstance(found, Entry):
            self._forget(found)
            return
        for entry in found:
            self._forget(entry)
        self._nodes.pop(key, None)

    def prune(self) -> None:
        """Forget the superseded versions of every key."""
        for entries in self._former.values():
            self._nbytes -= sum(entry.nbytes for entry in entries)
        self._former.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._current.clear()
        self._former.clear()
        self._keys.clear()
        self._nodes.clear()
        self._nbytes = 0

    def keys(self, pattern: str = "*") -> list[str]:
        """Give the keys that match ``*``, ``?`` and ``[a-z]``, in the order of their first put.

        A node id gives the keys of its items, in item order.
        """
        if not is_pattern(pattern):
            return [entry.key for entry in self.entries(pattern)]
        return [key for key in list(self._current) if matches(key, pattern)]

    def entries(self, pattern: str = "*") -> list[Entry]:
        """Give the current entries of a key, a node or a pattern, each fan-out in item order.

        A pattern leaves out what a node stored in an earlier run and not in its latest:
        rows of two runs never mix.
        """
        if not is_pattern(pattern):
            found = self._find(pattern)
            if found is None:
                return []
            return [found] if isinstance(found, Entry) else found
        held = list(self._current.values())
        matched = [e for e in held if matches(e.key, pattern) and not self._is_left(e)]
        places: dict[str, int] = {}
        for entry in matched:
            places.setdefault(family(entry), len(places))
        return sorted(matched, key=lambda entry: (places[family(entry)], entry.index or 0))

    def search(self, text: str, entry_type: EntryType | None = None) -> list[EntryInfo]:
        """Find entries whose key, node, tool or description holds a text, in any case."""
        if entry_type is not None and entry_type not in ENTRY_TYPES:
            raise ConfigurationError(
                f"there is no entry type {entry_type!r}",
                hint=f"write one of {', '.join(ENTRY_TYPES)}",
            )
        wanted = text_of(text).casefold()
        return [
            entry.info()
            for entry in list(self._current.values())
            if entry_type in (None, entry.entry_type)
            and any(wanted in (said or "").casefold() for said in words(entry))
        ]

    def info(self, key: str) -> EntryInfo:
        """Give what is known about a key; for a fan-out, about the list of its items."""
        found = self._find(key)
        if found is None:
            raise self._not_found(key)
        if isinstance(found, Entry):
            return found.info()
        items = self._nodes.get(key)
        return items_info(key, found, items.started if isinstance(items, _Items) else time())

    @property
    def nbytes(self) -> int:
        """The bytes of all versions that are kept, each as measured when it was put."""
        return self._nbytes

    def catalog(self) -> pd.DataFrame:
        """Give a table of all keys, a row each, in the order of their first put."""
        return catalog_frame(list(self._current.values()))

    def df(self, key: str, select: str | None = None) -> pd.DataFrame:
        """Give the value of a key or node as a DataFrame, or the part that a path selects.

        A fan-out gives ``concat`` of its items. ``planbench.memory.frames`` says how a
        value that is no frame becomes one.
        """
        found = self._find(key)
        if found is None:
            raise self._not_found(key)
        if not isinstance(found, Entry):
            return self.concat(key, select)
        return to_frame(read_entry(found, select))

    def concat(
        self,
        pattern: str,
        select: str | None = None,
        label: str | None = "key",
        item: str | Iterable[str] | Mapping[str, str] = (),
    ) -> pd.DataFrame:
        """Give the items of a node, or all keys of a pattern, as one DataFrame in item order.

        ``select`` is a path to the part wanted, such as ``findings[]``. The column
        ``label`` holds each row's key. ``item`` adds columns with what paths give in
        each item: ``("report_id",)``, or ``{"report": "report_id"}`` to name them.
        Raises FrameError when a name is a column of the items already, and PathError
        naming the key where a path does not fit.
        """
        entries = self.entries(pattern)
        if not entries and pattern not in self:
            raise self._not_found(pattern)
        return concat_entries(entries, select, label, item)

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._current or key in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._current))

    def __len__(self) -> int:
        return len(self._current)

    def __bool__(self) -> bool:
        # An empty memory that is handed over is still the one to use.
        return True

    def __repr__(self) -> str:
        count = len(self)
        return f"<WorkingMemory: {count} {'key' if count == 1 else 'keys'}, {format_bytes(self._nbytes)}>"

    def _repr_html_(self) -> str:
        return catalog_html(repr(self)[1:-1], list(self._current.values()))

    def _ipython_key_completions_(self) -> list[str]:
        return list(dict.fromkeys([*self._current, *self._nodes]))

    def _find(self, name: str) -> Entry | list[Entry] | None:
        entry = self._current.get(name)
        members = self._nodes.get(name)
        if entry is not None and (members is None or not self._is_left(entry)):
            return entry
        if members is None:
            return None
        if not isinstance(members, _Items):
            return self._current.get(members)
        ordered = sorted(members.items(), key=itemgetter(1))
        found = (self._current.get(key) for key, _ in ordered)
        return [entry for entry in found if entry is not None]

    def _is_left(self, entry: Entry) -> bool:
        """Whether the entry's node has stored something else since, in a later run."""
        members = None if entry.node is None else self._nodes.get(entry.node)
        if isinstance(members, _Items):
            return entry.key not in members
        return members is not None and members != entry.key

    def _join_items(self, node: str) -> _Items:
        items = self._nodes.get(node)
        if isinstance(items, _Items):
            return items
        self._nodes[node] = made = _Items()
        return made

    def _supersede(self, entry: Entry, node: str | None) -> None:
        if entry.node != node:
            self._leave_node(entry)
        kept = self._former.setdefault(entry.key, [])
        kept.append(entry)
        if len(kept) >= self.keep_versions:
            self._nbytes -= kept.pop(0).nbytes

    def _forget(self, entry: Entry) -> None:
        self._leave_node(entry)
        del self._current[entry.key]
        del self._keys[entry.number]
        former = self._former.pop(entry.key, ())
        self._nbytes -= entry.nbytes + sum(old.nbytes for old in former)

    def _leave_node(self, entry: Entry) -> None:
        if entry.node is None:
            return
        members = self._nodes.get(entry.node)
        if isinstance(members, _Items):
            if members.pop(entry.key, None) is None or members:
                return
        elif members != entry.key:
            return
        self._nodes.pop(entry.node, None)

    def _not_found(self, name: str) -> ArtifactNotFound:
        names = self._ipython_key_completions_()
        if not names:
            return ArtifactNotFound(name, hint="the working memory is empty")
        wanted = str(name).casefold()
        parts = [known for known in names if wanted in known.casefold()]
        close = difflib.get_close_matches(str(name), names[:_COMPARED], _SHOWN_NEAR)
        near = list(dict.fromkeys([*close, *parts]))[:_SHOWN_NEAR]
        return ArtifactNotFound(name, near, hint=None if near else "memory.keys() gives all keys")


def _require_text(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a key is text, not {type(key).__name__}")
