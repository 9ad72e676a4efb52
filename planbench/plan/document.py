"""A plan's text as a tree that knows the line and column of every key and value.

YAML and JSON are read by one function, and whatever the text is, the answer is a
Document: what is wrong stands in its ``problems``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.plan.issues import ValidationIssue
from planbench.plan.json_reader import NotJson, read_json
from planbench.plan.source import (
    Edit,
    Limits,
    Mark,
    Problem,
    Reading,
    Source,
    UnreadableText,
    apply,
)
from planbench.plan.traps import UNQUOTED
from planbench.plan.writer import format_json, format_yaml
from planbench.plan.yaml_reader import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.plan.issues import Severity
    from planbench.plan.source import Route

__all__ = ["Document", "Limits", "Mark", "format_json", "format_yaml", "in_order", "read_document"]

_DEFAULT: Final = Limits()
_NEVER: Final = re.compile("[\0\ud800-\udfff]")
_LONG_LINE: Final = 500


class Document:
    """A tree of plain maps, lists and scalars, with the places where they are written.

    ``problems`` is what reading found; ``routes`` says, for each of them, at which path.
    ``complete`` is False when reading had to stop, and nothing can be said of the rest.
    """

    def __init__(
        self, value: Any, reading: Reading | None = None, source: Source | None = None
    ) -> None:
        reading = Reading(value) if reading is None else reading
        self.value = value
        self.complete = reading.complete
        self._source = source
        self._root = reading.value
        self._start = reading.start
        self._offsets = reading.offsets
        self._moved: Mapping[Route, Route] = {}
        found = sorted(reading.problems, key=lambda problem: problem.offset)
        self.routes: list[Route] = [problem.path for problem in found]
        self.problems = _issues(found, source) if source else []

    def mark(self, path: Route) -> Mark | None:
        """Give the place of the value at a path, or of the nearest one around it."""
        return self._mark(path, 1)

    def key_mark(self, path: Route) -> Mark | None:
        """Give the place of the key at a path; items of lists have none, so their own place."""
        return self._mark(path, 0)

    def _mark(self, path: Route, which: int) -> Mark | None:
        if self._source is None:
            return None
        path = self._written(path)
        node, offset = self._root, self._start or 0
        for depth, part in enumerate(path, 1):
            places: Any = self._offsets.get(id(node))
            try:
                found = places[part]
                node = node[part]
            except (KeyError, IndexError, TypeError):
                break
            if isinstance(places, dict):
                found = found[which if depth == len(path) else 1]
            offset = found
        return self._source.mark(offset)

    def _written(self, path: Route) -> Route:
        """Give the path under which the text has what stands at a path of the long form."""
        if self._moved:
            for length in range(len(path), 0, -1):
                if (moved := self._moved.get(path[:length])) is not None:
                    return (*moved, *path[length:])
        return path

    def issue(
        self,
        code: str,
        message: str,
        path: Route,
        *,
        node_id: str | None = None,
        severity: Severity = "error",
        fix: str | None = None,
        at_key: bool = False,
    ) -> ValidationIssue:
        """Make an issue with the line and column of a path."""
        mark = self._mark(path, 0 if at_key else 1)
        return ValidationIssue(
            node_id=node_id,
            code=code,
            message=message,
            severity=severity,
            line=None if mark is None else mark.line,
            column=None if mark is None else mark.column,
            fix=fix,
        )

    def replaced(self, value: Any) -> Self:
        """Give the same document with another value, such as one with its parameters put in."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.value = value
        return other

    def moved(self, routes: Mapping[Route, Route]) -> Self:
        """Give the same document for paths of another form; ``routes`` says where each is written."""
        other = self.replaced(self.value)
        other.__dict__["_moved"] = routes
        return other

    def inside(self, key: str) -> Self:
        """Give the document of the map under a key; paths then start there."""
        other = self.replaced(self.value[key])
        places: Any = self._offsets.get(id(self._root))
        other.__dict__["_root"] = self._root[key]
        other.__dict__["_start"] = places[key][1] if places else self._start
        other.routes = [route[1:] if route[:1] == (key,) else () for route in self.routes]
        return other


def in_order(issues: Iterable[ValidationIssue]) -> list[ValidationIssue]:
    """Sort issues as their places follow in the text; those without one come last."""
    return sorted(issues, key=lambda i: (i.line is None, i.line or 0, i.column or 0))


def read_document(text: str, limits: Limits = _DEFAULT) -> Document:
    """Read YAML or JSON text; never raises on what it holds, see ``problems``."""
    text = text.removeprefix("\ufeff")
    source = Source(text)
    if len(text) > limits.max_chars:
        message = f"the text has {len(text)} characters, and at most {limits.max_chars} are read"
        return _refused(message, 0, source)
    never = _NEVER.search(text)
    if never is not None:
        what = "NUL" if never.group() == "\0" else "a lone surrogate"
        return _refused(f"the text holds {what}, which is no character", never.start(), source)
    reading = _read(text, limits)
    return Document(reading.value, reading, source)


def _refused(message: str, offset: int, source: Source) -> Document:
    problems = [Problem("yaml_syntax", message, offset)]
    return Document(None, Reading(None, 0, problems=problems, complete=False), source)


def _read(text: str, limits: Limits) -> Reading:
    start = text.lstrip(" \t\r\n")
    if start[:1] not in ("{", "["):
        return read_yaml(text, limits)
    try:
        return read_json(text, limits)
    except NotJson as error:
        reading = read_yaml(text, limits)
        if not start[1:].lstrip(" \t\r\n[{").startswith('"'):
            return reading
        # what begins as JSON is held to it, but for what should only have been quoted
        traps = [found for found in reading.problems if found.code == UNQUOTED]
        if traps and reading.complete:
            return reading
        return Reading(None, 0, problems=[*traps, error.problem], complete=False)
    except UnreadableText as error:
        return Reading(None, 0, problems=[error.problem], complete=False)


def _issues(problems: list[Problem], source: Source) -> list[ValidationIssue]:
    lines: dict[int, list[Edit]] = defaultdict(list)
    for problem in problems:
        if problem.edit is not None:
            lines[source.line_at(problem.edit.start)[0]].append(problem.edit)
    mended: dict[int, str] = {}
    issues = []
    for problem in problems:
        mark = source.mark(problem.offset)
        fix = problem.fix
        if problem.edit is not None:
            start, line = source.line_at(problem.edit.start)
            if start not in mended:
                mended[start] = _mended(start, line, lines[start])
            fix = mended[start] or problem.edit.text
        issues.append(
            ValidationIssue(
                code=problem.code,
                message=problem.message,
                line=mark.line,
                column=mark.column,
                fix=fix,
            )
        )
    return issues


def _mended(start: int, line: str, edits: list[Edit]) -> str:
    """Give the line with all that should be quoted in quotes; nothing for one too long to show."""
    if len(line) > _LONG_LINE or any(edit.end > start + len(line) for edit in edits):
        return ""
    return apply(line, [Edit(e.start - start, e.end - start, e.text) for e in edits]).strip()
