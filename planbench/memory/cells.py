"""A value that may be in memory or in a file, and the entries that read it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from planbench.memory.entries import Entry, EntryType, entry_type_of, length_of, shape_of
from planbench.plan.shapes import is_frame, is_series

if TYPE_CHECKING:
    from planbench.memory.budget import Budget
    from planbench.memory.spill import SpillFile

_AWAY: Final = object()


class _About(NamedTuple):
    """What is known of a value while it is away."""

    entry_type: EntryType
    shape: tuple[int | None, int | None]
    length: int | None


class Cell:
    """One value, in memory or in its file; the entries of one version share it."""

    __slots__ = (
        "__weakref__",
        "_held",
        "about",
        "budget",
        "file",
        "nbytes",
        "number",
        "pins",
        "refused",
    )

    def __init__(self, budget: Budget, number: int, value: Any, nbytes: int) -> None:
        self.budget = budget
        self.number = number
        self.nbytes = nbytes
        self.file: SpillFile | None = None
        self.about: _About | None = None
        self.refused: str | None = None
        self.pins = 0
        self._held = value

    def __del__(self) -> None:
        # This may happen anywhere, also while the budget is at work in the same thread.
        held = None if self._held is _AWAY else id(self._held)
        self.budget.gone.append((self.number, self.nbytes, held, self.file))

    @property
    def away(self) -> bool:
        """Whether the value is in its file only."""
        return self._held is _AWAY

    def read(self) -> Any:
        """Give the value; what is away comes back from its file."""
        value = self._held
        if value is _AWAY:
            return self.budget.load(self)
        self.budget.touch(self)
        return value

    def known(self) -> _About:
        """Say what the value is, without reading a file."""
        if self.about is not None:
            return self.about
        value = self._held  # only what has been described goes away
        return _About(entry_type_of(value), shape_of(value), length_of(value))

    def describe(self) -> None:
        """Note what is to be known of the value while it is away."""
        self.about = self.known()

    def put(self, value: Any) -> None:
        """Take the value back into memory."""
        self._held = value

    def held(self) -> Any:
        """Give what is in memory, without counting that as a use."""
        return self._held

    def drop(self) -> None:
        """Let the value go; its file has it."""
        self._held = _AWAY

    def in_use(self, holders: Holders) -> bool:
        """Whether anybody but cells holds the value, or for a frame any part of it."""
        if self.pins or _references(self) > ALONE + holders.others(self._held):
            return True
        value = self._held
        return (is_frame(value) or is_series(value)) and _is_shared(value, holders)


class _Probe:
    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray(1)


def _references(cell: Cell | _Probe) -> int:
    return sys.getrefcount(cell._held)  # noqa: SLF001 - a method between would hold the value too


ALONE: Final = _references(_Probe())
"""What the count says of a value that only its cell holds: that differs by Python."""


class Holders(Protocol):
    """What is known of the cells that hold values now."""

    def others(self, value: Any) -> int:
        """Count the other cells that hold this very object."""
        ...

    @property
    def blocks(self) -> set[int]:
        """The ids of the blocks of all frames that cells hold."""
        ...


def block_ids(value: Any) -> set[int]:
    """Give the ids of the blocks of a frame or Series; nothing for anything else."""
    try:
        return {id(block) for block in value._mgr.blocks}  # noqa: SLF001 - pandas has no public word for it
    except AttributeError:
        return set()


def _is_shared(value: Any, holders: Holders) -> bool:
    """Whether a frame or Series outside of the cells shares the buffers of this one.

    pandas tracks for copy-on-write who does.
    """
    try:
        blocks = value._mgr.blocks  # noqa: SLF001 - as above
        if not any(block.refs.has_reference() for block in blocks):
            return False
        known = [one() for block in blocks for one in block.refs.referenced_blocks]
    except AttributeError:
        return False
    sharing = {id(one) for one in known if one is not None} - block_ids(value)
    return bool(sharing - holders.blocks)


class BudgetedEntry(Entry):
    """An entry whose value may be in a file."""

    __slots__ = ("cell",)

    @property
    def value(self) -> Any:
        """The value; one that was spilled is read back."""
        return self.cell.read()

    @value.setter
    def value(self, cell: Any) -> None:
        # An entry is made with its cell in the place of the value.
        self.cell: Cell = cell

    def __copy__(self) -> BudgetedEntry:
        return BudgetedEntry(
            self.key,
            self.cell,
            self.node,
            self.tool,
            self.index,
            self.nbytes,
            self.created,
            self.version,
            self.memory_id,
            self.number,
            self.description,
            self.digest,
            self.fingerprint,
        )

    @property
    def entry_type(self) -> EntryType:
        """What kind of value it is."""
        return self.cell.known().entry_type

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """The rows and columns."""
        return self.cell.known().shape

    @property
    def length(self) -> int | None:
        """The value's ``len()``; None where it has none."""
        return self.cell.known().length

    @property
    def spilled(self) -> bool:
        """Whether the value stands in a file only."""
        return self.cell.away

    def pin(self) -> None:
        """Keep the value in memory until ``unpin``."""
        self.cell.budget.pin(self.cell, 1)

    def unpin(self) -> None:
        """Take one ``pin`` back."""
        self.cell.budget.pin(self.cell, -1)
