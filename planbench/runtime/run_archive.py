"""A run file as a zip that nobody vouches for: looked at before anything in it is unpacked."""

from __future__ import annotations

import re
import stat
import struct
import weakref
import zipfile
import zlib
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.errors import RecordDamaged, StoreError
from planbench.memory.sizes import format_bytes
from planbench.plan.source import shown
from planbench.runtime import run_format as form

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_NAMES: Final = frozenset({form.HEADER, form.PLAN, form.JOURNAL, form.MANIFEST, form.TOOLS})
_BODY: Final = re.compile(rf"{form.BODIES}[0-9a-f]{{64}}")
_END: Final = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\5\6"
_LOCATOR: Final = 20
_LOCATOR_SIGNATURE: Final = b"PK\6\7"
_MOST_DIRECTORY: Final = 16_000_000
_MOST_FILE: Final = form.MOST_BYTES + form.MOST_TEXT
_SMALL: Final = 1_000_000
"""Bytes up to which nobody asks how well a member is packed."""
_ENCRYPTED: Final = 0x1
_KINDS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What strange bytes make the standard library raise; none of it is a fault of ours.
_TROUBLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


class Archive:
    """The members of a run file, each unpacked when it is asked for; any thread may ask.

    Raises StoreError for a file that is not there, and RecordDamaged, which names the file
    and the reason, for one that is not a run file as ``run_file`` writes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise StoreError(f"{path} is no file", hint="name a file that run.save() wrote")
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened: {error.strerror or error}",
                hint="name a file that run.save(), or --save of the command line, wrote",
            ) from error
        self._closed = weakref.finalize(self, self._file.close)
        try:
            self._members = self._looked_at()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing more can be read then."""
        self._closed()

    def damaged(self, why: str) -> RecordDamaged:
        """Make the error that names the file."""
        return RecordDamaged(
            f"{self.path.name!r} is no run file that can be read: {why}",
            hint="nothing of it was used; ask for the file anew",
        )

    def size(self, name: str) -> int | None:
        """Give the unpacked size of a member; None for one that is not there."""
        info = self._members.get(name)
        return None if info is None else info.file_size

    def read(self, name: str, limit: int) -> bytes:
        """Unpack a member of at most ``limit`` bytes."""
        info = self._members.get(name)
        if info is None:
            raise self.damaged(f"it has no {name}")
        if info.file_size > limit:
            size, most = format_bytes(info.file_size), format_bytes(limit)
            raise self.damaged(f"{name} is {size}, and at most {most} are read")
        try:
            with self._lock, self._zip.open(info) as member:
                data = member.read(info.file_size + 1)
        except _TROUBLE as error:
            raise self.damaged(f"{name}: {_said(error)}") from error
        if len(data) != info.file_size:
            raise self.damaged(f"{name} is not as long as it says")
        return data

    def _looked_at(self) -> dict[str, zipfile.ZipInfo]:
        """Read the list of members, and refuse what no run file has."""
        try:
            self._check_end()
            self._zip = zipfile.ZipFile(self._file)
            infos = self._zip.infolist()
        except _TROUBLE as error:
            raise self.damaged(_said(error)) from error
        found: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.orig_filename
            if name != info.filename or not (name in _NAMES or _BODY.fullmatch(name)):
                raise self.damaged(f"it holds {shown(name, 60)}, which belongs into no run file")
            if name in found:
                raise self.damaged(f"it holds {name} twice")
            if info.flag_bits & _ENCRYPTED or info.compress_type not in _KINDS:
                raise self.damaged(f"{name} is packed in a way that no run file is")
            if info.file_size > max(_SMALL, form.PACKED * info.compress_size):
                raise self.damaged(f"{name} would be unpacked to {format_bytes(info.file_size)}")
            found[name] = info
        if sum(info.file_size for info in infos) > _MOST_FILE:
            raise self.damaged(f"it would be unpacked to more than {format_bytes(_MOST_FILE)}")
        return found

    def _check_end(self) -> None:
        """Look at the end, which says how long the list of members is, before that is read."""
        size = self._file.seek(0, 2)
        if size > _MOST_FILE:
            raise ValueError(f"it is {format_bytes(size)}")
        if size < _END.size:
            raise ValueError("it is too short for a zip")
        self._file.seek(max(0, size - _END.size - _LOCATOR))
        tail = self._file.read()
        signature, disk, first, here, count, length, start, comment = _END.unpack(
            tail[-_END.size :]
        )
        whole = (disk, first, comment) == (0, 0, 0) and here == count
        if signature != _END_SIGNATURE or not whole or start + length + _END.size != size:
            raise ValueError("it is no zip, or it is cut off")
        if tail.startswith(_LOCATOR_SIGNATURE):
            raise ValueError("it is a zip of another kind")
        if count > form.MOST_BODIES + len(_NAMES) or length > _MOST_DIRECTORY:
            raise ValueError(f"it has {count:,} members")


def _said(error: Any) -> str:
    return shown_text(str(error) or type(error).__name__)


def shown_text(text: str, limit: int = 200) -> str:
    """Give a text of elsewhere on one line, cut to a length."""
    line = " ".join(text.split())
    line = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
