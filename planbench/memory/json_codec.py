"""Values as JSON with tagged types, written so that each comes back as it was.

A tag is an object with one key that starts with ``$``: ``{"$tuple": [1, 2]}``. A map
that looks like one, or has keys that are no text, is written as ``{"$map": [[key,
value], ...]}``. What is large or a table stands beside the JSON as a part and is named
by its number. Only the types listed here, and those of numpy and pandas, are known;
nothing is imported and no class is looked up by a stored name.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import struct
from base64 import b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID, SafeUUID

import orjson
from pydantic import BaseModel

from planbench.memory.refusals import PLAIN_DATA, Refused, at_key
from planbench.memory.zones import write_zone
from planbench.plan.shapes import a

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# orjson writes 254 levels, of which a table takes some, and a level takes two or three calls here.
LEVELS: Final = 200
INLINE_BYTES: Final = 4_096
REPEATED: Final = 10_000_000

FACTORIES: Final[dict[str | None, Any]] = {
    None: None,
    **{kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)},
}
PATHS: Final[dict[str, type[pathlib.PurePath]]] = {
    kind.__name__: kind
    for kind in (
        pathlib.PosixPath,
        pathlib.WindowsPath,
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
    )
}
_LIGHT: Final = frozenset({str, bool, int, NoneType})
_CERTAIN: Final = frozenset({bool, NoneType})
_NUMBERS: Final = frozenset({int, float})
_INT64: Final = range(-(2**63), 2**64)


class Part(NamedTuple):
    """What stands beside the JSON: ``kind`` is bytes, npy or table."""

    kind: str
    data: Any


class TreeWriter:
    """Turns a value into a tree that orjson writes, and parts beside it.

    ``careful`` looks at each text and int for what orjson cannot write: the tree is
    made again with it when orjson refuses the first. ``doubtful`` says that something
    was written whose way back is not known to be exact: it must be read and compared.
    """

    def __init__(self, *, careful: bool = False) -> None:
        self.careful = careful
        self.doubtful = False
        self.parts: list[Part] = []
        self._plain = _CERTAIN if careful else _LIGHT
        self._sizes: dict[int, int] = {}
        self._count = 0
        self._repeated = 0

    def write(self, value: Any, depth: int = 0) -> Any:
        """Give a value as a tree; raises Refused saying where in it."""
        kind = type(value)
        if kind in self._plain:
            return value
        if depth > LEVELS:
            raise Refused(
                f"it is nested more than {LEVELS} levels deep",
                "return it flat, as a list or a table, or as text",
            )
        if kind is dict:
            return self._map(value, depth)
        if kind is list:
            return self._list(value, depth)
        tagged = _TAGGED.get(kind)
        if tagged is not None:
            return tagged(self, value, depth)
        library = kind.__module__.partition(".")[0]
        if library == "numpy":
            from planbench.memory.array_codec import write_numpy  # noqa: PLC0415 - loads numpy

            return write_numpy(self, value, depth)
        if library == "pandas":
            from planbench.memory.frame_codec import write_pandas  # noqa: PLC0415 - loads pandas

            return write_pandas(self, value, depth)
        raise unknown(value)

    def add(self, kind: str, data: Any) -> int:
        """Set something beside the JSON; gives its number."""
        self.parts.append(Part(kind, data))
        return len(self.parts) - 1

    def items(self, values: Iterable[Any], depth: int) -> list[Any]:
        """Write each of several values."""
        written: list[Any] = []
        try:
            for item in values:
                written.append(self.write(item, depth))  # noqa: PERF401 - its length is the place of a refusal
        except Refused as refused:
            raise refused.inside(at_key(len(written))) from None
        return written

    def pairs(self, value: dict[Any, Any], depth: int) -> list[Any]:
        """Write a map whose keys are of any type, in its order."""
        written = []
        for key, item in value.items():
            try:
                pair = [self.write(key, depth + 2), self.write(item, depth + 2)]
            except Refused as refused:
                raise refused.inside(at_key(key)) from None
            written.append(pair)
        return written

    def enter(self, value: Any, count: int) -> int:
        """Begin what holds that many values; refuses what holds itself, or is written without end."""
        size = self._sizes.get(id(value))
        if size is not None:
            if size < 0:
                raise Refused("it holds itself", "refer to it by a key or a number")
            self._repeated += size
            if self._repeated > REPEATED:
                raise Refused(
                    "it refers to the same values over and over, and each would be written again",
                    "return the repeated part once, and refer to it by a key or a number",
                )
        # A value lives longer than its writer, so an id is its own.
        self._sizes[id(value)] = -1
        self._count += count
        return self._count - count

    def leave(self, value: Any, before: int) -> None:
        """End what ``enter`` began."""
        self._sizes[id(value)] = self._count - before

    def _list(self, value: list[Any], depth: int) -> Any:
        kinds = set(map(type, value))
        if kinds <= self._plain:
            return value
        if kinds <= _NUMBERS and not self.careful and _all_finite(value):
            return value
        before = self.enter(value, len(value))
        written = self.items(value, depth + 1)
        self.leave(value, before)
        return written

    def _map(self, value: dict[Any, Any], depth: int) -> Any:
        before = self.enter(value, len(value))
        written: Any = {}
        plain = self._plain
        for key, item in value.items():
            if type(key) is not str or (self.careful and type(_text(self, key, 0)) is not str):
                written = None
                break
            try:
                written[key] = item if type(item) in plain else self.write(item, depth + 1)
            except Refused as refused:
                raise refused.inside(at_key(key)) from None
        if written is None or (len(written) == 1 and next(iter(written)).startswith("$")):
            written = {"$map": self.pairs(value, depth + 1)}
        self.leave(value, before)
        return written


def unknown(value: Any) -> Refused:
    """Say why a value of another type is not kept, and what to return in its place."""
    kind = type(value)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    way = None
    if isinstance(value, Enum):
        way = "return its .value"
    elif isinstance(value, BaseModel):
        way = "return value.model_dump()"
    elif is_dataclass(value) and not isinstance(value, type):
        way = "return dataclasses.asdict(value)"
    elif isinstance(value, tuple) and hasattr(kind, "_asdict"):
        way = "return value._asdict() or tuple(value)"
    elif hasattr(kind, "to_pandas"):
        way = "return value.to_pandas()"
    return Refused(
        f"{a(name)} cannot be kept as it is: its class may be another one, or none, where it is read",
        PLAIN_DATA if way is None else f"{way}, or {PLAIN_DATA}",
    )


def _all_finite(values: list[Any]) -> bool:
    try:
        return all(map(isfinite, values))
    except OverflowError:
        return False


def _text(writer: TreeWriter, value: str, depth: int) -> Any:
    """Give text that is no UTF-8 (it holds half of a surrogate pair) by its bytes."""
    del writer, depth
    if value.isascii():
        return value
    raw = value.encode("utf-8", "surrogatepass")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"$str": b64encode(raw).decode()}
    return value


def _int(writer: TreeWriter, value: int, depth: int) -> Any:
    del writer, depth
    return value if value in _INT64 else {"$int": f"{value:x}"}


def _float(writer: TreeWriter, value: float, depth: int) -> Any:
    del writer, depth
    return value if isfinite(value) else {"$float": struct.pack(">d", value).hex()}


def _complex(writer: TreeWriter, value: complex, depth: int) -> Any:
    return {"$complex": [_float(writer, value.real, depth), _float(writer, value.imag, depth)]}


def _tuple(writer: TreeWriter, value: tuple[Any, ...], depth: int) -> Any:
    before = writer.enter(value, len(value))
    written = writer.items(value, depth + 2)
    writer.leave(value, before)
    return {"$tuple": written}


def _set(writer: TreeWriter, value: set[Any] | frozenset[Any], depth: int) -> Any:
    before = writer.enter(value, len(value))
    try:
        members = [writer.write(member, depth + 2) for member in value]
    except Refused as refused:
        raise refused.inside("a member of the set") from None
    writer.leave(value, before)
    # Equal sets are to give equal bytes, in whichever order they hold their members.
    return {f"${type(value).__name__}": sorted(members, key=orjson.dumps)}


def _bytes(writer: TreeWriter, value: bytes | bytearray, depth: int) -> Any:
    del depth
    tag = f"${type(value).__name__}"
    if len(value) > INLINE_BYTES:
        return {tag: writer.add("bytes", bytes(value))}
    return {tag: b64encode(value).decode()}


def _mapping(writer: TreeWriter, value: Any, depth: int) -> Any:
    """Write the maps of ``collections``."""
    kind = type(value)
    if getattr(value, "__dict__", None):
        raise Refused(f"{a(kind.__name__)} with attributes of its own cannot be kept as it is")
    before = writer.enter(value, len(value))
    written = writer.pairs(value, depth + 2)
    writer.leave(value, before)
    if kind is not defaultdict:
        return {"$ordered" if kind is OrderedDict else "$counter": written}
    for name, factory in FACTORIES.items():
        if value.default_factory is factory:
            return {"$default": [name, written]}
    raise Refused(
        "a defaultdict whose factory is no plain type, such as list or int, cannot be kept as it is",
        "return dict(value)",
    )


def _deque(writer: TreeWriter, value: deque[Any], depth: int) -> Any:
    before = writer.enter(value, len(value))
    written = writer.items(value, depth + 3)
    writer.leave(value, before)
    return {"$deque": [value.maxlen, written]}


def _moment(writer: TreeWriter, value: dt.datetime | dt.time, depth: int) -> Any:
    del writer, depth
    zone = value.tzinfo
    if zone is not None and type(zone).__module__.partition(".")[0] == "pytz":
        raise Refused("a datetime with a pytz zone is not kept", "use zoneinfo.ZoneInfo")
    naive = value.replace(tzinfo=None).isoformat()
    return {f"${type(value).__name__}": [naive, value.fold, write_zone(zone)]}


def _date(writer: TreeWriter, value: dt.date, depth: int) -> Any:
    del writer, depth
    return {"$date": value.isoformat()}


def _timedelta(writer: TreeWriter, value: dt.timedelta, depth: int) -> Any:
    del writer, depth
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


def _decimal(writer: TreeWriter, value: Decimal, depth: int) -> Any:
    del writer, depth
    return {"$decimal": str(value)}


def _uuid(writer: TreeWriter, value: UUID, depth: int) -> Any:
    del writer, depth
    safe = None if value.is_safe is SafeUUID.unknown else value.is_safe.name
    return {"$uuid": [value.hex, safe]}


def _path(writer: TreeWriter, value: pathlib.PurePath, depth: int) -> Any:
    return {"$path": [type(value).__name__, _text(writer, str(value), depth)]}


def _range(writer: TreeWriter, value: range, depth: int) -> Any:
    return {"$range": [_int(writer, n, depth) for n in (value.start, value.stop, value.step)]}


_TAGGED: Final[dict[type, Callable[[TreeWriter, Any, int], Any]]] = {
    str: _text,
    int: _int,
    float: _float,
    complex: _complex,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    bytes: _bytes,
    bytearray: _bytes,
    OrderedDict: _mapping,
    defaultdict: _mapping,
    Counter: _mapping,
    deque: _deque,
    dt.datetime: _moment,
    dt.time: _moment,
    dt.date: _date,
    dt.timedelta: _timedelta,
    Decimal: _decimal,
    UUID: _uuid,
    range: _range,
    **dict.fromkeys(PATHS.values(), _path),
}
