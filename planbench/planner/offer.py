"""The tools that a planner may use, as it is told of them: bounded, and open about what is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planbench.planner.typetext import described, parameters_text, type_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planbench.tools import Tool

MAX_CHARS: Final = 60_000

_ONE_LINE: Final = 200
_LONGEST: Final = 1000
_SHOWN: Final = 40
_WORD: Final = re.compile(r"[^\W_]{3,}")
_STEM: Final = 5


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a planner was told of the tools.

    ``names`` are the tools in ``text``; ``left_out`` those that had no room, which the
    text says; ``is_shortened`` tells that descriptions were cut to make room.
    """

    text: str
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    is_shortened: bool = False


def offer(tools: Sequence[Tool], objective: str, max_chars: int = MAX_CHARS) -> Catalog:
    """Describe tools in at most about ``max_chars`` characters.

    Where they do not fit, descriptions are cut to a line, then dropped; then tools are
    left out, those first that share no word with the objective.
    """
    names = tuple(tool.name for tool in tools)
    for level, write in enumerate((_whole, _brief, _bare)):
        texts = [write(tool) for tool in tools]
        if sum(len(text) + 1 for text in texts) <= max_chars:
            return Catalog("\n".join(texts), names, is_shortened=level > 0)
    return _fitting(tools, objective, max_chars, _bare)


def _fitting(
    tools: Sequence[Tool], objective: str, max_chars: int, write: Callable[[Tool], str]
) -> Catalog:
    wanted = _stems(objective)
    nearest = sorted(
        range(len(tools)),
        key=lambda i: -len(wanted & _stems(f"{tools[i].name} {tools[i].description}")),
    )
    kept: set[int] = set()
    left = max_chars
    for i in nearest:
        size = len(write(tools[i])) + 1
        if size <= left:
            kept.add(i)
            left -= size
    texts = [write(tool) for i, tool in enumerate(tools) if i in kept]
    missing = tuple(tool.name for i, tool in enumerate(tools) if i not in kept)
    more = ", ..." if len(missing) > _SHOWN else ""
    texts.append(
        f"({len(missing)} more tools have no room here: {', '.join(missing[:_SHOWN])}{more})"
    )
    names = tuple(tool.name for i, tool in enumerate(tools) if i in kept)
    return Catalog("\n".join(texts), names, missing, is_shortened=True)


def _whole(tool: Tool) -> str:
    text = tool.description.strip()
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    lines = [_bare(tool), *(f"    {line.strip()}" for line in text.splitlines() if line.strip())]
    lines += [f"    {name}: {said[:_LONGEST]}" for name, said in described(tool.parameters).items()]
    return "\n".join(lines)


def _brief(tool: Tool) -> str:
    first = next((line.strip() for line in tool.description.splitlines() if line.strip()), "")
    return "\n".join([_bare(tool), *([f"    {first[:_ONE_LINE]}"] if first else [])])


def _bare(tool: Tool) -> str:
    gives = type_text(tool.output_schema) if tool.output_schema else "any"
    effects = "" if tool.effects == "read" else f"  [{tool.effects}]"
    return f"- {tool.name}({parameters_text(tool.parameters)}) -> {gives}{effects}"


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.lower())}
