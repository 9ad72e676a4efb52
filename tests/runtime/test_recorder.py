"""The way of the events into a store that does not adopt the journal."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import CheckpointStore
from planbench.checkpoints.leases import LocalLeases
from planbench.errors import CheckpointWriteFailed, StoreError
from planbench.runtime import replay


class Store(LocalLeases, CheckpointStore):
    """A user's own store, as slow as it is told and failing when it is told."""

    kind = "users"

    def __init__(self, *, pause=0.0, fail_at=None, gate=None):
        super().__init__()
        self.journals = {}
        self.batches = []
        self.at_work = 0
        self.most = 0
        self.pause, self.fail_at, self.gate = pause, fail_at, gate

    async def open(self):
        pass

    async def close(self):
        pass

    async def append(self, run_id, events, lease=None):
        self.check_writer(run_id, lease)
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        batch = list(events)
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(self.pause)
        if self.fail_at is not None and any(event.type == self.fail_at for event in batch):
            raise StoreError("the disk is full")
        self.journals.setdefault(run_id, []).extend(batch)
        self.batches.append(len(batch))
        self.at_work -= 1

    async def read(self, run_id, after=0):
        return [event for event in self.journals.get(run_id, ()) if event.seq > after]

    async def runs(self, status=None):
        return []

    async def delete(self, run_id):
        pass


def others():
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.parametrize("pause", [0.0, 0.003])
def test_a_store_of_the_users_own_gets_every_event_in_order_once(lab, pause):
    store = Store(pause=pause)

    async def main():
        async with lab.engine(store=store) as engine:
            run = await engine.start(
                lab.plan(
                    *lab.items(list(range(200)), "plain"),
                    lab.node("bad", "boom"),
                    lab.node("behind", after="bad"),
                )
            )
            await run
            assert await store.read(run.run_id) == run.events  # when result() returns, all is kept
            assert replay(await store.read(run.run_id)).manifest() == run.manifest()
            assert not others()

    asyncio.run(main())
    assert store.most == 1  # one append at a time
    assert len(store.batches) < sum(store.batches)  # and not one for each event


def test_journals_of_two_runs_do_not_mix(lab):
    store = Store(pause=0.001)

    async def main():
        async with lab.engine(store=store) as engine:
            runs = [
                await engine.start(lab.plan(*[lab.node(f"n{i}", "plain") for i in range(20)]))
                for _ in range(3)
            ]
            for run in runs:
                await run
                assert store.journals[run.run_id] == run.events

    asyncio.run(main())


def test_the_end_of_a_cancelled_run_is_kept_before_result_returns(lab):
    store = Store(pause=0.01)

    async def main():
        async with lab.engine(store=store) as engine:
            lab.tool(asyncio.sleep, name="sleep")
            run = await engine.start(lab.plan(lab.node("a", "sleep", {"delay": 30})))
            await asyncio.sleep(0.02)
            run.cancel()
            await run
            assert store.journals[run.run_id] == run.events
            assert run.events[-1].type == ev.RUN_CANCELLED
            assert not others()

    asyncio.run(main())


def test_cancelling_again_while_the_end_is_written_loses_nothing(lab):
    async def main():
        store = Store(gate=asyncio.Event())
        async with lab.engine(store=store) as engine:
            lab.tool(asyncio.sleep, name="sleep")
            run = await engine.start(lab.plan(lab.node("a", "sleep", {"delay": 30})))
            await asyncio.sleep(0.01)
            for _ in range(3):
                run.cancel()
                await asyncio.sleep(0.005)
            run.root.cancel()
            await asyncio.sleep(0.005)
            assert not run.root.done()
            store.gate.set()
            assert (await run).status == "cancelled"
            assert store.journals[run.run_id] == run.events
            assert not others()

    asyncio.run(main())


def test_a_run_whose_task_was_cancelled_before_its_first_step_is_kept_too(lab):
    store = Store()

    async def main():
        async with lab.engine(store=store) as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            run.root.cancel()
            await run
            await lab.until(lambda: not others())
            assert store.journals[run.run_id] == run.events
            assert [e.type for e in run.events] == [ev.RUN_STARTED, ev.RUN_CANCELLED]

    asyncio.run(main())


def test_leaving_the_engine_waits_until_all_is_kept(lab):
    store = Store(pause=0.01)

    async def main():
        async with lab.engine(store=store) as engine:
            lab.tool(asyncio.sleep, name="sleep")
            run = await engine.start(lab.plan(lab.node("a", "sleep", {"delay": 30})))
        assert store.journals[run.run_id] == run.events
        assert not others()

    asyncio.run(main())


@pytest.mark.parametrize("fail_at", [ev.RUN_STARTED, ev.NODE_FINISHED])
def test_a_store_that_fails_ends_the_run_and_result_says_so(lab, fail_at):
    store = Store(fail_at=fail_at)

    async def main():
        async with lab.engine(store=store) as engine:
            lab.tool(asyncio.sleep, name="sleep")
            run = await engine.start(
                lab.plan(lab.node("a"), lab.node("b", "sleep", {"delay": 30}, "a"))
            )
            with pytest.raises(CheckpointWriteFailed, match="the disk is full"):
                await asyncio.wait_for(run.result(), 20)
            with pytest.raises(StoreError):
                await run
            assert run.status == "interrupted"
            assert run.state.code == "checkpoint_write_failed"
            assert run.state.reason == "the checkpoint store failed: StoreError: the disk is full"
            assert run.outcome().reason == run.state.reason
            assert not others()

    asyncio.run(main())


def test_a_store_that_fails_at_the_very_end_is_not_silent(lab):
    store = Store(fail_at=ev.RUN_FINISHED)

    async def main():
        async with lab.engine(store=store) as engine:
            run = await engine.start(lab.plan(lab.node("a")))
            with pytest.raises(StoreError):
                await run
            assert not others()

    asyncio.run(main())


def test_leaving_the_engine_does_not_hang_on_a_store_that_fails(lab):
    async def main():
        async with lab.engine(store=Store(fail_at=ev.RUN_STARTED)) as engine:
            run = await engine.start(lab.plan(lab.node("a")))
        assert run.root.done()
        assert not others()

    asyncio.run(main())


def test_a_slow_store_does_not_hold_up_a_run_that_does_not_wait_for_it(lab):
    async def main():
        store = Store(gate=asyncio.Event())
        async with lab.engine(store=store, durability="async") as engine:
            run = await engine.start(lab.plan(*[lab.node(f"n{i}", "plain") for i in range(20)]))
            await lab.until(lambda: run.finished)
            assert store.journals == {}
            store.gate.set()
            await run
            assert store.journals[run.run_id] == run.events

    asyncio.run(main())
