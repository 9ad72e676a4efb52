"""JSON as models write it: where an object ends, and the edits that make it JSON.

No value is read here. Comments, trailing commas, words of Python, other quotes and raw
line breaks between quotes are noted as edits; the reader of plans then reads the edited
text. What a text between quotes says stays the same, or is refused.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from planbench.plan.scalars import MAX_DIGITS
from planbench.plan.source import Edit, shown

if TYPE_CHECKING:
    from collections.abc import Collection

WRAPPER: Final = "plan"
"""The key under which a plan may stand whole."""

# Each repeat is possessive: a text that does not end is left after one look.
_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n]++)
    | (?P<string>"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+")
    | (?P<sign>[{}\[\],:])
    | (?P<word>[\w.+\-]++)
    | (?P<broken>"(?:[^"\\]++|\\.)*+")
    | (?P<single>'(?:[^'\\]++|\\.)*+')
    | (?P<curly>[“”„](?:[^“”„"\\\x00-\x1f]++|\\[^\x00-\x1f])*+[“”])
    | (?P<noise>//[^\r\n]*+|\#[^\r\n]*+|[^\S\ \t\r\n]|[\ufeff\u200b])
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?", re.ASCII)
_NEAR_NUMBER: Final = re.compile(r"[+\-.]*[0-9]")
_NO_NUMBERS: Final = frozenset({"nan", "inf", "infinity"})
_WORDS: Final = frozenset({"true", "false", "null"})
_OTHER_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_BREAK: Final = re.compile(r"\r\n|\n|\r")
_NOT_BREAK: Final = re.compile(r"[^\r\n]")
_OF_JSON: Final = frozenset('"\\/bfnrtu')
# escapes of JSON, and then one that is none
_FOREIGN: Final = re.compile(r"[^\\]*+(?:\\[\"\\/bfnrtu][^\\]*+)*+\\")
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_RAW: Final = re.compile(rf"{_ESCAPE.pattern}|[\x01-\x1f]", re.DOTALL)
_ESCAPED: Final = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}
_OPENING: Final = {"}": "{", "]": "["}
_FENCES: Final = ("```", "~~~")
_UNCLOSED: Final = re.compile(r"""["']|[“”„][^“”„"]*+\Z""")
_BEFORE_VALUE: Final = frozenset({":", ",", "["})
_BEFORE_KEY: Final = frozenset({",", "{"})
_BEFORE_END: Final = frozenset({"value", ",", "{", "["})
_SURROGATES: Final = range(0xD800, 0xE000)
_CODES: Final = 0x110000
_INSIDE: Final = 2  # the depth of what a wrapper holds
_LOOKS: Final = 10  # how often each character may be looked at, over all starts


class Fault(NamedTuple):
    """Something that no edit can mend, at an offset of the text."""

    code: str
    message: str
    offset: int


@dataclass(slots=True)
class Span:
    """An object or list that was followed from its bracket.

    ``whole`` ends at its own bracket; ``cut`` reaches the end of the text, or of the fence
    around it; ``broken`` meets something that cannot stand there. ``keyed`` says that a key
    was read, ``mentions`` that one of the wanted keys was, ``has_key`` that it stands at the
    top: of the map, of the map under ``plan``, or of a map in the list. ``maps`` counts the
    maps, its own among them.
    """

    start: int
    end: int = 0
    state: Literal["whole", "cut", "broken"] = "whole"
    keyed: bool = False
    mentions: bool = False
    has_key: bool = False
    maps: int = 0
    edits: list[Edit] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class Scanner:
    """Follows the brackets of one text; all looks together take time in line with its length.

    Where a start leads to nothing, ``dead`` holds the brackets on the way that lead to
    nothing either.
    """

    def __init__(self, text: str, keys: Collection[str]) -> None:
        self.dead: set[int] = set()
        self._text = text
        self._keys = keys
        self._end = len(text.rstrip())
        self._left = _LOOKS * len(text)

    @property
    def is_spent(self) -> bool:
        """Whether starts inside of what was looked at already are no longer worth it."""
        return self._left < 0

    def scan(self, start: int) -> Span:
        """Follow the object or list whose bracket stands at an offset."""
        text, at = self._text, start
        walk = _Walk(text, self._keys, Span(start))
        take = walk.take
        while (token := _TOKEN.match(text, at)) is not None and take(token):
            at = token.end()
            if walk.is_done:
                walk.span.end = at
                return walk.span
        self._give_up(walk, token, at)
        return walk.span

    def _give_up(self, walk: _Walk, token: re.Match[str] | None, at: int) -> None:
        """End a span at what cannot stand there: the end of all, or something in the middle."""
        reached = at if token is None else token.end()
        if token is None and _UNCLOSED.match(self._text, at):
            reached = self._end
        is_end = reached >= self._end and (token is None or walk.wants_value)
        is_cut = is_end or self._text.startswith(_FENCES, at)
        span = walk.span
        span.state, span.end = "cut" if is_cut else "broken", at
        self.dead.update(walk.opened)
        self._left -= reached - span.start


class _Walk:
    """The way from a bracket to the one that closes it, token by token."""

    def __init__(self, text: str, keys: Collection[str], span: Span) -> None:
        self.span = span
        self.opened: list[int] = []
        self._under: list[str] = []
        self._text = text
        self._keys = keys
        self._last = ":"  # the sign before, or "key" or "value"
        self._key = ""
        self._comma = 0

    @property
    def is_done(self) -> bool:
        """Whether the last bracket is closed."""
        return not self.opened

    @property
    def wants_key(self) -> bool:
        """Whether a key must come next, or the end of the map."""
        return self._last in _BEFORE_KEY and self._text[self.opened[-1]] == "{"

    @property
    def wants_value(self) -> bool:
        """Whether a value must come next."""
        return self._last in _BEFORE_VALUE and not self.wants_key

    def take(self, token: re.Match[str]) -> bool:
        """Take the next token; False when it cannot stand there."""
        kind = token.lastgroup
        if kind == "space":
            return True
        if kind == "noise":
            blank = _NOT_BREAK.sub(" ", token.group())
            self.span.edits.append(Edit(*token.span(), blank))
            return True
        if kind == "sign":
            return self._sign(token)
        is_word = kind == "word"
        if self.wants_key:
            self._last, self._key = "key", token.group()[1:-1]
            return not is_word and _quote(self.span, token)
        if not self.wants_value:
            return False
        is_taken = _word(self.span, token) if is_word else _quote(self.span, token)
        self._last = "value" if is_taken else self._last
        return is_taken

    def _sign(self, token: re.Match[str]) -> bool:
        sign, last = token.group(), self._last
        if sign in _OPENING:
            return self._close(sign)
        if sign == ",":
            self._last, self._comma = sign, token.start()
            return last == "value"
        if sign == ":":
            self._last = sign
            return last == "key" and self._name()
        if not self.wants_value:
            return False
        self._last = sign
        self.opened.append(token.start())
        self._under.append(self._key if last == ":" else "")
        self.span.maps += sign == "{"
        return True

    def _close(self, sign: str) -> bool:
        if self._last not in _BEFORE_END or self._text[self.opened[-1]] != _OPENING[sign]:
            return False
        if self._last == ",":
            self.span.edits.append(Edit(self._comma, self._comma + 1, " "))
        self._last = "value"
        self.opened.pop()
        self._under.pop()
        return True

    def _name(self) -> bool:
        span = self.span
        span.keyed = True
        if self._key in self._keys:
            span.mentions = True
            depth = len(self.opened) - (self._text[span.start] == "[")
            is_wrapped = depth == _INSIDE and self._under[-1] == WRAPPER
            span.has_key = span.has_key or depth == 1 or is_wrapped
        return True


def _quote(span: Span, token: re.Match[str]) -> bool:
    """Take a text in quotes, and note what makes it one of JSON that says the same."""
    start, end = token.span()
    kind, written = token.lastgroup, token.group()
    if kind == "single":
        text = json.dumps(_plain_text(token, span.faults), ensure_ascii=False)
    elif kind == "broken" or ("\\" in written and _FOREIGN.match(written)):
        text = _json_text(token, span.faults)
    else:
        if kind == "curly":
            span.edits += [Edit(start, start + 1, '"'), Edit(end - 1, end, '"')]
        return True
    span.edits.append(Edit(start, end, text + _as_before(written)))
    return True


def _as_before(text: str) -> str:
    """Give the line breaks that a text in quotes had, so that what follows stays on its line."""
    breaks = list(_BREAK.finditer(text))
    return "\n" * len(breaks) + " " * (len(text) - breaks[-1].end()) if breaks else ""


def _word(span: Span, token: re.Match[str]) -> bool:
    """Take a number or a word of JSON or Python; False for any other."""
    word = token.group()
    if word in _WORDS:
        return True
    if word in _OTHER_WORDS:
        span.edits.append(Edit(*token.span(), _OTHER_WORDS[word]))
        return True
    if _NUMBER.fullmatch(word):
        message = _too_large(word)
    elif word.lstrip("+-").lower() in _NO_NUMBERS:
        message = f"{word} is no number in JSON"
    elif _NEAR_NUMBER.match(word):
        message = f"{shown(word)} is no number in JSON: quote it if it is text"
    else:
        return False
    if message:
        span.faults.append(Fault("invalid_number", message, token.start()))
        span.edits.append(Edit(*token.span(), "null"))
    return True


def _too_large(word: str) -> str:
    if len(word) > MAX_DIGITS:
        return f"a number of {len(word)} digits is too long to be read"
    if not word.lstrip("-").isdigit() and math.isinf(float(word)):
        return f"{word} is too large for a number"
    return ""


def _plain_text(token: re.Match[str], faults: list[Fault]) -> str:
    """Read a text in single quotes, as Python and JavaScript both would."""

    def plain(match: re.Match[str]) -> str:
        if match[4] in _ESCAPED:
            return _ESCAPED[match[4]]
        return _character(match, token, faults)

    return _ESCAPE.sub(plain, token.group()[1:-1])


def _json_text(token: re.Match[str], faults: list[Fault]) -> str:
    """Write a text in double quotes with the escapes of JSON only, and no raw line break."""

    def spelled(match: re.Match[str]) -> str:
        found = match.group()
        if len(found) == 1:
            return json.dumps(found)[1:-1]
        if found[1] in _OF_JSON:
            return found
        character = _ESCAPED.get(found[1]) or _character(match, token, faults)
        return json.dumps(character, ensure_ascii=False)[1:-1]

    return f'"{_RAW.sub(spelled, token.group()[1:-1])}"'


def _character(match: re.Match[str], token: re.Match[str], faults: list[Fault]) -> str:
    """Give the character of a coded escape; for any other, languages differ, and that is a fault."""
    code = match[1] or match[2] or match[3]
    if code is not None and _is_character(int(code, 16)):
        return chr(int(code, 16))
    escape = match.group() if match.group().isprintable() else repr(match.group())
    message = f"the escape {escape} has no plain meaning: write \\\\ for a backslash"
    faults.append(Fault("invalid_json", message, token.start() + 1 + match.start()))
    return ""


def _is_character(code: int) -> bool:
    return code < _CODES and code not in _SURROGATES
