"""Running plans and algorithms: the engine, its runs, and what they leave on record."""

from __future__ import annotations

from planbench.runtime.agent import Agent
from planbench.runtime.algorithm import Algorithm
from planbench.runtime.budget import Budget
from planbench.runtime.children import Repairable
from planbench.runtime.engine import Engine
from planbench.runtime.outcome import Outcome, Usage
from planbench.runtime.run import Run
from planbench.runtime.settings import PlanRecoveryConfig
from planbench.runtime.standing import NodeState
from planbench.runtime.state import RunState, replay

__all__ = [
    "Agent",
    "Algorithm",
    "Budget",
    "Engine",
    "NodeState",
    "Outcome",
    "PlanRecoveryConfig",
    "Repairable",
    "Run",
    "RunState",
    "Usage",
    "replay",
]
