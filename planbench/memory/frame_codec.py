"""Frames, Series, indexes and scalars of pandas, written so that each cell comes back.

The labels, the types and the form of the index stand in the JSON; the cells stand in a
table beside it, whose columns have names of its own. Small frames have no table: their
cells stand in the JSON too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from planbench.memory.column_codec import Columns, ColumnWriter, write_index
from planbench.memory.json_codec import unknown
from planbench.memory.refusals import Refused, label
from planbench.memory.zones import write_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.memory.json_codec import TreeWriter

# A table costs about as much as this many cells of JSON.
INLINE_CELLS: Final = 400
_FRAME_LEVELS: Final = 4


def write_pandas(writer: TreeWriter, value: Any, depth: int) -> Any:
    """Give a value of pandas as a tree; raises Refused for what would come back different."""
    if value is pd.NaT or value is pd.NA:
        return {"$nat" if value is pd.NaT else "$na": None}
    if isinstance(value, pd.Index):
        columns = _columns(len(value), value.nlevels)
        written = write_index(writer, value, columns, depth + _FRAME_LEVELS)
        return {"$index": _with_table(writer, {"index": written}, columns)}
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(writer, value, depth)
    array = isinstance(value, pd.api.extensions.ExtensionArray)
    if array and type(value) is not pd.arrays.NumpyExtensionArray:
        writer.doubtful = True
        columns = _columns(len(value), 1)
        cells = ColumnWriter(writer, columns, depth + _FRAME_LEVELS).write(value)
        return {"$cells": _with_table(writer, {"cells": cells}, columns)}
    raise unknown(value)


def _frame(writer: TreeWriter, value: Any, depth: int) -> Any:
    depth += _FRAME_LEVELS
    before = writer.enter(value, value.size)
    count = len(value.columns)
    columns = _columns(len(value), count + value.index.nlevels)
    cells = ColumnWriter(writer, columns, depth)
    arrays = []
    for number in range(count):
        try:
            arrays.append(cells.write(value.iloc[:, number].array))
        except Refused as refused:
            raise refused.inside(f"column {label(value.columns[number])}") from None
    written = {
        "columns": _labels(writer, value.columns, None, depth, "labels of the columns"),
        "index": _labels(writer, value.index, columns, depth, "index"),
        "arrays": arrays,
        **_extras(writer, value, depth),
    }
    writer.leave(value, before)
    return {"$frame": _with_table(writer, written, columns)}


def _series(writer: TreeWriter, value: Any, depth: int) -> Any:
    depth += _FRAME_LEVELS
    before = writer.enter(value, value.size)
    columns = _columns(len(value), 1 + value.index.nlevels)
    try:
        name = writer.write(value.name, depth)
    except Refused as refused:
        raise refused.inside("name") from None
    written = {
        "name": name,
        "cells": ColumnWriter(writer, columns, depth).write(value.array),
        "index": _labels(writer, value.index, columns, depth, "index"),
        **_extras(writer, value, depth),
    }
    writer.leave(value, before)
    return {"$series": _with_table(writer, written, columns)}


def _labels(writer: TreeWriter, index: Any, columns: Columns | None, depth: int, place: str) -> Any:
    try:
        return write_index(writer, index, columns, depth)
    except Refused as refused:
        raise refused.inside(place) from None


def _extras(writer: TreeWriter, value: Any, depth: int) -> dict[str, Any]:
    """Write what a frame carries beside its cells."""
    extras: dict[str, Any] = {}
    if value.attrs:
        try:
            extras["attrs"] = writer.write(value.attrs, depth)
        except Refused as refused:
            raise refused.inside("attrs") from None
    if not value.flags.allows_duplicate_labels:
        extras["unique"] = True
    return extras


def _columns(rows: int, count: int) -> Columns | None:
    return Columns(rows) if rows * count > INLINE_CELLS else None


def _with_table(
    writer: TreeWriter, written: dict[str, Any], columns: Columns | None
) -> dict[str, Any]:
    if columns is None or not columns.arrays:
        return written
    table = columns.table()
    number = writer.add("table", table)
    return {
        **written,
        "table": [number, table.num_rows, table.num_columns, table.nbytes],
    }


def _timestamp(writer: TreeWriter, value: Any, depth: int) -> Any:
    del depth
    writer.doubtful |= value.fold == 1 or value.tz is not None
    count = int(value.asm8.view("i8"))
    return {"$timestamp": [count, value.unit, value.fold, write_zone(value.tz)]}


def _duration(writer: TreeWriter, value: Any, depth: int) -> Any:
    del writer, depth
    return {"$duration": [int(value.asm8.view("i8")), value.unit]}


def _period(writer: TreeWriter, value: Any, depth: int) -> Any:
    del depth
    writer.doubtful = True
    return {"$period": [value.ordinal, value.freqstr]}


def _interval(writer: TreeWriter, value: Any, depth: int) -> Any:
    writer.doubtful = True
    sides = writer.items((value.left, value.right), depth + 2)
    return {"$interval": [*sides, value.closed]}


_WRITERS: Final[dict[type, Callable[[TreeWriter, Any, int], Any]]] = {
    pd.DataFrame: _frame,
    pd.Series: _series,
    pd.Timestamp: _timestamp,
    pd.Timedelta: _duration,
    pd.Period: _period,
    pd.Interval: _interval,
}
