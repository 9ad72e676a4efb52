"""What a reply costs: the provider's own figure, else the user's table, else nobody knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ConfigurationError
from planbench.plan.source import shown

if TYPE_CHECKING:
    from planbench.llm.client import Usage

Prices = Mapping[str, tuple[float, float]]

_MILLION: Final = 1_000_000
_BOTH: Final = 2


def checked_prices(prices: Any) -> dict[str, tuple[float, float]]:
    """Give a table of prices as it will be used; raises ConfigurationError."""
    if prices is None:
        return {}
    if not isinstance(prices, Mapping):
        raise ConfigurationError(f"prices is a map, not {shown(prices)}", hint=_HINT)
    table = {}
    for model, pair in prices.items():
        if (
            not isinstance(model, str)
            or not isinstance(pair, tuple | list)
            or len(pair) != _BOTH
            or not all(_is_price(number) for number in pair)
        ):
            raise ConfigurationError(
                f"the price of {shown(model)} is not a pair of numbers", hint=_HINT
            )
        table[model] = (float(pair[0]), float(pair[1]))
    return table


_HINT: Final = 'per million tokens, write: prices={"model": (input, output)}'


def _is_price(number: Any) -> bool:
    return (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and math.isfinite(number)
        and number >= 0
    )


def price_of(prices: Prices, *models: str | None) -> tuple[float, float] | None:
    """Give the first price that is known under one of a model's names."""
    return next((prices[name] for name in models if name is not None and name in prices), None)


def cost_of(usage: Usage, price: tuple[float, float] | None) -> float | None:
    """Give the cost of a call; None where neither the provider nor the table says it.

    The table knows no rebate for cached tokens: where a provider gives one, the figure is
    an upper bound.
    """
    if usage.cost is not None:
        return usage.cost
    if price is None or not usage.reported:
        return None
    return (usage.input_tokens * price[0] + usage.output_tokens * price[1]) / _MILLION
