"""JSON read with the place of every key and value, without recursion."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.allowance import OF_A_BRACE, OF_A_CONTAINER, Allowance
from planbench.plan.scalars import MAX_DIGITS
from planbench.plan.source import Problem, Reading, Source, UnreadableText, duplicate

if TYPE_CHECKING:
    from planbench.plan.source import Limits, Route

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(r'"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_WORD: Final = re.compile(r"-?[A-Za-z_]\w*")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NONE: Final[Any] = object()
_TOO_MANY: Final = 1000
_SHOWN: Final = 40


class NotJson(UnreadableText):
    """Raised where the text leaves the rules of JSON; it may still be YAML."""


class _Frame:
    """One open map or list."""

    __slots__ = ("container", "is_map", "key", "key_offset", "offsets", "start")

    def __init__(self, start: int, *, is_map: bool) -> None:
        self.container: Any = {} if is_map else []
        self.offsets: Any = {} if is_map else []
        self.is_map = is_map
        self.key = ""
        self.key_offset = 0
        self.start = start


def read_json(text: str, limits: Limits) -> Reading:
    """Read a text that follows JSON; raises NotJson, or UnreadableText past a limit."""
    return _Reader(text, limits).read()


class _Reader:
    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.reading = Reading()
        self._source = Source(text)
        self._stack: list[_Frame] = []
        self._escapes = "\\u" in text
        self._allowance = Allowance(limits)

    def read(self) -> Reading:
        """Read the one value of the text."""
        at = self._skip(0)
        self.reading.start = at
        allowance = self._allowance
        while True:
            start = at
            value, at = self._value(at)
            allowance.left -= 1
            if allowance.left < 0:
                raise allowance.exceeded(start, self._route())
            while value is not _NONE:  # a finished value may finish what holds it, and so on
                if not self._stack:
                    return self._end(value, at)
                value, at = self._after(value, at)

    def _end(self, value: Any, at: int) -> Reading:
        if at < len(self.text):
            raise self._not_json("more text follows the end of the JSON value", at)
        self.reading.value = value
        return self.reading

    def _skip(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]  # it matches anywhere

    def _value(self, at: int) -> tuple[Any, int]:
        """Read a scalar or an empty container; _NONE for one that is now open."""
        text = self.text
        first = text[at : at + 1]
        if first == '"':
            start = at
            value, at = self._string(at)
            if "{" in value:
                self._allowance.left -= OF_A_BRACE * value.count("{")
            self._place(start)
            return value, self._skip(at)
        if first in ("{", "["):
            return self._open(at, is_map=first == "{")
        self._place(at)
        number = _NUMBER.match(text, at)
        if number is not None and not text[number.end() : number.end() + 1].isalnum():
            return self._number(number), self._skip(number.end())
        word = _WORD.match(text, at)
        if word is not None and word.group() in _WORDS:
            return _WORDS[word.group()], self._skip(word.end())
        if word is not None and word.group() in _NO_NUMBERS:
            self._tell(self._problem(f"{word.group()} is no number in JSON", at))
            return None, self._skip(word.end())
        raise self._not_json(
            "the text ends too early" if not first else "a value must stand here", at
        )

    def _number(self, match: re.Match[str]) -> Any:
        whole, fraction, exponent = match.groups()
        if fraction or exponent:
            number = float(match.group())
            if math.isfinite(number):
                return number
            text = match.group() if len(match.group()) <= _SHOWN else f"{match.group()[:_SHOWN]}..."
            message = f"{text} is too large for a number"
            problem = self._problem(message, match.start(), "invalid_number")
            self._tell(problem._replace(fix="write it in quotes if it is text"))
            return None
        if len(whole) > MAX_DIGITS:
            raise UnreadableText(self._problem("the number has too many digits", match.start()))
        return int(whole)

    def _string(self, at: int) -> tuple[str, int]:
        match = _STRING.match(self.text, at)
        if match is None:
            raise self._not_json(*self._bad_string(at))
        value, end = match[1], match.end()
        if "\\" in value:
            try:
                value = json.loads(match.group())
            except json.JSONDecodeError as error:
                message = error.msg[:1].lower() + error.msg[1:]
                raise self._not_json(message, at + error.pos) from None
        if self._escapes and _SURROGATE.search(value):
            self._tell(self._problem("the text holds a lone surrogate, which is no character", at))
            value = _SURROGATE.sub("\ufffd", value)
        return value, end

    def _bad_string(self, at: int) -> tuple[str, int]:
        broken = _CONTROL.search(self.text, at)
        if broken is None:
            return "the text in quotes does not end", at
        return "a text in quotes holds a line break or control character", broken.start()

    def _open(self, at: int, *, is_map: bool) -> tuple[Any, int]:
        if len(self._stack) >= self.limits.max_depth:
            message = f"nested deeper than {self.limits.max_depth} levels"
            raise UnreadableText(self._problem(message, at))
        self._place(at)
        if is_map:
            self._allowance.begin(self._stack)
        self._allowance.left -= OF_A_CONTAINER - 1  # the one that each value is comes off by itself
        frame = _Frame(at, is_map=is_map)
        self._stack.append(frame)
        at = self._skip(at + 1)
        if self.text[at : at + 1] == ("}" if is_map else "]"):
            return self._close(), self._skip(at + 1)
        return _NONE, self._key(frame, at) if is_map else at

    def _place(self, at: int) -> None:
        """Note where the value starts that the innermost container takes next."""
        if self._stack:
            frame = self._stack[-1]
            if frame.is_map:
                frame.offsets.setdefault(frame.key, (frame.key_offset, at))
            else:
                frame.offsets.append(at)

    def _key(self, frame: _Frame, at: int) -> int:
        if self.text[at : at + 1] != '"':
            raise self._not_json("a key in double quotes must stand here", at)
        frame.key_offset = at
        self._allowance.left -= 1
        frame.key, at = self._string(at)
        at = self._skip(at)
        if self.text[at : at + 1] != ":":
            raise self._not_json("a colon must stand here", at)
        return self._skip(at + 1)

    def _after(self, value: Any, at: int) -> tuple[Any, int]:
        """Put a finished value into its container; give that when it ends here, else _NONE."""
        frame = self._stack[-1]
        if not frame.is_map:
            frame.container.append(value)
        elif frame.key in frame.container:
            self._duplicate(frame)
        else:
            frame.container[frame.key] = value
        sign = self.text[at : at + 1]
        if sign == ("}" if frame.is_map else "]"):
            return self._close(), self._skip(at + 1)
        if sign != ",":
            end = "the text ends too early" if not sign else "a comma or the end must stand here"
            raise self._not_json(end, at)
        at = self._skip(at + 1)
        return _NONE, self._key(frame, at) if frame.is_map else at

    def _duplicate(self, frame: _Frame) -> None:
        if len(self.reading.problems) < _TOO_MANY:
            first = self._source.mark(frame.offsets[frame.key][0]).line
            second = self._source.mark(frame.key_offset).line
            self._tell(duplicate(frame.key, first, second, frame.key_offset, self._route()))

    def _close(self) -> Any:
        frame = self._stack.pop()
        self.reading.offsets[id(frame.container)] = frame.offsets
        if frame.is_map:
            self._allowance.end(self._stack, frame.container)
        return frame.container

    def _route(self) -> Route:
        return tuple(f.key if f.is_map else len(f.container) for f in self._stack)

    def _problem(self, message: str, at: int, code: str = "yaml_syntax") -> Problem:
        return Problem(code, message, at, self._route())

    def _tell(self, problem: Problem) -> None:
        if len(self.reading.problems) < _TOO_MANY:
            self.reading.problems.append(problem)

    def _not_json(self, message: str, at: int) -> NotJson:
        return NotJson(self._problem(f"not readable as JSON: {message}", at))
