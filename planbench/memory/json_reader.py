"""Values made again from JSON with tagged types.

What is read may be damaged or forged: nothing is imported or called by a stored name,
and each part is used once, so that a few bytes cannot stand for many. Whatever a wrong
tree raises here, the reader of the artifact turns into ArtifactDamaged.
"""

from __future__ import annotations

import datetime as dt
import struct
from base64 import b64decode
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, SafeUUID

from planbench.memory.json_codec import FACTORIES, PATHS
from planbench.memory.zones import read_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planbench.memory.json_codec import Part

# Above what is ever written, and below what a stack holds.
DEEPEST: Final = 260
_NESTED: Final = frozenset({dict, list})


class TreeReader:
    """Makes the value of a tree and of the parts that stand beside it.

    ``max_bytes`` bounds what a table may become in memory.
    """

    def __init__(self, parts: Sequence[Part] = (), *, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes
        self._parts: list[Part | None] = list(parts)

    def read(self, tree: Any, depth: int = 0) -> Any:
        """Make the value; raises anything for a tree that was not written by a TreeWriter."""
        kind = type(tree)
        if kind is list:
            return self.items(tree, depth)
        if kind is not dict:
            return tree
        if depth > DEEPEST:
            raise ValueError("nested too deep")
        if len(tree) == 1:
            ((key, held),) = tree.items()
            if key.startswith("$"):
                return self._tagged(key, held, depth + 1)
        made = {}
        for key, item in tree.items():
            made[key] = self.read(item, depth + 1) if type(item) in _NESTED else item
        return made

    def items(self, trees: Any, depth: int) -> list[Any]:
        """Make the values of a list of trees."""
        if type(trees) is not list or depth > DEEPEST:
            raise ValueError("not a list, or nested too deep")
        depth += 1
        return [self.read(item, depth) if type(item) in _NESTED else item for item in trees]

    def pairs(self, trees: Any, depth: int) -> list[tuple[Any, Any]]:
        """Make the keys and values of a map."""
        return [(self.read(key, depth + 2), self.read(item, depth + 2)) for key, item in trees]

    def part(self, number: Any, kind: str) -> Any:
        """Give what stands beside the tree; each part is given once."""
        if type(number) is not int or not 0 <= number < len(self._parts):
            raise ValueError("no such part")
        part = self._parts[number]
        self._parts[number] = None
        if part is None or part.kind != kind:
            raise ValueError("not the part that was named")
        return part.data

    def _tagged(self, tag: str, held: Any, depth: int) -> Any:
        read = _TAGS.get(tag)
        if read is not None:
            return read(self, held, depth)
        if tag in ARRAY_TAGS:
            from planbench.memory.array_codec import read_numpy  # noqa: PLC0415 - loads numpy

            return read_numpy(self, tag, held, depth)
        if tag in PANDAS_TAGS:
            from planbench.memory.frame_reader import read_pandas  # noqa: PLC0415 - loads pandas

            return read_pandas(self, tag, held, depth)
        raise ValueError("an unknown tag")


ARRAY_TAGS: Final = frozenset({"$number", "$array", "$objects"})
PANDAS_TAGS: Final = frozenset(
    {"$frame", "$series", "$index", "$cells", "$nat", "$na", "$timestamp", "$duration"}
    | {"$period", "$interval"}
)


def _bytes(reader: TreeReader, held: Any, depth: int) -> bytes:
    del depth
    if type(held) is int:
        return bytes(reader.part(held, "bytes"))
    return b64decode(held, validate=True)


def _float(reader: TreeReader, held: Any, depth: int) -> float:
    del reader, depth
    (value,) = struct.unpack(">d", bytes.fromhex(held))
    return float(value)


def _complex(reader: TreeReader, held: Any, depth: int) -> complex:
    real, imag = reader.items(held, depth)
    return complex(real, imag)


def _map(reader: TreeReader, held: Any, depth: int) -> dict[Any, Any]:
    return dict(reader.pairs(held, depth))


def _default(reader: TreeReader, held: Any, depth: int) -> Any:
    name, pairs = held
    return defaultdict(FACTORIES[name], reader.pairs(pairs, depth))


def _counter(reader: TreeReader, held: Any, depth: int) -> Counter[Any]:
    # Counter adds up what it is given, and its values may be of any type.
    counter: Counter[Any] = Counter()
    for key, value in reader.pairs(held, depth):
        counter[key] = value
    return counter


def _deque(reader: TreeReader, held: Any, depth: int) -> deque[Any]:
    longest, items = held
    return deque(reader.items(items, depth + 1), longest)


def _datetime(reader: TreeReader, held: Any, depth: int) -> dt.datetime:
    del reader, depth
    text, fold, zone = held
    return dt.datetime.fromisoformat(text).replace(fold=fold, tzinfo=read_zone(zone))


def _time(reader: TreeReader, held: Any, depth: int) -> dt.time:
    del reader, depth
    text, fold, zone = held
    return dt.time.fromisoformat(text).replace(fold=fold, tzinfo=read_zone(zone))


def _timedelta(reader: TreeReader, held: Any, depth: int) -> dt.timedelta:
    del reader, depth
    days, seconds, microseconds = held
    return dt.timedelta(days, seconds, microseconds)


def _uuid(reader: TreeReader, held: Any, depth: int) -> UUID:
    del reader, depth
    text, safe = held
    return UUID(text, is_safe=SafeUUID.unknown if safe is None else SafeUUID[safe])


def _path(reader: TreeReader, held: Any, depth: int) -> Any:
    name, text = held
    return PATHS[name](reader.read(text, depth))


def _range(reader: TreeReader, held: Any, depth: int) -> range:
    return range(*reader.items(held, depth))


_TAGS: Final[dict[str, Callable[[TreeReader, Any, int], Any]]] = {
    "$str": lambda _, held, __: b64decode(held, validate=True).decode("utf-8", "surrogatepass"),
    "$int": lambda _, held, __: int(held, 16),
    "$float": _float,
    "$complex": _complex,
    "$tuple": lambda reader, held, depth: tuple(reader.items(held, depth)),
    "$set": lambda reader, held, depth: set(reader.items(held, depth)),
    "$frozenset": lambda reader, held, depth: frozenset(reader.items(held, depth)),
    "$map": _map,
    "$ordered": lambda reader, held, depth: OrderedDict(reader.pairs(held, depth)),
    "$default": _default,
    "$counter": _counter,
    "$bytes": _bytes,
    "$bytearray": lambda reader, held, depth: bytearray(_bytes(reader, held, depth)),
    "$deque": _deque,
    "$datetime": _datetime,
    "$time": _time,
    "$date": lambda _, held, __: dt.date.fromisoformat(held),
    "$timedelta": _timedelta,
    "$decimal": lambda _, held, __: Decimal(held),
    "$uuid": _uuid,
    "$path": _path,
    "$range": _range,
}
