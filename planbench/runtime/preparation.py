"""A plan made ready to run: checked against the tools as they are now, compiled once."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from planbench.errors import PlanInvalid, RunRefused
from planbench.plan.collector import paused_collector
from planbench.runtime.choices import check_choices, check_spread
from planbench.runtime.compiled import CompiledPlan
from planbench.validation import patterns_of, secrets_of, validate_plan

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.tools import ToolRegistry

KEPT_PLANS: Final = 16
Policy = tuple[tuple[str, ...] | None, tuple[tuple[str, tuple[str, ...] | None], ...]]
_Key = tuple[int, Policy]


class CompiledPlans:
    """The plans compiled last, for as long as their registry lives and does not change.

    A cell that is run again, and the next run of a plan, start without compiling.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[
            ToolRegistry, OrderedDict[_Key, tuple[ExecutionPlan, int, CompiledPlan]]
        ]
        self._kept = WeakKeyDictionary()

    def get(
        self, plan: ExecutionPlan, registry: ToolRegistry, policy: Policy
    ) -> CompiledPlan | None:
        """Give what was kept of this very plan, when nothing has changed since."""
        plans = self._kept.get(registry)
        kept = None if plans is None else plans.get((id(plan), policy))
        if kept is None or kept[0] is not plan or kept[1] != registry.version:
            return None
        return kept[2]

    def keep(
        self,
        plan: ExecutionPlan,
        registry: ToolRegistry,
        version: int,
        policy: Policy,
        compiled: CompiledPlan,
    ) -> None:
        """Keep a compiled plan, and forget the oldest of too many."""
        plans = self._kept.setdefault(registry, OrderedDict())
        plans[id(plan), policy] = (plan, version, compiled)
        if len(plans) > KEPT_PLANS:
            plans.popitem(last=False)


_kept: Final = CompiledPlans()


def policy_of(
    allowed_tools: Collection[str] | None, env: Mapping[str, Collection[str]] | None
) -> Policy:
    """Give what a host allows in a form that can be compared."""
    known = secrets_of(env) or {}
    return _sorted(allowed_tools), tuple(sorted((name, _sorted(known[name])) for name in known))


def compiled_before(
    plan: ExecutionPlan, registry: ToolRegistry, policy: Policy
) -> CompiledPlan | None:
    """Give what was compiled of this very plan, when nothing has changed since."""
    return _kept.get(plan, registry, policy)


def compile_plan(
    plan: ExecutionPlan,
    registry: ToolRegistry,
    allowed_tools: Collection[str] | None,
    env: Mapping[str, Collection[str]] | None,
) -> CompiledPlan:
    """Check a plan and compile it; raises PlanInvalid, and RunRefused for what cannot run here."""
    # The version of what is checked now: another thread may change the registry meanwhile.
    version = registry.version
    report = validate_plan(plan, registry, allowed_tools, env=env)
    if not report.ok:
        raise PlanInvalid(report.issues, name=plan.name)
    for node in plan.nodes:
        _refuse_unbuilt(node)
    with paused_collector():
        compiled = CompiledPlan(plan, registry, allowed_tools)
    check_choices(plan, compiled.choices)
    _kept.keep(plan, registry, version, policy_of(allowed_tools, env), compiled)
    return compiled


def _sorted(allowed_tools: Collection[str] | None) -> tuple[str, ...] | None:
    patterns = patterns_of(allowed_tools)
    return None if patterns is None else tuple(sorted(patterns))


def _refuse_unbuilt(node: PlanNode) -> None:
    check_spread(node)
    if node.approve:
        raise RunRefused(
            "approval_not_available",
            f"node {node.id!r} asks for an approval, and nobody can give one here yet",
            node_id=node.id,
            hint="take approve out of the node to run it unasked",
        )
    if node.cache:
        raise RunRefused(
            "cache_not_available",
            f"node {node.id!r} asks for a cache, and there is none here yet",
            node_id=node.id,
        )
