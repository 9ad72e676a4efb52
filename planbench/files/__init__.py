"""Plan files: read by path or bare name, saved with every version kept, locked to their tools."""

from planbench.files.entries import PlanEntry
from planbench.files.loading import load_plan, read_plan_file
from planbench.files.lock import LockedTool, PlanLock, check_lock, make_lock
from planbench.files.requirements import with_lock, with_requirements
from planbench.files.store import PlanFileStore
from planbench.files.versions import PlanVersion

__all__ = [
    "LockedTool",
    "PlanEntry",
    "PlanFileStore",
    "PlanLock",
    "PlanVersion",
    "check_lock",
    "load_plan",
    "make_lock",
    "read_plan_file",
    "with_lock",
    "with_requirements",
]
