"""The cells of one column or index: as Arrow columns of a table, or in the JSON itself.

=========================  =====================================================
numbers, times, booleans   their bits (a time as its count, so that NaT is a count too)
text                       as text, missing cells as null
nullable types             as they are, missing cells as null; NaN stays NaN
categories                 codes, and the categories beside them in the JSON
periods, zoned times       counts, with the frequency or zone beside them
objects                    tagged JSON, a text for each cell; text and None as text
intervals, Arrow types     their sides; themselves. Both are read again and compared
=========================  =====================================================

Sparse cells and types of other libraries are refused.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.tseries.frequencies import to_offset

from planbench.memory.array_codec import scalar_dtype
from planbench.memory.refusals import PLAIN_DATA, Refused
from planbench.memory.zones import write_zone
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.memory.json_codec import TreeWriter

MASKED: Final = (
    *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
    *("Float32", "Float64", "boolean"),
)
LONGEST_FREQ: Final = 60
LONGEST_RANGE: Final = 10_000_000
_TEXTS: Final = frozenset({str, type(None)})
_INDEXES: Final = frozenset(
    {
        pd.Index,
        pd.RangeIndex,
        pd.MultiIndex,
        pd.DatetimeIndex,
        pd.TimedeltaIndex,
        pd.PeriodIndex,
        pd.IntervalIndex,
        pd.CategoricalIndex,
    }
)


class Columns:
    """Arrow columns of one length, which become a table beside the JSON."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.arrays: list[Any] = []

    def add(self, array: Any) -> dict[str, Any]:
        """Take a column; gives how the tree refers to it."""
        self.arrays.append(array)
        return {"column": len(self.arrays) - 1}

    def table(self) -> Any:
        """Give the table, its columns named c0, c1 ...; labels may be anything, and are not here."""
        names = [f"c{number}" for number in range(len(self.arrays))]
        return pa.Table.from_arrays(self.arrays, names=names)


class ColumnWriter:
    """Writes arrays of pandas, as columns or, where ``columns`` is None, in the tree."""

    def __init__(self, writer: TreeWriter, columns: Columns | None, depth: int) -> None:
        self.writer = writer
        self.columns = columns
        self.depth = depth

    def write(self, array: Any) -> dict[str, Any]:
        """Give an array (of a Series or Index) as a tree; raises Refused."""
        try:
            return self._write(array)
        except (Refused, orjson.JSONEncodeError, RecursionError):
            raise
        except Exception as error:  # cells of other libraries raise whatever those do
            raise Refused(
                f"its cells cannot be written: {type(error).__name__}: {shown(str(error), 200)}"
            ) from error

    def _write(self, array: Any) -> dict[str, Any]:
        if (
            type(array) is pd.arrays.NumpyExtensionArray
        ):  # and not an array of text, which is one too
            array = array.to_numpy()
        dtype = array.dtype
        if isinstance(dtype, np.dtype):
            return self._numpy(np.asarray(array), dtype)
        write = _WRITERS.get(type(dtype))
        if write is None:
            raise Refused(
                f"cells of the type {dtype} ({type(dtype).__name__}) are not kept", _way_out(dtype)
            )
        return write(self, array, dtype)

    def numbers(self, values: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Write cells of a fixed size by their bits."""
        if self.columns is None:
            return {"raw": b64encode(np.ascontiguousarray(values).tobytes()).decode()}
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        if values.dtype.kind in "mM":
            values = values.view("i8")
        elif values.dtype.kind == "f" and values.dtype.itemsize == _HALF:
            values = np.ascontiguousarray(values).view("u2")
        return self.columns.add(pa.array(values))

    def texts(self, texts: Any) -> dict[str, Any]:
        """Write an Arrow array of text, which may have nulls."""
        if self.columns is None:
            return {"texts": texts.to_pylist()}
        return self.columns.add(texts)

    def cells(self, values: Any) -> dict[str, Any]:
        """Write cells of any type as tagged JSON."""
        # The JSON of a cell of a table stands alone; its levels are counted from there.
        depth = self.depth + 2 if self.columns is None else 0
        trees = []
        for row, cell in enumerate(values):
            try:
                trees.append(self.writer.write(cell, depth))
            except Refused as refused:
                raise refused.inside(f"row {row}") from None
        if self.columns is None:
            return {"cells": trees}
        return self.columns.add(pa.array([orjson.dumps(tree) for tree in trees], pa.large_binary()))

    def _numpy(self, values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
        if dtype.kind == "O":
            kinds = set(map(type, values))
            if kinds <= _TEXTS and len(values):
                texts = arrow_texts(values)
                if texts is not None:
                    return {"is": "object", **self.texts(texts)}
            return {"is": "object", "as": "json", **self.cells(values)}
        try:
            exact = scalar_dtype(dtype.str) == dtype and np.dtype(dtype.str).char == dtype.char
        except ValueError:
            exact = False
        if not exact:
            raise Refused(
                f"cells of the type {dtype} are not kept",
                "use astype('float64') or astype('int64')",
            )
        head = {"is": "numpy", "dtype": dtype.str}
        if dtype.kind == "c":
            return {**head, "real": self.numbers(values.real), "imag": self.numbers(values.imag)}
        return {**head, **self.numbers(values)}


def write_index(
    writer: TreeWriter, index: Any, columns: Columns | None, depth: int
) -> dict[str, Any]:
    """Give an index as a tree, its cells in the columns of a table where there is one."""
    kind = type(index)
    if kind not in _INDEXES:
        raise Refused(
            f"an index of the kind {kind.__module__}.{kind.__qualname__} is not kept", PLAIN_DATA
        )
    try:
        names = writer.items(list(index.names), depth + 2)
    except Refused as refused:
        raise refused.inside("names") from None
    if kind is pd.RangeIndex:
        return {"is": "range", "of": [index.start, index.stop, index.step], "names": names}
    cells = ColumnWriter(writer, columns, depth)
    if kind is pd.MultiIndex:
        levels = []
        for number, level in enumerate(index.levels):
            try:
                levels.append(_known(writer, level, depth + 2))
            except Refused as refused:
                raise refused.inside(f"level {number}") from None
        codes = [cells.write(np.asarray(codes)) for codes in index.codes]
        return {"is": "multi", "levels": levels, "codes": codes, "names": names}
    written = {"is": "index", "cells": cells.write(index.array), "names": names}
    freq = getattr(index, "freq", None)
    if freq is not None and kind is not pd.PeriodIndex:
        written["freq"] = _freq(freq)
    return written


def _known(writer: TreeWriter, index: Any, depth: int) -> dict[str, Any]:
    """Write the values that codes refer to."""
    if isinstance(index, pd.RangeIndex) and len(index) > LONGEST_RANGE:
        raise Refused(f"a range of {len(index)} values that codes refer to is not kept")
    return write_index(writer, index, None, depth)


def _freq(freq: Any) -> str:
    """Give the name of a frequency that makes an equal one."""
    text = str(freq.freqstr)
    try:
        again = to_offset(text)
    except ValueError:
        again = None
    if type(again) is not type(freq) or again != freq or len(text) > LONGEST_FREQ:
        raise Refused(
            f"the frequency {text} of the index cannot be made again by its name",
            "set index.freq = None before the frame is returned",
        )
    return text


def arrow_texts(cells: Any) -> Any:
    """Give an array of text and None as an Arrow array; None where a text is no UTF-8."""
    try:
        return pa.array(cells, pa.large_string())
    except (UnicodeEncodeError, pa.ArrowException):
        return None


def _has_extension(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return True
    held = [kind.field(number).type for number in range(kind.num_fields)]
    if pa.types.is_dictionary(kind):
        held += [kind.value_type]
    return any(map(_has_extension, held))


def _comes_back(kind: Any) -> bool:
    """Whether parquet is known to give cells of an Arrow type back as they were."""
    test = pa.types
    if test.is_timestamp(kind):
        return str(kind.unit) != "s"
    known = (
        test.is_integer,
        test.is_float32,
        test.is_float64,
        test.is_boolean,
        test.is_string,
        test.is_large_string,
        test.is_date32,
    )
    return any(is_known(kind) for is_known in known)


def _through_parquet(kind: Any) -> bool:
    """Whether parquet has a place for an Arrow type, and gives the same type back."""
    file = pa.BufferOutputStream()
    try:
        pq.write_table(pa.table({"c": pa.array([], kind)}), file, use_compliant_nested_type=False)
        back = pq.read_schema(pa.BufferReader(file.getvalue()))
    except pa.ArrowException:
        return False
    # Arrow calls lists equal whose items go by another name.
    return str(back.field("c").type) == str(kind)


def _way_out(dtype: Any) -> str:
    if isinstance(dtype, pd.SparseDtype):
        return "return frame.sparse.to_dense()"
    return "convert the column: astype(object), astype(str)"


def _string(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    missing = "na" if dtype.na_value is pd.NA else "nan"
    head = {"is": "string", "storage": dtype.storage, "missing": missing}
    if dtype.storage == "python":
        cells = array.to_numpy(dtype=object, na_value=None)
        if not set(map(type, cells)) <= _TEXTS:
            raise Refused("a cell of a column of text is of a type of its own", "use str(cell)")
        texts = arrow_texts(cells)
        if texts is None:
            return {**head, "as": "json", **to.cells(cells)}
    else:
        texts = pa.array(array).cast(pa.large_string())
    return {**head, **to.texts(texts)}


def _masked(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    return {"is": "masked", "dtype": dtype.name, **_arrow_cells(to, pa.array(array))}


def _categories(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    try:
        categories = _known(to.writer, dtype.categories, to.depth + 2)
    except Refused as refused:
        raise refused.inside("categories") from None
    codes = np.asarray(array.codes)
    return {
        "is": "categories",
        "ordered": bool(dtype.ordered),
        "categories": categories,
        "dtype": codes.dtype.str,
        **to.numbers(codes),
    }


def _zoned(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    head = {"is": "zoned", "unit": dtype.unit, "zone": write_zone(dtype.tz)}
    return {**head, **to.numbers(array.asi8)}


def _period(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    # The frequency has another name where it stands alone.
    text = dtype.name.removeprefix("period[").removesuffix("]")
    if pd.PeriodDtype(text) != dtype or type(pd.PeriodDtype(text).freq) is not type(dtype.freq):
        raise Refused(f"periods of the frequency {text} cannot be made again by its name")
    return {"is": "period", "freq": text, **to.numbers(array.asi8)}


def _interval(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    to.writer.doubtful = True
    left, right = (to.write(side.array) for side in (array.left, array.right))
    return {"is": "interval", "closed": dtype.closed, "left": left, "right": right}


def _arrow(to: ColumnWriter, array: Any, dtype: Any) -> dict[str, Any]:
    kind = dtype.pyarrow_dtype
    if _has_extension(kind):
        raise Refused(f"cells of the Arrow extension type {kind} are not kept", PLAIN_DATA)
    cells = pa.array(array)
    known = _comes_back(kind)
    to.writer.doubtful |= not known
    schema = pa.schema([("c", kind)]).serialize().to_pybytes()
    head = {"is": "arrow", "schema": b64encode(schema).decode()}
    if known or _through_parquet(kind):
        return {**head, **_arrow_cells(to, cells)}
    return {**head, "as": "json", **to.cells(cells.to_pylist())}


def _arrow_cells(to: ColumnWriter, array: Any) -> dict[str, Any]:
    if to.columns is None:
        return {"as": "json", **to.cells(array.to_pylist())}
    return to.columns.add(array)


_HALF: Final = 2
_WRITERS: Final[dict[type, Callable[[ColumnWriter, Any, Any], dict[str, Any]]]] = {
    pd.StringDtype: _string,
    pd.CategoricalDtype: _categories,
    pd.DatetimeTZDtype: _zoned,
    pd.PeriodDtype: _period,
    pd.IntervalDtype: _interval,
    pd.ArrowDtype: _arrow,
    **{type(pd.api.types.pandas_dtype(name)): _masked for name in MASKED},
}
