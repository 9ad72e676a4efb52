"""The store in MongoDB, by pymongo's own async client; a single server without transactions will do."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

from planbench.checkpoints.base import Lease, RunRecord
from planbench.checkpoints.leases import MICROSECONDS, RELEASED, held, lost
from planbench.checkpoints.records import Batch, Change, change_of, damaged, record_of
from planbench.checkpoints.servers import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Rows,
    ServerStore,
    missing_driver,
)
from planbench.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.collection import AsyncCollection

_ROUNDS: Final = 4
_AT_ONCE: Final = 200  # events in one request, each of which has its time to be answered
_DUPLICATE: Final = 11000
"""MongoDB's code for a second document under a unique key."""
_DATABASE: Final = "planbench"
_NOW: Final = {"$divide": [{"$toLong": "$$NOW"}, 1_000.0]}
_SOUND: Final = {
    "owner": {"$type": "string"}, "token": {"$type": "number"}, "expires": {"$type": "number"},
}  # fmt: skip
"""What can be read as a lease; any other is nobody's."""
_FREE: Final = {"$or": [{"$expr": {"$lte": ["$expires", _NOW]}}, {"$nor": [_SOUND]}]}
_OPTIONS: Final[dict[str, Any]] = {
    "serverSelectionTimeoutMS": int(CONNECT_SECONDS * 1_000),
    "connectTimeoutMS": int(CONNECT_SECONDS * 1_000),
    "socketTimeoutMS": int(ANSWER_SECONDS * 1_000),
}

Document = dict[str, Any]


class MongoStore(ServerStore):
    """Keeps journals in two collections of a MongoDB database: a document for each event.

    ``mongodb://host:27017/database``, with any option of the driver, or ``mongodb+srv://``;
    the database is ``planbench`` where the URL names none. What is acknowledged is in the
    server's journal.

    The document of a run says up to which ``seq`` its events count, and which token wrote
    which part of them. Events are inserted first and count when one update of that document
    says so, which succeeds for the newest token only: so a batch is there whole or not at
    all, and what a writer without its lease inserts never counts.
    """

    kind: ClassVar[str] = "mongodb"

    def __init__(self, url: str) -> None:
        try:
            from pymongo.errors import PyMongoError  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise missing_driver("pymongo", "mongodb") from None
        super().__init__(url, (PyMongoError,))
        self._url = url
        self._nobody = f"nobody/{secrets.token_hex(8)}"
        self._client: AsyncMongoClient[Document] | None = None
        self._runs: AsyncCollection[Document]
        self._events: AsyncCollection[Document]
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unsure: set[str] = set()

    @property
    def durable(self) -> bool:
        """The database outlives this process."""
        return True

    async def _connect(self) -> None:
        from pymongo import AsyncMongoClient, WriteConcern  # noqa: PLC0415 - an optional dependency
        from pymongo.errors import ConfigurationError as Refused  # noqa: PLC0415 - as above
        from pymongo.errors import InvalidURI  # noqa: PLC0415 - as above

        given = {name.lower() for name, _ in parse_qsl(self._url.partition("?")[2])}
        options = {key: value for key, value in _OPTIONS.items() if key.lower() not in given}
        try:
            self._client = AsyncMongoClient(self._url, **options)
            database = self._client.get_default_database(_DATABASE)
        except (Refused, InvalidURI, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"the address {self.address} cannot be read: {self._reason(error)}"
            ) from self._cause(error)
        concern = {"j": True, **self._client.write_concern.document}
        if concern.get("w") == 0:
            raise ConfigurationError(
                "w=0 asks MongoDB not to acknowledge what it keeps", hint="take w=0 out of the URL"
            )
        kept = WriteConcern(**concern)
        self._runs = database.get_collection("planbench_runs", write_concern=kept)
        self._events = database.get_collection("planbench_events", write_concern=kept)
        await self._events.create_index([("run_id", 1), ("seq", 1)], unique=True)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # -- journals ---------------------------------------------------------------------

    async def _append(self, batch: Batch, lease: Lease | None) -> dict[int, bytes | None]:
        run_id = batch.run_id
        lock = self._locks.setdefault(run_id, asyncio.Lock())
        async with lock:
            for _ in range(_ROUNDS):
                run = await self._writable(run_id, lease)
                old = [seq for seq in batch.seqs if seq <= run["last"]]
                odd = await self._odd(run, old, batch) if old else {}
                if odd or len(old) == len(batch.events):
                    return odd
                fresh = Batch(run_id, batch.events[len(old) :], batch.bodies[len(old) :])
                sure = run_id not in self._unsure
                self._unsure.add(run_id)
                if not sure:
                    await self._sweep(run, fresh)
                if await self._inserted(run, fresh) and await self._counted(run, fresh):
                    self._unsure.discard(run_id)
                    return {}
        raise StoreError(f"{self.address} cannot be written: others write to run {run_id!r}")

    async def _writable(self, run_id: str, lease: Lease | None) -> Document:
        """Give the document of a run that this lease, or none, may write to; raises LeaseLost."""
        run = await self._run(run_id)
        if lease is not None:
            if run is None or run.get("token") != lease.token:
                raise lost(lease)
        elif run is None or run.get("owner") != self._nobody:
            # writers without a lease are told apart by tokens too
            run = await self._taken(run_id, self._nobody, None)
            if run is None:
                raise held(run_id)
        if not isinstance(run.get("last"), int) or _eras(run) is None:
            raise damaged(run_id, "its entry cannot be read")
        return run

    async def _run(self, run_id: str) -> Document | None:
        return await self._runs.find_one({"_id": run_id})

    async def _odd(self, run: Document, seqs: list[int], batch: Batch) -> dict[int, bytes | None]:
        chosen = {"run_id": batch.run_id, "seq": {"$in": seqs}}
        stored = dict(self._counting(run, await self._events.find(chosen).to_list()))
        sent = zip(batch.seqs, batch.bodies, strict=True)
        return {
            seq: stored.get(seq)
            for seq, body in sent
            if seq <= run["last"] and stored.get(seq) != body
        }

    async def _sweep(self, run: Document, fresh: Batch) -> None:
        """Take away what an append without an answer may have left behind."""
        rest = {"$gt": run["last"], "$nin": fresh.seqs}
        await self._events.delete_many(
            {"run_id": fresh.run_id, "seq": rest, "token": {"$lte": run["token"]}}
        )

    async def _inserted(self, run: Document, fresh: Batch) -> bool:
        """Insert events that do not count yet; False where others are in the way."""
        from pymongo.errors import BulkWriteError  # noqa: PLC0415 - an optional dependency

        token, place = run["token"], {"run_id": fresh.run_id, "seq": {"$in": fresh.seqs}}
        left = dict(zip(fresh.seqs, fresh.bodies, strict=True))
        for _ in range(2):
            try:
                documents = [
                    {"run_id": fresh.run_id, "seq": seq, "token": token, "body": body}
                    for seq, body in left.items()
                ]
                for at in range(0, len(documents), _AT_ONCE):
                    await self._events.insert_many(documents[at : at + _AT_ONCE], ordered=False)
            except BulkWriteError as error:
                if any(one["code"] != _DUPLICATE for one in error.details["writeErrors"]):
                    raise
            else:
                return True
            await self._events.delete_many({**place, "token": {"$lt": token}})
            async for found in self._events.find(place):
                if found["token"] == token and found["body"] == left.get(found["seq"]):
                    del left[found["seq"]]
            if not left:
                return True
        return False

    async def _counted(self, run: Document, fresh: Batch) -> bool:
        """Let the inserted events count, if the token is still the newest."""
        change = change_of(fresh.events)
        known = {"_id": fresh.run_id, "token": run["token"], "last": run["last"]}
        counted = await self._runs.find_one_and_update(
            known,
            {"$set": _changes(run, change), "$inc": {"events": len(fresh.events)}},
            projection=["_id"],
        )
        return counted is not None

    async def _rows(self, run_id: str, after: int) -> Rows:
        run = await self._run(run_id)
        if run is None or run.get("events") == 0:
            return [], None
        last, count = run.get("last"), run.get("events")
        if not isinstance(last, int) or not isinstance(count, int) or _eras(run) is None:
            raise damaged(run_id, "its entry cannot be read")
        chosen = {"run_id": run_id, "seq": {"$gt": after, "$lte": last}}
        found = await self._events.find(chosen).sort("seq").to_list()
        return self._counting(run, found), count if after == 0 else None

    def _counting(self, run: Document, found: list[Document]) -> list[tuple[int, Any]]:
        """Pick the events that were written by the token whose part of the run they are in."""
        eras = _eras(run) or []
        rows = []
        for event in found:
            seq = event["seq"]
            token = next((token for after, token in reversed(eras) if after < seq), None)
            if event.get("token") == token:
                rows.append((seq, event.get("body")))
        return rows

    async def _records(self, run_id: str | None) -> list[RunRecord]:
        chosen: Document = {"events": {"$ne": 0}}
        if run_id is not None:
            chosen["_id"] = run_id
        fields = ("head", "status", "started", "updated", "events")
        return [
            record_of(str(found["_id"]), *(found.get(field) for field in fields))
            async for found in self._runs.find(chosen, projection=list(fields))
        ]

    async def _delete(self, run_id: str) -> None:
        await self._runs.delete_one({"_id": run_id})
        await self._events.delete_many({"run_id": run_id})

    async def _delete_ended(self, record: RunRecord) -> bool:
        known = {
            "_id": record.run_id,
            "status": record.status,
            "events": record.events,
            "updated": record.updated,
        }
        if await self._runs.find_one_and_delete({**known, **_FREE}, projection=["_id"]) is None:
            return False
        await self._events.delete_many({"run_id": record.run_id})
        return True

    # -- leases -----------------------------------------------------------------------

    async def _acquire(self, run_id: str, owner: str, ttl: float) -> Lease | None:
        run = await self._taken(run_id, owner, ttl)
        return None if run is None else _lease(run)

    async def _taken(self, run_id: str, owner: str, ttl: float | None) -> Document | None:
        """Give a run a new token, held for ``ttl`` seconds or not at all; None: it is held."""
        from pymongo import ReturnDocument  # noqa: PLC0415 - an optional dependency

        chosen: Document = {"_id": run_id, "$or": [{"owner": owner}, _FREE]}
        expires = RELEASED if ttl is None else {"$add": [_NOW, ttl]}
        clock = {"$multiply": [{"$toLong": "$$NOW"}, MICROSECONDS // 1_000]}
        numbers = ("int", "long", "double", "decimal")
        token = {"$cond": [{"$in": [{"$type": "$token"}, numbers]}, {"$add": ["$token", 1]}, 0]}
        ended = {
            "$filter": {"input": "$eras", "as": "era", "cond": {"$lt": ["$$era.after", "$last"]}}
        }
        change: list[Document] = [
            {
                "$set": {
                    "token": {"$max": [token, clock]},
                    "owner": {"$literal": owner},
                    "expires": expires,
                }
            },
            {"$set": {"eras": {"$concatArrays": [ended, [{"token": "$token", "after": "$last"}]]}}},
        ]
        for _ in range(2):
            run = await self._runs.find_one_and_update(
                chosen, change, return_document=ReturnDocument.AFTER
            )
            if run is not None or not await self._made(run_id):
                return run
        return None

    async def _made(self, run_id: str) -> bool:
        """Make the document of a run; False where there is one."""
        from pymongo.errors import DuplicateKeyError  # noqa: PLC0415 - an optional dependency

        empty = {"token": 0, "owner": "", "expires": RELEASED, "last": 0, "events": 0, "eras": []}
        try:
            await self._runs.insert_one({"_id": run_id, **empty})
        except DuplicateKeyError:
            return False
        return True

    async def _hold(self, lease: Lease, ttl: float | None) -> bool:
        chosen = {"_id": lease.run_id, "token": lease.token, "expires": {"$ne": RELEASED}}
        expires = RELEASED if ttl is None else {"$add": [_NOW, ttl]}
        done = await self._runs.update_one(chosen, [{"$set": {"expires": expires}}])
        return done.matched_count == 1

    async def _live(self, run_id: str) -> Lease | None:
        chosen = {"_id": run_id, "$expr": {"$gt": ["$expires", _NOW]}, **_SOUND}
        run = await self._runs.find_one(chosen)
        return None if run is None else _lease(run)


def _lease(run: Mapping[str, Any]) -> Lease:
    return Lease(run["_id"], run["owner"], int(run["token"]), float(run["expires"]))


def _eras(run: Document) -> list[tuple[int, Any]] | None:
    """Give after which event each token wrote; None where that cannot be read."""
    try:
        return [(int(era["after"]), era["token"]) for era in run["eras"]]
    except (KeyError, TypeError, ValueError):
        return None


def _changes(run: Document, change: Change) -> Document:
    changes: Document = {"updated": change.updated, "last": change.last}
    if run["events"] == 0:
        changes |= {"started": change.started, "status": "running"}
    if change.status is not None:
        changes["status"] = change.status
    if change.head is not None and run.get("head") is None:
        changes["head"] = change.head
    return changes
