"""The root of an algorithm's run: it works below, and its last event is recorded here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.errors import PlanbenchError, StoreError
from planbench.runtime.agent import uninterrupted
from planbench.runtime.node import error_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.runtime.agent import Agent
    from planbench.runtime.algorithm import Algorithm
    from planbench.runtime.budget import Ledger
    from planbench.runtime.dispatch import Pools
    from planbench.runtime.keeping import Keeper
    from planbench.runtime.run import Run

LONGEST_REASON: Final = 2_000


class AgentRoot:
    """The root of one run: from the first step of its algorithm to the last event."""

    def __init__(
        self, run: Run, agent: Agent, keeper: Keeper, pools: Pools, clock: Ledger | None
    ) -> None:
        self._run = run
        self._agent = agent
        self._keeper = keeper
        self._pools = pools
        self._clock = clock

    async def work(self, algorithm: Algorithm, inputs: Mapping[str, Any]) -> None:
        """Run the algorithm and record how it ended; raises what is no end of its own."""
        timer = self._timer()
        error: BaseException | None = None
        value: Any = None
        try:
            value = await self._agent.perform(algorithm, inputs)
        except BaseException as raised:  # noqa: BLE001 - each kind has its own end, below
            error = raised
        try:
            if timer is not None:
                timer.cancel()
            kind, data, goes_on = self._end(error)
            if data["status"] != "success":
                value = self._agent.partial if error is not None else value
            try:
                (fields, value), again = await uninterrupted(self._agent.fields_of(value))
            except StoreError as trouble:
                fields, again = {"reason": trouble.message, "code": trouble.code}, None
                kind, data, goes_on = ev.RUN_INTERRUPTED, {"status": "interrupted"}, trouble
            self._run.value_given = lambda: value
            self._run.emit(kind, {**data, **fields, "usage": self._spent()})
            if isinstance(error, asyncio.CancelledError):
                self._keeper.give_up()
            goes_on = goes_on or again
        finally:
            self._pools.close()
            await self._keeper.close()
        if goes_on is not None:
            raise goes_on

    def _timer(self) -> asyncio.TimerHandle | None:
        left = None if self._clock is None else self._clock.seconds_left
        if left is None:
            return None
        return asyncio.get_running_loop().call_later(left, self._expire)

    def _expire(self) -> None:
        assert self._clock is not None
        self._clock.expired = True
        self._run.root.cancel()

    def _spent(self) -> dict[str, Any]:
        agent = self._run.state.agent
        return {} if agent is None else agent.spent.to_dict()

    def _end(self, error: BaseException | None) -> tuple[str, dict[str, Any], BaseException | None]:
        """Give the last event, and what is still to be raised when it is on record."""
        agent = self._agent
        stopped = agent.stopped or (None if error is None else self._keeper.trouble)
        if stopped is not None:
            data = {"status": "interrupted", "reason": stopped.message, "code": stopped.code}
            goes_on = error if isinstance(error, asyncio.CancelledError) else stopped
            return ev.RUN_INTERRUPTED, data, goes_on
        if agent.ledger.expired and isinstance(error, Exception | asyncio.CancelledError):
            agent.refuse(agent.ledger.refusal() or "")
            error = None
        if agent.over is not None and (error is None or isinstance(error, Exception)):
            return ev.RUN_FINISHED, {"status": "budget_exceeded", "reason": agent.over}, None
        if error is None:
            return ev.RUN_FINISHED, {"status": "success"}, None
        if isinstance(error, asyncio.CancelledError):
            return ev.RUN_CANCELLED, {"status": "cancelled"}, error
        if isinstance(error, Exception):
            data = {"status": "failed", "reason": reason_of(error)}
            if isinstance(error, PlanbenchError):
                data["code"] = error.code
            return ev.RUN_FINISHED, data, None
        reason = f"the run broke off: {error_text(error)}"
        # the loop has raised an interrupt by itself already
        left = None if isinstance(error, KeyboardInterrupt) else error
        return ev.RUN_CANCELLED, {"status": "cancelled", "reason": reason}, left


def reason_of(error: Exception) -> str:
    """Say why an algorithm failed: errors of planbench by their message, others with their name."""
    text = error.message if isinstance(error, PlanbenchError) else error_text(error)
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."
