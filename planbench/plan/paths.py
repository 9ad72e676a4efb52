"""Paths: how a facet or a fan-out points into a result.

Three constructs and no more::

    path  = first step*
    first = name | "[]" | "[" digits "]"
    step  = "." name | "[]" | "[" digits "]"
    name  = one or more letters, digits, "_" and "-"

``findings[].severity`` is the severity of each finding, ``metadata.scanner`` one
value, ``findings[0].id`` the id of the first. A path with ``[]`` always gives a flat
list, however many brackets it holds.

A name is a key of a map, a column of a DataFrame, a label of a Series or a public
attribute of an object. ``[]`` are the elements of a list, tuple, Series or array, and
the rows of a DataFrame as maps. Frames are never copied, and pandas is never imported.

Inside a list null stays null: ``hosts[].owner.name`` gives None for a host whose owner
is null, and a null list holds no elements. A field that an element does not have is an
error. Where things are counted, ``fill_missing`` takes it for null, unless no element
has the field: that stays an error, since a misspelled name must not count as anything.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import PathError
from planbench.plan.shapes import a, describe, is_frame, is_series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EACH: Final = "[]"
MAX_PATH: Final = 1000
_SHOWN: Final = 8
_STEP: Final = re.compile(r"(?P<each>\[\])|\[(?P<index>[0-9]{1,9})\]|(?P<dot>\.)?(?P<name>[\w\-]+)")
_BYTES: Final = (bytes, bytearray, memoryview)
_PLAIN: Final = (str, *_BYTES, int, float, complex)
_MISSING: Final = object()


class Path:
    """One path, compiled; ``steps`` holds names, indexes and ``"[]"`` in order."""

    __slots__ = ("_moves", "gives_list", "steps", "text")

    def __init__(self, text: str, steps: tuple[str | int, ...]) -> None:
        self.text = text
        self.steps = steps
        self.gives_list = EACH in steps
        self._moves: tuple[_Move, ...] | None = None  # made when something is read

    def read(self, value: Any, *, fill_missing: bool = False) -> Any:
        """Give what the path points at; raises PathError that says what is there instead."""
        found = self.column(value, fill_missing=fill_missing)
        if self.gives_list and type(found) is not list:
            return _elements(found, _Place(self.text, self.steps))
        return found

    def column(self, value: Any, *, fill_missing: bool = False) -> Any:
        """Give the same as ``read``, with a frame or Series left as it is.

        For counting: a column of a DataFrame comes as its Series, uncopied.
        """
        moves = self._moves
        if moves is None:
            moves = self._moves = _moves(self.text, self.steps)
        spread = False
        for single, many, spreads in moves:
            value = (many if spread else single)(value, fill_missing)
            spread = spread or spreads
        return value

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@functools.lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Compile a path; raises PathError that names the place and the right form."""
    if not isinstance(text, str):
        raise PathError(f"a path is text, not {a(describe(text))}")
    if not text:
        raise PathError("a path cannot be empty; [] alone are the elements of the result")
    if len(text) > MAX_PATH:
        raise PathError(f"a path holds at most {MAX_PATH} characters, and this one {len(text)}")
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (match["name"] and bool(match["dot"]) != bool(steps)):
            raise PathError(
                f"the path {text!r} cannot be read at character {at + 1}",
                hint=_advice(text[at:], after_bracket=text[:at].endswith("]")),
            )
        if match["each"]:
            steps.append(EACH)
        elif match["index"]:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"])
        at = match.end()
    return Path(text, tuple(steps))


def _advice(rest: str, *, after_bracket: bool) -> str:
    cases = (
        ("[*]", "write [] for every element"),
        ("[-", "an index counts from 0, and there is none from the end"),
        ("[", "write .name for a field, [] for every element, [0] for the first"),
        ("$", "leave the $ out: a path starts at the result"),
        (".[", "write no dot before a bracket"),
        (".", "a path starts with a name, and a name follows each dot"),
    )
    for start, advice in cases:
        if rest.startswith(start):
            return advice
    if after_bracket:
        return "write a dot between ] and a name, as in findings[].severity"
    return "a path is made of names, [] and [0], as in findings[].severity"


class _Place:
    """Where a step stands in its path, to say so when it does not fit."""

    __slots__ = ("prefix", "text")

    def __init__(self, text: str, before: tuple[str | int, ...]) -> None:
        self.text = text
        self.prefix = ""
        for step in before:
            if step == EACH or isinstance(step, int):
                self.prefix += EACH if step == EACH else f"[{step}]"
            else:
                self.prefix += f".{step}" if self.prefix else step

    def error(self, problem: str, element: int | None = None) -> PathError:
        subject = repr(self.prefix) if self.prefix else "the result"
        if element is not None:
            subject = f"element {element} of {subject}"
        return PathError(f"{self.text}: {subject} {problem}")


class _Move(NamedTuple):
    """One step as two functions, on one value and on each of a list.

    ``spreads`` says that the step makes a list of one value.
    """

    single: Callable[[Any, bool], Any]
    many: Callable[[list[Any], bool], list[Any]]
    spreads: bool


def _moves(text: str, steps: tuple[str | int, ...]) -> tuple[_Move, ...]:
    """Make the moves; ``[].name`` is one, so that a column is read as a column."""
    moves: list[_Move] = []
    at = 0
    while at < len(steps):
        step, place = steps[at], _Place(text, steps[:at])
        following = steps[at + 1] if at + 1 < len(steps) else None
        if isinstance(step, int):
            moves.append(_item_move(step, place))
        elif step != EACH:
            moves.append(_field_move(step, place))
        elif isinstance(following, str) and following != EACH:
            at += 1
            rows = _Place(text, steps[:at])
            moves.append(_each_field_move(following, place, rows, last=at + 1 == len(steps)))
        else:
            moves.append(_each_move(place, last=following is None))
        at += 1
    return tuple(moves)


def _field_move(name: str, place: _Place) -> _Move:
    def single(value: Any, _fill: bool) -> Any:
        found = _get(value, name, place, None)
        if found is _MISSING:
            raise place.error(_no_field(value, name))
        return found

    def many(values: list[Any], fill: bool) -> list[Any]:
        return _fields(values, name, place, fill=fill)

    return _Move(single, many, spreads=False)


def _item_move(index: int, place: _Place) -> _Move:
    def single(value: Any, _fill: bool) -> Any:
        found = _item(value, index, place, None)
        if found is _MISSING:
            raise place.error(f"has no element {index}: it is {a(describe(value))}")
        return found

    def many(values: list[Any], fill: bool) -> list[Any]:
        found = [None if v is None else _item(v, index, place, i) for i, v in enumerate(values)]
        return _settle(
            found,
            values,
            place,
            lambda v: f"has no element {index}: it is {a(describe(v))}",
            fill=fill,
        )

    return _Move(single, many, spreads=False)


def _each_move(place: _Place, *, last: bool) -> _Move:
    def single(value: Any, _fill: bool) -> Any:
        if last and (is_frame(value) or is_series(value)):
            return value
        return _elements(value, place)

    def many(values: list[Any], _fill: bool) -> list[Any]:
        return _flat(values, place)

    return _Move(single, many, spreads=True)


def _each_field_move(name: str, place: _Place, rows: _Place, *, last: bool) -> _Move:
    def single(value: Any, fill: bool) -> Any:
        if type(value) is not list and is_frame(value):
            series = _get(value, name, place, None)
            if series is _MISSING:
                raise place.error(_no_field(value, name))
            return series if last else _elements(series, place)
        return _fields(_elements(value, place), name, rows, fill=fill)

    def many(values: list[Any], fill: bool) -> list[Any]:
        if not any(map(is_frame, values)):
            return _fields(_flat(values, place), name, rows, fill=fill)
        found: list[Any] = []
        for value in values:  # a table gives its column, and its rows are never made
            if value is not None:
                part = single(value, fill)
                found += part if type(part) is list else _elements(part, place)
        return found

    return _Move(single, many, spreads=True)


def _fields(rows: list[Any], name: str, place: _Place, *, fill: bool) -> list[Any]:
    try:  # the rows of most results are plain dicts that all have the field
        return [row[name] if type(row) is dict else _plain_get(row, name) for row in rows]
    except (KeyError, TypeError):
        pass
    found = [None if row is None else _get(row, name, place, i) for i, row in enumerate(rows)]
    return _settle(found, rows, place, lambda row: _no_field(row, name), fill=fill)


def _plain_get(row: Any, name: str) -> Any:
    if row is None:
        return None
    raise KeyError(name)


def _settle(
    found: list[Any],
    rows: list[Any],
    place: _Place,
    problem: Callable[[Any], str],
    *,
    fill: bool,
) -> list[Any]:
    """Answer for what is missing: an error, or null where something else has it."""
    missing = [i for i, value in enumerate(found) if value is _MISSING]
    if not missing:
        return found
    nulls = sum(row is None for row in rows)
    if not fill or len(missing) + nulls == len(rows):
        raise place.error(problem(rows[missing[0]]), missing[0])
    return [None if value is _MISSING else value for value in found]


def _flat(values: list[Any], place: _Place) -> list[Any]:
    return [x for i, v in enumerate(values) if v is not None for x in _elements(v, place, i)]


def _get(value: Any, name: str, place: _Place, element: int | None) -> Any:
    """Read a field of one value, or give _MISSING; raises when it can have no fields."""
    if type(value) is dict or isinstance(value, Mapping):
        return value.get(name, _MISSING)
    if is_frame(value):
        return _column(value, name, place, element)
    if is_series(value):
        return value.loc[name] if name in value.index else _MISSING
    if value is None or isinstance(value, _PLAIN):
        raise place.error(f"is {a(describe(value))}, and has no field {name!r}", element)
    if isinstance(value, list | tuple | Sequence) and not hasattr(value, "_fields"):
        raise place.error(
            f"is {a(describe(value))}; write {place.prefix}[].{name} for a field of each", element
        )
    if name.startswith("_"):
        return _MISSING
    try:
        found = getattr(value, name, _MISSING)
    except Exception as error:
        message = f"has a field {name!r} that raised {type(error).__name__}"
        raise place.error(message, element) from error
    return _MISSING if callable(found) else found


def _column(frame: Any, name: str, place: _Place, element: int | None) -> Any:
    if name not in frame.columns:
        return _MISSING
    found = frame[name]
    if is_frame(found) and frame.columns.nlevels == 1:
        raise place.error(f"has {found.shape[1]} columns {name!r}; give each its own name", element)
    return found


def _no_field(value: Any, name: str) -> str:
    names = list(_shown(_names(value)))
    more = ", ..." if len(names) > _SHOWN else ""
    return f"has no field {name!r}; it has {', '.join(names[:_SHOWN]) or 'none'}{more}"


def _names(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value
    if is_frame(value):
        return list(value.columns[: _SHOWN + 1])
    if is_series(value):
        return list(value.index[: _SHOWN + 1])
    kind = type(value)
    for attribute in ("model_fields", "__dataclass_fields__", "_fields"):
        if fields := getattr(kind, attribute, None):
            return list(fields)
    return [name for name in getattr(value, "__dict__", ()) if not name.startswith("_")]


def _shown(names: Iterable[Any]) -> Iterable[str]:
    for count, name in enumerate(names):
        if count > _SHOWN:
            return
        yield name[:40] if isinstance(name, str) else repr(name)[:40]


def _item(value: Any, index: int, place: _Place, element: int | None) -> Any:
    if isinstance(value, list | tuple):
        return value[index] if index < len(value) else _MISSING
    rows = is_frame(value) or is_series(value)
    if rows or (
        hasattr(value, "tolist") and getattr(value, "ndim", None)
    ):  # no list of a long array
        found = _elements((value.iloc if rows else value)[index : index + 1], place, element)
    else:
        found = _elements(value, place, element, wants=f"[{index}]")[index : index + 1]
    return found[0] if found else _MISSING


def _elements(
    value: Any, place: _Place, element: int | None = None, *, wants: str = EACH
) -> list[Any]:
    if type(value) is list:
        return value
    if is_frame(value):
        if not value.columns.is_unique:
            raise place.error("has several columns of one name; give each its own", element)
        rows: list[Any] = value.to_dict("records")
        return rows
    if not isinstance(value, _PLAIN):
        if hasattr(value, "tolist") and getattr(value, "ndim", None):
            made: list[Any] = value.tolist()
            return made
        if isinstance(value, Sequence):
            return list(value)
    keys = list(_shown(value))[:_SHOWN] if isinstance(value, Mapping) else None
    advice = "" if keys is None else f"; it has {', '.join(keys) or 'no keys'}"
    raise place.error(f"is {a(describe(value))}, and {wants} needs a list{advice}", element)
