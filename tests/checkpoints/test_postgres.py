"""The store in PostgreSQL: its tables, and a connection that is cut or falls silent."""

import asyncio
import contextlib
import time
from urllib.parse import urlsplit

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.errors import ConfigurationError, StoreError
from planbench.events import Event


def journal(run_id, count):
    kinds = [ev.RUN_STARTED] + [ev.NODE_PROGRESS] * (count - 1)
    return [Event(i, run_id, 5.0 + i, kind, {"n": i}) for i, kind in enumerate(kinds, 1)]


class Wire:
    """A way to the server that the test can cut, and make silent."""

    def __init__(self, place):
        parts = urlsplit(place.url)
        self.target = parts.hostname, parts.port or 5432
        self.place, self.port, self.server, self.tasks = place, 0, None, set()
        self.open = asyncio.Event()
        self.open.set()

    @property
    def url(self):
        host, port = self.target
        return self.place.url.replace(f"@{host}", f":hunter2@{host}:{self.port}").replace(
            f"{self.port}:{port}", str(self.port)
        )

    async def start(self):
        self.server = await asyncio.start_server(self.carry, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def carry(self, reader, writer):
        there, back = await asyncio.open_connection(*self.target)
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.pump(reader, back))
                group.create_task(self.pump(there, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            for one in (writer, back):
                one.transport.abort()

    async def pump(self, reader, writer):
        while data := await reader.read(65536):
            await self.open.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def cut(self):
        self.server.close()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@contextlib.contextmanager
def within(seconds):
    before = time.monotonic()
    yield
    assert time.monotonic() - before < seconds


def test_many_may_open_a_new_database_at_once(postgres_place):
    async def main():
        stores = [postgres_place.store() for _ in range(8)]
        await asyncio.gather(*[store.open() for store in stores])
        await asyncio.gather(
            *[store.append(f"run_{i}", journal(f"run_{i}", 3)) for i, store in enumerate(stores)]
        )
        assert len(await stores[0].runs()) == 8
        await asyncio.gather(*[store.close() for store in stores])

    asyncio.run(main())


def test_who_may_not_make_tables_uses_those_that_are_there(postgres_place):
    role = f"{postgres_place.schema}_reader"

    async def main():
        async with postgres_place.store() as store:
            await store.append("run_a", journal("run_a", 3))
        await postgres_place.execute(f"CREATE ROLE {role} LOGIN")
        try:
            await postgres_place.execute(f"GRANT USAGE ON SCHEMA {postgres_place.schema} TO {role}")
            await postgres_place.execute(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES "
                f"IN SCHEMA {postgres_place.schema} TO {role}"
            )
            async with open_store(postgres_place.url.replace("postgres@", f"{role}@")) as store:
                await store.append("run_a", journal("run_a", 4))
                await store.acquire_lease("run_a", "me", 5)
                assert len(await store.read("run_a")) == 4
        finally:
            await postgres_place.execute(f"DROP OWNED BY {role}")
            await postgres_place.execute(f"DROP ROLE {role}")

    asyncio.run(main())


def test_without_a_schema_the_tables_are_in_the_search_path(postgres_place):
    base, schema = postgres_place.base, postgres_place.schema

    async def main():
        await postgres_place.execute(f"CREATE SCHEMA {schema}")
        async with open_store(f"{base}?options=-csearch_path%3D{schema}") as store:
            await store.append("run_a", journal("run_a", 3))
        async with postgres_place.store() as store:
            assert len(await store.read("run_a")) == 3

    asyncio.run(main())


def test_both_spellings_name_the_store():
    one, two, plain = map(open_store, ("postgresql://h/d", "postgres://h/d", "postgres"))
    assert {one.kind, two.kind, plain.kind} == {"postgres"}
    assert repr(one) == "<PostgresStore postgresql://h/d>"


@pytest.mark.parametrize(
    "url", ["postgresql://u:hunter2@h/d?no_such_option=1", "postgresql://u:hunter2@[/d"]
)
def test_an_address_that_cannot_be_read_is_a_configuration_error_without_the_password(url):
    with pytest.raises(ConfigurationError, match="cannot be read") as raised:
        open_store(url)
    assert "hunter2" not in f"{raised.value} {raised.value.__cause__!r}"


def test_two_who_append_the_same_at_once_are_both_right(postgres_place):
    async def main():
        async with postgres_place.store() as one, postgres_place.store() as two:
            for number in range(10):
                run_id = f"run_{number}"
                events = journal(run_id, 20)
                await asyncio.gather(
                    *[(one, two)[i % 2].append(run_id, events[: 5 + i]) for i in range(6)]
                )
                assert await one.read(run_id) == events[:10]
                assert (await one.record(run_id)).events == 10

    asyncio.run(main())


def test_of_two_who_append_something_else_at_once_one_is_refused(postgres_place):
    async def main():
        async with postgres_place.store() as one, postgres_place.store() as two:
            for number in range(10):
                run_id = f"run_{number}"
                mine = journal(run_id, 5)
                yours = [event._replace(data={"by": "you"}) for event in mine]
                answers = await asyncio.gather(
                    one.append(run_id, mine), two.append(run_id, yours), return_exceptions=True
                )
                assert sorted(type(answer).__name__ for answer in answers) == [
                    "NoneType",
                    "StoreError",
                ]
                assert await one.read(run_id) == (mine if answers[0] is None else yours)

    asyncio.run(main())


def test_deleting_and_appending_at_once_leaves_no_half_of_a_run(postgres_place):
    async def main():
        async with postgres_place.store() as one, postgres_place.store() as two:
            events = journal("run_a", 10)
            for _ in range(15):
                await one.append("run_a", events[:5])
                await asyncio.gather(one.append("run_a", events), two.delete("run_a"))
                assert await one.read("run_a") in (events, [])
                await one.delete("run_a")

    asyncio.run(main())


def test_many_more_runs_than_connections_take_turns(postgres_place):
    async def main():
        async with postgres_place.store() as store:
            await asyncio.gather(
                *[store.append(f"run_{i}", journal(f"run_{i}", 3)) for i in range(150)]
            )
            assert len(await store.runs()) == 150

    asyncio.run(main())


# -- the way to the server ----------------------------------------------------------------


def test_connections_that_the_server_has_dropped_are_made_again_unseen(postgres_place):
    async def main():
        async with postgres_place.store() as store:
            await asyncio.gather(
                *[store.append(f"run_{i}", journal(f"run_{i}", 30)) for i in range(8)]
            )
            await postgres_place.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE %s AND pid <> pg_backend_pid()",
                f"%{postgres_place.schema}%",
            )
            await store.append("run_0", journal("run_0", 31))
            assert len(await store.read("run_0")) == 31

    asyncio.run(main())


def test_a_server_that_is_gone_fails_each_call_and_the_store_works_when_it_is_back(postgres_place):
    async def main():
        wire = Wire(postgres_place)
        await wire.start()
        async with open_store(wire.url) as store:
            lease = await store.acquire_lease("run_a", "me", 600)
            await store.append("run_a", journal("run_a", 3), lease)
            await wire.cut()
            for call in (
                store.append("run_a", journal("run_a", 4), lease), store.read("run_a"),
                store.renew_lease(lease, 600),
            ):  # fmt: skip
                with within(25), pytest.raises(StoreError) as raised:
                    await call
                said = f"{raised.value} {raised.value!r} {raised.value.__cause__!r} {store!r}"
                assert "hunter2" not in said
                assert f"postgresql://127.0.0.1:{wire.port}/" in str(raised.value)
                assert "refused" in str(raised.value)
            await wire.start()
            assert await store.read("run_a") == journal("run_a", 3)
            await store.append("run_a", journal("run_a", 5), lease)
        await wire.cut()

    asyncio.run(main())


def test_a_server_that_falls_silent_fails_the_call_in_time(postgres_place, monkeypatch):
    for name in ("ANSWER_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(f"planbench.checkpoints.postgres.{name}", 0.3)

    async def main():
        wire = Wire(postgres_place)
        await wire.start()
        async with open_store(wire.url) as store:
            await store.append("run_a", journal("run_a", 3))
            wire.open.clear()
            with within(25), pytest.raises(StoreError, match="no answer in time"):
                await store.append("run_a", journal("run_a", 4))
            wire.open.set()
            await store.read("run_a")
            wire.open.clear()
            with within(25), pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await store.read("run_a")
            wire.open.set()
            await store.append("run_a", journal("run_a", 5))
            assert len(await store.read("run_a")) == 5
        await wire.cut()

    asyncio.run(main())


def test_a_server_that_never_answers_cannot_be_opened(postgres_place):
    async def main():
        wire = Wire(postgres_place)
        wire.open.clear()
        await wire.start()
        store = open_store(wire.url)
        with within(25), pytest.raises(StoreError, match="cannot be opened"):
            await store.open()
        wire.open.set()
        async with store:
            await store.append("run_a", journal("run_a", 1))
        await wire.cut()

    asyncio.run(main())
