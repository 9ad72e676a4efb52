"""What a run and all runs below it may spend, and the count of what they have spent."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from planbench.errors import BudgetExceeded, ConfigurationError, RunRefused
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planbench.llm.client import Usage
    from planbench.plan.model import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a run with all its child runs; None means no limit.

    ``max_cost`` is in the currency of the prices, ``max_tokens`` counts input and output
    tokens together, ``max_seconds`` is time at work. A call of a model is refused once a
    limit is reached, so that spend is at most the limit and one call for each running
    child. When the time is over, what is at work is cancelled. Raises ConfigurationError
    for a limit that is no number above 0.
    """

    max_cost: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_cost", "max_tokens", "max_seconds"):
            value = getattr(self, name)
            kinds = (int,) if name == "max_tokens" else (int, float)
            if value is not None and (type(value) not in kinds or not 0 < value < math.inf):
                what = "a whole number" if name == "max_tokens" else "a number"
                raise ConfigurationError(
                    f"{name} is {shown(value)}", hint=f"it takes {what} above 0, or None"
                )

    def to_dict(self) -> dict[str, Any]:
        """Give the limits that there are, as an event holds them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Read what ``to_dict`` gave; raises RunRefused checkpoint_invalid for anything else."""
        try:
            return None if record is None else cls(**record)
        except (TypeError, ConfigurationError) as error:
            raise RunRefused(
                "checkpoint_invalid", f"the budget on record is none: {error}"
            ) from error


class Spend(NamedTuple):
    """What calls of models took; ``cost`` is None as soon as one of them has no price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    def plus(self, other: Spend) -> Spend:
        """Give the sum of both."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Spend(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers as an event holds them."""
        return self._asdict()

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave; raises KeyError or TypeError for anything else."""
        cost = record["cost"]
        counts = (record["calls"], record["input_tokens"], record["output_tokens"])
        if any(type(one) is not int for one in counts) or type(cost) not in (
            int,
            float,
            type(None),
        ):
            raise TypeError("usage holds what is no number")
        return cls(*counts, cost)

    @classmethod
    def of(cls, usage: Usage) -> Self:
        """Count one call."""
        return cls(1, usage.input_tokens, usage.output_tokens, usage.cost)


class Ledger:
    """What a tree of runs has spent, against what it may: one for all runs of the tree.

    ``expired`` is set when the time is over; ``refused`` holds the first refusal.
    """

    def __init__(
        self, budget: Budget | None, spent: Spend | None = None, seconds: float = 0.0
    ) -> None:
        self.budget = Budget() if budget is None else budget
        self.spent = Spend() if spent is None else spent
        self.expired = False
        limit = self.budget.max_seconds
        self._until = None if limit is None else monotonic() + max(0.0, limit - seconds)
        self._uncounted: str | None = None
        if self.budget.max_cost is not None and self.spent.cost is None:
            self._uncounted = "the price of an earlier call is not known"

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time is over; None without such a limit."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    @property
    def bounds_calls(self) -> bool:
        """Whether what a call takes counts against a limit."""
        return self.budget.max_cost is not None or self.budget.max_tokens is not None

    def charge(self, usage: Usage, model: str | None) -> None:
        """Count one call that was made."""
        self.spent = self.spent.plus(Spend.of(usage))
        costs, tokens = self.budget.max_cost is not None, self.budget.max_tokens is not None
        if (costs and usage.cost is None) or (tokens and not usage.reported):
            what = "cost" if costs and usage.cost is None else "tokens"
            self._uncounted = f"a call of model {model!r} came back without its {what}"

    def refusal(self) -> str | None:
        """Say why no further call may be made; None while one may."""
        budget, spent = self.budget, self.spent
        if self.expired or self.seconds_left == 0:
            return f"max_seconds of {budget.max_seconds:g} is over"
        if self._uncounted is not None:
            return f"the budget cannot be kept: {self._uncounted}"
        tokens = spent.input_tokens + spent.output_tokens
        if budget.max_tokens is not None and tokens >= budget.max_tokens:
            return f"max_tokens of {budget.max_tokens} is reached: {tokens} are used"
        if budget.max_cost is not None and (spent.cost or 0.0) >= budget.max_cost:
            return f"max_cost of {budget.max_cost:g} is reached: {spent.cost:g} is spent"
        return None

    def check(self) -> None:
        """Raise BudgetExceeded when no further call may be made."""
        why = self.refusal()
        if why is not None:
            raise BudgetExceeded(why)


def check_priced(budget: Budget | None, llm: Any, models: Iterator[str | None]) -> None:
    """Raise ConfigurationError when the cost of a model is to be bounded and nobody knows it."""
    if budget is None or budget.max_cost is None or llm is None:
        return
    is_priced = getattr(llm, "is_priced", None)
    for model in models:
        if is_priced is None or not is_priced(model):
            name = model or getattr(getattr(llm, "client", None), "model", None) or "model"
            raise ConfigurationError(
                f"max_cost cannot be kept: nobody knows the price of model {name!r}",
                hint=f'give it, per million tokens: LLMHandler(client, prices={{"{name}": (input, output)}})',
            )


def time_limit(
    plan: ExecutionPlan, budget: Budget | None, seconds: float
) -> tuple[float | None, str]:
    """Give the seconds that a plan has left and what says so; ``seconds`` were spent before.

    Raises RunRefused when the budget's time was over before.
    """
    limit = plan.metadata.execution_timeout
    if budget is None or budget.max_seconds is None:
        return limit, f"the plan's execution_timeout of {limit:g} s" if limit else ""
    left = budget.max_seconds - seconds
    if left <= 0:
        raise RunRefused(
            "run_not_resumable",
            f"the budget of {budget.max_seconds:g} s was used up before",
            hint="give it more: engine.resume(run_id, budget=Budget(max_seconds=...))",
        )
    if limit is not None and limit <= left:
        return limit, f"the plan's execution_timeout of {limit:g} s"
    return left, f"the budget's max_seconds of {budget.max_seconds:g}"
