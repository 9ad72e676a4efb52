"""Facets: the small facts that are taken from a result and may leave it.

A facet is a JSON scalar, or a small map of them: all that guards, refs, manifests and
models ever see of a result. Texts are cut at 200 characters, NaN is null, dates are
ISO text, and what is none of these is described ("<list of 12>"), never shown. A
description, a cut text and ``(other)`` stand for more than they say, so a guard that
needs the rest has no answer: ``gap`` tells.
"""

from __future__ import annotations

import enum
import heapq
import math
import re
from collections import Counter
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PathError
from planbench.plan.paths import Path, compile_path
from planbench.plan.shapes import a, describe, is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planbench.plan.model import FacetSpec

MAX_TEXT: Final = 200
_CUT: Final = "…"
OTHER: Final = "(other)"
_INTEGERS: Final = range(-(2**63), 2**64)  # what JSON encoders and guards can hold
_ROWS: Final = 50_000
_NULLS: Final = frozenset({"NaTType", "NAType"})
_CHEAP: Final = frozenset({str, bool, int, type(None)})
_DESCRIBED: Final = re.compile(r"<.{1,100} (?:object|of [0-9].{0,100})>", re.DOTALL)


class FacetReader:
    """Reads the facets of one result; paths are compiled when it is made.

    Raises PathError for a path that cannot be read.
    """

    def __init__(self, spec: FacetSpec) -> None:
        self._limit = spec.max_group_keys
        self._paths = [(name, compile_path(text)) for name, text in spec.paths.items()]
        self._counts = [(name, compile_path(text)) for name, text in spec.counts.items()]
        self._groups = [(name, compile_path(text)) for name, text in spec.group_counts.items()]

    def read(self, value: Any) -> tuple[dict[str, Any], list[str]]:
        """Give the facets, and a line for each that did not fit and is left out."""
        facets: dict[str, Any] = {}
        problems: list[str] = []
        for paths, take in (
            (self._paths, self._fact),
            (self._counts, self._count),
            (self._groups, self._group),
        ):
            for name, path in paths:
                try:
                    facets[name] = take(path, value)
                except PathError as error:
                    problems.append(f"facet {name!r}: {error.message}")
        return facets, problems

    def _fact(self, path: Path, value: Any) -> Any:
        found = path.column(value)
        if isinstance(found, Mapping) and len(found) <= self._limit:
            return {_text(key): scalar(item) for key, item in found.items()}
        return scalar(found)

    @staticmethod
    def _count(path: Path, value: Any) -> int:
        return len(_list(path, path.column(value, fill_missing=True)))

    def _group(self, path: Path, value: Any) -> dict[str, int]:
        return capped(tally(_list(path, path.column(value, fill_missing=True))), self._limit)


class FacetMerger:
    """Merges the facets of a fan-out's items into those of the node.

    Counts are summed, groups are merged and capped, and a path becomes the list of
    its distinct values in the order first seen, at most ``max_group_keys`` of them and
    then ``(other)`` for the rest.
    """

    def __init__(self, spec: FacetSpec) -> None:
        self._limit = spec.max_group_keys
        self._counts: dict[str, int] = dict.fromkeys(spec.counts, 0)
        self._groups: dict[str, dict[str, int]] = {name: {} for name in spec.group_counts}
        self._values: dict[str, dict[Any, Any]] = {name: {} for name in spec.paths}

    def add(self, facets: dict[str, Any]) -> None:
        """Take in one item's facets; a facet that the item lacks adds nothing."""
        for name, count in self._counts.items():
            self._counts[name] = count + facets.get(name, 0)
        for name, groups in self._groups.items():
            for key, count in facets.get(name, {}).items():
                groups[key] = groups.get(key, 0) + count
        for name, values in self._values.items():
            if name in facets and len(values) <= self._limit:
                value = facets[name]
                if len(values) == self._limit and _identity(value) not in values:
                    value = OTHER
                values.setdefault(_identity(value), value)

    def result(self) -> dict[str, Any]:
        """Give the node's facets; without items counts are 0 and the rest is empty."""
        return {
            **{name: list(values.values()) for name, values in self._values.items()},
            **self._counts,
            **{name: capped(groups, self._limit) for name, groups in self._groups.items()},
        }


class ItemFacets:
    """Merges facets in the order of the items, in whichever order these end."""

    def __init__(self, spec: FacetSpec) -> None:
        self._merger = FacetMerger(spec)
        self._waiting: dict[int, dict[str, Any]] = {}
        self._next = 0

    def add(self, index: int, facets: dict[str, Any]) -> None:
        """Take in the facets of one item; one that gave no value has none, ``{}``."""
        self._waiting[index] = facets
        while (found := self._waiting.pop(self._next, None)) is not None:
            self._merger.add(found)
            self._next += 1

    def result(self) -> dict[str, Any]:
        """Give the facets of all; items that never ended count for nothing."""
        for index in sorted(self._waiting):
            self._merger.add(self._waiting.pop(index))
        return self._merger.result()


def scalar(value: Any) -> Any:
    """Give a value as a JSON scalar, or say what it is."""
    kind = type(value)
    if kind is str:
        return _cut(value)
    if value is None or kind is bool or (kind is int and value in _INTEGERS):
        return value
    if isinstance(value, enum.Enum):
        return scalar(value.value)
    if isinstance(value, float):  # numpy's float64 is one
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return (
            int(value)
            if int(value) in _INTEGERS
            else f"<integer of {int(value).bit_length()} bits>"
        )
    return _other_scalar(value)


def gap(value: Any, *, cuts: bool = True) -> str | None:
    """Say what a facet holds in place of a value; None for one that is what it says.

    Without ``cuts`` the beginning of a long text is as good as the text.
    """
    if isinstance(value, str):
        if _DESCRIBED.fullmatch(value):
            return f"says only {value}"
        if cuts and len(value) == MAX_TEXT and value.endswith(_CUT):
            return f"is cut at {MAX_TEXT} characters"
        return None
    if not isinstance(value, Mapping | list | tuple):
        return None
    items = value.values() if isinstance(value, Mapping) else value
    return next((found for item in items if (found := gap(item, cuts=cuts))), None)


def _described(value: Any) -> str:
    """Describe what is no scalar, in a form that no text of a user has."""
    text = describe(value)
    return f"<{text}>" if " of " in text else f"<{text} object>"


def _other_scalar(value: Any) -> Any:
    kind = type(value)
    if kind.__name__ in _NULLS and kind.__module__.startswith("pandas."):
        return None  # NaT calls itself a datetime, so it is asked first
    if isinstance(value, str):
        return _cut(str(value))
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date | time):
        return value.isoformat()
    return _numpy_scalar(value) if kind.__module__ == "numpy" else _described(value)


def _numpy_scalar(value: Any) -> Any:
    if getattr(value, "ndim", None) != 0:
        return _described(value)
    if value.dtype.kind in "mM":  # in nanoseconds they would come out as bare integers
        value = value.astype(f"{value.dtype.kind}8[us]")
    plain = value.item()
    return _described(value) if type(plain) is type(value) else scalar(plain)


def tally(values: Any) -> dict[str, int]:
    """Count a list or Series by value, as text; null counts under ``null``."""
    if is_frame(values):
        return {f"<map of {values.shape[1]}>": len(values)} if len(values) else {}
    if is_series(values):
        if str(values.dtype) != "object":  # cells of an object column need not be hashable
            return _texts(pair for part in _parts(values) for pair in part)
        values = values.to_numpy()
    kinds = set(map(type, values))
    if kinds <= _CHEAP and not kinds >= {bool, int}:  # True and 1 are one key to a Counter
        return _texts(Counter(values).items())
    return _texts((value, 1) for value in values)


def _parts(values: Any) -> Iterator[Iterator[tuple[Any, int]]]:
    """Count a column piece by piece: for all at once pandas would take three times its memory."""
    for start in range(0, len(values), _ROWS):
        part = values.iloc[start : start + _ROWS].value_counts(dropna=False, sort=False)
        yield zip(part.index.tolist(), part.tolist(), strict=True)


def _texts(counts: Iterable[tuple[Any, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for value, count in counts:
        if count:
            key = _text(value)
            found[key] = found.get(key, 0) + count
    return found


def capped(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Keep the largest groups, largest first, and sum the rest under ``(other)``."""
    other = counts.get(OTHER, 0)
    named = [(key, count) for key, count in counts.items() if key != OTHER]
    kept = heapq.nsmallest(limit, named, key=lambda pair: -pair[1])
    other += sum(count for _, count in named) - sum(count for _, count in kept)
    return dict(kept) | ({OTHER: other} if other else {})


def _list(path: Path, found: Any) -> Any:
    if isinstance(found, list | tuple) or is_frame(found) or is_series(found):
        return found
    raise PathError(f"{path.text}: is {a(describe(found))}, and only a list can be counted")


def _text(value: Any) -> str:
    """Write a value as the key of a group, the way JSON would."""
    if type(value) is str:
        return _cut(value)
    plain = scalar(value)
    if plain is None or isinstance(plain, bool):
        return {None: "null", True: "true", False: "false"}[plain]
    return str(plain)


def _cut(text: str) -> str:
    text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + _CUT
    # lone surrogates are no text: neither JSON nor a file can hold them
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _identity(value: Any) -> Any:
    """Tell 1, 1.0 and true apart, and give maps something to be told apart by."""
    if isinstance(value, dict):
        return (dict, *((key, type(item), item) for key, item in value.items()))
    return type(value), value
