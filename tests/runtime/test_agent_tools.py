"""The tool calls of an agent: what is finished is on record, whenever a cancellation comes."""

import asyncio

import pytest

from planbench import events as ev
from planbench.checkpoints import MemoryStore
from planbench.errors import ToolError
from planbench.runtime import Engine


class Looks:
    """An algorithm that calls one tool, and would go on after it."""

    name = "looks"

    async def run(self, agent, inputs):
        value = await agent.call_tool("look", {})
        await asyncio.sleep(0)
        return value


class World:
    """A tool that has its own run cancelled, at some point of its only call."""

    def __init__(self, when):
        self.when = when
        self.calls = 0
        self.run = None

    async def look(self) -> str:
        await asyncio.sleep(0)
        self.calls += 1
        run, self.run = self.run, None
        if run is None:
            return "seen"
        if self.when == "in its last step":
            run.cancel()
        elif self.when == "as it ends":
            asyncio.get_running_loop().call_soon(run.cancel)
        else:
            asyncio.get_running_loop().call_soon(run.cancel)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.when == "and it fails of that":
                    raise ValueError("half done") from None
        return "seen"


async def started(engine, world):
    run = await engine.start(Looks(), {})
    world.run = run
    return await run.result(), await engine.store.read(run.run_id)


@pytest.mark.parametrize("when", ["in its last step", "as it ends", "and it goes on"])
def test_a_call_that_is_finished_when_its_run_is_cancelled_is_not_made_again(when):
    world, store = World(when), MemoryStore()

    async def main():
        async with Engine(store, [world.look]) as engine:
            outcome, log = await started(engine, world)
        assert outcome.status == "cancelled"
        assert [e.type for e in log] == [ev.RUN_STARTED, ev.TOOL_CALLED, ev.RUN_CANCELLED]
        async with Engine(store, [world.look]) as engine:
            run = await engine.resume(log[0].run_id, Looks())
            outcome = await run.result()
        assert (outcome.status, outcome.value) == ("success", "seen")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert world.calls == 1


def test_a_call_that_fails_of_its_cancellation_has_not_finished():
    world, store = World("and it fails of that"), MemoryStore()

    async def main():
        async with Engine(store, [world.look]) as engine:
            outcome, log = await started(engine, world)
        assert outcome.status == "cancelled"
        assert [e.type for e in log] == [ev.RUN_STARTED, ev.RUN_CANCELLED]
        async with Engine(store, [world.look]) as engine:
            run = await engine.resume(log[0].run_id, Looks())
            assert (await run.result()).value == "seen"

    asyncio.run(main())
    assert world.calls == 2


def test_a_tool_that_is_cancelled_by_itself_fails_and_its_run_goes_on():
    async def look():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    class Bears(Looks):
        async def run(self, agent, inputs):
            with pytest.raises(ToolError, match="CancelledError"):
                await agent.call_tool("look", {})
            return "on"

    async def main():
        async with Engine(None, [look]) as engine:
            run = await engine.start(Bears(), {})
            return await run.result()

    assert asyncio.run(main()).value == "on"
