"""Where things stand in a drawing: boxes, arrows and the size of the paper.

Read from what Graphviz wrote, or from a drawing of ours. Nothing but numbers is taken
over, so no drawing can bring anything along.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree import ElementTree as ET

from planbench.errors import RenderError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SVG_NAMESPACE: Final = "http://www.w3.org/2000/svg"
MAX_CHARACTERS: Final = 64_000_000

_PROLOG: Final = re.compile(r'<!DOCTYPE svg PUBLIC "[^"<>\[\]]*"\s*"[^"<>\[\]]*"\s*>')
_DECLARATION: Final = re.compile(r"<!(?!--)|<\?(?!xml\s)")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_PAIR: Final = re.compile(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)[,\s]+(-?\d+(?:\.\d+)?(?:e-?\d+)?)")
_CURVE: Final = re.compile(r"[MCLZz\d\s,.e\-]*")
_COMMAND: Final = re.compile(r"([MCL])([^MCLZz]*)")
_TRANSLATE: Final = re.compile(r"translate\(\s*(-?[\d.]+)[,\s]+(-?[\d.]+)\s*\)")
_NAME: Final = re.compile(r"([nse])(\d{1,9})")


class Box(NamedTuple):
    """The room of one node, with the cards behind it."""

    x: float
    y: float
    width: float
    height: float


class Arrow(NamedTuple):
    """The line of one edge and the points of its head, as commands with their points."""

    line: list[tuple[str, list[tuple[float, float]]]]
    head: list[tuple[float, float]]


class Geometry(NamedTuple):
    """The places of everything; boxes and arrows by their number. ``of_stages`` as drawn."""

    width: float
    height: float
    boxes: dict[int, Box]
    arrows: dict[int, Arrow]
    of_stages: bool


def parse(svg: str) -> Element:
    """Read an SVG; raises RenderError for one that is none, or that declares anything.

    Graphviz's own DOCTYPE is dropped; any other, and every entity, is refused before
    a parser sees it.
    """
    if len(svg) > MAX_CHARACTERS:
        raise RenderError(f"the drawing has {len(svg):,} characters, more than can be shown")
    text = _PROLOG.sub("", svg, count=1)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    if _DECLARATION.search(text):
        raise RenderError("the drawing declares a document type, an entity or an instruction")
    try:
        root = ET.fromstring(text.encode("utf-8", "replace"))  # noqa: S314 - no declaration is left that could expand
    except (ET.ParseError, ValueError) as error:
        raise RenderError(f"the drawing is no SVG: {error}") from error
    if local_name(root) != "svg":
        raise RenderError(f"the drawing is no SVG but <{local_name(root)[:40]}>")
    return root


def local_name(element: Element) -> str:
    """Give the name of an SVG element; of one in another namespace, an empty text."""
    namespace, _, name = element.tag.rpartition("}")
    return name if namespace in {"", "{" + SVG_NAMESPACE} else ""


def read_geometry(svg: str) -> Geometry:
    """Read the places from a drawing; raises RenderError when it holds none."""
    root = parse(svg)
    size = [float(number) for number in _NUMBER.findall(root.get("viewBox", ""))]
    if len(size) != 4:  # noqa: PLR2004 - a view box is x, y, width and height
        raise RenderError("the drawing has no size")
    found = Geometry(size[2], size[3], {}, {}, of_stages=root.get("data-stages") is not None)
    if "pb-drawing" in root.get("class", ""):
        _read_own(root, found)
    else:
        _read_graphviz(root, found, (size[0], size[1]))
    if not found.boxes:
        raise RenderError("the drawing shows no node of a plan")
    return found


def _read_graphviz(root: Element, found: Geometry, corner: tuple[float, float]) -> None:
    shift = (-corner[0], -corner[1])
    for group in root.iter():
        kind = group.get("class", "").split(" ", 1)[0]
        if kind == "graph" and (moved := _TRANSLATE.search(group.get("transform", ""))):
            shift = (float(moved[1]) - corner[0], float(moved[2]) - corner[1])
        elif kind == "node" and (number := _numbered(group.get("id"), "n")) is not None:
            if (box := _hull(group, shift)) is not None:
                found.boxes[number] = box
        elif kind == "edge" and (number := _numbered(group.get("id"), "e")) is not None:
            found.arrows[number] = _arrow(group, shift)


def _read_own(root: Element, found: Geometry) -> None:
    for group in root:
        kind = group.get("class", "")
        if kind in {"pbn-lines", "pbn-heads"}:
            for shape in group:
                _take_own_arrow(shape, found.arrows, is_line=kind == "pbn-lines")
        elif (own := _own_box(group)) is not None:
            found.boxes[own[0]] = own[1]


def _numbered(name: str | None, letter: str) -> int | None:
    found = _NAME.fullmatch(name or "")
    return int(found[2]) if found and found[1] == letter else None


def _points(text: str, shift: tuple[float, float] = (0.0, 0.0)) -> list[tuple[float, float]]:
    return [(float(x) + shift[0], float(y) + shift[1]) for x, y in _PAIR.findall(text)]


def _hull(group: Element, shift: tuple[float, float]) -> Box | None:
    points = [
        point
        for shape in group.iter()
        if local_name(shape) in {"polygon", "path"}
        for point in _points(shape.get("points", "") + " " + shape.get("d", ""), shift)
    ]
    if not points:
        return None
    left, top = min(x for x, _ in points), min(y for _, y in points)
    return Box(left, top, max(x for x, _ in points) - left, max(y for _, y in points) - top)


def _arrow(group: Element, shift: tuple[float, float]) -> Arrow:
    arrow = Arrow([], [])
    for shape in group.iter():
        if local_name(shape) == "path":
            arrow.line.extend(_commands(shape.get("d", ""), shift))
        elif local_name(shape) == "polygon":
            arrow.head.extend(_points(shape.get("points", ""), shift))
    return arrow


def _commands(
    text: str, shift: tuple[float, float] = (0.0, 0.0)
) -> list[tuple[str, list[tuple[float, float]]]]:
    if not _CURVE.fullmatch(text):
        return []
    return [(command, _points(rest, shift)) for command, rest in _COMMAND.findall(text)]


def _own_box(group: Element) -> tuple[int, Box] | None:
    name, place = group.get("data-node") or group.get("data-stage"), group.get("data-box", "")
    number = _numbered(name, "n") if group.get("data-node") else _numbered(name, "s")
    numbers = [float(part) for part in _NUMBER.findall(place)]
    return (
        (number, Box(*numbers)) if number is not None and len(numbers) == len(Box._fields) else None
    )


def _take_own_arrow(shape: Element, arrows: dict[int, Arrow], *, is_line: bool) -> None:
    number = _numbered(shape.get("data-edge"), "e")
    if number is None:
        return
    arrow = arrows.setdefault(number, Arrow([], []))
    if is_line:
        arrow.line.extend(_commands(shape.get("d", "")))
    else:
        arrow.head.extend(_points(shape.get("d", "")))
