"""Values of Python programs as the values that a plan holds: those of JSON, and nothing else."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Final

from planbench.errors import LanguageError
from planbench.plan.placeholders import MAX_DEPTH
from planbench.plan.shapes import a, describe, is_frame, is_series

_MAX_BITS: Final = 13_000  # as many digits as Python and every reader take

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def is_plain(value: Any) -> bool:
    """Whether a value is one that text could give, as nearly every one is; False may be wrong.

    Nothing is said of where another one stands, which makes this cheap.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        kinds = set(map(type, level))
        below: list[Any] = []
        for kind in kinds:
            values: list[Any] = (
                level if len(kinds) == 1 else [one for one in level if type(one) is kind]
            )
            check = _CHECKS.get(kind)
            if check is None or not check(values):
                return False
            if kind is dict:
                below += chain.from_iterable(map(dict.values, values))
            elif kind is list:
                below += chain.from_iterable(values)
        if not below:
            return True
        level = below
    return False


def _are_maps_plain(maps: list[Any]) -> bool:
    keys = list(chain.from_iterable(maps))
    return _are_apart(maps) and set(map(type, keys)) <= {str} and _are_texts_plain(keys)


def _are_apart(values: list[Any]) -> bool:
    """Whether none stands there twice: one that does may hold more than anybody can read."""
    return len(set(map(id, values))) == len(values)


def _are_integers_plain(values: list[int]) -> bool:
    return max(values).bit_length() <= _MAX_BITS and min(values).bit_length() <= _MAX_BITS


def _are_texts_plain(texts: list[str]) -> bool:
    return all(map(str.isascii, texts)) or not any(map(_SURROGATE.search, texts))


_CHECKS: Final[dict[type, Callable[[list[Any]], bool]]] = {
    dict: _are_maps_plain,
    list: _are_apart,
    str: _are_texts_plain,
    int: _are_integers_plain,
    float: lambda values: all(map(math.isfinite, values)),
    bool: lambda _: True,
    type(None): lambda _: True,
}


def plain(value: Any, place: str, special: Callable[[Any], str | None], depth: int = 0) -> Any:
    """Give a value as a plan holds it, in lists and maps of its own.

    ``special`` gives the text of what is more than a value, such as a handle, else None.
    Raises LanguageError that names the place for what no plan file could hold.
    """
    text = special(value)
    if text is not None:
        return text
    if value is None or isinstance(value, bool | str | int | float):
        return _scalar(value, place)
    if depth > MAX_DEPTH:
        raise LanguageError(f"{place[:200]}... is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {
            _key(key, place): plain(inner, f"{place}.{key}", special, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(inner, f"{place}[{i}]", special, depth + 1) for i, inner in enumerate(value)]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        single = value.item()
        if type(single) is not type(value):
            return plain(single, place, special, depth)
    raise LanguageError(
        f"{place} is {a(describe(value))}, and a plan holds JSON values", hint=_advice(value)
    )


def _scalar(value: Any, place: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, int):
        if int(value).bit_length() > _MAX_BITS:
            raise LanguageError(f"{place} is an integer too long to be written")
        return int(value)
    if math.isnan(value):
        raise LanguageError(
            f"{place} is NaN, which equals nothing, itself included", hint="give None instead"
        )
    if math.isinf(value):
        raise LanguageError(f"{place} is infinite, and JSON has no such number")
    return float(value)


def _key(key: Any, place: str) -> str:
    if not isinstance(key, str):
        raise LanguageError(f"{place} has the key {key!r}; the keys of a plan are text")
    return _text(key, f"a key of {place}")


def _text(value: str, place: str) -> str:
    text = str.__str__(value)
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise LanguageError(f"{place} holds a lone surrogate, which no file can hold")
    return text


def _advice(value: Any) -> str:
    if isinstance(value, dt.date | dt.time):
        return "write it as text: value.isoformat()"
    if isinstance(value, AbstractSet):
        return "give a list: sorted(value)"
    if is_frame(value) or is_series(value) or hasattr(value, "tolist"):
        return "data does not stand in a plan: let a tool load it, and pass what the tool gives"
    return "give text, a number, True, False, None, a list or a map"
