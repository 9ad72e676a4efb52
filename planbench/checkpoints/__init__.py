"""Where the journals of runs are kept."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from planbench.checkpoints.addresses import shown_address
from planbench.checkpoints.base import CheckpointStore, Lease, RunRecord
from planbench.checkpoints.memory import MemoryStore
from planbench.checkpoints.tiered import TieredStore
from planbench.errors import ConfigurationError
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CheckpointStore", "Lease", "MemoryStore", "RunRecord", "TieredStore", "open_store"]

DEFAULTS: Final = {
    "memory": "memory://",
    "sqlite": "sqlite:///.planbench/journal.db",
    "postgres": "postgresql://",
    "redis": "redis://127.0.0.1:6379/0",
    "mongodb": "mongodb://127.0.0.1:27017/planbench",
}
"""What the plain names stand for. ``postgresql://`` alone goes where libpq goes: to PGHOST and
its kin, else to this machine."""
_STORES: Final = {
    "sqlite": ("sqlite", "SQLiteStore"),
    "postgresql": ("postgres", "PostgresStore"),
    "postgres": ("postgres", "PostgresStore"),
    "redis": ("redis", "RedisStore"),
    "rediss": ("redis", "RedisStore"),
    "mongodb": ("mongodb", "MongoStore"),
    "mongodb+srv": ("mongodb", "MongoStore"),
}
_HINT: Final = (
    'there is "memory", "sqlite:///file.db", "postgresql://host/database", "redis://host:6379/0" '
    'and "mongodb://host:27017/database", and the plain names: ' + ", ".join(DEFAULTS)
)


def open_store(url: str) -> CheckpointStore:
    """Give the store of a URL or of a plain name, not opened yet.

    It is an async context manager. Raises ConfigurationError for a URL of no store that
    there is, for options that it does not know, and where its driver is not installed.
    """
    if not isinstance(url, str):
        raise ConfigurationError(
            f"a checkpoint store is named by a URL, not by {shown(url)}", hint=_HINT
        )
    url = DEFAULTS.get(url, url)
    if url == DEFAULTS["memory"]:
        return MemoryStore()
    scheme, found, _ = url.partition("://")
    if not found or scheme not in _STORES:
        named = shown_address(url) if found else repr(url)
        raise ConfigurationError(f"no checkpoint store is named by {named}", hint=_HINT)
    module, name = _STORES[scheme]
    made: Callable[[str], CheckpointStore] = getattr(
        import_module(f"planbench.checkpoints.{module}"), name
    )
    return made(url)
