"""Tools and the registry that holds them."""

from planbench.tools.catalog import is_allowed
from planbench.tools.definition import Effects, Tool, observe_definitions, tool
from planbench.tools.handler import ToolHandler
from planbench.tools.problems import ArgumentProblem
from planbench.tools.registry import PERMISSION_CONTEXT, RegistryChange, ToolRegistry
from planbench.tools.result import ToolResult

__all__ = [
    "PERMISSION_CONTEXT",
    "ArgumentProblem",
    "Effects",
    "RegistryChange",
    "Tool",
    "ToolHandler",
    "ToolRegistry",
    "ToolResult",
    "is_allowed",
    "observe_definitions",
    "tool",
]
