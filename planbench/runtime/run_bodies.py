"""The results in a run file: unpacked when they are asked for, and never run."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ArtifactDamaged, ArtifactMissing, ArtifactTooLarge, RecordDamaged
from planbench.memory.codecs import decode
from planbench.memory.entries import Entry
from planbench.memory.sizes import format_bytes
from planbench.runtime import run_format as form

if TYPE_CHECKING:
    from planbench.memory.artifacts import ArtifactRecord
    from planbench.runtime.run_archive import Archive

PER_VALUE: Final = 16
"""Bytes that each element of a list or map counts for, before it is made."""
_TREES: Final = frozenset({"json", "parts"})


class Bodies:
    """The results in the file, unpacked when asked for; those used last are held, up to a limit."""

    def __init__(self, archive: Archive, max_bytes: int) -> None:
        self._archive = archive
        self._max_bytes = max_bytes
        self._held: OrderedDict[ArtifactRecord, Any] = OrderedDict()
        self._total = 0
        self._lock = Lock()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def check_size(self, size: int) -> None:
        """Raise ArtifactTooLarge for more bytes than may be in memory."""
        if size > self._max_bytes:
            raise ArtifactTooLarge(
                f"{format_bytes(size)} of {self._archive.path.name!r} are over the limit of {format_bytes(self._max_bytes)}",
                hint=f"open it with more room: open_run(path, max_bytes={size})",
            )

    def get(self, record: ArtifactRecord) -> Any:
        """Give a value and hold it, in place of those that nobody has asked for lately."""
        with self._lock:
            if record in self._held:
                self._held.move_to_end(record)
                return self._held[record]
        value = self.read(record)
        with self._lock:
            if record not in self._held:
                self._held[record] = value
                self._total += record.size
            while self._total > self._max_bytes:
                old, _ = self._held.popitem(last=False)
                self._total -= old.size
        return value

    def read(self, record: ArtifactRecord, max_bytes: int | None = None) -> Any:
        """Unpack, check the digest, and decode without running anything."""
        limit = self._max_bytes if max_bytes is None else max_bytes
        name = form.BODIES + record.sha256
        if self._archive.size(name) is None:
            raise ArtifactMissing(f"the file {self._archive.path.name!r} does not hold this result")
        if record.size > limit:
            self.check_size(record.size)
            raise ArtifactTooLarge(
                f"the result is {format_bytes(record.size)}, above the limit of {format_bytes(limit)}"
            )
        try:
            payload = self._archive.read(name, record.size)
        except RecordDamaged as error:
            raise ArtifactDamaged(error.message, hint=error.hint) from error
        if len(payload) != record.size or hashlib.sha256(payload).hexdigest() != record.sha256:
            raise ArtifactDamaged(
                f"the result {record.sha256[:12]} in {self._archive.path.name!r} is not what was saved"
            )
        if record.codec in _TREES:
            _check_elements(payload, limit)
        return decode(record.codec, payload, max_bytes=limit)


class FileEntry(Entry):
    """A result whose value stands in the file until it is read."""

    __slots__ = ("_source",)

    @property
    def value(self) -> Any:
        """The value, read from the file."""
        return self._source()

    @value.setter
    def value(self, source: Any) -> None:
        self._source = source


def _check_elements(payload: bytes, limit: int) -> None:
    count = sum(payload.count(sign) for sign in (b",", b"[", b"{"))
    if PER_VALUE * count > max(limit, 1_000_000):
        raise ArtifactTooLarge(
            f"the result has more values than fit into the limit of {format_bytes(limit)}",
            hint="open the file with a larger max_bytes",
        )
