"""The plan in what a model answers: fences, prose and reasoning left aside, no value changed.

A text that is a plan already is given back as it is. In any other, one plan is looked
for; where there is none, or more than one, or half of one, that is said and nothing is
guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from planbench.llm.layout import (
    FENCE,
    THOUGHTS,
    Block,
    after_thoughts,
    has_keys,
    is_flow,
    is_yaml,
    yaml_blocks,
)
from planbench.llm.loose_json import Scanner, Span
from planbench.plan.document import Limits
from planbench.plan.issues import ValidationIssue
from planbench.plan.source import Edit, Shifts, Source, apply

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from planbench.llm.loose_json import Fault
    from planbench.plan.source import Mark

PLAN_KEYS: Final = ("nodes", "steps")

# A map begins with a key, a comment or its end; the look ahead spares a try at most other braces.
_KEY: Final = (
    r"""(?:"(?:[^"\\]++|\\.)*+(?:"\s*(?::|\Z)|\Z)|'(?:[^'\\]++|\\.)*+(?:'\s*(?::|\Z)|\Z)|[“”„])"""
)
_START: Final = re.compile(
    rf"""\{{(?=\s*(?:{_KEY}|\}}|//|\#))|\[(?=\s*\{{\s*["'“”„}}/\#])|<(?P<tag>{THOUGHTS})>""",
    re.DOTALL,
)
_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_BREAK: Final = re.compile(r"\r\n|\n|\r")
_NEVER_HALF: Final = "half a plan is never run: ask again, for all of it or for a shorter one"
_ONE_PLAN: Final = "answer with one plan: which one is meant cannot be told"


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
        self._plans: list[Span | Block] = []
        self._others: list[int] = []
        self._doubt: Span | None = None
        self._never_closed: set[str] = set()

    def extract(self) -> Extracted:
        """Give the plan, or say why there is none."""
        text, end = self._text, len(self._text)
        if not text.strip():
            return self._none("no_json", "the answer is empty", 0)
        begin = after_thoughts(text)
        if begin is None:
            message = "the answer is truncated: it ends inside of its reasoning"
            return self._none("truncated", message, len(text.rstrip()), _NEVER_HALF)
        if _is_json(text[begin:]):
            return self._taken(begin, end, is_json=True)
        if is_yaml(text, begin, end, self._keys) or is_flow(text, begin, end, self._keys):
            return self._taken(begin, end)
        unfinished = self._look(begin)
        return self._chosen(begin) if unfinished is None else self._unfinished(unfinished)

    # -- what is in the text ----------------------------------------------------------

    def _look(self, begin: int) -> Span | Block | None:
        """Go through the text and note what is found; gives the plan that does not end well."""
        text, at = self._text, begin
        blocks = deque(yaml_blocks(text, begin, self._keys))
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
            elif start in self._scanner.dead:
                at = start + 1
            else:
                span = self._scanner.scan(start)
                if _is_unfinished_plan(span) and not self._is_list_of_plans(span):
                    return span
                at = self._noted(span)

    def _after_tag(self, tag: str, at: int) -> int:
        """Step over reasoning in the middle of a text; a tag that is never closed is only text."""
        end = -1 if tag in self._never_closed else self._text.find(f"</{tag}>", at)
        if end < 0:
            self._never_closed.add(tag)
        return max(end, at)

    def _is_list_of_plans(self, span: Span) -> bool:
        """Whether the plan is in the map behind the bracket, which may be one of the prose."""
        return span.has_key and self._text[span.start] == "["

    def _noted(self, span: Span) -> int:
        """File what a bracket led to, and give the place to go on from."""
        start = span.start
        if self._is_list_of_plans(span):
            return start + 1
        if span.state == "whole":
            # without a map inside, it only shows how a plan is written
            if span.has_key and span.maps > 1:
                self._plans.append(span)
            else:
                self._others.append(start)
            return span.end
        is_cut, doubt = span.state == "cut", self._doubt
        if (is_cut or span.keyed) and (doubt is None or (is_cut and doubt.state == "broken")):
            self._doubt = span
        return max(span.end, start + 1) if self._scanner.is_spent else start + 1

    # -- what it comes to -------------------------------------------------------------

    def _chosen(self, begin: int) -> Extracted:
        if len(self._plans) > 1:
            first, second = self._plans[:2]
            message = f"a second plan starts here; the first is on {self._place(first.start)}"
            return self._none("extra_data", message, second.start, _ONE_PLAN)
        if self._plans:
            plan = self._plans[0]
            if isinstance(plan, Block):
                return self._taken(plan.text_start, plan.text_end)
            return self._taken_span(plan, plan.end)
        if self._doubt is not None:
            return self._unfinished(self._doubt)
        return self._without_plan(begin)

    def _without_plan(self, begin: int) -> Extracted:
        """Give what comes nearest to a plan, for its reader to say what it lacks."""
        text, others = self._text, self._others
        if len(others) == 1:
            span = self._scanner.scan(others[0])
            return self._taken_span(span, span.end)
        wanted = " or ".join(map(repr, self._keys))
        if others:
            message = f"the answer has {len(others)} JSON values, and none of them has {wanted}"
            return self._none("extra_data", message, others[1], _ONE_PLAN)
        body = text[begin:].strip()
        if has_keys(text, begin) or (body.startswith("{") and body.endswith("}")):
            return self._taken(begin, len(text))
        message = f"there is no plan here: no JSON object, and no YAML with {wanted}"
        return self._none("no_json", message, begin)

    def _unfinished(self, found: Span | Block) -> Extracted:
        if isinstance(found, Block):
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
        fence = FENCE.search(self._text, span.end)
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


def _is_unfinished_plan(span: Span) -> bool:
    """Whether a plan began and went wrong; ``{"steps": [...]}`` only says how one is written."""
    return span.state != "whole" and span.mentions and (span.maps > 1 or span.state == "cut")


def _is_json(text: str) -> bool:
    """Whether a text as it stands is one map of JSON."""
    if not text.lstrip().startswith("{"):
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
