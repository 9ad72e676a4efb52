"""What the host gives a plan: its tools, those it allows, and who may receive its secrets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from planbench.errors import ConfigurationError, ToolError
from planbench.plan.source import shown
from planbench.plan.structure import Suggestions
from planbench.tools import ToolRegistry, is_allowed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planbench.plan.model import PlanNode
    from planbench.tools import Tool


def registry_of(tools: Any) -> ToolRegistry:
    """Give a registry as it is, or one of the functions and tools of a list.

    Raises ConfigurationError for what gives no tools.
    """
    if isinstance(tools, ToolRegistry):
        return tools
    try:
        return ToolRegistry(tools)
    except ToolError as error:
        raise ConfigurationError(
            f"registry holds what is no tool: {error.message}", hint=error.hint
        ) from error


def patterns_of(allowed_tools: Any) -> Collection[str] | None:
    """Give the allowed tools; a text is one name or pattern. Raises ConfigurationError."""
    if allowed_tools is None:
        return None
    if isinstance(allowed_tools, str):
        return (allowed_tools,)
    if not isinstance(allowed_tools, Collection) or not all(
        isinstance(one, str) for one in allowed_tools
    ):
        raise ConfigurationError(
            f"allowed_tools holds names and patterns, not {shown(allowed_tools)}",
            hint='write: allowed_tools=["github_*"]',
        )
    return allowed_tools


def secrets_of(env: Any) -> Mapping[str, Collection[str]] | None:
    """Give who may receive which secret; raises ConfigurationError for what says no such thing."""
    if env is None:
        return None
    if not isinstance(env, Mapping):
        raise ConfigurationError(
            f"env says which tools may receive which secret, and is a map, not {shown(env)}",
            hint='write: env={"GITHUB_TOKEN": ["github_*"]}',
        )
    for name, tools in env.items():
        if tools is None:
            raise ConfigurationError(
                f"env names no tool that may receive {name!r}, and None would mean every one",
                hint=f'name the tools: env={{{str(name)!r}: ["github_*"]}}, or [] for none',
            )
        patterns_of(tools)
    return env


class Host:
    """Answers what the nodes of one plan may use; each tool is looked up once."""

    def __init__(
        self,
        registry: ToolRegistry | Iterable[Any] | None,
        allowed_tools: Collection[str] | None,
        env: Mapping[str, Collection[str]] | None,
    ) -> None:
        self.registry = None if registry is None else registry_of(registry)
        self.allowed_tools = patterns_of(allowed_tools)
        self.env = secrets_of(env) or {}
        self._tools: dict[str, Tool | None] = {}
        self._observed: dict[str, dict[str, Any] | None] = {}
        self._allowed: dict[str, bool] = {}
        names = [] if self.registry is None else self.registry.names()
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

    def observed(self, tool: Tool | None) -> dict[str, Any] | None:
        """Give the shape of what earlier calls of a tool gave, where any was seen."""
        if tool is None or self.registry is None:
            return None
        if tool.name not in self._observed:
            self._observed[tool.name] = self.registry.observed(tool)
        return self._observed[tool.name]

    def allows(self, name: str) -> bool:
        """Whether the host lets a plan call the tool."""
        if name not in self._allowed:
            self._allowed[name] = is_allowed(name, self.allowed_tools)
        return self._allowed[name]

    def gives_secret(self, name: str, tool: str) -> bool:
        """Whether the tool may receive the secret."""
        return name in self.env and is_allowed(tool, self.env[name])
