"""The size of a node's card and the places of what stands on it, in points.

The same numbers make room in the layout and write the drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from planbench.render.lettering import shorten, text_width

if TYPE_CHECKING:
    from planbench.render.view import NodeView

TITLE_SIZE: Final = 10.0
LINE_SIZE: Final = 8.4
ICON_X: Final = 9.0
TEXT_X: Final = 27.0
RIGHT: Final = 10.0
STACK: Final = 8.0  # Graphviz sets the outlines of a stack 4 points apart
BAR_HEIGHT: Final = 2.4

_TOP: Final = 16.5
_STEP: Final = 11.5
_BOTTOM: Final = 8.5
_BAR_ROOM: Final = 5.0
_MAX_TEXT: Final = 170.0
_ROOM: Final = text_width("59 min 59 s · 999.9 MB", LINE_SIZE)
_ITEMS_ROOM: Final = text_width("1,000 / 1,000 · 59.9 s · 99 MB", LINE_SIZE)


class Card(NamedTuple):
    """What is written on a card, and its size without the stack behind a fan-out."""

    title: str
    lines: tuple[str, ...]
    width: float
    height: float
    has_bar: bool

    @property
    def counter_y(self) -> float:
        """The base line of the counter, the last line of text."""
        return self.line_y(len(self.lines))

    def line_y(self, number: int) -> float:
        """Give the base line of a line below the title."""
        return _TOP + _STEP * (number + 1)


def card(node: NodeView) -> Card:
    """Lay out the card of a node; depends on nothing that changes while it runs."""
    title = shorten(node.title or node.id, _MAX_TEXT, TITLE_SIZE, bold=True)
    lines = tuple(shorten(line, _MAX_TEXT, LINE_SIZE) for line in (node.tool, node.each) if line)
    has_bar = node.kind in {"fan_out", "stage"}
    content = max(
        text_width(title, TITLE_SIZE, bold=True),
        *(text_width(line, LINE_SIZE) for line in lines),
        _ITEMS_ROOM if has_bar else _ROOM,
    )
    height = _TOP + _STEP * (len(lines) + 1) + _BOTTOM + (_BAR_ROOM if has_bar else 0)
    return Card(title, lines, TEXT_X + round(content) + RIGHT, height, has_bar)


def stack_depth(node: NodeView) -> float:
    """Give how far the cards behind a node stand out to the right and below."""
    return STACK if node.kind in {"fan_out", "stage"} else 0.0
