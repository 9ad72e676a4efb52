"""Any value as a DataFrame, by rules that look at its form and never at its length.

===============================  ==============================================
DataFrame                        itself, as a copy-on-write view
Series                           one column, ``value`` when it has no name
what has ``to_pandas()``         what that gives (Arrow tables, polars frames)
array of one or two dimensions   one column ``value``; columns 0, 1, 2 ...
list of records                  a row each
record whose one list has those  the rows of that list; what lies beside it is left out
any other record                 one row
list of anything else            one column ``value``
anything else                    one cell, column ``value``
===============================  ==============================================

A record is a map, a pydantic model, a dataclass or a named tuple. A list may be a
tuple or a set; an empty one counts as a list of records, so that a report without
findings has no rows. What lies deeper stays in its cell as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from planbench.errors import FrameError
from planbench.plan.shapes import is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

VALUE: Final = "value"
_LISTS: Final = (list, tuple, set, frozenset)
_PLAIN_CELLS: Final = frozenset({str, int, float, bool, NoneType})


def view(value: Any) -> Any:
    """Hand out a frame or Series so that changes to it never reach the stored one.

    Since pandas 3 this copies nothing before something is written; under pandas 2
    with ``pd.options.mode.copy_on_write`` off, only a whole copy keeps the promise.
    Any other value is given as it is.
    """
    if is_frame(value) or is_series(value):
        return value.copy(deep=not _copies_on_write())
    return value


def to_frame(value: Any) -> pd.DataFrame:
    """Turn a value into a DataFrame, by the table at the top of this module."""
    if hasattr(type(value), "to_pandas"):
        value = value.to_pandas()
    if is_series(value):
        value = value.to_frame(VALUE if value.name is None else value.name)
    if is_frame(value):
        frame: pd.DataFrame = view(value)
        return frame
    rows = rows_of(value)
    if rows is not None:
        return _from_rows(rows)
    if _is_array(value) and value.ndim:
        return _from_array(value)
    return _from_cells(list(value) if isinstance(value, _LISTS) else [value])


def rows_of(value: Any) -> list[dict[Any, Any]] | None:
    """Give the rows of a record or a list of records; None for anything else."""
    record = as_record(value)
    if record is None:
        return _record_list(value)
    lists = [item for item in record.values() if isinstance(item, _LISTS)]
    if len(lists) == 1 and not any(_is_table(item) for item in record.values()):
        rows = _record_list(lists[0])
        if rows is not None:
            return rows
    return [record]


def as_record(value: Any) -> dict[Any, Any] | None:
    """Give what has named fields as a dict, its values as they are; None for anything else."""
    if isinstance(value, dict):
        return value
    if isinstance(value, BaseModel | Mapping):
        return dict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def stack(parts: Sequence[tuple[dict[str, Any], Any]], names: Sequence[str]) -> pd.DataFrame:
    """Set values under each other as one table.

    Each part is a head, which becomes the leading columns ``names`` of its rows, and a
    value. A named index becomes columns, any other is counted anew. Raises FrameError
    when a name of the head is a column of a value already.
    """
    if any(_is_table(value) for _, value in parts):
        return _stack_frames([(head, to_frame(value)) for head, value in parts], names)
    # One frame made of all rows is some hundred times faster than a frame for each item.
    merged: list[dict[Any, Any]] = []
    for head, value in parts:
        for row in _rows(value):
            _refuse_clash(names, row)
            merged.append({**head, **row})
    return _from_rows(merged, names)


def _stack_frames(
    parts: Sequence[tuple[dict[str, Any], pd.DataFrame]], names: Sequence[str]
) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    columns: dict[Any, None] = dict.fromkeys(names)
    filled: list[pd.DataFrame] = []
    for head, frame in parts:
        flat = _flat(frame)
        _refuse_clash(names, flat.columns)
        columns.update(dict.fromkeys(flat.columns))
        if len(flat):
            for at, name in enumerate(names):
                flat.insert(at, name, _series([head[name]] * len(flat)))
            filled.append(flat)
    if not filled:
        return pd.DataFrame(columns=list(columns))
    # Only what has rows takes part, since an empty column would change the dtype of a full one.
    try:
        return pd.concat(filled, ignore_index=True)
    except pd.errors.InvalidIndexError as error:
        raise FrameError(
            "the items differ in their columns, and one has several columns of one name",
            hint="read them one by one, and give each column its own name",
        ) from error


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    if all(name is None for name in frame.index.names):
        return frame.reset_index(drop=True)
    try:
        return frame.reset_index()
    except ValueError as error:
        raise FrameError(
            f"an index of the items has the name of a column: {error}",
            hint="read them one by one, and rename the index",
        ) from error


def _refuse_clash(names: Sequence[str], columns: Any) -> None:
    for name in names:
        if name in columns:
            raise FrameError(
                f"{name!r} is a column of the items already",
                hint='give the new column another name: concat(..., label="name"), or item={"name": "path"}',
            )


def _record_list(value: Any) -> list[dict[Any, Any]] | None:
    if not isinstance(value, _LISTS) or hasattr(value, "_fields"):
        return None
    rows: list[dict[Any, Any]] = []
    for item in value:
        record = as_record(item)
        if record is None:
            return None
        rows.append(record)
    return rows


def _rows(value: Any) -> list[dict[Any, Any]]:
    rows = rows_of(value)
    if rows is not None:
        return rows
    return [{VALUE: cell} for cell in (value if isinstance(value, _LISTS) else (value,))]


def _is_table(value: Any) -> bool:
    """Whether a value has rows of its own making: a frame, a Series, an array."""
    if is_frame(value) or is_series(value) or hasattr(type(value), "to_pandas"):
        return True
    shape = getattr(value, "shape", ())
    return isinstance(shape, tuple) and len(shape) > 0


def _is_array(value: Any) -> bool:
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return kind is not None and isinstance(value, kind)


def _is_cell(value: Any) -> bool:
    """Whether a value is one cell beyond doubt: no list, no record, no table."""
    return not (isinstance(value, _LISTS) or as_record(value) is not None or _is_table(value))


def _from_rows(rows: list[dict[Any, Any]], names: Sequence[str] = ()) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    if not rows:
        return pd.DataFrame(columns=list(names))
    try:
        return pd.DataFrame(rows)
    except UnicodeEncodeError:
        # pandas keeps text as UTF-8, which has no place for half a surrogate pair.
        columns = pd.Index(list(dict.fromkeys(chain.from_iterable(rows))), dtype=object)
        return pd.DataFrame(rows, columns=columns, dtype=object)


def _from_array(array: Any) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    if array.ndim == 2:  # noqa: PLR2004 - rows and columns
        return pd.DataFrame(array, copy=True)
    if array.ndim > 1:
        return _from_cells(list(array))
    return pd.DataFrame(array, copy=True) if array.dtype.names else pd.DataFrame({VALUE: array})


def _from_cells(cells: list[Any]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    return pd.DataFrame({VALUE: _series(cells)})


def _series(cells: list[Any]) -> pd.Series[Any]:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    if not all(type(cell) in _PLAIN_CELLS or _is_cell(cell) for cell in cells):
        return pd.Series(cells, dtype=object)
    try:
        return pd.Series(cells)
    except UnicodeEncodeError:
        return pd.Series(cells, dtype=object)


def _copies_on_write() -> bool:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    always = 3
    return int(pd.__version__.partition(".")[0]) >= always or _copy_on_write_option()


def _copy_on_write_option() -> bool:
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    return bool(pd.options.mode.copy_on_write)
