"""What an interrupt does to a command: it ends the run first, and the process if asked twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from planbench.cli.terminal import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS: Final = 1.0
_CODES: Final = frozenset(128 + number for number in SIGNALS)


class Interrupt:
    """Turns the first SIGINT or SIGTERM into a call of ``cancel``, the next into the end.

    ``code`` is the exit code that the shell expects, or None when nothing came. To
    be entered on the main thread while its event loop runs.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.code: int | None = None
        self._cancel = cancel
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None]
        self._before = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, number: int, frame: FrameType | None) -> None:
        # A handler of the interpreter and not of the loop: it also comes through
        # while a tool holds the loop.
        del frame
        if self.code is not None:
            os._exit(self.code)
        self.code = 128 + number
        self._loop.call_soon_threadsafe(self._cancel)


def leave(code: int) -> int:
    """Give the exit code; where an interrupted tool left threads of its own, end the process.

    The interpreter would wait for them. The run's own threads are daemons, so without
    an interrupt there is nothing to cut off.
    """
    if code not in _CODES:
        return code
    limit = time.monotonic() + GRACE_SECONDS
    for thread in _working():
        thread.join(max(0.0, limit - time.monotonic()))
    if not _working():
        return code
    errors().line("planbench: a tool left a thread running; leaving without it")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _working() -> list[threading.Thread]:
    here = (threading.current_thread(), threading.main_thread())
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in here]
