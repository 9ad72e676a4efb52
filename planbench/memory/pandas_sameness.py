"""Whether two values of pandas are the same, down to the type of each cell and label."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from planbench.memory.refusals import label
from planbench.memory.sameness import same, same_dtype, same_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Pairs = Iterable[tuple[str, Any, Any]]


def open_pandas(left: Any, right: Any) -> Pairs | None:
    """Give the parts of two values of one type, place by place; None where they differ."""
    if isinstance(left, pd.Index):
        return _index(left, right)
    if isinstance(left, pd.api.extensions.ExtensionArray):
        return _cells(left, right)
    if isinstance(left, pd.api.extensions.ExtensionDtype):
        return () if _same_type(left, right) else None
    opener = _KINDS.get(type(left))
    if opener is not None:
        return opener(left, right)
    return () if left is right or (left == right) is True else None


def _frame(left: Any, right: Any) -> Pairs | None:
    if left.shape != right.shape:
        return None
    return [
        *_around(left, right),
        ("labels of the columns", left.columns, right.columns),
        *(
            (f"column {label(name)}", _array(left.iloc[:, n]), _array(right.iloc[:, n]))
            for n, name in enumerate(left.columns)
        ),
    ]


def _series(left: Any, right: Any) -> Pairs | None:
    return [
        *_around(left, right),
        ("name", left.name, right.name),
        ("cells", _array(left), _array(right)),
    ]


def _around(left: Any, right: Any) -> Pairs:
    return [
        ("index", left.index, right.index),
        ("attrs", left.attrs, right.attrs),
        ("flags", left.flags.allows_duplicate_labels, right.flags.allows_duplicate_labels),
    ]


def _index(left: Any, right: Any) -> Pairs | None:
    if len(left) != len(right):
        return None
    names = ("names", list(left.names), list(right.names))
    if isinstance(left, pd.RangeIndex):
        first, second = ((one.start, one.stop, one.step) for one in (left, right))
        return [names, ("cells", first, second)]
    if isinstance(left, pd.MultiIndex):
        levels = ("levels", list(left.levels), list(right.levels))
        codes, others = ([np.asarray(code) for code in one.codes] for one in (left, right))
        return [names, levels, ("codes", codes, others)]
    freqs = [getattr(one, "freq", None) for one in (left, right)]
    if type(freqs[0]) is not type(freqs[1]) or freqs[0] != freqs[1]:
        return None
    return [names, ("cells", _array(left), _array(right))]


def _array(held: Any) -> Any:
    array = held.array
    return array.to_numpy() if type(array) is pd.arrays.NumpyExtensionArray else array


def _cells(left: Any, right: Any) -> Pairs | None:
    if len(left) != len(right) or not _same_type(left.dtype, right.dtype):
        return None
    kind = left.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return [("codes", np.asarray(left.codes), np.asarray(right.codes))]
    if isinstance(kind, pd.IntervalDtype):
        return [
            ("left", _array(left.left), _array(right.left)),
            ("right", _array(left.right), _array(right.right)),
        ]
    if isinstance(kind, pd.DatetimeTZDtype | pd.PeriodDtype | np.dtype):
        return [("cells", left.asi8, right.asi8)]
    if isinstance(kind, pd.SparseDtype | pd.StringDtype) and _held(kind) == "python":
        return [("cells", left.to_numpy(dtype=object), right.to_numpy(dtype=object))]
    return _arrow(pa.array(left), pa.array(right))


def _held(kind: Any) -> str:
    return getattr(kind, "storage", "python")


def _arrow(left: Any, right: Any) -> Pairs | None:
    if left.type != right.type:
        return None
    left, right = (
        pa.chunked_array([one]) if isinstance(one, pa.Array) else one for one in (left, right)
    )
    if left.equals(right):
        return ()
    # Arrow calls two NaN different.
    if not pa.types.is_floating(left.type):
        return [("cells", left.to_pylist(), right.to_pylist())]
    missing, other = (np.array(one.is_null()) for one in (left, right))
    cells, others = (np.array(one.fill_null(0.0)) for one in (left, right))
    return [("missing cells", missing, other), ("cells", cells, others)]


def _same_type(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    parts = _TYPES.get(type(left))
    if parts is None:
        return same_dtype(left, right) if isinstance(left, np.dtype) else bool(left == right)
    return all(_same_part(one, two) for one, two in zip(parts(left), parts(right), strict=True))


def _same_part(left: Any, right: Any) -> bool:
    if isinstance(left, np.dtype | pd.api.extensions.ExtensionDtype):
        return _same_type(left, right)
    if isinstance(left, dt.tzinfo):
        return same_zone(left, right)
    return same(left, right)


_TYPES: Final[dict[type, Callable[[Any], tuple[Any, ...]]]] = {
    pd.CategoricalDtype: lambda kind: (kind.ordered, kind.categories),
    pd.DatetimeTZDtype: lambda kind: (kind.unit, kind.tz),
    pd.PeriodDtype: lambda kind: (kind.freq,),
    pd.IntervalDtype: lambda kind: (kind.closed, kind.subtype),
    pd.SparseDtype: lambda kind: (kind.subtype, kind.fill_value),
    pd.ArrowDtype: lambda kind: (kind.pyarrow_dtype, str(kind.pyarrow_dtype)),
    pd.StringDtype: lambda kind: (kind.storage, kind.na_value is pd.NA),
}


def _timestamp(left: Any, right: Any) -> Pairs | None:
    if left.unit != right.unit or left.fold != right.fold or not same_zone(left.tz, right.tz):
        return None
    return [("", left.asm8, right.asm8)]


def _duration(left: Any, right: Any) -> Pairs | None:
    return None if left.unit != right.unit else [("", left.asm8, right.asm8)]


def _period(left: Any, right: Any) -> Pairs | None:
    return () if left.ordinal == right.ordinal and left.freq == right.freq else None


def _interval(left: Any, right: Any) -> Pairs | None:
    if left.closed != right.closed:
        return None
    return [("left", left.left, right.left), ("right", left.right, right.right)]


_KINDS: Final[dict[type, Callable[[Any, Any], Pairs | None]]] = {
    pd.DataFrame: _frame,
    pd.Series: _series,
    pd.Timestamp: _timestamp,
    pd.Timedelta: _duration,
    pd.Period: _period,
    pd.Interval: _interval,
}
