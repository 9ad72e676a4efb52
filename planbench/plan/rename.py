"""Nodes under other ids: every reference follows, in arguments, sources, guards and keys.

All names are exchanged at once, so two nodes may swap theirs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.guard_tokens import Tokens
from planbench.plan.model import ID_PATTERN, PlanNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REFERENCE: Final = rf"artifacts\.{ID_PATTERN}|nodes\.{ID_PATTERN}\.output"
# doubled braces are a text that only looks like a reference
_PLACEHOLDER: Final = re.compile(
    rf"\{{\{{(?:{_REFERENCE})\}}\}}|\{{(?:artifacts\.(?P<body>{ID_PATTERN})"
    rf"|nodes\.(?P<ref>{ID_PATTERN})\.output)\}}"
)
_PLAIN: Final = re.compile(r"""(["'])([^"'\\\n]*)\1""")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN: Final = frozenset({"in", "true", "false", "null"})
_FAMILIES: Final = frozenset({"artifacts", "status"})


class _Step(NamedTuple):
    """One field of a path, as ``.name`` or ``["name"]``, and where that stands."""

    name: str
    start: int
    end: int
    quote: str


def default_key(node_id: str, *, fan_out: bool) -> str:
    """Give the key under which a node's result stands when the author named none."""
    return f"{node_id}.{{index}}" if fan_out else node_id


def renamed_node(node: PlanNode, names: Mapping[str, str]) -> PlanNode:
    """Give a node as it is when others, or itself, are called by other names.

    A key that is only the node's own id follows it.
    """
    update: dict[str, Any] = {}
    if node.id in names:
        update["id"] = names[node.id]
        if node.store_as == default_key(node.id, fan_out=node.for_each is not None):
            update["store_as"] = default_key(names[node.id], fan_out=node.for_each is not None)
    if not names.keys().isdisjoint(node.depends_on):
        update["depends_on"] = [names.get(need, need) for need in node.depends_on]
    args = renamed_in(node.args, names)
    if args is not node.args:
        update["args"] = args
    if node.instruction is not None:
        instruction = rename_in_text(node.instruction, names)
        if instruction != node.instruction:
            update["instruction"] = instruction
    if node.for_each is not None:
        source = rename_in_text(node.for_each.source, names)
        if source != node.for_each.source:
            update["for_each"] = node.for_each.model_copy(update={"source": source})
    if node.when is not None and (when := rename_in_guard(node.when, names)) != node.when:
        update["when"] = when
    return node.model_copy(update=update) if update else node


def renamed_in(value: Any, names: Mapping[str, str]) -> Any:
    """Give a value whose references follow; the value itself where there are none."""
    if isinstance(value, str):
        return rename_in_text(value, names)
    if isinstance(value, dict):
        changed = {key: renamed_in(item, names) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value
    if isinstance(value, list | tuple):
        items = [renamed_in(item, names) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def rename_in_text(text: str, names: Mapping[str, str]) -> str:
    """Give a text whose placeholders name nodes by their new ids."""
    if "{" not in text:
        return text

    def follow(match: re.Match[str]) -> str:
        if (body := match["body"]) in names:
            return f"{{artifacts.{names[body]}}}"
        return f"{{nodes.{names[ref]}.output}}" if (ref := match["ref"]) in names else match.group()

    found = _PLACEHOLDER.sub(follow, text)
    return text if found == text else found


def rename_in_guard(text: str, names: Mapping[str, str]) -> str:
    """Give a guard that reads the nodes under their new ids; texts and comments stay.

    A guard that binds a variable ``ctx`` of its own stays as it is.
    """
    tokens = Tokens(text)
    pieces: list[str] = []
    end = 0
    for place, token in enumerate(tokens):
        if token.text != "ctx" or (place and tokens[place - 1].text == "."):
            continue
        if place and tokens[place - 1].text == "(" and tokens.text_at(place + 1) == ",":
            return text
        family, node = _two(_steps(tokens, place + 1))
        if family is not None and node is not None and node.name in names:
            pieces += [text[end : node.start], _written(names[node.name], node.quote)]
            end = node.end
    return "".join([*pieces, text[end:]])


def _steps(tokens: Tokens, place: int) -> Iterator[_Step]:
    """Give the fields that follow a variable, as far as they are literal."""
    while True:
        head, name = tokens.text_at(place), tokens[place + 1 : place + 2]
        if head == "." and name and name[0].kind == "word":
            yield _Step(name[0].text, tokens[place].start, name[0].end, "")
            place += 2
        elif head == "[" and name and tokens.text_at(place + 2) == "]":
            plain = _PLAIN.fullmatch(name[0].text)
            if plain is None:
                return
            yield _Step(plain[2], tokens[place].start, tokens[place + 2].end, plain[1])
            place += 3
        else:
            return


def _two(steps: Iterator[_Step]) -> tuple[_Step | None, _Step | None]:
    family = next(steps, None)
    if family is None or family.name not in _FAMILIES:
        return None, None
    return family, next(steps, None)


def _written(name: str, quote: str) -> str:
    if not quote and _WORD.fullmatch(name) and name not in _TAKEN:
        return f".{name}"
    quote = quote or '"'
    return f"[{quote}{name}{quote}]"
