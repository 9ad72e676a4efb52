"""What a value holds, in a few words: bounded whatever the value is, and never by its own ``repr``."""

from __future__ import annotations

import json
import sys
from dataclasses import is_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from planbench.memory.entries import shape_of
from planbench.memory.frames import as_record
from planbench.plan.shapes import is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_SUMMARY: Final = 10_000
"""The most characters of a summary."""
_FIELDS: Final = 12
_ITEMS: Final = 3
_ROWS: Final = 3
_COLUMNS: Final = 20
_TEXT: Final = 80
_NAME: Final = 60
_DEPTH: Final = 4
_DIGITS: Final = 60
_CUT: Final = "..."


def summarize(value: Any, limit: int) -> str:
    """Describe a value in at most ``limit`` characters: its kind, its size and how it begins."""
    if isinstance(value, str):
        return clipped(value, limit) if len(value) <= limit else _long(value, limit)
    return _within(_pieces(value, 0), limit)


def summarize_items(items: Iterable[tuple[str, Any]], total: int, limit: int) -> str:
    """Describe the first items of a fan-out in at most ``limit`` characters, each with its key."""
    return _within(_items(items, total), limit)


def clipped(text: str, limit: int) -> str:
    """Give at most ``limit`` characters of a text, with ``...`` where some are left out."""
    if len(text) <= limit:
        return text
    return text[: limit - len(_CUT)] + _CUT if limit > len(_CUT) else text[:limit]


def _long(text: str, limit: int) -> str:
    rest = f"{_CUT} ({len(text):,} characters)"
    return text[: limit - len(rest)] + rest if limit > len(rest) else clipped(text, limit)


def _within(pieces: Iterator[str], limit: int) -> str:
    """Take pieces until the limit is reached; what comes after is never made."""
    taken: list[str] = []
    length = 0
    for piece in pieces:
        taken.append(piece)
        length += len(piece)
        if length > limit:
            break
    return clipped("".join(taken), limit)


def _items(items: Iterable[tuple[str, Any]], total: int) -> Iterator[str]:
    shown = 0
    yield f"fan-out of {total:,} {'item' if total == 1 else 'items'}"
    for key, value in islice(items, _ITEMS):
        yield f"{': ' if not shown else '; '}{clipped(key, _TEXT)} = "
        yield from _pieces(value, 1)
        shown += 1
    if total > shown:
        yield f"; {_CUT} {total - shown:,} more"


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, str):
        yield _quoted(value)
    elif isinstance(value, int):
        yield _number(value)
    elif isinstance(value, float):
        yield float.__repr__(value)
    elif isinstance(value, bytes | bytearray | memoryview):
        yield f"{len(value):,} bytes"
    elif is_frame(value):
        yield from _table(value)
    elif is_series(value):
        yield from _table(value.to_frame("value" if value.name is None else value.name))
    elif isinstance(value, dict | BaseModel) or _is_record(value):
        yield from _record(value, depth)
    elif isinstance(value, list | tuple | set | frozenset):
        yield from _list(value, depth)
    else:
        yield _object(value)


def _is_record(value: Any) -> bool:
    return (is_dataclass(value) and not isinstance(value, type)) or (
        isinstance(value, tuple) and hasattr(value, "_fields")
    )


def _record(value: Any, depth: int) -> Iterator[str]:
    fields = as_record(value)
    assert fields is not None
    if depth >= _DEPTH:
        yield f"{{{len(fields):,} fields}}"
        return
    yield "{"
    for at, (key, item) in enumerate(islice(fields.items(), _FIELDS)):
        yield f"{', ' if at else ''}{_quoted(key) if isinstance(key, str) else _label(key)}: "
        yield from _pieces(item, depth + 1)
    if len(fields) > _FIELDS:
        yield f", {_CUT} {len(fields) - _FIELDS:,} more"
    yield "}"


def _list(value: Any, depth: int) -> Iterator[str]:
    if depth >= _DEPTH:
        yield f"[{len(value):,} items]"
        return
    if len(value) > _ITEMS:
        yield f"{type(value).__name__[:_NAME]} of {len(value):,}: "
    yield "["
    for at, item in enumerate(islice(value, _ITEMS)):
        if at:
            yield ", "
        yield from _pieces(item, depth + 1)
    yield f", {_CUT}]" if len(value) > _ITEMS else "]"


def _table(frame: Any) -> Iterator[str]:
    rows, columns = frame.shape
    yield f"table of {rows:,} rows and {columns:,} columns: "
    few = frame.iloc[:_ROWS, :_COLUMNS]
    kinds = zip(few.columns, few.dtypes, strict=True)
    yield ", ".join(f"{_label(name)} ({clipped(str(kind), _NAME)})" for name, kind in kinds)
    if columns > _COLUMNS:
        yield f", {_CUT} {columns - _COLUMNS:,} more"
    for row in few.itertuples(index=False, name=None):
        yield "; ("
        for at, cell in enumerate(row):
            if at:
                yield ", "
            yield from _pieces(cell, _DEPTH - 1)
        yield ")"
    if rows > _ROWS:
        yield f"; {_CUT}"


def _quoted(text: str) -> str:
    rest = len(text) - _TEXT
    quoted = json.dumps(text[:_TEXT], ensure_ascii=False)
    return quoted if rest <= 0 else f"{quoted[:-1]}{_CUT} {rest:,} more characters" + '"'


def _number(value: int) -> str:
    if value.bit_length() > _DIGITS * 3:
        return f"a number of {value.bit_length():,} bits"
    return int.__repr__(value)


def _label(name: Any) -> str:
    """Name a column or key: text as it is, numbers as numbers, of anything else the kind."""
    if isinstance(name, str):
        return clipped(name, _TEXT)
    if isinstance(name, bool | int | float) or name is None:
        return "".join(_pieces(name, 0))
    return _object(name)


def _object(value: Any) -> str:
    """Name what is known only by its type: a scalar of a library by its text, which is short."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    name = kind.__name__[:_NAME]
    rows, columns = shape_of(value)
    if rows is not None:
        return f"{name} of {rows:,}" + ("" if columns is None else f" x {columns:,}")
    if module in ("datetime", "decimal", "uuid") or _is_scalar(value, module):
        return clipped(str(value), _TEXT)
    return f"{'an' if name[:1].lower() in set('aeiou') else 'a'} {name}"


def _is_scalar(value: Any, module: str) -> bool:
    """Whether it is a number or time of numpy or pandas, and not a type of the user's built on one."""
    if module == "pandas":
        return True
    kind = getattr(sys.modules.get("numpy"), "generic", None)
    return module == "numpy" and kind is not None and isinstance(value, kind)
