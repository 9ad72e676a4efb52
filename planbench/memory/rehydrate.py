"""A stored value as plain JSON, for an agent that asks for all of it: never more than a ceiling."""

from __future__ import annotations

import base64
import datetime as dt
import enum
import json
import math
import sys
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from planbench.errors import ArtifactRefused
from planbench.memory.frames import as_record, to_frame
from planbench.plan.shapes import a, describe, is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Callable

_DEPTH: Final = 100
_LONGEST_INT: Final = 10_000
"""Bits of the largest whole number: Python writes few more digits than those, and readers of JSON far fewer."""
_AS_THEY_ARE: Final = frozenset({NoneType, bool, int, str})
_BUILT_ON: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}
_TEXTS: Final = (Decimal, UUID, dt.timedelta)
_TIMES: Final = (dt.date, dt.time)


class OverCeilingError(Exception):
    """Raised when the JSON would be larger than was allowed; nothing of it is given then."""


def plain_json(value: Any, ceiling: int) -> Any:
    """Give a value as JSON has it, in at most ``ceiling`` bytes of UTF-8.

    A table becomes ``columns`` and ``rows``, binary ``base64``, times ISO text, a Decimal
    text, what is not a number null, keys text, tuples and sets lists. Raises
    ArtifactRefused naming the place of what has no such form, and OverCeilingError.
    """
    made = _Walk(ceiling).plain(value, "", 0)
    if encoded_size(made) > ceiling:
        raise OverCeilingError
    return made


def encoded_size(value: Any) -> int:
    """Count the bytes of plain JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_json(value: Any, place: str = "data", depth: int = 0) -> None:
    """Raise ArtifactRefused, naming the place, for what JSON would change or cannot hold."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return
    if kind is float and math.isfinite(value):
        return
    if depth > _DEPTH:
        raise ArtifactRefused(f"{place[:200]} lies deeper than {_DEPTH} levels")
    if kind is list:
        for at, item in enumerate(value):
            check_json(item, f"{place}[{at}]", depth + 1)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise ArtifactRefused(
                    f"{place[:200]} has a key that is {a(describe(key))}, not text"
                )
            check_json(item, f"{place}.{key[:60]}", depth + 1)
    else:
        said = "no finite number" if kind is float else a(describe(value))
        raise ArtifactRefused(
            f"{place[:200]} is {said}, which JSON does not have",
            hint="store maps, lists, texts, finite numbers, true, false and null",
        )


class _Walk:
    """Makes JSON of a value, and stops as soon as there is more of it than allowed."""

    def __init__(self, ceiling: int) -> None:
        self._left = ceiling

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise OverCeilingError

    def plain(self, value: Any, place: str, depth: int) -> Any:  # noqa: PLR0911 - as in _simpler
        kind = type(value)
        if kind is str:
            self._spend(len(value) + 2)
            return value
        self._spend(1)
        if kind is float:
            return value if math.isfinite(value) else None
        if kind in _AS_THEY_ARE:
            return self._number(value, place) if kind is int else value
        if depth > _DEPTH:
            raise ArtifactRefused(f"{place[:200]} lies deeper than {_DEPTH} levels")
        if isinstance(value, bytes | bytearray | memoryview):
            self._spend(4 * -(-len(value) // 3))
            return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
        if is_frame(value) or is_series(value) or hasattr(kind, "to_pandas"):
            return self._table(to_frame(value), place, depth)
        fields = as_record(value)
        if fields is not None:
            return self._map(fields, place, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [self.plain(v, f"{place}[{at}]", depth + 1) for at, v in enumerate(value)]
        return self._scalar(value, place, depth)

    def _map(self, fields: dict[Any, Any], place: str, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in fields.items():
            name = self._key(key, place)
            if name in made:
                raise ArtifactRefused(
                    f"{place[:200].lstrip('.') or 'the value'} has two keys that JSON writes as {name[:60]!r}"
                )
            made[name] = self.plain(item, f"{place}.{_short(key)}", depth + 1)
        return made

    def _number(self, value: int, place: str) -> int:
        if value.bit_length() > _LONGEST_INT:
            raise ArtifactRefused(
                f"{place[:200].lstrip('.') or 'the value'} is a whole number of {value.bit_length():,} bits, "
                f"which is too long to be written"
            )
        return value

    def _table(self, frame: Any, place: str, depth: int) -> dict[str, Any]:
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index(allow_duplicates=True)
        columns = [self._key(name, place) for name in frame.columns]
        rows = [
            [
                self.plain(cell, f"{place}[{at}].{columns[number][:60]}", depth + 1)
                for number, cell in enumerate(row)
            ]
            for at, row in enumerate(frame.itertuples(index=False, name=None))
        ]
        return {"columns": columns, "rows": rows}

    def _key(self, key: Any, place: str) -> str:
        if isinstance(key, str):
            text = str.__str__(key)
        elif key is None or isinstance(key, bool | int | float):
            text = json.dumps(self._number(key, place) if isinstance(key, int) else key)
        else:
            made = self._scalar(key, place, 0)
            text = made if isinstance(made, str) else json.dumps(made)
        self._spend(len(text) + 2)
        return text

    def _scalar(self, value: Any, place: str, depth: int) -> Any:
        simpler = _simpler(value)
        if simpler is value:
            raise ArtifactRefused(
                f"{place[:200].lstrip('.') or 'the value'} is {a(describe(value))}, which has no form in JSON",
                hint="its summary says what is known; wm_compute makes a table of what has named fields",
            )
        return self.plain(simpler, place, depth + 1)


def _simpler(value: Any) -> Any:
    """Give something nearer to JSON, or the value itself where there is nothing."""
    if isinstance(value, enum.Enum):
        return value.value
    for kind, plain in _BUILT_ON.items():
        if isinstance(value, kind):
            return plain(value)
    if _is_missing(value):
        return None
    if isinstance(value, _TIMES):
        return value.isoformat()
    if isinstance(value, _TEXTS) or type(value).__module__.partition(".")[0] == "pandas":
        return str(value)
    return _of_numpy(value)


def _of_numpy(value: Any) -> Any:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return value
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    if isinstance(value, numpy.datetime64 | numpy.timedelta64):
        return str(value)
    return value.item() if isinstance(value, numpy.generic) else value


def _is_missing(value: Any) -> bool:
    pandas: Any = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def _short(key: Any) -> str:
    return key[:60] if isinstance(key, str) else describe(key)
