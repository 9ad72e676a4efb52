"""YAML read from parser events: no nodes are composed, and nothing recurses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from planbench.plan.allowance import OF_A_BRACE, OF_A_CONTAINER, Allowance, weight_of
from planbench.plan.scalars import is_own_tag, tagged, typed
from planbench.plan.source import (
    Edit,
    Problem,
    Reading,
    Shifts,
    Source,
    UnreadableText,
    apply,
    duplicate,
)
from planbench.plan.traps import (
    SYNTAX,
    UNQUOTED,
    bare_placeholder,
    explain,
    is_map,
    is_tag,
    mend,
    placeholder_as_key,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from planbench.plan.source import Limits, Route

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MERGE: Final = "<<"

_MAX_REREAD: Final = 5_000_000  # characters read again, over all the lines that were mended
_COPIED: Final = 20  # to copy a character costs that much less than to parse it
_ALIAS: Final = re.compile(r"""\bas["']?\s*:\s*["']?(\w+)""")
_ANCHOR: Final = re.compile(r"&\S+\s+")
_UNPRINTABLE: Final = re.compile(
    "[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]"
)
_TOO_MANY: Final = 1000  # problems that are told; what comes after them is read all the same

_NONE: Final[Any] = object()  # no key was read yet
_MERGE: Final[Any] = object()  # the key <<, unquoted
_DROPPED: Final[Any] = object()  # a key that no plan can hold


def read_yaml(text: str, limits: Limits) -> Reading:
    """Read a text; lines with an unquoted text are read as they would be mended."""
    source = Source(text)
    edits: list[Edit] = []
    told: list[Problem] = []
    budget = _MAX_REREAD
    while True:
        current = apply(text, edits) if edits else text
        shifts = Shifts(edits)
        tree = _Tree(current, limits)
        try:
            tree.build(yaml.parse(current, Loader=LOADER))
            tree.settle()
        except UnreadableText as stop:
            tree.problems.append(stop.problem)
            tree.reading.complete = False
        except yaml.YAMLError as error:
            reached = _offset_of(error, current)
            offset = shifts.original(reached)
            budget -= reached + len(current) // _COPIED
            slips = []
            if budget > 0 and "unexpected end of stream" not in str(error):
                slips = mend(source, offset, edits, flow=tree.in_flow)
            if slips:
                told += [slip._replace(path=tree.route()) for slip in slips]
                edits += [slip.edit for slip in slips if slip.edit]
                continue
            told.append(explain(error, source, offset)._replace(path=tree.route()))
            tree.reading.complete = False
        break
    reading = tree.reading
    reading.problems = told + [_shifted(problem, shifts) for problem in tree.problems]
    if edits:
        _shift_offsets(reading, shifts)
    return reading


def _offset_of(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, yaml.reader.ReaderError):  # its own position counts bytes
        found = _UNPRINTABLE.search(text)
        return found.start() if found else 0
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    offset = mark.index if mark is not None else 0
    return min(int(offset), len(text))


def _shifted(problem: Problem, shifts: Shifts) -> Problem:
    edit = problem.edit
    if edit is not None:
        edit = Edit(shifts.original(edit.start), shifts.original(edit.end), edit.text)
    return problem._replace(offset=shifts.original(problem.offset), edit=edit)


def _shift_offsets(reading: Reading, shifts: Shifts) -> None:
    move = shifts.original
    if reading.start is not None:
        reading.start = move(reading.start)
    for container, places in reading.offsets.items():
        if isinstance(places, dict):
            moved = {key: (move(first), move(then)) for key, (first, then) in places.items()}
            reading.offsets[container] = moved
        else:
            reading.offsets[container] = [move(place) for place in places]


class _Frame:
    """One open map or list."""

    __slots__ = ("anchor", "container", "flow", "is_map", "key", "key_offset", "offsets", "start")

    def __init__(self, event: Any) -> None:
        self.is_map = type(event) is MappingStartEvent
        self.container: Any = {} if self.is_map else []
        self.offsets: Any = {} if self.is_map else []
        self.key: Any = _NONE
        self.key_offset = 0
        self.start: int = event.start_mark.index
        self.anchor: str | None = event.anchor
        self.flow = bool(event.flow_style)


class _Tree:
    """Builds plain maps, lists and scalars from events."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.reading = Reading()
        self.problems: list[Problem] = []
        self._source = Source(text)
        self._stack: list[_Frame] = []
        self._frame: _Frame | None = None
        self._anchors: dict[str, Any] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._expanded = 0
        self._allowance = Allowance(limits)
        self._documents = 0
        self._maybe: list[tuple[Route, Edit, str]] = []

    @property
    def in_flow(self) -> bool:
        """Whether the innermost open map or list is written with brackets."""
        return self._frame is not None and self._frame.flow

    def route(self) -> Route:
        """Give the path of the value that is being read."""
        parts = ((f.key if f.is_map else len(f.container)) for f in self._stack)
        return tuple(part for part in parts if isinstance(part, str | int))

    def build(self, events: Iterable[Any]) -> None:
        """Take in all events; raises UnreadableText where a limit is passed."""
        handlers: dict[type, Callable[[Any], None]] = {
            ScalarEvent: self._scalar,
            MappingStartEvent: self._open,
            SequenceStartEvent: self._open,
            MappingEndEvent: self._close,
            SequenceEndEvent: self._close,
            AliasEvent: self._alias,
            DocumentStartEvent: self._document,
        }
        allowance = self._allowance
        for event in events:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
                if allowance.left < 0:
                    raise allowance.exceeded(event.start_mark.index, self.route())
                if self._documents > 1:
                    return

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            message = "a plan is one document, and a second starts here"
            self._tell(message, event.start_mark.index)

    def _put(self, value: Any, offset: int) -> None:
        """Take a finished value in as an item, a key, or the value of a key."""
        frame = self._frame
        if frame is None:
            self.reading.value, self.reading.start = value, offset
        elif not frame.is_map:
            frame.container.append(value)
            frame.offsets.append(offset)
        elif frame.key is _NONE:
            frame.key, frame.key_offset = self._key_of(value, offset), offset
        else:
            key = frame.key
            if key in frame.container:
                self._duplicate(frame)
            else:
                frame.container[key] = value
                frame.offsets[key] = (frame.key_offset, offset)
            frame.key = _NONE

    def _scalar(self, event: Any) -> None:
        self._allowance.left -= 1
        value = event.value
        offset = event.start_mark.index
        frame = self._frame
        if "{" in value:
            self._allowance.left -= OF_A_BRACE * value.count("{")
        if frame is not None and frame.is_map and frame.key is _NONE:
            frame.key = _MERGE if value == MERGE and event.implicit[0] else value
            frame.key_offset = offset
        else:
            if event.tag is not None:
                value = self._tagged(event)
            elif event.implicit[0]:
                value = typed(value)
            self._put(value, offset)
        if event.anchor is not None:
            self._allowance.left -= 1
            self._anchors[event.anchor] = value

    def _open(self, event: Any) -> None:
        if len(self._stack) >= self.limits.max_depth:
            raise self._stop(_too_deep(self.limits), event)
        if event.tag is not None and not is_own_tag(event.tag):
            self._tell(f"the tag {event.tag} means nothing in a plan", event.start_mark.index)
        self._frame = _Frame(event)
        if self._frame.is_map:
            self._allowance.begin(self._stack)
        self._allowance.left -= OF_A_CONTAINER
        self._stack.append(self._frame)

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        self._frame = self._stack[-1] if self._stack else None
        value = frame.container
        if frame.is_map:
            self._allowance.end(self._stack, value)
            if len(value) == 1:
                value = self._unquoted(frame, event.end_mark.index)
            if value is frame.container:
                self._finish_map(frame)
        if value is frame.container:
            self.reading.offsets[id(value)] = frame.offsets
            if frame.anchor is not None:
                self._sizes[id(value)] = self._measure(value)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = value
        self._put(value, frame.start)

    def _unquoted(self, frame: _Frame, end: int) -> Any:
        """Give the placeholder that a one-key map was meant to be, or the map."""
        ((key, value),) = frame.container.items()
        if value is not None or not isinstance(key, str):
            return frame.container
        anchor = _ANCHOR.match(self.text, frame.start)
        start = anchor.end() if anchor else frame.start
        raw = self.text[start:end].rstrip()
        end = start + len(raw)
        alone = bare_placeholder(raw) if frame.flow else None
        if alone is None and "{" in key and (doubled := placeholder_as_key(raw)):
            if self.problems and self.problems[-1].offset >= frame.start:
                self.problems.pop()  # the same slip, told of what stands inside
            alone = doubled, True
        if alone is None:
            return frame.container
        text, sure = alone
        edit = Edit(start, end, quoted(text))
        if sure:
            self._allowance.left -= OF_A_BRACE
            self._tell(is_map(text), start, UNQUOTED, edit)
            return text
        if self._frame is not None and not (self._frame.is_map and self._frame.key is _NONE):
            self._maybe.append((self.route(), edit, text))
        return frame.container

    def _finish_map(self, frame: _Frame) -> None:
        """Put in what ``<<`` names; the map's own keys win, then the first of several maps."""
        container, offsets = frame.container, frame.offsets
        if _DROPPED in container:
            del container[_DROPPED]
            del offsets[_DROPPED]
        if _MERGE not in container:
            return
        merged = container.pop(_MERGE)
        offset = offsets.pop(_MERGE)[1]
        for base in merged if isinstance(merged, list) else [merged]:
            if not isinstance(base, dict):
                self._tell("<< merges maps, written as an alias such as *defaults", offset)
                continue
            places: Any = self.reading.offsets[id(base)]
            for key, value in base.items():
                if key not in container:
                    container[key] = value
                    offsets[key] = places[key]

    def _key_of(self, value: Any, offset: int) -> Any:
        """Read a key that is no scalar: an unquoted placeholder, or nothing that a plan can hold."""
        if isinstance(value, str):
            return value
        ((word, inner),) = (
            value.items() if isinstance(value, dict) and len(value) == 1 else ((None, 1),)
        )
        if isinstance(word, str) and inner is None:
            self._tell(is_map(f"{{{word}}}"), offset, UNQUOTED)
        else:
            self._tell("a key must be text, not a map or a list", offset)
        return _DROPPED

    def _alias(self, event: Any) -> None:
        self._allowance.left -= 1
        name, offset = event.anchor, event.start_mark.index
        value = self._anchors.get(name, _NONE)
        if any(frame.anchor == name for frame in self._stack):
            self._tell(f"the alias *{name} stands inside what it repeats", offset)
            value = None
        elif value is _NONE:
            end = event.end_mark.index
            value = self.text[offset:end]
            message = f"the alias *{name} repeats nothing: quote it if it is text"
            self._tell(message, offset, SYNTAX, Edit(offset, end, quoted(value)))
        size, height = self._sizes.get(id(value)) or (weight_of(value), 0)
        self._expanded += size
        if self._expanded > self.limits.max_expanded:
            raise self._stop(f"aliases repeat more than {self.limits.max_expanded} values", event)
        if len(self._stack) + height > self.limits.max_depth:
            raise self._stop(_too_deep(self.limits), event)
        self._put(value, offset)

    def _measure(self, value: Any) -> tuple[int, int]:
        """Count the values in an anchored one, and its levels; what aliases repeat counts again."""
        size, height = 0, 0
        stack = [(value, 1)]
        while stack:
            current, level = stack.pop()
            known = self._sizes.get(id(current))
            if known is not None:
                size += known[0]
                height = max(height, level - 1 + known[1])
                continue
            size += 1
            height = max(height, level)
            items = current
            if isinstance(current, dict):
                size += len(current)
                items = current.values()
            for item in items:
                if isinstance(item, dict | list):
                    stack.append((item, level + 1))
                else:
                    size += weight_of(item)
        return size, height

    def _tagged(self, event: Any) -> Any:
        offset, end = event.start_mark.index, event.end_mark.index
        if is_own_tag(event.tag):
            try:
                return tagged(event.value, event.tag)
            except ValueError as error:
                self._tell(f"the tag does not fit: {error}", offset)
                return event.value
        raw = self.text[offset:end].rstrip()
        self._tell(is_tag(raw), offset, UNQUOTED, Edit(offset, offset + len(raw), quoted(raw)))
        return raw

    def settle(self) -> None:
        """Decide what ``{word}`` was: a placeholder where the plan names its items so, else a map."""
        names = set(_ALIAS.findall(self.text)) if self._maybe else set()
        for route, edit, text in self._maybe:
            if text[1:-1] in names:
                holder = self.reading.value
                for part in route[:-1]:
                    holder = holder[part]
                holder[route[-1]] = text
                self._told(Problem(UNQUOTED, is_map(text), edit.start, route, edit))

    def _duplicate(self, frame: _Frame) -> None:
        if len(self.problems) >= _TOO_MANY:
            return
        key = MERGE if frame.key is _MERGE else frame.key
        first = self._source.mark(frame.offsets[frame.key][0]).line
        second = self._source.mark(frame.key_offset).line
        self._told(duplicate(key, first, second, frame.key_offset, self.route()))

    def _tell(
        self, message: str, offset: int, code: str = SYNTAX, edit: Edit | None = None
    ) -> None:
        if len(self.problems) < _TOO_MANY:
            self._told(Problem(code, message, offset, self.route(), edit))

    def _told(self, problem: Problem) -> None:
        if len(self.problems) < _TOO_MANY:
            self.problems.append(problem)

    def _stop(self, message: str, event: Any) -> UnreadableText:
        return UnreadableText(Problem(SYNTAX, message, event.start_mark.index, self.route()))


def _too_deep(limits: Limits) -> str:
    return f"nested deeper than {limits.max_depth} levels"
