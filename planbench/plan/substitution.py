"""Parameters put into texts: what a value holds is never read as a placeholder later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PlaceholderError
from planbench.plan.placeholders import MAX_DEPTH, as_text, bare, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PARAMETER: Final = re.compile(r"\{params\.[A-Za-z_][A-Za-z0-9_]*\}")


def substitute(value: Any, params: Mapping[str, Any], alias: str | None = None) -> Any:
    """Put parameters into a value; what a parameter holds never becomes a placeholder.

    Raises PlaceholderError on a value nested deeper than 100 levels.
    """
    return _substitute(value, params, alias, 0)


def _substitute(value: Any, params: Mapping[str, Any], alias: str | None, depth: int) -> Any:
    if isinstance(value, str):
        return _substitute_text(value, params, alias)
    if depth > MAX_DEPTH:
        msg = f"nested deeper than {MAX_DEPTH} levels"
        raise PlaceholderError(msg)
    if isinstance(value, dict):
        return {k: _substitute(v, params, alias, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_substitute(v, params, alias, depth + 1) for v in value]
    return value


def fill(text: str, params: Mapping[str, Any]) -> Any:
    """Put parameters into a text that is no template, as a name: only what reads a parameter is escaped."""
    return _filled_text(text, params, None, _PARAMETER)


def _substitute_text(text: str, params: Mapping[str, Any], alias: str | None) -> Any:
    return _filled_text(text, params, alias, bare(alias))


def _filled_text(
    text: str, params: Mapping[str, Any], alias: str | None, read: re.Pattern[str]
) -> Any:
    """Put parameters into a text; what is ``read`` in them is escaped."""
    if "{params." not in text:
        return text
    pieces = _pieces(text, params, alias)
    if len(pieces) == 1 and not pieces[0][0]:
        return _escaped(pieces[0][1], read, 0)
    joined = [(is_written, p if is_written else as_text(p)) for is_written, p in pieces]
    return joined_text(joined, read, lambda found: "{" + found + "}")


def _pieces(text: str, params: Mapping[str, Any], alias: str | None) -> list[tuple[bool, Any]]:
    """Split a text into what is written and the parameters that have a value."""
    pieces: list[tuple[bool, Any]] = []
    end = 0
    for match in pattern(alias).finditer(text):
        if match.lastgroup == "params" and match["params"] in params:
            if match.start() > end:
                pieces.append((True, text[end : match.start()]))
            pieces.append((False, params[match["params"]]))
            end = match.end()
    if end < len(text):
        pieces.append((True, text[end:]))
    return pieces


def joined_text(
    pieces: list[tuple[bool, str]], read: re.Pattern[str], escaped: Callable[[str], str]
) -> str:
    """Join written and given text; what is ``read`` only since it was joined is escaped."""
    joined = "".join(text for _, text in pieces)
    if "{" not in joined:
        return joined
    written: list[tuple[int, int]] = []
    at = 0
    for is_written, text in pieces:
        if is_written:
            written.append((at, at + len(text)))
        at += len(text)

    def keep(match: re.Match[str]) -> str:
        first, last = match.span()
        if any(start <= first and last <= stop for start, stop in written):
            return match.group()
        return escaped(match.group())

    return read.sub(keep, joined)


def _escaped(value: Any, read: re.Pattern[str], depth: int) -> Any:
    if isinstance(value, str):
        return read.sub(lambda match: "{" + match.group() + "}", value) if "{" in value else value
    if depth > MAX_DEPTH:
        msg = f"nested deeper than {MAX_DEPTH} levels"
        raise PlaceholderError(msg)
    if isinstance(value, dict):
        return {key: _escaped(item, read, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item, read, depth + 1) for item in value]
    return value
