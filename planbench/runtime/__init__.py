"""Running plans: the engine, its runs, and what they leave on record."""

from __future__ import annotations

from planbench.runtime.engine import Engine
from planbench.runtime.run import Outcome, Run, Usage
from planbench.runtime.state import NodeState, RunState, replay

__all__ = ["Engine", "NodeState", "Outcome", "Run", "RunState", "Usage", "replay"]
