"""A short name for what a tool does: it changes when the code or the signature changes."""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import inspect
import json
import types
from typing import TYPE_CHECKING, Any, Final

from planbench.tools.signature import layers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_DEPTH: Final = 4
_MAX_ITEMS: Final = 1000
_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, bytes})
_CONTAINERS: Final = (list, tuple, set, frozenset, dict)


def fingerprint(function: Any, schema: Mapping[str, Any]) -> str:
    """Give a hex digest of the source, the values bound to it and the parameters' schema.

    The same source gives the same digest in each process. Bound are defaults, closure
    variables and the arguments of partials, as far as they are plain values or functions;
    what a global name or an attribute of an object holds is not looked at.
    """
    digest = hashlib.blake2b(digest_size=16)
    for piece in (*_pieces(function, 0), json.dumps(schema, sort_keys=True, default=_type_name)):
        digest.update(piece.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _pieces(function: Any, depth: int) -> Iterator[str]:
    for layer in layers(function):
        if isinstance(layer, functools.partial):
            yield _said(layer.args, depth)
            yield _said(layer.keywords, depth)
        elif isinstance(layer, types.MethodType):
            yield _type_name(layer.__self__)
        elif inspect.isfunction(layer):
            yield _source(layer.__code__)
            yield _said(layer.__defaults__, depth)
            yield _said(layer.__kwdefaults__, depth)
            for name, cell in zip(layer.__code__.co_freevars, layer.__closure__ or (), strict=True):
                yield name
                yield _cell(cell, depth)
        else:
            yield getattr(layer, "__qualname__", _type_name(layer))


def _source(code: types.CodeType) -> str:
    """Give the text of the function; where there is none, its instructions."""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError, SyntaxError, IndexError):  # made by exec, or the file is gone
        return "\n".join(_instructions(code))


def _instructions(code: types.CodeType) -> Iterator[str]:
    yield f"{code.co_name} {code.co_varnames} {code.co_flags}"
    for one in dis.get_instructions(code):
        if isinstance(one.argval, types.CodeType):
            yield one.opname
            yield from _instructions(one.argval)
        else:
            yield f"{one.opname} {_said(one.argval, 0)}"


def _cell(cell: types.CellType, depth: int) -> str:
    try:
        return _said(cell.cell_contents, depth + 1)
    except ValueError:  # not filled yet
        return ""


def _said(value: Any, depth: int) -> str:
    """Write a bound value so that equal ones are written alike in every process."""
    if type(value) in _PLAIN:
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, enum.Enum):
        return f"{_type_name(value)}.{value.name}"
    if depth > _MAX_DEPTH or (isinstance(value, _CONTAINERS) and len(value) > _MAX_ITEMS):
        return _type_name(value)
    if isinstance(value, _CONTAINERS):
        return _said_inside(value, depth + 1)
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        return "|".join(_pieces(value, depth + 1))
    return _type_name(value)


def _said_inside(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        pairs = (f"{_said(key, depth)}={_said(item, depth)}" for key, item in value.items())
        return f"{{{','.join(sorted(pairs))}}}"
    parts = [_said(item, depth) for item in value]
    return f"[{','.join(parts if isinstance(value, list | tuple) else sorted(parts))}]"


def _type_name(value: Any) -> str:
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
