"""When each node was at work: one bar a node over the time of the run, in plain HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from planbench.render.figures import duration
from planbench.render.markup import Html, css_name, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

TICKS: Final = 6
NARROWEST: Final = 0.25
_STEPS: Final = (1.0, 2.0, 5.0, 10.0)
_MINUTE: Final = 60.0
_CLOCK: Final = tuple(
    _MINUTE * minutes for minutes in (1, 2, 5, 10, 20, 30, 60, 120, 360, 720, 1440)
)
_ROOM: Final = 22.0
"""Percent of the width that the text beside a bar takes."""


class Lane(NamedTuple):
    """One node: ``number`` is its place in the plan, times are seconds since the run began.

    ``start`` is None for a node that was never at work here; ``told`` says what it did.
    """

    number: int
    name: str
    status: str
    start: float | None
    end: float | None
    told: str = ""


def timeline(lanes: Sequence[Lane], seconds: float) -> Html:
    """Give the lanes over ``seconds``, with a scale above them."""
    whole = max([seconds, *(lane.end or 0.0 for lane in lanes)]) or 1.0
    head = tag(
        "div",
        tag("span", "", class_="who"),
        tag("span", *_scale(whole), class_="track scale", aria_hidden="true"),
        class_="lane",
    )
    return tag("div", head, *(_lane(lane, whole) for lane in lanes), class_="timeline", role="list")


def _lane(lane: Lane, whole: float) -> Html:
    name = tag("a", lane.name, href=f"#d{lane.number}", class_="who", title=lane.name)
    if lane.start is None or lane.end is None:
        track = tag("span", tag("span", lane.told or lane.status, class_="told"), class_="track")
        return tag("div", name, track, class_="lane", role="listitem")
    left = 100 * lane.start / whole
    width = max(NARROWEST, 100 * (lane.end - lane.start) / whole)
    left = min(left, 100 - width)
    bar = tag(
        "span",
        "",
        class_=f"bar {css_name(lane.status)}",
        style=f"left:{left:.2f}%;width:{width:.2f}%",
    )
    if left + width <= 100 - _ROOM:
        place, side = f"left:{left + width:.2f}%;right:0", "told"
    elif left >= _ROOM:
        place, side = f"left:0;right:{100 - left:.2f}%", "told before"
    else:
        place, side = f"left:{left:.2f}%;right:0", "told inside"
    told = tag("span", lane.told, class_=side, style=place)
    return tag("div", name, tag("span", bar, told, class_="track"), class_="lane", role="listitem")


def _scale(whole: float) -> list[Html]:
    step = _step(whole)
    count = int(whole / step)
    return [
        tag(
            "span",
            duration(step * place) if place else "0",
            style=f"left:{100 * step * place / whole:.2f}%",
        )
        for place in range(count + 1)
        if place == 0 or step * place < 0.94 * whole  # the last would stand beyond the edge
    ]


def _step(whole: float) -> float:
    """Give a round step of which about ``TICKS`` fit: decimal, but for minutes and hours."""
    rough = whole / TICKS
    if _MINUTE / 2 < rough <= _CLOCK[-1]:
        return next(step for step in _CLOCK if step >= rough)
    unit = _CLOCK[-1] if rough > _CLOCK[-1] else 1.0
    size = unit * 10.0 ** _exponent(rough / unit)
    return next(size * one for one in _STEPS if size * one >= rough)


def _exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])
