"""The facets of a node written flat or under their kinds, each line with its comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.rewriting import MAX_LINE
from planbench.plan.sugar import FACET_MAPS, LIMIT
from planbench.plan.writer import entry_lines, flow_text, key_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.rewriting import Rewriting
    from planbench.plan.written import Comment, Entry, Piece, Written

_INDENT: Final = 2


class _Comments(NamedTuple):
    """The comments and blank lines above a facet, and the comment behind it, spaces included."""

    above: list[str]
    behind: str


def flatten(rewriting: Rewriting, entry: Entry, facets: dict[str, Any]) -> None:
    """Write the facets flat, in the order in which they stand."""
    _write(rewriting, entry, facets, [(None, list(facets))])


def spread(rewriting: Rewriting, entry: Entry, facets: dict[str, Any]) -> None:
    """Write the facets under their kinds."""
    groups = [(kind, list(facets[kind])) for kind in FACET_MAPS if kind in facets]
    _write(rewriting, entry, facets, [*groups, *([(None, [LIMIT])] if LIMIT in facets else [])])


def _write(
    rewriting: Rewriting,
    entry: Entry,
    facets: dict[str, Any],
    groups: list[tuple[str | None, list[str]]],
) -> None:
    piece, written = entry.value, rewriting.written
    line = flow_text(facets)
    fits = written.column(piece.start) + len(line) <= MAX_LINE
    if piece.in_flow or (piece.flow and fits and not written.comments(piece.start, piece.end)):
        rewriting.replace_by_text(entry.key, piece, line)
        return
    found, rest = _comments(rewriting, piece)
    column = written.column(entry.key.start) + _INDENT
    if not piece.flow:
        column = written.column(piece.start)
    lines: list[str] = []
    for kind, names in groups:
        step = _INDENT if kind else 0
        if kind:
            lines.append(" " * column + f"{kind}:")
        for name in names:
            one = found[name]
            value = facets[kind][name] if kind else facets[name]
            text = entry_lines(f"{key_text(name)}:", value)[0]
            shown = [*one.above, f"{text}{one.behind}"]
            lines += [" " * (column + step) + part if part else "" for part in shown]
    lines += [" " * column + comment for comment in rest]
    rewriting.put_block(entry, lines)


def _comments(rewriting: Rewriting, piece: Piece) -> tuple[dict[str, _Comments], list[str]]:
    """Give the comments of each facet, and those behind the last one."""
    written = rewriting.written
    text = written.text
    leaves = list(_leaves(piece))
    found: dict[str, _Comments] = {}
    at = piece.start
    for place, leaf in enumerate(leaves):
        start, end = leaf.value.start, leaf.value.end
        above = list(_between(written, at, start))
        stop = min(written.line_end(end), piece.end if piece.flow else len(text))
        if place + 1 < len(leaves):
            stop = max(end, min(stop, leaves[place + 1].key.start))
        behind = written.comments(end, stop)
        gap = text[end : behind[0].start] if behind else ""
        spaces = gap[len(gap.rstrip(" ")) :] or "  "
        found[leaf.key.text] = _Comments(above, spaces + _of(text, behind[0]) if behind else "")
        at = behind[0].end if behind else end
    stop = piece.end if piece.flow else written.line_end(piece.end)
    return found, [_of(text, one) for one in written.comments(at, stop)]


def _between(written: Written, start: int, end: int) -> Iterator[str]:
    """Give the comments in a part of the text, and nothing for each of its blank lines."""
    at = start
    while at < end:
        stop = min(written.line_end(at), end)
        if at > start and stop < end and not written.text[at:stop].strip():
            yield ""
        yield from (_of(written.text, one) for one in written.comments(at, stop))
        at = written.text.find("\n", stop, end) + 1 or end


def _leaves(piece: Piece) -> list[Entry]:
    leaves: list[Entry] = []
    for entry in piece.entries:
        if entry.key.text in FACET_MAPS and entry.value.kind == "map":
            leaves += entry.value.entries
        else:
            leaves.append(entry)
    return leaves


def _of(text: str, comment: Comment) -> str:
    return text[comment.start : comment.end].rstrip()
