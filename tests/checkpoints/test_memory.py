"""The store of this process takes the engine's own list."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.errors import ConfigurationError
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


def test_a_store_adopts_nothing_unless_it_says_so():
    class Own(CheckpointStore):
        async def open(self): ...
        async def close(self): ...
        async def append(self, run_id, events): ...
        async def read(self, run_id, after=0): ...
        async def runs(self, status=None): ...
        async def delete(self, run_id): ...

    assert Own().adopt("run_a", []) is False


def test_a_store_that_lacks_a_method_cannot_be_made():
    class Half(CheckpointStore):
        async def open(self): ...

    with pytest.raises(TypeError, match="append"):
        Half()


@pytest.mark.parametrize("url", ["sqlite:///f.db", "postgresql://host/db", "nonsense", ""])
def test_a_url_of_another_kind_is_a_configuration_error_that_says_what_there_is(url):
    with pytest.raises(ConfigurationError) as raised:
        open_store(url)
    assert '"memory"' in str(raised.value)


def test_a_store_is_named_by_a_url():
    with pytest.raises(ConfigurationError, match="named by a URL, not by nothing"):
        open_store(None)
