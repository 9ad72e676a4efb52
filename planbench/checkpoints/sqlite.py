"""The store in one file on this machine, by the SQLite of the standard library."""

from __future__ import annotations

import os
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar
from urllib.parse import unquote

from planbench.checkpoints.addresses import options_of
from planbench.checkpoints.base import CheckpointStore, Lease, RunRecord, is_run_id
from planbench.checkpoints.leases import (
    RELEASED,
    check_claim,
    check_ttl,
    held,
    lost,
    next_token,
    readable,
)
from planbench.checkpoints.records import (
    Damage,
    Entry,
    change_of,
    check_events,
    check_same,
    damaged,
    decoded,
    decoded_all,
    encoded,
    listed,
    record_of,
)
from planbench.checkpoints.sqlite_file import is_malformed, opener, reason
from planbench.checkpoints.sqlite_thread import DatabaseThread
from planbench.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planbench.events import Event

T = TypeVar("T")

_SYNCHRONOUS: Final = ("NORMAL", "FULL", "EXTRA")
_RUNS: Final = (
    "SELECT run_id, CAST(head AS BLOB), status, started, updated, events FROM planbench_runs"
)
_DELETES: Final = (
    "DELETE FROM planbench_runs WHERE run_id = ?",
    "DELETE FROM planbench_events WHERE run_id = ?",
    "DELETE FROM planbench_leases WHERE run_id = ?",
)


class SQLiteStore(CheckpointStore):
    """Keeps journals in a file, for any number of processes of one machine.

    ``sqlite:///relative.db`` or ``sqlite:////absolute.db``. What is acknowledged
    survives the death of the process; with ``?synchronous=FULL`` that of the machine
    too. Readers never wait for writers, and a program that holds the file is waited for
    up to 15 seconds. A new file is readable for its owner only.
    """

    kind: ClassVar[str] = "sqlite"

    def __init__(self, url: str) -> None:
        address, options = options_of(url, ("synchronous",))
        rest = address.removeprefix("sqlite://")
        name = unquote(rest.removeprefix("/"))
        if rest == address or "?" in rest or not rest.startswith("/") or name in ("", ":memory:"):
            raise ConfigurationError(
                f"{url!r} names no file of SQLite",
                hint='write "sqlite:///relative.db" or "sqlite:////absolute.db", with "?synchronous=FULL" if you like; "memory" keeps runs in this process',
            )
        self._synchronous = options.get("synchronous", "NORMAL").upper()
        if self._synchronous not in _SYNCHRONOUS:
            raise ConfigurationError(
                f"synchronous is one of {', '.join(_SYNCHRONOUS)}, not {self._synchronous!r}"
            )
        self.path = Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100 - links stay as they are
        self._writer: DatabaseThread | None = None
        self._reader: DatabaseThread | None = None
        self._damage = Damage()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}>"

    @property
    def durable(self) -> bool:
        """The file outlives the process."""
        return True

    async def open(self) -> None:
        """Make the file and its folder where they are missing; raises StoreError."""
        if self._writer is None:
            self._writer = self._thread("BEGIN IMMEDIATE", "writer")
            self._reader = self._thread("BEGIN", "reader")
        try:
            await self._write(lambda _: None)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Commit what was asked for, and let the file go."""
        threads, self._writer, self._reader = (self._writer, self._reader), None, None
        for thread in threads:
            if thread is not None:
                await thread.stop()

    def _thread(self, begin: str, name: str) -> DatabaseThread:
        how = opener(self.path, self._synchronous, begin)
        return DatabaseThread(how, f"planbench sqlite {name}")

    async def _write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(self._writer, "written", job)

    async def _look(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(self._reader, "read", job)

    async def _do(
        self, thread: DatabaseThread | None, doing: str, job: Callable[[sqlite3.Connection], T]
    ) -> T:
        if thread is None:
            raise StoreError(f"the store {str(self.path)!r} is not open", hint="await store.open()")
        try:
            return await thread.do(job)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{str(self.path)!r} cannot be {doing}: {reason(error)}") from error

    # -- journals ---------------------------------------------------------------------

    async def append(
        self, run_id: str, events: Sequence[Event], lease: Lease | None = None
    ) -> None:
        """Add events to a run's journal; appends that wait together share a commit."""
        check_events(run_id, events, lease)
        if events:
            await self._write(partial(_append, run_id, [*events], lease))

    async def read(self, run_id: str, after: int = 0) -> list[Event]:
        """Give the events of a run with a ``seq`` above ``after``."""
        if not is_run_id(run_id):
            return []
        with self._damage.noted(run_id, whole=after <= 0):
            try:
                return await self._look(partial(_read, run_id, after))
            except StoreError as error:
                if is_malformed(error.__cause__):  # in the pages of this run, perhaps in no other
                    raise damaged(run_id, error.message) from error
                raise

    async def runs(self, status: str | None = None) -> list[RunRecord]:
        """List the runs, oldest first, or those of one status."""
        return listed(map(self._damage.shown, await self._look(_runs)), status)

    async def record(self, run_id: str) -> RunRecord | None:
        """Give what is known of one run."""
        if not is_run_id(run_id):
            return None
        found = await self._look(partial(_record, run_id))
        return None if found is None else self._damage.shown(found)

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        if is_run_id(run_id):
            await self._write(partial(_delete, run_id))
            self._damage.forget(run_id)

    async def drop(self, record: RunRecord) -> bool:
        """Delete a run if it is still as in ``record`` and nobody holds it."""
        try:
            return await self._write(partial(_delete_ended, record))
        except StoreError as error:
            if is_malformed(error.__cause__):
                return False  # a damaged run stays, and keeps no other from being forgotten
            raise

    # -- leases -----------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        """Take the right to write to a run; None: another live holder has it."""
        check_claim(run_id, owner, ttl)
        return await self._write(partial(_acquire, run_id, owner, ttl))

    async def renew_lease(self, lease: Lease, ttl: float) -> bool:
        """Hold on for ``ttl`` seconds from now; False: it was released, or is another's."""
        check_ttl(ttl)
        return await self._write(partial(_hold, lease, ttl))

    async def release_lease(self, lease: Lease) -> None:
        """Give the lease back."""
        await self._write(partial(_hold, lease, None))

    async def lease(self, run_id: str) -> Lease | None:
        """Give the lease that is held now."""
        return await self._look(partial(_live, run_id)) if is_run_id(run_id) else None


# -- jobs: what is done in the store's threads --------------------------------------------


def _append(
    run_id: str, events: list[Event], lease: Lease | None, connection: sqlite3.Connection
) -> None:
    _check_writer(connection, run_id, lease)
    entry = _entry(connection, run_id)
    last = 0 if entry is None else entry.last
    for event in events:
        if event.seq <= last:
            check_same(event, _event(connection, run_id, event.seq))
    fresh = [event for event in events if event.seq > last]
    if not fresh:
        return
    connection.executemany(
        "INSERT INTO planbench_events VALUES (?, ?, ?)",
        [(run_id, event.seq, encoded(event).decode()) for event in fresh],
    )
    change, count = change_of(fresh), len(fresh)
    entry = Entry.first(change, count) if entry is None else entry.changed(change, count)
    connection.execute(
        "INSERT OR REPLACE INTO planbench_runs VALUES (?, ?, ?, ?, ?, ?, ?)", (run_id, *entry)
    )


def _entry(connection: sqlite3.Connection, run_id: str) -> Entry | None:
    row = connection.execute(
        "SELECT head, status, started, updated, events, last FROM planbench_runs WHERE run_id = ?",
        (run_id,),
    ).fetchone()
    if row is None:
        return None
    if not all(isinstance(number, int) for number in row[-2:]):
        raise damaged(run_id, "its entry cannot be read")
    return Entry(*row)


def _event(connection: sqlite3.Connection, run_id: str, seq: int) -> Event | None:
    row = connection.execute(
        "SELECT CAST(body AS BLOB) FROM planbench_events WHERE run_id = ? AND seq = ?",
        (run_id, seq),
    ).fetchone()
    return None if row is None else decoded(run_id, seq, row[0])


def _read(run_id: str, after: int, connection: sqlite3.Connection) -> list[Event]:
    entry = _entry(connection, run_id)
    if entry is None:
        return []
    rows = connection.execute(
        "SELECT seq, CAST(body AS BLOB) FROM planbench_events WHERE run_id = ? AND seq > ? ORDER BY seq",
        (run_id, after),
    ).fetchall()
    return decoded_all(run_id, rows, entry.events if after <= 0 else None)


def _runs(connection: sqlite3.Connection) -> list[RunRecord]:
    return [record_of(*row) for row in connection.execute(_RUNS)]


def _record(run_id: str, connection: sqlite3.Connection) -> RunRecord | None:
    row = connection.execute(_RUNS + " WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else record_of(*row)


def _delete(run_id: str, connection: sqlite3.Connection) -> None:
    for statement in _DELETES:
        connection.execute(statement, (run_id,))


def _delete_ended(record: RunRecord, connection: sqlite3.Connection) -> bool:
    unchanged = _record(record.run_id, connection) == record
    if not unchanged or _live(record.run_id, connection) is not None:
        return False
    _delete(record.run_id, connection)
    return True


def _newest(connection: sqlite3.Connection, run_id: str) -> Lease | None:
    row = connection.execute(
        "SELECT run_id, owner, token, expires FROM planbench_leases WHERE run_id = ?", (run_id,)
    ).fetchone()
    return None if row is None else readable(*row)


def _live(run_id: str, connection: sqlite3.Connection) -> Lease | None:
    newest = _newest(connection, run_id)
    return newest if newest is not None and newest.expires > time.time() else None


def _check_writer(connection: sqlite3.Connection, run_id: str, lease: Lease | None) -> None:
    newest = _newest(connection, run_id)
    if lease is not None:
        if newest is None or newest.token != lease.token:
            raise lost(lease)
    elif newest is not None and newest.expires > time.time():
        raise held(run_id)


def _acquire(run_id: str, owner: str, ttl: float, connection: sqlite3.Connection) -> Lease | None:
    now = time.time()
    newest = _newest(connection, run_id)
    if newest is not None and newest.expires > now and newest.owner != owner:
        return None
    token = next_token(0 if newest is None else newest.token, now)
    lease = Lease(run_id, owner, token, now + ttl)
    connection.execute("INSERT OR REPLACE INTO planbench_leases VALUES (?, ?, ?, ?)", lease)
    return lease


def _hold(lease: Lease, ttl: float | None, connection: sqlite3.Connection) -> bool:
    """Hold on for ``ttl`` seconds, or with None let go; whether the lease was there to hold."""
    expires = RELEASED if ttl is None else time.time() + ttl
    return bool(
        connection.execute(
            "UPDATE planbench_leases SET expires = ? WHERE run_id = ? AND token = ? AND expires != ? "
            "AND typeof(expires) = 'real'",
            (expires, lease.run_id, lease.token, RELEASED),
        ).rowcount
    )
