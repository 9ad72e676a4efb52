"""Guards made of Python comparisons: ``when=(listing.facet("n") > 0) & (fetch.status == "ok")``.

They are the guard's text, nothing more: what is written down is CEL.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, runtime_checkable

from planbench.errors import LanguageError

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "as break const continue else false for function if import in let loop package "
        "namespace null return true var void while",
    )
)
_INTEGERS: Final = range(-(2**63), 2**63)


@runtime_checkable
class InGuard(Protocol):
    """What may stand in a guard beside plain values: a facet, a status, a parameter."""

    @property
    def in_guard(self) -> str:
        """How it is written there."""
        ...


def dotted(names: tuple[str, ...]) -> str:
    """Write a reference from ``ctx`` on: a name that CEL would misread goes in brackets."""
    text = "ctx"
    for name in names:
        plain = _NAME.fullmatch(name) and name not in WORDS
        text += f".{name}" if plain else f"[{literal(name)}]"
    return text


def literal(value: Any) -> str:
    """Write a value as a CEL literal; raises LanguageError for what has none."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, int) and int(value) in _INTEGERS:
        return repr(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_side, value))}]"
    raise LanguageError(
        f"a guard cannot hold a value of type {type(value).__name__!r}",
        hint="compare with a number, a text, True, False, None, a parameter or a list of these",
    )


def _side(value: Any) -> str:
    return value.in_guard if isinstance(value, InGuard) else literal(value)


def _comparison(sign: str) -> Callable[[Operand, object], Condition]:
    def compare(left: Operand, right: object) -> Condition:
        return Condition(f"{left.text} {sign} {_side(right)}")

    return compare


class Operand:
    """A facet or a status that a guard compares with something."""

    __slots__ = ("text",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.text = dotted(names)

    __eq__ = _comparison("==")  # type: ignore[assignment]  # a comparison is kept, not answered
    __ne__ = _comparison("!=")  # type: ignore[assignment]  # as above
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __hash__ = None  # type: ignore[assignment]  # what cannot be compared cannot be a key

    @property
    def in_guard(self) -> str:
        """How it is written in a guard."""
        return self.text

    def is_in(self, values: Any) -> Condition:
        """Give the condition that it is one of several values."""
        return Condition(f"{self.text} in {literal(list(values))}")

    def __bool__(self) -> NoReturn:
        raise LanguageError(
            f"{self.text} is known only when the plan runs",
            hint="compare it with something, and give that as when=",
        )

    def __repr__(self) -> str:
        return f"<{self.text}>"


class Condition:
    """A guard; ``&``, ``|`` and ``~`` combine several."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) && ({other.text})")

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) || ({other.text})")

    def __invert__(self) -> Condition:
        return Condition(f"!({self.text})")

    def __bool__(self) -> NoReturn:
        raise LanguageError(
            f"the guard {self.text!r} has no answer before the plan runs",
            hint="give it as when=; combine guards with &, | and ~, each in brackets",
        )

    def __repr__(self) -> str:
        return f"<guard {self.text}>"
