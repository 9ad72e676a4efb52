"""The plans of a folder as they are listed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Self

from planbench.errors import PlanLoadError
from planbench.validation import check_plan

if TYPE_CHECKING:
    from pathlib import Path

    from planbench.validation import ValidationReport


class PlanEntry(str):
    """The name of a plan in a folder, which also knows its ``path`` and what the file holds.

    The file is read when that is first asked for; one that is broken is no error here.
    """

    __slots__ = ("__dict__", "path")

    path: Path

    def __new__(cls, name: str, path: Path) -> Self:
        """Take the bare name and the file."""
        entry = super().__new__(cls, name)
        entry.path = path
        return entry

    @property
    def name(self) -> str:
        """The bare name, by which the plan is loaded."""
        return str(self)

    @property
    def objective(self) -> str | None:
        """What the plan is for; None when the file cannot be read."""
        plan = self._report.draft if self._report else None
        return plan.objective if plan else None

    @property
    def nodes(self) -> int:
        """How many nodes could be read."""
        plan = self._report.draft if self._report else None
        return len(plan.nodes) if plan else 0

    @property
    def ok(self) -> bool:
        """Whether the file is a plan, tools and parameters aside."""
        return self.error is None

    @functools.cached_property
    def error(self) -> str | None:
        """The first thing that is wrong with the file, in one line."""
        report = self._report
        if report is None:
            return self._unreadable
        found = (issue for issue in report.issues if issue.severity == "error")
        return next((" ".join(str(issue).split()) for issue in found), None)

    @functools.cached_property
    def _report(self) -> ValidationReport | None:
        try:
            return check_plan(self.path)
        except PlanLoadError as error:
            self._unreadable: str | None = error.message
            return None
