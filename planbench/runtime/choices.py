"""What the delegates of a plan may choose from: their own list, within what the host allows."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from planbench.errors import RunRefused
from planbench.tools import Tool, is_allowed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.tools import ToolRegistry

Choices = dict[str, tuple[Tool, ...]]


def choices_of(
    plan: ExecutionPlan, registry: ToolRegistry, allowed_tools: Collection[str] | None
) -> Choices:
    """Give the tools of each delegate by its id; without a list all that the host allows."""
    delegates = [node for node in plan.nodes if node.type == "delegate"]
    if not delegates:
        return {}
    known = [tool for tool in registry.list_tools() if is_allowed(tool.name, allowed_tools)]
    return {
        node.id: tuple(tool for tool in known if is_allowed(tool.name, node.tools))
        for node in delegates
    }


def check_choices(plan: ExecutionPlan, choices: Mapping[str, tuple[Tool, ...]]) -> None:
    """Raise RunRefused for a delegate that cannot choose, or has an argument that nothing takes."""
    for node in plan.nodes:
        if node.id not in choices:
            continue
        tools = choices[node.id]
        if not tools:
            raise RunRefused(
                "delegate_without_tools",
                f"node {node.id!r} is a delegate, and there is no tool that it may choose",
                node_id=node.id,
                hint="name tools that are registered and allowed under its 'tools'",
            )
        for name in node.args:
            if not any(takes(tool, name) for tool in tools):
                raise RunRefused(
                    "delegate_unknown_args",
                    f"node {node.id!r} sets the argument {name!r}, which none of its tools takes",
                    node_id=node.id,
                    hint=f"its tools: {', '.join(tool.name for tool in tools[:10])}",
                )


def check_spread(node: PlanNode) -> None:
    """Raise RunRefused for a delegate over many items: it makes one call."""
    if node.type == "delegate" and node.for_each is not None:
        raise RunRefused(
            "delegate_for_each",
            f"node {node.id!r} is a delegate with for_each, and a delegate makes one call",
            node_id=node.id,
            hint="let the delegate choose once, and a node with for_each call a tool for each item",
        )


def takes(tool: Tool, argument: str) -> bool:
    """Whether a tool has an argument of that name, or takes any."""
    further = tool.parameters.get("additionalProperties", False)
    return argument in tool.parameters.get("properties", {}) or bool(further)


@functools.cache
def undecided() -> Tool:
    """Give what stands for the tool of a delegate until one is chosen; it is never called."""
    return Tool.from_function(_undecided, name="delegate")


async def _undecided() -> Any:
    raise RuntimeError("a delegate was run without its model")
