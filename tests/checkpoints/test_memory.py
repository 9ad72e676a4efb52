"""The store of this process takes the engine's own list."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore
from planbench.events import Event


def test_an_adopted_journal_is_seen_as_it_grows():
    async def main():
        store, mine = MemoryStore(), []
        assert store.adopt("run_a", mine) is True
        assert await store.runs() == []
        mine.append(Event(1, "run_a", 5.0, ev.RUN_STARTED, {"plan_name": "p"}))
        (record,) = await store.runs()
        assert (record.status, record.events) == ("running", 1)
        mine.append(Event(2, "run_a", 6.0, ev.RUN_FINISHED, {"status": "partial"}))
        assert await store.read("run_a", after=1) == mine[1:]
        assert (await store.runs("partial"))[0].plan_name == "p"
        await store.delete("run_a")
        assert len(mine) == 2  # the engine's list is the engine's
        assert await store.read("run_a") == []

    asyncio.run(main())


def test_the_journals_stay_readable_when_it_is_closed():
    async def main():
        store = MemoryStore()
        async with store:
            await store.append("run_a", [Event(1, "run_a", 5.0, ev.RUN_STARTED, {})])
        assert len(await store.read("run_a")) == 1

    asyncio.run(main())


def test_a_store_adopts_nothing_unless_it_says_so():  # noqa: C901 - the methods that a store must have
    class Own(CheckpointStore):
        async def open(self): ...
        async def close(self): ...
        async def append(self, run_id, events, lease=None): ...
        async def read(self, run_id, after=0): ...
        async def runs(self, status=None): ...
        async def delete(self, run_id): ...
        async def acquire_lease(self, run_id, owner, ttl): ...
        async def renew_lease(self, lease, ttl): ...
        async def release_lease(self, lease): ...
        async def lease(self, run_id): ...

    assert Own().adopt("run_a", []) is False
    assert Own().durable is False


def test_a_store_that_lacks_a_method_cannot_be_made():
    class Half(CheckpointStore):
        async def open(self): ...

    with pytest.raises(TypeError, match="append"):
        Half()


def test_a_store_of_the_users_own_need_not_know_how_to_find_one_run_or_to_prune():
    class Own(MemoryStore):
        record = CheckpointStore.record
        drop = CheckpointStore.drop

    async def main():
        store = Own()
        for at in (1.0, 2.0, 3.0):
            run_id = f"run_{at:g}"
            await store.append(
                run_id, [Event(1, run_id, at, ev.RUN_FINISHED, {"status": "failed"})]
            )
        assert (await store.record("run_2")).started == 2.0
        assert await store.record("run_9") is None
        held = await store.acquire_lease("run_2", "me", 30)
        assert await store.prune(keep=1) == ["run_1"]
        await store.release_lease(held)
        assert await store.prune(keep=1) == ["run_2"]

    asyncio.run(main())


def test_listing_adopted_runs_looks_at_new_events_only():
    class Counted(dict):
        looked = 0

        def get(self, *args):
            Counted.looked += 1
            return super().get(*args)

    async def main():
        store, mine = MemoryStore(), []
        store.adopt("run_a", mine)
        for seq in range(1, 200):
            mine.append(Event(seq, "run_a", 5.0, ev.RUN_FINISHED, Counted(status="partial")))
            (record,) = await store.runs()
            assert record.events == seq
        assert Counted.looked == 199

    asyncio.run(main())
