"""Guards in short: ``diff.n_new > 0`` for ``ctx.artifacts.diff.n_new > 0``.

``fetch.status`` stands for ``ctx.status.fetch``. A name is taken for a node where it
starts a path, a node has that id, and it means nothing else to CEL; inside quoted
texts, after a dot and where a macro binds it, it stays what it is. An id with a hyphen
has no short form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.edges import guard_edges
from planbench.plan.guard_tokens import Tokens
from planbench.plan.guards import MAX_GUARD
from planbench.plan.rename import rename_in_guard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from planbench.plan.guard_tokens import Variable

STATUS: Final = "status"

_CTX: Final = "ctx"
_FAMILIES: Final = frozenset({"artifacts", STATUS})
_OF_CEL: Final = frozenset(
    re.findall(
        r"\w+",
        "ctx true false null in as break const continue else for function if import let loop "
        "package namespace return var void while bool bytes double duration dyn int list map "
        "null_type optional_type string timestamp type uint has size matches cel math strings "
        "sets optional base64 regex google",
    )
)
_NO_FIELDS: Final = frozenset({"in", "true", "false", "null"})
_FIRST: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\.")
_HYPHENED: Final = re.compile(r"(?<![\w.\-])([A-Za-z]\w*(?:-\w+)+)\s*\.")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED: Final = re.compile(r"""(["'])([^"'\\\n]*)\1""")
_FIELDS: Final = ("paths", "counts", "group_counts")


class Names(NamedTuple):
    """The ids of a plan's nodes, and those whose node has a facet called ``status``."""

    ids: frozenset[str]
    ambiguous: frozenset[str] = frozenset()


def names_of(facets: Mapping[str, Any]) -> Names:
    """Take the names from the ids of nodes and the facets of each, in either form."""
    return Names(
        frozenset(facets), frozenset(name for name, held in facets.items() if _has_status(held))
    )


def _has_status(facets: Any) -> bool:
    if not isinstance(facets, dict):
        return False
    held = (facets.get(kind) for kind in _FIELDS)
    return STATUS in facets or any(isinstance(map_, dict) and STATUS in map_ for map_ in held)


class _Short(NamedTuple):
    """One short reference: the node, the field after it, and where both stand."""

    node: str
    field: str
    start: int
    node_end: int
    end: int
    bound: frozenset[str]


def lengthened(text: str, names: Names) -> str:
    """Give a guard in the long form; what is long already stays as it is."""
    pieces: list[str] = []
    end = 0
    for found in _short(text, names.ids):
        long = f"ctx.artifacts.{found.node}"
        stop = found.node_end
        if found.field == STATUS:
            long, stop = f"ctx.status.{found.node}", found.end
        pieces += [text[end : found.start], long]
        end = stop
    return "".join([*pieces, text[end:]]) if pieces else text


def ambiguous(text: str, names: Names) -> str | None:
    """Name the first node whose ``.status`` may be its status or a facet of its own."""
    if not names.ambiguous or names.ambiguous.isdisjoint(_FIRST.findall(text)):
        return None
    return next(
        (
            found.node
            for found in _short(text, names.ids)
            if found.field == STATUS and found.node in names.ambiguous
        ),
        None,
    )


def shortened(text: str, names: Names) -> str:
    """Give a guard in the short form, as far as that reads back as the same text."""
    if _CTX not in text or len(text) > MAX_GUARD:
        return text
    tokens = Tokens(text)
    if tokens.binds(_CTX):
        return text
    pieces: list[str] = []
    end = 0
    for variable in tokens.variables():
        reference = _dotted(tokens, variable)
        if reference is None:
            continue
        family, node, place = reference
        if not _may_be_short(node, names.ids) or node in variable.bound:
            continue
        stop = tokens[place - 1].end
        if family == STATUS and node not in names.ambiguous and tokens.text_at(place) != "(":
            short = f"{node}.{STATUS}"
        elif family != STATUS and _is_facet(tokens, place):
            short = node
        else:
            continue
        pieces += [text[end : tokens[variable.place].start], short]
        end = stop
    found = "".join([*pieces, text[end:]])
    return found if pieces and lengthened(found, names) == text else text


def renamed(text: str, old: str, new: str, ids: Collection[str]) -> str:
    """Give a guard in either form that reads a node under its new id."""
    pieces: list[str] = []
    end = 0
    for found in _short(text, ids):
        if found.node != old:
            continue
        pieces.append(text[end : found.start])
        if _may_be_short(new, {new}) and new not in found.bound:
            pieces.append(new)
            end = found.node_end
        else:
            family = STATUS if found.field == STATUS else "artifacts"
            pieces.append(f"ctx.{family}{_member(new)}")
            end = found.end if found.field == STATUS else found.node_end
    return rename_in_guard("".join([*pieces, text[end:]]), {old: new})


def has_parameter(text: str) -> bool:
    """Whether a parameter stands in a guard outside of quoted texts."""
    return "{params." in text and any(token.kind == "param" for token in Tokens(text))


def reads(text: str) -> list[str]:
    """Name the nodes that a guard in the long form reads, in the order of the text."""
    if len(text) > MAX_GUARD:
        return []
    tokens = Tokens(text)
    found: dict[str, None] = {}
    for variable in tokens.variables():
        if tokens[variable.place].text != _CTX:
            continue
        family = tokens.word_after_dot(variable.place + 1)
        if family == "errors":
            continue
        node = None
        if family in _FAMILIES:
            place = variable.place + 3
            node = tokens.word_after_dot(place)
            node = _indexed(tokens, place) if node is None else node
        if node is None:  # it is written in some other way, which only CEL can tell
            return list(dict.fromkeys(guard_edges(text)))
        found[node] = None
    return list(found)


def unknown(text: str, ids: Collection[str]) -> Iterator[str]:
    """Name what looks like a node in the short form, and is none that can be written so."""
    if len(text) > MAX_GUARD:
        return
    for match in _HYPHENED.finditer(_QUOTED.sub('""', text)):
        if match[1] in ids:
            yield match[1]
    tokens = Tokens(text)
    for place, _ in tokens.variables():
        name = tokens[place].text
        if name not in _OF_CEL and name not in ids and _is_facet(tokens, place + 1):
            yield name


def _short(text: str, ids: Collection[str]) -> Iterator[_Short]:
    if len(text) > MAX_GUARD:  # it is refused when it is compiled
        return
    if not any(_may_be_short(name, ids) for name in _FIRST.findall(text)):
        return
    tokens = Tokens(text)
    if tokens.binds(_CTX):  # what the long form begins with would be another thing
        return
    for place, bound in tokens.variables():
        node = tokens[place]
        field = tokens.word_after_dot(place + 1)
        if field is None or not _may_be_short(node.text, ids):
            continue
        if not _is_facet(tokens, place + 1):
            continue
        yield _Short(node.text, field, node.start, node.end, tokens[place + 2].end, bound)


def _is_facet(tokens: Tokens, place: int) -> bool:
    """Whether a field is read there, and no method is called."""
    return tokens.word_after_dot(place) is not None and tokens.text_at(place + 2) != "("


def _may_be_short(name: str, ids: Collection[str]) -> bool:
    return name in ids and name not in _OF_CEL and _WORD.fullmatch(name) is not None


def _dotted(tokens: Tokens, variable: Variable) -> tuple[str, str, int] | None:
    """Read ``ctx.artifacts.name`` or ``ctx.status.name``, and give the place after it."""
    if tokens[variable.place].text != _CTX:
        return None
    family = tokens.word_after_dot(variable.place + 1)
    node = tokens.word_after_dot(variable.place + 3)
    if family is None or node is None or family not in _FAMILIES:
        return None
    return family, node, variable.place + 5


def _indexed(tokens: Tokens, place: int) -> str | None:
    """Read ``["name"]`` where the name is written without escapes."""
    if tokens.text_at(place) != "[" or tokens.text_at(place + 2) != "]":
        return None
    plain = _QUOTED.fullmatch(tokens.text_at(place + 1))
    return plain[2] if plain else None


def _member(name: str) -> str:
    return f".{name}" if _WORD.fullmatch(name) and name not in _NO_FIELDS else f'["{name}"]'
