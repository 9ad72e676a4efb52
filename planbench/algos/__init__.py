"""Algorithms that an engine runs: a loop of tool calls, and a plan of steps that is executed."""

from planbench.algos.plan_and_execute import PlanAndExecute
from planbench.algos.tool_loop import ToolLoop

__all__ = ["PlanAndExecute", "ToolLoop"]
