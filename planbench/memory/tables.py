"""Entries as one table: each a part of the rows, with columns that say where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planbench.errors import FrameError, PathError
from planbench.memory.frames import stack
from planbench.plan.paths import compile_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from planbench.memory.entries import Entry


def concat_entries(
    entries: Sequence[Entry],
    select: str | None,
    label: str | None,
    item: str | Iterable[str] | Mapping[str, str],
) -> pd.DataFrame:
    """Set the values of entries under each other; raises FrameError and PathError as ``concat``."""
    paths = _columns(item)
    if label in paths:
        raise FrameError(f"the label {label!r} is the name of an item column too")
    names = [*([] if label is None else [label]), *paths]
    parts = []
    for entry in entries:
        head = {} if label is None else {label: entry.key}
        head.update((name, read_entry(entry, path)) for name, path in paths.items())
        parts.append((head, read_entry(entry, select)))
    return stack(parts, names)


def read_entry(entry: Entry, path: str | None) -> Any:
    """Give an entry's value, or what a path gives in it; raises PathError naming the key."""
    if path is None:
        return entry.value
    try:
        return compile_path(path).read(entry.value)
    except PathError as error:
        raise PathError(f"{entry.key!r}: {error.message}", hint=error.hint) from error


def _columns(item: str | Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(item, Mapping):
        return dict(item)
    return {path: path for path in ([item] if isinstance(item, str) else item)}
