"""Plans as tools of an agent: one bounded call runs a whole plan, and no payload comes back."""

from __future__ import annotations

from planbench.toolkit.execution import ExecutionPlanToolkit

__all__ = ["ExecutionPlanToolkit"]
