"""Plans in files: read from a path, or by bare name from one folder."""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.errors import PlanInvalid, PlanLoadError
from planbench.plan.collector import paused_collector
from planbench.plan.document import in_order, read_document
from planbench.plan.draft import draft
from planbench.plan.parameters import bind_document
from planbench.plan.structure import suggestion
from planbench.validation import check_plan, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import ExecutionPlan
    from planbench.validation import ValidationReport

SUFFIXES: Final = (".plan.yaml", ".yaml", ".yml", ".json")  # the longest first
_SHOWN: Final = 10
_MAX_NAME: Final = 200


def load_plan(source: str | Path, params: Mapping[str, Any] | None = None) -> ExecutionPlan:
    """Read a plan: a str is text, a Path is a file.

    Without ``params`` a plan that takes parameters comes as it is written; with them,
    also with ``{}``, they are put in. Raises PlanInvalid with every issue of the content,
    and PlanLoadError where there is nothing to read.
    """
    if isinstance(source, Path):
        return read_plan_file(source, params)
    return _loaded(source, params, None)


def read_plan_file(path: Path, params: Mapping[str, Any] | None = None) -> ExecutionPlan:
    """Read a plan file as ``load_plan`` does."""
    return _loaded(read_text(path), params, path)


def _loaded(text: Any, params: Mapping[str, Any] | None, path: Path | None) -> ExecutionPlan:
    if not isinstance(text, str):
        kind = type(text).__name__
        raise PlanLoadError(f"a plan is read from text (str) or a file (Path), not from {kind}")
    issues: list[ValidationIssue] = []
    with paused_collector():
        document = read_document(text)
        if params is not None:
            document, issues = bind_document(document, params)
        made = draft(document)
    if made.plan is None or issues:
        raise PlanInvalid(in_order([*issues, *made.issues]), path=path, name=made.name)
    return made.plan


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


Entries = list[PlanEntry]  # the store has a method of the name list
Paths = list[Path]


class PlanFileStore:
    """The plans of one folder, by bare name: no name ever leads out of it.

    A plan's file is ``<name>.yaml``, ``.yml``, ``.json`` or ``.plan.yaml``. Names are looked
    up among the files that are there, and never made into a path.
    """

    def __init__(self, plans_dir: str | Path) -> None:
        self.plans_dir = Path(plans_dir)

    def load(self, name: str, params: Mapping[str, Any] | None = None) -> ExecutionPlan:
        """Read the plan of that name; raises as ``load_plan``, and PlanLoadError for a bad name."""
        return read_plan_file(self.path(name), params)

    def path(self, name: str) -> Path:
        """Give the file of the plan of that name; raises PlanLoadError that names what there is."""
        _check_name(name)
        files = self._files()
        found = files.get(name, ())
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise PlanLoadError(
                f"the name {name!r} is not plain: there are {names}", hint="rename one of them"
            )
        if not found:
            raise PlanLoadError(f"there is no plan {name!r}", hint=self._near(name, files))
        if not self._is_inside(found[0]):
            raise PlanLoadError(f"the file of plan {name!r} leads out of the plans folder")
        return found[0]

    def _files(self) -> dict[str, Paths]:
        """Find the plan files of the folder, by name."""
        files: dict[str, Paths] = defaultdict(Paths)
        folder = self.plans_dir
        try:
            if not folder.exists():
                return files
            for path in sorted(folder.iterdir()):
                suffix = next((s for s in SUFFIXES if path.name.endswith(s)), None)
                if suffix and not path.name.startswith(".") and path.is_file():
                    files[path.name.removesuffix(suffix)].append(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it has no readable name"
            raise PlanLoadError(
                f"the plans folder {folder.name!r} cannot be read: {reason}"
            ) from error
        return files

    def _is_inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.plans_dir.resolve())
        except (OSError, RuntimeError):  # RuntimeError: links that lead round in a circle
            return False

    def _near(self, name: str, names: Iterable[str]) -> str:
        known = sorted(names)
        bare = next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name)
        if bare in known:
            return f"give the bare name: {bare!r}"
        near = suggestion(name, known)
        if near:
            return near
        more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        return f"the folder {self.plans_dir.name!r} has {', '.join(known[:_SHOWN]) or 'no plans'}{more}"

    def list(self) -> Entries:
        """Name the plans, sorted; each name knows its file and what is wrong with it.

        A folder that is not there has none. Raises PlanLoadError when it cannot be read.
        """
        entries = []
        for name, paths in sorted(self._files().items()):
            entry = PlanEntry(name, paths[0])
            if len(paths) > 1:
                entry.error = (
                    f"the name is not plain: there are {' and '.join(p.name for p in paths)}"
                )
            if all(map(self._is_inside, paths)):
                entries.append(entry)
        return entries


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name or len(name) > _MAX_NAME or not name.isprintable():
        raise PlanLoadError(f"a plan's name is plain text, not {str(name)[:60]!r}")
    if name.startswith(".") or any(sign in name for sign in "/\\:"):
        raise PlanLoadError(
            f"a plan is named by its bare name, not by a path: {name!r}",
            hint="for a file elsewhere, read it: load_plan(Path(...))",
        )
