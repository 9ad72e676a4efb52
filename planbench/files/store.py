"""The plans of one folder, by bare name: found, loaded, saved, with every version kept."""

from __future__ import annotations

import codecs
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ConfigurationError, PlanInvalid, PlanLoadError
from planbench.files.atomic import write_whole
from planbench.files.drafts import Drafts, draft_of
from planbench.files.entries import PlanEntry
from planbench.files.git import read_committed
from planbench.files.loading import plan_of
from planbench.files.lock import format_lock, read_lock
from planbench.files.names import (
    LOCK_SUFFIX,
    SUFFIXES,
    Wanted,
    check_name,
    check_new_name,
    plan_name,
    read_wanted,
)
from planbench.files.versions import Versions
from planbench.plan.diff import diff_plans
from planbench.plan.model import ExecutionPlan
from planbench.plan.source import shown
from planbench.plan.structure import suggestion
from planbench.validation import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.files.lock import PlanLock
    from planbench.files.versions import PlanVersion

_SHOWN: Final = 10
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Entries = list[PlanEntry]  # the store has a method of the name list
Paths = list[Path]


class PlanFileStore:
    """The plans of one folder, by bare name: no name ever leads out of it.

    A plan's file is ``<name>.yaml``, ``.yml``, ``.json`` or ``.plan.yaml``. Names are looked
    up among the files that are there, and never made into a path. ``name@2`` is the second
    version that was saved, and ``name@<ref>`` the plan as a git commit, branch or tag has it.
    ``drafts/<name>`` is one of ``drafts``, which can be read and not saved to.
    """

    def __init__(self, plans_dir: str | Path) -> None:
        if not isinstance(plans_dir, str | os.PathLike):
            raise ConfigurationError(
                f"plans_dir is the path of a folder, not {shown(plans_dir)}",
                hint='write: plans_dir="plans"',
            )
        self.plans_dir = Path(plans_dir)

    @property
    def drafts(self) -> Drafts:
        """What models wrote and nobody has saved yet."""
        return Drafts(self.plans_dir)

    def load(self, name: str, params: Mapping[str, Any] | None = None) -> ExecutionPlan:
        """Read the plan of that name; raises as ``load_plan``, and PlanLoadError for a bad name."""
        text, origin = self._read(name)
        return plan_of(text, params, origin)

    def read(self, name: str) -> str:
        """Give the text of the plan of that name, as it was written; raises PlanLoadError."""
        return self._read(name)[0]

    def source(self, name: str) -> Path | str:
        """Give what a name stands for: the file of a plan or of a version, or the text at a git ref.

        Raises PlanLoadError.
        """
        draft = draft_of(name)
        if draft is not None:
            return PlanFileStore(self.drafts.folder()).source(draft)
        wanted = self._wanted(name, self._files())
        if wanted.ref is None:
            return self.path(name)
        return _decoded(read_committed(self.plans_dir, wanted.name, wanted.ref))

    def name_of(self, path: Path) -> str | None:
        """Give the name under which this folder has a file; None for a file that is no plan of it.

        A kept version is none: it is what the plan was, and not what it is.
        """
        name = plan_name(path.name)
        if name is None or "@" in name:
            return None
        try:
            if path.parent.resolve() != self.plans_dir.resolve():
                return None
            return name if self._only(name, self._files()).name == path.name else None
        except (OSError, RuntimeError, PlanLoadError):  # RuntimeError: links in a circle
            return None

    def path(self, name: str) -> Path:
        """Give the file of the plan of that name; raises PlanLoadError that names what there is."""
        files = self._files()
        wanted = self._wanted(name, files)
        if wanted.ref is not None:
            raise PlanLoadError(
                f"{name!r} stands in git and has no file of its own",
                hint=f"load({name!r}) reads it",
            )
        if wanted.version is None:
            return self._only(wanted.name, files)
        current = self._only(wanted.name, files) if wanted.name in files else None
        return Versions(self.plans_dir, wanted.name).find(wanted.version, current)

    def save(self, plan: ExecutionPlan | str, name: str) -> int:
        """Write a plan, or the text of one with its layout and comments, and give its version.

        The file is replaced at once, and every version stays under ``.versions/<name>/``. What
        equals the file makes no new version: the same text, or an equal plan, which then
        keeps the layout of the file. A plan whose file has another ending keeps it. Raises
        PlanInvalid for a text that is no plan, and PlanLoadError when it cannot be written.
        """
        check_new_name(name)
        given: ExecutionPlan | None = None
        if isinstance(plan, ExecutionPlan):
            given, text = plan, _text_of(plan, name)
        else:
            plan_of(plan)
            text = plan
        files = self._files()
        target = self.plans_dir / f"{name}.yaml"
        if name in files:
            target = self._only(name, files).resolve()  # a link stays one
        if target.suffix == ".json":
            text = _json_of(plan, target.name)
        try:
            self.plans_dir.mkdir(parents=True, exist_ok=True)
            return self._save(text.encode(), given, name, target)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PlanLoadError(
                f"plan {name!r} cannot be written: {reason}", path=target
            ) from error

    def history(self, name: str) -> list[PlanVersion]:
        """Describe the versions of a plan, the oldest first; raises PlanLoadError for no plan.

        A file that was made or edited by hand counts as the version that it will be kept as.
        """
        check_name(name)
        files = self._files()
        versions = Versions(self.plans_dir, name)
        if name not in files and versions.numbers():
            return versions.history(None)
        return versions.history(self._only(name, files))

    def latest(self, name: str) -> int:
        """Give the number of a plan's latest version, as ``history`` has it; 0 for no plan."""
        check_name(name)
        files = self._files()
        current = self._only(name, files) if name in files else None
        return Versions(self.plans_dir, name).latest(current)

    def lock_path(self, name: str) -> Path:
        """Give the place of a plan's lock, whether there is one or not."""
        check_name(name)
        return self.plans_dir / f"{name}{LOCK_SUFFIX}"

    def read_lock(self, name: str) -> PlanLock | None:
        """Give what the tools of a plan were when it last ran green; None when nothing is known.

        Raises PlanLoadError for a lock that cannot be read.
        """
        path = self.lock_path(name)
        if not self._is_inside(path):
            raise PlanLoadError(f"the lock of plan {name!r} leads out of the plans folder")
        return read_lock(path) if path.exists() else None

    def write_lock(self, name: str, lock: PlanLock) -> Path:
        """Put on record what the tools of a plan are, after a run without a failure."""
        check_new_name(name)
        path = self.lock_path(name)
        data = format_lock(lock).encode()
        try:
            self.plans_dir.mkdir(parents=True, exist_ok=True)
            if not (path.is_file() and path.read_bytes() == data):
                write_whole(path, data)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PlanLoadError(f"the lock of plan {name!r} cannot be written: {reason}") from error
        return path

    def list(self) -> Entries:
        """Name the plans, sorted; each name knows its file and what is wrong with it.

        A folder that is not there has none. Raises PlanLoadError when it cannot be read.
        """
        entries = []
        for name, paths in sorted(self._listed(self._files()).items()):
            entry = PlanEntry(name, paths[0])
            if len(paths) > 1:
                entry.error = (
                    f"the name is not plain: there are {' and '.join(p.name for p in paths)}"
                )
            entries.append(entry)
        return entries

    def _read(self, name: str) -> tuple[str, Path | str]:
        """Give a plan's text and where it stands."""
        source = self.source(name)
        return (source, name) if isinstance(source, str) else (read_text(source), source)

    def _save(self, data: bytes, plan: ExecutionPlan | None, name: str, target: Path) -> int:
        """Keep the bytes and make them the file; ``plan`` is given when no text was."""
        versions = Versions(self.plans_dir, name)
        former = target.read_bytes() if target.exists() else None
        if former is not None:
            kept = versions.number_of(former)
            if former == data or (plan is not None and _is_equal(former, plan)):
                return versions.keep(former) if kept is None else kept
            if kept is None:
                versions.keep(former)
        number = versions.keep(data)
        write_whole(target, data)
        latest = number
        # who saved at the same time and got a later number has the last word
        while (newest := max(versions.numbers())) > latest:
            write_whole(target, versions.read(newest))
            latest = newest
        return number

    def _wanted(self, name: str, files: Mapping[str, Paths]) -> Wanted:
        """Read a name; one with an ``@`` may also be that of a file."""
        if name not in files or "@" not in name:
            return read_wanted(name)
        bare = name.partition("@")[0]
        if bare in files:
            raise PlanLoadError(
                f"the name {name!r} is not plain: it is that of a file, and asks for a version of {bare!r}",
                hint=f"rename the file {files[name][0].name!r}",
            )
        return Wanted(name)

    def _only(self, name: str, files: Mapping[str, Paths]) -> Path:
        check_name(name)
        found = files.get(name, ())
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise PlanLoadError(
                f"the name {name!r} is not plain: there are {names}", hint="rename one of them"
            )
        if not found:
            raise PlanLoadError(
                f"there is no plan {name!r}", hint=self._near(name, self._listed(files))
            )
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
                name = plan_name(path.name)
                if name is not None and path.is_file():
                    files[name].append(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it has no readable name"
            raise PlanLoadError(
                f"the plans folder {folder.name!r} cannot be read: {reason}"
            ) from error
        return files

    def _listed(self, files: Mapping[str, Paths]) -> dict[str, Paths]:
        """Leave out the plans of which a file leads out of the folder."""
        return {name: paths for name, paths in files.items() if all(map(self._is_inside, paths))}

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
        if not self.plans_dir.exists():
            return f"there is no folder {str(self.plans_dir)!r} here; saving a plan makes it"
        more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        return f"the folder {self.plans_dir.name!r} has {', '.join(known[:_SHOWN]) or 'no plans'}{more}"


def _decoded(data: bytes) -> str:
    if data.startswith(_UTF_16):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "surrogateescape")


def _text_of(plan: ExecutionPlan, name: str) -> str:
    """Write a plan; raises PlanLoadError when it would come back as another one."""
    try:
        text = plan.to_yaml()
    except ValueError as error:
        raise PlanLoadError(f"plan {name!r} cannot be written: {error}") from error
    lost = diff_plans(plan_of(text), plan)
    if lost:
        where = "\n".join(lost.to_text().splitlines()[1 : 1 + _SHOWN])
        raise PlanLoadError(
            f"plan {name!r} cannot be written: it would come back as another one",
            hint=f"a plan file holds JSON values; what it would hold, and what the plan holds:\n{where}",
        )
    return text


def _json_of(plan: ExecutionPlan | str, file: str) -> str:
    """Give a plan as JSON, for a file that says that it is; raises PlanLoadError."""
    try:
        if isinstance(plan, ExecutionPlan):
            return plan.to_json()
        json.loads(plan.removeprefix("\ufeff"))
    except ValueError as error:
        raise PlanLoadError(
            f"the plan's file is {file!r}, and what should be saved is no JSON: {error}",
            hint="save it under another name, or rename the file",
        ) from error
    return plan


def _is_equal(former: bytes, plan: ExecutionPlan) -> bool:
    try:
        return not diff_plans(plan_of(_decoded(former)), plan)
    except PlanInvalid:
        return False
