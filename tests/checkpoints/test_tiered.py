"""Two tiers: the durable one decides, and the other one must never cost what it has kept."""

import asyncio
import logging

import pytest

from planbench import events as ev
from planbench.checkpoints import MemoryStore, TieredStore, open_store, tiered
from planbench.errors import ConfigurationError, LeaseLost, RecordDamaged, StoreError
from planbench.events import Event


def journal(run_id, count):
    kinds = [ev.RUN_STARTED] + [ev.NODE_PROGRESS] * (count - 1)
    return [Event(i, run_id, 5.0 + i, kind, {"n": i}) for i, kind in enumerate(kinds, 1)]


class Shaky(MemoryStore):
    """Fails when it is told to, and counts how often it was asked."""

    def __init__(self, durable=False):
        super().__init__()
        self.down, self.asked, self._durable = False, 0, durable

    @property
    def durable(self):
        return self._durable

    def ask(self):
        self.asked += 1
        if self.down:
            raise self.down if isinstance(self.down, Exception) else StoreError("it is down")

    async def open(self):
        self.ask()

    async def append(self, run_id, events, lease=None):
        self.ask()
        await super().append(run_id, events, lease)

    async def read(self, run_id, after=0):
        self.ask()
        return await super().read(run_id, after)

    async def runs(self, status=None):
        self.ask()
        return await super().runs(status)

    async def record(self, run_id):
        self.ask()
        return await super().record(run_id)

    async def delete(self, run_id):
        self.ask()
        await super().delete(run_id)


@pytest.fixture
def tiers(monkeypatch):
    monkeypatch.setattr(tiered, "RETRY_SECONDS", 0.0)
    return Shaky(), Shaky(durable=True)


def said(caplog):
    return [
        one.getMessage() for one in caplog.records if one.name == "planbench.checkpoints.tiered"
    ]


def test_both_tiers_get_every_event_and_the_durable_one_is_read(tiers):
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            lease = await store.acquire_lease("run_a", "me", 30)
            await store.append("run_a", journal("run_a", 3), lease)
            await store.append("run_a", journal("run_a", 4)[3:], lease)
            for tier in tiers:
                assert await tier.read("run_a") == journal("run_a", 4)
            assert await durable.lease("run_a") == lease
            assert await ephemeral.lease("run_a") is None
            before = ephemeral.asked
            assert await store.read("run_a", after=2) == journal("run_a", 4)[2:]
            assert await store.read("run_a", after=4) == []
            assert (await store.record("run_a")).events == 4
            assert ephemeral.asked == before

    asyncio.run(main())


def test_a_run_that_only_the_ephemeral_tier_knows_is_read_there(tiers):
    ephemeral, durable = tiers

    async def main():
        await ephemeral.append("run_old", journal("run_old", 3))
        await ephemeral.append("run_both", journal("run_both", 1))
        async with TieredStore(ephemeral, durable) as store:
            await durable.append("run_both", journal("run_both", 2))
            assert await store.read("run_old") == journal("run_old", 3)
            assert (await store.record("run_old")).events == 3
            found = {record.run_id: record.events for record in await store.runs()}
            assert found == {"run_old": 3, "run_both": 2}
            assert len(await store.read("run_both")) == 2
            await store.delete("run_old")
            assert await store.read("run_old") == []

    asyncio.run(main())


def test_a_run_that_goes_on_takes_its_beginning_into_the_durable_tier(tiers):
    ephemeral, durable = tiers

    async def main():
        await ephemeral.append("run_old", journal("run_old", 3))
        async with TieredStore(ephemeral, durable) as store:
            lease = await store.acquire_lease("run_old", "me", 30)
            await store.append("run_old", journal("run_old", 5)[3:], lease)
            for tier in tiers:
                assert await tier.read("run_old") == journal("run_old", 5)

    asyncio.run(main())


@pytest.mark.parametrize("trouble", [True, RuntimeError("a defect of a user's own store")])
def test_an_ephemeral_tier_that_fails_costs_nothing_and_catches_up(tiers, caplog, trouble):
    caplog.set_level(logging.WARNING)
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            await store.append("run_a", journal("run_a", 2))
            ephemeral.down = trouble
            await store.append("run_a", journal("run_a", 3)[2:])
            await store.append("run_b", journal("run_b", 2))
            assert await store.read("run_a") == journal("run_a", 3)
            assert await store.read("run_none") == []
            assert await store.record("run_none") is None
            assert len(await store.runs()) == 2
            assert all("the ephemeral tier failed" in one for one in said(caplog))
            assert said(caplog)
            ephemeral.down = False
            await store.append("run_a", journal("run_a", 4)[3:])
            assert await ephemeral.read("run_a") == journal("run_a", 4)
            await store.append("run_b", journal("run_b", 3)[2:])
            assert await ephemeral.read("run_b") == journal("run_b", 3)

    asyncio.run(main())


def test_an_ephemeral_tier_that_fails_is_left_alone_for_a_while(tiers, monkeypatch):
    monkeypatch.setattr(tiered, "RETRY_SECONDS", 600.0)
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            ephemeral.down = True
            before = ephemeral.asked
            for count in range(1, 20):
                await store.append("run_a", journal("run_a", count))
            assert ephemeral.asked == before + 1

    asyncio.run(main())


def test_an_ephemeral_tier_that_says_something_else_is_put_right(tiers):
    ephemeral, durable = tiers

    async def main():
        await ephemeral.append("run_a", [Event(1, "run_a", 1.0, ev.RUN_STARTED, {"by": "another"})])
        async with TieredStore(ephemeral, durable) as store:
            await store.append("run_a", journal("run_a", 2))
            assert await store.read("run_a") == journal("run_a", 2)
            await store.append("run_a", journal("run_a", 3))
            assert await ephemeral.read("run_a") == journal("run_a", 3)

    asyncio.run(main())


def test_a_durable_tier_that_fails_fails_the_call(tiers):
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            await store.append("run_a", journal("run_a", 2))
            durable.down = True
            for call in (
                store.append("run_a", journal("run_a", 3)), store.read("run_a"), store.runs(),
                store.record("run_a"),
            ):  # fmt: skip
                with pytest.raises(StoreError, match="it is down"):
                    await call
            assert len(await ephemeral.read("run_a")) == 2
            durable.down = False
            await store.append("run_a", journal("run_a", 3))

    asyncio.run(main())


def test_a_run_is_not_deleted_in_one_tier_only(tiers):
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            await store.append("run_a", journal("run_a", 2))
            ephemeral.down = True
            with pytest.raises(StoreError):
                await store.delete("run_a")
            assert len(await store.read("run_a")) == 2
            ephemeral.down = False
            await store.delete("run_a")
            assert await store.runs() == []

    asyncio.run(main())


def test_pruning_takes_the_runs_of_both_tiers(tiers):
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            for run_id, tier in (("run_a", store), ("run_b", ephemeral)):
                events = [Event(1, run_id, 1.0, ev.RUN_FINISHED, {"status": "completed"})]
                await tier.append(run_id, events)
            held = await store.acquire_lease("run_b", "me", 30)
            assert await store.prune(keep=0) == ["run_a"]
            assert [record.run_id for record in await store.runs()] == ["run_b"]
            await store.release_lease(held)
            assert await store.prune(keep=0) == ["run_b"]
            assert await ephemeral.runs() == []

    asyncio.run(main())


def test_a_lost_lease_does_not_reach_the_ephemeral_tier(tiers):
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            mine = await store.acquire_lease("run_a", "me", 30)
            await store.acquire_lease("run_a", "me", 30)
            with pytest.raises(LeaseLost):
                await store.append("run_a", journal("run_a", 2), mine)
            assert await ephemeral.read("run_a") == []

    asyncio.run(main())


def test_an_ephemeral_tier_that_cannot_be_opened_is_opened_later(tiers, caplog):
    caplog.set_level(logging.WARNING)
    ephemeral, durable = tiers
    ephemeral.down = True

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            assert len(said(caplog)) == 1
            await store.append("run_a", journal("run_a", 2))
            ephemeral.down = False
            await store.append("run_a", journal("run_a", 3))
            assert await ephemeral.read("run_a") == journal("run_a", 3)

    asyncio.run(main())


def test_a_durable_tier_that_cannot_be_opened_is_an_error(tiers):
    ephemeral, durable = tiers
    durable.down = True

    async def main():
        with pytest.raises(StoreError, match="it is down"):
            await TieredStore(ephemeral, durable).open()

    asyncio.run(main())


def test_one_tier_alone_does_everything(tiers):
    ephemeral, durable = tiers

    async def main():
        for only, store in (
            (ephemeral, TieredStore(ephemeral, None)),
            (durable, TieredStore(None, durable)),
        ):
            async with store:
                lease = await store.acquire_lease("run_a", "me", 30)
                await store.append("run_a", journal("run_a", 2), lease)
                assert await only.read("run_a") == await store.read("run_a")
                assert await only.lease("run_a") == lease
                only.down = True
                with pytest.raises(StoreError):
                    await store.append("run_a", journal("run_a", 3), lease)
                only.down = False

    asyncio.run(main())


def test_only_a_tier_alone_adopts():
    mine = []
    assert TieredStore(MemoryStore(), None).adopt("run_a", mine) is True
    assert TieredStore(None, MemoryStore()).adopt("run_a", mine) is True
    assert TieredStore(MemoryStore(), Shaky()).adopt("run_a", mine) is False


def test_whether_the_store_is_durable_is_whether_it_has_a_durable_tier(tmp_path):
    durable = open_store(f"sqlite:///{tmp_path}/f.db")
    assert TieredStore(MemoryStore(), durable).durable is True
    assert TieredStore(None, durable).durable is True
    assert TieredStore(durable, None).durable is False


def test_a_durable_tier_that_forgets_is_warned_of(caplog):
    TieredStore(None, MemoryStore())
    (line,) = said(caplog)
    assert "does not keep runs for good" in line


def test_what_makes_no_tiers_is_a_configuration_error():
    store = MemoryStore()
    for ephemeral, durable in ((None, None), (store, store), ("redis", None), (None, "sqlite")):
        with pytest.raises(ConfigurationError):
            TieredStore(ephemeral, durable)


def test_damage_of_a_run_that_only_the_ephemeral_tier_has_is_told_and_costs_no_other(tiers):
    ephemeral, durable = tiers

    async def main():
        async with TieredStore(ephemeral, durable) as store:
            for name in ("run_a", "run_b"):
                await ephemeral.append(name, journal(name, 2))
            ephemeral.down = RecordDamaged("the record of run 'run_a' is damaged")
            with pytest.raises(RecordDamaged, match="run_a"):
                await store.read("run_a")
            ephemeral.down = False
            assert await store.read("run_b") == journal("run_b", 2)

            ephemeral.down = RecordDamaged("the record of run 'run_c' is damaged")
            await store.append("run_c", journal("run_c", 2))
            ephemeral.down = False
            await store.append("run_c", journal("run_c", 3))
            assert await ephemeral.read("run_c") == journal("run_c", 3)

    asyncio.run(main())
