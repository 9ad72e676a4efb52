"""Placeholders: how one node's text refers to parameters, results and items.

Each is resolved in one pass over the text as written, so a value that happens to
look like a placeholder is never expanded again. ``{{artifacts.x}}`` is the text
``{artifacts.x}``; braces that name nothing known stay as they are.
"""

from __future__ import annotations

import functools
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import PlaceholderError
from planbench.plan.script_values import written as in_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MAX_DEPTH: Final = 100
_LONGEST_NUMBER: Final = 18

_NODE = r"[A-Za-z][A-Za-z0-9_\-]*"
_FIELDS = r"(?:\.[A-Za-z0-9_\-]++)*+"  # nothing is given back, so a long one takes no memory
_ALMOST: Final = re.compile(r"\{(?:params|nodes|artifacts|env)\.[^{}]*\}")
_NO_ITEMS: Final = ""  # no alias is empty: it marks a node that has no items
_ITEM_NAMES: Final = ("item", "index")


class Placeholder(NamedTuple):
    """One placeholder as read: its family, the name, the fields after it.

    ``family`` is ``params``, ``nodes``, ``artifacts``, ``env``, ``item`` or
    ``index``; ``name`` is empty for the last two.
    """

    family: str
    name: str
    fields: tuple[str, ...]
    text: str


class Scope:
    """Where the values come from while one call's arguments are resolved."""

    __slots__ = ("artifact", "index", "item", "ref", "secret")

    def __init__(
        self,
        artifact: Callable[[str], Any],
        ref: Callable[[str], Any],
        item: Any = None,
        index: int = -1,
        secret: Callable[[str], str] | None = None,
    ) -> None:
        self.artifact = artifact
        self.ref = ref
        self.item = item
        self.index = index
        self.secret = secret


@functools.lru_cache(maxsize=256)
def _body(alias: str | None) -> str:
    items = "item" if alias in (None, "item") else f"item|{re.escape(str(alias))}"
    return (
        rf"params\.(?P<params>[A-Za-z_][A-Za-z0-9_]*)"
        rf"|nodes\.(?P<nodes>{_NODE})\.output"
        rf"|artifacts\.(?P<artifacts>{_NODE})"
        rf"|env\.(?P<env>[A-Za-z_][A-Za-z0-9_]*)"
        rf"|(?P<index>index)"
        rf"|(?P<item>(?:{items}){_FIELDS})"
    )


@functools.lru_cache(maxsize=256)
def pattern(alias: str | None) -> re.Pattern[str]:
    """Give what finds placeholders, and as ``quoted`` those in double braces."""
    body = _body(alias)
    quoted = re.sub(r"\?P<\w+>", "?:", body)
    return re.compile(rf"(?P<quoted>\{{\{{(?:{quoted})\}}\}})|\{{(?:{body})\}}")


@functools.lru_cache(maxsize=256)
def bare(alias: str | None) -> re.Pattern[str]:
    """Give what finds placeholders, also inside of double braces."""
    return re.compile(rf"\{{(?:{_body(alias)})\}}")


def scan(text: str, alias: str | None = None) -> list[str | Placeholder]:
    """Split a text into literal pieces and placeholders, in order."""
    if "{" not in text:
        return [text] if text else []
    pieces: list[str | Placeholder] = []
    literal: list[str] = []
    end = 0
    for match in pattern(alias).finditer(text):
        literal.append(text[end : match.start()])
        end = match.end()
        family = match.lastgroup or ""
        if family == "quoted":
            literal.append(match.group()[1:-1])
            continue
        if joined := "".join(literal):
            pieces.append(joined)
        literal.clear()
        name, fields = match.group(family), ()
        if family in _ITEM_NAMES:
            fields = tuple(name.split(".")[1:])
            name = ""
        pieces.append(Placeholder(family, name, fields, match.group()))
    literal.append(text[end:])
    if joined := "".join(literal):
        pieces.append(joined)
    return pieces


def walk(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Give every text inside nested lists and maps, keys left out, with its path."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, current = stack.pop()
        if isinstance(current, str):
            yield path, current
        elif isinstance(current, dict):
            stack.extend(((*path, key), item) for key, item in reversed(list(current.items())))
        elif isinstance(current, list | tuple):
            stack.extend(((*path, i), current[i]) for i in range(len(current) - 1, -1, -1))


def mentions(value: Any, sign: str) -> bool:
    """Whether any text inside nested lists and maps holds the sign; quicker than a walk."""
    stack = [value]
    while stack:
        current = stack.pop()
        if isinstance(current, str):
            if sign in current:
                return True
        elif isinstance(current, dict):
            stack.extend(current.values())
        elif isinstance(current, list | tuple):
            stack.extend(current)
    return False


def references(
    value: Any, alias: str | None = None
) -> Iterator[tuple[tuple[str | int, ...], Placeholder]]:
    """Give every placeholder in a value, with the path of the text that holds it."""
    for path, text in walk(value):
        if "{" in text:
            for piece in scan(text, alias):
                if isinstance(piece, Placeholder):
                    yield path, piece


def holds(text: str, family: str) -> bool:
    """Whether a text has a placeholder of a family; one that is written in double braces is none."""
    return f"{{{family}." in text and any(
        isinstance(piece, Placeholder) and piece.family == family for piece in scan(text)
    )


def near_misses(text: str, alias: str | None = None) -> list[str]:
    """Give braces that start like a placeholder and are none, such as ``{artifacts.x.rows}``."""
    if "{" not in text:
        return []
    rest = pattern(alias).sub("", text)
    return _ALMOST.findall(rest)


def escape(text: str, alias: str | None = None) -> str:
    """Write a text so that resolving it gives the text back, whatever it holds."""
    if "{" not in text:
        return text
    return bare(alias).sub(lambda match: "{" + match.group() + "}", text)


def as_text(value: Any) -> str:
    """Write a value inside a text: strings and dates as they are, anything else as JSON.

    Raises PlaceholderError for a value that cannot be written, being nested too deep.
    """
    try:
        return in_text(value)
    except RecursionError:
        msg = f"a {type(value).__name__} cannot be written into a text: it is nested too deep"
        raise PlaceholderError(msg) from None
    except ValueError as error:  # an integer of thousands of digits
        msg = f"a value cannot be written into a text: {error}"
        raise PlaceholderError(msg) from None


class Template:
    """A value with placeholders, compiled once and resolved once per call.

    Without ``items`` there is no current item: ``{item}`` and ``{index}`` stay as written.
    Lists and maps are made anew at each call, so a tool that changes its argument
    changes no plan. Raises PlaceholderError on a value nested over 100 levels.
    """

    __slots__ = ("placeholders", "resolve")

    def __init__(self, value: Any, alias: str | None = None, *, items: bool = True) -> None:
        self.placeholders = tuple(
            piece
            for _, piece in references(value, alias)
            if items or piece.family not in _ITEM_NAMES
        )
        self.resolve: Callable[[Scope], Any] = _compile(value, alias if items else _NO_ITEMS, 0)


def _compile(value: Any, alias: str | None, depth: int) -> Callable[[Scope], Any]:
    if depth > MAX_DEPTH:
        msg = f"nested deeper than {MAX_DEPTH} levels"
        raise PlaceholderError(msg)
    if isinstance(value, str):
        if alias == _NO_ITEMS:
            return _compile_text(_literal_items(value), value)
        return _compile_text(scan(value, alias), value)
    if isinstance(value, dict):
        return _compile_map(value, alias, depth)
    if isinstance(value, list | tuple):
        return _compile_list(value, alias, depth)
    return lambda _scope: value


def _literal_items(text: str) -> list[str | Placeholder]:
    """Scan a text in which items are no placeholders; literal neighbours become one piece."""
    pieces: list[str | Placeholder] = []
    for piece in scan(text):
        literal = isinstance(piece, str) or piece.family in _ITEM_NAMES
        said = piece.text if isinstance(piece, Placeholder) and literal else piece
        if literal and pieces and isinstance(pieces[-1], str):
            pieces[-1] += str(said)
        else:
            pieces.append(said)
    return pieces


def _compile_map(value: Mapping[str, Any], alias: str | None, depth: int) -> Callable[[Scope], Any]:
    """Compile a map so that what is no placeholder is copied with the map, and not made each time."""
    fixed: dict[str, Any] = dict.fromkeys(value)
    parts = []
    for key, item in value.items():
        if item is None or (isinstance(item, str | int | float) and not _moves(item)):
            fixed[key] = item
        else:
            parts.append((key, _compile(item, alias, depth + 1)))
    if len(parts) == 1:
        ((one, only),) = parts
        if len(fixed) == 1:
            return lambda scope: {one: only(scope)}

        def resolve_one(scope: Scope) -> dict[str, Any]:
            made = fixed.copy()
            made[one] = only(scope)
            return made

        return resolve_one

    def resolve(scope: Scope) -> dict[str, Any]:
        made = fixed.copy()
        for key, part in parts:
            made[key] = part(scope)
        return made

    return resolve


def _moves(value: Any) -> bool:
    return isinstance(value, str) and "{" in value


def _compile_list(value: Sequence[Any], alias: str | None, depth: int) -> Callable[[Scope], Any]:
    parts = [_compile(item, alias, depth + 1) for item in value]
    found = [scan(item) if isinstance(item, str) else [] for item in value]
    names = [
        one[0].name
        for one in found
        if len(one) == 1 and isinstance(one[0], Placeholder) and one[0].family == "artifacts"
    ]
    if len(names) == len(parts):  # results and nothing else, as of a node that joins others
        return lambda scope: list(map(scope.artifact, names))
    return lambda scope: [part(scope) for part in parts]


def _compile_text(pieces: list[str | Placeholder], written: str) -> Callable[[Scope], Any]:
    if not pieces:
        return lambda _scope: written
    if len(pieces) == 1:
        piece = pieces[0]
        if isinstance(piece, str):
            return lambda _scope: piece
        return _compile_placeholder(piece)
    parts = [p if isinstance(p, str) else _compile_placeholder(p) for p in pieces]
    return lambda scope: "".join(
        part if isinstance(part, str) else as_text(part(scope)) for part in parts
    )


def _compile_placeholder(piece: Placeholder) -> Callable[[Scope], Any]:
    name, fields = piece.name, piece.fields
    if piece.family == "item" and fields:
        return lambda scope: _field(scope.item, fields, piece.text)
    families: dict[str, Callable[[Scope], Any]] = {
        "artifacts": lambda scope: scope.artifact(name),
        "nodes": lambda scope: scope.ref(name),
        "index": attrgetter("index"),
        "item": attrgetter("item"),
        "env": lambda scope: _secret(scope, name),
        "params": lambda _scope: _unbound(piece),
    }
    return families[piece.family]


def _unbound(piece: Placeholder) -> Any:
    msg = f"{piece.text} has no value: give params={{{piece.name!r}: ...}}"
    raise PlaceholderError(msg)


def _secret(scope: Scope, name: str) -> str:
    if scope.secret is None:
        msg = f"{{env.{name}}} is not allowed for this tool"
        raise PlaceholderError(msg)
    return scope.secret(name)


def _number(field: str) -> int | None:
    """Give the number that a field is written as: the columns of a frame may be numbers."""
    plain = field.isascii() and field.isdecimal() and len(field) <= _LONGEST_NUMBER
    return int(field) if plain and str(int(field)) == field else None


def _field(value: Any, fields: tuple[str, ...], text: str) -> Any:
    for field in fields:
        if isinstance(value, dict):
            key: Any = field
            if field not in value:
                key = _number(field)
            if key not in value:
                known = ", ".join(map(str, list(value)[:8]))
                msg = f"{text}: the item has no field {field!r}; it has {known or 'none'}"
                raise PlaceholderError(msg)
            value = value[key]
        elif isinstance(value, list | tuple) and field.isdecimal() and int(field) < len(value):
            value = value[int(field)]
        elif (
            not field.startswith("_")
            and hasattr(value, field)
            and not callable(getattr(value, field))
        ):
            value = getattr(value, field)
        else:
            msg = f"{text}: {type(value).__name__} has no field {field!r}"
            raise PlaceholderError(msg)
    return value
