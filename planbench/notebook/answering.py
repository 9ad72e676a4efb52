"""A model's answer as it comes: one bounded place in the output of a cell, at the end a few lines."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from IPython.display import display as _display

from planbench.notebook.bundle import LAYOUT, Html, tag
from planbench.notebook.display import front_end
from planbench.notebook.interrupts import ctrl_c_cancels
from planbench.render.figures import duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from planbench.llm import LLMHandler
    from planbench.planner import Catalog

T = TypeVar("T")

PAUSE: Final = 0.15
"""Seconds between two updates; an interrupt is noticed as quickly."""
MAX_TAIL: Final = 2_000
MAX_LINES: Final = 24
MAX_CATALOG: Final = 6_000
MAX_NAMES: Final = 30
END_SECONDS: Final = 0.8
display: Final[Any] = _display  # IPython does not state its types


class AnswerView:
    """Shows what one planner is answering, and then what that took.

    Nobody looks on in nbmake and the like: there only the end is shown.
    """

    def __init__(self, llm: LLMHandler) -> None:
        self._llm = llm
        self._began = monotonic()
        self._tail = ""
        self._signs = 0
        self._answer = 0
        self._shown: str | None = None
        self._handle: Any = None
        self._is_live = front_end() != "none"

    @property
    def model(self) -> str:
        """The name of the model that is asked, as far as its client tells it."""
        name = getattr(self._llm.client, "model", None)
        return name if isinstance(name, str) else type(self._llm.client).__name__

    def hear(self, piece: str) -> None:
        """Take in a piece of the answer; the second answer takes the place of the first."""
        if self._llm.calls != self._answer:
            self._answer, self._tail, self._signs = self._llm.calls, "", 0
        self._signs += len(piece)
        self._tail = (self._tail + piece)[-MAX_TAIL:]

    async def until(self, work: Awaitable[T]) -> T:
        """Wait for an answer and show it meanwhile; whoever is cancelled here leaves no call behind."""
        task = asyncio.ensure_future(work)
        try:
            with ctrl_c_cancels():
                while not task.done():
                    self._tell()
                    await asyncio.wait([task], timeout=PAUSE)
        finally:
            if not task.done():
                task.cancel()
                # bounded, since a client of one's own may not let itself be cancelled
                await asyncio.wait([task], timeout=END_SECONDS)
        return task.result()

    def end(
        self, said: Sequence[str], catalog: Catalog | None = None, model: str | None = None
    ) -> None:
        """Put in its place what it took, what came of it, and what the model was told of the tools."""
        lines = [self._cost(model), *said]
        seen, told = ("", "") if catalog is None else _seen(catalog)
        parts = [Html(f"<style>{LAYOUT}</style>"), *(tag("p", line) for line in lines)]
        if catalog is not None:
            inner = tag("pre", told, class_="pbs-pre")
            parts.append(tag("details", tag("summary", seen), inner))
        self._put(
            {
                "text/html": str(tag("div", *parts, class_="pb-static")),
                "text/plain": "\n".join([*lines, *filter(None, [seen])]),
            }
        )

    def _tell(self) -> None:
        if not self._is_live:
            return
        what = "an answer" if self._llm.calls == 0 else "its correction"
        seconds = f"{monotonic() - self._began:.0f} s"
        head = f"asking {self.model} for {what}: {self._signs:,} characters, {seconds}"
        tail = "\n".join(self._tail.splitlines()[-MAX_LINES:])
        text = f"{head}\n{tail}".rstrip()
        if text == self._shown:
            return
        self._shown = text
        parts = (Html(f"<style>{LAYOUT}</style>"), tag("p", head, class_="pbs-soft"))
        body = tag("pre", tail, class_="pbs-pre")
        self._put(
            {"text/html": str(tag("div", *parts, body, class_="pb-static")), "text/plain": text}
        )

    def _put(self, bundle: dict[str, str]) -> None:
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _cost(self, model: str | None) -> str:
        calls, usage = self._llm.calls, self._llm.usage
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        if not usage.reported:
            tokens = "tokens not reported" if not usage.input_tokens else f"at least {tokens}"
        facts = [
            "1 call" if calls == 1 else f"{calls} calls",
            tokens,
            "unpriced" if usage.cost is None else f"cost {usage.cost:.6g}",
            duration(monotonic() - self._began),
        ]
        return f"{model or self.model}: " + ", ".join(facts)


def _seen(catalog: Catalog) -> tuple[str, str]:
    """Say which tools a planner was told of, and how they were described to it."""
    names = ", ".join(catalog.names[:MAX_NAMES])
    if len(catalog.names) > MAX_NAMES:
        names += f" and {len(catalog.names) - MAX_NAMES} more"
    count = "1 tool" if len(catalog.names) == 1 else f"{len(catalog.names):,} tools"
    said = f"the planner saw {count}: {names}"
    if catalog.left_out:
        said += f"; {len(catalog.left_out):,} had no room"
    if catalog.is_shortened:
        said += "; descriptions were shortened"
    text = catalog.text
    if len(text) > MAX_CATALOG:
        text = f"{text[:MAX_CATALOG]}\n... {len(text) - MAX_CATALOG:,} more characters"
    return said, text
