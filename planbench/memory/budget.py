"""How much of a working memory stays in memory: values used longest ago go to files."""

from __future__ import annotations

import functools
import logging
import weakref
from collections import OrderedDict, deque
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import ArtifactRefused, ConfigurationError
from planbench.memory.cells import BudgetedEntry, Cell, block_ids
from planbench.memory.release import give_back
from planbench.memory.sizes import format_bytes
from planbench.memory.spill import SpillFolder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from planbench.memory.entries import Entry
    from planbench.memory.spill import SpillFile

SMALLEST: Final = 64
"""Bytes up to which a value is not spilled: the name of its file would take more."""
LOOKED_AT: Final = 250
"""Values that are looked at in one go for one that nobody uses."""
FAR: Final = 64_000_000
"""Bytes over the budget, a quarter of it at most, at which a put spills at once."""
GIVEN_BACK: Final = 8_000_000
"""Freed bytes after which the allocators are asked to return them."""
TIDIED: Final = 500
"""Files that are removed in one go."""

_logger = logging.getLogger(__name__)


class MemoryUsage(NamedTuple):
    """Where the values of a working memory are; bytes are those measured when they were put.

    ``resident_bytes`` counts what is in memory, also what only a run still holds, and
    ``unspillable`` says by key why a value cannot go to a file, as far as that was tried.
    """

    max_bytes: int | None
    resident_bytes: int
    spilled_bytes: int
    resident: int
    spilled: int
    unspillable: dict[str, str]


class _Holders:
    """Who holds what, as it is while room is made once; the frames are looked at when one is shared."""

    def __init__(self, same: dict[int, int], order: OrderedDict[int, weakref.ref[Cell]]) -> None:
        self._same = same
        self._order = order

    def others(self, value: Any) -> int:
        return self._same.get(id(value), 1) - 1

    @functools.cached_property
    def blocks(self) -> set[int]:
        cells = (reference() for reference in self._order.values())
        found = (block_ids(cell.held()) for cell in cells if cell is not None)
        return set().union(*found)


class Budget:
    """Counts what is in memory, and spills what was used longest ago when that is too much.

    Everything may be called from any thread. Nothing slow happens under the lock:
    values are encoded, written and read outside of it.
    """

    def __init__(self, max_bytes: int, spill_dir: str | Path | None) -> None:
        if type(max_bytes) is not int or max_bytes < 1:
            raise ConfigurationError(
                f"max_bytes is a whole number above 0, not {max_bytes!r}",
                hint="leave it out for a memory without a limit",
            )
        self.max_bytes = max_bytes
        self.gone: deque[tuple[int, int, int | None, SpillFile | None]] = deque()
        self._most = max_bytes + min(max_bytes // 4, FAR)
        self._folder = SpillFolder(spill_dir)
        self._lock = RLock()  # what is freed under it may call back
        self._turn = RLock()
        self._numbers = count()
        self._order: OrderedDict[int, weakref.ref[Cell]] = OrderedDict()
        self._same: dict[int, int] = {}
        self._litter: deque[str] = deque()
        self._resident = 0
        self._spilled = 0
        self._moving = 0
        self._freed = 0
        self._warned: set[bool] = set()

    # -- values come, are used, and go ------------------------------------------------

    def entry(self, key: str, value: Any, *rest: Any) -> Entry:
        """Make an entry, as ``Entry`` does; far over the budget others are spilled at once."""
        nbytes: int = rest[3]
        cell = Cell(self, next(self._numbers), value, nbytes)
        with self._lock:
            if self.gone:
                self._settle()
            self._resident += nbytes
            if nbytes > SMALLEST:
                self._order[cell.number] = weakref.ref(cell)
            self._count(id(value), 1)
        entry = BudgetedEntry(key, cell, *rest)
        if self._resident + self._moving > self._most:
            self.make_room(self._most)
        return entry

    def touch(self, cell: Cell) -> None:
        """Count the value as used now."""
        with self._lock:
            if cell.number in self._order:
                self._order.move_to_end(cell.number)

    def goes_first(self, entry: Entry) -> None:
        """Let a superseded version be the next to go, unless it is used again."""
        assert isinstance(entry, BudgetedEntry)
        with self._lock:
            if entry.cell.number in self._order:
                self._order.move_to_end(entry.cell.number, last=False)

    def pin(self, cell: Cell, by: int) -> None:
        """Count who needs the value to stay."""
        with self._lock:
            cell.pins += by

    def load(self, cell: Cell) -> Any:
        """Bring a value back; its file stays, so that it can go again at no cost."""
        file = cell.file
        assert file is not None
        self._move(cell.nbytes)
        try:
            self.make_room()
            value = self._folder.read(file)
        finally:
            self._move(-cell.nbytes)
        with self._lock:
            if not cell.away:
                return cell.held()  # another thread was faster, and all get the same object
            cell.put(value)
            self._count(id(value), 1)
            self._resident += cell.nbytes
            self._spilled -= cell.nbytes
            self._order[cell.number] = weakref.ref(cell)
        return value

    def _count(self, held: int, by: int) -> None:
        """Count the cells that hold an object: they alone do not keep it in use."""
        count = self._same.get(held, 0) + by
        if count:
            self._same[held] = count
        else:
            self._same.pop(held, None)

    def _move(self, nbytes: int) -> None:
        with self._lock:
            self._moving += nbytes

    # -- what is where -----------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether there is more in memory than there should be, and something that may go."""
        if self.gone:
            with self._lock:
                self._settle()
        return self._resident + self._moving > self.max_bytes and bool(self._order)

    @property
    def resident_bytes(self) -> int:
        """The bytes in memory."""
        with self._lock:
            self._settle()
            return self._resident

    @property
    def spilled_bytes(self) -> int:
        """The bytes in files only."""
        with self._lock:
            self._settle()
            return self._spilled

    # -- spilling ------------------------------------------------------------------------

    def spill(self) -> None:
        """Keep the budget, one thread at a time: what many encode at once takes memory too."""
        with self._turn:
            self.make_room()

    def make_room(self, most: int | None = None) -> None:
        """Spill until at most ``most`` bytes are in memory, the budget unless given."""
        wanted = self.max_bytes if most is None else most
        holders = _Holders(self._same, self._order)
        while (cell := self._next(wanted, holders)) is not None:
            if not self._send(cell, holders):
                break
        if most is None:
            self.tidy()

    def _next(self, most: int, holders: _Holders) -> Cell | None:
        """Take the value that was used longest ago and that nobody uses out of the order."""
        with self._lock:
            self._settle()
            looks = min(len(self._order), LOOKED_AT)
            while self._order and self._resident + self._moving > most:
                number, reference = next(iter(self._order.items()))
                cell = reference()
                if cell is None:
                    del self._order[number]
                elif not cell.in_use(holders):
                    del self._order[number]
                    self._moving -= cell.nbytes
                    return cell
                elif looks > 0:
                    looks -= 1
                    self._order.move_to_end(number)
                else:
                    break
                del cell
        return None

    def _send(self, cell: Cell, holders: _Holders) -> bool:
        """Let a value go, to its file where it has none yet; whether spilling can go on."""
        trouble = None
        if cell.file is None:
            try:
                cell.describe()
                cell.file = self._folder.write(cell.held())
            except OSError as error:
                trouble = f"values cannot be spilled: {error.strerror or error}"
            except ArtifactRefused as error:
                cell.refused = error.message
            except Exception as error:  # noqa: BLE001 - a value that breaks a codec is one that stays
                cell.refused = f"{type(error).__name__}: {error}"[:300]
        with self._lock:
            self._moving += cell.nbytes
            if cell.refused is None and (cell.file is None or cell.in_use(holders)):
                self._order[cell.number] = weakref.ref(cell)
            elif cell.refused is None:
                self._count(id(cell.held()), -1)
                cell.drop()
                self._resident -= cell.nbytes
                self._spilled += cell.nbytes
                self._freed += cell.nbytes
        said = trouble or cell.refused
        if said is not None and (trouble is None) not in self._warned:  # once for each of the two
            self._warned.add(trouble is None)
            rest = "" if trouble else "; memory.usage() lists such values"
            size = format_bytes(cell.nbytes)
            _logger.warning("a value of %s stays in memory: %s%s", size, said, rest)
        return trouble is None

    def _settle(self) -> None:
        """Take those that were collected out of the count; under the lock."""
        while self.gone:
            number, nbytes, held, file = self.gone.popleft()
            self._order.pop(number, None)
            if held is None:
                self._spilled -= nbytes
            else:
                self._count(held, -1)
                self._resident -= nbytes
                self._freed += nbytes
            if file is not None:
                self._litter.append(file.path)

    def tidy(self) -> None:
        """Give back what is free, and remove the files of values that are gone, some hundreds at a time."""
        with self._lock:
            self._settle()
            much = self._freed > GIVEN_BACK
            self._freed = 0 if much else self._freed
        if much:
            give_back()
        paths: list[str] = []
        while self._litter and len(paths) < TIDIED:
            paths.append(self._litter.popleft())
        if paths:
            self._folder.remove(paths)


def usage_of(budget: Budget | None, resident_bytes: int, entries: Iterable[Entry]) -> MemoryUsage:
    """Say where the values of these entries are."""
    resident = spilled = 0
    unspillable = {}
    for entry in entries:
        if entry.spilled:
            spilled += 1
        else:
            resident += 1
        if isinstance(entry, BudgetedEntry) and entry.cell.refused is not None:
            unspillable[entry.key] = entry.cell.refused
    if budget is None:
        return MemoryUsage(None, resident_bytes, 0, resident, spilled, unspillable)
    away = budget.spilled_bytes
    return MemoryUsage(budget.max_bytes, resident_bytes, away, resident, spilled, unspillable)
