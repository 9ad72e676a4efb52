"""Completion inside ``%%plan`` cells and on ``%plan`` lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from IPython.core.completer import SimpleCompletion, context_matcher

from planbench.errors import PlanLoadError
from planbench.notebook.arguments import cell_parser
from planbench.notebook.authoring import objective_words
from planbench.notebook.commands import COMMANDS
from planbench.plan.model import (
    ExecutionPlan,
    FacetSpec,
    ForEach,
    ParamSpec,
    PlanMetadata,
    PlanNode,
    RetryPolicy,
)
from planbench.workbench import get_workbench

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from IPython.core.completer import CompletionContext, SimpleMatcherResult

    from planbench.plan.model import PlanModel

MAX_CHARS: Final = 200_000
"""A longer cell is not read at every key press."""

_LINE: Final = re.compile(r"\s*(?:[\w.,\s]+=\s*)?%plan\s+(?P<words>.*)")
_FIRST: Final = re.compile(r"\s*%%plan(?P<objective>_objective)?(?:\s|$)")
_ID: Final = re.compile(r"\s*(?:-\s+)*id:\s*[\"']?([A-Za-z][\w-]*)")
_KEY: Final = re.compile(
    r"(?P<indent> *)(?P<dashes>(?:- +)*)(?P<key>[A-Za-z_][\w-]*)\s*:(?P<value>.*)"
)
_NEW_KEY: Final = re.compile(r"(?P<indent> *)(?P<dashes>(?:- +)*)(?P<key>[\w-]*)")
_PLACEHOLDER: Final = re.compile(r"\{(?:artifacts|nodes)\.([\w-]*)$")
_TOOL: Final = re.compile(r"\s*(?:- +)*tool:\s+[\"']?([\w.-]*)$")
_NEEDS: Final = re.compile(r"\s*(?:- +)*depends_on:\s*\[(?:[^\]]*[,\s])?[\"']?([\w-]*)$")
_ITEM: Final = re.compile(r"(?P<indent> *)- +[\"']?(?P<key>[\w-]*)$")

_FIELDS: Final[dict[tuple[str, ...], type[PlanModel]]] = {
    (): ExecutionPlan,
    ("nodes",): PlanNode,
    ("nodes", "for_each"): ForEach,
    ("nodes", "facets"): FacetSpec,
    ("nodes", "retry"): RetryPolicy,
    ("metadata",): PlanMetadata,
}


@context_matcher(identifier="planbench.plan")
def plan_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Give what may stand at the cursor in a plan; nothing anywhere else."""
    found = _matches(context)
    if found is None:
        return {"completions": []}
    fragment, words = found
    matching = dict.fromkeys(word for word in words if word.startswith(fragment))
    return {
        "completions": [SimpleCompletion(word, type="planbench") for word in matching],
        "matched_fragment": fragment,
        "suppress": True,
        "ordered": True,
    }


def _matches(context: CompletionContext) -> tuple[str, Iterable[str]] | None:
    text = context.full_text
    if "%plan" not in text or len(text) > MAX_CHARS:
        return None
    lines = text.split("\n")
    row = context.cursor_line
    before = lines[row][: context.cursor_position]
    first = next((i for i, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), 0)
    if magic := _FIRST.match(lines[first]):
        if row == first:
            return _on_first(before, is_objective=magic["objective"] is not None)
        if row > first and magic["objective"] is None:
            return _in_body(lines[first + 1 :], row - first - 1, before)
        return None
    if lines[first].lstrip().startswith("%%"):
        return None
    line = _LINE.fullmatch(before)
    return None if line is None else _on_line(line["words"])


def _on_line(words: str) -> tuple[str, Iterable[str]]:
    first, space, rest = words.partition(" ")
    if not space:
        return first, list(COMMANDS)
    *before, last = re.split(r"\s+", rest.lstrip())
    if first not in COMMANDS:
        return last, ()
    try:
        return last, COMMANDS[first].candidates(get_workbench(), before, last)
    except PlanLoadError:
        return last, ()  # the plan that is named cannot be read: the command itself will say so


def _on_first(before: str, *, is_objective: bool) -> tuple[str, Iterable[str]] | None:
    magic, *words = re.split(r"\s+", before.lstrip())
    if not magic.startswith("%%") or not words:
        return None
    *said, last = words
    if is_objective:
        try:
            return last, objective_words(get_workbench(), said, last)
        except PlanLoadError:
            return last, ()
    return last, cell_parser().flags()


def _in_body(lines: Sequence[str], row: int, before: str) -> tuple[str, Iterable[str]]:
    if place := _PLACEHOLDER.search(before):
        return place[1], _node_ids(lines)
    if place := _TOOL.match(before):
        return place[1], get_workbench().registry.names()
    if place := _NEEDS.match(before):
        return place[1], _node_ids(lines)
    place = _ITEM.match(before)
    if place and _parents(lines, row, len(place["indent"]) + 1)[-1:] == ("depends_on",):
        return place["key"], _node_ids(lines)
    place = _NEW_KEY.fullmatch(before)
    if place is None:
        return "", ()
    column = len(place["indent"]) + len(place["dashes"])
    return place["key"], [f"{name}: " for name in _keys(lines, row, column)]


def _keys(lines: Sequence[str], row: int, column: int) -> Iterable[str]:
    """Name the keys that may stand at a column: fields of the language, or a tool's arguments."""
    path = _parents(lines, row, column)
    if path == ("nodes", "args"):
        tool = get_workbench().registry.get(_tool_of(lines, row, column) or "")
        return () if tool is None else tool.parameters.get("properties", {})
    if path[:1] == ("params",) and len(path) > 1:
        return ParamSpec.model_fields
    model = _FIELDS.get(path)
    fields = {} if model is None else model.model_fields
    return [field.alias or name for name, field in fields.items()]


def _node_ids(lines: Iterable[str]) -> list[str]:
    return [found[1] for line in lines if (found := _ID.match(line))]


def _above(lines: Sequence[str], row: int) -> Iterator[tuple[int, re.Match[str]]]:
    """Give the keys above a row, the nearest first, each with its column."""
    for line in reversed(lines[:row]):
        if found := _KEY.match(line):
            yield len(found["indent"]) + len(found["dashes"]), found


def _parents(lines: Sequence[str], row: int, column: int) -> tuple[str, ...]:
    """Name the keys that enclose a column of a row, the outermost first."""
    path: list[str] = []
    for place, found in _above(lines, row):
        if place < column:
            path.append(found["key"])
            column = place
    return tuple(reversed(path))


def _tool_of(lines: Sequence[str], row: int, column: int) -> str | None:
    """Name the tool of the node whose ``args`` stand at this row."""
    node = next((place for place, found in _above(lines, row) if place < column), 0)
    upwards = _item_keys(reversed(lines[:row]), node, stop_behind=True)
    downwards = _item_keys(lines[row + 1 :], node, stop_behind=False)
    for found in (*upwards, *downwards):
        if found["key"] == "tool":
            return found["value"].strip().strip("\"'")
    return None


def _item_keys(lines: Iterable[str], column: int, *, stop_behind: bool) -> Iterator[re.Match[str]]:
    """Give the keys of one list item at a column, until the item ends."""
    for line in lines:
        found = _KEY.match(line)
        if found is None:
            continue
        place = len(found["indent"]) + len(found["dashes"])
        starts = bool(found["dashes"]) and place <= column
        if place < column or (starts and not stop_behind):
            return
        if place == column:
            yield found
        if starts:
            return
