"""What every checkpoint store must do; a new store is one more line in PLACES of conftest."""

import asyncio
import math
import random

import pytest

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, RunRecord
from planbench.errors import ConfigurationError, LeaseLost, RecordDamaged, StoreError
from planbench.events import Event


def journal(run_id, *kinds, start=1, at=1_790_000_000.0):
    data = {ev.RUN_STARTED: {"plan_name": f"plan of {run_id}"}}
    ends = {ev.RUN_FINISHED: "completed", ev.RUN_CANCELLED: "cancelled"}
    return [
        Event(
            start + i,
            run_id,
            at + i / 7,
            kind,
            {"status": ends[kind]} if kind in ends else data.get(kind, {"node_id": "a", "n": i}),
        )
        for i, kind in enumerate(kinds)
    ]


WHOLE = (ev.RUN_STARTED, ev.NODE_STARTED, ev.NODE_FINISHED, ev.RUN_FINISHED)


def test_events_come_back_equal_and_in_order(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events[:1])
        await store.append("run_a", events[1:])
        assert await store.read("run_a") == events
        assert [event.at for event in await store.read("run_a")] == [event.at for event in events]

    proved(check)


DATA = [
    {}, {"t": "é 😀 \n \x00 '\""}, {"n": [1, 2.5, None, True, {"deep": [{}]}]}, {"big": 2**53},
    {"": ""}, {"float": 0.1}, {"negative": -1}, {"long": "x" * 100_000}, {"n": 2**70, "m": -(2**70)},
    {"x": math.inf}, {"lone": "\ud800"}, {"\x00": "\x00"}, {"null": None, "text": "null"},
    {"deep": [[[[[[]]]]]] * 3}, {"e": 1e-320, "f": 1.7e308},
]  # fmt: skip


def test_every_json_value_comes_back_equal(proved):
    async def check(store):
        for number, data in enumerate(DATA):
            run_id = f"run_{number}"
            event = Event(1, run_id, 1_790_000_000.123456, ev.NODE_PROGRESS, data)
            await store.append(run_id, [event])
            await store.append(run_id, [event])
            (again,) = await store.read(run_id)
            assert again == event
            assert type(again.data) is dict

    proved(check)


def test_only_what_came_after_is_given(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events)
        for after in range(6):
            assert await store.read("run_a", after) == events[after:]
            assert await store.read("run_a", after=after) == events[after:]

    proved(check)


def test_an_unknown_run_has_no_events(proved):
    async def check(store):
        assert await store.read("run_none") == []
        assert await store.runs() == []

    proved(check)


def test_an_empty_append_makes_no_run(proved):
    async def check(store):
        await store.append("run_a", [])
        assert await store.read("run_a") == []
        assert await store.runs() == []

    proved(check)


def test_events_that_were_appended_already_are_kept_once(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events[:2])
        await store.append("run_a", events[:2])
        await store.append("run_a", events[1:])
        assert await store.read("run_a") == events

    proved(check)


def test_runs_do_not_see_each_other(proved):
    async def check(store):
        one, two = journal("run_a", *WHOLE), journal("run_ab", *WHOLE[:2])
        await store.append("run_a", one)
        await store.append("run_ab", two)
        assert await store.read("run_a") == one
        assert await store.read("run_ab") == two

    proved(check)


def test_appends_of_many_runs_at_once_keep_the_order_of_each(proved):
    async def check(store):
        runs = {
            f"run_{i}": journal(f"run_{i}", *([ev.RUN_STARTED] + [ev.NODE_PROGRESS] * 30))
            for i in range(8)
        }

        async def write(run_id, events):
            for event in events:
                await store.append(run_id, [event])
                await asyncio.sleep(0)

        await asyncio.gather(*[write(run_id, events) for run_id, events in runs.items()])
        for run_id, events in runs.items():
            assert await store.read(run_id) == events

    proved(check)


def test_runs_are_listed_oldest_first_with_what_is_known_of_them(proved):
    async def check(store):
        await store.append("run_b", journal("run_b", *WHOLE, at=1_000.0))
        await store.append("run_a", journal("run_a", *WHOLE[:2], at=2_000.0))
        await store.append("run_c", journal("run_c", ev.RUN_STARTED, ev.RUN_CANCELLED, at=3_000.0))
        records = await store.runs()
        assert [(r.run_id, r.plan_name, r.status, r.started, r.events) for r in records] == [
            ("run_b", "plan of run_b", "completed", 1_000.0, 4),
            ("run_a", "plan of run_a", "running", 2_000.0, 2),
            ("run_c", "plan of run_c", "cancelled", 3_000.0, 2),
        ]

    proved(check)


def test_runs_can_be_listed_by_status(proved):
    async def check(store):
        await store.append("run_b", journal("run_b", *WHOLE))
        await store.append("run_a", journal("run_a", *WHOLE[:2]))
        assert [r.run_id for r in await store.runs("completed")] == ["run_b"]
        assert [r.run_id for r in await store.runs(status="running")] == ["run_a"]
        assert await store.runs("partial") == []

    proved(check)


def test_a_deleted_run_is_unknown_and_may_be_deleted_again(proved):
    async def check(store):
        kept = journal("run_b", *WHOLE)
        await store.append("run_a", journal("run_a", *WHOLE))
        await store.append("run_b", kept)
        await store.delete("run_a")
        await store.delete("run_a")
        await store.delete("run_none")
        assert await store.read("run_a") == []
        assert await store.read("run_b") == kept
        assert [r.run_id for r in await store.runs()] == ["run_b"]

    proved(check)


def test_a_deleted_run_may_come_again(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events)
        await store.delete("run_a")
        await store.append("run_a", events[:2])
        assert await store.read("run_a") == events[:2]

    proved(check)


def test_what_was_read_is_the_readers_own(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events)
        (await store.read("run_a")).clear()
        assert await store.read("run_a") == events

    proved(check)


def test_what_was_appended_may_be_changed_afterwards(proved):
    async def check(store):
        batch = journal("run_a", *WHOLE[:2])
        await store.append("run_a", batch)
        batch.clear()
        assert len(await store.read("run_a")) == 2

    proved(check)


def test_opening_and_closing_twice_is_no_error(place):
    async def main():
        store = place.store()
        assert isinstance(store, CheckpointStore)
        assert store.durable is place.durable
        async with store:
            await store.open()
            await store.append("run_a", journal("run_a", *WHOLE))
            await store.close()
        await store.close()
        async with store:
            assert len(await store.read("run_a")) == 4

    asyncio.run(main())


# -- what is kept -------------------------------------------------------------------------


def test_a_time_comes_back_to_the_last_digit(proved):
    times = [0.1, 1e-7, 1_790_000_000.1234567, 1_790_000_000.9999999, 5, math.nextafter(1e9, 2e9)]

    async def check(store):
        events = [Event(i, "run_a", at, ev.NODE_PROGRESS, {}) for i, at in enumerate(times, 1)]
        await store.append("run_a", events)
        assert [event.timestamp for event in await store.read("run_a")] == times
        record = await store.record("run_a")
        assert (record.started, record.updated) == (times[0], times[-1])

    proved(check)


def test_not_a_number_stays_what_it_is(proved):
    async def check(store):
        await store.append("run_a", [Event(1, "run_a", 5.0, ev.NODE_PROGRESS, {"x": math.nan})])
        (event,) = await store.read("run_a")
        assert math.isnan(event.data["x"])

    proved(check)


def test_an_event_with_a_large_payload_comes_back_equal(proved):
    async def check(store):
        text = "".join(random.Random(1).choices('abc é😀\\"\n', k=1_500_000))
        events = [
            Event(1, "run_a", 5.0, ev.NODE_PROGRESS, {"text": text}),
            Event(2, "run_a", 6.0, ev.NODE_PROGRESS, {"rows": [{"i": i} for i in range(50_000)]}),
        ]
        await store.append("run_a", events)
        assert await store.read("run_a") == events

    proved(check)


def test_a_thousand_events_are_one_append(proved):
    async def check(store):
        events = journal("run_a", ev.RUN_STARTED, *[ev.NODE_PROGRESS] * 2_500)
        await store.append("run_a", events)
        assert await store.read("run_a") == events
        assert await store.read("run_a", after=2_400) == events[2_400:]
        assert (await store.record("run_a")).events == 2_501

    proved(check)


def test_a_number_may_be_left_out(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events[:2])
        later = [event._replace(seq=event.seq + 5) for event in events[2:]]
        await store.append("run_a", later)
        assert await store.read("run_a") == [*events[:2], *later]
        assert await store.read("run_a", after=2) == later

    proved(check)


def refused(store, run_id, events):
    async def attempt():
        before = await store.read("run_a")
        with pytest.raises(StoreError) as raised:
            await store.append(run_id, events)
        assert await store.read("run_a") == before
        assert type(raised.value) is StoreError
        return str(raised.value)

    return attempt()


def test_an_event_that_is_known_with_other_content_is_refused_with_its_whole_batch(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", events[:3])
        for other in (
            events[1]._replace(data={"node_id": "b"}),
            events[1]._replace(type=ev.NODE_FAILED),
            events[1]._replace(timestamp=events[1].timestamp + 1e-6),
        ):
            said = await refused(store, "run_a", [events[0], other, *events[2:]])
            assert "event 2 of run 'run_a' is on record already, with other content" in said
        assert (await store.record("run_a")).status == "running"
        await store.append("run_a", events)
        assert (await store.record("run_a")).status == "completed"

    proved(check)


def test_an_event_is_known_again_in_another_order_of_its_names(proved):
    async def check(store):
        await store.append("run_a", [Event(1, "run_a", 5.0, ev.NODE_PROGRESS, {"a": 1, "b": 2})])
        again = Event(1, "run_a", 5.0, ev.NODE_PROGRESS, {"b": 2, "a": 1})
        more = Event(2, "run_a", 6.0, ev.NODE_PROGRESS, {})
        await store.append("run_a", [again, more])
        assert await store.read("run_a") == [again, more]

    proved(check)


def test_an_event_that_is_known_is_known_again_whatever_it_holds(proved):
    def event():
        data = {"keys": ("a", "b"), "inner": [{"nan": math.nan, "big": 2**80}], "half": "\ud800"}
        return Event(1, "run_a", 5.0, ev.NODE_PROGRESS, data)

    async def check(store):
        await store.append("run_a", [event()])
        await store.append("run_a", [event()])
        other = event()._replace(data={**event().data, "keys": ("a", "c")})
        await refused(store, "run_a", [other])
        assert len(await store.read("run_a")) == 1

    proved(check)


def test_an_event_that_comes_after_later_ones_is_refused(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        await store.append("run_a", [events[0], events[2]])
        assert "comes too late" in await refused(store, "run_a", events)

    proved(check)


def test_events_that_cannot_be_a_journal_are_refused(proved):
    async def check(store):
        one, two, *_ = events = journal("run_a", *WHOLE)
        await store.append("run_a", events[:1])
        for batch in ([two, one], [two, two], [two._replace(seq=0)], [two._replace(seq=2**60)]):
            await refused(store, "run_a", batch)
        await refused(store, "run_a", [two._replace(run_id="run_b")])
        await refused(store, "run_b", [two])
        assert [record.run_id for record in await store.runs()] == ["run_a"]

    proved(check)


def test_a_run_that_no_store_can_hold_is_unknown_and_cannot_be_appended_to(proved):
    async def check(store):
        for name in ("", "a\x00b", "a\nb", "\ud800", "x" * 201):
            assert await store.read(name) == []
            assert await store.record(name) is None
            assert await store.lease(name) is None
            await store.delete(name)
            await refused(store, name, [Event(1, name, 5.0, ev.RUN_STARTED, {})])
            with pytest.raises(StoreError):
                await store.acquire_lease(name, "me", 5)

    proved(check)


def test_any_other_name_is_a_name(proved):
    names = ["run 1", "é😀", "a/b:c*d?e[f]", "{x}", "%s", "$x", "'; --", "A", "a", "x" * 200]

    async def check(store):
        for name in names:
            await store.append(name, journal(name, *WHOLE))
        for name in names:
            assert await store.read(name) == journal(name, *WHOLE)
            assert (await store.record(name)).plan_name == f"plan of {name}"
        for name in names[1:]:
            await store.delete(name)
        assert ids(await store.runs()) == names[:1]

    proved(check)


def test_another_store_of_the_same_place_sees_what_is_kept(place):
    async def main():
        events = journal("run_a", *WHOLE)
        async with place.store() as one, place.store() as two:
            await one.append("run_a", events[:2])
            assert await two.read("run_a") == events[:2]
            await two.append("run_a", events[1:])
            assert await one.read("run_a") == events
            assert await one.record("run_a") == await two.record("run_a")
        async with place.store() as three:
            assert await three.read("run_a") == events

    asyncio.run(main())


def test_an_append_that_is_cancelled_is_kept_whole_or_not_at_all_and_may_come_again(proved):
    async def check(store):
        events = journal("run_a", ev.RUN_STARTED, *[ev.NODE_PROGRESS] * 40)
        chance = random.Random(7)
        for at in range(0, 40, 4):
            batch = events[at : at + 4]
            task = asyncio.create_task(store.append("run_a", batch))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert await store.read("run_a") in (events[:at], events[: at + 4])
            await store.append("run_a", batch)
            assert await store.read("run_a") == events[: at + 4]
        assert (await store.record("run_a")).events == 40

    proved(check)


# -- records ------------------------------------------------------------------------------


def test_a_record_says_what_the_first_event_said_and_when_the_last_one_was(proved):
    async def check(store):
        assert await store.record("run_a") is None
        data = {
            "plan_name": "é 😀 \x00",
            "root_run_id": "run_0",
            "parent_run_id": "run_1",
            "plan": {},
        }
        await store.append("run_a", [Event(1, "run_a", 10.5, ev.RUN_STARTED, data)])
        expected = RunRecord("run_a", "é 😀 \x00", "running", 10.5, 1, 10.5, "run_0", "run_1")
        assert await store.record("run_a") == expected
        again = {"plan_name": "another", "root_run_id": None}
        await store.append("run_a", [Event(2, "run_a", 11.5, ev.RUN_STARTED, again)])
        assert await store.record("run_a") == expected._replace(events=2, updated=11.5)
        assert await store.runs() == [await store.record("run_a")]

    proved(check)


def test_a_run_whose_first_event_is_missing_is_listed_all_the_same(proved):
    async def check(store):
        await store.append("run_a", [Event(7, "run_a", 10.5, ev.NODE_STARTED, {"node_id": "a"})])
        assert await store.record("run_a") == RunRecord("run_a", "", "running", 10.5, 1, 10.5)

    proved(check)


STATUSES = [
    (ev.RUN_FINISHED, {"status": "partial"}, "partial"),
    (ev.RUN_FINISHED, {"status": "completed"}, "completed"),
    (ev.RUN_CANCELLED, {"status": "cancelled"}, "cancelled"),
    (ev.RUN_CANCELLED, {}, "cancelled"),
    (ev.RUN_INTERRUPTED, {"status": "interrupted"}, "interrupted"),
    (ev.RUN_PAUSED, {}, "waiting"),
    (ev.RUN_CONTINUED, {}, "running"),
    (ev.NODE_FINISHED, {"status": "ok"}, "running"),
    (ev.RUN_FINISHED, {"status": "odd\x00"}, "unknown"),
    (ev.RUN_FINISHED, {}, "unknown"),
]


def test_the_status_of_a_run_is_what_its_events_say(proved):
    async def check(store):
        for number, (kind, data, status) in enumerate(STATUSES):
            for run_id, together in ((f"run_{number}", True), (f"run_{number}_apart", False)):
                events = [
                    Event(1, run_id, 5.0, ev.RUN_STARTED, {}),
                    Event(2, run_id, 6.0, kind, data),
                ]
                for batch in [events] if together else [events[:1], events[1:]]:
                    await store.append(run_id, batch)
                assert (await store.record(run_id)).status == status
                assert run_id in ids(await store.runs(status))

    proved(check)


def test_a_run_that_goes_on_is_running_again_and_old_events_do_not_turn_it_back(proved):
    async def check(store):
        events = journal("run_a", *WHOLE, ev.RUN_CONTINUED, ev.RUN_PAUSED)
        statuses = ["running", "running", "running", "completed", "running", "waiting"]
        for event, status in zip(events, statuses, strict=True):
            await store.append("run_a", [event])
            await store.append("run_a", events[:1])
            assert (await store.record("run_a")).status == status
        await store.append("run_a", events[:4])
        assert (await store.record("run_a")).status == "waiting"
        assert (await store.record("run_a")).updated == events[-1].timestamp

    proved(check)


async def ended(store, *times, status="completed"):
    for at in times:
        run_id = f"run_{at:g}"
        await store.append(
            run_id,
            [
                Event(1, run_id, 1.0, ev.RUN_STARTED, {}),
                Event(2, run_id, float(at), ev.RUN_FINISHED, {"status": status}),
            ],
        )


def ids(records):
    return sorted(record.run_id for record in records)


def test_pruning_takes_the_ended_runs_from_before_a_moment(proved):
    async def check(store):
        await ended(store, 30, 10, 20)
        await store.append("run_live", [Event(1, "run_live", 2.0, ev.RUN_STARTED, {})])
        await store.append("run_wait", journal("run_wait", ev.RUN_STARTED, ev.RUN_PAUSED, at=2.0))
        assert await store.prune() == []
        assert await store.prune(before=10.0) == []
        assert await store.prune(before=30.0) == ["run_10", "run_20"]
        assert ids(await store.runs()) == ["run_30", "run_live", "run_wait"]
        assert await store.read("run_10") == []
        assert await store.prune(before=math.inf) == ["run_30"]

    proved(check)


def test_pruning_takes_the_oldest_ended_runs_above_a_number(proved):
    async def check(store):
        await ended(store, 30, 10, 40, 20)
        await store.append("run_live", [Event(1, "run_live", 2.0, ev.RUN_STARTED, {})])
        assert await store.prune(keep=4) == []
        assert await store.prune(keep=3, before=5.0) == ["run_10"]
        assert await store.prune(keep=2, before=35.0) == ["run_20", "run_30"]
        assert await store.prune(keep=0) == ["run_40"]
        assert ids(await store.runs()) == ["run_live"]
        with pytest.raises(ConfigurationError, match="keep"):
            await store.prune(keep=-1)

    proved(check)


def test_pruning_leaves_a_run_that_somebody_holds(proved):
    async def check(store):
        await ended(store, 10, 20)
        lease = await store.acquire_lease("run_10", "me", 30)
        assert await store.prune(keep=0) == ["run_20"]
        await store.release_lease(lease)
        assert await store.prune(keep=0) == ["run_10"]

    proved(check)


def test_a_run_that_went_on_meanwhile_is_not_dropped(proved):
    async def check(store):
        await ended(store, 10)
        record = await store.record("run_10")
        await store.append("run_10", [Event(3, "run_10", 11.0, ev.RUN_CONTINUED, {})])
        assert await store.drop(record) is False
        assert len(await store.read("run_10")) == 3

    proved(check)


# -- damage -------------------------------------------------------------------------------


@pytest.fixture
def damaged(kept_place):
    def prove(check):
        async def main(store):
            for name in ("run_a", "run_b"):
                await store.append(name, journal(name, *WHOLE))
            await check(store)
            assert await store.read("run_b") == journal("run_b", *WHOLE)
            assert (await store.record("run_b")).status == "completed"
            await store.delete("run_a")
            assert ids(await store.runs()) == ["run_b"]
            await store.append("run_a", journal("run_a", *WHOLE))
            assert await store.read("run_a") == journal("run_a", *WHOLE)
            assert (await store.record("run_a")).status == "completed"

        async def opened():
            async with kept_place.store() as store:
                await main(store)

        asyncio.run(opened())

    return prove


def test_an_event_that_cannot_be_read_is_damage_of_its_run_alone(kept_place, damaged):
    async def check(store):
        await kept_place.damage("run_a")
        with pytest.raises(RecordDamaged, match="'run_a' is damaged: event 2 cannot be read"):
            await store.read("run_a")
        assert await store.read("run_a", after=2) == journal("run_a", *WHOLE)[2:]
        statuses = {record.run_id: record.status for record in await store.runs()}
        assert statuses == {"run_a": "damaged", "run_b": "completed"}
        assert ids(await store.runs("damaged")) == ["run_a"]
        assert (await store.record("run_a")).status == "damaged"
        assert await store.prune(keep=1) == []

    damaged(check)


def test_an_entry_that_cannot_be_read_is_listed_as_damaged(kept_place, damaged):
    async def check(store):
        await kept_place.damage_entry("run_a")
        statuses = {record.run_id: record.status for record in await store.runs()}
        assert statuses == {"run_a": "damaged", "run_b": "completed"}
        assert (await store.record("run_a")).status == "damaged"
        assert await store.prune(keep=1) == []

    damaged(check)


# -- leases -------------------------------------------------------------------------------


def test_a_lease_that_cannot_be_read_is_nobodys_and_whoever_had_it_writes_no_more(loose_place):
    async def main():
        async with loose_place.store() as store:
            for name in ("run_a", "run_b"):
                await store.append(name, journal(name, *WHOLE[:2]))
            former = await store.acquire_lease("run_a", "me", 60)
            await loose_place.damage_lease("run_a")

            assert await store.lease("run_a") is None
            assert not await store.renew_lease(former, 60)
            with pytest.raises(LeaseLost):
                await store.append("run_a", journal("run_a", *WHOLE)[2:], former)
            assert ids(await store.runs()) == ["run_a", "run_b"]
            assert await store.prune(keep=0) == []

            lease = await store.acquire_lease("run_a", "you", 60)
            assert lease.token > former.token
            assert await store.lease("run_a") == lease
            await store.append("run_a", journal("run_a", *WHOLE), lease)
            assert await store.read("run_a") == journal("run_a", *WHOLE)

    asyncio.run(main())


def test_a_lease_is_held_by_one_owner_at_a_time(proved):
    async def check(store):
        assert await store.lease("run_a") is None
        mine = await store.acquire_lease("run_a", "me", 30)
        assert (mine.run_id, mine.owner) == ("run_a", "me")
        assert type(mine.token) is int
        assert await store.acquire_lease("run_a", "you", 30) is None
        assert await store.lease("run_a") == mine
        assert (await store.acquire_lease("run_b", "you", 30)).run_id == "run_b"
        assert await store.runs() == []
        assert await store.read("run_a") == []

    proved(check)


def test_the_same_owner_asking_again_gets_a_higher_token(proved):
    async def check(store):
        one = await store.acquire_lease("run_a", "me", 30)
        two = await store.acquire_lease("run_a", "me", 30)
        assert two.token > one.token
        with pytest.raises(LeaseLost):
            await store.append("run_a", journal("run_a", *WHOLE), one)
        await store.append("run_a", journal("run_a", *WHOLE), two)

    proved(check)


def test_a_lost_lease_cannot_append(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        mine = await store.acquire_lease("run_a", "me", 0.05)
        await store.append("run_a", events[:1], mine)
        yours = await taken(store, "run_a", "you")
        assert yours.token > mine.token
        with pytest.raises(LeaseLost) as raised:
            await store.append("run_a", events[1:2], mine)
        assert raised.value.code == "run_busy"
        with pytest.raises(LeaseLost):
            await store.append("run_a", events[:1], mine)  # not even what is known
        await store.append("run_a", events[1:], yours)
        assert await store.read("run_a") == events
        assert await store.renew_lease(mine, 30) is False
        await store.release_lease(mine)
        assert await store.lease("run_a") == yours

    proved(check)


async def taken(store, run_id, owner, ttl=30):
    """Take a lease as soon as it is free."""
    async with asyncio.timeout(10):
        while (lease := await store.acquire_lease(run_id, owner, ttl)) is None:  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.005)
    return lease


def test_an_expired_lease_is_free_and_until_it_is_taken_its_holder_goes_on(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        mine = await store.acquire_lease("run_a", "me", 0.02)
        async with asyncio.timeout(10):
            while await store.lease("run_a") is not None:  # noqa: ASYNC110 - only the store knows
                await asyncio.sleep(0.005)
        await store.append("run_a", events[:2], mine)
        assert await store.renew_lease(mine, 30) is True
        assert await store.acquire_lease("run_a", "you", 30) is None
        held = await store.lease("run_a")
        assert held == mine._replace(expires=held.expires)
        assert held.expires > mine.expires + 20
        await store.append("run_a", events[2:], held)

    proved(check)


def test_a_released_lease_is_free_at_once_and_cannot_be_renewed(proved):
    async def check(store):
        mine = await store.acquire_lease("run_a", "me", 30)
        await store.release_lease(mine)
        await store.release_lease(mine)
        assert await store.lease("run_a") is None
        assert await store.renew_lease(mine, 30) is False
        yours = await store.acquire_lease("run_a", "you", 30)
        assert yours.token > mine.token

    proved(check)


def test_nobody_appends_without_the_lease_to_a_run_that_is_held(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        mine = await store.acquire_lease("run_a", "me", 30)
        with pytest.raises(LeaseLost, match="'run_a' is held by another writer"):
            await store.append("run_a", events)
        assert await store.read("run_a") == []
        await store.append("run_a", events[:2], mine)
        await store.release_lease(mine)
        await store.append("run_a", events)
        assert await store.read("run_a") == events

    proved(check)


def test_a_lease_is_for_its_own_run(proved):
    async def check(store):
        mine = await store.acquire_lease("run_a", "me", 30)
        with pytest.raises(StoreError, match="the lease is for run 'run_a', not for 'run_b'"):
            await store.append("run_b", journal("run_b", *WHOLE), mine)
        assert await store.runs() == []

    proved(check)


def test_a_deleted_run_voids_its_lease(proved):
    async def check(store):
        events = journal("run_a", *WHOLE)
        mine = await store.acquire_lease("run_a", "me", 30)
        await store.append("run_a", events, mine)
        await store.delete("run_a")
        assert await store.lease("run_a") is None
        with pytest.raises(LeaseLost):
            await store.append("run_a", events, mine)
        yours = await store.acquire_lease("run_a", "you", 30)
        assert yours.token > mine.token
        assert await store.read("run_a") == []

    proved(check)


def test_of_many_who_ask_at_once_one_gets_the_lease(place):
    async def main():
        async with place.store() as one, place.store() as two:
            got = await asyncio.gather(
                *[(one, two)[i % 2].acquire_lease("run_a", f"owner {i}", 30) for i in range(10)]
            )
            (mine,) = [lease for lease in got if lease is not None]
            assert await one.lease("run_a") == mine

    asyncio.run(main())


def test_two_who_take_a_run_from_each_other_never_both_write(place):
    async def main():
        async with place.store() as one, place.store() as two:
            written = []

            async def work(store, name):
                for _ in range(6):
                    lease = await taken(store, "run_a", name, ttl=0.01)
                    done = await store.read("run_a")
                    event = Event(len(done) + 1, "run_a", 5.0, ev.NODE_PROGRESS, {"by": name})
                    await asyncio.sleep(0.005)
                    try:
                        await store.append("run_a", [event], lease)
                    except LeaseLost:
                        continue
                    written.append(event)

            await asyncio.gather(work(one, "one"), work(two, "two"))
            assert written
            assert await one.read("run_a") == sorted(written)
            assert await two.read("run_a") == sorted(written)

    asyncio.run(main())


def test_a_lease_lasts_for_a_positive_number_of_seconds_and_its_owner_has_a_name(proved):
    async def check(store):
        mine = await store.acquire_lease("run_a", "me", 5)
        for ttl in (0, -1, math.nan, math.inf):
            with pytest.raises(ConfigurationError, match="positive number of seconds"):
                await store.acquire_lease("run_a", "me", ttl)
            with pytest.raises(ConfigurationError):
                await store.renew_lease(mine, ttl)
        for owner in ("", "a\x00", "x" * 501):
            with pytest.raises(ConfigurationError, match="no owner"):
                await store.acquire_lease("run_b", owner, 5)
        assert await store.lease("run_a") == mine

    proved(check)


# -- misuse -------------------------------------------------------------------------------


def test_data_that_is_no_json_is_refused_where_it_would_have_to_be_written(kept_place):
    async def main():
        async with kept_place.store() as store:
            await check(store)

    async def check(store):
        for data in ({"x": object()}, {"x": {1: 2}}, {"x": {"s"}}, {"x": b"bytes"}):
            with pytest.raises(
                StoreError, match=r"event 1 \(planbench.node.progress\) of run 'run_a'"
            ):
                await store.append("run_a", [Event(1, "run_a", 5.0, ev.NODE_PROGRESS, data)])
        assert await store.read("run_a") == []

    asyncio.run(main())


def test_a_store_that_is_not_open_says_so(kept_place):
    async def main():
        store = kept_place.store()
        for _ in range(2):
            for call in (
                store.read("run_a"), store.runs(), store.record("run_a"), store.lease("run_a"),
                store.append("run_a", journal("run_a", *WHOLE)), store.delete("run_a"),
                store.acquire_lease("run_a", "me", 5),
            ):  # fmt: skip
                with pytest.raises(StoreError, match="is not open"):
                    await call
            async with store:
                pass

    asyncio.run(main())
