"""What the host gives a plan: its tools, those it allows, and who may receive its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planbench.plan.structure import Suggestions
from planbench.tools import is_allowed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.plan.model import PlanNode
    from planbench.tools import Tool, ToolRegistry


class Host:
    """Answers what the nodes of one plan may use; each tool is looked up once."""

    def __init__(
        self,
        registry: ToolRegistry | None,
        allowed_tools: Collection[str] | None,
        env: Mapping[str, Collection[str]] | None,
    ) -> None:
        self.registry = registry
        self.allowed_tools = allowed_tools
        self.env = env or {}
        self._tools: dict[str, Tool | None] = {}
        self._allowed: dict[str, bool] = {}
        names = [] if registry is None else registry.names()
        self.names = [name for name in names if self.allows(name)]
        self.near = Suggestions(self.names).near

    def tool(self, name: str) -> Tool | None:
        """Give the tool of that name; None without a registry too."""
        if name not in self._tools:
            self._tools[name] = None if self.registry is None else self.registry.get(name)
        return self._tools[name]

    def tool_of(self, node: PlanNode) -> Tool | None:
        """Give the tool that a node calls, where it is known."""
        return self.tool(node.tool) if node.tool and node.type == "tool" else None

    def allows(self, name: str) -> bool:
        """Whether the host lets a plan call the tool."""
        if name not in self._allowed:
            self._allowed[name] = is_allowed(name, self.allowed_tools)
        return self._allowed[name]

    def gives_secret(self, name: str, tool: str) -> bool:
        """Whether the tool may receive the secret."""
        return name in self.env and is_allowed(tool, self.env[name])
