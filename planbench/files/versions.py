"""Every saved text of a plan, under a number that never means another text."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict

from planbench.errors import PlanLoadError
from planbench.files.atomic import create_once
from planbench.plan.document import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER: Final = ".versions"
_FILE: Final = re.compile(r"([1-9][0-9]{0,8})\.yaml")
_SHOWN: Final = 10


class PlanVersion(BaseModel):
    """One version of a plan.

    ``saved_at`` is the time of its file, ``sha256`` that of its bytes. ``objective`` and
    ``model`` are what the text says of its origin; the plan's own objective stands in
    for one that is not given, and a text that is no plan has neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int
    saved_at: AwareDatetime
    sha256: str
    objective: str | None = None
    model: str | None = None


class Versions:
    """The versions of one plan: ``.versions/<name>/<number>.yaml``, each written once.

    A plan file that was edited by hand stands under the next number, which it gets for
    good when the plan is saved the next time.
    """

    def __init__(self, plans_dir: Path, name: str) -> None:
        self.name = name
        self._plans_dir = plans_dir
        self._folder = plans_dir / FOLDER / name

    def numbers(self) -> list[int]:
        """Give the numbers that are taken, the lowest first."""
        self._check_inside(self._folder)
        try:
            found = [_FILE.fullmatch(path.name) for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(error) from error
        return sorted(int(match[1]) for match in found if match)

    def path(self, number: int) -> Path:
        """Give the file of a version that is kept."""
        path = self._folder / f"{number}.yaml"
        self._check_inside(path)
        return path

    def read(self, number: int) -> bytes:
        """Give the bytes of a version that is kept."""
        try:
            return self.path(number).read_bytes()
        except OSError as error:
            raise self._unreadable(error) from error

    def number_of(self, data: bytes) -> int | None:
        """Give the latest number under which these bytes are kept."""
        return next((n for n in reversed(self.numbers()) if self._holds(n, data)), None)

    def keep(self, data: bytes) -> int:
        """Keep the bytes under the next number; of several at once each gets its own.

        Raises OSError.
        """
        self._check_inside(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        number = max(self.numbers(), default=0) + 1
        while not create_once(self.path(number), data):
            number += 1
        return number

    def find(self, number: int, current: Path | None) -> Path:
        """Give the file of a version, ``current`` being the plan's own; raises PlanLoadError."""
        taken = self.numbers()
        if number in taken:
            return self.path(number)
        if current is not None and number == max(taken, default=0) + 1 and self._is_new(current):
            return current
        known = [version.version for version in self.history(current)]
        shown = ", ".join(map(str, known[-_SHOWN:])) or "none"
        raise PlanLoadError(
            f"plan {self.name!r} has no version {number}",
            hint=f"versions: {'..., ' if len(known) > _SHOWN else ''}{shown}",
        )

    def latest(self, current: Path | None) -> int:
        """Give the latest number, ``current`` counted where it is not kept yet; 0 for none."""
        taken = max(self.numbers(), default=0)
        return taken + (current is not None and self._is_new(current))

    def history(self, current: Path | None) -> list[PlanVersion]:
        """Describe every version, the oldest first, and ``current`` where it is not kept yet."""
        found = list(self._kept())
        if current is not None and self._is_new(current):
            number = found[-1].version + 1 if found else 1
            found.append(_described(number, current))
        return found

    def _kept(self) -> Iterator[PlanVersion]:
        for number in self.numbers():
            try:
                yield _described(number, self.path(number))
            except OSError as error:
                raise self._unreadable(error) from error

    def _is_new(self, current: Path) -> bool:
        try:
            return self.number_of(current.read_bytes()) is None
        except OSError as error:
            raise self._unreadable(error) from error

    def _holds(self, number: int, data: bytes) -> bool:
        path = self.path(number)
        try:
            return path.stat().st_size == len(data) and path.read_bytes() == data
        except OSError as error:
            raise self._unreadable(error) from error

    def _check_inside(self, path: Path) -> None:
        try:
            inside = path.resolve().is_relative_to(self._plans_dir.resolve())
        except (OSError, RuntimeError):  # RuntimeError: links that lead round in a circle
            inside = False
        if not inside:
            raise PlanLoadError(
                f"the versions of plan {self.name!r} lead out of the plans folder",
                hint=f"{FOLDER} in the plans folder must be a folder, not a link elsewhere",
            )

    def _unreadable(self, error: OSError) -> PlanLoadError:
        reason = error.strerror or type(error).__name__
        return PlanLoadError(f"the versions of plan {self.name!r} cannot be read: {reason}")


def _described(number: int, path: Path) -> PlanVersion:
    data = path.read_bytes()
    record: Any = read_document(data.decode("utf-8", "surrogateescape")).value
    origin = record.get("provenance") if isinstance(record, dict) else None
    objective = _text(origin, "objective") or _text(record, "objective")
    return PlanVersion(
        version=number,
        saved_at=datetime.fromtimestamp(path.stat().st_mtime, UTC),
        sha256=hashlib.sha256(data).hexdigest(),
        objective=objective,
        model=_text(origin, "model"),
    )


def _text(record: Any, key: str) -> str | None:
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else None
