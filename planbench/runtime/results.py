"""What the results of a run say about its tools: their shapes, and a return that was forgotten."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from planbench.memory.entries import Entry
from planbench.plan.shapes import lacks_return

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.runtime.compiled import CompiledNode, CompiledPlan
    from planbench.runtime.run import Run
    from planbench.tools import ToolRegistry

OBSERVED: Final = 500
"""Nodes of one run whose results are looked at: it is done on the loop."""
OF_A_TOOL: Final = 16
"""Results of one tool that are looked at in one run: the rest hardly ever tells more."""


def observe_results(run: Run, compiled: CompiledPlan, registry: ToolRegistry) -> None:
    """Note the names and types of what each tool gave, so that the next check knows them."""
    looked_at: dict[str, int] = {}
    for node_id, body in itertools.islice(run.bodies.items(), OBSERVED):
        node = compiled.nodes.get(node_id)
        if node is not None:
            looked_at[node.tool_name] = count = looked_at.get(node.tool_name, 0) + 1
            if count > OF_A_TOOL:
                continue
        entry = next((e for e in body if e is not None), None) if isinstance(body, list) else body
        if node is None or node.delegate is not None or entry is None or entry.spilled:
            continue
        registry.observe(node.tool, entry.value)


def forgotten(
    node: CompiledNode,
    nodes: Mapping[str, CompiledNode],
    bodies: Mapping[str, Entry | list[Entry | None]],
    reads: Iterable[str],
) -> str:
    """Name the tools of the nodes read here that gave None; empty where none did."""
    said = []
    for read in reads:
        body = bodies.get(read)
        if isinstance(body, Entry) and not body.spilled and body.value is None and read != node.id:
            said.append(lacks_return(nodes[read].tool_name, read))
    return "".join(f"; {text}" for text in said)
