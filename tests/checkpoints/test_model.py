"""Whatever is done in whatever order, a store answers as a plain model of it does."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planbench import events as ev
from planbench.checkpoints import MemoryStore, open_store
from planbench.errors import LeaseLost, StoreError
from planbench.events import Event

RUNS = st.sampled_from(["run_a", "run_b"])
OWNERS = st.sampled_from(["me", "you"])
KINDS = st.sampled_from([ev.RUN_STARTED, ev.RUN_FINISHED, ev.RUN_PAUSED, ev.NODE_PROGRESS])
BATCHES = st.lists(st.tuples(st.integers(1, 6), KINDS, st.integers(0, 1)), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), RUNS, BATCHES, st.none() | st.integers(0, 3)),
        st.tuples(st.just("read"), RUNS, st.integers(0, 6)),
        st.tuples(st.just("acquire"), RUNS, OWNERS),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("renew"), st.integers(0, 3)),
        st.tuples(st.just("delete"), RUNS),
        st.tuples(st.just("prune"), st.integers(0, 2)),
        st.tuples(st.just("again")),
    ),
    max_size=25,
)
STATUS = {ev.RUN_STARTED: "running", ev.RUN_FINISHED: "completed", ev.RUN_PAUSED: "waiting"}


def event_of(run_id, seq, kind, variant):
    data = {"plan_name": f"plan {variant}"} if kind == ev.RUN_STARTED else {"n": variant}
    if kind == ev.RUN_FINISHED:
        data = {"status": "completed", "n": variant}
    return Event(seq, run_id, 100.0 * seq + variant, kind, data)


class Model:
    """The rules in their plainest form: dicts, and no thought for speed."""

    def __init__(self):
        self.logs, self.held, self.newest = {}, {}, {}

    def append(self, run_id, events, token):  # noqa: PLR0911 - one for each rule
        if token is not None and token[0] != run_id:
            return StoreError
        if not events:
            return None
        if token is not None:
            if self.newest.get(run_id) != token[1]:
                return LeaseLost
        elif run_id in self.held:
            return LeaseLost
        seqs = [event.seq for event in events]
        if seqs != sorted(set(seqs)):
            return StoreError
        log = self.logs.get(run_id, {})
        last = max(log, default=0)
        for event in events:
            if event.seq <= last and log.get(event.seq) != event:
                return StoreError
        self.logs[run_id] = log | {event.seq: event for event in events}
        return None

    def read(self, run_id, after):
        return [event for seq, event in sorted(self.logs.get(run_id, {}).items()) if seq > after]

    def record(self, run_id):
        log = self.read(run_id, 0)
        if not log:
            return None
        names = [event.data["plan_name"] for event in log if event.type == ev.RUN_STARTED]
        statuses = [STATUS[event.type] for event in log if event.type in STATUS]
        return (
            names[0] if names else "", statuses[-1] if statuses else "running",
            log[0].timestamp, len(log), log[-1].timestamp,
        )  # fmt: skip

    def forget(self, run_id):
        for kept in (self.logs, self.held, self.newest):
            kept.pop(run_id, None)

    def prune(self, keep):
        ended = [
            (self.record(run_id)[4], self.record(run_id)[2], run_id)
            for run_id in self.logs
            if self.record(run_id)[1] == "completed"
        ]
        gone = [run_id for *_, run_id in sorted(ended)[: max(0, len(ended) - keep)]]
        gone = [run_id for run_id in gone if run_id not in self.held]
        for run_id in gone:
            self.forget(run_id)
        return gone


async def outcome(call):
    try:
        await call
    except StoreError as error:
        return type(error)
    return None


async def agree(store, steps):  # noqa: C901, PLR0912 - one branch for each kind of step
    model, leases = Model(), []
    for step in steps:
        what, *args = step
        if what == "append":
            run_id, batch, number = args
            events = [event_of(run_id, *one) for one in batch]
            lease = leases[number] if number is not None and number < len(leases) else None
            expected = model.append(
                run_id, events, None if lease is None else (lease.run_id, lease.token)
            )
            got = await outcome(store.append(run_id, events, lease))
            # of two things that are wrong, either may be named
            assert (got is None) == (expected is None), (step, got, expected)
        elif what == "read":
            assert await store.read(*args) == model.read(*args)
        elif what == "acquire":
            run_id, owner = args
            lease = await store.acquire_lease(run_id, owner, 3600)
            assert (lease is None) == (model.held.get(run_id, owner) != owner)
            if lease is not None:
                assert lease.token > model.newest.get(run_id, 0)
                model.held[run_id], model.newest[run_id] = owner, lease.token
                leases.append(lease)
        elif what in ("release", "renew") and args[0] < len(leases):
            lease = leases[args[0]]
            mine = model.newest.get(lease.run_id) == lease.token and lease.run_id in model.held
            if what == "renew":
                assert await store.renew_lease(lease, 3600) is mine
            else:
                await store.release_lease(lease)
                if mine:
                    del model.held[lease.run_id]
        elif what == "delete":
            await store.delete(*args)
            model.forget(*args)
        elif what == "prune":
            assert await store.prune(keep=args[0]) == model.prune(args[0])
        elif what == "again":
            await store.close()
            await store.open()
        for run_id in ("run_a", "run_b"):
            record = await store.record(run_id)
            assert (record and (*record[1:4], *record[4:6])) == model.record(run_id), step
            holder = await store.lease(run_id)
            assert (holder and holder.owner) == model.held.get(run_id)
    assert [record.run_id for record in await store.runs()] == sorted(
        model.logs, key=lambda run_id: (model.record(run_id)[2], run_id)
    )


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_the_store_in_memory_answers_as_the_model(steps):
    async def main():
        async with MemoryStore() as store:
            await agree(store, steps)

    asyncio.run(main())


@pytest.mark.parametrize("tiers", [False, True])
@given(STEPS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_store_in_a_file_answers_as_the_model(tmp_path_factory, tiers, steps):
    from planbench.checkpoints import TieredStore

    folder = tmp_path_factory.mktemp("model")

    async def main():
        store = open_store(f"sqlite:///{folder}/runs.db")
        async with TieredStore(MemoryStore(), store) if tiers else store as opened:
            await agree(opened, steps)

    asyncio.run(main())
