"""Guards as Python: comparisons of facets and statuses, and what and, or and not make of them.

What goes beyond that is not guessed at: a person writes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planbench.plan.source_code import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<sign>&&|\|\||[=!<>]=|[<>!(),\[\]])
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.])
    | (?P<text>"[^"\\\n]*"|'[^'\\\n]*')
    | (?P<param>\{params\.[A-Za-z_][A-Za-z0-9_]*\})
    | (?P<reference>ctx(?:\.[A-Za-z_][A-Za-z0-9_]*|\["[^"\\\n]*"\]|\['[^'\\\n]*'\])+)(?![\w.(\[])
    | (?P<word>true|false|null|in|size)(?![\w.])
    )""",
    re.VERBOSE,
)
_NAME: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[[\"'](.*?)[\"']\]")
_COMPARISONS: Final = frozenset(["==", "!=", "<", "<=", ">", ">="])
_WORDS: Final = {"true": "True", "false": "False", "null": "None"}
_PLAIN_KINDS: Final = frozenset(["int", "float", "bool"])  # any other is a piece of CEL
_UNKNOWN: Final = frozenset(["bytes"])  # what only planbench measures


class NotSimple(Exception):
    """Raised inside this module for a guard that is left to a person."""


def guard_code(
    text: str,
    facets: Mapping[str, set[str]],
    kinds: Mapping[str, str],
    string: Callable[[str], str],
) -> str | None:
    """Give the Python expression of a guard, over a variable ``run``; None when it is not simple.

    ``facets`` names the facets of each node, ``kinds`` the types of the declared
    parameters; ``string`` writes a text, its parameters put in.
    """
    try:
        return _Reader(text, facets, kinds, string).read()
    except (NotSimple, RecursionError):
        return None


class _Reader:
    def __init__(
        self,
        text: str,
        facets: Mapping[str, set[str]],
        kinds: Mapping[str, str],
        string: Callable[[str], str],
    ) -> None:
        self._facets = facets
        self._kinds = kinds
        self._string = string
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise NotSimple
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind]))
            place = match.end()

    def read(self) -> str:
        """Read it all."""
        code = self._either()
        if self._at < len(self._tokens):
            raise NotSimple
        return code

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _take(self, *signs: str) -> str | None:
        kind, token = self._next()
        if kind in {"sign", "word"} and token in signs:
            self._at += 1
            return token
        return None

    def _need(self, sign: str) -> None:
        if self._take(sign) is None:
            raise NotSimple

    def _either(self) -> str:
        return self._joined("||", "any_of", self._both)

    def _both(self) -> str:
        return self._joined("&&", "all_of", self._relation)

    def _joined(self, sign: str, function: str, part: Callable[[], str]) -> str:
        parts = [part()]
        while self._take(sign):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        return f"{function}({', '.join(f'lambda: {one}' for one in parts)})"

    def _relation(self) -> str:
        left = self._operand()
        if self._take("in"):
            return f"one_of({left}, {self._several()})"
        sign = self._take(*_COMPARISONS)
        return left if sign is None else f'compare({left}, "{sign}", {self._operand()})'

    def _several(self) -> str:
        if not self._take("["):
            return self._operand()
        parts = [self._operand()]
        while self._take(","):
            parts.append(self._operand())
        self._need("]")
        return f"[{', '.join(parts)}]"

    def _operand(self) -> str:
        if self._take("!"):
            return f"(not yes_or_no({self._operand()}))"
        if self._take("("):
            code = self._either()
            self._need(")")
            return code
        if self._take("size"):
            self._need("(")
            code = self._operand()
            self._need(")")
            return f"len({code})"
        return self._value()

    def _value(self) -> str:
        kind, token = self._next()
        self._at += 1
        if kind == "reference":
            return self._reference(token)
        if kind == "text":
            return self._string(token[1:-1])
        if kind == "param" and self._kinds.get(token[8:-1]) in _PLAIN_KINDS:
            return self._string(token)
        if kind == "number":
            return re.sub(r"^(-?)0+(?=\d)", r"\1", token)
        if token in _WORDS:
            return _WORDS[token]
        raise NotSimple

    def _reference(self, token: str) -> str:
        family, *names = [a or b for a, b in _NAME.findall(token)]
        if family == "errors" and not names:
            return "errors(run)"
        if family == "status" and len(names) == 1:
            return f"run.status[{quoted(names[0])}]"
        if family != "artifacts" or len(names) < 2:  # noqa: PLR2004 - a node and its facet
            raise NotSimple
        node, facet, *inside = names
        if facet in _UNKNOWN and facet not in self._facets.get(node, ()):
            raise NotSimple
        deeper = "".join(f"[{quoted(name)}]" for name in inside)
        return f"facet(run, {quoted(node)}, {quoted(facet)}){deeper}"
