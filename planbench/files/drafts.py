"""Drafts: what a model wrote and nobody has saved yet, each in a file that is never replaced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planbench.errors import PlanLoadError
from planbench.files.atomic import create_once
from planbench.files.names import plan_name

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = "drafts"
"""The folder of the drafts in a plans folder; their names begin with it, as ``drafts/sweep-1``."""
_OTHER: Final = re.compile(r"[^\w-]+")
_LONGEST: Final = 80


def draft_of(name: object) -> str | None:
    """Give the name of a draft without its folder; None for any other name."""
    if isinstance(name, str) and name.startswith(f"{FOLDER}/"):
        return name.removeprefix(f"{FOLDER}/")
    return None


class Drafts:
    """The drafts of one plans folder: ``drafts/<name>-<number>.yaml``."""

    def __init__(self, plans_dir: Path) -> None:
        self._plans_dir = plans_dir
        self._folder = plans_dir / FOLDER

    def folder(self) -> Path:
        """Give the folder, whether it is there or not; raises PlanLoadError where it leads elsewhere."""
        try:
            inside = self._folder.resolve().is_relative_to(self._plans_dir.resolve())
        except (OSError, RuntimeError):  # RuntimeError: links that lead round in a circle
            inside = False
        if not inside:
            raise PlanLoadError("the folder of the drafts leads out of the plans folder")
        return self._folder

    def keep(self, text: str, name: str) -> str:
        """Write a text under the next number of a name; gives the draft's name.

        What cannot stand in a file's name becomes ``_``. Raises PlanLoadError.
        """
        folder, stem = self.folder(), _stem(name)
        data = text.encode("utf-8", "replace")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = max(self._numbers(stem), default=0) + 1
            while not create_once(folder / f"{stem}-{number}.yaml", data):
                number += 1
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PlanLoadError(
                f"the draft of plan {name!r} cannot be written: {reason}"
            ) from error
        return f"{FOLDER}/{stem}-{number}"

    def latest(self, name: str) -> str | None:
        """Give the name of the latest draft of a plan; None where there is none."""
        stem = _stem(name)
        number = max(self._numbers(stem), default=0)
        return f"{FOLDER}/{stem}-{number}" if number else None

    def names(self) -> list[str]:
        """Name the drafts, sorted; none where there is no folder."""
        try:
            found = [path.name for path in self.folder().iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PlanLoadError(f"the drafts cannot be read: {reason}") from error
        return sorted(f"{FOLDER}/{name}" for name in map(plan_name, found) if name is not None)

    def _numbers(self, stem: str) -> list[int]:
        numbered = re.compile(rf"{FOLDER}/{re.escape(stem)}-([1-9][0-9]{{0,8}})")
        return [int(match[1]) for match in map(numbered.fullmatch, self.names()) if match]


def _stem(name: str) -> str:
    return _OTHER.sub("_", name)[:_LONGEST].strip("_-") or "plan"
