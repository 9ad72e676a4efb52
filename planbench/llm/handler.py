"""The model of an engine: every call goes through here and is counted and priced."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from planbench.llm.client import FREE, ModelReply, Usage
from planbench.llm.pricing import Prices, checked_prices, cost_of, price_of
from planbench.llm.providers import client_of

if TYPE_CHECKING:
    from planbench.llm.client import ModelClient, ModelRequest


class LLMHandler:
    """Asks a client and keeps count; it is itself a client.

    ``client`` is anything that ``client_of`` takes. ``prices`` gives, by model, the price
    of a million input and of a million output tokens; a provider's own figure comes
    first. ``calls`` and ``usage`` are the sums so far; ``usage.cost`` is None as soon as
    one call had no price.
    """

    def __init__(self, client: Any, prices: Prices | None = None) -> None:
        self.client: ModelClient = client_of(client)
        self.prices = checked_prices(prices)
        self.calls = 0
        self.usage: Usage = FREE

    def attach(self, engine: Any) -> Self:
        """Make this the model of an engine: it is then found as ``engine.llm``."""
        engine.llm = self
        return self

    def is_priced(self, model: str | None = None) -> bool:
        """Whether the cost of a call is known before it is made; None means the client's model."""
        if getattr(self.client, "reports_cost", False):
            return True
        return price_of(self.prices, *self._names(model)) is not None

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask, count, and give the reply with its cost; raises what the client raises."""
        reply = await self.client.complete(request)
        price = price_of(self.prices, *self._names(request.model), reply.model)
        cost = cost_of(reply.usage, price)
        if cost != reply.usage.cost:
            usage = reply.usage.model_copy(update={"cost": cost})
            reply = reply.model_copy(update={"usage": usage})
        self.calls += 1
        self.usage += reply.usage
        return reply

    async def close(self) -> None:
        """Close the client, where it holds connections."""
        close = getattr(self.client, "close", None)
        done = close() if callable(close) else None
        if inspect.isawaitable(done):
            await done

    def _names(self, model: str | None) -> tuple[str, ...]:
        """Name a model as a table may: alone, and with its provider."""
        name = model or getattr(self.client, "model", None)
        if name is None:
            return ()
        provider = getattr(self.client, "provider", None)
        return (name,) if provider is None else (name, f"{provider}:{name}")

    def __repr__(self) -> str:
        return f"<LLMHandler of {self.client!r}, {self.calls} calls>"
