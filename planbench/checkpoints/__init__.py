"""Where the journals of runs are kept."""

from __future__ import annotations

from planbench.checkpoints.base import CheckpointStore, RunRecord
from planbench.checkpoints.memory import MemoryStore
from planbench.errors import ConfigurationError
from planbench.plan.source import shown

__all__ = ["CheckpointStore", "MemoryStore", "RunRecord", "open_store"]


def open_store(url: str) -> CheckpointStore:
    """Give the store of a URL, not opened yet; ``"memory"`` is the one there is today.

    Raises ConfigurationError for any other.
    """
    if not isinstance(url, str):
        raise ConfigurationError(
            f"a checkpoint store is named by a URL, not by {shown(url)}", hint='there is "memory"'
        )
    if url in ("memory", "memory://"):
        return MemoryStore()
    kind = url.split(":", 1)[0]
    raise ConfigurationError(f"no checkpoint store of kind {kind!r}", hint='there is "memory"')
