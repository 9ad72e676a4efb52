"""What kind of thing a value is, asked without touching what it holds.

The values are those of users: they are never compared, never tested for truth and
never shown, and pandas is never imported for them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal

_SCALARS: Final = (
    (type(None), "null"),
    (bool, "bool"),
    (str, "text"),
    ((int, float), "number"),
)


def is_frame(value: Any) -> bool:
    """Whether the value is a pandas DataFrame."""
    return _is_pandas(value, "DataFrame")


def is_series(value: Any) -> bool:
    """Whether the value is a pandas Series."""
    return _is_pandas(value, "Series")


def _is_pandas(value: Any, name: Literal["DataFrame", "Series"]) -> bool:
    """Look for the class where pandas is loaded: elsewhere nothing can be a frame."""
    kind = getattr(sys.modules.get("pandas"), name, None)
    return kind is not None and isinstance(value, kind)


def describe(value: Any) -> str:
    """Say in a few words what a value is: "list of 12", "DataFrame of 3 rows", "text", "null"."""
    for kinds, noun in _SCALARS:
        if isinstance(value, kinds):
            return noun
    name = type(value).__name__[:60]
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        size = f"{shape[0]} rows and {shape[1]} columns" if is_frame(value) else _product(shape)
        return f"{name} of {size}"
    if isinstance(value, Mapping):
        return f"map of {len(value)}"
    return f"{name} of {len(value)}" if isinstance(value, Sequence | AbstractSet) else name


def _product(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def lacks_return(tool: str, node: str) -> str:
    """Say that a result is None where a value is used, as of a function whose return was forgotten."""
    return f"tool {tool!r} of node {node!r} returned None: does it lack a return?"


def a(noun: str) -> str:
    """Put the article before what ``describe`` said."""
    if noun in {"null", "text"}:
        return noun
    return f"{'an' if noun[:1].lower() in set('aeiou') else 'a'} {noun}"
