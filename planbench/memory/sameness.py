"""Whether two values are the same: equal in value and in the type of every cell.

``==`` and pandas' own comparisons pass over much of this: ``1`` and ``True``, ``0.0`` and
``-0.0``, a tuple and a named tuple, what stands for a missing cell, the type of a
column's cells, the unit of times, the order of categories, the attributes of a frame.
The order of a map counts, that of a set does not, nor does where an array lies in
memory, nor whether two places hold one object or two equal ones.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from planbench.memory.refusals import at_key, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Pairs = Iterable[tuple[str, Any, Any]]


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal in value and in the type of every cell."""
    return difference(first, second) is None


def difference(first: Any, second: Any) -> str | None:
    """Name the first place where two values are not the same, or give None."""
    work: list[tuple[tuple[str, ...], Any, Any]] = [((), first, second)]
    # What was opened stays here, so that an id is its own and a value that holds itself ends.
    opened: dict[tuple[int, int], tuple[Any, Any]] = {}
    while work:
        steps, left, right = work.pop()
        if type(left) is not type(right):
            return place_of(steps) or "the value"
        pair = (id(left), id(right))
        if pair in opened:
            continue
        inner = _opened(left, right)
        if inner is None:
            return place_of(steps) or "the value"
        if inner:
            opened[pair] = (left, right)
            work.extend(((*steps, step), one, two) for step, one, two in reversed(list(inner)))
    return None


def same_zone(left: Any, right: Any) -> bool:
    """Whether two time zones are of one kind and one name."""
    if type(left) is not type(right):
        return False
    if type(left) is ZoneInfo:
        return bool(left.key == right.key)
    if type(left) is dt.timezone:
        return bool(left.__reduce__() == right.__reduce__())
    return left is right or bool(left == right)


def _opened(left: Any, right: Any) -> Pairs | None:
    """Give the parts to compare, place by place; None where the two differ already."""
    kind = type(left)
    opener = _KINDS.get(kind)
    if opener is not None:
        return opener(left, right)
    library = kind.__module__.partition(".")[0]
    if library == "numpy":
        return _numpy(left, right)
    if library == "pandas":
        from planbench.memory.pandas_sameness import open_pandas  # noqa: PLC0415 - loads pandas

        return open_pandas(left, right)
    if isinstance(left, PurePath):
        return _when(str(left) == str(right))
    return _when(left is right or (left == right) is True)


def _when(equal: bool) -> Pairs | None:
    return () if equal else None


def _equal(left: Any, right: Any) -> Pairs | None:
    return _when(left == right)


def _float(left: float, right: float) -> Pairs | None:
    if math.isnan(left):
        return _when(math.isnan(right))
    return _when(struct.pack("d", left) == struct.pack("d", right))


def _complex(left: complex, right: complex) -> Pairs | None:
    return [("", left.real, right.real), ("", left.imag, right.imag)]


def _sequence(left: Any, right: Any) -> Pairs | None:
    if len(left) != len(right) or getattr(left, "maxlen", None) != getattr(right, "maxlen", None):
        return None
    return [
        (f"[{number}]", one, two) for number, (one, two) in enumerate(zip(left, right, strict=True))
    ]


def _map(left: Any, right: Any) -> Pairs | None:
    if len(left) != len(right):
        return None
    if getattr(left, "default_factory", None) is not getattr(right, "default_factory", None):
        return None
    pairs: list[tuple[str, Any, Any]] = []
    for (key, one), (other, two) in zip(left.items(), right.items(), strict=True):
        step = at_key(key)
        if type(key) is not str or type(other) is not str:
            pairs.append((step, key, other))
        elif key != other:
            return None
        pairs.append((step, one, two))
    return pairs


def _set(left: Any, right: Any) -> Pairs | None:
    if len(left) != len(right):
        return None
    held = {member: member for member in right}
    missing = object()
    pairs, odd = [], []
    for member in left:
        found = held.pop(member, missing)
        if found is missing:
            odd.append(member)
        else:
            pairs.append(("a member of the set", member, found))
    # What equals nothing, not even itself, such as NaN, is compared with all that is left.
    rest = list(held.values())
    for member in odd:
        match = next((n for n, other in enumerate(rest) if same(member, other)), None)
        if match is None:
            return None
        del rest[match]
    return pairs


def _moment(left: Any, right: Any) -> Pairs | None:
    naive = left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return _when(naive and left.fold == right.fold and same_zone(left.tzinfo, right.tzinfo))


def _decimal(left: Decimal, right: Decimal) -> Pairs | None:
    return _when(left.as_tuple() == right.as_tuple())


def _uuid(left: UUID, right: UUID) -> Pairs | None:
    return _when(left.int == right.int and left.is_safe is right.is_safe)


def _range(left: range, right: range) -> Pairs | None:
    return _when((left.start, left.stop, left.step) == (right.start, right.stop, right.step))


def same_dtype(left: Any, right: Any) -> bool:
    """Whether two types of numpy are one, with the order of bytes and the place of fields."""
    return bool(
        left == right
        and left.str == right.str
        and left.char == right.char
        and left.isalignedstruct == right.isalignedstruct
    )


def _numpy(left: Any, right: Any) -> Pairs | None:
    numpy: Any = sys.modules["numpy"]
    if not isinstance(left, numpy.ndarray | numpy.generic):
        return _when((left == right) is True)
    if isinstance(left, numpy.str_ | numpy.bytes_):
        return _when(left == right)
    if not same_dtype(left.dtype, right.dtype) or left.shape != right.shape:
        return None
    if left.dtype == object:
        return _sequence(left.ravel().tolist(), right.ravel().tolist())
    if left.dtype.names is not None:
        return [(at_key(name), left[name], right[name]) for name in left.dtype.names]
    return _when(left.tobytes() == right.tobytes())


_KINDS: Final[dict[type, Callable[[Any, Any], Pairs | None]]] = {
    **dict.fromkeys((str, int, bool, bytes, bytearray, type(None)), _equal),
    **dict.fromkeys((dt.date, dt.timedelta), _equal),
    **dict.fromkeys((list, tuple, deque), _sequence),
    **dict.fromkeys((dict, Counter, OrderedDict, defaultdict), _map),
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys((dt.datetime, dt.time), _moment),
    float: _float,
    complex: _complex,
    Decimal: _decimal,
    UUID: _uuid,
    range: _range,
}
