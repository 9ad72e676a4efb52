"""Durable artifacts: values kept as files named by the digest of what is in them."""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from planbench.errors import (
    ArtifactDamaged,
    ArtifactMissing,
    ArtifactTooLarge,
    StoreError,
)
from planbench.memory.codecs import decode, encode
from planbench.memory.sizes import format_bytes
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from planbench.memory.artifact_files import ArtifactFiles, StoredFile

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ENDINGS: Final = {
    "text": "txt",
    "bytes": "bin",
    "json": "json",
    "npy": "npy",
    "parquet": "parquet",
    "parts": "parts",
    "pickle": "pickle",
}


class ArtifactRecord(NamedTuple):
    """What a journal keeps of a stored value: the digest of its bytes, their codec and number."""

    sha256: str
    codec: str
    size: int

    def to_dict(self) -> dict[str, Any]:
        """Give the record as an event holds it."""
        return self._asdict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave; raises ArtifactDamaged for anything else."""
        try:
            record = cls(data["sha256"], data["codec"], data["size"])
        except (KeyError, TypeError, IndexError) as error:
            raise ArtifactDamaged("the record of an artifact is not complete") from error
        _name_of(record)
        return record


class ArtifactStore:
    """The artifacts of one scope.

    Its methods block, so they are called off the event loop; any thread may call them,
    and several processes may use one place. A value is there whole, and has reached the
    disk of a local place, when ``write`` returns its record. Equal bytes are stored once.

    Scopes have folders of their own, so that no record of one is found in another. That
    keeps runs apart; it is neither encryption nor a right to read or not.
    """

    def __init__(self, files: ArtifactFiles, *, allow_pickle: bool = False) -> None:
        self._files = files
        self.allow_pickle = allow_pickle

    def write(self, value: Any) -> ArtifactRecord:
        """Store a value and give its record.

        Raises ArtifactRefused, naming the place inside the value, for what would come
        back different, and StoreError where the place cannot be written.
        """
        codec, payload = encode(value, allow_pickle=self.allow_pickle)
        record = ArtifactRecord(hashlib.sha256(payload).hexdigest(), codec, len(payload))
        with _told("write", record.size):
            self._files.put(_name_of(record), payload)
        return record

    def read(self, record: ArtifactRecord, max_bytes: int | None = None) -> Any:
        """Give a stored value, new each time.

        ``max_bytes`` bounds the stored bytes, and what a table in them becomes in
        memory. Raises ArtifactTooLarge, before anything is read where the record says
        so; ArtifactMissing; and ArtifactDamaged for bytes that are not those stored.
        """
        name = _name_of(record)
        if max_bytes is not None and record.size > max_bytes:
            raise ArtifactTooLarge(
                f"the artifact is {format_bytes(record.size)} large, above the limit of {format_bytes(max_bytes)}"
            )
        with _told("read", record.size):
            size = self._files.size(name)
            payload = self._files.read(name) if size == record.size else b""
        if size is None:
            raise ArtifactMissing(
                f"the artifact {record.sha256[:12]} ({format_bytes(record.size)}) is not there",
                hint="was it pruned, or stored in another place or scope?",
            )
        if hashlib.sha256(payload).hexdigest() != record.sha256:
            raise ArtifactDamaged(
                f"the artifact {record.sha256[:12]} is not what was stored under its digest"
            )
        return decode(record.codec, payload, allow_pickle=self.allow_pickle, max_bytes=max_bytes)

    def has(self, record: ArtifactRecord) -> bool:
        """Whether the artifact is there with all its bytes; they are not read."""
        name = _name_of(record)
        with _told("read", record.size):
            return self._files.size(name) == record.size

    def nbytes(self) -> int:
        """Give the bytes of all artifacts of the scope."""
        return sum(file.size for file in self._stored())

    def prune(
        self,
        *,
        keep: Collection[str] = (),
        before: float | None = None,
        max_bytes: int | None = None,
    ) -> list[str]:
        """Delete artifacts of the scope that are not kept; gives their digests.

        ``keep`` holds digests that are never deleted. With ``before`` (epoch seconds)
        those last stored before it go; with ``max_bytes`` the oldest go until the rest
        is not above it; with neither, all. One that is stored again meanwhile stays. Keep
        what a run may be about to record: give ``before``, or prune while nothing runs.
        """
        keep = frozenset(keep)
        stored = sorted(self._stored(), key=lambda file: file.stored)
        total = sum(file.size for file in stored)
        deleted = []
        for file in stored:
            digest = file.name.partition(".")[0]
            old = before is not None and file.stored < before
            over = max_bytes is not None and total > max_bytes
            if digest not in keep and (old or over or (before is None and max_bytes is None)):
                with _told("delete", file.size):
                    gone = self._files.drop(file)
                if gone:
                    total -= file.size
                    deleted.append(digest)
        with _told("delete", 0):
            self._files.sweep()
        return deleted

    def _stored(self) -> list[StoredFile]:
        with _told("list", 0):
            return [file for file in self._files.files() if _DIGEST.match(file.name)]


def _name_of(record: ArtifactRecord) -> str:
    """Give the name of an artifact's file; raises ArtifactDamaged for a record that has none."""
    digest, codec, size = record
    if (
        type(digest) is not str
        or not _DIGEST.fullmatch(digest)
        or type(codec) is not str
        or codec not in _ENDINGS
        or type(size) is not int
        or size < 0
    ):
        raise ArtifactDamaged(
            "the record of an artifact is not one that planbench wrote",
            hint="a newer planbench may have written it",
        )
    return f"{digest}.{_ENDINGS[codec]}"


@contextmanager
def _told(what: str, size: int) -> Iterator[None]:
    """Say which artifact it was that a file system failed on, in whatever way it does."""
    of = f" of {format_bytes(size)}" if size else ""
    try:
        yield
    except FileNotFoundError as error:
        raise ArtifactMissing(f"an artifact{of} is not there any more") from error
    except Exception as error:  # every file system of fsspec has errors of its own
        raise StoreError(
            f"cannot {what} an artifact{of}: {type(error).__name__}: {shown(str(error), 200)}",
            hint="is the place still there, has it room, and may this process use it?",
        ) from error
