"""What a code object does and which names outside of it it reads, independent of line numbers."""

from __future__ import annotations

import dis
import hashlib
import types
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_SILENT: Final = frozenset({"PRECALL", "CACHE", "EXTENDED_ARG", "PUSH_NULL"})


class Import(NamedTuple):
    """An import inside of a function: ``level`` counts its leading dots."""

    name: str
    level: int
    taken: tuple[str, ...] | None


class Facts(NamedTuple):
    """``digest`` is of the instructions; a path is a name and the attributes read of it."""

    digest: str
    globals: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[str, ...], ...]
    imports: tuple[Import, ...]
    names: tuple[str, ...]


@lru_cache(maxsize=4096)
def facts(code: types.CodeType) -> Facts:
    """Read a code object and those nested in it."""
    digest = hashlib.blake2b(digest_size=16)
    read: dict[tuple[str, ...], None] = {}
    cells: dict[tuple[str, ...], None] = {}
    imports: dict[Import, None] = {}
    names: dict[str, None] = {}
    for one in _nested(code):
        digest.update(_written(one).encode("utf-8", "surrogatepass"))
        names.update(dict.fromkeys(one.co_names))
        _scan(one, read, cells, imports)
    return Facts(digest.hexdigest(), tuple(read), tuple(cells), tuple(imports), tuple(names))


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _written(code: types.CodeType) -> str:
    return repr(
        (
            code.co_name,
            code.co_flags,
            (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
            code.co_code,
            code.co_exceptiontable,
            (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
            [_constant(one) for one in code.co_consts],
        )
    )


def _constant(value: object) -> str:
    if isinstance(value, types.CodeType):
        return "code"  # written on its own, in its turn
    if isinstance(value, frozenset):
        return f"frozenset{sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"tuple{[_constant(one) for one in value]}"
    return f"{type(value).__name__}:{value!r}"


def _scan(
    code: types.CodeType,
    read: dict[tuple[str, ...], None],
    cells: dict[tuple[str, ...], None],
    imports: dict[Import, None],
) -> None:
    path: tuple[str, ...] = ()
    found = read
    before: list[dis.Instruction] = []
    for one in dis.get_instructions(code):
        if one.opname in _SILENT:
            continue
        if path and one.opname in _ATTRIBUTES:
            path = (*path, one.argval)
            before.append(one)
            continue
        if path:
            found[path] = None
            path = ()
        if one.opname in _GLOBALS or one.opname in _CELLS:
            path = (one.argval,)
            found = read if one.opname in _GLOBALS else cells
        elif one.opname == "IMPORT_NAME":
            level, taken = before[-2].argval, before[-1].argval
            imports[Import(one.argval, level, taken)] = None
        before.append(one)
    if path:
        found[path] = None
