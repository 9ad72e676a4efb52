"""planbench: plans of tool calls, drawn, checked, run and kept."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.errors import (
    ArtifactNotFound,
    ConfigurationError,
    ModelError,
    PlanAuthoringError,
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
from planbench.memory import TaskMemoryRuntime, TaskScope, WorkingMemory
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
from planbench.runtime import Engine, Outcome, PlanRecoveryConfig, Run
from planbench.tools import Tool, ToolRegistry, ToolResult, tool
from planbench.validation import ValidationReport, check_plan, validate_plan
from planbench.workbench import Workbench, get_workbench, run_plan, run_sync

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planbench.memory.toolkit import WorkingMemoryToolkit
    from planbench.planner import PlanPlanner
    from planbench.runtime.budget import Budget
    from planbench.runtime.notes import note
    from planbench.runtime.saved_run import SavedRun, open_run
    from planbench.toolkit import ExecutionPlanToolkit

__version__ = "0.1.0"

__all__ = [
    "ArtifactNotFound",
    "ArtifactRef",
    "Budget",
    "CheckpointStore",
    "ConfigurationError",
    "Engine",
    "Event",
    "ExecutionManifest",
    "ExecutionPlan",
    "ExecutionPlanToolkit",
    "FacetSpec",
    "ForEach",
    "MemoryStore",
    "ModelError",
    "Outcome",
    "Plan",
    "PlanAuthoringError",
    "PlanDiff",
    "PlanFileStore",
    "PlanInvalid",
    "PlanLoadError",
    "PlanLock",
    "PlanMetadata",
    "PlanNode",
    "PlanPlanner",
    "PlanRecoveryConfig",
    "PlanRunManifest",
    "PlanVersion",
    "PlanbenchError",
    "RetryPolicy",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunRefused",
    "SavedRun",
    "TaskMemoryRuntime",
    "TaskScope",
    "Tool",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "ValidationIssue",
    "ValidationReport",
    "Workbench",
    "WorkingMemory",
    "WorkingMemoryToolkit",
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
    "note",
    "open_run",
    "open_store",
    "run_plan",
    "run_sync",
    "tool",
    "validate_plan",
]


# what not every process needs is loaded when its name is
_LATER: Final = {
    "Budget": "planbench.runtime.budget",
    "ExecutionPlanToolkit": "planbench.toolkit",
    "PlanPlanner": "planbench.planner",
    "SavedRun": "planbench.runtime.saved_run",
    "note": "planbench.runtime.notes",
    "open_run": "planbench.runtime.saved_run",
    "WorkingMemoryToolkit": "planbench.memory.toolkit",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


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
