"""Files in a folder of this machine of which the small ones share one database.

A file of its own costs more to make than a small result to compute. Nothing is forced to
the disk here: what is stored outlives the process, and not always a machine that stops.
"""

from __future__ import annotations

import sqlite3
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from planbench.memory.artifact_files import LocalFiles, StoredFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL: Final = 64_000
"""Bytes of the largest file that goes into the database."""
DATABASE: Final = "small.db"
_PATIENCE: Final = 10.0
_SCHEMA: Final = """CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY, stored REAL NOT NULL, data BLOB NOT NULL
)"""
_PUT: Final = (
    "INSERT INTO files VALUES (?, ?, ?) "
    "ON CONFLICT (name) DO UPDATE SET stored = excluded.stored, data = excluded.data"
)


class PackedFiles(LocalFiles):
    """Files in a folder, the small ones in its database; any thread may call it, several processes too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, flushed=False)
        self._below: dict[tuple[str, ...], PackedFiles] = {}
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._lock = Lock()

    def below(self, *names: str) -> PackedFiles:
        """Give a folder inside this one; the same one each time, since it holds its database open."""
        with self._lock:
            if names not in self._below:
                self._below[names] = PackedFiles(self.folder.joinpath(*names))
            return self._below[names]

    def close(self) -> None:
        """Close the databases; they are opened again when they are needed."""
        with self._lock:
            for below in self._below.values():
                below.close()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def put(self, name: str, data: bytes) -> None:
        """Store a file whole."""
        if len(data) > SMALL:
            super().put(name, data)
            return
        with self._lock:
            self._open().execute(_PUT, (name, time.time(), data))

    def size(self, name: str) -> int | None:
        """Give the bytes of a file."""
        found = self._one("SELECT length(data) FROM files WHERE name = ?", name)
        return super().size(name) if found is None else int(found)

    def read(self, name: str) -> bytes:
        """Give what is in a file."""
        found = self._one("SELECT data FROM files WHERE name = ?", name)
        return super().read(name) if found is None else bytes(found)

    def delete(self, name: str) -> None:
        """Delete a file."""
        super().delete(name)
        if self._exists():
            with self._lock:
                self._open().execute("DELETE FROM files WHERE name = ?", (name,))

    def drop(self, file: StoredFile) -> bool:
        """Delete a file as it was listed; False where it was stored again since."""
        if self._one("SELECT stored FROM files WHERE name = ?", file.name) is None:
            return super().drop(file)
        query = "DELETE FROM files WHERE name = ? AND stored = ?"
        with self._lock:
            return bool(self._open().execute(query, (file.name, file.stored)).rowcount)

    def files(self) -> Iterator[StoredFile]:
        """List the files that are whole."""
        yield from super().files()
        if self._exists():
            with self._lock:
                rows = (
                    self._open().execute("SELECT name, length(data), stored FROM files").fetchall()
                )
            yield from (StoredFile(*row) for row in rows)

    def _one(self, query: str, name: str) -> Any:
        if not self._exists():
            return None
        with self._lock:
            row = self._open().execute(query, (name,)).fetchone()
        return None if row is None else row[0]

    def _exists(self) -> bool:
        return self._connection is not None or (self.folder / DATABASE).exists()

    def _identity(self) -> tuple[int, int] | None:
        try:
            about = (self.folder / DATABASE).stat()
        except FileNotFoundError:
            return None
        return about.st_dev, about.st_ino

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity() != self._file:
            # Somebody has taken the file away: what is written to one without a name is lost.
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self.make()
            connection = sqlite3.connect(
                self.folder / DATABASE,
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,  # the lock sees to it
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_SCHEMA)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._file = self._identity()
        return self._connection
