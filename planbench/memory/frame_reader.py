"""Frames, Series, indexes and scalars of pandas, made again from what was written of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from planbench.memory.column_codec import LONGEST_FREQ
from planbench.memory.column_reader import ColumnReader, read_index, read_table
from planbench.memory.zones import read_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.memory.json_reader import TreeReader

_UNITS: Final = frozenset({"s", "ms", "us", "ns"})


def read_pandas(reader: TreeReader, tag: str, held: Any, depth: int) -> Any:
    """Make what ``write_pandas`` wrote; raises anything where it did not."""
    return _READERS[tag](reader, held, depth)


def _frame(reader: TreeReader, held: Any, depth: int) -> Any:
    columns = read_table(reader, held.get("table"))
    cells = ColumnReader(reader, columns, depth)
    labels = read_index(reader, held["columns"], [], depth)
    index = read_index(reader, held["index"], columns, depth)
    arrays = [cells.read(array) for array in held["arrays"]]
    if any(len(array) != len(index) for array in arrays) or len(labels) != len(arrays):
        raise ValueError("the columns do not fit each other")
    if arrays:
        parts = {number: _one(array) for number, array in enumerate(arrays)}
        frame = pd.DataFrame(parts, copy=False)
        frame.index = index
    else:
        frame = pd.DataFrame(index=index)
    frame.columns = labels
    return _with_extras(reader, frame, held, depth)


def _series(reader: TreeReader, held: Any, depth: int) -> Any:
    columns = read_table(reader, held.get("table"))
    index = read_index(reader, held["index"], columns, depth)
    series = _one(ColumnReader(reader, columns, depth).read(held["cells"]))
    series.index = index
    series.name = reader.read(held["name"], depth)
    return _with_extras(reader, series, held, depth)


def _one(array: Any) -> Any:
    # Said to be objects, they stay what they are: text among them does not become a str column.
    return pd.Series(array, dtype=object if array.dtype == object else None, copy=False)


def _with_extras(reader: TreeReader, value: Any, held: Any, depth: int) -> Any:
    if "attrs" in held:
        value.attrs = reader.read(held["attrs"], depth)
    if held.get("unique"):
        value = value.set_flags(allows_duplicate_labels=False)
    return value


def _index(reader: TreeReader, held: Any, depth: int) -> Any:
    return read_index(reader, held["index"], read_table(reader, held.get("table")), depth)


def _cells(reader: TreeReader, held: Any, depth: int) -> Any:
    columns = read_table(reader, held.get("table"))
    array = ColumnReader(reader, columns, depth).read(held["cells"])
    return pd.array(array) if isinstance(array, np.ndarray) else array


def _timestamp(reader: TreeReader, held: Any, depth: int) -> Any:
    del reader, depth
    count, unit, fold, zone = held
    value = pd.Timestamp(np.datetime64(count, _unit(unit)))
    if zone is not None:
        value = value.tz_localize("UTC").tz_convert(read_zone(zone))
    return value if value.fold == fold else value.replace(fold=fold)


def _duration(reader: TreeReader, held: Any, depth: int) -> Any:
    del reader, depth
    count, unit = held
    return pd.Timedelta(np.timedelta64(count, _unit(unit)))


def _period(reader: TreeReader, held: Any, depth: int) -> Any:
    del reader, depth
    ordinal, freq = held
    if len(freq) > LONGEST_FREQ:
        raise ValueError("not a frequency")
    return pd.Period(ordinal=ordinal, freq=freq)


def _interval(reader: TreeReader, held: Any, depth: int) -> Any:
    left, right, closed = held
    return pd.Interval(reader.read(left, depth + 1), reader.read(right, depth + 1), closed)


def _unit(unit: str) -> Any:
    if unit not in _UNITS:
        raise ValueError("not a unit of time")
    return unit


_READERS: Final[dict[str, Callable[[TreeReader, Any, int], Any]]] = {
    "$frame": _frame,
    "$series": _series,
    "$index": _index,
    "$cells": _cells,
    "$nat": lambda *_: pd.NaT,
    "$na": lambda *_: pd.NA,
    "$timestamp": _timestamp,
    "$duration": _duration,
    "$period": _period,
    "$interval": _interval,
}
