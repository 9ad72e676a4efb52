"""Text in a drawing: made harmless, measured and cut to fit.

There is no font to ask where a drawing is made, so widths are estimated with those of
Helvetica, on the wide side.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_UNFIT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_NARROW: Final = frozenset(" ijlftI|!.,:;'`/\\[]\N{MIDDLE DOT}")
_SLIM: Final = frozenset('r(){}-"*')
_WIDE: Final = frozenset("mMwW@%\N{HORIZONTAL ELLIPSIS}")
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
_BOLD: Final = 1.08


def clean(text: str) -> str:
    """Put everything on one line; what is no text, or turns the line round, is replaced."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text, in the unit of ``size``."""
    width = sum(map(_advance, text)) * size
    return width * _BOLD if bold else width


def _advance(character: str) -> float:
    if character in _NARROW:
        return 0.285
    if character in _SLIM:
        return 0.38
    if character in _WIDE:
        return 0.92
    if character.isascii():
        return 0.72 if character.isupper() else 0.565
    if unicodedata.combining(character):
        return 0
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.65


def shorten(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Cut a text to a width; the end of a name tells as much as its start, so the middle goes."""
    text = clean(text[:2000])
    if text_width(text, size, bold=bold) <= width:
        return text
    room = width - text_width(_ELLIPSIS, size, bold=bold)
    head = _fitting(text, room * 0.62, size, bold=bold)
    tail = _fitting(text[::-1], room - text_width(head, size, bold=bold), size, bold=bold)[::-1]
    return f"{head.rstrip()}{_ELLIPSIS}{tail.lstrip()}"


def shorten_end(text: str, width: float, size: float) -> str:
    """Cut a sentence to a width, from its end."""
    text = clean(text[:2000])
    if text_width(text, size) <= width:
        return text
    return (
        _fitting(text, width - text_width(_ELLIPSIS, size), size, bold=False).rstrip() + _ELLIPSIS
    )


def _fitting(text: str, width: float, size: float, *, bold: bool) -> str:
    used = 0.0
    for place, character in enumerate(text):
        used += text_width(character, size, bold=bold)
        if used > width:
            return text[:place]
    return text
