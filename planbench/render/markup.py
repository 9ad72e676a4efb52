"""HTML made of elements and text: here, and nowhere else, text of others becomes part of a page."""

from __future__ import annotations

import html
import re
from typing import Final

MAX_TEXT: Final = 20_000
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | None) -> Html:
    """Make an element; what is no Html is escaped. An attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name == "meta":
        return Html(f"<meta{written}>")
    inner = "".join(part if isinstance(part, Html) else escaped(part) for part in content)
    return Html(f"<{name}{written}>{inner}</{name}>")


def escaped(text: str) -> str:
    """Escape a text, and cut one that is too long; what no document may hold is replaced."""
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n({len(text) - MAX_TEXT:,} more characters)"
    return html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def pill(status: str) -> Html:
    """Show a status in its colour."""
    return tag("span", status, class_=f"pill {css_name(status)}")


def css_name(status: str) -> str:
    """Give a status as the name of a class; nothing else gets through."""
    return re.sub(r"[^a-z]", "", status.lower())
