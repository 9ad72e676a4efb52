"""Python source out of data: literals that stand for themselves, names that are safe, tidy lines.

Whatever text a plan holds reaches the source through ``repr`` alone, so it can be no code.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WIDTH: Final = 100
_INDENT: Final = "    "
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME_SIGN: Final = re.compile(r"[^A-Za-z0-9_]")


class Group:
    """Source in brackets, on one line where that fits: a call, a list, a map."""

    __slots__ = ("close", "flat", "open", "parts")

    def __init__(self, start: str, parts: Iterable[str | Group | Pair], close: str) -> None:
        self.open = start
        self.parts = list(parts)
        self.close = close
        self.flat = f"{start}{', '.join(map(_flat, self.parts))}{close}"


class Pair:
    """Source with something before it: a keyword, a key."""

    __slots__ = ("flat", "head", "value")

    def __init__(self, head: str, value: str | Group) -> None:
        self.head = head
        self.value = value
        self.flat = f"{head}{_flat(value)}"


Code = str | Group | Pair


def _flat(code: Code) -> str:
    return code if isinstance(code, str) else code.flat


def lines(code: Code, level: int = 0, used: int = 0) -> str:
    """Lay source out: what is too long for its line is broken, one part a line."""
    if isinstance(code, str):
        return code
    if used + len(_INDENT) * level + len(code.flat) <= WIDTH:
        return code.flat
    if isinstance(code, Pair):
        return code.head + lines(code.value, level, used + len(code.head))
    if not code.parts:
        return code.flat
    pad = _INDENT * (level + 1)
    body = "".join(f"{pad}{lines(part, level + 1, 1)},\n" for part in code.parts)
    return f"{code.open}\n{body}{_INDENT * level}{code.close}"


def quoted(text: str) -> str:
    """Write a text as a literal that stands for itself, in double quotes where that is plain."""
    written = repr(str.__str__(text))
    return f'"{written[1:-1]}"' if written[0] == "'" and '"' not in text else written


def literal(value: Any, text: Callable[[str], Code | None] = lambda _: None) -> Code:
    """Write a JSON value as Python; ``text`` may give other source for a text that it knows."""
    if isinstance(value, str):
        written = text(value)
        return quoted(value) if written is None else written
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{float(value)}")'
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, dict):
        pairs = (Pair(f"{quoted(k)}: ", _value(v, text)) for k, v in value.items())
        return Group("{", pairs, "}")
    if isinstance(value, list | tuple):
        return Group("[", (literal(v, text) for v in value), "]")
    msg = f"a plan holds JSON values, and {type(value).__name__} is none"
    raise ValueError(msg)


def _value(value: Any, text: Callable[[str], Code | None]) -> str | Group:
    written = literal(value, text)
    return written.flat if isinstance(written, Pair) else written


def call(function: str, parts: Iterable[Code]) -> Group:
    """Write a call."""
    return Group(f"{function}(", parts, ")")


def keywords(
    fields: dict[str, Any], text: Callable[[str], Code | None] = lambda _: None
) -> list[Code]:
    """Write keyword arguments; every name must be an identifier."""
    return [Pair(f"{name}=", _value(value, text)) for name, value in fields.items()]


def is_name(text: str) -> bool:
    """Whether a text is a plain name that Python reads as itself."""
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text)


class Names:
    """Gives every text a Python name of its own, as near to it as is safe."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *keyword.kwlist, *keyword.softkwlist, *dir(builtins)}
        self._given: dict[str, int] = {}

    def new(self, text: str) -> str:
        """Give a name that nothing has had yet."""
        base = _NO_NAME_SIGN.sub("_", text)[:80]
        if not base or base[0].isdigit() or base.startswith("__"):
            base = f"n_{base.lstrip('_')}"
        name = base
        while name in self._taken:
            self._given[base] = self._given.get(base, 1) + 1
            name = f"{base}_{self._given[base]}"
        self._taken.add(name)
        return name
