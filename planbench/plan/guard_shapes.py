"""Guards that differ only in the names and values that they hold, brought to one shape.

CEL takes a tenth of a millisecond to compile a guard, and the many guards of a large
plan are few when seen this way: ``ctx.artifacts.a.n > 5`` and ``ctx.artifacts.b.n > 7``
are both ``ctx.artifacts.a0.f0 > i0``. Ids and facets become other names of fields; a
literal that something is compared with becomes a variable of the literal's own type, so
CEL checks and answers the same. A guard that holds anything else than references,
operators and plain literals has no shape.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from planbench.plan.conditions import WORDS

MAX_SLOTS: Final = 16
"""How many literals of each type a shape holds; further ones stay in it as written."""
_LONG: Final = 200  # a text that a facet may be cut before stays in the shape

_REFERENCE: Final = (
    r"""ctx(?:\.[A-Za-z_][A-Za-z0-9_]*|\["[^"\\\n\r]*"(?!")\]|\['[^'\\\n\r]*'(?!')\])+"""
)
_TOKEN: Final = re.compile(
    rf"""\s*(?:
      (?P<sign>&&|\|\||[=!<>]=|[<>!(),\[\]?:+\-*%]|/(?!/))
    | (?P<double>[0-9]+\.[0-9]+)(?![\w.])
    | (?P<int>0|[1-9][0-9]{{0,17}})(?![\w.])
    | (?P<text>"[^"\\\n\r]*"(?!")|'[^'\\\n\r]*'(?!'))
    | (?P<reference>{_REFERENCE})(?![\w.(])
    | (?P<word>true|false|null|in|size)(?![\w.])
    )""",
    re.VERBOSE,
)
_STEP: Final = re.compile(r"""\.([A-Za-z_][A-Za-z0-9_]*)|\[(["'])(.*?)\2\]""")
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_ENDS: Final = frozenset({"&&", "||", ")", "?", ":", ""})
_PREFIXES: Final = {"int": "i", "double": "d", "text": "t"}
_DEPTHS: Final = {"artifacts": 2, "status": 1}  # how many names stand behind the family


class Shape(NamedTuple):
    """A guard in its shape.

    ``names`` gives the name as written for each name of a field in ``text``, and
    ``values`` the value of each variable.
    """

    text: str
    names: dict[str, str]
    values: dict[str, Any]


def shape_of(text: str) -> Shape | None:
    """Give the shape of a guard, or None for one that has to be compiled as it stands."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    slots: dict[tuple[str, Any], str] = {}
    pieces: list[str] = []
    counts = dict.fromkeys("afidt", 0)
    end, before = 0, ""
    for place, (kind, word, start) in enumerate(tokens):
        written = word
        if kind == "reference":
            written = _renamed(word, slots, counts)
        elif kind in _PREFIXES and before in _COMPARISONS:
            following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
            prefix = _PREFIXES[kind]
            if following in _ENDS and counts[prefix] < MAX_SLOTS and len(word) < _LONG:
                written = _slot(prefix, _value(kind, word), slots, counts)
        if written is not word:
            pieces += [text[end:start], written]
            end = start + len(word)
        before = word
    if not pieces:
        return None
    names = {slot: name for (prefix, name), slot in slots.items() if prefix in "af"}
    values = {slot: value for (prefix, value), slot in slots.items() if prefix not in "af"}
    return Shape("".join([*pieces, text[end:]]), names, values)


def _tokens(text: str) -> list[tuple[str, str, int]] | None:
    """Split a guard; None where something stands in it that no shape holds."""
    tokens: list[tuple[str, str, int]] = []
    at, stop = 0, len(text.rstrip())
    while at < stop:
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        kind = match.lastgroup or ""
        tokens.append((kind, match[kind], match.start(kind)))
        at = match.end()
    return tokens


def _renamed(reference: str, slots: dict[tuple[str, Any], str], counts: dict[str, int]) -> str:
    """Give a reference with other names for the node and the facet."""
    steps = list(_STEP.finditer(reference))
    names = [step[1] or step[3] for step in steps]
    pieces: list[str] = []
    end = 0
    for depth in range(1, min(len(names), 1 + _DEPTHS.get(names[0], 0))):
        step, name = steps[depth], names[depth]
        group = 1 if step[1] else 3
        if group == 1 and name in WORDS:  # CEL may refuse it there
            continue
        slot = _slot("a" if depth == 1 else "f", name, slots, counts)
        pieces += [reference[end : step.start(group)], slot]
        end = step.end(group)
    return "".join([*pieces, reference[end:]]) if pieces else reference


def _slot(
    prefix: str, value: Any, slots: dict[tuple[str, Any], str], counts: dict[str, int]
) -> str:
    """Give the slot of a name or value; what stands twice has one."""
    found = slots.get((prefix, value))
    if found is None:
        found = slots[prefix, value] = f"{prefix}{counts[prefix]}"
        counts[prefix] += 1
    return found


def _value(kind: str, word: str) -> Any:
    if kind == "text":
        return word[1:-1]
    return int(word) if kind == "int" else float(word)
