"""The texts inside a value of any form, to be searched for what must not leave the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from planbench.plan.shapes import is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS: Final = (list, tuple, set, frozenset)
_NO_TEXT: Final = frozenset("biufcmM")
"""The kinds of arrays in which there is no text: numbers, truth and times."""


def texts_in(value: Any) -> Iterator[str]:
    """Give every text of a value, names and labels included; bytes are read as Latin-1.

    Numbers are written out too. What is unknown is written as Python writes it.
    """
    rest = [value]
    seen: dict[int, Any] = {}  # holds them too: the id of one that is freed comes again
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, bytes | bytearray | memoryview):
            yield bytes(one).decode("latin-1")
        elif one is None or isinstance(one, bool | float):
            continue
        elif isinstance(one, int):
            yield str(one)
        elif id(one) not in seen:
            seen[id(one)] = one
            parts = _parts(one)
            if parts is None:
                yield repr(one)
            else:
                rest += parts


def _parts(value: Any) -> list[Any] | None:  # noqa: PLR0911 - one line for each form
    """Give what a value is made of, None for what is one thing."""
    if isinstance(value, _LISTS):
        return list(value)
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if is_frame(value):
        columns = [value.iloc[:, place] for place in range(value.shape[1])]
        return [*value.columns, *value.columns.names, value.index, *columns]
    if is_series(value):
        return [value.name, value.index, *_cells(value)]
    if hasattr(value, "dtype"):
        return [*getattr(value, "names", ()), *_cells(value)]
    if isinstance(value, BaseModel):
        return list(dict(value).values())
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return None


def _cells(value: Any) -> list[Any]:
    if getattr(value.dtype, "kind", "O") in _NO_TEXT:
        return []
    if hasattr(value, "unique") and getattr(value.dtype, "name", "") in ("category", "str"):
        return list(value.unique())
    return list(value.tolist()) if hasattr(value, "tolist") else list(value)
