"""Plans that a model writes: asked for, checked, corrected once; and how its answers are read."""

from planbench.llm.answers import parse_plan, parse_steps
from planbench.planner.author import AuthoredPlan, PlanPlanner
from planbench.planner.delta import PlanDelta
from planbench.planner.offer import Catalog

__all__ = ["AuthoredPlan", "Catalog", "PlanDelta", "PlanPlanner", "parse_plan", "parse_steps"]
