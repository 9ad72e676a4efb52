"""Threads that a run does not need any more, kept a few seconds for the next one.

To start a thread costs from 0.05 to several milliseconds, which is more than most runs
of a small plan take otherwise. They are daemons, since a tool that never returns must
not keep the process alive.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 5.0
"""Seconds that a thread waits for work before it ends."""
MOST: Final = 64
"""Threads that may wait at once."""
IDLE_NAME: Final = "planbench, idle"

_lock = threading.Lock()
_idle: list[_Lent] = []


def lend(work: Callable[[], None], name: str) -> None:
    """Have work done in a thread of its own, under a name; does not wait for it."""
    with _lock:
        thread = _idle.pop() if _idle else None
    if thread is None:
        thread = _Lent()
        thread.start()
    thread.works.put((work, name))


class _Lent(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name=IDLE_NAME, daemon=True)
        self.works: SimpleQueue[tuple[Callable[[], None], str]] = SimpleQueue()

    def run(self) -> None:
        """Do one work after the other, until none comes for a while."""
        while self._does_next():
            with _lock:
                if len(_idle) >= MOST:
                    return
                _idle.append(self)

    def _does_next(self) -> bool:
        try:
            work, self.name = self.works.get(timeout=PATIENCE)
        except Empty:
            with _lock:
                if self in _idle:
                    _idle.remove(self)
                    return False
            work, self.name = self.works.get()  # it was taken in this very moment
        try:
            work()
        finally:
            self.name = IDLE_NAME
        return True


def _forget() -> None:
    """Know of no thread in a process that was forked: only the one that forked goes on there."""
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
