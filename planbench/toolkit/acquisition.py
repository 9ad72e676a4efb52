"""Where a plan comes from: a file of the plans folder, or a planning model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from planbench.errors import PlanLoadError
from planbench.toolkit.answers import Refusal
from planbench.validation import check_plan, document_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from planbench.files import PlanFileStore
    from planbench.plan.model import ExecutionPlan
    from planbench.tools import ToolRegistry
    from planbench.validation import ValidationReport


class Acquired(NamedTuple):
    """A plan with its report; ``written`` is its record as it was acquired, whole or broken."""

    plan: ExecutionPlan | None
    written: Any
    report: ValidationReport


class Author(Protocol):
    """What writes plans from an objective."""

    async def write(self, objective: str) -> Acquired:
        """Author a plan; raises Refusal where no plan came of it."""
        ...


class Acquisition:
    """Reads the arguments that say which plan is meant; raises Refusal for what cannot be had."""

    def __init__(
        self,
        plans: PlanFileStore | None,
        author: Author | None,
        registry: ToolRegistry,
        allowed_tools: Collection[str] | None,
        env: Mapping[str, Collection[str]] | None,
    ) -> None:
        self._plans = plans
        self._author = author
        self._registry = registry
        self._allowed = allowed_tools
        self._env = env

    async def acquire(self, objective: Any, plan_name: Any, params: Any) -> Acquired:
        """Give the plan of exactly one of ``objective`` and ``plan_name``, checked."""
        for name, value in (("objective", objective), ("plan_name", plan_name)):
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise Refusal("invalid_arguments", f"{name} is a text that is not empty")
        if (objective is None) == (plan_name is None):
            raise Refusal("invalid_arguments", "give exactly one of objective and plan_name")
        if params is not None and not isinstance(params, Mapping):
            raise Refusal("invalid_arguments", "params is a map of names to values")
        if objective is not None:
            if params:
                raise Refusal("invalid_arguments", "params go with plan_name, not with objective")
            if self._author is None:
                raise Refusal("planner_unavailable", "no planner_llm is configured: give plan_name")
            return await self._author.write(objective)
        return self._load(plan_name, params or {})

    def _load(self, name: str, params: Mapping[str, Any]) -> Acquired:
        if self._plans is None:
            raise Refusal("plans_dir_unavailable", "no plans_dir is configured: give objective")
        try:
            text = self._plans.read(name)
            written = document_of(text).value
        except PlanLoadError as error:
            raise Refusal("plan_unreadable", str(error)) from error
        report = check_plan(text, self._registry, self._allowed, params, env=self._env)
        return Acquired(report.plan, written, report)
