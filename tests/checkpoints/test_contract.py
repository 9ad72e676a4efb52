"""What every checkpoint store must do; a new store is one more line in STORES."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.events import Event

STORES = {
    "memory": lambda folder: MemoryStore(),
    "url memory": lambda folder: open_store("memory"),
    "url memory://": lambda folder: open_store("memory://"),
}


@pytest.fixture(params=STORES)
def proved(request, tmp_path):
    """Runs a coroutine function with an open store on a loop of its own."""

    def prove(check):
        async def main():
            async with STORES[request.param](tmp_path) as store:
                assert isinstance(store, CheckpointStore)
                await check(store)

        asyncio.run(main())

    return prove


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


@pytest.mark.parametrize(
    "data",
    [
        {}, {"t": "é 😀 \n \x00 '\""}, {"n": [1, 2.5, None, True, {"deep": [{}]}]}, {"big": 2**53},
        {"": ""}, {"float": 0.1}, {"negative": -1}, {"long": "x" * 100_000},
    ],
)  # fmt: skip
def test_every_json_value_comes_back_equal(proved, data):
    async def check(store):
        event = Event(1, "run_a", 1_790_000_000.123456, ev.NODE_PROGRESS, data)
        await store.append("run_a", [event])
        (again,) = await store.read("run_a")
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


def test_opening_and_closing_twice_is_no_error(proved):
    async def check(store):
        await store.open()
        await store.append("run_a", journal("run_a", *WHOLE))
        await store.close()

    proved(check)
