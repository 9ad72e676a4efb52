"""The drawing of a panel: made once for a plan, painted by the browser from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planbench.errors import RenderError
from planbench.notebook.wire import rooms
from planbench.render.svg import draw

if TYPE_CHECKING:
    from planbench.render.view import GraphView


class Drawing(NamedTuple):
    """A drawing, or what to say in its place; ``rooms`` is the room for each counter.

    ``staged`` says that boxes stand for whole stages of the plan.
    """

    svg: str
    note: str = ""
    rooms: tuple[float, ...] = ()
    staged: bool = False


def draw_panel(view: GraphView) -> Drawing:
    """Draw a view for a panel; blocks, and gives a note where no drawing can be had."""
    try:
        svg = draw(view, interactive=True)
    except RenderError as error:
        return Drawing("", f"{error.message}. The nodes are in the table below.")
    if "data-stages" in svg[: svg.index(">")]:
        note = f"{len(view.nodes):,} nodes, drawn by their stages; the table below names the nodes."
        return Drawing(svg, note, staged=True)
    return Drawing(svg, rooms=rooms(view))
