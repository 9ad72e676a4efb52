"""Files that are there whole or not at all, whenever the process or the machine stops."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


def write_whole(path: Path, data: bytes) -> None:
    """Put the bytes in the place of a file: a reader sees the old ones or the new ones.

    The rights of the file stay. Raises OSError.
    """
    with _written_beside(path, data) as beside:
        with contextlib.suppress(FileNotFoundError):
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        beside.replace(path)
    _settle(path.parent)


def create_once(path: Path, data: bytes) -> bool:
    """Make a file with these bytes unless there is one; says whether it did.

    Of several processes that try at once, one does. Raises OSError.
    """
    with _written_beside(path, data) as beside:
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            return _create_directly(path, data)
    _settle(path.parent)
    return True


def _create_directly(path: Path, data: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    except FileExistsError:
        return False
    try:
        _fill(descriptor, data)
    except OSError:
        path.unlink()
        raise
    _settle(path.parent)
    return True


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to be written in pieces, which takes the place of ``path`` when all are there.

    Where that is left with an error nothing has changed. Raises OSError.
    """
    beside = path.with_name(f".{secrets.token_hex(8)}.tmp")
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _settle(path.parent)


@contextlib.contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    """Write a hidden file in the same folder, which is gone afterwards if nobody moved it."""
    beside = path.with_name(f".{secrets.token_hex(8)}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    try:
        _fill(descriptor, data)
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def _fill(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _settle(folder: Path) -> None:
    """Make the names in a folder last too, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_BINARY = getattr(os, "O_BINARY", 0)
