"""Where the journals of runs are kept."""

from __future__ import annotations

from planbench.checkpoints.base import CheckpointStore, RunRecord
from planbench.checkpoints.memory import MemoryStore
from planbench.errors import ConfigurationError

__all__ = ["CheckpointStore", "MemoryStore", "RunRecord", "open_store"]


def open_store(url: str) -> CheckpointStore:
    """Give the store of a URL, not opened yet; ``"memory"`` is the one there is today.

    Raises ConfigurationError for any other.
    """
    if url in ("memory", "memory://"):
        return MemoryStore()
    kind = url.split(":", 1)[0]
    raise ConfigurationError(f"no checkpoint store of kind {kind!r}", hint='there is "memory"')
