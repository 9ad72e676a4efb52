"""The text of a plan as a git commit has it: read by git's plumbing, never through a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Final, NamedTuple

from planbench.errors import PlanLoadError
from planbench.files.names import plan_name
from planbench.plan.document import Limits

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT: Final = 30.0
_MAX_BYTES: Final = 4 * Limits().max_chars
_MAX_REF: Final = 250
_SAID: Final = 200
# no colon: a path is never part of a ref here; no leading dash: a ref is never an option
_REF: Final = re.compile(
    r"(?:@|\w[\w./+\-#=,%!@]*)(?:[~^][0-9]{0,6}|@\{(?:[0-9]{1,6}|u|upstream)\})*"
)
_NEVER: Final = ("..", "//", "@@")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FILES: Final = frozenset({"100644", "100755", "100664"})
# what a hook or an outer git left in the environment would lead to another repository
_OUTER: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    }
)
_QUIET: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}


class Blob(NamedTuple):
    """A file as a commit lists it."""

    name: str
    mode: str
    sha: str
    size: int


def read_committed(plans_dir: Path, name: str, ref: str) -> bytes:
    """Give the bytes of a plan of this folder as they were at a ref.

    Raises PlanLoadError: no git, no work tree, no such ref, no such plan at it.
    """
    _check_ref(name, ref)
    if not plans_dir.is_dir():
        raise PlanLoadError(f"there is no plans folder {plans_dir.name!r}, so there is no git tree")
    commit = _commit(plans_dir, ref)
    found = [blob for blob in _listed(plans_dir, commit) if plan_name(blob.name) == name]
    if not found:
        raise PlanLoadError(f"at {ref!r} the plans folder has no plan {name!r}")
    if len(found) > 1:
        names = " and ".join(blob.name for blob in found)
        raise PlanLoadError(f"the name {name!r} is not plain at {ref!r}: there are {names}")
    blob = found[0]
    if blob.mode not in _FILES:
        raise PlanLoadError(f"{blob.name!r} is a link or a folder at {ref!r}, not a file")
    if blob.size > _MAX_BYTES:
        raise PlanLoadError(
            f"{blob.name!r} has {blob.size} bytes at {ref!r}, and at most {_MAX_BYTES} are read"
        )
    return _git(plans_dir, "cat-file", "blob", blob.sha)


def _check_ref(name: str, ref: str) -> None:
    wrong = len(ref) > _MAX_REF or any(sign in ref for sign in _NEVER) or ref.endswith(".lock")
    if wrong or not _REF.fullmatch(ref):
        raise PlanLoadError(
            f"{ref[:60]!r} is neither a version's number nor a git ref",
            hint=f"write {name}@2, or {name}@main, {name}@v1.0, {name}@HEAD~1, {name}@3f2a91c",
        )


def _commit(plans_dir: Path, ref: str) -> str:
    done = _called(plans_dir, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if done.returncode == 1:
        raise PlanLoadError(f"git knows no commit {ref!r}", hint="see: git branch --all, git tag")
    commit = _answer(plans_dir, done).decode("ascii", "replace").strip()
    if not _COMMIT.fullmatch(commit):
        raise PlanLoadError(f"git knows no single commit {ref!r}")
    return commit


def _listed(plans_dir: Path, commit: str) -> list[Blob]:
    """List what a commit has in this folder; of other folders, git tells nothing."""
    blobs = []
    for line in _git(plans_dir, "ls-tree", "-z", "-l", commit).split(b"\0"):
        head, tab, name = line.partition(b"\t")
        if tab:
            mode, _, sha, size = head.decode("ascii").split()
            length = int(size) if size.isdecimal() else 0
            blobs.append(Blob(os.fsdecode(name), mode, sha, length))
    return blobs


def _git(folder: Path, *arguments: str) -> bytes:
    return _answer(folder, _called(folder, *arguments))


def _answer(folder: Path, done: subprocess.CompletedProcess[bytes]) -> bytes:
    """Give what git wrote; raises PlanLoadError when it ended with another code than 0."""
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
    message = f"git: {said[:_SAID] or done.returncode}"
    if "not a git repository" in said:
        message = f"the plans folder {folder.name!r} is in no git work tree"
    raise PlanLoadError(message, hint="a git ref needs a plans folder inside a git work tree")


def _called(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("git")
    if program is None:
        raise PlanLoadError(
            "there is no git on the path, so no ref can be read", hint="install git"
        )
    kept = {key: value for key, value in os.environ.items() if key not in _OUTER}
    try:
        return subprocess.run(  # noqa: S603 - no shell; the ref is checked, and no path is given
            [program, *arguments],
            cwd=folder,
            env=kept | _QUIET,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PlanLoadError(f"git gave no answer within {_TIMEOUT:g} s") from error
    except (OSError, ValueError) as error:
        raise PlanLoadError(f"git cannot be started: {error}") from error
