"""The tables of ``wm_compute``: stored values through a row of plain pandas operations."""

from __future__ import annotations

import operator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PlanbenchError, SpecInvalid
from planbench.memory.frames import to_frame
from planbench.memory.selection import is_pattern
from planbench.memory.sizes import format_bytes, measure
from planbench.memory.specs import (
    Dedupe,
    Filter,
    Group,
    Head,
    Join,
    Rename,
    Select,
    Sort,
    ValueCounts,
)
from planbench.memory.tables import concat_entries, read_entry
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd

    from planbench.memory import WorkingMemory
    from planbench.memory.entries import Entry
    from planbench.memory.specs import ComputeSpec

MAX_ROWS: Final = 1_000_000
"""Rows that a table may have, after each operation."""
MAX_BYTES: Final = 500_000_000
"""Bytes that the sources may hold, and the table that comes out."""
_SHOWN: Final = 20
_COUNT: Final = "count"
_COMPARED: Final = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compute(memory: WorkingMemory, spec: ComputeSpec) -> pd.DataFrame:
    """Make the table; raises SpecInvalid, ArtifactNotFound, FrameError or PathError."""
    sources = [spec.source] if isinstance(spec.source, str) else spec.source
    frame = _read(memory, sources, spec.select, spec.label, spec.item)
    for number, op in enumerate(spec.ops):
        place = f"ops[{number}]"
        if isinstance(op, Join):
            frame = _join(frame, op, memory, place)
        else:
            frame = _APPLY[type(op)](frame, op, place)
        _bounded(len(frame), place)
    size = measure(frame, None)
    if size > MAX_BYTES:
        raise SpecInvalid(
            f"the table holds {format_bytes(size)}, over {format_bytes(MAX_BYTES)}",
            hint="select fewer columns, filter, or group",
        )
    return frame


def _read(
    memory: WorkingMemory,
    sources: Sequence[str],
    select: str | None,
    label: str | None,
    item: dict[str, str],
) -> pd.DataFrame:
    entries: list[Entry] = []
    for source in sources:
        found = memory.entries(source)
        if not found and (is_pattern(source) or source not in memory):
            raise memory.not_found(source)
        entries += found
    size = sum(entry.nbytes for entry in entries)
    if size > MAX_BYTES:
        raise SpecInvalid(
            f"source: {len(entries):,} entries hold {format_bytes(size)}, over {format_bytes(MAX_BYTES)}",
            hint="take fewer of them at a time",
        )
    one = entries[0] if len(sources) == 1 and len(entries) == 1 else None
    if one is not None and (one.index is None or one.key == sources[0]):
        if not item:
            frame = to_frame(read_entry(one, select))
            _bounded(len(frame), "source")
            named = any(name is not None for name in frame.index.names)
            return (
                frame.reset_index(allow_duplicates=True) if named else frame.reset_index(drop=True)
            )
        label = None
    frame = concat_entries(entries, select, label, item)
    _bounded(len(frame), "source")
    return frame


def _bounded(rows: int, place: str) -> None:
    if rows > MAX_ROWS:
        raise SpecInvalid(
            f"{place} gives {rows:,} rows, over {MAX_ROWS:,}",
            hint="filter first, or take fewer entries",
        )


# -- columns -----------------------------------------------------------------------------


def _column(frame: pd.DataFrame, name: str, place: str) -> Any:
    """Give the label of a column by its name; one that is no text is found by what it reads as."""
    found = [label for label in frame.columns if label == name or str(label) == name]
    if len(found) > 1:
        raise SpecInvalid(
            f"{place}: {len(found)} columns have the name {name!r}; rename what makes them"
        )
    if found:
        return found[0]
    known = [str(label)[:80] for label in frame.columns]
    more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    there = (
        f"the columns are {', '.join(known[:_SHOWN])}{more}" if known else "there are no columns"
    )
    raise SpecInvalid(
        f"{place}: there is no column {name!r}",
        hint=suggestion(name, known) or there,
    )


def _columns(frame: pd.DataFrame, names: str | Sequence[str], place: str) -> list[Any]:
    wanted = [names] if isinstance(names, str) else names
    found = [_column(frame, name, place) for name in wanted]
    _unique([str(name) for name in found], place)
    return found


def _unique(names: Sequence[str], place: str) -> None:
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise SpecInvalid(f"{place}: {twice!r} would be there twice")


@contextmanager
def _words(place: str, said: str, hint: str | None = None) -> Iterator[None]:
    """Say in our words what pandas cannot do with these values: its own may quote them."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, NotImplementedError) as error:
        if isinstance(error, PlanbenchError):
            raise
        raise SpecInvalid(f"{place}: {said}", hint=hint) from None


_UNHASHABLE: Final = "holds lists or maps, which cannot be compared as a whole"


# -- operations --------------------------------------------------------------------------


def _filter(frame: pd.DataFrame, op: Filter, place: str) -> pd.DataFrame:
    name = _column(frame, op.column, f"{place}.column")
    column = frame[name]
    said = f"the cells of {op.column!r} cannot be compared with the value by {op.cmp}"
    with _words(f"{place}.value", said, "the column is " + str(column.dtype)[:60]):
        kept = _mask(column, op).to_numpy(dtype=bool, na_value=False)
    rows: pd.DataFrame = frame[kept].reset_index(drop=True)
    return rows


def _mask(column: Any, op: Filter) -> Any:
    value: Any = op.value
    if op.cmp in ("isnull", "notnull"):
        return column.isna() if op.cmp == "isnull" else column.notna()
    if op.cmp == "in":
        return column.isin(value)
    if op.cmp == "contains":
        return column.map(lambda cell: _contains(cell, value)).astype(bool)
    found = _COMPARED[op.cmp](column, value)
    # An empty cell differs from nothing: it is found with isnull only.
    return found & column.notna() if op.cmp == "!=" else found


def _contains(cell: Any, value: Any) -> bool:
    if isinstance(cell, str):
        return isinstance(value, str) and value in cell
    return isinstance(cell, list | tuple | set | frozenset | dict) and any(
        type(one) is type(value) and one == value for one in cell
    )


def _select(frame: pd.DataFrame, op: Select, place: str) -> pd.DataFrame:
    chosen: pd.DataFrame = frame[_columns(frame, op.columns, f"{place}.columns")]
    return chosen


def _rename(frame: pd.DataFrame, op: Rename, place: str) -> pd.DataFrame:
    new = {_column(frame, old, f"{place}.columns"): name for old, name in op.columns.items()}
    _unique([str(new.get(name, name)) for name in frame.columns], f"{place}.columns")
    return frame.rename(columns=new)


def _sort(frame: pd.DataFrame, op: Sort, place: str) -> pd.DataFrame:
    by = _columns(frame, op.by, f"{place}.by")
    with _words(f"{place}.by", "the cells have no order among each other"):
        # One by one from the last: sorting by several at once does not keep the order of equal rows.
        for name in reversed(by):
            frame = frame.sort_values(
                name, ascending=op.ascending, kind="stable", ignore_index=True
            )
    return frame


def _head(frame: pd.DataFrame, op: Head, place: str) -> pd.DataFrame:  # noqa: ARG001 - as the others
    return frame.head(op.n)


def _group(frame: pd.DataFrame, op: Group, place: str) -> pd.DataFrame:
    by = _columns(frame, op.by, f"{place}.by")
    made: dict[str, Any] = {}
    with _words(f"{place}.by", f"a column {_UNHASHABLE}"):
        grouped = frame.groupby(by, sort=False, dropna=False, observed=True)
        sizes = grouped.size()
    for column, functions in op.agg.items():
        name = _column(frame, column, f"{place}.agg")
        for function in [functions] if isinstance(functions, str) else functions:
            at = f"{place}.agg.{column}"
            said = f"{function} of {column!r} cannot be had: its cells are {str(frame[name].dtype)[:60]}"
            with _words(at, said, "count, nunique and first take more kinds of cells"):
                made[f"{column}_{function}"] = _aggregate(grouped, frame[name], function)
    if not op.agg:
        made[_COUNT] = sizes
    _unique([*map(str, by), *made], place)
    index = sizes.index
    keys = {name: index.get_level_values(at) for at, name in enumerate(by)}
    values = {name: series.array for name, series in made.items()}
    return _framed({**keys, **values})


def _aggregate(grouped: Any, column: Any, function: str) -> Any:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    if function in ("sum", "mean") and not pd.api.types.is_numeric_dtype(column.dtype):
        if column.dtype != object and not pd.api.types.is_timedelta64_dtype(column.dtype):
            raise TypeError(function)
        if not all(isinstance(cell, int | float) for cell in column.dropna()):
            raise TypeError(function)
    return getattr(grouped[column.name], function)()


def _value_counts(frame: pd.DataFrame, op: ValueCounts, place: str) -> pd.DataFrame:
    name = _column(frame, op.column, f"{place}.column")
    _unique([str(name), _COUNT], f"{place}.column")
    with _words(f"{place}.column", f"{op.column!r} {_UNHASHABLE}"):
        sizes = frame.groupby(name, sort=False, dropna=False, observed=True).size()
    counted = sizes.sort_values(ascending=False, kind="stable")
    made = _framed({name: counted.index, _COUNT: counted.array})
    return made if op.n is None else made.head(op.n)


def _dedupe(frame: pd.DataFrame, op: Dedupe, place: str) -> pd.DataFrame:
    subset = None if op.columns is None else _columns(frame, op.columns, f"{place}.columns")
    said = f"a column {_UNHASHABLE}"
    with _words(f"{place}.columns", said, 'name the columns to look at: "columns": [...]'):
        return frame.drop_duplicates(subset, ignore_index=True)


def _join(frame: pd.DataFrame, op: Join, memory: WorkingMemory, place: str) -> pd.DataFrame:
    other = _read(memory, [op.with_], op.select, None, {})
    on = [op.on] if isinstance(op.on, str) else op.on
    left = frame.rename(columns=_texts(frame, on, f"{place}.on"))
    right = other.rename(columns=_texts(other, on, f"{place}.on of {op.with_!r}"))
    said = "the two sides hold different kinds of cells there, or lists or maps"
    with _words(f"{place}.on", said):
        _bounded(_joined_rows(left, right, on, op.how), place)
        left, right = _alike(left, right, on), _alike(right, left, on)
        return left.merge(right, how=op.how, on=on, suffixes=("", "_right"))


def _texts(frame: pd.DataFrame, names: Sequence[str], place: str) -> dict[Any, str]:
    return dict(zip(_columns(frame, names, place), names, strict=True))


def _joined_rows(left: pd.DataFrame, right: pd.DataFrame, on: list[str], how: str) -> int:
    """Count the rows of a join before it is made: equal cells on both sides multiply."""
    one, two = _key_counts(left, on), _key_counts(right, on)
    rows = sum(count * two[key] for key, count in one.items() if key in two)
    if how in ("left", "outer"):
        rows += sum(count for key, count in one.items() if key not in two)
    if how in ("right", "outer"):
        rows += sum(count for key, count in two.items() if key not in one)
    return rows


def _key_counts(frame: pd.DataFrame, on: list[str]) -> dict[tuple[Any, ...], int]:
    sizes = frame.groupby(on, sort=False, dropna=False, observed=True).size()
    cells = sizes.index.to_frame(index=False).astype(object)
    keys = cells.where(cells.notna(), None).itertuples(index=False, name=None)
    return dict(zip(keys, sizes.tolist(), strict=True))


def _alike(frame: pd.DataFrame, other: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    """Let columns that hold nothing, or whole numbers beside others, be of the other side's kind."""
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    kinds = pd.api.types
    made = {}
    for name in on:
        mine, theirs = frame[name], other[name]
        whole = kinds.is_integer_dtype(mine.dtype) and kinds.is_float_dtype(theirs.dtype)
        if mine.dtype != theirs.dtype and (whole or (mine.isna().all() and theirs.notna().any())):
            made[name] = (
                mine.astype(theirs.dtype)
                if whole
                else pd.Series(index=mine.index, dtype=_with_empty(theirs.dtype))
            )
    return frame.assign(**made) if made else frame


def _with_empty(dtype: Any) -> Any:
    """Give a kind of cells that may be empty: whole numbers and truth values of numpy may not."""
    return {"i": "float64", "u": "float64", "b": "object"}.get(dtype.kind, dtype)


def _framed(columns: dict[Any, Any]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    return pd.DataFrame(columns)


_APPLY: Final[dict[type, Callable[[Any, Any, str], Any]]] = {
    Filter: _filter,
    Select: _select,
    Rename: _rename,
    Sort: _sort,
    Head: _head,
    Group: _group,
    ValueCounts: _value_counts,
    Dedupe: _dedupe,
}
