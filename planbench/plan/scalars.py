"""Which plain words of a YAML plan are values, and which are text.

A word is a number only when the number, written again, gives that word: ``12`` and
``1.5`` are, while ``0123``, ``1e3``, ``1.10``, ``12:30``, ``2024-01-01``, ``no`` and
``on`` stay what the author wrote.
"""

from __future__ import annotations

import re
from typing import Any, Final

MAX_DIGITS: Final = 4000  # Python refuses to read or write longer integers

_WORDS: Final[dict[str, Any]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_FIRST: Final = frozenset("-0123456789")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
_FLOAT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?")
_MARKED: Final = {".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}
_TAG: Final = "tag:yaml.org,2002:"
_OWN: Final = frozenset({"str", "int", "float", "bool", "null", "map", "seq"})


def typed(text: str) -> Any:
    """Give the value of a plain scalar: null, a bool, a number, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _FIRST:
        if _INTEGER.fullmatch(text):
            return int(text) if len(text) <= MAX_DIGITS else text
        if _FLOAT.fullmatch(text):
            number = float(text)
            return number if repr(number) == text else text
    return text


def tagged(text: str, tag: str) -> Any:
    """Give the value of a scalar with one of YAML's own tags; raises ValueError where it does not fit."""
    kind = tag.removeprefix(_TAG)
    if kind == "str":
        return text
    value = typed(text)
    if kind == "float" and text in _MARKED:
        return _MARKED[text]
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    expected = {"int": int, "bool": bool, "null": type(None)}.get(kind)
    if expected is None or type(value) is not expected:
        msg = f"{text!r} is no {kind}"
        raise ValueError(msg)
    return value


def is_own_tag(tag: str) -> bool:
    """Whether a tag is one of YAML's own, such as ``!!str``."""
    return tag.startswith(_TAG) and tag.removeprefix(_TAG) in _OWN
