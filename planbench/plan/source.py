"""The text of a plan and its places: offsets, lines, edits, and what was found wrong."""

from __future__ import annotations

import bisect
import functools
import re
from array import array
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from planbench.plan.placeholders import MAX_DEPTH

Route = tuple[str | int, ...]

_COUNTED: Final = 16
_BREAK: Final = re.compile(r"\r\n|\n|\r")


class Mark(NamedTuple):
    """A place in a text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a text may be before it is refused.

    ``max_depth`` leaves room for arguments at their own limit inside a node. ``max_values``
    counts keys, scalars, maps, lists, and the braces in texts, but for the first 100 of each
    node, of which ``max_nodes`` bounds the number. A text within all of them is answered in about
    two seconds and 200 MB, and what its nodes take. ``max_expanded`` counts the same in what
    aliases repeat.
    """

    max_chars: int = 20_000_000
    max_depth: int = MAX_DEPTH + 10
    max_nodes: int = 120_000
    max_values: int = 300_000
    max_expanded: int = 200_000


class Edit(NamedTuple):
    """A piece of the text and what should stand there instead."""

    start: int
    end: int
    text: str


class Problem(NamedTuple):
    """Something wrong in a text, at an offset and at a path of the tree."""

    code: str
    message: str
    offset: int
    path: Route = ()
    edit: Edit | None = None
    fix: str | None = None


def duplicate(key: str, first: int, second: int, offset: int, route: Route) -> Problem:
    """Say that a key stands twice in one map, and on which lines."""
    where = f"on line {first}" if first == second else f"on lines {first} and {second}"
    message = f"the key {key!r} stands twice in one map, {where}"
    return Problem("duplicate_key", message, offset, route, fix="keep one of them")


class UnreadableText(Exception):
    """Raised inside the readers where nothing after the problem can be known."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


# A map has {key: (offset of the key, offset of the value)}, a list has the offsets of its items;
# both are found by the id of the container, which the tree keeps alive.
Offsets = dict[int, "dict[str, tuple[int, int]] | list[int]"]


@dataclass(slots=True)
class Reading:
    """What a reader made of a text; ``complete`` is False when it had to stop."""

    value: Any = None
    start: int | None = None
    offsets: Offsets = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True


class Source:
    """A text that turns offsets into lines and columns, and shows lines as they would be mended."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._has_returns = "\r" in text
        self._counted = 0

    @functools.cached_property
    def _starts(self) -> array[int]:
        starts = array("L", [0])
        starts.extend(match.end() for match in _BREAK.finditer(self.text))
        return starts

    def mark(self, offset: int) -> Mark:
        """Give the line and column of an offset."""
        if self._counted < _COUNTED and "_starts" not in self.__dict__:
            self._counted += 1  # an index of millions of lines is not made for a few places
            return self._count(offset)
        line = bisect.bisect_right(self._starts, offset)
        return Mark(line, offset - self._starts[line - 1] + 1)

    def _count(self, offset: int) -> Mark:
        text = self.text
        if offset and text[offset - 1 : offset + 1] == "\r\n":  # amid a line end: of that line
            before = self._count(offset - 1)
            return Mark(before.line, before.column + 1)
        line = 1 + text.count("\n", 0, offset)
        start = text.rfind("\n", 0, offset)
        if self._has_returns:
            line += text.count("\r", 0, offset) - text.count("\r\n", 0, offset)
            start = max(start, text.rfind("\r", 0, offset))
        return Mark(line, offset - start)

    def line_at(self, offset: int) -> tuple[int, str]:
        """Give the line around an offset, without its end, and the offset where it starts."""
        text = self.text
        if offset and text[offset - 1 : offset + 1] == "\r\n":  # amid a line end: of that line
            offset -= 1
        start, end = text.rfind("\n", 0, offset), text.find("\n", offset)
        if self._has_returns:
            start = max(start, text.rfind("\r", 0, offset))
            first = text.find("\r", offset)
            end = first if end < 0 or 0 <= first < end else end
        return start + 1, text[start + 1 : end if end >= 0 else len(text)]


def apply(text: str, edits: list[Edit]) -> str:
    """Make edits that do not overlap; those that do are made once."""
    pieces, at = [], 0
    for edit in sorted(set(edits)):
        if edit.start >= at:
            pieces += [text[at : edit.start], edit.text]
            at = edit.end
    return "".join([*pieces, text[at:]])


class Shifts:
    """Turns offsets in an edited text back into offsets of the text as written."""

    def __init__(self, edits: list[Edit]) -> None:
        self._moves: list[tuple[int, int, Edit]] = []
        shift = 0
        for edit in sorted(set(edits)):
            self._moves.append((edit.start + shift, shift, edit))
            shift += len(edit.text) - (edit.end - edit.start)

    def original(self, offset: int) -> int:
        """Give the offset in the text as written."""
        i = bisect.bisect_right(self._moves, offset, key=lambda move: move[0]) - 1
        if i < 0:
            return offset
        start, shift, edit = self._moves[i]
        if offset < start + len(edit.text):
            return min(edit.start + max(offset - start - 1, 0), edit.end)
        return offset - shift - len(edit.text) + (edit.end - edit.start)


def shown(value: Any, limit: int = 60) -> str:
    """Write a value into a message: short, and never deep."""
    if isinstance(value, dict):
        return f"a map of {len(value)}" if value else "an empty map"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "nothing"
    if not isinstance(value, str | int | float):
        return type(value).__name__
    text = repr(value[: limit + 1] if isinstance(value, str) else value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
