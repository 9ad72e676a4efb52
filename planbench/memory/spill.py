"""The files of values that are not in memory: private to this process, gone with it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
import weakref
import zlib
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import ArtifactDamaged, ArtifactMissing, ConfigurationError
from planbench.memory.codecs import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "planbench-spill-"
_LOCK: Final = "lock"
_CAN_LOCK: Final = os.name == "posix"
"""Elsewhere the folder of a process that was killed is left to the system."""
_HINT: Final = "run what made it again; spill_dir= takes a folder that nothing cleans up"


class SpillFile(NamedTuple):
    """One value in its file, with what tells that the file is still what was written."""

    path: str
    codec: str
    size: int
    crc: int


class SpillFolder:
    """A folder of spilled values, made when the first one is written.

    It is removed when this object is collected and when the process ends. One whose
    process was killed is removed by the next process that spills beside it: a lock
    that the system holds for a live process tells.
    """

    def __init__(self, parent: str | Path | None) -> None:
        self._parent = Path(tempfile.gettempdir() if parent is None else parent)
        if parent is not None:
            try:
                self._parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(
                    f"spill_dir {str(parent)!r} cannot be made: {error.strerror or error}",
                    hint="name a folder that may be written to",
                ) from error
        self._names = count(1)
        self._path: Path | None = None
        self._owner = 0

    def write(self, value: Any) -> SpillFile:
        """Write a value; raises ArtifactRefused for what would not come back as it is, or OSError."""
        codec, payload = encode(value)
        try:
            path = self._written(payload)
        except FileNotFoundError:  # somebody has cleaned the folder away
            self._path = None
            path = self._written(payload)
        return SpillFile(str(path), codec, len(payload), zlib.crc32(payload))

    def read(self, file: SpillFile) -> Any:
        """Give the value of a file; raises ArtifactMissing or ArtifactDamaged."""
        try:
            payload = Path(file.path).read_bytes()
        except OSError as error:
            raise ArtifactMissing(
                f"a spilled value cannot be read back: {error.strerror or error}: {file.path}",
                hint=_HINT,
            ) from error
        if len(payload) != file.size or zlib.crc32(payload) != file.crc:
            raise ArtifactDamaged(f"a spilled value was changed: {file.path}", hint=_HINT)
        return decode(file.codec, payload)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that nobody needs any more; those of a parent process are left to it."""
        own = None if os.getpid() != self._owner else self._path
        for path in map(Path, paths):
            if path.parent == own:
                with contextlib.suppress(OSError):  # the folder takes it along in the end
                    path.unlink()

    def _written(self, payload: bytes) -> Path:
        path = self._folder() / f"{next(self._names)}.spill"
        try:
            with path.open("xb") as file:
                file.write(payload)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _folder(self) -> Path:
        # A process that was forked off reads the files of its parent and writes its own.
        if self._path is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._path, lock = _make(self._parent)
            weakref.finalize(self, _discard, self._path, lock, self._owner)
            _sweep(self._parent)
        return self._path


def _make(parent: Path) -> tuple[Path, int | None]:
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    if not _CAN_LOCK:
        return path, None
    import fcntl  # noqa: PLC0415 - there is none on Windows

    draft = path / f"{_LOCK}.{secrets.token_hex(4)}"
    lock = os.open(draft, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    draft.rename(path / _LOCK)  # under this name it is held from the first moment
    return path, lock


def _discard(path: Path, lock: int | None, owner: int) -> None:
    if os.getpid() != owner:
        return
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that were killed."""
    if not _CAN_LOCK:
        return
    import fcntl  # noqa: PLC0415 - as above

    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody's who lives, or who is not us
            about = path.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                continue
            lock = os.open(path / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
