"""The working memory: every result of a run, kept under the key that the plan chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planbench.memory.artifacts import ArtifactRecord, ArtifactStore
from planbench.memory.entries import Entry, EntryInfo, EntryType
from planbench.memory.frames import to_frame
from planbench.memory.scope import TaskMemoryRuntime, TaskScope
from planbench.memory.sizes import format_bytes, measure
from planbench.memory.working_memory import WorkingMemory

if TYPE_CHECKING:
    from planbench.memory.toolkit import WorkingMemoryToolkit

__all__ = [
    "ArtifactRecord",
    "ArtifactStore",
    "Entry",
    "EntryInfo",
    "EntryType",
    "TaskMemoryRuntime",
    "TaskScope",
    "WorkingMemory",
    "WorkingMemoryToolkit",
    "format_bytes",
    "measure",
    "to_frame",
]


def __getattr__(name: str) -> Any:
    if name == "WorkingMemoryToolkit":
        from planbench.memory.toolkit import WorkingMemoryToolkit  # noqa: PLC0415 - loaded when an agent needs it

        return WorkingMemoryToolkit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
