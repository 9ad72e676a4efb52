"""What a declared parameter may be: values as a program gives them, or as text from a command line."""

from __future__ import annotations

import math
import numbers
import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.document import read_document
from planbench.plan.source import shown

if TYPE_CHECKING:
    from planbench.plan.model import ParamSpec

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_UNFIT: Final = object()
_FORMS: Final = {
    "bool": "true or false",
    "date": "2026-08-06",
    "datetime": "2026-08-06T12:30:00",
    "list": "[1, 2]",
    "dict": '{"a": 1}',
}


class Misfit(ValueError):
    """Raised for a value that is not of the declared type; ``fix`` says how one is written."""

    def __init__(self, message: str, fix: str | None) -> None:
        super().__init__(message)
        self.fix = fix


def fit(spec: ParamSpec, value: Any) -> Any:
    """Give a value as the declared type; text, as a command line gives it, is read.

    Dates come out as ISO text. Raises ValueError that continues "the parameter ...",
    for another type a Misfit.
    """
    found = _KINDS[spec.type](value)
    if found is _UNFIT:
        article = "an" if spec.type == "int" else "a"
        form = _FORMS.get(spec.type)
        fix = f"write it as {form}" if form else None
        raise Misfit(f"must be {article} {spec.type}, not {shown(value)}", fix)
    if spec.choices is not None:
        choices = [_KINDS[spec.type](choice) for choice in spec.choices]
        if not any(type(choice) is type(found) and choice == found for choice in choices):
            listed = ", ".join(shown(choice) for choice in spec.choices)
            raise ValueError(f"must be one of {listed}, not {shown(value)}")
    return found


def _text(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else _UNFIT


def _integer(value: Any) -> Any:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\s*-?[0-9]{1,4000}\s*", value) else _UNFIT
    if isinstance(value, bool):
        return _UNFIT
    if isinstance(value, float):
        return int(value) if value.is_integer() else _UNFIT
    try:
        return operator.index(value)
    except TypeError:
        return _UNFIT


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | numbers.Real):
        return _UNFIT
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return _UNFIT
    return number if math.isfinite(number) else _UNFIT


def _flag(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else _UNFIT


def _day(value: Any) -> Any:
    if isinstance(value, datetime):
        return _UNFIT
    if isinstance(value, date):
        return value.isoformat()
    try:
        return date.fromisoformat(value.strip()).isoformat() if isinstance(value, str) else _UNFIT
    except ValueError:
        return _UNFIT


def _moment(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    try:
        datetime.fromisoformat(value.strip() if isinstance(value, str) else "")
    except ValueError:
        return _UNFIT
    return value.strip()


def _collection(value: Any, kind: type) -> Any:
    if isinstance(value, str):
        document = read_document(value)
        value = document.value if not document.problems else None
    if kind is list and isinstance(value, tuple):
        return list(value)
    if kind is dict and isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, kind) else _UNFIT


_KINDS: Final[dict[str, Callable[[Any], Any]]] = {
    "str": _text,
    "int": _integer,
    "float": _number,
    "bool": _flag,
    "date": _day,
    "datetime": _moment,
    "list": lambda value: _collection(value, list),
    "dict": lambda value: _collection(value, dict),
}
