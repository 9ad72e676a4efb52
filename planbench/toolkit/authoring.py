"""Plans by objective and repairs, for hosts that have configured a planning model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from planbench.errors import ConfigurationError, ModelError, PlanAuthoringError, PlanbenchError
from planbench.planner import PlanPlanner
from planbench.runtime.node import error_text
from planbench.toolkit.acquisition import Acquired
from planbench.toolkit.answers import Refusal, issues_of
from planbench.validation import patterns_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Mapping

    from planbench.plan.model import ExecutionPlan
    from planbench.runtime import Repairable
    from planbench.tools import Tool, ToolRegistry

T = TypeVar("T")
_logger = logging.getLogger(__name__)


class Authoring:
    """Asks the planning model; ``planner`` is a PlanPlanner, or what ``client_of`` takes.

    The tools of a plan toolkit itself are not offered to it, unless ``allowed_tools`` names
    them: an agent's registry holds them beside its other tools, and a plan that has plans
    written while it runs would ask a model in the middle of a run.
    """

    def __init__(
        self,
        planner: Any,
        registry: ToolRegistry,
        allowed_tools: Collection[str] | None,
        env: Mapping[str, Collection[str]] | None,
    ) -> None:
        self._named = frozenset(patterns_of(allowed_tools) or ())
        self._planner: PlanPlanner = (
            planner
            if isinstance(planner, PlanPlanner)
            else PlanPlanner(planner, registry, allowed_tools, env=env)
        )

    async def write(self, objective: str) -> Acquired:
        """Have a plan written, with at most one correction; raises Refusal where none came of it."""
        try:
            authored = await _answered(
                self._planner.author(objective, tools=self._offered(), runs_as_is=True)
            )
        except PlanAuthoringError as error:
            found = {"ok": False, "issues": issues_of(error.report)}
            raise Refusal(error.code, str(error), found) from error
        except ModelError as error:
            raise Refusal("planner_unavailable", f"{error.code}: {error}") from error
        written = None if authored.plan is None else authored.plan.to_dict()
        return Acquired(authored.plan, written, authored.report)

    async def mend(self, work: Repairable) -> ExecutionPlan:
        """Have the failed nodes of a run replaced; raises PlanAuthoringError and ModelError."""
        refs = [node.ref() for node in work.history.state.nodes.values()]
        delta = await _answered(
            self._planner.repair_delta(
                work.history.plan,
                [ref for ref in refs if ref.node_id in work.nodes],
                work.nodes,
                refs=refs,
                tools=[name for name in self._offered(work.history.plan) if name in work.tools],
            )
        )
        return delta.plan

    def _offered(self, plan: ExecutionPlan | None = None) -> list[str]:
        """Name the tools that plans are written with, and those that a plan calls already."""
        known = self._named.union(node.tool for node in plan.nodes) if plan else self._named
        tools = self._planner.registry.list_tools()
        return [one.name for one in tools if one.name in known or not _makes_plans(one)]


async def _answered(asking: Awaitable[T]) -> T:
    """Wait for the planner; whatever keeps it from an answer is a ModelError for the one who asked."""
    try:
        return await asking
    except ConfigurationError as error:
        raise ModelError(error.code, error.message, hint=error.hint) from error
    except PlanbenchError:
        raise
    except Exception as error:
        _logger.exception("the planner failed")
        text = f"the planner failed: {error_text(error)}"
        raise ModelError("model_failed", text) from error


def _makes_plans(tool: Tool) -> bool:
    owner = getattr(tool.function, "__self__", None)
    return callable(getattr(owner, "plan_execute", None))
