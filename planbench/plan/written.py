"""The text of a plan as somebody wrote it: where each key and value begins and ends.

The tree of a document knows values and where they start, which is all that checking
needs. Whoever changes a text needs more: ends, quotes, the style of lists and maps,
anchors, and the comments between them.
"""

from __future__ import annotations

import bisect
import functools
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from planbench.plan.yaml_reader import LOADER, MERGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.source import Route

BLOCK_SCALARS: Final = frozenset("|>")
_VALUES: Final = frozenset({ScalarEvent, AliasEvent, MappingStartEvent, SequenceStartEvent})
_ENDS: Final = frozenset({MappingEndEvent, SequenceEndEvent})
_COMMENT: Final = re.compile(r"#[^\r\n]*")
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s*)*")
_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+')
_CLOSING: Final = frozenset("}]")
_HEADER: Final = re.compile(r"(?:[&!]\S*\s+)*[|>][+\-0-9]*([ \t]+)(#[^\r\n]*)")


class Piece:
    """One value in the text, from ``start`` to ``end``; anchors and tags stand before ``body``.

    ``kind`` is ``scalar``, ``map``, ``list`` or ``alias``. ``style`` is the quote or block
    sign of a scalar; ``flow`` says that a list or map stands in brackets, and ``in_flow``
    that what holds the piece does. An alias has its ``target``.
    """

    __slots__ = (
        "anchor",
        "body",
        "end",
        "entries",
        "flow",
        "in_flow",
        "items",
        "kind",
        "start",
        "style",
        "target",
        "text",
    )

    def __init__(self, kind: str, start: int, end: int, *, in_flow: bool) -> None:
        self.kind = kind
        self.start = start
        self.body = start
        self.end = end
        self.in_flow = in_flow
        self.flow = False
        self.style = ""
        self.text = ""
        self.anchor: str | None = None
        self.target: Piece | None = None
        self.entries: list[Entry] = []
        self.items: list[Piece] = []

    @property
    def resolved(self) -> Piece:
        """The piece that an alias repeats, or the piece itself."""
        piece = self
        while piece.target is not None:
            piece = piece.target
        return piece

    def own(self, name: str) -> Entry | None:
        """Give the entry of a map that is written in the map itself."""
        return next((e for e in self.entries if e.key.text == name and not e.is_merge), None)

    def inner(self) -> Iterator[Piece]:
        """Give the piece and everything written inside it; aliases are not followed."""
        stack = [self]
        while stack:
            piece = stack.pop()
            yield piece
            stack.extend(piece.items)
            for entry in piece.entries:
                stack += entry

    @property
    def is_shared(self) -> bool:
        """Whether something in it is repeated elsewhere, or repeats something."""
        return any(piece.anchor is not None or piece.kind == "alias" for piece in self.inner())


class Entry(NamedTuple):
    """One entry of a map."""

    key: Piece
    value: Piece

    @property
    def is_merge(self) -> bool:
        """Whether it puts another map in."""
        return self.key.text == MERGE and self.key.style == ""


class Comment(NamedTuple):
    """One comment, and whether it has a line of its own."""

    start: int
    end: int
    own_line: bool


class Written:
    """A text that can be read, and its pieces; ``root`` is the plan itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scalars: list[Piece] = []
        self.is_json = is_json(text)
        root = self._read_json() if self.is_json else self._read_yaml()
        inner = None if root.own("nodes") else root.own("plan")
        self.root = root if inner is None else inner.value.resolved

    def _read_json(self) -> Piece:
        """Read JSON by itself: it may hold signs and tabs that YAML does not."""
        stack: list[tuple[Piece, list[Piece]]] = []
        top: list[Piece] = []
        for match in _JSON.finditer(self.text):
            word = match.group()
            if word in _CLOSING:
                piece, inner = stack.pop()
                piece.end = match.end()
                _fill(piece, inner)
                continue
            kind = {"{": "map", "[": "list"}.get(word, "scalar")
            piece = Piece(kind, *match.span(), in_flow=bool(stack))
            (stack[-1][1] if stack else top).append(piece)
            if kind == "scalar":
                piece.style = '"' if word[0] == '"' else ""
                piece.text = json.loads(word) if piece.style else word
                self.scalars.append(piece)
            else:
                piece.flow = True
                stack.append((piece, []))
        return top[0]

    def _read_yaml(self) -> Piece:
        anchors: dict[str, Piece] = {}
        stack: list[tuple[Piece, list[Piece]]] = []
        top: list[Piece] = []
        for event in yaml.parse(self.text, Loader=LOADER):
            kind = type(event)
            if kind in _ENDS:
                self._close(event, *stack.pop())
                continue
            if kind not in _VALUES:
                continue
            piece = self._piece(event, kind, anchors, in_flow=bool(stack and stack[-1][0].flow))
            (stack[-1][1] if stack else top).append(piece)
            if piece.kind in ("map", "list"):
                stack.append((piece, []))
        return top[0] if top else Piece("scalar", 0, 0, in_flow=False)

    def _piece(self, event: Any, kind: type, anchors: dict[str, Piece], *, in_flow: bool) -> Piece:
        start, end = event.start_mark.index, event.end_mark.index
        if kind is AliasEvent:
            piece = Piece("alias", start, end, in_flow=in_flow)
            piece.target = anchors.get(event.anchor)
            return piece
        if kind is ScalarEvent:
            piece = Piece("scalar", start, end, in_flow=in_flow)
            piece.text, piece.style = event.value, event.style or ""
            if piece.style in BLOCK_SCALARS:
                piece.end = self._end_of_block(start, end)
            self.scalars.append(piece)
        else:
            named = "map" if kind is MappingStartEvent else "list"
            piece = Piece(named, start, end, in_flow=in_flow)
            piece.flow = bool(event.flow_style)
        if event.anchor is not None or event.tag is not None:
            said = _PROPERTIES.match(self.text, start)
            piece.body = start if said is None else min(said.end(), end)
        piece.anchor = event.anchor
        if event.anchor is not None:
            anchors[event.anchor] = piece
        return piece

    def _end_of_block(self, start: int, end: int) -> int:
        """Give where a block scalar ends: at the end of its last line that is not blank.

        Where trailing lines are kept they are part of it.
        """
        header = self.text[start : self.line_end(start)].partition("#")[0]
        if "+" in header:
            return end - 1 if self.text[end - 1 : end] == "\n" else end
        return start + len(self.text[start:end].rstrip("\r\n"))

    @staticmethod
    def _close(event: Any, piece: Piece, inner: list[Piece]) -> None:
        _fill(piece, inner)
        if piece.flow:
            piece.end = event.end_mark.index
        elif inner:
            piece.end = inner[-1].end

    # -- places -----------------------------------------------------------------------

    def at(self, path: Route) -> Piece | None:
        """Give what stands at a path of the plan, also where an alias or a merge brings it."""
        piece = self.root
        for part in path:
            found = self.step(piece, part)
            if found is None:
                return None
            piece = found.resolved
        return piece

    def step(self, piece: Piece, part: str | int) -> Piece | None:
        """Give the value under a key, or the item at an index; an alias is given as it is."""
        if isinstance(part, int):
            return piece.items[part] if part < len(piece.items) else None
        own = piece.own(part)
        return self.merged(piece, part) if own is None else own.value

    def merged(self, piece: Piece, part: str) -> Piece | None:
        """Give the value that a merge brings under a key of a map."""
        for entry in piece.entries:
            if entry.is_merge:
                for base in entry.value.resolved.items or [entry.value]:
                    if (found := self.step(base.resolved, part)) is not None:
                        return found
        return None

    def line_start(self, offset: int) -> int:
        """Give where the line of an offset starts."""
        return self.text.rfind("\n", 0, offset) + 1

    def free_line(self, offset: int) -> int:
        """Give where the line of an offset starts, or one above it that no scalar reaches into."""
        start = self.line_start(offset)
        while (scalar := self._scalar_at(start)) is not None and scalar.start < start:
            start = self.line_start(scalar.start)
        return start

    def line_end(self, offset: int) -> int:
        """Give where the line of an offset ends, its break left out."""
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return end - 1 if self.text[offset:end].endswith("\r") else end

    def column(self, offset: int) -> int:
        """Count the characters before an offset on its line."""
        return offset - self.line_start(offset)

    @functools.cached_property
    def line_break(self) -> str:
        """How lines end here."""
        return "\r\n" if "\r\n" in self.text else "\n"

    # -- comments ---------------------------------------------------------------------

    def comments(self, start: int = 0, end: int | None = None) -> list[Comment]:
        """Give the comments that begin in a part of the text."""
        text = self.text
        end = len(text) if end is None else end
        found: list[Comment] = []
        if self.is_json:
            return found
        at = start
        while (match := _COMMENT.search(text, at, end)) is not None:
            inside = self._scalar_at(match.start())
            if inside is not None:
                header = _HEADER.match(text, inside.start) if inside.style else None
                if header is not None and header.start(2) == match.start():
                    found.append(Comment(*header.span(2), own_line=False))
                    at = header.end()
                else:
                    at = max(inside.end, match.start() + 1)
                continue
            before = text[self.line_start(match.start()) : match.start()]
            at = match.end()
            if before == "" or before[-1] in " \t":
                whole = _COMMENT.match(text, match.start())
                stop = match.end() if whole is None else whole.end()
                found.append(Comment(match.start(), stop, own_line=not before.strip()))
            else:
                at = match.start() + 1
        return found

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [piece.start for piece in self.scalars]

    def _scalar_at(self, offset: int) -> Piece | None:
        place = bisect.bisect_right(self._starts, offset) - 1
        if place < 0 or offset >= self.scalars[place].end:
            return None
        return self.scalars[place]


def is_json(text: str) -> bool:
    """Whether a text that can be read is JSON, and no YAML in brackets."""
    if text.lstrip()[:1] != "{":
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _fill(piece: Piece, inner: list[Piece]) -> None:
    if piece.kind == "map":
        piece.entries = [Entry(*pair) for pair in zip(inner[::2], inner[1::2], strict=True)]
    else:
        piece.items = inner
