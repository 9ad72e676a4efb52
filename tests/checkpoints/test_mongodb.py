"""The store in MongoDB: what counts and what does not, and a server that stops and comes back."""

import asyncio
import contextlib
import gc
import signal
import time

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.checkpoints.mongodb import MongoStore
from planbench.errors import ConfigurationError, LeaseLost, StoreError
from planbench.events import Event


def journal(run_id, count, by="me"):
    kinds = [ev.RUN_STARTED] + [ev.NODE_PROGRESS] * (count - 1)
    return [Event(i, run_id, 5.0 + i, kind, {"n": i, "by": by}) for i, kind in enumerate(kinds, 1)]


class Broken(MongoStore):
    """Dies between inserting events and letting them count, or is held up there."""

    gate = None

    async def _counted(self, run, fresh):
        if self.gate is None:
            raise ConnectionError("the power went off")
        self.gate.reached.set()
        await self.gate.open.wait()
        return await super()._counted(run, fresh)


class Gate:
    def __init__(self):
        self.reached, self.open = asyncio.Event(), asyncio.Event()


def test_events_of_an_append_that_died_do_not_count(mongodb_place):
    async def main():
        broken = Broken(mongodb_place.url)
        async with mongodb_place.store() as store, broken:
            await store.append("run_a", journal("run_a", 2))
            with pytest.raises(StoreError, match="the power went off"):
                await broken.append("run_a", journal("run_a", 5))
            assert await store.read("run_a") == journal("run_a", 2)
            assert (await store.record("run_a")).events == 2
            await store.append("run_a", journal("run_a", 5))
            assert await store.read("run_a") == journal("run_a", 5)

    asyncio.run(main())


def test_what_a_dead_writer_left_is_no_obstacle_to_another_one(mongodb_place):
    async def main():
        broken = Broken(mongodb_place.url)
        async with mongodb_place.store() as store, broken:
            mine = await store.acquire_lease("run_a", "me", 0.01)
            await store.append("run_a", journal("run_a", 2), mine)
            with pytest.raises(StoreError):
                await broken.append("run_a", journal("run_a", 8), mine)
            async with asyncio.timeout(10):
                while (yours := await store.acquire_lease("run_a", "you", 30)) is None:  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.005)
            events = [*journal("run_a", 2), *journal("run_a", 4, by="you")[2:]]
            last = Event(20, "run_a", 9.0, ev.NODE_PROGRESS, {})
            await store.append("run_a", events, yours)
            assert await store.read("run_a") == events
            await store.append("run_a", [last], yours)
            assert await store.read("run_a") == [*events, last]  # 5 to 8 are the dead writer's

    asyncio.run(main())


def test_a_writer_that_lost_its_lease_in_the_middle_changes_nothing(mongodb_place):
    async def main():
        slow = Broken(mongodb_place.url)
        slow.gate = Gate()
        async with mongodb_place.store() as store, slow:
            mine = await store.acquire_lease("run_a", "me", 0.01)
            await store.append("run_a", journal("run_a", 2), mine)
            late = asyncio.create_task(slow.append("run_a", journal("run_a", 6), mine))
            await slow.gate.reached.wait()
            async with asyncio.timeout(10):
                while (yours := await store.acquire_lease("run_a", "you", 30)) is None:  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.005)
            last = Event(9, "run_a", 9.0, ev.NODE_PROGRESS, {})
            await store.append("run_a", [last], yours)
            slow.gate.open.set()
            with pytest.raises(LeaseLost):
                await late
            assert await store.read("run_a") == [*journal("run_a", 2), last]

    asyncio.run(main())


def test_two_writers_without_leases_never_mix_their_batches(mongodb_place):
    async def main():
        one, two = Broken(mongodb_place.url), Broken(mongodb_place.url)
        one.gate, two.gate = Gate(), Gate()
        async with mongodb_place.store() as store, one, two:
            first = asyncio.create_task(one.append("run_a", journal("run_a", 3, "one")))
            await one.gate.reached.wait()
            second = asyncio.create_task(two.append("run_a", journal("run_a", 5, "two")))
            await two.gate.reached.wait()
            for gate in (one.gate, two.gate):
                gate.open.set()
            answers = await asyncio.gather(first, second, return_exceptions=True)
            found = await store.read("run_a")
            assert found in (journal("run_a", 3, "one"), journal("run_a", 5, "two"))
            assert [type(answer) for answer in answers].count(StoreError) == 1

    asyncio.run(main())


def test_the_parts_of_a_run_are_remembered_once_for_each_that_wrote(mongodb_place):
    async def main():
        async with mongodb_place.store() as store:
            for number in range(6):
                lease = await store.acquire_lease("run_a", f"owner {number}", 30)
                if number % 2:
                    await store.append("run_a", journal("run_a", number), lease)
                await store.release_lease(lease)
            async with mongodb_place.database() as database:
                run = await database["planbench_runs"].find_one({"_id": "run_a"})
            assert [era["after"] for era in run["eras"]] == [0, 1, 3]
            assert await store.read("run_a") == journal("run_a", 5)

    asyncio.run(main())


def test_the_number_of_an_event_is_unique_in_its_run(mongodb_place):
    async def main():
        async with mongodb_place.store(), mongodb_place.database() as database:
            found = await database["planbench_events"].index_information()
            (index,) = [one for one in found.values() if one["key"] == [("run_id", 1), ("seq", 1)]]
            assert index["unique"] is True

    asyncio.run(main())


def test_a_database_that_is_not_named_is_planbench(shared_mongodb):
    async def main():
        async with open_store(f"mongodb://127.0.0.1:{shared_mongodb.port}") as store:
            assert store._runs.full_name == "planbench.planbench_runs"
            assert store._runs.write_concern.document["j"] is True

    asyncio.run(main())


@pytest.mark.parametrize(
    "more", ["mongodb://u:hunter2@h:port/", "mongodb://u:hunter2@h/?w=0", "mongodb://"]
)
def test_an_address_that_cannot_be_meant_is_a_configuration_error_without_the_password(more):
    async def main():
        with pytest.raises(ConfigurationError) as raised:
            async with open_store(more):
                pass
        assert "hunter2" not in f"{raised.value} {raised.value.__cause__!r}"

    asyncio.run(main())


@contextlib.contextmanager
def within(seconds):
    before = time.monotonic()
    yield
    assert time.monotonic() - before < seconds


def test_a_server_that_stops_fails_each_call_and_the_store_works_when_it_is_back(mongodb_server):
    async def main():
        url = f"mongodb://127.0.0.1:{mongodb_server.port}/runs"
        async with open_store(url) as store:
            lease = await store.acquire_lease("run_a", "me", 600)
            await store.append("run_a", journal("run_a", 3), lease)
            await asyncio.to_thread(mongodb_server.stop)
            for call in (
                store.append("run_a", journal("run_a", 4), lease), store.read("run_a"),
            ):  # fmt: skip
                with within(25), pytest.raises(StoreError, match=f"{url} cannot be ") as raised:
                    await call
                assert type(raised.value) is StoreError
            await asyncio.to_thread(mongodb_server.start)
            assert await store.read("run_a") == journal("run_a", 3)
            assert (await store.lease("run_a")).token == lease.token
            await store.append("run_a", journal("run_a", 5), lease)
            assert await store.read("run_a") == journal("run_a", 5)

    asyncio.run(main())


def test_a_single_server_without_transactions_will_do(mongodb_server):
    mongodb_server.stop()
    mongodb_server.command.append("--standalone")
    mongodb_server.start()

    async def main():
        async with open_store(f"mongodb://127.0.0.1:{mongodb_server.port}/runs") as store:
            lease = await store.acquire_lease("run_a", "me", 600)
            await store.append("run_a", journal("run_a", 3), lease)
            assert await store.read("run_a") == journal("run_a", 3)

    asyncio.run(main())


# the driver forgets to close a socket when it is closed in the middle of connecting
@pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")
def test_a_store_that_cannot_be_opened_can_be_opened_later(mongodb_server):
    mongodb_server.stop(signal.SIGKILL)

    async def main():
        url = f"mongodb://who:hunter2@127.0.0.1:{mongodb_server.port}/runs"
        store = open_store(url)
        assert "hunter2" not in repr(store)
        with within(25), pytest.raises(StoreError, match="cannot be opened") as raised:
            await store.open()
        assert "hunter2" not in f"{raised.value} {raised.value.__cause__!r}"
        plain = open_store(url.replace("who:hunter2@", ""))
        with within(25), pytest.raises(StoreError, match="cannot be opened"):
            await plain.open()
        await asyncio.to_thread(mongodb_server.start)
        async with plain:
            await plain.append("run_a", journal("run_a", 1))

    asyncio.run(main())
    gc.collect()  # here, where the warning is expected
