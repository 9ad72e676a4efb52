"""The cells of columns and indexes, made again from a table and from JSON.

What is read may be damaged or forged: a table is compared with what the JSON says of it
before its cells are made, and every other wrong thing raises in pandas or here.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from planbench.errors import ArtifactTooLarge
from planbench.memory.array_codec import objects, scalar_dtype
from planbench.memory.column_codec import LONGEST_FREQ, LONGEST_RANGE, MASKED
from planbench.memory.sizes import format_bytes
from planbench.memory.zones import read_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.memory.json_reader import TreeReader

_BATCH: Final = 65_536
_SLACK: Final = 1_000_000
_UNITS: Final = frozenset({"s", "ms", "us", "ns"})


def read_table(reader: TreeReader, held: Any) -> list[Any]:
    """Read the columns of a table, if there is one, under the limit of the reader."""
    if held is None:
        return []
    number, rows, count, nbytes = held
    data = reader.part(number, "table")
    if reader.max_bytes is not None and nbytes > reader.max_bytes:
        raise ArtifactTooLarge(
            f"the table is {format_bytes(nbytes)} large, above the limit of {format_bytes(reader.max_bytes)}"
        )
    # Parquet can say much in few bytes, so it is read in pieces and never above what was written.
    limit = 2 * nbytes + _SLACK
    batches = []
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        schema = file.schema_arrow
        held_bytes = sum(
            file.metadata.row_group(group).total_byte_size
            for group in range(file.metadata.num_row_groups)
        )
        if (
            file.metadata.num_rows != rows
            or schema.names != [f"c{number}" for number in range(count)]
            or held_bytes > limit
        ):
            raise ValueError("not the table that was written")
        size = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            size += batch.nbytes
            if size > limit:
                raise ValueError("a table that is larger than the one that was written")
            batches.append(batch)
    table = pa.Table.from_batches(batches, schema)
    if table.num_rows != rows:
        raise ValueError("not the rows that were written")
    table.validate(full=True)
    return list(table.columns)


class ColumnReader:
    """Makes arrays of pandas from the columns of a table and from trees."""

    def __init__(self, reader: TreeReader, columns: list[Any], depth: int) -> None:
        self.reader = reader
        self.columns = columns
        self.depth = depth

    def read(self, held: Any) -> Any:
        """Make what ``ColumnWriter.write`` wrote: an array of numpy or pandas."""
        return _READERS[held["is"]](self, held)

    def take(self, held: Any) -> Any:
        """Give a column of the table; each is given once, as it was written."""
        column = self.columns[held["column"]]
        self.columns[held["column"]] = None
        return column

    def numbers(self, held: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Make cells of a fixed size, in memory of their own."""
        if "raw" in held:
            return np.frombuffer(b64decode(held["raw"], validate=True), dtype).copy()
        column = self.take(held)
        values = column.to_numpy()
        stored = _stored(dtype)
        if column.null_count or values.dtype != stored:
            raise ValueError("not the type that was written")
        if not values.flags.writeable:
            values = values.copy()
        native = dtype.newbyteorder("=")
        cells: np.ndarray[Any, Any] = values.view(native).astype(dtype, copy=False)
        return cells

    def texts(self, held: Any) -> Any:
        """Make an Arrow array of text with nulls."""
        if "texts" in held:
            return pa.array(held["texts"], pa.large_string())
        column = self.take(held)
        if not pa.types.is_large_string(column.type):
            raise ValueError("not text")
        return column

    def cells(self, held: Any) -> list[Any]:
        """Make cells of any type from their JSON."""
        if "cells" in held:
            return self.reader.items(held["cells"], self.depth + 2)
        return [self.reader.read(orjson.loads(cell)) for cell in self.take(held).to_pylist()]

    def arrow(self, held: Any, kind: Any) -> Any:
        """Make an Arrow array of a type."""
        if held.get("as") == "json":
            return pa.array(self.cells(held), kind)
        column = self.take(held)
        if column.type != kind:
            raise ValueError("not the type that was written")
        return column


def read_index(reader: TreeReader, held: Any, columns: list[Any], depth: int) -> Any:
    """Make what ``write_index`` wrote."""
    names = reader.items(held["names"], depth + 2)
    kind = held["is"]
    if kind == "range":
        start, stop, step = held["of"]
        return pd.RangeIndex(start, stop, step, name=_only(names))
    cells = ColumnReader(reader, columns, depth)
    if kind == "multi":
        levels = [read_known(reader, level, depth + 2) for level in held["levels"]]
        codes = [cells.read(code) for code in held["codes"]]
        return pd.MultiIndex(levels, codes, names=names)
    if kind != "index":
        raise ValueError("not an index")
    array = cells.read(held["cells"])
    dtype = object if array.dtype == object else None
    index = pd.Index(array, dtype=dtype, name=_only(names), tupleize_cols=False)
    if "freq" in held:
        if len(held["freq"]) > LONGEST_FREQ:
            raise ValueError("not a frequency")
        index.freq = held["freq"]  # type: ignore[attr-defined]  # pandas refuses it where it does not fit
    return index


def read_known(reader: TreeReader, held: Any, depth: int) -> Any:
    """Make the values that codes refer to: an index that is laid out in memory at once."""
    index = read_index(reader, held, [], depth)
    if isinstance(index, pd.RangeIndex) and len(index) > LONGEST_RANGE:
        raise ValueError("a range that nobody wrote")
    return index


def _only(names: list[Any]) -> Any:
    (name,) = names
    return name


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give the type in which a table holds numbers of a type."""
    if dtype.kind in "mM":
        return np.dtype("i8")
    return np.dtype("u2") if dtype.str[1:] == "f2" else dtype.newbyteorder("=")


def _numpy(at: ColumnReader, held: Any) -> Any:
    dtype = scalar_dtype(held["dtype"])
    if dtype.kind != "c":
        return at.numbers(held, dtype)
    half = np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
    real, imag = at.numbers(held["real"], half), at.numbers(held["imag"], half)
    values = np.empty(len(real), dtype)
    values.real = real
    values.imag = imag
    return values


def _object(at: ColumnReader, held: Any) -> Any:
    if held.get("as") == "json":
        return objects(at.cells(held))
    return objects(at.texts(held).to_pylist())


def _string(at: ColumnReader, held: Any) -> Any:
    missing = {"na": pd.NA, "nan": np.nan}[held["missing"]]
    of: Any = pd.StringDtype
    # pandas 2.2 has the type of pandas 3 under a name of its own, and no na_value to give.
    named = missing is pd.NA or held["storage"] == "pyarrow_numpy"
    dtype = of(held["storage"]) if named else of(held["storage"], na_value=missing)
    if held.get("as") == "json":
        return pd.array(objects(at.cells(held)), dtype=dtype)
    return dtype.__from_arrow__(at.texts(held))


def _masked(at: ColumnReader, held: Any) -> Any:
    if held["dtype"] not in MASKED:
        raise ValueError("not a nullable type")
    dtype: Any = pd.api.types.pandas_dtype(held["dtype"])
    kind = pa.from_numpy_dtype(dtype.numpy_dtype)
    cells = at.arrow(held, kind)
    # What __from_arrow__ of the dtype makes of NaN is NA.
    missing = np.array(cells.is_null())
    filled = cells.fill_null(pa.scalar(0).cast(kind))
    return dtype.construct_array_type()(np.array(filled), missing)


def _categories(at: ColumnReader, held: Any) -> Any:
    categories = read_known(at.reader, held["categories"], at.depth + 2)
    codes = at.numbers(held, scalar_dtype(held["dtype"]))
    dtype = pd.CategoricalDtype(categories, ordered=bool(held["ordered"]))
    return pd.Categorical.from_codes(codes, dtype=dtype)


def _zoned(at: ColumnReader, held: Any) -> Any:
    if held["unit"] not in _UNITS:
        raise ValueError("not a unit of time")
    counts = at.numbers(held, np.dtype(f"M8[{held['unit']}]"))
    return pd.DatetimeIndex(counts).tz_localize("UTC").tz_convert(read_zone(held["zone"])).array


def _period(at: ColumnReader, held: Any) -> Any:
    if len(held["freq"]) > LONGEST_FREQ:
        raise ValueError("not a frequency")
    ordinals = at.numbers(held, np.dtype("i8"))
    return pd.arrays.PeriodArray(ordinals, dtype=pd.PeriodDtype(held["freq"]))


def _interval(at: ColumnReader, held: Any) -> Any:
    left, right = at.read(held["left"]), at.read(held["right"])
    return pd.arrays.IntervalArray.from_arrays(left, right, closed=held["closed"])


def _arrow(at: ColumnReader, held: Any) -> Any:
    schema = pa.ipc.read_schema(pa.py_buffer(b64decode(held["schema"], validate=True)))
    (field,) = schema
    cells = at.arrow(held, field.type)
    chunked = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])
    return pd.arrays.ArrowExtensionArray(chunked)


_READERS: Final[dict[str, Callable[[ColumnReader, Any], Any]]] = {
    "numpy": _numpy,
    "object": _object,
    "string": _string,
    "masked": _masked,
    "categories": _categories,
    "zoned": _zoned,
    "period": _period,
    "interval": _interval,
    "arrow": _arrow,
}
