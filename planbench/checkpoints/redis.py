"""The store in Redis: a stream for each run, gone with its time to live."""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from planbench.checkpoints.addresses import options_of
from planbench.checkpoints.base import Lease, RunRecord
from planbench.checkpoints.leases import held, lost
from planbench.checkpoints.records import Batch, change_of, damaged, record_of
from planbench.checkpoints.redis_scripts import ACQUIRE, APPEND, DELETE_ENDED, HOLD
from planbench.checkpoints.servers import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Rows,
    ServerStore,
    missing_driver,
)
from planbench.errors import ConfigurationError

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.commands.core import AsyncScript

TTL_VARIABLE: Final = "FLOW_CHECKPOINT_REDIS_TTL"
_DAY: Final = 24 * 60 * 60
_CONNECTIONS: Final = 16
_PAGE: Final = 2_000
_WRONG_TYPE: Final = "WRONGTYPE"
"""How Redis begins to say that a key holds something else than it should."""
_FIELDS: Final = ("head", "status", "started", "updated", "events")
_logger = logging.getLogger(__name__)


class RedisStore(ServerStore):
    """Keeps journals in Redis until nothing was written to them for a day.

    ``redis://host:6379/0`` or ``rediss://``. The time to live is 24 hours,
    FLOW_CHECKPOINT_REDIS_TTL seconds, or ``?ttl=`` seconds; the events, the lease and the
    listing of a run share it, and every append and renewal starts it again. ``?prefix=``
    names the keys, by default ``planbench``. What a Redis server keeps on disk is its own
    setting: opening one that keeps nothing logs a warning.
    """

    kind: ClassVar[str] = "redis"

    def __init__(self, url: str) -> None:
        try:
            from redis.asyncio.connection import parse_url  # noqa: PLC0415 - an optional dependency
            from redis.exceptions import RedisError  # noqa: PLC0415 - as above
        except ImportError:
            raise missing_driver("redis", "redis") from None
        self._url, options = options_of(url, ("ttl", "prefix"))
        super().__init__(url, (RedisError,))
        try:
            parse_url(self._url)
        except ValueError as error:
            raise ConfigurationError(
                f"the address {self.address} cannot be read: {self._reason(error)}"
            ) from self._cause(error)
        self.ttl = _seconds(options.get("ttl") or os.environ.get(TTL_VARIABLE) or _DAY)
        self._prefix = options.get("prefix") or "planbench"
        self._client: Redis | None = None
        self._scripts: dict[str, AsyncScript] = {}
        self._warned = False

    async def _connect(self) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis  # noqa: PLC0415 - as above
        from redis.asyncio.retry import Retry  # noqa: PLC0415 - as above
        from redis.backoff import NoBackoff  # noqa: PLC0415 - as above
        from redis.exceptions import ConnectionError as Gone  # noqa: PLC0415 - as above

        pool = BlockingConnectionPool.from_url(
            self._url,
            max_connections=_CONNECTIONS,
            timeout=ANSWER_SECONDS,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            # a connection that the server has dropped meanwhile is made again at once
            retry=Retry(NoBackoff(), 1, supported_errors=(Gone,)),
            retry_on_error=[Gone],
        )
        self._client = client = Redis.from_pool(pool)
        scripts = {"append": APPEND, "acquire": ACQUIRE, "hold": HOLD, "drop": DELETE_ENDED}
        self._scripts = {name: client.register_script(text) for name, text in scripts.items()}
        await client.ping()
        if not self._warned:
            await self._look_at_persistence(client)

    async def _look_at_persistence(self, client: Redis) -> None:
        from redis.exceptions import ResponseError  # noqa: PLC0415 - an optional dependency

        try:
            found = await client.config_get("save", "appendonly")
        except ResponseError:  # managed servers refuse CONFIG, and keep what they keep
            return
        settings = {_text(name): _text(value) for name, value in found.items()}
        if settings.get("save") == "" and settings.get("appendonly") == "no":
            self._warned = True
            _logger.warning(
                "%s keeps nothing on disk: its runs are gone when it restarts. Switch on appendonly there, "
                "or keep runs in SQLite, PostgreSQL or MongoDB",
                self.address,
            )

    async def _disconnect(self) -> None:
        client, self._client, self._scripts = self._client, None, {}
        if client is not None:
            await client.aclose()

    @property
    def _redis(self) -> Redis:
        assert self._client is not None
        return self._client

    def _keys(self, run_id: str) -> list[str]:
        kept = (f"{self._prefix}:{kind}:{run_id}" for kind in ("run", "events", "lease"))
        return [*kept, f"{self._prefix}:runs"]

    async def _run(self, script: str, run_id: str, *args: str | float | bytes) -> Any:
        milliseconds = round(self.ttl * 1_000)
        return await self._scripts[script](self._keys(run_id), [run_id, milliseconds, *args])

    # -- journals ---------------------------------------------------------------------

    async def _append(self, batch: Batch, lease: Lease | None) -> dict[int, bytes | None]:
        change = change_of(batch.events)
        events: list[int | bytes] = []
        for event, body in zip(batch.events, batch.bodies, strict=True):
            events += (event.seq, body)
        said, odd = await self._run(
            "append",
            batch.run_id,
            "" if lease is None else lease.token,
            repr(change.started),
            repr(change.updated),
            change.last,
            change.status or "",
            change.status_seq,
            change.head or "",
            *events,
        )
        if said == b"lost" and lease is not None:
            raise lost(lease)
        if said == b"held":
            raise held(batch.run_id)
        if said == b"damaged":
            raise damaged(batch.run_id, "its events are there, and what is known of it is not")
        return {int(seq): body or None for seq, body in zip(odd[::2], odd[1::2], strict=True)}

    async def _rows(self, run_id: str, after: int) -> Rows:
        run, stream, *_ = self._keys(run_id)
        count, last = await self._redis.hmget(run, ["events", "last"])
        if count is None and last is None:
            return [], None
        try:
            expected, end = int(count or ""), int(last or "")
        except ValueError:
            raise damaged(run_id, "its entry cannot be read") from None
        rows: list[tuple[int, Any]] = []
        place = after
        while True:
            page: Any = await self._redis.xrange(stream, f"{place + 1}-0", f"{end}-0", count=_PAGE)
            for name, fields in page:
                place = int(name.split(b"-")[0])
                rows.append((place, fields.get(b"event", b"")))
            if len(page) < _PAGE:
                return rows, expected if after == 0 else None

    async def _records(self, run_id: str | None) -> list[RunRecord]:
        if run_id is not None:
            names = [run_id]
        else:
            names = [_text(one) for one in await self._redis.zrange(self._keys("")[-1], 0, -1)]
        records = []
        for start in range(0, len(names), _PAGE):
            page = names[start : start + _PAGE]
            pipe = self._redis.pipeline(transaction=False)
            for name in page:
                pipe.hmget(self._keys(name)[0], _FIELDS)
            rows = await pipe.execute(raise_on_error=False)
            for name, row in zip(page, rows, strict=True):
                if isinstance(row, Exception):  # the key is of another type
                    records.append(record_of(name, None, None, None, None, None))
                elif row[-1] is not None or row[0] is not None:
                    status = None if row[1] is None else _text(row[1])
                    records.append(record_of(name, row[0], status, *row[2:]))
        return records

    async def _delete(self, run_id: str) -> None:
        *kept, index = self._keys(run_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(*kept)
            pipe.zrem(index, run_id)
            await pipe.execute()

    async def _delete_ended(self, record: RunRecord) -> bool:
        said = record.status, record.events, repr(record.updated)
        return bool(await self._run("drop", record.run_id, *said))

    # -- leases -----------------------------------------------------------------------

    async def _acquire(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        given = await self._run("acquire", run_id, owner, repr(ttl))
        if not given:
            return None
        token, expires = given
        return Lease(run_id, owner, int(token), float(expires))

    async def _hold(self, lease: Lease, ttl: float | None) -> bool:
        seconds = "" if ttl is None else repr(ttl)
        return bool(await self._run("hold", lease.run_id, lease.token, seconds))

    async def _live(self, run_id: str) -> Lease | None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(self._keys(run_id)[2], ["owner", "token", "expires"])
            pipe.time()
            found, moment = await pipe.execute(raise_on_error=False)
        for answer in (found, moment):
            if isinstance(answer, Exception) and not str(answer).startswith(_WRONG_TYPE):
                raise answer
        try:
            owner, token, expires = found
            lease = Lease(run_id, _text(owner), int(token), float(expires))
        except (TypeError, ValueError):  # there is none, or it cannot be read
            return None
        seconds, micro = moment
        return lease if lease.expires > seconds + micro / 1e6 else None


def _seconds(value: str | int) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ConfigurationError(
            f"runs live for a positive number of seconds in Redis, not {value!r}",
            hint=f"it is taken from ?ttl= in the URL, else from {TTL_VARIABLE}",
        )
    return seconds


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
