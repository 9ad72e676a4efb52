"""How many bytes a value holds: measured once, when it is stored."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import fields, is_dataclass
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, overload

from pydantic import BaseModel

from planbench.plan.shapes import is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Iterable

SCALAR: Final = 8
SLOT: Final = 8

_FIXED: Final = frozenset({int, float, bool, NoneType})
_NONE: Final = ()
_EXACT_TEXT: Final = 4_096
_PIECE: Final = 1_024
_SAMPLED_CELLS: Final = 64
_SMALL: Final = 32
_COLUMN_COST: Final = 100
_ODD_COST: Final = 10
_BUFFER_OWNERS: Final = frozenset({"numpy", "pandas", "pyarrow"})


@overload
def measure(value: Any, budget: None) -> int: ...
@overload
def measure(value: Any, budget: int = ...) -> int | None: ...
def measure(value: Any, budget: int | None = 20_000) -> int | None:
    """Estimate the payload of a value in bytes; None when over ``budget`` elements would be visited.

    Text counts its UTF-8 length, binary its length, a number or None 8, a container
    its elements and 8 for each reference to one. Frames, arrays and Arrow tables
    count their buffers, with object cells estimated from a sample; models and
    dataclasses their fields; an unknown object only its own ``sys.getsizeof``.
    A container that is referred to twice counts once. The process takes two to four times this
    for many small objects, and about this for large ones. ``budget=None`` visits
    everything, however long that takes.
    """
    kind = type(value)
    if kind is dict and len(value) <= _SMALL:  # of text and numbers, which most results are
        total = 2 * SLOT * len(value)
        for key, item in value.items():
            kind = type(item)
            if type(key) is not str or not key.isascii():
                break
            if kind is str and item.isascii():
                total += len(key) + len(item)
            elif kind in _FIXED:
                total += len(key) + SCALAR
            else:
                break
        else:
            return total
    elif kind is str:
        return len(value) if value.isascii() else _encoded_length(value)
    elif kind in _FIXED:
        return SCALAR
    return _walk(value, budget)


def format_bytes(count: int) -> str:
    """Write a number of bytes for people: ``512 B``, ``1.2 kB``, ``340 MB``."""
    size = float(count)
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if round(size) < 1000:  # noqa: PLR2004 - the units are decimal
            break
        size /= 1000
        unit = larger
    digits = 0 if unit == "B" or round(size, 1) >= 100 else 1  # noqa: PLR2004 - three digits are enough
    return f"{size:.{digits}f} {unit}"


def _walk(value: Any, budget: int | None) -> int | None:
    left = sys.maxsize if budget is None else budget
    total = 0
    # Every object below lives at least as long as this walk, so an id is its own.
    seen = {id(value)}
    stack = [value]
    while stack:
        current = stack.pop()
        children: Iterable[Any]
        if type(current) is dict:
            left -= len(current)
            total += 2 * SLOT * len(current)
            children = chain(current, current.values())
        else:
            left -= _cost(current)
            opened = _open(current, budget) if left >= 0 else None
            if opened is None:
                return None
            total += opened[0]
            children = opened[1]
        if left < 0:
            return None
        for item in children:
            kind = type(item)
            if kind is str:
                if item.isascii():
                    total += len(item)
                else:
                    left -= _ODD_COST
                    total += _encoded_length(item)
            elif kind in _FIXED:
                total += SCALAR
            elif id(item) not in seen:
                seen.add(id(item))
                stack.append(item)
    return total


def _encoded_length(text: str) -> int:
    """The UTF-8 length; of a long text estimated from its start, middle and end."""
    if len(text) <= _EXACT_TEXT:
        return len(text.encode("utf-8", "surrogatepass"))
    middle = (len(text) - _PIECE) // 2
    sample = text[:_PIECE] + text[middle : middle + _PIECE] + text[-_PIECE:]
    return round(len(text) * len(sample.encode("utf-8", "surrogatepass")) / len(sample))


def _cost(value: Any) -> int:
    """Say what a look into this value costs, counted in elements."""
    if isinstance(value, dict | list | tuple | set | frozenset | deque):
        return len(value)
    if is_frame(value):
        return _COLUMN_COST * (1 + len(value.columns))
    return _COLUMN_COST if is_series(value) else _ODD_COST


def _open(value: Any, budget: int | None) -> tuple[int, Iterable[Any]] | None:
    """Give a value's own bytes and the elements that are still to be counted."""
    held: Any = _NONE
    if isinstance(value, dict):
        held = chain(value, value.values())
        size = 2 * SLOT * len(value)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        held = value
        size = SLOT * len(value)
    elif isinstance(value, str):
        size = _encoded_length(value)
    elif isinstance(value, bytes | bytearray):
        size = len(value)
    elif isinstance(value, int | float):
        size = SCALAR
    elif (parts := _parts(value)) is not None:
        held = parts
        size = SLOT * len(parts)
    else:
        buffers = _buffers(value, budget)
        if buffers is None:
            return None
        size = buffers
    return size, held


def _parts(value: Any) -> list[Any] | None:
    """Give what the fields of a model or dataclass hold; None for anything else."""
    if isinstance(value, BaseModel):
        return [*value.__dict__.values(), *(value.__pydantic_extra__ or {}).values()]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in fields(value)]
    return None


def _buffers(value: Any, budget: int | None) -> int | None:
    if is_frame(value):
        return _columns(value, budget)
    if is_series(value):
        return _columns(value.to_frame(), budget)
    module = type(value).__module__.partition(".")[0]
    if module not in _BUFFER_OWNERS and not isinstance(value, memoryview):
        return sys.getsizeof(value, SLOT)
    size = getattr(value, "nbytes", None)
    if not isinstance(size, int):
        return sys.getsizeof(value, SLOT)
    if module == "numpy" and value.dtype.hasobject and value.size:
        return _add(size, _cells(value.flat, value.size, budget))
    return size


def _columns(frame: Any, budget: int | None) -> int | None:
    size: int | None = int(frame.memory_usage(index=True, deep=False).sum())
    arrays = [frame.iloc[:, i] for i in range(frame.shape[1])]
    for array in (frame.index, *arrays):
        # A string column held by Arrow knows its bytes; one of Python objects counts references.
        plain = array.dtype == object or getattr(array.dtype, "storage", None) == "python"
        if plain and len(frame):
            values = array.to_numpy(dtype=object)
            size = _add(size, _cells(values, len(frame), budget))
    return size


def _cells(values: Any, count: int, budget: int | None) -> int | None:
    """Estimate what object cells hold from a sample that is spread over all of them."""
    sample = values[:: -(-count // _SAMPLED_CELLS)]
    total: int | None = 0
    for cell in sample:
        total = _add(total, measure(cell, budget))
    return None if total is None else round(total * count / len(sample))


def _add(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
