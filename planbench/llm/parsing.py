"""The plan in what a model answers: fences, prose and reasoning left aside, no value changed.

A text that is a plan already is given back as it is. In any other, one plan is looked
for; where there is none, or more than one, or half of one, that is said and nothing is
guessed.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from planbench.llm.loose_json import Scanner
from planbench.plan.document import Limits, read_document
from planbench.plan.issues import ValidationIssue
from planbench.plan.source import Edit, Shifts, Source, apply

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from planbench.llm.loose_json import Fault, Span
    from planbench.plan.source import Mark

PLAN_KEYS: Final = ("nodes", "steps", "plan")

_HEAD_KEYS: Final = frozenset({*PLAN_KEYS, "name", "objective", "metadata", "params", "provenance"})
_THOUGHTS: Final = "think|thinking|thought|thoughts|reasoning|analysis|scratchpad"
_THINKS: Final = re.compile(rf"\s*<({_THOUGHTS})>")
_HAS_THOUGHT: Final = re.compile(rf"^</({_THOUGHTS})>[ \t]*$", re.MULTILINE)
_START: Final = re.compile(
    rf"""\{{(?=\s*(?:["'“”„}}]|//|\#))|\[(?=\s*\{{)|<(?P<tag>{_THOUGHTS})>"""
)
_FENCE: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>[^`\r\n]*)\r?\n?", re.MULTILINE
)
_LINE: Final = re.compile(r"^([ \t]*)(```|~~~|[^ \t\r\n])", re.MULTILINE)
_NO_YAML: Final = frozenset({"```", "~~~", "{", "["})
_KEY: Final = re.compile(
    r"""["']?([A-Za-z_][\w\-]*)["']?[ \t]*:(?:[ \t]+(.*)|\r?$)""", re.MULTILINE
)
_STARTS_VALUE: Final = ("[", "{", "&", "*", "!", "#", "|", ">")
_FLOW: Final = re.compile(r"\s*\{\s*[A-Za-z_]")
_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_BREAK: Final = re.compile(r"\r\n|\n|\r")
_MANY: Final = 2
_NEVER_HALF: Final = "half a plan is never run: ask again, for all of it or for a shorter one"


@dataclass(frozen=True)
class Extracted:
    """The text of the plan that was found, and where it stands in the original.

    ``text`` starts ``line_offset`` lines further down in the original, its first line
    ``column_offset`` columns further to the right. ``issues`` say what cannot be mended,
    at the places of the original; where they leave no plan, ``text`` is empty.
    """

    text: str
    line_offset: int = 0
    column_offset: int = 0
    issues: list[ValidationIssue] = field(default_factory=list)
    is_json: bool = False
    moved: Moved | None = field(default=None, repr=False, compare=False)

    @property
    def aligned(self) -> str:
        """The text behind blank lines and spaces: it stands where it stands in the original."""
        return "\n" * self.line_offset + " " * self.column_offset + self.text

    def placed(self, issue: ValidationIssue) -> ValidationIssue:
        """Give an issue of the ``aligned`` text its place in the original.

        It has that place already, but for what stands behind a text in other quotes.
        """
        if issue.line is None or self.moved is None:
            return issue
        mark = self.moved.original(issue.line, issue.column or 1)
        return issue.model_copy(update={"line": mark.line, "column": mark.column})


class Moved:
    """Finds the places of the original where edits moved what stands behind them."""

    def __init__(self, source: Source, start: int, text: str, edits: list[Edit]) -> None:
        self._source = source
        self._start = start
        self._first = source.mark(start)
        self._lines = [0, *(match.end() for match in _BREAK.finditer(text))]
        self._shifts = Shifts(edits)

    def original(self, line: int, column: int) -> Mark:
        """Give the place in the original of a place in the aligned text."""
        if line <= self._first.line:
            offset = max(column - self._first.column, 0)
        else:
            offset = self._lines[min(line - self._first.line, len(self._lines) - 1)] + column - 1
        return self._source.mark(self._start + self._shifts.original(offset))


class _Block(NamedTuple):
    """A fence with YAML in it: where the fence and the text in it start and end."""

    start: int
    text_start: int
    text_end: int
    end: int
    is_closed: bool


def extract(text: str, keys: Collection[str] = PLAN_KEYS) -> Extracted:
    """Find the plan in a text: YAML or JSON as they stand, or the answer of a model.

    A map is a plan when it has one of ``keys``. Never raises on what the text holds: with
    no plan in it ``issues`` has no_json, truncated or extra_data. JSON that is broken is
    given as it stands, so that its reader says what is wrong with it.
    """
    if len(text) > Limits().max_chars:
        return Extracted(text)
    return _Search(text.removeprefix("\ufeff"), keys).extract()


class _Search:
    """One look through one text."""

    def __init__(self, text: str, keys: Collection[str]) -> None:
        self._text = text
        self._keys = keys
        self._source = Source(text)
        self._scanner = Scanner(text, keys)
        self._plans: list[Span | _Block] = []
        self._others: list[int] = []
        self._doubt: Span | None = None
        self._never_closed: set[str] = set()

    def extract(self) -> Extracted:
        """Give the plan, or say why there is none."""
        text = self._text
        if not text.strip():
            return self._none("no_json", "the answer is empty", 0)
        begin = self._after_thoughts()
        if begin is None:
            message = "the answer is truncated: it ends inside of its reasoning"
            return self._none("truncated", message, len(text.rstrip()), _NEVER_HALF)
        if _is_json(text[begin:]):
            return self._taken(begin, len(text), is_json=True)
        if self._is_yaml(begin, len(text)) or self._is_flow(begin, len(text)):
            return self._taken(begin, len(text))
        unfinished = self._look(begin)
        return self._chosen(begin) if unfinished is None else self._unfinished(unfinished)

    # -- what the text is as a whole --------------------------------------------------

    def _after_thoughts(self) -> int | None:
        """Give the end of the reasoning that comes first; None when it never ends."""
        text, at = self._text, 0
        while opening := _THINKS.match(text, at):
            closing = f"</{opening[1]}>"
            found = text.find(closing, opening.end())
            if found < 0:
                return None
            at = found + len(closing)
        if not at and not text.lstrip().startswith(("{", "[")):
            # the opening tag may have stood in the prompt
            closed = _HAS_THOUGHT.search(text)
            if closed and f"<{closed[1]}>" not in text[: closed.start()]:
                return closed.end()
        return at

    def _is_yaml(self, begin: int, end: int, *, is_fenced: bool = False) -> bool:
        """Whether the lines furthest to the left are those of a plan in YAML.

        In a fence the key that makes it a plan must be there; without one, any key of a
        plan will do, so that a plan that lacks something is told what.
        """
        text = self._text
        indent, is_known = None, False
        lines = _LINE.finditer(text, begin, end)
        for line in lines:
            indent = line[1] if indent is None else indent
            if line[1] != indent:
                continue
            if line[2] in _NO_YAML:
                return False
            key = _KEY.match(text, line.start(2), end)
            if key is None:
                continue
            is_known = is_known or key[1] in _HEAD_KEYS
            rest = (key[2] or "").strip()
            if key[1] in self._keys and (not rest or rest.startswith(_STARTS_VALUE)):
                following = next(lines, None)
                return not (following and following[1] == indent and following[2] in _NO_YAML)
        return is_known and not is_fenced

    def _is_flow(self, begin: int, end: int) -> bool:
        """Whether it is a plan in YAML's own braces: ``{nodes: [...]}``."""
        if _FLOW.match(self._text, begin, end) is None:
            return False
        body = self._text[begin:end].rstrip()
        if not body.endswith("}") or not any(key in body for key in self._keys):
            return False
        document = read_document(body)
        value = document.value if document.complete else None
        return isinstance(value, dict) and not _HEAD_KEYS.isdisjoint(value)

    def _has_lines_of_yaml(self, begin: int) -> bool:
        """Whether it is YAML that a plan may have been meant by: several keys, and no plan's."""
        lines = _LINE.finditer(self._text, begin)
        keys = (1 for line in lines if not line[1] and _KEY.match(self._text, line.start()))
        return sum(itertools.islice(keys, _MANY)) == _MANY

    # -- what is in the text ----------------------------------------------------------

    def _look(self, begin: int) -> Span | _Block | None:
        """Go through the text and note what is found; gives the plan that does not end."""
        text, at = self._text, begin
        blocks = deque(self._blocks(begin))
        while True:
            found = _START.search(text, at)
            start = len(text) if found is None else found.start()
            while blocks and blocks[0].start < at:
                blocks.popleft()
            if blocks and blocks[0].start <= start:
                block = blocks.popleft()
                if not block.is_closed:
                    return block
                self._plans.append(block)
                at = block.end
            elif found is None:
                return None
            elif found["tag"]:
                at = self._after_tag(found["tag"], found.end())
            elif start in self._scanner.known:
                end = self._scanner.known[start]
                if end:
                    self._others.append(start)
                at = max(end, start + 1)
            else:
                span = self._scanner.scan(start)
                if span.state != "whole" and span.mentions:
                    if span.maps > 1 or span.state == "cut":
                        return span
                at = self._noted(span)

    def _after_tag(self, tag: str, at: int) -> int:
        """Step over reasoning in the middle of a text; a tag that is never closed is only text."""
        if tag in self._never_closed:
            return at
        end = self._text.find(f"</{tag}>", at)
        if end < 0:
            self._never_closed.add(tag)
        return max(end, at)

    def _noted(self, span: Span) -> int:
        """File what was followed, and give the place to go on from."""
        if span.state == "whole":
            # without a map inside it shows only how a plan is written
            if span.has_key and span.maps > 1:
                self._plans.append(span)
            else:
                self._others.append(span.start)
            return span.end
        doubt = self._doubt
        if span.keyed and (doubt is None or (doubt.state, span.state) == ("broken", "cut")):
            self._doubt = span
        return max(span.end, span.start + 1) if self._scanner.is_spent else span.start + 1

    def _blocks(self, begin: int) -> Iterator[_Block]:
        """Give the fences that hold a plan in YAML, in their order.

        A fence ends at the next one that is not further to the right: in YAML, what belongs
        to a text of several lines is.
        """
        lines = list(_FENCE.finditer(self._text, begin))
        endings: list[re.Match[str] | None] = []
        after: dict[str, list[re.Match[str]]] = {"`": [], "~": []}
        for line in reversed(lines):
            waiting = after[line["mark"][0]]
            while waiting and len(waiting[-1]["indent"]) > len(line["indent"]):
                waiting.pop()
            endings.append(waiting[-1] if waiting else None)
            waiting.append(line)
        for line, ending in zip(lines, reversed(endings), strict=True):
            start, end = line.end(), len(self._text) if ending is None else ending.start()
            if ending and (ending["info"].strip() or len(ending["mark"]) < len(line["mark"])):
                continue
            if self._is_yaml(start, end, is_fenced=True) or self._is_flow(start, end):
                is_closed = ending is not None
                yield _Block(line.start(), start, end, ending.end() if ending else end, is_closed)

    # -- what it comes to -------------------------------------------------------------

    def _chosen(self, begin: int) -> Extracted:
        text = self._text
        if len(self._plans) > 1:
            first, second = self._plans[:2]
            message = f"a second plan starts here; the first is on {self._place(first.start)}"
            fix = "answer with one plan: which one is meant cannot be told"
            return self._none("extra_data", message, second.start, fix)
        if self._plans:
            plan = self._plans[0]
            if isinstance(plan, _Block):
                return self._taken(plan.text_start, plan.text_end)
            return self._taken_span(plan, plan.end)
        if self._doubt is not None:
            return self._unfinished(self._doubt)
        if len(self._others) == 1:
            span = self._scanner.scan(self._others[0])
            return self._taken_span(span, span.end)
        wanted = " or ".join(map(repr, self._keys))
        if self._others:
            message = (
                f"the answer has {len(self._others)} JSON values, and none of them has {wanted}"
            )
            return self._none("extra_data", message, self._others[1], "answer with one plan")
        body = text[begin:].strip()
        if self._has_lines_of_yaml(begin) or (body.startswith("{") and body.endswith("}")):
            return self._taken(begin, len(text))
        message = f"the answer holds no plan: no JSON object and no YAML with {wanted}"
        return self._none("no_json", message, begin)

    def _unfinished(self, found: Span | _Block) -> Extracted:
        if isinstance(found, _Block):
            message = "the answer is truncated: the fence that starts here is never closed"
            return self._none("truncated", message, found.start, _NEVER_HALF)
        if found.state == "broken":
            return self._taken_span(found, self._end_of_broken(found))
        message = f"the answer is truncated here: what starts on {self._place(found.start)} is never closed"
        return self._none("truncated", message, found.end, _NEVER_HALF)

    def _end_of_broken(self, span: Span) -> int:
        """Give the bracket that closes it, if one does, so that what follows is not read with it."""
        depth = 0
        for found in _BRACKETS.finditer(self._text, span.start):
            depth += (found.group() in ("{", "[")) - (found.group() in ("}", "]"))
            if depth == 0:
                return found.end()
        fence = _FENCE.search(self._text, span.end)
        return fence.start() if fence else len(self._text)

    def _taken_span(self, span: Span, end: int) -> Extracted:
        return self._taken(span.start, end, span.edits, span.faults, is_json=True)

    def _taken(
        self,
        start: int,
        end: int,
        edits: Iterable[Edit] = (),
        faults: Iterable[Fault] = (),
        *,
        is_json: bool = False,
    ) -> Extracted:
        inside = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
        text = apply(self._text[start:end], inside)
        mark = self._source.mark(start)
        moves = any(len(edit.text) != edit.end - edit.start for edit in inside)
        return Extracted(
            text,
            mark.line - 1,
            mark.column - 1,
            [self._issue(*fault) for fault in faults],
            is_json=is_json,
            moved=Moved(self._source, start, text, inside) if moves else None,
        )

    def _none(self, code: str, message: str, offset: int, fix: str | None = None) -> Extracted:
        return Extracted("", issues=[self._issue(code, message, offset, fix)])

    def _issue(
        self, code: str, message: str, offset: int, fix: str | None = None
    ) -> ValidationIssue:
        mark = self._source.mark(offset)
        return ValidationIssue(
            code=code, message=message, line=mark.line, column=mark.column, fix=fix
        )

    def _place(self, offset: int) -> str:
        mark = self._source.mark(offset)
        return f"line {mark.line}, column {mark.column}"


def _is_json(text: str) -> bool:
    """Whether a text as it stands is one map or list of JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)
