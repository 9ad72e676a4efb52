"""The words of a guard, and which of them are variables that a macro binds.

CEL itself reads a guard when it is compiled, which takes a fifth of a millisecond. What
is asked here is asked of every guard of a plan while it is read, and of guards that CEL
could not read yet. A quote that is not closed takes the rest of the guard with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(
    r"""(?P<text>[bB]?[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
            |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
        |`[^`\n]*`
        |["'`].*)
    |(?P<param>\{params\.[A-Za-z_][A-Za-z0-9_]*\})
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<space>\s+|//[^\n]*)
    |(?P<number>[0-9][A-Za-z0-9_.]*)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_NOTHING: Final[frozenset[str]] = frozenset()


class Token(NamedTuple):
    """One word, sign, number, quoted text or parameter of a guard, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


class Variable(NamedTuple):
    """A name at the start of a path: its place among the tokens, and what is bound there."""

    place: int
    bound: frozenset[str]


class Tokens(list[Token]):
    """The tokens of a guard in order; spaces and comments are left out."""

    def __init__(self, text: str) -> None:
        super().__init__(
            Token(match.lastgroup or "", match.group(), *match.span())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "space"
        )

    def text_at(self, place: int) -> str:
        """Give the text of a token; nothing before the first and after the last."""
        return self[place].text if 0 <= place < len(self) else ""

    def word_after_dot(self, place: int) -> str | None:
        """Give the field that ``.name`` at a place names; None where something else stands."""
        if self.text_at(place) != "." or place + 1 >= len(self):
            return None
        return self[place + 1].text if self[place + 1].kind == "word" else None

    def variables(self) -> Iterator[Variable]:
        """Give every name that is no field of something, and is not bound by a macro."""
        scopes: list[frozenset[str]] = []
        bound = _NOTHING
        for place, token in enumerate(self):
            if token.kind == "word":
                if token.text not in bound and not self._is_field(place):
                    yield Variable(place, bound)
            elif token.kind != "sign":
                continue
            elif token.text in _OPENING:
                scopes.append(bound)
                bound |= self._bound_after(place) if token.text == "(" else _NOTHING
            elif token.text in _CLOSING and scopes:
                bound = scopes.pop()

    def binds(self, name: str) -> bool:
        """Whether some macro calls its variable by that name."""
        return any(
            token.text == "(" and name in self._bound_after(place)
            for place, token in enumerate(self)
        )

    def _is_field(self, place: int) -> bool:
        before = self.text_at(place - 1)
        return before == "." or (before == "?" and self.text_at(place - 2) == ".")

    def _bound_after(self, place: int) -> frozenset[str]:
        """Name the variables of a macro, as in ``list.exists(x, x > 1)``."""
        names = []
        at = place + 1
        while at + 1 < len(self) and self[at].kind == "word" and self[at + 1].text == ",":
            names.append(self[at].text)
            at += 2
        return frozenset(names) if names else _NOTHING
