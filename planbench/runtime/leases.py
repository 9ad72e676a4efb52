"""Who holds a run: one process at a time, told apart from those that are gone."""

from __future__ import annotations

import os
import secrets
import socket
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planbench.checkpoints import CheckpointStore, Lease

_DEAD: Final = "dead"
_STARTED: Final = 19
"""Where /proc/<pid>/stat has the start of the process, counted behind the name (proc(5))."""


def new_owner() -> str:
    """Name an owner of leases: the host since its start, the process, and one of its engines."""
    pid = os.getpid()
    return f"{_host()}/{pid}/{_begun(pid)}/{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Whether an owner was a process of this host that has ended; of another host nothing is known."""
    parts = owner.split("/")
    if len(parts) != 4 or parts[0] != _host() or not parts[1].isdecimal():  # noqa: PLR2004 - as new_owner writes it
        return False
    pid = int(parts[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError, OSError):
        return False
    begun = _begun(pid)
    return begun == _DEAD or (
        bool(parts[2]) and begun not in ("", parts[2])
    )  # or its number is another's now


async def take_lease(store: CheckpointStore, run_id: str, owner: str, ttl: float) -> Lease | None:
    """Acquire the lease of a run, at once where its holder is a process that has ended.

    None means that somebody holds it. Raises StoreError.
    """
    lease = await store.acquire_lease(run_id, owner, ttl)
    if lease is not None:
        return lease
    holder = await store.lease(run_id)
    if holder is not None and not is_gone(holder.owner):
        return None
    if holder is not None:
        await store.release_lease(holder)
    return await store.acquire_lease(run_id, owner, ttl)


@lru_cache(maxsize=1)
def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    except OSError:  # only Linux tells it
        boot = ""
    return f"{socket.gethostname()}+{boot}".replace("/", "_")


def _begun(pid: int) -> str:
    """Give when a process started, in the system's own count; of one that only waits to be reaped, that it is dead."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        return _DEAD if fields[0] in ("Z", "X") else fields[_STARTED]
    except (OSError, IndexError):  # only Linux tells it
        return ""
