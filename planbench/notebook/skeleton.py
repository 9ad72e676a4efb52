"""A plan to fill in: one node for each chosen tool, with the arguments that it takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.document import format_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from planbench.tools import Tool

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_EMPTY: Final[dict[str, Any]] = {
    "string": "",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}
MAX_COMMENT: Final = 90


def skeleton(tools: Iterable[Tool]) -> str:
    """Give the text of a plan with a node for each tool, in their order.

    Required arguments stand there with an empty value of their type, optional ones as
    comments with their default; the nodes wait for nothing yet.
    """
    lines = ["name: new_plan", "objective: say in a sentence what this plan is for", "nodes:"]
    taken: set[str] = set()
    for tool in tools:
        lines += _node(tool, _free_id(tool.name, taken))
    return "\n".join(lines) + "\n"


def _free_id(name: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    wish = plain if plain[:1].isalpha() else f"node_{plain}"
    node_id, number = wish, 1
    while node_id in taken:
        number += 1
        node_id = f"{wish}_{number}"
    taken.add(node_id)
    return node_id


def _node(tool: Tool, node_id: str) -> Iterator[str]:
    if tool.description:
        yield f"  # {_one_line(tool.description)}"
    yield f"  - id: {_text(node_id)}"
    yield f"    tool: {_text(tool.name)}"
    fields: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", ()))
    if fields:
        # A key whose lines are all comments would be null, and args must be a map.
        yield "    args:" if required & set(fields) else "    # args:"
    for name, written in fields.items():
        schema = written if isinstance(written, dict) else {}
        kind = _kind(schema)
        if name in required:
            yield f"      {_text(name)}: {_value(schema)}  # {kind}"
        else:
            yield f"      # {_text(name)}: {_value(schema)}  # {kind}"


def _one_line(text: str) -> str:
    line = " ".join(text.split("\n", 1)[0].split())
    line = "".join(letter for letter in line if letter.isprintable())
    return line if len(line) <= MAX_COMMENT else f"{line[:MAX_COMMENT]}..."


def _text(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else _flow(text)


def _flow(value: Any) -> str:
    """Write a value on one line, as JSON that YAML reads alike."""
    return " ".join(line.strip() for line in format_json(value).strip().split("\n"))


def _value(schema: Mapping[str, Any]) -> str:
    wish: Any = _EMPTY.get(_first_type(schema), {})
    if schema.get("enum"):
        wish = schema["enum"][0]
    for name in ("const", "default"):
        wish = schema.get(name, wish)
    try:
        return _flow(wish)
    except ValueError:  # such as NaN, which no plan can hold
        return "null"


def _first_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    kinds = [_first_type(choice) for choice in choices if isinstance(choice, dict)]
    return next((one for one in kinds if one != "null"), "" if choices else "string")


def _kind(schema: Mapping[str, Any]) -> str:
    if schema.get("enum"):
        return _one_line("one of " + ", ".join(str(choice) for choice in schema["enum"]))
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind or _first_type(schema)]
    return _one_line(" or ".join(str(one) for one in kinds if one) or "any value")
