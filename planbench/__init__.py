"""planbench: plans of tool calls, drawn, checked, run and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.errors import (
    ArtifactNotFound,
    ConfigurationError,
    PlanbenchError,
    PlanInvalid,
    PlanLoadError,
    RunCancelled,
    RunFailed,
    RunRefused,
    ToolError,
)
from planbench.events import Event
from planbench.files import (
    PlanFileStore,
    PlanLock,
    PlanVersion,
    check_lock,
    load_plan,
    make_lock,
)
from planbench.memory import WorkingMemory
from planbench.plan.builder import Plan
from planbench.plan.diff import PlanDiff, diff_plans
from planbench.plan.handles import count, groups, index, item
from planbench.plan.issues import ValidationIssue
from planbench.plan.manifest import ArtifactRef, ExecutionManifest, PlanRunManifest
from planbench.plan.model import (
    ExecutionPlan,
    FacetSpec,
    ForEach,
    PlanMetadata,
    PlanNode,
    RetryPolicy,
)
from planbench.runtime import Engine, Outcome, Run
from planbench.tools import Tool, ToolRegistry, ToolResult, tool
from planbench.validation import ValidationReport, check_plan, validate_plan
from planbench.workbench import Workbench, get_workbench, run_plan, run_sync

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"

__all__ = [
    "ArtifactNotFound",
    "ArtifactRef",
    "CheckpointStore",
    "ConfigurationError",
    "Engine",
    "Event",
    "ExecutionManifest",
    "ExecutionPlan",
    "FacetSpec",
    "ForEach",
    "MemoryStore",
    "Outcome",
    "Plan",
    "PlanDiff",
    "PlanFileStore",
    "PlanInvalid",
    "PlanLoadError",
    "PlanLock",
    "PlanMetadata",
    "PlanNode",
    "PlanRunManifest",
    "PlanVersion",
    "PlanbenchError",
    "RetryPolicy",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunRefused",
    "Tool",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "ValidationIssue",
    "ValidationReport",
    "Workbench",
    "WorkingMemory",
    "check_lock",
    "check_plan",
    "count",
    "diff_plans",
    "get_workbench",
    "groups",
    "index",
    "item",
    "load_plan",
    "make_lock",
    "open_store",
    "run_plan",
    "run_sync",
    "tool",
    "validate_plan",
]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the magics, the completer and the live tools: ``%load_ext planbench``."""
    from planbench.notebook.extension import load_ipython_extension as load  # noqa: PLC0415 - IPython is loaded in notebooks only

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take everything back that loading brought."""
    from planbench.notebook.extension import unload_ipython_extension as unload  # noqa: PLC0415 - as above

    unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Tell Jupyter Server where its part is."""
    return [{"module": "planbench.server"}]
