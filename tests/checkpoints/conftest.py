"""The stores that the contract is proved for, and the servers behind them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planbench.checkpoints import MemoryStore, TieredStore, open_store

CI = os.environ.get("CI") == "true"
HOST = "127.0.0.1"


def absent(reason):
    """A service that is not there: a failure where all must be there, else a skip."""
    if CI:
        pytest.fail(reason)
    pytest.skip(reason)


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def free_port():
    """A port below those that connections get: who asks for one of theirs can meet himself."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            return port


class Server:
    """A server of the test's own, which is stopped and started as the test likes."""

    def __init__(self, command):
        self.port = free_port()
        self.command = [str(part).replace("PORT", str(self.port)) for part in command]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 30
        while not answers(self.port):
            assert self.process.poll() is None, f"{self.command[0]} ended at once"
            assert time.monotonic() < until, f"{self.command[0]} does not answer"
            time.sleep(0.01)
        return self

    def stop(self, how=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:  # it was asked before it listened to that
                self.process.kill()
                self.process.wait(10)
            self.process = None


@pytest.fixture
def redis_server(tmp_path):
    """A Redis of the test's own that keeps what it has acknowledged."""
    if shutil.which("redis-server") is None:
        absent("redis-server is not installed")
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Server(
        ["redis-server", "--port", "PORT", "--bind", HOST, "--dir", folder, "--save", "",
         "--appendonly", "yes", "--appendfsync", "always"]
    )  # fmt: skip
    yield server.start()
    server.stop()


def mongodb_like(folder):
    program = Path(sys.executable).parent / "secantusd-py"
    if not program.exists():
        absent("secantusdb is not installed")
    return Server([program, "--host", HOST, "--port", "PORT", "--storage-path", folder])


@pytest.fixture
def mongodb_server(tmp_path):
    """A server that speaks MongoDB, with a folder of its own."""
    server = mongodb_like(tmp_path / "mongodb").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_mongodb():
    server = mongodb_like(":memory:").start()
    yield server
    server.stop()


class Place:
    """Where stores of one kind keep their runs, for one test; ``damage`` is done behind their back."""

    def __init__(self, url=None):
        self.url = url

    def store(self):
        return open_store(self.url)

    async def clear(self):
        pass


class MemoryPlace(Place):
    durable = False
    damage = damage_entry = None  # nothing but its own code reaches it

    def __init__(self):
        super().__init__("memory")
        self.only = open_store(self.url)

    def store(self):
        return self.only


class SQLitePlace(Place):
    durable = True

    def __init__(self, folder):
        self.file = folder / "some folder" / "runs.db"
        super().__init__(f"sqlite:///{self.file}")

    def change(self, statement, *values):
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            assert connection.execute(statement, values).rowcount == 1
            connection.commit()

    async def damage(self, run_id):
        self.change(
            "UPDATE planbench_events SET body = ? WHERE run_id = ? AND seq = 2",
            b'{"seq": 2, "run\xff', run_id,
        )  # fmt: skip

    async def damage_entry(self, run_id):
        self.change(
            "UPDATE planbench_runs SET head = '[', started = 'then' WHERE run_id = ?", run_id
        )

    async def damage_lease(self, run_id):
        self.change("UPDATE planbench_leases SET expires = 'soon' WHERE run_id = ?", run_id)


class PostgresPlace(Place):
    durable = True

    def __init__(self):
        if not answers(5432):
            absent("no PostgreSQL at 127.0.0.1:5432")
        self.schema = f"test_{secrets.token_hex(8)}"
        self.base = os.environ.get("PLANBENCH_TEST_POSTGRES", f"postgresql://postgres@{HOST}/test")
        super().__init__(f"{self.base}?schema={self.schema}")

    async def execute(self, statement, *values):
        import psycopg

        connection = await psycopg.AsyncConnection.connect(self.base, autocommit=True)
        async with connection:
            return await connection.execute(statement, values)

    async def damage(self, run_id):
        done = await self.execute(
            f"UPDATE {self.schema}.planbench_events SET body = %s WHERE run_id = %s AND seq = 2",
            b"\x00nonsense", run_id,
        )  # fmt: skip
        assert done.rowcount == 1

    async def damage_entry(self, run_id):
        done = await self.execute(
            f"UPDATE {self.schema}.planbench_runs SET head = '[1]', started = 'NaN' WHERE run_id = %s",
            run_id,
        )
        assert done.rowcount == 1

    async def clear(self):
        await self.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


class RedisPlace(Place):
    durable = False

    def __init__(self):
        if not answers(6379):
            absent("no Redis at 127.0.0.1:6379")
        self.prefix = f"test-{secrets.token_hex(8)}"
        super().__init__(f"redis://{HOST}:6379/0?prefix={self.prefix}&ttl=600")

    @contextlib.asynccontextmanager
    async def client(self):
        from redis.asyncio import Redis

        client = Redis.from_url(f"redis://{HOST}:6379/0")
        yield client
        await client.aclose()

    async def damage(self, run_id):
        key = f"{self.prefix}:events:{run_id}"
        async with self.client() as client:
            entries = await client.xrange(key)
            await client.delete(key)
            for name, fields in entries:
                await client.xadd(key, {b"event": b"\xff"} if name == b"2-0" else fields, name)

    async def damage_entry(self, run_id):
        key = f"{self.prefix}:run:{run_id}"
        async with self.client() as client:
            assert await client.exists(key)
            await client.delete(key)
            await client.set(key, "not a hash")

    async def damage_lease(self, run_id):
        key = f"{self.prefix}:lease:{run_id}"
        async with self.client() as client:
            assert await client.delete(key)
            await client.set(key, "not a hash")

    async def clear(self):
        async with self.client() as client:
            async for key in client.scan_iter(f"{self.prefix}:*"):
                await client.delete(key)


class MongoPlace(Place):
    durable = True

    def __init__(self, port):
        self.port, self.name = port, f"test_{secrets.token_hex(8)}"
        super().__init__(f"mongodb://{HOST}:{port}/{self.name}")

    @contextlib.asynccontextmanager
    async def database(self):
        from pymongo import AsyncMongoClient

        client = AsyncMongoClient(self.url)
        yield client[self.name]
        await client.close()

    async def damage(self, run_id):
        async with self.database() as database:
            done = await database["planbench_events"].update_one(
                {"run_id": run_id, "seq": 2}, {"$set": {"body": {"no": "bytes"}}}
            )
            assert done.modified_count == 1

    async def damage_entry(self, run_id):
        async with self.database() as database:
            done = await database["planbench_runs"].update_one(
                {"_id": run_id}, {"$set": {"started": "then", "events": []}}
            )
            assert done.modified_count == 1

    async def damage_lease(self, run_id):
        async with self.database() as database:
            done = await database["planbench_runs"].update_one(
                {"_id": run_id}, {"$set": {"token": "first", "expires": "soon"}}
            )
            assert done.modified_count == 1

    async def clear(self):
        async with self.database() as database:
            await database.client.drop_database(self.name)


class TieredPlace(Place):
    """Tiers in which the durable one is SQLite."""

    durable = True

    def __init__(self, beside, durable):
        super().__init__()
        self.beside, self.below = beside, durable
        self.damage, self.damage_entry = durable.damage, durable.damage_entry

    def store(self):
        return TieredStore(self.beside.store(), self.below.store())

    async def clear(self):
        await self.beside.clear()


class AlonePlace(Place):
    durable = False
    damage = damage_entry = None

    def __init__(self):
        super().__init__()
        self.only = TieredStore(MemoryStore(), None)

    def store(self):
        return self.only


PLACES = {
    "memory": lambda request: MemoryPlace(),
    "sqlite": lambda request: SQLitePlace(request.getfixturevalue("tmp_path")),
    "postgres": lambda request: PostgresPlace(),
    "redis": lambda request: RedisPlace(),
    "mongodb": lambda request: MongoPlace(request.getfixturevalue("shared_mongodb").port),
    "memory+sqlite": lambda request: TieredPlace(
        MemoryPlace(), SQLitePlace(request.getfixturevalue("tmp_path"))
    ),
    "redis+sqlite": lambda request: TieredPlace(
        RedisPlace(), SQLitePlace(request.getfixturevalue("tmp_path"))
    ),
    "memory alone": lambda request: AlonePlace(),
}


@pytest.fixture(params=PLACES)
def place(request):
    found = PLACES[request.param](request)
    yield found
    asyncio.run(found.clear())


@pytest.fixture(params=[name for name in PLACES if name not in ("memory", "memory alone")])
def kept_place(request):
    """The places that others than this process reach as well."""
    found = PLACES[request.param](request)
    yield found
    asyncio.run(found.clear())


@pytest.fixture(params=["sqlite", "redis", "mongodb"])
def loose_place(request):
    """The places whose fields may hold anything."""
    found = PLACES[request.param](request)
    yield found
    asyncio.run(found.clear())


@pytest.fixture
def sqlite_place(tmp_path):
    return SQLitePlace(tmp_path)


@pytest.fixture
def postgres_place():
    found = PostgresPlace()
    yield found
    asyncio.run(found.clear())


@pytest.fixture
def redis_place():
    found = RedisPlace()
    yield found
    asyncio.run(found.clear())


@pytest.fixture
def mongodb_place(shared_mongodb):
    found = MongoPlace(shared_mongodb.port)
    yield found
    asyncio.run(found.clear())


@pytest.fixture
def proved(place):
    """Runs a coroutine function with an open store on a loop of its own."""

    def prove(check):
        async def main():
            async with place.store() as store:
                await check(store)

        asyncio.run(main())

    return prove
