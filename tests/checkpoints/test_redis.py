"""The store in Redis: how long runs live, and a server that stops and comes back."""

import asyncio
import contextlib
import logging
import signal
import time

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.errors import ConfigurationError, LeaseLost, RecordDamaged, StoreError
from planbench.events import Event


def journal(run_id, count):
    kinds = [ev.RUN_STARTED] + [ev.NODE_PROGRESS] * (count - 1)
    return [Event(i, run_id, 5.0 + i, kind, {"n": i}) for i, kind in enumerate(kinds, 1)]


def with_ttl(place, ttl):
    return open_store(place.url.replace("ttl=600", f"ttl={ttl}"))


async def lives(place, run_id):
    """The seconds that each key of a run has left, None for a key that is not there."""
    keys = [f"{place.prefix}:{kind}:{run_id}" for kind in ("run", "events", "lease")]
    async with place.client() as client:
        found = [await client.pttl(key) for key in [*keys, f"{place.prefix}:runs"]]
        over = await client.zscore(f"{place.prefix}:runs", run_id)
        seconds, micro = await client.time()
    left = [None if ms == -2 else ms / 1000 for ms in found]
    return left, None if over is None else over - seconds - micro / 1e6


def test_events_lease_and_listing_of_a_run_share_one_time_to_live(redis_place):
    async def main():
        async with redis_place.store() as store:
            lease = await store.acquire_lease("run_a", "me", 30)
            left, over = await lives(redis_place, "run_a")
            assert left[0] is left[1] is over is None
            assert 590 < left[2] <= 600
            await store.append("run_a", journal("run_a", 3), lease)
            left, over = await lives(redis_place, "run_a")
            assert all(590 < one <= 600 for one in [*left, over])
            assert max(left) - min(left) < 0.5

    asyncio.run(main())


def test_every_append_and_renewal_starts_the_time_again(redis_place):
    async def main():
        async with redis_place.store() as store:
            lease = await store.acquire_lease("run_a", "me", 30)
            await store.append("run_a", journal("run_a", 1), lease)
            for touch in (
                lambda: store.append("run_a", journal("run_a", 2), lease),
                lambda: store.append("run_a", journal("run_a", 2), lease),  # known already
                lambda: store.renew_lease(lease, 30),
                lambda: store.acquire_lease("run_a", "me", 30),
            ):
                async with redis_place.client() as client:
                    async for key in client.scan_iter(f"{redis_place.prefix}:*"):
                        await client.expire(key, 100)
                    await client.zadd(f"{redis_place.prefix}:runs", {"run_a": time.time() + 100})
                await touch()
                left, over = await lives(redis_place, "run_a")
                assert all(590 < one <= 601 for one in [*left, over])

    asyncio.run(main())


def test_a_run_whose_time_is_over_is_unknown_and_no_longer_listed(redis_place):
    async def main():
        async with with_ttl(redis_place, 1.5) as store, redis_place.store() as other:
            await other.append("run_b", journal("run_b", 3))
            lease = await store.acquire_lease("run_a", "me", 0.1)
            await store.append("run_a", journal("run_a", 3), lease)
            assert len(await store.runs()) == 2
            async with asyncio.timeout(10):
                while await store.record("run_a") is not None:  # noqa: ASYNC110 - only Redis knows
                    await asyncio.sleep(0.01)
            assert await store.read("run_a") == []
            assert [record.run_id for record in await store.runs()] == ["run_b"]
            with pytest.raises(LeaseLost):
                await store.append("run_a", journal("run_a", 4)[3:], lease)
            await other.append("run_b", journal("run_b", 4))
            async with redis_place.client() as client:
                assert await client.zrange(f"{redis_place.prefix}:runs", 0, -1) == [b"run_b"]
            assert (await lives(redis_place, "run_b"))[0][0] > 590

    asyncio.run(main())


def test_a_lease_that_lasts_longer_keeps_its_run_as_long(redis_place):
    async def main():
        async with with_ttl(redis_place, 5) as store:
            await store.append("run_a", journal("run_a", 1))
            await store.acquire_lease("run_a", "me", 50)
            left, over = await lives(redis_place, "run_a")
            assert all(45 < one <= 50 for one in [*left, over])

    asyncio.run(main())


def test_the_time_to_live_is_a_day_or_what_the_environment_or_the_address_says(monkeypatch):
    monkeypatch.delenv("FLOW_CHECKPOINT_REDIS_TTL", raising=False)
    assert open_store("redis://host/0").ttl == 24 * 60 * 60
    monkeypatch.setenv("FLOW_CHECKPOINT_REDIS_TTL", "3600")
    assert open_store("redis").ttl == 3600
    assert open_store("rediss://host/0?ttl=7").ttl == 7
    for wrong in ("0", "-1", "soon", "nan", "inf"):
        with pytest.raises(ConfigurationError, match="positive number of seconds"):
            open_store(f"redis://host/0?ttl={wrong}")
    monkeypatch.setenv("FLOW_CHECKPOINT_REDIS_TTL", "a day")
    with pytest.raises(ConfigurationError, match="FLOW_CHECKPOINT_REDIS_TTL"):
        open_store("redis")


@pytest.mark.parametrize(
    "url", ["redis://host:port/0", "redis://host/0?socket_timeout=x", "redis://["]
)
def test_an_address_that_cannot_be_read_is_a_configuration_error(url):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        open_store(url)


def test_a_journal_of_which_events_are_gone_is_damaged(redis_place):
    async def main():
        async with redis_place.store() as store:
            await store.append("run_a", journal("run_a", 4))
            async with redis_place.client() as client:
                await client.xdel(f"{redis_place.prefix}:events:run_a", "3-0")
            with pytest.raises(RecordDamaged, match="3 of its 4 events are there"):
                await store.read("run_a")
            async with redis_place.client() as client:
                await client.delete(f"{redis_place.prefix}:run:run_a")
            with pytest.raises(RecordDamaged, match="its events are there"):
                await store.append("run_a", journal("run_a", 1))

    asyncio.run(main())


# -- a server of the test's own -----------------------------------------------------------


def url_of(server, more=""):
    return f"redis://127.0.0.1:{server.port}/0{more}"


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if one.name == "planbench.checkpoints.redis"]


def test_a_server_that_keeps_nothing_on_disk_is_warned_of_once(redis_server, caplog):
    caplog.set_level(logging.WARNING)

    async def main():
        store = open_store(url_of(redis_server))
        async with store:
            assert warnings(caplog) == []  # appendonly is on
            await store._redis.config_set("appendonly", "no")
        async with store:
            pass
        async with store:
            pass
        (said,) = warnings(caplog)
        assert f"127.0.0.1:{redis_server.port}/0 keeps nothing on disk" in said
        caplog.clear()
        async with open_store(url_of(redis_server)) as other:
            assert len(warnings(caplog)) == 1
            await other._redis.config_set("save", "60 1")
            caplog.clear()
        async with open_store(url_of(redis_server)):
            assert warnings(caplog) == []

    asyncio.run(main())


def test_a_server_that_does_not_tell_its_settings_is_not_warned_of(redis_server, caplog):
    redis_server.stop()
    at = redis_server.command.index("--appendonly")
    redis_server.command[at : at + 4] = ["--rename-command", "CONFIG", ""]
    redis_server.start()

    async def main():
        async with open_store(url_of(redis_server)) as store:
            await store.append("run_a", journal("run_a", 1))

    asyncio.run(main())
    assert warnings(caplog) == []


@contextlib.contextmanager
def within(seconds):
    before = time.monotonic()
    yield
    assert time.monotonic() - before < seconds


async def all_fail(store, lease, match):
    for call in (
        lambda: store.append("run_a", journal("run_a", 4), lease),
        lambda: store.read("run_a"),
        store.runs,
        lambda: store.record("run_a"),
        lambda: store.delete("run_a"),
        lambda: store.prune(keep=1),
        lambda: store.acquire_lease("run_a", "me", 5),
        lambda: store.renew_lease(lease, 5),
        lambda: store.release_lease(lease),
        lambda: store.lease("run_a"),
    ):
        with within(25), pytest.raises(StoreError, match=match) as raised:
            await call()
        assert type(raised.value) is StoreError


def test_a_server_that_stops_fails_each_call_and_the_store_works_when_it_is_back(redis_server):
    async def main():
        async with open_store(url_of(redis_server)) as store:
            lease = await store.acquire_lease("run_a", "me", 600)
            await store.append("run_a", journal("run_a", 3), lease)
            redis_server.stop(signal.SIGKILL)
            await all_fail(store, lease, rf"redis://127.0.0.1:{redis_server.port}/0 cannot be ")
            redis_server.start()
            assert await store.read("run_a") == journal("run_a", 3)
            assert (await store.lease("run_a")).token == lease.token
            await store.append("run_a", journal("run_a", 5), lease)
            assert await store.read("run_a") == journal("run_a", 5)
            redis_server.stop()
            redis_server.start()
            await store.append("run_a", journal("run_a", 6), lease)  # without a call that fails

    asyncio.run(main())


def test_a_server_that_hangs_fails_each_call_in_time(redis_server, monkeypatch):
    monkeypatch.setattr("planbench.checkpoints.redis.ANSWER_SECONDS", 0.2)

    async def main():
        async with open_store(url_of(redis_server)) as store:
            lease = await store.acquire_lease("run_a", "me", 600)
            redis_server.process.send_signal(signal.SIGSTOP)
            try:
                await all_fail(store, lease, "Timeout")
            finally:
                redis_server.process.send_signal(signal.SIGCONT)
            await store.append("run_a", journal("run_a", 5), lease)

    asyncio.run(main())


def test_a_store_that_cannot_be_opened_can_be_opened_later(redis_server):
    redis_server.stop()

    async def main():
        store = open_store(url_of(redis_server))
        with within(25), pytest.raises(StoreError, match="cannot be opened"):
            await store.open()
        redis_server.start()
        async with store:
            await store.append("run_a", journal("run_a", 1))

    asyncio.run(main())


def test_no_message_holds_the_password(redis_server):
    async def main():
        async with open_store(url_of(redis_server)) as store:
            await store._redis.config_set("requirepass", "hunter2 right")
        for password in ("hunter2%20wrong", "hunter2%20right"):
            url = f"redis://:{password}@127.0.0.1:{redis_server.port}/0"
            store = open_store(url)
            assert "hunter2" not in repr(store)
            if "wrong" in password:
                with pytest.raises(StoreError) as raised:
                    await store.open()
            else:
                await store.open()
                redis_server.stop()
                with pytest.raises(StoreError) as raised:
                    await store.runs()
                await store.close()
            assert "hunter2" not in f"{raised.value} {raised.value!r} {raised.value.__cause__!r}"
            assert f"redis://127.0.0.1:{redis_server.port}/0" in str(raised.value)

    asyncio.run(main())


def test_a_store_is_used_on_the_loop_on_which_it_was_opened(redis_place):
    async def main():
        async with redis_place.store() as store:
            await store.append("run_a", journal("run_a", 2))

            def elsewhere():
                with pytest.raises(StoreError, match="opened on another event loop"):
                    asyncio.run(store.read("run_a"))

            await asyncio.to_thread(elsewhere)
            assert len(await store.read("run_a")) == 2

    asyncio.run(main())


def test_a_run_that_is_deleted_while_it_is_read_is_unknown_and_not_damaged(
    redis_place, monkeypatch
):
    async def main():
        async with redis_place.store() as store:
            await store.append("run_a", journal("run_a", 4))
            asked = store._rows

            async def rows(run_id, after):
                found, count = await asked(run_id, after)
                if count is None:
                    return found, count
                await store.delete(run_id)
                return found[:2], count

            monkeypatch.setattr(store, "_rows", rows)
            assert await store.read("run_a") == []
            await store.append("run_a", journal("run_a", 4))
            assert (await store.record("run_a")).status == "running"

    asyncio.run(main())
