"""The tools of an engine, handed over as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from planbench.errors import ConfigurationError
from planbench.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable


class ToolHandler:
    """Makes the tools of a registry those that an engine calls.

    ``tools`` is a registry, or a list of functions and tools.
    """

    def __init__(self, tools: ToolRegistry | Iterable[Any]) -> None:
        self.registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)

    def attach(self, engine: Any) -> Self:
        """Make these the tools of an engine: it is then found as ``engine.registry``."""
        if not hasattr(engine, "registry"):
            raise ConfigurationError(
                f"{type(engine).__name__} has no registry to put tools in",
                hint="write: ToolHandler(registry).attach(engine)",
            )
        engine.registry = self.registry
        return self

    def __repr__(self) -> str:
        return f"<ToolHandler of {self.registry!r}>"
