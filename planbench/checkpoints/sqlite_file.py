"""The file of the SQLite store: how it is made, opened and told apart from another one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Final

from planbench.checkpoints.sqlite_thread import Opener, is_busy, patiently, primary
from planbench.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE: Final = 15.0
"""Seconds to wait for a program that holds the file."""
_VERSION: Final = 1
_WAL_BYTES: Final = 64 * 1024 * 1024
"""What stays of the write-ahead log after it has grown beyond."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS planbench_runs (
    run_id TEXT PRIMARY KEY, head TEXT, status TEXT NOT NULL, started REAL NOT NULL,
    updated REAL NOT NULL, events INTEGER NOT NULL, last INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS planbench_events (
    run_id TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS planbench_leases (
    run_id TEXT PRIMARY KEY, owner TEXT NOT NULL, token INTEGER NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS planbench_meta (version INTEGER NOT NULL);
"""


class _Connection(sqlite3.Connection):
    file: tuple[int, int]


def opener(path: Path, synchronous: str, begin: str) -> Opener:
    """Say how a thread works on the file at ``path``."""
    return Opener(partial(_connected, path, synchronous), partial(_check, path), begin, PATIENCE)


def reason(error: sqlite3.Error | OSError) -> str:
    """Say why the file cannot be used."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if is_busy(error):
        return f"another program has held it for more than {PATIENCE:g} s"
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return "it is no SQLite database"
    return str(error)


def is_malformed(error: BaseException | None) -> bool:
    """Whether SQLite has found pages that it did not write."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and primary(code) == sqlite3.SQLITE_CORRUPT


def _connected(path: Path, synchronous: str) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, factory=_Connection)
    try:
        connection.file = _identity(path)
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), PATIENCE)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        patiently(partial(_prepare, connection), PATIENCE)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables where they are missing; processes that open a new file do it in turn."""
    meta = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'planbench_meta'"
    if connection.execute(meta).fetchone() is None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            if connection.execute("SELECT 1 FROM planbench_meta").fetchone() is None:
                connection.execute("INSERT INTO planbench_meta VALUES (?)", (_VERSION,))
            connection.commit()
        except BaseException:
            if connection.in_transaction:
                connection.rollback()
            raise
    if connection.execute("SELECT version FROM planbench_meta").fetchone() != (_VERSION,):
        raise StoreError(
            "the file was written by another version of planbench, in a form that this one does not know",
            hint="use that version, or another file",
        )


def _check(path: Path, connection: sqlite3.Connection) -> None:
    """Raise StoreError when the file that is open is no longer the one of that name.

    What is written to a file without a name is gone with the connection.
    """
    try:
        same = isinstance(connection, _Connection) and connection.file == _identity(path)
    except FileNotFoundError:
        same = False
    if not same:
        raise StoreError(
            f"{str(path)!r} was removed or replaced while it was open",
            hint="the next call opens what is there then",
        )


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino
