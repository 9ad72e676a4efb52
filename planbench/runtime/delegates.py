"""The model of an engine's delegates, and the delegates of one run."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from planbench import events as ev
from planbench.errors import RunRefused
from planbench.llm.handler import LLMHandler
from planbench.llm.pricing import checked_prices
from planbench.runtime.budget import Ledger, check_priced
from planbench.runtime.delegate import Delegate

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from planbench.llm.pricing import Prices
    from planbench.runtime.compiled import CompiledPlan
    from planbench.runtime.run import Run
    from planbench.runtime.scheduler import Scheduler


class Delegates:
    """The model that chooses for the delegates of an engine; without one they are refused.

    It is anything that ``client_of`` takes, or an LLMHandler, which counts and prices.
    Raises ConfigurationError for what is no model. A client that is made here is closed here.
    """

    def __init__(self, llm: Any = None) -> None:
        self._made: list[LLMHandler] = []
        self._llm: LLMHandler | None = None
        self._given: Any = None
        self._prices: dict[str, tuple[float, float]] = {}
        self.llm = llm

    @property
    def llm(self) -> LLMHandler | None:
        """The model; setting it takes what the constructor takes, and holds for runs that start later."""
        return self._llm

    @llm.setter
    def llm(self, llm: Any) -> None:
        handler = llm
        if llm is not None and not isinstance(llm, LLMHandler):
            handler = LLMHandler(llm, self._prices)
            if handler.client is not llm:
                self._made.append(handler)
        self._llm, self._given = handler, llm

    @property
    def prices(self) -> Prices:
        """The price of a million input and output tokens by model; an LLMHandler has its own."""
        return self._prices

    @prices.setter
    def prices(self, prices: Prices | None) -> None:
        self._prices = checked_prices(prices)
        if self._llm is not None and self._llm is not self._given:
            self._llm.prices = self._prices

    async def close(self) -> None:
        """Close the clients that were made here; they connect anew when they are asked again."""
        for handler in self._made:
            await handler.close()

    def ready(self, run: Run, compiled: CompiledPlan) -> Asking | None:
        """See that the delegates of a run can ask; None for a plan without any.

        Raises RunRefused delegate_not_configured, and ConfigurationError for a ``max_cost``
        that cannot be kept since nobody knows the price of the model.
        """
        if not compiled.choices:
            return None
        llm = self._llm
        if llm is None:
            node_id = next(iter(compiled.choices))
            raise RunRefused(
                "delegate_not_configured",
                f"node {node_id!r} is a delegate, and no delegate model is configured",
                node_id=node_id,
                hint='give one: delegate_llm="ollama:<model>", --delegate ollama:<model>, '
                'or %config PlanMagics.delegate = "ollama:<model>"',
            )
        check_priced(run.budget, llm, iter([None]))
        return Asking(llm, Ledger(run.budget, run.state.spent, run.state.seconds_before))


class Asking:
    """How the delegates of one run ask: one model, one count of what it took.

    Under a budget for calls they ask one after the other, so that it is over the limit by
    one call at most.
    """

    def __init__(self, llm: LLMHandler, ledger: Ledger) -> None:
        self.llm = llm
        self.ledger = ledger
        self._over = False
        self.slot: AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        if ledger.bounds_calls:
            self.slot = asyncio.Lock()

    def check(self, run: Run) -> None:
        """Raise BudgetExceeded when no further call may be made; the first time is on record."""
        why = self.ledger.refusal()
        if why is not None and not self._over:
            self._over = True
            run.emit(ev.BUDGET_EXCEEDED, {"reason": why, **self.ledger.spent.to_dict()})
        self.ledger.check()

    def take(self, sched: Scheduler, compiled: CompiledPlan) -> None:
        """Put the delegates of this run in the place of the compiled nodes, which many runs share."""
        nodes = dict(sched.nodes)
        for node_id, tools in compiled.choices.items():
            nodes[node_id] = Delegate(self, sched, nodes[node_id], tools).node
        sched.nodes = nodes
        sched.ready = type(sched.ready)(nodes[node.id] for node in sched.ready)
