"""A small laboratory: tools that note their calls, plans in a line, runs to their end."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from planbench.memory import WorkingMemory
from planbench.plan.model import ExecutionPlan, PlanMetadata, PlanNode
from planbench.runtime import Engine, Run
from planbench.tools import Tool, ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Callable


def note(value: Any) -> None:
    """Note a call. It goes through the log, so that a tool that notes holds no state itself."""
    logging.getLogger("lab").info("call", extra={"noted": value})


class Notes(logging.Handler):
    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self._lab = lab

    def emit(self, record: Any) -> None:
        self._lab.calls.append(record.noted)


class Lab:
    """One memory, one registry, and the calls that its tools have noted."""

    def __init__(self) -> None:
        self.memory = WorkingMemory()
        self.registry = ToolRegistry()
        self.calls: list[Any] = []
        self.note = note
        self.loop: asyncio.AbstractEventLoop | None = None
        logger = logging.getLogger("lab")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.handlers[:] = [Notes(self)]

        async def give(value: Any = None) -> Any:
            note(value)
            return value

        def plain(value: Any = None) -> Any:
            note(value)
            return value

        async def boom(value: Any = None) -> Any:
            note(value)
            raise ValueError(f"boom {value}")

        async def picky(value: Any = None) -> Any:
            note(value)
            if isinstance(value, int) and value < 0:
                raise ValueError(f"{value} is negative")
            return value

        self.registry.register([give, plain, boom, picky])

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Register a function under its own name, as a decorator."""
        if function is None:
            return lambda decorated: self.tool(decorated, **options)
        return self.registry.register(Tool.from_function(function, **options))

    @staticmethod
    def node(
        id: str,  # noqa: A002 - the field of the model
        tool: str = "give",
        args: dict[str, Any] | None = None,
        after: str | list[str] = (),
        **fields: Any,
    ) -> PlanNode:
        needs = [after] if isinstance(after, str) else list(after)
        return PlanNode(id=id, tool=tool, args=args or {}, depends_on=needs, **fields)

    def items(self, items: Any, tool: str = "give", **fields: Any) -> list[PlanNode]:
        """A source node "src" that gives ``items``, and a fan-out "fan" over it."""
        each = {"source": "{artifacts.src}", **fields.pop("each", {})}
        args = fields.pop("args", {"value": "{item}"})
        self.tool(lambda: items, name="source")
        return [
            self.node("src", "source"),
            self.node("fan", tool, args, "src", for_each=each, **fields),
        ]

    @staticmethod
    def plan(*nodes: PlanNode, **metadata: Any) -> ExecutionPlan:
        return ExecutionPlan(
            name="lab", objective="to prove a rule", nodes=nodes, metadata=PlanMetadata(**metadata)
        )

    def engine(self, **options: Any) -> Engine:
        return Engine(registry=self.registry, memory=self.memory, **options)

    async def finish(self, *nodes: PlanNode, params: Any = None, **metadata: Any) -> Run:
        self.loop = asyncio.get_running_loop()
        async with self.engine() as engine:
            run = await engine.start(self.plan(*nodes, **metadata), params)
            await run
        return run

    def pass_time(self, seconds: float) -> None:
        """Let the clock of ``loop``, set by ``finish``, leap: what was due by then is due now.

        So a limit of time is over exactly when a test says so. For tools on the loop and in threads.
        """
        loop: Any = self.loop

        def leap() -> None:
            clock = loop.time
            loop.time = lambda: clock() + seconds

        loop.call_soon_threadsafe(leap)

    @staticmethod
    async def until(condition: Callable[[], Any]) -> None:
        """Let the loop go on until something has come about, at most a minute."""
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)

    def run(self, *nodes: PlanNode, params: Any = None, **metadata: Any) -> Run:
        """Run to the end on a loop of its own; nothing may be left on that loop."""

        async def main() -> Run:
            run = await self.finish(*nodes, params=params, **metadata)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left
            return run

        return asyncio.run(main())


@pytest.fixture
def lab():
    return Lab()


@pytest.fixture
def gate():
    """An event for tools in threads; open at the end, so that no thread waits for ever."""
    event = threading.Event()
    yield event
    event.set()
