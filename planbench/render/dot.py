"""The graph in the DOT language.

Nodes are called ``n0``, ``n1``, ... in the order of the plan, so no text of a user is
ever a name, a port or markup: it stands in quoted labels only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planbench.plan.graph import levels
from planbench.render.cards import card, stack_depth
from planbench.render.lettering import clean
from planbench.render.stages import collapsed
from planbench.render.theme import LINE
from planbench.render.view import GUARD

if TYPE_CHECKING:
    from planbench.render.view import GraphView

PAGE_WIDTH: Final = 760.0
NODE_GAP: Final = 17.0
RANK_GAP: Final = 34.0
_POINTS: Final = 72
_STRAIGHT: Final = 200
_HURRIED: Final = 500
_NODE: Final[dict[str, str | float]] = {
    "shape": "box",
    "style": '"rounded,filled"',
    "fillcolor": '"#ffffff"',
    "color": f'"{LINE}"',
    "fontcolor": '"#1f2733"',
    "fontname": "Helvetica",
    "fontsize": 9,
    "margin": '"0.1,0.04"',
}
_EDGE: Final[dict[str, str | float]] = {"color": f'"{LINE}"', "arrowsize": 0.55}


def dot_source(view: GraphView) -> str:
    """Write a graph for Graphviz: the structure and its labels, whatever the state.

    Above 200 nodes edges are straight, above 500 Graphviz is told to hurry, above
    1,000 the graph is that of its stages.
    """
    view = collapsed(view)
    cards = [card(node) for node in view.nodes]
    sizes = [
        (plain.width + stack_depth(node), plain.height)
        for plain, node in zip(cards, view.nodes, strict=True)
    ]
    sideways = _is_sideways(view, sizes)
    tail, head = ("e", "w") if sideways else ("s", "n")
    graph = _graph_attributes(len(view.nodes), sideways=sideways)
    lines = [
        f"digraph {quote(view.name)} {{",
        f"  graph [{_attributes(graph)}]",
        f"  node [{_attributes(_NODE)}]",
        f"  edge [{_attributes(_EDGE)}]",
    ]
    for place, node in enumerate(view.nodes):
        text = "".join(f"{escape(line)}\\l" for line in (cards[place].title, *cards[place].lines))
        lines.append(
            f'  n{place} [id="n{place}", label="{text}", width={cards[place].width / _POINTS:.3f}, '
            f"height={cards[place].height / _POINTS:.3f}{', peripheries=2' if stack_depth(node) else ''}]"
        )
    for place, edge in enumerate(view.edges):
        look = "style=dashed, weight=1" if edge.kind.endswith(GUARD) else "weight=3"
        lines.append(f'  n{edge.source}:{tail} -> n{edge.target}:{head} [id="e{place}", {look}]')
    return "\n".join([*lines, "}", ""])


def quote(text: str) -> str:
    """Write a text as a quoted DOT string that stands for itself."""
    return f'"{escape(text)}"'


def escape(text: str) -> str:
    """Write a text for the inside of a quoted label: no escapes, entities or line ends in it."""
    return clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")


def _graph_attributes(nodes: int, *, sideways: bool) -> dict[str, str | float]:
    attributes: dict[str, str | float] = {
        "rankdir": "LR" if sideways else "TB",
        "nodesep": round(NODE_GAP / _POINTS, 3),
        "ranksep": round(RANK_GAP / _POINTS, 3),
        "pad": 0.12,
        "bgcolor": "transparent",
    }
    if nodes > _STRAIGHT:
        attributes["splines"] = "line"
    if nodes > _HURRIED:
        attributes |= {"nslimit": 0.5, "nslimit1": 2, "mclimit": 0.1}
    return attributes


def _attributes(values: dict[str, str | float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _is_sideways(view: GraphView, sizes: list[tuple[float, float]]) -> bool:
    """Whether it runs from left to right: where that fits the page, or fits it better."""
    names = {str(place): list(map(str, sources)) for place, sources in view.needs().items()}
    rows = [[sizes[int(name)] for name in row] for row in levels(names)]
    across = sum(max(width for width, _ in row) + RANK_GAP for row in rows if row)
    upright = max((sum(width + NODE_GAP for width, _ in row) for row in rows), default=0.0)
    return across <= PAGE_WIDTH or across <= upright
