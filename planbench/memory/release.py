"""Memory that was freed, given back to the system: allocators keep what they once got."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def give_back() -> None:
    """Let the allocators of Python and of pyarrow return what is free; takes some milliseconds."""
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):
        arrow.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Give glibc's ``malloc_trim``; other C libraries return what is free by themselves, or cannot."""
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - only where values are spilled

    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
