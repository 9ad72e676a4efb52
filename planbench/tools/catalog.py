"""What is said about tools to whoever writes a plan, and which of them may be used."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from planbench.tools.definition import Tool

MAX_DESCRIPTION: Final = 1000


def is_allowed(name: str, allowed_tools: Collection[str] | None) -> bool:
    """Whether a tool may be used: by name or pattern such as ``github_*``; None allows all."""
    if allowed_tools is None:
        return True
    if isinstance(allowed_tools, str):
        return fnmatchcase(name, allowed_tools)
    return name in allowed_tools or any(fnmatchcase(name, one) for one in allowed_tools)


def catalog_entry(tool: Tool) -> dict[str, Any]:
    """Describe a tool as JSON values; the description holds at most 1,000 characters."""
    text = tool.description
    return {
        "name": tool.name,
        "description": text
        if len(text) <= MAX_DESCRIPTION
        else f"{text[: MAX_DESCRIPTION - 3]}...",
        "signature": tool.signature_text,
        "parameters": tool.parameters,
        "effects": tool.effects,
    }
