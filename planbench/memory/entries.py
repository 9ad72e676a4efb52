"""One stored value with what is known about it, and that knowledge without the value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from planbench.errors import ArtifactRefused, ConfigurationError
from planbench.memory.frames import view
from planbench.memory.sizes import format_bytes
from planbench.plan.shapes import a, is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Sequence

EntryType = Literal["dataframe", "text", "json", "message", "binary", "object"]
ENTRY_TYPES: Final[tuple[str, ...]] = get_args(EntryType)

PLAIN: Final = frozenset({dict, list, str, int, float, bool, NoneType, bytes, tuple})
MAX_DIGITS: Final = 15
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})


class Entry:
    """One version of a stored value; nothing in it changes after it is made.

    ``value`` is the value itself; where the memory has a budget, reading it brings a
    spilled value back from its file, in the thread that reads. ``entry_type``, ``info``
    and ``length`` never do. ``created`` is seconds since the epoch, ``index`` the place in a fan-out.
    ``digest`` is that of the arguments that gave the value and ``fingerprint`` that
    of the code that ran, where both are known: an equal call need not be made again.
    """

    __slots__ = (
        "created",
        "description",
        "digest",
        "fingerprint",
        "index",
        "key",
        "memory_id",
        "nbytes",
        "node",
        "number",
        "tool",
        "value",
        "version",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - made once a put, where keywords are a third of the time
        self,
        key: str,
        value: Any,
        node: str | None,
        tool: str | None,
        index: int | None,
        nbytes: int,
        created: float,
        version: int,
        memory_id: str,
        number: int,
        description: str,
        digest: str | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.node = node
        self.tool = tool
        self.index = index
        self.nbytes = nbytes
        self.created = created
        self.version = version
        self.memory_id = memory_id
        self.number = number
        self.description = description
        self.digest = digest
        self.fingerprint = fingerprint

    @property
    def artifact_id(self) -> str:
        """The id that all versions of one key share; a dropped key comes back with another."""
        return f"{self.memory_id}-{self.number}"

    def view(self) -> Any:
        """Give the value for reading: a frame as a copy-on-write view, anything else itself."""
        value = self.value
        return value if type(value) in PLAIN else view(value)

    @property
    def entry_type(self) -> EntryType:
        """What kind of value it is, as ``entry_type_of`` tells it."""
        return entry_type_of(self.value)

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """The rows and columns, as ``shape_of`` tells them."""
        return shape_of(self.value)

    @property
    def length(self) -> int | None:
        """The value's ``len()``; None where it has none."""
        return length_of(self.value)

    @property
    def spilled(self) -> bool:
        """Whether the value stands in a file only, so that reading it takes a while."""
        return False

    def pin(self) -> None:
        """Keep the value in memory until ``unpin`` is called as often; brings a spilled one back when it is next read."""

    def unpin(self) -> None:
        """Take one ``pin`` back."""

    def info(self) -> EntryInfo:
        """Give what is known about the value, without the value."""
        rows, columns = self.shape
        return EntryInfo(
            key=self.key,
            artifact_id=self.artifact_id,
            version=self.version,
            entry_type=self.entry_type,
            nbytes=self.nbytes,
            node=self.node,
            tool=self.tool,
            index=self.index,
            rows=rows,
            columns=columns,
            created=datetime.fromtimestamp(self.created, UTC),
            description=self.description,
        )

    def __repr__(self) -> str:
        return f"<Entry {self.key!r} version {self.version}: {self.entry_type}, {format_bytes(self.nbytes)}>"


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """What is known about a stored value.

    ``rows`` and ``columns`` are those of a table, and ``rows`` also the length of a
    list; None for anything else.
    """

    key: str
    artifact_id: str
    version: int
    entry_type: EntryType
    nbytes: int
    node: str | None
    tool: str | None
    index: int | None
    rows: int | None
    columns: int | None
    created: datetime
    description: str


def items_info(node: str, items: Sequence[Entry], started: float) -> EntryInfo:
    """Give what is known about a fan-out as one list; it has no artifact id of its own."""
    last = max(items, key=lambda entry: entry.created, default=None)
    return EntryInfo(
        key=node,
        artifact_id="",
        version=max((entry.version for entry in items), default=0),
        entry_type="json",
        nbytes=sum(entry.nbytes for entry in items),
        node=node,
        tool=None if last is None else last.tool,
        index=None,
        rows=len(items),
        columns=None,
        created=datetime.fromtimestamp(started if last is None else last.created, UTC),
        description="" if last is None else last.description,
    )


def entry_type_of(value: Any) -> EntryType:
    """Tell the kind of a value from its outermost form; what lies inside is not looked at.

    ``dataframe`` is a DataFrame, a Series (a table of one column) or what has
    ``to_pandas()``; ``message`` a chat message, that is, a known ``role`` with
    ``content``, as a map or an object; ``json`` a dict, list, number, bool or None.
    A tuple, set or array is an ``object``: JSON would change it.
    """
    if type(value) is dict and "role" not in value:  # most results are
        return "json"
    try:
        return _kind(value)
    except Exception:  # noqa: BLE001 - a proxy may raise at any attribute, and is an object then
        return "object"


def _kind(value: Any) -> EntryType:
    kind: EntryType = "object"
    if isinstance(value, str):
        kind = "text"
    elif isinstance(value, bytes | bytearray | memoryview):
        kind = "binary"
    elif isinstance(value, dict):
        kind = "message" if _is_role(value.get("role")) and "content" in value else "json"
    elif isinstance(value, list | int | float | NoneType):
        kind = "json"
    elif is_frame(value) or is_series(value) or hasattr(type(value), "to_pandas"):
        kind = "dataframe"
    elif _is_role(getattr(value, "role", None)) and hasattr(value, "content"):
        kind = "message"
    return kind


def shape_of(value: Any) -> tuple[int | None, int | None]:
    """Give the rows and columns of a value, None where it has none."""
    try:
        shape = getattr(value, "shape", None)
    except Exception:  # noqa: BLE001 - as in entry_type_of
        return None, None
    if isinstance(shape, tuple) and shape and all(isinstance(size, int) for size in shape):
        if is_series(value):
            return shape[0], 1
        return shape[0], shape[1] if len(shape) > 1 else None
    return (len(value) if isinstance(value, list | tuple) else None), None


def length_of(value: Any) -> int | None:
    """Give the length of a value, None where it has none."""
    try:
        return len(value)
    except Exception:  # noqa: BLE001 - as in entry_type_of
        return None


def _is_role(value: Any) -> bool:
    return isinstance(value, str) and value in _ROLES


def kept(key: str, value: Any) -> Any:
    """Give a value as it is kept; raises ArtifactRefused for what can be read only once."""
    if hasattr(type(value), "__next__") or hasattr(type(value), "__anext__"):
        name = type(value).__name__
        raise ArtifactRefused(
            f"{key!r} is {a(name)}, which can be read only once: return a list of what it gives"
        )
    return view(value)


def artifact_parts(artifact_id: str, version: int) -> tuple[str, int]:
    """Read an artifact id of any memory; raises ConfigurationError for what is none."""
    memory_id, _, number = str(artifact_id).rpartition("-")
    fits = number.isascii() and number.isdecimal() and len(number) <= MAX_DIGITS
    whole = type(version) is int and version > 0
    if not (memory_id and fits and whole and number == str(int(number))):
        raise ConfigurationError(
            f"{str(artifact_id)[:80]!r}@{str(version)[:20]} names no version of an artifact",
            hint="an artifact id is what Entry.artifact_id gave, and versions count from 1",
        )
    return memory_id, int(number)
