"""A plan as a graph for other programs: networkx, Graphviz, Mermaid.

In texts for drawing the nodes are called ``n0``, ``n1``, ... in the order of the plan; what
a user wrote stands in labels only, and every sign that could mean something is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planbench.plan.edges import edges, guard_edges

if TYPE_CHECKING:
    from collections.abc import Iterator

    import graphviz
    import networkx as nx

    from planbench.plan.model import ExecutionPlan, PlanNode

_READING: Final = {"id", "args", "for_each", "instruction"}
_MAX_TEXT: Final = 120
_UNFIT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_PLAIN: Final = frozenset(" _-.,\N{MIDDLE DOT}")
_LIGATURE: Final = "\N{LATIN SMALL LIGATURE FL}"  # Mermaid marks codes with it, inside
_DIRECTION: Final = "direction "  # "direction LR" is a statement to it, also inside a label


def to_networkx(plan: ExecutionPlan) -> nx.DiGraph[str]:
    """Give the plan as a networkx DiGraph; nodes are the ids.

    Nodes have ``type`` and ``store_as``, and ``tool``, ``when``, ``description`` and
    ``for_each`` (the source) where they are there; an edge has ``kind``: data, order or
    guard. The graph has ``name`` and ``objective``.
    """
    import networkx as nx  # noqa: PLC0415 - loaded only for those who ask for it

    graph: nx.DiGraph[str] = nx.DiGraph(name=plan.name, objective=plan.objective)
    for node in plan.nodes:
        written = {
            "type": node.type,
            "tool": node.tool,
            "store_as": node.store_as,
            "when": node.when,
            "description": node.description,
            "for_each": node.for_each.source_node if node.for_each else None,
        }
        graph.add_node(node.id, **{k: v for k, v in written.items() if v is not None})
    for source, target, kind in plan_edges(plan):
        graph.add_edge(source, target, kind=kind)
    return graph


def to_graphviz(plan: ExecutionPlan) -> graphviz.Digraph:
    """Give the plan as a graph of the graphviz package; drawing it needs a ``dot`` program."""
    import graphviz as gv  # noqa: PLC0415 - loaded only for those who ask for it

    names = _synthetic(plan)
    graph = gv.Digraph(
        "plan",
        graph_attr={"label": _dot(plan.name), "labelloc": "t"},
        node_attr={"shape": "box", "style": "rounded"},
    )
    for node in plan.nodes:
        peripheries = "2" if node.for_each else "1"
        graph.node(names[node.id], r"\n".join(map(_dot, _label(node))), peripheries=peripheries)
    for source, target, kind in plan_edges(plan):
        style = "dashed" if kind == "guard" else "solid"
        graph.edge(names[source], names[target], style=style)
    return graph


def to_mermaid(plan: ExecutionPlan) -> str:
    """Give the plan as a Mermaid flowchart, as Markdown shows it."""
    names = _synthetic(plan)
    lines = ["flowchart TD"]
    for node in plan.nodes:
        opening, closing = ("[[", "]]") if node.for_each else ("[", "]")
        if node.type == "delegate":
            opening, closing = "{{", "}}"
        label = mermaid_text(" \N{MIDDLE DOT} ".join(_label(node)))
        lines.append(f'  {names[node.id]}{opening}"{label}"{closing}')
    for source, target, kind in plan_edges(plan):
        arrow = "-.->" if kind == "guard" else "-->"
        lines.append(f"  {names[source]} {arrow} {names[target]}")
    return "\n".join([*lines, ""])


def mermaid_text(text: str, limit: int = _MAX_TEXT) -> str:
    """Write a text for a quoted Mermaid label: all but letters, digits and a few signs as codes.

    So it can hold no quote, entity, directive, markup or link. It is cut to ``limit`` signs.
    """
    text = _clean(text, limit).replace(_LIGATURE, "fl")
    start = len(text) - len(text.lstrip("0123456789-. "))  # what Markdown takes for a list
    written = "".join(
        sign if sign.isdigit() or (place >= start and _is_plain(sign)) else f"#{ord(sign)};"
        for place, sign in enumerate(text)
    )
    return written.replace(_DIRECTION, f"{_DIRECTION.strip()}#32;")


def _is_plain(sign: str) -> bool:
    return sign.isalnum() or sign in _PLAIN


def plan_edges(plan: ExecutionPlan) -> Iterator[tuple[str, str, str]]:
    """Give each edge with its kind: the target reads the source, its guard does, or it only waits."""
    for node in plan.nodes:
        if not node.depends_on:
            continue
        kinds = dict.fromkeys(guard_edges(node.when) if node.when else (), "guard")
        kinds |= dict.fromkeys(
            edges(node.model_dump(include=_READING, by_alias=True, warnings=False)), "data"
        )
        for need in dict.fromkeys(node.depends_on):
            yield need, node.id, kinds.get(need, "order")


def _synthetic(plan: ExecutionPlan) -> dict[str, str]:
    return {node.id: f"n{place}" for place, node in enumerate(plan.nodes)}


def _label(node: PlanNode) -> list[str]:
    called = node.tool or "delegate"
    if node.for_each is not None:
        called = f"{called}, for each of {node.for_each.source_node}"
    return [node.id, called]


def _clean(text: str, limit: int = _MAX_TEXT) -> str:
    """Put a text on one line, cut to a length; what is no text is replaced."""
    line = _UNFIT.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"


def _dot(text: str) -> str:
    """Write a text for a Graphviz label: no HTML, escape or entity in it."""
    import graphviz as gv  # noqa: PLC0415 - as in to_graphviz

    written: str = gv.escape(_clean(text).replace("&", "&amp;"))
    return written
