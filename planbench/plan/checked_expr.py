"""Which variables a compiled CEL expression looks at, read from its serialised form.

CEL serialises a checked expression as a protobuf message. The few fields that are
needed are read here by their numbers (``cel/expr/syntax.proto``), since the library
brings no descriptors, and since text is no safe source: a name inside a string, or one
bound by a macro, is no reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    _Part = tuple[bytes, frozenset[str], "Use | None"]
    """A part of the expression, the names bound in it, and what is done with it."""

_ANY_VALUE: Final = 2
_CHECKED_EXPR: Final = 4
_CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
_CONSTANT_STRING: Final = 6
_INDEX: Final = b"_[_]"
_NULL: Final = b"\x08\x00"
_IN: Final = b"@in"
_SIZE: Final = b"size"
_COMPARISONS: Final = frozenset([b"_==_", b"_!=_", b"_<_", b"_<=_", b"_>_", b"_>=_", b"startsWith"])

Message = dict[int, list[bytes]]

COMPARED: Final = "compared"
SIZED: Final = "sized"
ABSENT: Final = "absent"
Use = Literal["compared", "sized", "absent"] | tuple[str]
"""What is done with a value: it is compared with short literals or with null, or its size
is taken; a tuple holds the text that is looked for in it."""


class Reference(NamedTuple):
    """A path from a variable: ``names`` as far as they are literal.

    ``dynamic`` says that the path goes on through a computed index. ``use`` is None where
    anything else may be done with the value than ``Use`` names.
    """

    names: tuple[str, ...]
    dynamic: bool
    use: Use | None = None


def references(serialized: bytes, variable: str, short: int = 200) -> list[Reference]:
    """Give every path that starts at a variable, in the order of the text.

    A text literal is short below so many bytes; so are all variables that are not bound.
    """
    root = _message(_message(serialized)[_ANY_VALUE][0])[_CHECKED_EXPR][0]
    found: dict[Reference, None] = {}
    stack: list[_Part] = [(root, frozenset(), None)]
    while stack:
        expression, bound, use = stack.pop()
        names, dynamic, keys, start = _follow(_message(expression))
        inner: list[_Part] = [(key, bound, None) for key in keys]
        if _IDENT in start:
            name = _text(_message(start[_IDENT][0]).get(1, [b""])[0]).removeprefix(".")
            if name == variable and name not in bound:
                found[Reference(names, dynamic, None if dynamic else use)] = None
        else:
            inner = [*_children(start, bound, variable, short), *inner]
        stack.extend(reversed(inner))
    return list(found)


def _follow(node: Message) -> tuple[tuple[str, ...], bool, list[bytes], Message]:
    """Go from a chain of fields and indexes down to where it starts.

    Gives the literal names, whether a computed index follows them, the expressions of
    the computed ones, and the start.
    """
    names: list[str] = []
    dynamic = False
    keys: list[bytes] = []
    while True:
        if _SELECT in node:
            select = _message(node[_SELECT][0])
            names.append(_text(select[2][0]))
            node = _message(select[1][0])
            continue
        call = _message(node[_CALL][0]) if _CALL in node else {}
        if call.get(2) != [_INDEX]:
            return tuple(reversed(names)), dynamic, keys, node
        operand, key = call[3]
        constant = _message(_message(key).get(_CONSTANT, [b""])[0])
        if _CONSTANT_STRING in constant:
            names.append(_text(constant[_CONSTANT_STRING][0]))
        else:
            names.clear()
            dynamic = True
            keys.insert(0, key)
        node = _message(operand)


def _children(node: Message, bound: frozenset[str], variable: str, short: int) -> Iterator[_Part]:
    for call in map(_message, node.get(_CALL, ())):
        operands = [*call.get(1, ()), *call.get(3, ())]
        uses = _uses(call[2][0], operands, {variable, *bound}, short)
        yield from ((child, bound, use) for child, use in zip(operands, uses, strict=True))
    for elements in map(_message, node.get(_LIST, ())):
        yield from ((child, bound, None) for child in elements.get(1, ()))
    for struct in map(_message, node.get(_STRUCT, ())):
        for entry in map(_message, struct.get(2, ())):
            yield from ((child, bound, None) for child in (*entry.get(3, ()), *entry.get(4, ())))
    for loop in map(_message, node.get(_COMPREHENSION, ())):
        yield from ((child, bound, None) for child in (*loop.get(2, ()), *loop.get(4, ())))
        variables = (*loop.get(1, ()), *loop.get(3, ()), *loop.get(8, ()))
        inside = bound.union(map(_text, variables))
        yield from ((child, inside, None) for field in (5, 6, 7) for child in loop.get(field, ()))


def _uses(function: bytes, operands: list[bytes], known: set[str], short: int) -> list[Use | None]:
    """Say for each operand of a call what is done with it."""
    nothing: list[Use | None] = [None] * len(operands)
    if function == _SIZE:
        return [SIZED for _ in operands]
    if len(operands) != 2:  # noqa: PLR2004 - all that follow compare two
        return nothing
    left, right = map(_message, operands)
    if function in _COMPARISONS:
        second = _compared(left, known, short) if function != b"startsWith" else None
        return [_compared(right, known, short), second]
    if function != _IN:
        return nothing
    if _LIST in right:
        items = map(_message, _message(right[_LIST][0]).get(1, ()))
        uses = {_compared(item, known, short) for item in items}
        return [None if None in uses else COMPARED, None]
    wanted = _message(left[_CONSTANT][0]).get(_CONSTANT_STRING) if _CONSTANT in left else None
    return [None, (_text(wanted[0]),) if wanted else None]


def _compared(other: Message, known: set[str], short: int) -> Use | None:
    """Say what it is to be compared with that."""
    if _CONSTANT in other:
        constant = other[_CONSTANT][0]
        if constant == _NULL:
            return ABSENT
        return COMPARED if len(_message(constant).get(_CONSTANT_STRING, [b""])[0]) < short else None
    is_variable = _IDENT in other and _text(_message(other[_IDENT][0])[1][0]) not in known
    return COMPARED if is_variable else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _message(data: bytes) -> Message:
    """Split a message into its length-delimited fields; numbers are not needed."""
    fields: Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 2:  # noqa: PLR2004 - the wire types are numbers of the protobuf format
            size, at = _varint(data, at)
            fields.setdefault(number, []).append(data[at : at + size])
            at += size
        elif wire == 0:
            _, at = _varint(data, at)
        else:
            at += 8 if wire == 1 else 4
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the high bit says that more bytes follow
            return value, at
        shift += 7
