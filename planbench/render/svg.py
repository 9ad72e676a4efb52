"""A plan as an SVG: laid out once, painted as often as its state changes."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from planbench.errors import RenderError
from planbench.render.dot import dot_source
from planbench.render.drawing import compose
from planbench.render.geometry import SVG_NAMESPACE, local_name, parse, read_geometry
from planbench.render.layout import TIMEOUT, layout, layout_async
from planbench.render.stages import MAX_STAGES, by_stage, collapsed
from planbench.render.text import as_text
from planbench.render.theme import STYLE

if TYPE_CHECKING:
    from planbench.render.view import GraphView

__all__ = ["as_text", "draw", "draw_async", "paint", "sanitize"]

_MAX_DEPTH: Final = 60
_NUMBERS: Final = r"[-+0-9.eE,\s]*"
_LENGTH: Final = r"[-+]?[0-9.]{1,20}(?:pt|px|%)?"
_WORDS: Final = r"[\w \-]*"
_COLOR: Final = r"#[0-9a-fA-F]{3,8}|[a-zA-Z]{1,30}"
_ATTRIBUTES: Final = {
    name: re.compile(pattern)
    for names, pattern in (
        ("d", r"[MmLlHhVvCcSsQqTtAaZz0-9eE+\-.,\s]*"),
        ("points viewBox stroke-dasharray", _NUMBERS),
        ("transform", r"(?:\s*(?:translate|scale|rotate|matrix)\([-+0-9.eE,\s]*\))*\s*"),
        ("x y x1 y1 x2 y2 cx cy r rx ry width height dx dy font-size stroke-width", _LENGTH),
        ("opacity fill-opacity stroke-opacity", r"[0-9.]{1,10}"),
        ("fill stroke", _COLOR),
        ("class role text-anchor font-weight font-style fill-rule stroke-linecap", _WORDS),
        ("font-family", r"[\w ,\-]*"),
        ("id data-node data-stage data-edge", r"[a-z]{1,10}[0-9]{1,9}"),
        ("data-stages data-full tabindex", r"-?[0-9.]{1,10}"),
        ("data-box", _NUMBERS),
        ("aria-label", r"(?s:.*)"),
    )
    for name in names.split()
}
_TEXTS: Final = frozenset({"text", "tspan", "title"})
_ELEMENTS: Final = frozenset(
    {"svg", "g", "path", "polygon", "polyline", "rect", "circle", "ellipse", "line", *_TEXTS}
)


def sanitize(svg: str) -> str:
    """Keep what a drawing needs, and nothing else: known elements and attributes, plain values.

    No script, link, style of others, image or reference is left. Raises RenderError
    for what is no SVG or declares a document type of its own.
    """
    root = parse(svg)
    kept = _cleaned(root, "svg")
    kept.set("xmlns", SVG_NAMESPACE)
    stack = [(root, kept, 0)]
    while stack:
        source, target, depth = stack.pop()
        if depth > _MAX_DEPTH:
            raise RenderError(f"the drawing is nested deeper than {_MAX_DEPTH} levels")
        for child in source:
            name = local_name(child)
            if name == "style" and child.text == STYLE:
                ET.SubElement(target, "style").text = STYLE
            elif name in _ELEMENTS:
                copy = _cleaned(child, name)
                target.append(copy)
                stack.append((child, copy, depth + 1))
    return ET.tostring(kept, encoding="unicode")


def _cleaned(element: Element, name: str) -> Element:
    copy = Element(name)
    for attribute, value in element.attrib.items():
        allowed = _ATTRIBUTES.get(attribute)
        if allowed is not None and allowed.fullmatch(value):
            copy.set(attribute, value)
    if name in _TEXTS:
        copy.text, copy.tail = element.text, element.tail if name == "tspan" else None
    return copy


def paint(svg: str, view: GraphView, *, interactive: bool = False) -> str:
    """Draw a view at the places of a drawing, which may be Graphviz's or an earlier one of ours.

    No layout is made. Raises RenderError when the drawing shows no plan.
    """
    geometry = read_geometry(svg)
    shown = by_stage(view) if geometry.of_stages and not view.stands_for else collapsed(view)
    return compose(geometry, shown, interactive=interactive)


def draw(view: GraphView, *, timeout: float = TIMEOUT, interactive: bool = False) -> str:
    """Lay a view out and draw it; blocks. Raises RenderError when no engine gives a layout.

    A graph whose layout takes too long is drawn by its stages.
    """
    shown = collapsed(view)
    try:
        svg = layout(dot_source(shown), timeout=timeout)
    except RenderError:
        if shown.stands_for or len(shown.nodes) <= MAX_STAGES:
            raise
        shown = by_stage(view)
        svg = layout(dot_source(shown), timeout=timeout)
    return compose(read_geometry(svg), shown, interactive=interactive)


async def draw_async(
    view: GraphView,
    *,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - the process is killed, not the wait
    interactive: bool = False,
) -> str:
    """Draw as ``draw`` does without holding the loop; cancelling kills the layout."""
    shown = collapsed(view)
    try:
        svg = await layout_async(dot_source(shown), timeout=timeout)
    except RenderError:
        if shown.stands_for or len(shown.nodes) <= MAX_STAGES:
            raise
        shown = by_stage(view)
        svg = await layout_async(dot_source(shown), timeout=timeout)
    return await asyncio.to_thread(paint, svg, shown, interactive=interactive)
