"""What an interrupt does to a command: it ends the run first, and the process if asked twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final, Self

from planbench.cli.terminal import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS: Final = 0.3


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
    """Give the exit code; where a tool is stuck in a thread, end the process with it here.

    The interpreter would wait for such a thread for as long as the tool takes.
    """
    for thread in _working():
        thread.join(GRACE_SECONDS)
    stuck = len(_working())
    if not stuck:
        return code
    noun = "a tool is" if stuck == 1 else f"{stuck} tools are"
    errors().line(f"planbench: {noun} still running in a thread; leaving without waiting")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _working() -> list[threading.Thread]:
    here = (threading.current_thread(), threading.main_thread())
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in here]
