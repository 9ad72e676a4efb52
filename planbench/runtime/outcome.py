"""How a run ended, and what it took."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from planbench.runtime.recorded import read_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.runtime.run import Run


class Usage(NamedTuple):
    """What a run took: calls, model tokens, money, seconds.

    ``calls`` counts the tool calls of a plan, and the model calls of an algorithm with all
    its child runs; ``model_calls`` those of the delegates of a plan. ``cost`` is None when a call had no price.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    seconds: float = 0.0
    model_calls: int = 0


class Outcome:
    """How a run ended: ``status``, ``value``, ``reason``, ``usage``.

    For a plan ``value`` is its PlanRunManifest, made when it is first asked for. For an
    algorithm ``status`` is success, failed, cancelled or budget_exceeded, and ``value``
    what it gave, or the results so far of one that did not come to its end.
    """

    def __init__(
        self, status: str, make_value: Callable[[], Any], reason: str | None, usage: Usage
    ) -> None:
        self.status = status
        self.reason = reason
        self.usage = usage
        self._make_value = make_value

    @functools.cached_property
    def value(self) -> Any:
        """What the run gave."""
        return self._make_value()

    def __repr__(self) -> str:
        return f"Outcome(status={self.status!r}, reason={self.reason!r}, usage={self.usage!r})"


def outcome_of(run: Run) -> Outcome:
    """Give the outcome of a run as it stands."""
    state = run.state
    agent = state.agent
    if agent is None:
        asked, tokens_in, tokens_out, cost = state.spent
        usage = Usage(state.calls, tokens_in, tokens_out, cost, state.seconds, asked)
        return Outcome(state.status, run.manifest, state.reason, usage)
    ended = agent.ended
    value = run.value_given or functools.partial(read_value, ended)
    return Outcome(state.status, value, state.reason, Usage(*agent.spent, seconds=state.seconds))
