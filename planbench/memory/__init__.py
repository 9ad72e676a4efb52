"""The working memory: every result of a run, kept under the key that the plan chose."""

from planbench.memory.entries import Entry, EntryInfo, EntryType
from planbench.memory.frames import to_frame
from planbench.memory.sizes import format_bytes, measure
from planbench.memory.working_memory import WorkingMemory

__all__ = [
    "Entry",
    "EntryInfo",
    "EntryType",
    "WorkingMemory",
    "format_bytes",
    "measure",
    "to_frame",
]
