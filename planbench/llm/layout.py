"""How an answer is laid out: the reasoning before it, its fences, and what of it is YAML."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from planbench.llm.loose_json import WRAPPER
from planbench.plan.document import read_document
from planbench.plan.model import ExecutionPlan
from planbench.plan.steps import StepPlan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

THOUGHTS: Final = "think|thinking|thought|thoughts|reasoning|analysis|scratchpad"
FENCE: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>[^`\r\n]*)\r?\n?", re.MULTILINE
)

_HEAD_KEYS: Final = frozenset({*ExecutionPlan.model_fields, *StepPlan.model_fields, WRAPPER})
_THINKS: Final = re.compile(rf"\s*<({THOUGHTS})>")
_HAS_THOUGHT: Final = re.compile(rf"^</({THOUGHTS})>[ \t]*$", re.MULTILINE)
_LINE: Final = re.compile(r"^([ \t]*)(```|~~~|[^ \t\r\n])", re.MULTILINE)
_MARGIN: Final = re.compile(r"^[^ \t\r\n]", re.MULTILINE)
_NO_YAML: Final = frozenset({"```", "~~~", "{", "["})
_KEY: Final = re.compile(
    r"""["']?([A-Za-z_][\w\-]*)["']?[ \t]*:(?:[ \t]+(.*)|\r?$)""", re.MULTILINE
)
_STARTS_VALUE: Final = ("[", "{", "&", "*", "!", "#", "|", ">")
_FLOW: Final = re.compile(r"\s*\{\s*[A-Za-z_]")
_FEW_KEYS: Final = 2


class Block(NamedTuple):
    """A fence with YAML in it: where the fence and the text in it start and end."""

    start: int
    text_start: int
    text_end: int
    end: int
    is_closed: bool


def after_thoughts(text: str) -> int | None:
    """Give the end of the reasoning that comes first; None when it never ends."""
    at = 0
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


def is_yaml(
    text: str, begin: int, end: int, keys: Collection[str], *, is_fenced: bool = False
) -> bool:
    """Whether the lines furthest to the left are those of a plan in YAML.

    In a fence the key that makes it a plan must be there; without a fence any key of a
    plan will do, so that a plan that lacks something is told what.
    """
    first = _LINE.search(text, begin, end)
    if first is None or first[2] in _NO_YAML:
        return False
    indent = "" if _MARGIN.search(text, begin, end) else first[1]
    is_known = False
    lines = _LINE.finditer(text, begin, end)
    for line in lines:
        if line[1] != indent:
            continue
        if line[2] in _NO_YAML:
            return False
        key = _KEY.match(text, line.start(2), end)
        if key is None:
            continue
        is_known = is_known or key[1] in _HEAD_KEYS
        rest = (key[2] or "").strip()
        is_main = key[1] in keys or key[1] == WRAPPER
        if is_main and (not rest or rest.startswith(_STARTS_VALUE)):
            following = next(lines, None)
            return not (following and following[1] == indent and following[2] in _NO_YAML)
    return is_known and not is_fenced


def is_flow(text: str, begin: int, end: int, keys: Collection[str]) -> bool:
    """Whether it is a plan in YAML's own braces: ``{nodes: [...]}``."""
    if _FLOW.match(text, begin, end) is None:
        return False
    body = text[begin:end].rstrip()
    if not body.endswith("}") or not any(key in body for key in keys):
        return False
    document = read_document(body)
    value = document.value if document.complete else None
    return isinstance(value, dict) and not _HEAD_KEYS.isdisjoint(value)


def has_keys(text: str, begin: int) -> bool:
    """Whether it may be meant as YAML: lines with keys, though none of them is a plan's."""
    lines = _LINE.finditer(text, begin)
    keys = (1 for line in lines if not line[1] and _KEY.match(text, line.start()))
    return sum(itertools.islice(keys, _FEW_KEYS)) == _FEW_KEYS


def yaml_blocks(text: str, begin: int, keys: Collection[str]) -> Iterator[Block]:
    """Give the fences that hold a plan in YAML, in their order.

    A fence ends at the next one that is not further to the right: in YAML, what belongs
    to a text of several lines is.
    """
    lines = list(FENCE.finditer(text, begin))
    endings = _endings(lines)
    closing = {ending.start() for ending in endings if ending is not None}
    for line, ending in zip(lines, endings, strict=True):
        if ending is None:
            start, end, last = line.end(), len(text), len(text)
            is_fence = bool(line["info"].strip()) or line.start() not in closing
        else:
            start, end, last = line.end(), ending.start(), ending.end()
            is_fence = not ending["info"].strip() and len(ending["mark"]) >= len(line["mark"])
        if is_fence and (
            is_yaml(text, start, end, keys, is_fenced=True) or is_flow(text, start, end, keys)
        ):
            yield Block(line.start(), start, end, last, ending is not None)


def _endings(lines: list[re.Match[str]]) -> list[re.Match[str] | None]:
    """Give for each fence the next of its sign that is not further to the right."""
    found: list[re.Match[str] | None] = []
    after: dict[str, list[re.Match[str]]] = {"`": [], "~": []}
    for line in reversed(lines):
        waiting = after[line["mark"][0]]
        while waiting and len(waiting[-1]["indent"]) > len(line["indent"]):
            waiting.pop()
        found.append(waiting[-1] if waiting else None)
        waiting.append(line)
    found.reverse()
    return found
