"""Digests of resolved arguments: equal for equal values of equal types, and for nothing else.

A call is not made again when one with the same digest gave a value already, so 1 and
true, a tuple and a list, NaN and null, or a date and its text must not meet here.
"""

from __future__ import annotations

import enum
import marshal
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH: Final = 100

_PLAIN: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_EMPTY: Final = blake2b(digest_size=16)
_SAID_BY_REPR: Final = frozenset(
    {bool, bytes, date, Decimal, float, int, str, timedelta, type(None), UUID}
)
_ATOMS: Final = frozenset({bool, float, int, str, type(None)})
_ZONES: Final = frozenset({type(None), timezone, ZoneInfo})


def digest_of(value: Any, prefix: bytes = b"") -> str | None:
    """Give the digest of a value; None where no equality can be claimed, as for a frame.

    It is the same in every process. Maps and sets count in their order.
    """
    if type(value) is dict:
        for item in value.values():
            if type(item) not in _ATOMS:
                break
        else:
            made = _EMPTY.copy()
            made.update(prefix + marshal.dumps(value, 0))
            return made.hexdigest()
    try:
        # What marshal writes tells all plain types apart, but it takes buffers of any kind
        # for bytes, marked by an "s"; where there is one, JSON, which takes no buffers, is
        # asked too. What either of them refuses is looked at closely.
        text = marshal.dumps(value, 0)
        if b"s" in text:
            orjson.dumps(value, option=_PLAIN)
    except (TypeError, ValueError):
        try:
            text = "".join(_pieces(value, 0)).encode("utf-8", "surrogatepass")
        except _NoEqualityError:
            return None
    return _hashed(prefix + text)


def digest_of_plain(value: Any, prefix: bytes = b"") -> str:
    """Give the digest of a value that is known to hold only numbers, texts and lists of them."""
    return _hashed(prefix + marshal.dumps(value, 0))


def _hashed(data: bytes) -> str:
    made = _EMPTY.copy()  # a third faster than making one
    made.update(data)
    return made.hexdigest()


class _NoEqualityError(Exception):
    pass


def _pieces(value: Any, depth: int) -> Iterable[str]:
    kind = type(value)
    if kind in _SAID_BY_REPR or (kind in (datetime, time) and type(value.tzinfo) in _ZONES):
        yield f"{kind.__name__} {value!r};"
    elif depth > MAX_DEPTH:
        raise _NoEqualityError
    elif kind in (list, tuple):
        yield f"{kind.__name__} {len(value)}:"
        for item in value:
            yield from _pieces(item, depth + 1)
    elif kind is dict:
        yield f"dict {len(value)}:"
        for key, item in value.items():
            yield from _pieces(key, depth + 1)
            yield from _pieces(item, depth + 1)
    elif isinstance(value, enum.Enum):
        yield f"enum {kind.__module__}.{kind.__qualname__}.{value.name}:"
        yield from _pieces(value.value, depth + 1)
    else:
        raise _NoEqualityError
