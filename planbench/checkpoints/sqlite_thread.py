"""A thread that alone works on one SQLite connection, so that no lock ever holds the loop."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from planbench.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_TOGETHER: Final = 64
"""Jobs that share a transaction, at most: so that another process gets its turn soon."""
_PAUSE: Final = 0.01
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PRIMARY: Final = 0xFF
"""The bits of an error code that say what it is; those above say more."""


class _Task(NamedTuple):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    job: Callable[[sqlite3.Connection], Any]


class _End(NamedTuple):
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None


_Answer = tuple[Any, Exception | None]
_Tasks = SimpleQueue[_Task | _End]


class Opener(NamedTuple):
    """How the thread gets its connection and begins a transaction.

    ``check`` raises where the connection is of no use any more; ``patience`` is in seconds.
    """

    connect: Callable[[], sqlite3.Connection]
    check: Callable[[sqlite3.Connection], None]
    begin: str
    patience: float


class DatabaseThread:
    """Does jobs on a connection of its own, those that wait together in one transaction.

    A job that raises undoes its own work only. The connection is opened by the first
    job, and again by the next one after an error of the database. The thread ends with
    ``stop``, with the last reference to this object, or with the process.
    """

    def __init__(self, opener: Opener, name: str) -> None:
        self._tasks: _Tasks = SimpleQueue()
        self._lock = threading.Lock()
        self._ended = False
        self._thread = threading.Thread(
            target=_serve, args=(self._tasks, opener), name=name, daemon=True
        )
        self._thread.start()

    async def do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job there and wait until it is committed; raises what it raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._ended:
                raise StoreError("the store was closed meanwhile")
            if not self._thread.is_alive():
                raise StoreError(
                    "the store was opened in another process",
                    hint="a forked process opens a store of its own",
                )
            self._tasks.put(_Task(loop, future, job))
        return await future

    async def stop(self) -> None:
        """Finish what was asked for, close the connection and end the thread."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._ended or not self._thread.is_alive():
                return
            self._ended = True
            self._tasks.put(_End(loop, future))
        await future
        self._thread.join()

    def __del__(self) -> None:
        self._tasks.put(_End())


def is_busy(error: BaseException) -> bool:
    """Whether somebody else holds the database."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and primary(code) in _BUSY


def primary(code: int) -> int:
    """Give what an error is, of a code that says more."""
    return code & _PRIMARY


def patiently(work: Callable[[], T], patience: float) -> T:
    """Do it again while the database is busy: SQLite does not wait in every place where it is."""
    until = time.monotonic() + patience
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE)


def _serve(tasks: _Tasks, opener: Opener) -> None:
    connection: sqlite3.Connection | None = None
    end = None
    while end is None:
        batch, end = _next(tasks)
        try:
            if batch:
                if connection is None:
                    connection = opener.connect()
                opener.check(connection)
                _settle(batch, _done(connection, batch, opener))
        except Exception as error:  # noqa: BLE001 - it goes to whoever waits for the batch
            _settle(batch, [(None, error)] * len(batch))
            if connection is not None and not is_busy(error):
                _close(connection)
                connection = None
        del batch  # what is in it must not live on while this thread waits
    if connection is not None:
        _close(connection)
    if end.loop is not None and end.future is not None:
        _wake(end.loop, [(end.future, (None, None))])


def _next(tasks: _Tasks) -> tuple[list[_Task], _End | None]:
    """Wait for a task and take those that wait behind it."""
    batch: list[_Task] = []
    task = tasks.get()
    while isinstance(task, _Task):
        batch.append(task)
        if len(batch) == _TOGETHER:
            return batch, None
        try:
            task = tasks.get_nowait()
        except Empty:
            return batch, None
    return batch, task


def _done(connection: sqlite3.Connection, batch: list[_Task], opener: Opener) -> list[_Answer]:
    answers: list[_Answer] = []
    patiently(lambda: connection.execute(opener.begin), opener.patience)
    try:
        for task in batch:
            if len(batch) > 1:
                connection.execute("SAVEPOINT job")
            try:
                answers.append((task.job(connection), None))
            except Exception as error:
                if not connection.in_transaction:  # a full disk undoes them all
                    raise
                answers.append((None, error))
                connection.execute("ROLLBACK TO job" if len(batch) > 1 else "ROLLBACK")
            if len(batch) > 1:
                connection.execute("RELEASE job")
        patiently(connection.commit, opener.patience)
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise
    return answers


def _settle(batch: list[_Task], answers: list[_Answer]) -> None:
    """Give each its answer on its own loop, with one wake-up for each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Answer]]] = {}
    for task, answer in zip(batch, answers, strict=True):
        loops.setdefault(task.loop, []).append((task.future, answer))
    for loop, ready in loops.items():
        _wake(loop, ready)


def _wake(
    loop: asyncio.AbstractEventLoop, ready: list[tuple[asyncio.Future[Any], _Answer]]
) -> None:
    with contextlib.suppress(RuntimeError):  # a loop that was closed waits for nothing
        loop.call_soon_threadsafe(_answer, ready)


def _answer(ready: list[tuple[asyncio.Future[Any], _Answer]]) -> None:
    for future, (value, error) in ready:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def _close(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):  # nothing is left that could be lost
        connection.close()
