"""The store in PostgreSQL, by psycopg 3."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from planbench.checkpoints import postgres_statements as statements
from planbench.checkpoints.addresses import options_of
from planbench.checkpoints.base import Lease, RunRecord
from planbench.checkpoints.leases import held, lost
from planbench.checkpoints.records import Batch, change_of, record_of
from planbench.checkpoints.servers import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    READ_SECONDS,
    Rows,
    ServerStore,
    missing_driver,
)
from planbench.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from psycopg import AsyncConnection
    from psycopg.sql import Composed
    from psycopg_pool import AsyncConnectionPool

T = TypeVar("T")

_CONNECTIONS: Final = 8
_ROUNDS: Final = 5
_EVENTS_A_SECOND: Final = 1_000


class PostgresStore(ServerStore):
    """Keeps journals in three tables of a PostgreSQL database, which it makes when opened.

    ``postgresql://user@host/database``, with any option of libpq; ``postgres://`` is the
    same. The tables are ``planbench_runs``, ``planbench_events`` and ``planbench_leases``,
    in the schema ``?schema=``, which is made too, or in the first one of the search path.
    What is acknowledged is committed.
    """

    kind: ClassVar[str] = "postgres"

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an optional dependency
            import psycopg_pool  # noqa: PLC0415 - as above
        except ImportError as error:
            raise missing_driver(error.name or "psycopg", "postgres") from None
        address, options = options_of(url, ("schema",))
        super().__init__(url, (psycopg.Error, psycopg_pool.PoolClosed))
        self._schema = options.get("schema") or None
        try:
            self._conninfo = psycopg.conninfo.make_conninfo(address)
        except psycopg.Error as error:
            raise ConfigurationError(
                f"the address {self.address} cannot be read: {self._reason(error)}"
            ) from self._cause(error)
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] | None = None
        self._trouble: Exception | None = None
        self._said: dict[str, Composed] = {}
        self._turns: asyncio.Semaphore

    @property
    def durable(self) -> bool:
        """The database outlives this process."""
        return True

    async def _connect(self) -> None:
        from psycopg import AsyncConnection  # noqa: PLC0415 - an optional dependency
        from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415 - as above

        store = self

        class Connection(AsyncConnection[Any]):
            @classmethod
            async def connect(cls, *args: Any, **kwargs: Any) -> Any:
                store._trouble = None
                try:
                    return await super().connect(*args, **kwargs)
                except Exception as error:  # the pool only says that there is no connection
                    store._trouble = error
                    raise

        self._pool = AsyncConnectionPool(
            self._conninfo,
            connection_class=Connection,
            kwargs={"autocommit": True, "connect_timeout": int(CONNECT_SECONDS)},
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
        )
        self._turns = asyncio.Semaphore(_CONNECTIONS)
        await self._pool.open()
        async with self._pool.connection() as connection:
            await _bounded(connection, self._prepare(connection), ANSWER_SECONDS)

    async def _prepare(self, connection: AsyncConnection[Any]) -> None:
        """Make the tables where they are missing: who may not make any can use those there are."""
        from psycopg.sql import SQL, Identifier  # noqa: PLC0415 - an optional dependency

        schema = () if self._schema is None else (self._schema,)
        kinds = ("runs", "events", "leases")
        names = {kind: Identifier(*schema, f"planbench_{kind}") for kind in kinds}
        for name in ("APPEND", "READ", "RECORDS", "RECORD", "DELETE", "DELETE_ENDED"):
            self._said[name] = SQL(getattr(statements, name)).format(**names)
        for name in ("ALONE", "ACQUIRE", "HOLD", "LIVE"):
            self._said[name] = SQL(getattr(statements, name)).format(**names)
        last = names["leases"].as_string(connection)
        found = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", (last,))
        if await found.fetchone() == (True,):
            return
        async with connection.transaction():
            await connection.execute(statements.LOCK)
            if self._schema is not None:
                owner = Identifier(self._schema)
                await connection.execute(SQL(statements.SCHEMA).format(schema=owner))
            await connection.execute(SQL(statements.TABLES).format(**names))

    async def _disconnect(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _ask(
        self, statement: str, seconds: float = ANSWER_SECONDS, **values: Any
    ) -> list[tuple[Any, ...]]:
        """Say one of the statements; again where the server has dropped the connection meanwhile."""
        from psycopg import Error, errors  # noqa: PLC0415 - an optional dependency

        crossed = (errors.UniqueViolation, errors.DeadlockDetected, errors.SerializationFailure)
        for number in range(_ROUNDS):
            connection = None
            assert self._pool is not None
            try:
                async with self._turn(), self._pool.connection() as connection:
                    return await _bounded(
                        connection, self._answer(connection, statement, values), seconds
                    )
            except crossed:
                if number == _ROUNDS - 1:
                    raise
            except Error:
                if number > 0 or connection is None or not connection.closed:
                    raise
                await self._pool.check()
        raise AssertionError  # the last round returns or raises

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a free connection apart from the pool, which waits for the server only."""
        async with asyncio.timeout(READ_SECONDS):
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    async def _answer(
        self, connection: AsyncConnection[Any], statement: str, values: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        if statement != "APPEND_ALONE":
            cursor = await connection.execute(self._said[statement], values, binary=True)
            return await cursor.fetchall()
        async with connection.transaction():
            await connection.execute(self._said["ALONE"], values)
            cursor = await connection.execute(self._said["APPEND"], values, binary=True)
            return await cursor.fetchall()

    def _failed(self, doing: str, error: Exception) -> StoreError:
        from psycopg_pool import PoolTimeout  # noqa: PLC0415 - an optional dependency

        if isinstance(error, PoolTimeout) and self._trouble is not None:
            error, self._trouble = self._trouble, None
        return super()._failed(doing, error)

    # -- journals ---------------------------------------------------------------------

    async def _append(self, batch: Batch, lease: Lease | None) -> dict[int, bytes | None]:
        change = change_of(batch.events)
        odd: dict[int, bytes | None] = {}
        for statement in ("APPEND", "APPEND_ALONE"):
            rows = await self._ask(
                statement,
                ANSWER_SECONDS + len(batch.events) / _EVENTS_A_SECOND,
                run=batch.run_id,
                seqs=batch.seqs,
                bodies=batch.bodies,
                token=None if lease is None else lease.token,
                **change._asdict(),
            )
            verdict = rows[0][0]
            if verdict == "lost" and lease is not None:
                raise lost(lease)
            if verdict == "held":
                raise held(batch.run_id)
            odd = {seq: body for _, seq, body in rows if seq is not None}
            if None not in odd.values():
                break  # else it may have come while the statement waited for its turn
        return odd

    async def _rows(self, run_id: str, after: int) -> Rows:
        rows = await self._ask("READ", READ_SECONDS, run=run_id, after=after)
        expected = rows[0][0] if rows and after == 0 else None
        return [(seq, body) for _, seq, body in rows if seq is not None], expected

    async def _records(self, run_id: str | None) -> list[RunRecord]:
        if run_id is None:
            rows = await self._ask("RECORDS", READ_SECONDS)
        else:
            rows = await self._ask("RECORD", run=run_id)
        return [record_of(*row) for row in rows]

    async def _delete(self, run_id: str) -> None:
        await self._ask("DELETE", READ_SECONDS, run=run_id)

    async def _delete_ended(self, record: RunRecord) -> bool:
        return bool(
            await self._ask(
                "DELETE_ENDED",
                READ_SECONDS,
                run=record.run_id,
                status=record.status,
                events=record.events,
                updated=record.updated,
            )
        )

    # -- leases -----------------------------------------------------------------------

    async def _acquire(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        rows = await self._ask("ACQUIRE", run=run_id, owner=owner, ttl=ttl)
        return Lease(run_id, owner, *rows[0]) if rows else None

    async def _hold(self, lease: Lease, ttl: float | None) -> bool:
        return bool(await self._ask("HOLD", run=lease.run_id, token=lease.token, ttl=ttl))

    async def _live(self, run_id: str) -> Lease | None:
        rows = await self._ask("LIVE", run=run_id)
        return Lease(run_id, *rows[0]) if rows else None


async def _bounded(
    connection: AsyncConnection[Any], work: Coroutine[Any, Any, T], seconds: float
) -> T:
    """Wait for an answer so long and no longer; a connection that is given up is cut.

    psycopg itself waits for the server when it is cancelled, and a server that has fallen
    silent would hold the caller.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await _cut(connection, task)
        raise
    if not done:
        await _cut(connection, task)
        raise TimeoutError
    return task.result()


async def _cut(connection: AsyncConnection[Any], task: asyncio.Future[Any]) -> None:
    with contextlib.suppress(Exception):  # it is closed already
        number = connection.fileno()
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as wire:
            wire.shutdown(socket.SHUT_RDWR)
    await asyncio.wait([task])
    task.exception()  # it is known: nobody waits for it
