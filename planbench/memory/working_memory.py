"""The working memory: what tools gave, by key, with versions and what is known of each."""

from __future__ import annotations

import difflib
from time import time
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ArtifactNotFound, ConfigurationError
from planbench.memory.catalog import catalog_frame, catalog_html
from planbench.memory.entries import ENTRY_TYPES, Entry, items_info
from planbench.memory.frames import to_frame
from planbench.memory.nodes import Items
from planbench.memory.selection import family, is_pattern, matches, text_of, words
from planbench.memory.shelf import Shelf
from planbench.memory.sizes import format_bytes
from planbench.memory.tables import concat_entries, read_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd

    from planbench.memory.entries import EntryInfo, EntryType

_REQUIRED: Final = object()
_SHOWN_NEAR: Final = 5
_COMPARED: Final = 2_000


class WorkingMemory(Shelf):
    """Keeps values by key; each put is a new version, and former ones stay readable.

    A node id works wherever a key does: it means what the node stored last, and for a
    fan-out all of its items in item order, those of the run that began it last. A key
    of that name goes first.

    Values are immutable by contract. Frames are kept and handed out as copy-on-write
    views, so what a reader writes into one never reaches the memory. Up to
    ``keep_versions`` versions of a key are kept, the current one included, and all of
    them count in ``nbytes``.

    Over ``max_bytes`` the values that were used longest ago, superseded versions first,
    go to files in a folder of this process under ``spill_dir`` (the system's folder for
    temporary files unless given), and come back equal and of the same type when they
    are read. A value that somebody holds stays in memory, and so does one that could
    not come back as it is; ``usage()`` names those. The folder is gone with the memory.

    Puts and drops belong to one thread, that of the event loop. Reads may come from
    any: each looks at a snapshot of the keys, and a value read stays whole.
    """

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
        raise self.not_found(key)

    def version(self, artifact_id: str, version: int) -> Any:
        """Give one version of an artifact; raises ArtifactNotFound for one that is not kept."""
        entry = self.entry(artifact_id, version)
        if entry is None:
            raise ArtifactNotFound(
                f"{artifact_id}@{version}",
                hint=f"the last {self.keep_versions} versions of a key are kept, until it is dropped",
            )
        return entry.view()

    def drop(self, key: str) -> None:
        """Forget a key with all its versions, or all items of a node."""
        found = self._find(key)
        if found is None:
            raise self.not_found(key)
        if isinstance(found, Entry):
            self._forget(found)
        else:
            while found:
                self._forget(found.pop())
            self._nodes.pop(key, None)
        del found  # the last to hold the value, whose file goes with it
        self.tidy()

    def keys(self, pattern: str = "*") -> list[str]:
        """Give the keys that match ``*``, ``?`` and ``[a-z]``, in the order of their first put.

        A node id gives the keys of its items, in item order.
        """
        if not is_pattern(pattern):
            return [entry.key for entry in self.entries(pattern)]
        return [key for key in list(self._current) if matches(key, pattern)]

    def entries(self, pattern: str = "*") -> list[Entry]:
        """Give the current entries of a key, a node or a pattern, each fan-out in item order.

        A pattern shows of each node only what one run stored, the one that the node id
        means, and nothing of a fan-out that lost a key to another node: rows of two runs
        never mix.
        """
        if not is_pattern(pattern):
            found = self._find(pattern)
            if found is None:
                return []
            return [found] if isinstance(found, Entry) else found
        held = list(self._current.values())
        seen: dict[str, Any] = {}
        matching = (self._nodes.shown(one, seen) for one in held if matches(one.key, pattern))
        matched = [entry for entry in matching if entry is not None]
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
            raise self.not_found(key)
        if isinstance(found, Entry):
            return found.info()
        items = self._nodes.get(key)
        return items_info(key, found, items.started if isinstance(items, Items) else time())

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
            raise self.not_found(key)
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
            raise self.not_found(pattern)
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
        if entry is not None and (members is None or not self._nodes.is_left(entry)):
            return entry
        if members is None:
            return None
        if not isinstance(members, Items):
            return self._current.get(members)
        return sorted(list(members.values()), key=lambda entry: entry.index or 0)  # noqa: C414 - a snapshot first: sorting calls back

    def not_found(self, name: str) -> ArtifactNotFound:
        """Make the error for a key that is not there; it names near keys and node ids."""
        names = self._ipython_key_completions_()
        if not names:
            return ArtifactNotFound(name, hint="the working memory is empty")
        wanted = str(name).casefold()
        parts = [known for known in names if wanted in known.casefold()]
        close = difflib.get_close_matches(str(name), names[:_COMPARED], _SHOWN_NEAR)
        near = list(dict.fromkeys([*close, *parts]))[:_SHOWN_NEAR]
        return ArtifactNotFound(name, near, hint=None if near else "memory.keys() gives all keys")
