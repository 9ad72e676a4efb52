"""Changes of a text at the places of its values; everything else stays as it is.

What is removed or replaced leaves its comments behind, on lines of their own.
"""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import LanguageError
from planbench.plan.source import Edit
from planbench.plan.writer import entry_lines, flow_text, json_text, key_text
from planbench.plan.written import BLOCK_SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.plan.written import Comment, Entry, Piece, Written

MAX_LINE: Final = 100

_COLON: Final = re.compile(r"\s*:")
_NOT_PLAIN: Final = frozenset(",[]{}")
_STANDS: Final = "the text is laid out so that this place cannot be changed alone"


class Rewriting:
    """Gathers changes of one text. Each raises LanguageError where it cannot be made."""

    def __init__(self, written: Written) -> None:
        self.written = written
        self.edits: list[Edit] = []
        self._lifted: list[Edit] = []

    @property
    def text(self) -> str:
        """The text with all changes made, those at one place in the order in which they came."""
        changes = sorted(self.edits, key=lambda edit: edit[:2])
        lifted = [self._above(edit, changes) for edit in self._lifted]
        pieces, at = [], 0
        for edit in sorted([*lifted, *changes], key=lambda edit: edit[:2]):
            if edit.start < at:
                raise LanguageError(_STANDS)
            pieces += [self.written.text[at : edit.start], edit.text]
            at = edit.end
        return "".join([*pieces, self.written.text[at:]])

    def _above(self, edit: Edit, changes: list[Edit]) -> Edit:
        """Give a line of comments a place above what another change takes away."""
        start = edit.start
        while True:
            place = bisect.bisect_left(changes, start, key=lambda change: change.start) - 1
            if place < 0 or changes[place].end <= start:
                return Edit(start, start, edit.text)
            start = self.written.free_line(changes[place].start)

    def put(self, start: int, end: int, text: str) -> None:
        """Put a text in the place of another."""
        self.edits.append(Edit(start, end, text))

    # -- values -----------------------------------------------------------------------

    def replace(self, key: Piece | None, piece: Piece, value: Any) -> None:
        """Write another value in the place of one; items of lists have no key."""
        one_line = self._one_line(piece, value)
        if one_line is not None:
            self.replace_by_text(key, piece, one_line)
            return
        head = self._after_key(key) if key is not None else self._after_dash(piece)
        column = self.written.column(head - 1 if key is None else key.start)
        sign = "-" if key is None else "key:"
        first, *rest = entry_lines(sign, value)
        below = self._comment_behind(piece)
        comments = self._comments(head, piece.end if below is None else below.end)
        lines = [first.removeprefix(sign), *(" " * column + line if line else "" for line in rest)]
        if len(comments) == 1 and not comments[0].own_line:
            lines[0] += f"  {self._of(comments[0])}"
        else:
            self._lift(comments, head)
        lines[0] = f"{_anchor(piece)}{lines[0]}"
        stop = piece.end if below is None else below.end
        self.put(head, stop, self.written.line_break.join(lines))

    def replace_by_text(self, key: Piece | None, piece: Piece, text: str) -> None:
        """Put what is written on one line in the place of a value."""
        text = f"{_anchor(piece)} {text}"
        if piece.kind in ("scalar", "alias") or piece.flow:
            start = piece.start
            if piece.start < piece.end:
                text = text[1:]
        else:
            start = self._after_key(key) if key is not None else self._after_dash(piece)
        self._lift(self._comments(start, piece.end), start)
        self.put(start, piece.end, text)

    def put_block(self, entry: Entry, lines: list[str]) -> None:
        """Put whole lines in the place of the value of an entry, below its key."""
        written, piece = self.written, entry.value
        if not piece.flow:  # it stands below already, where its first key is
            behind = self._comment_behind(piece)
            start, end = (
                written.line_start(piece.start),
                piece.end if behind is None else behind.end,
            )
            self.put(start, end, written.line_break.join(lines))
            return
        head, end = self._after_key(entry.key), piece.end
        text = written.line_break.join(["", *lines])
        if (behind := self._comment_behind(piece)) is not None:
            text, end = f"  {self._of(behind)}{text}", behind.end
        self.put(head, end, text)

    def _one_line(self, piece: Piece, value: Any) -> str | None:
        """Write a value on one line, where it belongs on one."""
        if self.written.is_json:
            return json_text(value)
        quote = piece.style if piece.style in ('"', "'") else ""
        holds = isinstance(value, dict | list) and value
        if piece.in_flow or (piece.flow and holds):
            return flow_text(value, quote)
        if holds or (isinstance(value, str) and "\n" in value and not quote):
            return None
        return flow_text(value, quote) if quote else entry_lines("-", value)[0][2:]

    def remove(self, holder: Piece, entries: list[Entry]) -> None:
        """Take entries out of a map, of which something must stay."""
        places = sorted(holder.entries.index(entry) for entry in entries)
        runs: list[list[int]] = []
        for place in places:
            if runs and runs[-1][-1] == place - 1:
                runs[-1].append(place)
            else:
                runs.append([place])
        for run in runs:
            if holder.flow:
                self._remove_from_flow(holder, run)
            else:
                self._remove_lines(holder, run)

    def _remove_lines(self, holder: Piece, run: list[int]) -> None:
        written = self.written
        first = holder.entries[run[0]]
        start = written.line_start(first.key.start)
        if written.text[start : first.key.start].strip():  # on the line of a dash, which stays
            if run[-1] + 1 == len(holder.entries):
                raise LanguageError(_STANDS)
            self._cut(first.key.start, holder.entries[run[-1] + 1].key.start)
            return
        for place in run:
            entry = holder.entries[place]
            start = written.line_start(entry.key.start)
            end = written.line_end(max(entry.value.end, entry.key.end))
            indent = written.text[start : entry.key.start]
            comments = self._comments(entry.key.start, end)
            stop = written.text.find("\n", end) + 1 or len(written.text)
            lines = [f"{indent}{self._of(comment)}{written.line_break}" for comment in comments]
            self.put(start, stop, "".join(lines))

    def _remove_from_flow(self, holder: Piece, run: list[int]) -> None:
        entries = holder.entries
        start, end = entries[run[0]].key.start, entries[run[-1]].value.end
        if run[-1] + 1 < len(entries):
            end = entries[run[-1] + 1].key.start
        elif run[0]:
            start = entries[run[0] - 1].value.end
        self._cut(start, end)

    def _cut(self, start: int, end: int) -> None:
        """Take a part of the text out, its comments put above the line."""
        self._lift(self._comments(start, end), start)
        self.put(start, end, "")

    def insert(self, holder: Piece, name: str, value: Any, after: Entry | None = None) -> None:
        """Write a new entry into a map, behind another one or at the end."""
        after = after or (holder.entries[-1] if holder.entries else None)
        key = json_text(name) if self.written.is_json else key_text(name)
        if after is None or holder.flow:
            inline = json_text(value) if self.written.is_json else flow_text(value)
            if after is None:
                if not holder.flow:
                    raise LanguageError(_STANDS)
                self.put(holder.start, holder.end, f"{{{key}: {inline}}}")
            else:
                self._insert_in_flow(after, f"{key}: {inline}")
            return
        column = self._column(after)
        lines = entry_lines(f"{key}:", value)
        if isinstance(value, list | dict) and value:
            short = f"{key}: {flow_text(value)}"
            lines = [short] if column + len(short) <= MAX_LINE else lines
        at = self.written.line_end(max(after.value.end, after.key.end))
        self._put_below(at, [" " * column + line if line else "" for line in lines])

    def _insert_in_flow(self, after: Entry, text: str) -> None:
        start = self.written.line_start(after.key.start)
        indent = self.written.text[start : after.key.start]
        gap = " " if indent.strip() else f"{self.written.line_break}{indent}"
        at = max(after.value.end, after.key.end)
        self.put(at, at, f",{gap}{text}")

    def append(self, holder: Piece, value: Any) -> None:
        """Write a new item at the end of a list."""
        inline = json_text(value) if self.written.is_json else flow_text(value)
        if not holder.items:
            self.put(holder.start, holder.end, f"[{inline}]")
            return
        last = holder.items[-1]
        if holder.flow:
            start = self.written.line_start(last.start)
            indent = self.written.text[start : last.start]
            gap = " " if indent.strip() else f"{self.written.line_break}{indent}"
            self.put(last.end, last.end, f",{gap}{inline}")
            return
        dash = self._after_dash(last) - 1
        lines = entry_lines("-", value)
        at = self.written.line_end(last.end)
        self._put_below(
            at, [" " * self.written.column(dash) + line if line else "" for line in lines]
        )

    def _put_below(self, at: int, lines: list[str]) -> None:
        line_break = self.written.line_break
        self.put(at, at, line_break + line_break.join(lines))

    # -- places -----------------------------------------------------------------------

    def _column(self, entry: Entry) -> int:
        """Give the column of an entry, which begins with ``?`` where its key is a long one."""
        start = self.written.line_start(entry.key.start)
        before = self.written.text[start : entry.key.start].rstrip()
        return len(before) - 1 if before.endswith("?") else entry.key.start - start

    def _after_key(self, key: Piece) -> int:
        colon = _COLON.match(self.written.text, key.end)
        if colon is None:
            raise LanguageError(_STANDS)
        return colon.end()

    def _after_dash(self, piece: Piece) -> int:
        """Give the place behind the dash of an item that is written in a block."""
        text, at = self.written.text, piece.start
        while at and text[at - 1].isspace():
            at -= 1
        if text[at - 1 : at] != "-":
            raise LanguageError(_STANDS)
        return at

    # -- comments ---------------------------------------------------------------------

    def _of(self, comment: Comment) -> str:
        return self.written.text[comment.start : comment.end]

    def _comments(self, start: int, end: int) -> list[Comment]:
        return self.written.comments(start, end)

    def _comment_behind(self, piece: Piece) -> Comment | None:
        """Give the comment on the line on which a value ends."""
        found = self._comments(piece.end, self.written.line_end(piece.end))
        return found[0] if found else None

    def _lift(self, comments: list[Comment], offset: int) -> None:
        """Put comments above the line of an offset."""
        if comments:
            start = self.written.free_line(offset)
            line = self.written.text[start:offset]
            indent = line[: len(line) - len(line.lstrip())]
            lines = [f"{indent}{self._of(c)}{self.written.line_break}" for c in comments]
            self._lifted.append(Edit(start, start, "".join(lines)))


def _anchor(piece: Piece) -> str:
    """Give the anchor of a piece, which stays with what takes its place."""
    return "" if piece.anchor is None else f" &{piece.anchor}"


def change_inside(
    rewriting: Rewriting, entry: Entry, old: str, new: str, change: Callable[[str], str]
) -> None:
    """Change a text inside its quotes where it is written as it reads, else write it anew."""
    change_scalar(rewriting, entry.key, entry.value, old, new, change)


def change_scalar(
    rewriting: Rewriting,
    key: Piece | None,
    piece: Piece,
    old: str,
    new: str,
    change: Callable[[str], str],
) -> None:
    """Change a text as ``change_inside`` does; an item of a list has no key."""
    raw = rewriting.written.text[piece.body : piece.end]
    quote = piece.style if piece.style in ("'", '"') else ""
    inner = raw[len(quote) : len(raw) - len(quote)]
    found = change(inner)
    if piece.style in BLOCK_SCALARS or (
        _folded(inner) == old
        and _folded(found) == new
        and (quote or not piece.in_flow or _NOT_PLAIN.isdisjoint(found))
        and (not quote or (quote not in found and "\\" not in found))
    ):
        rewriting.put(piece.body, piece.end, f"{quote}{found}{quote}")
    else:
        rewriting.replace(key, piece, new)


def _folded(text: str) -> str:
    """Read a text that may go over several lines, without the escapes of quoted ones."""
    if "\n" not in text:
        return text
    first, *lines = text.split("\n")
    found = first.rstrip(" \t\r")
    gap = " "
    for line in lines:
        if word := line.strip(" \t\r"):
            found, gap = f"{found}{gap}{word}", " "
        else:
            gap = "\n" if gap == " " else f"{gap}\n"
    return found
