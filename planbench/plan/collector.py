"""The cyclic garbage collector, held while a plan is read."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Hold the collector while many small objects are made that all stay.

    It would look through all of them again and again, which makes reading 20,000 nodes
    take twice the time and more.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
