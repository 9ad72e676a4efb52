"""What tools print, sent to their node instead of whichever cell happens to run."""

from __future__ import annotations

import io
import sys
import threading
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from planbench.runtime.masking import Masking

MAX_OUTPUT: Final = 20_000
"""Characters kept of what one node prints in a run."""
_CUT: Final = f"\n... output over {MAX_OUTPUT} characters is cut\n"

place: ContextVar[tuple[Prints, str] | None] = ContextVar("planbench_place", default=None)
"""Where prints of the current context go: a run's prints and the id of a node."""

noting = False
"""Whether a tool may attach notes to its calls: set where ``note`` is first imported."""

item: ContextVar[int | None] = ContextVar("planbench_item", default=None)
"""The index of the item that a call in this context is about, while notes may be attached."""

_lock = threading.RLock()  # a finalizer or signal handler may print while it is held
_users = 0


class Prints:
    """Collects what the tools of one run print, by node, and hands it over on the loop.

    With ``secrets`` their values are masked, also one that is printed in pieces: what may
    be the beginning of one is held back until more comes or the node has ended.
    """

    __slots__ = (
        "_called",
        "_closed",
        "_context",
        "_cut",
        "_emit",
        "_held",
        "_left",
        "_loop",
        "_notes",
        "_pieces",
        "_secrets",
        "waiting",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        emit: Callable[[str, str | dict[str, Any]], None],
        secrets: Masking | None = None,
    ) -> None:
        self._loop = loop
        self._notes: list[tuple[str, dict[str, Any]]] = []
        self._emit = emit
        self._secrets = secrets
        self._pieces: dict[str, list[str]] = {}
        self._held: dict[str, str] = {}
        self._left: dict[str, int] = {}
        self._cut: set[str] = set()
        self._called = False
        self._context = copy_context()  # who is told prints where the run was started
        self._closed = False
        self.waiting = False

    def write(self, node_id: str, text: Any) -> None:
        """Take a piece, from any thread; what is over a node's limit is dropped, and said once."""
        if not isinstance(text, str):
            msg = f"write() argument must be str, not {type(text).__name__}"
            raise TypeError(msg)
        with _lock:
            left = self._left.get(node_id, MAX_OUTPUT)
            if left < 0 or not text or self._closed:  # below 0 it was said that more is cut
                return
            if len(text) > left:
                self._cut.add(node_id)
                self._left[node_id] = -1
                text = text[:left]
            else:
                self._left[node_id] = left - len(text)
            self._pieces.setdefault(node_id, []).append(text)
            self._call()

    def note(self, node_id: str, item: int | None, facts: dict[str, Any]) -> None:
        """Take facts about a call, from any thread."""
        told: dict[str, Any] = {"note": facts} if item is None else {"index": item, "note": facts}
        with _lock:
            if not self._closed:
                self._notes.append((node_id, told))
                self._call()

    def _call(self) -> None:
        self.waiting = True
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self.flush, context=self._context)

    def flush(self, ended: str | None = None) -> None:
        """Hand over what is there; called on the loop. ``ended`` is a node that prints no more."""
        with _lock:
            self.waiting = self._called = False
            pieces, self._pieces = self._pieces, {}
            cut, self._cut = self._cut, set()
            notes, self._notes = self._notes, []
        for node_id, note in notes:
            self._emit(node_id, note)
        if self._secrets is None:
            told = {node_id: "".join(texts) for node_id, texts in pieces.items()}
        else:
            told = self._masked(self._secrets, pieces, cut, ended)
        for node_id, text in told.items():
            self._emit(node_id, as_utf8(text + _CUT if node_id in cut else text))

    def _masked(
        self, secrets: Masking, pieces: dict[str, list[str]], cut: set[str], ended: str | None
    ) -> dict[str, str]:
        told = {}
        for node_id in dict.fromkeys((*self._held, *pieces)):
            raw = self._held.pop(node_id, "") + "".join(pieces.get(node_id, ()))
            text, rest = secrets.split(raw)
            if node_id == ended or self._closed:
                text, rest = secrets.mask(raw), ""
            if rest and node_id not in cut:
                self._held[node_id] = rest
            if text or node_id in cut:
                told[node_id] = text
        with _lock:
            self.waiting = bool(self._held or self._pieces)
        return told

    def close(self) -> None:
        """Hand over the last, and drop what threads that were given up print later."""
        with _lock:
            self._closed = True
        self.flush()


def as_utf8(text: str) -> str:
    """Give a text that files and JSON can hold: what is half of a surrogate pair becomes ``?``."""
    if text.isascii():
        return text
    whole = text.encode("utf-8", "replace").decode()
    return text if whole == text else whole


class _Router(io.TextIOBase):
    """Stands before a stream and sends what a tool writes to its node."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        where = place.get()
        if where is None:
            return int(self.stream.write(text) or len(text))
        prints, node_id = where
        prints.write(node_id, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if place.get() is None:
            self.stream.flush()

    @property
    def encoding(self) -> Any:  # type: ignore[override]  # read only; the base class has none, and hides that of the stream
        return self.stream.encoding

    @property
    def errors(self) -> Any:  # type: ignore[override]  # read only here
        return self.stream.errors

    @property
    def newlines(self) -> Any:  # type: ignore[override]  # read only here
        return self.stream.newlines

    def close(self) -> None:
        """Stay open: the stream behind belongs to the process."""

    def isatty(self) -> bool:
        return bool(place.get() is None and self.stream.isatty())

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def capture() -> None:
    """Begin to route prints; each call is ended by one of ``release``."""
    global _users  # noqa: PLW0603 - the standard streams are the process's, and so is this count
    with _lock:
        _users += 1
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, _Router):
                setattr(sys, name, _Router(stream))


def keep() -> None:
    """Keep routing for a call in a thread, which may go on when its run has ended."""
    global _users  # noqa: PLW0603 - as in capture
    with _lock:
        _users += 1


def release() -> None:
    """End routing when the last run has ended, unless somebody replaced the stream since."""
    global _users  # noqa: PLW0603 - as in capture
    with _lock:
        _users -= 1
        if _users:
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if isinstance(stream, _Router):
                setattr(sys, name, stream.stream)
