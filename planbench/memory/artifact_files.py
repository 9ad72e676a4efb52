"""Files named by what is in them, in a folder of this machine or wherever fsspec reaches.

A local file is written beside its place, made to last, and moved there: it is there
whole or not at all. Elsewhere it is put in one call, which object stores do whole too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_UNFINISHED: Final = ".tmp"
_ABANDONED: Final = 86_400.0
_BINARY: Final = getattr(os, "O_BINARY", 0)


class StoredFile(NamedTuple):
    """A file as it lies there: its name, its bytes, and when it was last stored (epoch seconds)."""

    name: str
    size: int
    stored: float


class ArtifactFiles(ABC):
    """Files in one place, each under the first two characters of its name."""

    @abstractmethod
    def probe(self) -> None:
        """Make the place and see that a file can be written, read and deleted there."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Store a file; one that is there with these bytes stays, and counts as stored now."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Give the bytes of a file, None where there is none."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Give what is in a file; raises FileNotFoundError."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is no error."""

    def drop(self, file: StoredFile) -> bool:
        """Delete a file as it was listed; False where it was stored again since."""
        self.delete(file.name)
        return True

    @abstractmethod
    def files(self) -> Iterator[StoredFile]:
        """List the files, in no order."""

    @abstractmethod
    def below(self, *names: str) -> ArtifactFiles:
        """Give a place inside this one; the names are safe as names of folders."""

    def sweep(self) -> None:
        """Delete what writers that died have left half done."""
        return

    def close(self) -> None:
        """Let go of what is held open; it is opened again when it is needed."""
        return


class LocalFiles(ArtifactFiles):
    """Files in a folder of this machine, which only its user may read."""

    def __init__(self, folder: Path, *, flushed: bool = True) -> None:
        self.folder = folder
        self._flushed = flushed

    def below(self, *names: str) -> LocalFiles:
        """Give a folder inside this one."""
        return LocalFiles(self.folder.joinpath(*names), flushed=self._flushed)

    def make(self) -> None:
        """Make the folder where it is missing."""
        _make(self.folder)

    def probe(self) -> None:
        """Write, read and delete a file."""
        self.make()
        beside = _write_beside(self.folder, b"planbench", flushed=self._flushed)
        try:
            beside.read_bytes()
        finally:
            beside.unlink()

    def put(self, name: str, data: bytes) -> None:
        """Store a file whole; where it is flushed it outlives the machine's next stop."""
        path = self._path(name)
        if self._has(path, data):
            return
        _make(path.parent)
        beside = _write_beside(path.parent, data, flushed=self._flushed)
        try:
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        if self._flushed:
            _settle(path.parent)

    def _has(self, path: Path, data: bytes) -> bool:
        """Count what is there as stored now; not one whose bytes are others: a disk may have changed it."""
        try:
            if path.stat().st_size != len(data):
                return False
            os.utime(path)  # first, so that nobody takes it away as an old one
            return path.read_bytes() == data
        except FileNotFoundError:
            return False

    def size(self, name: str) -> int | None:
        """Give the bytes of a file."""
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """Give what is in a file."""
        return self._path(name).read_bytes()

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._path(name).unlink(missing_ok=True)

    def drop(self, file: StoredFile) -> bool:
        """Delete a file as it was listed: it is set aside first, so that a writer beside this makes it anew."""
        path = self._path(file.name)
        aside = path.with_name(f".{secrets.token_hex(8)}{_UNFINISHED}")
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime != file.stored:
                return False
            path.rename(aside)
            if aside.stat().st_mtime != file.stored:
                aside.replace(path)
                return False
            aside.unlink()
        return True

    def files(self) -> Iterator[StoredFile]:
        """List the files that are whole."""
        for path, about in self._all():
            if not path.name.endswith(_UNFINISHED):
                yield StoredFile(path.name, about.st_size, about.st_mtime)

    def sweep(self) -> None:
        """Delete what has been half done for a day."""
        for path, about in self._all():
            if path.name.endswith(_UNFINISHED) and about.st_mtime < time.time() - _ABANDONED:
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def _all(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob("??/*"):
            # Another process may have deleted it since.
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


class RemoteFiles(ArtifactFiles):
    """Files on a file system of fsspec."""

    def __init__(self, system: Any, folder: str) -> None:
        self.system = system
        self.folder = folder.rstrip("/")

    def below(self, *names: str) -> RemoteFiles:
        """Give a folder inside this one."""
        return RemoteFiles(self.system, "/".join((self.folder, *names)))

    def probe(self) -> None:
        """Write, read and delete a file."""
        path = f"{self.folder}/probe-{secrets.token_hex(8)}"
        self.system.makedirs(self.folder, exist_ok=True)
        self.system.pipe_file(path, b"planbench")
        self.system.cat_file(path)
        self.system.rm_file(path)

    def put(self, name: str, data: bytes) -> None:
        """Store a file in one call, also over one that is there: that makes it young again."""
        path = self._path(name)
        self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.system.pipe_file(path, data)

    def size(self, name: str) -> int | None:
        """Give the bytes of a file, as the file system has them now."""
        self.system.invalidate_cache()
        try:
            return int(self.system.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """Give what is in a file."""
        return bytes(self.system.cat_file(self._path(name)))

    def delete(self, name: str) -> None:
        """Delete a file."""
        with contextlib.suppress(FileNotFoundError):
            self.system.rm_file(self._path(name))

    def files(self) -> Iterator[StoredFile]:
        """List the files; one of unknown age counts as stored now."""
        self.system.invalidate_cache()
        try:
            found = self.system.find(self.folder, detail=True)
        except FileNotFoundError:
            return
        for path, about in found.items():
            try:
                stored = self.system.modified(path).timestamp()
            except (NotImplementedError, FileNotFoundError, KeyError):
                stored = time.time()
            yield StoredFile(path.rpartition("/")[2], int(about["size"]), stored)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name[:2]}/{name}"


def open_files(url: str, *, flushed: bool = True) -> ArtifactFiles:
    """Give the place that a folder's path or a URL of fsspec names; nothing is made yet.

    Local files are ``flushed`` to the disk before they are there under their names, or
    else the small ones share a database.
    Raises ConfigurationError for a URL that fsspec does not know.
    """
    if "://" not in url and "::" not in url:
        return _local(Path(url).expanduser().absolute(), flushed=flushed)
    from fsspec.core import url_to_fs  # noqa: PLC0415 - planbench is imported without fsspec
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415 - as above

    try:
        system, folder = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"fsspec cannot open the place of artifacts: {error}",
            hint="give the path of a folder, or install what fsspec names",
        ) from error
    if isinstance(system, LocalFileSystem):
        return _local(Path(folder), flushed=flushed)
    return RemoteFiles(system, folder)


def _local(folder: Path, *, flushed: bool) -> LocalFiles:
    if flushed:
        return LocalFiles(folder)
    from planbench.memory.packed_files import PackedFiles  # noqa: PLC0415 - it builds on this module

    return PackedFiles(folder)


def _make(folder: Path) -> None:
    """Make a folder with those above it, readable for nobody else, and make them last."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):
            one.mkdir(_PRIVATE_FOLDER)
        _settle(one.parent)


def _write_beside(folder: Path, data: bytes, *, flushed: bool) -> Path:
    path = folder / f".{secrets.token_hex(8)}{_UNFINISHED}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if flushed:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def _settle(folder: Path) -> None:
    """Make the names in a folder last, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
