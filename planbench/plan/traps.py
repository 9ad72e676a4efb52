"""What YAML makes of a text that should have been quoted, and the line as it should be.

``q: {artifacts.x}`` is a map, ``k: {item.name}_x`` and a ``[]`` path in a flow map are
errors, ``when: !x`` is a tag. Each is told from what the author plainly meant, so that
reading goes on.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from planbench.plan.source import Edit, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.source import Source

UNQUOTED: Final = "unquoted_placeholder"
SYNTAX: Final = "yaml_syntax"

_BRACES: Final = r"\{\s*[A-Za-z_][\w\-]*(?:\.[\w\-]+)*\s*\}"
_FAMILY: Final = re.compile(r"(?:params|nodes|artifacts|env)\..*|item|index|\w[\w\-]*\..*")
_NAME: Final = r"[A-Za-z_][\w\-]*(?:\.[\w\-]+)*"
_ALONE: Final = re.compile(rf"\{{\s*({_NAME})\s*\}}")
_AS_KEY: Final = re.compile(
    rf"""(?:\{{\s*)+\{{\s*({_NAME})\s*\}}(?:\s*\}})+"""  # {{{{artifacts.x}}}}, as templates have it
    rf"""|(?:\{{\s*)?(?:\?\s+)?(["']?)\{{\s*({_NAME})\s*\}}\2\s*:?\s*\}}?"""
)
_DOUBLED: Final = re.compile(rf"\{{\{{\s*({_NAME})\s*\}}\}}")
_HAS_BRACES: Final = re.compile(_BRACES)
_BLOCK: Final = re.compile(
    r"""(?P<head>\s*(?:-\s+)*(?:(?:"[^"]*"\s*|'[^']*'\s*|[\w<][^:#"'{}\[\]]*+):\s+)?)"""
    r"""(?P<value>[^\s"'|>\#](?:\S|\s++(?!\#|$))*+)(?:\s+\#.*)?\s*"""
)
_BRACKETS: Final = r"(?:\[\d*\](?:\.[\w\-]+)*)+"
_PATH: Final = re.compile(rf"(?:[A-Za-z_][\w.\-]*)?{_BRACKETS}")
_TAIL: Final = r"""[^,{}\[\]"':\#]*[^,{}\[\]"':\#\s]"""
_HEAD: Final = r"""[^,{}\[\]"':\#\s][^,{}\[\]"':\#]*"""
_FLOW: Final = re.compile(
    r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
    rf"""|(?P<path>(?:count|groups)\(\s*(?:[A-Za-z_][\w.\-]*)?{_BRACKETS}\s*\)"""
    rf"""|[A-Za-z_][\w.\-]*{_BRACKETS})"""
    rf"""|(?P<mixed>(?:{_HEAD})?{_BRACES}(?:[^,{{}}\[\]"':\#]*{_BRACES})*(?:{_TAIL})?)"""
)
_LONG: Final = 2000  # no line that a person mends is longer
_MANY: Final = 1000
_ADVICE: Final = (
    ("mapping values are not allowed", "quote a text that holds ': ', or mend the indentation"),
    ("cannot start any token", "quote a text that begins with @, `, % or a tab"),
    ("did not find expected ','", "close the bracket, and quote texts with , : { } [ ] in it"),
    ("did not find expected key", "mend the indentation, or quote the text before"),
    ("did not find expected '-' indicator", "give each item of the list the same indentation"),
    ("could not find expected ':'", "write ': ' after the key, or indent the text"),
    ("unexpected end of stream", "close the quote"),
    ("unexpected document indicator", "close the quote"),
    ("maximum nesting depth", "fold the text into fewer levels"),
    ("escape", r"write \\ for a backslash, or use single quotes"),
)


class Slip(NamedTuple):
    """A text that should have been quoted, and what was wrong with it."""

    code: str
    message: str
    edit: Edit


def bare_placeholder(raw: str) -> tuple[str, bool] | None:
    """Read ``{artifacts.x}`` as it stands unquoted: the placeholder, and whether it surely is one.

    ``{word}`` alone is one only where the plan names an item ``word``.
    """
    match = _ALONE.fullmatch(raw)
    if match is None:
        return None
    return "{" + match[1] + "}", _FAMILY.fullmatch(match[1]) is not None


def placeholder_as_key(raw: str) -> str | None:
    """Read ``{{artifacts.x}}``, ``{"{artifacts.x}"}`` and ``"{artifacts.x}":``, keys without a value."""
    match = _AS_KEY.fullmatch(raw)
    name = (match[1] or match[3]) if match else ""
    return "{" + name + "}" if _FAMILY.fullmatch(name) else None


def quoted(text: str) -> str:
    """Quote a text for YAML, in the plainest way that keeps it."""
    if "\n" in text or not text.isprintable():
        return json.dumps(text)
    if '"' not in text and "\\" not in text:
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"


def mend(source: Source, offset: int, done: list[Edit], *, flow: bool) -> list[Problem]:
    """Find what on the line of a syntax error should have been quoted; nothing when that is not plain."""
    start, line = source.line_at(offset)
    if len(line) > _LONG or len(done) > _MANY:
        return []
    slips = _in_flow(line) if flow else _in_block(line)
    return [
        Problem(slip.code, slip.message, first, edit=Edit(first, last, slip.edit.text))
        for slip in slips
        for first, last in [(start + slip.edit.start, start + slip.edit.end)]
        if not any(edit.start < last and first < edit.end for edit in done)
    ]


def _in_block(line: str) -> Iterator[Slip]:
    match = _BLOCK.fullmatch(line)
    if match is None or not match["head"].strip():
        return
    value = _DOUBLED.sub(r"{\1}", match["value"])
    edit = Edit(match.start("value"), match.end("value"), quoted(value))
    if value.startswith("{") and (braces := _HAS_BRACES.match(value)):
        yield Slip(UNQUOTED, is_map(braces.group()), edit)
    elif value.startswith("[") and _PATH.fullmatch(value):
        yield Slip(UNQUOTED, _is_list(value), edit)
    elif value.startswith("!"):
        yield Slip(UNQUOTED, is_tag(value), edit)
    elif value[0] in "*&@%`":
        yield Slip(SYNTAX, f"a text that begins with {value[0]} must be quoted", edit)
    elif ": " in value and value[0] not in "{[":
        yield Slip(SYNTAX, "a text that holds ': ' must be quoted", edit)


def _in_flow(line: str) -> Iterator[Slip]:
    for match in _FLOW.finditer(line):
        text = match.group()
        edit = Edit(match.start(), match.end(), quoted(text))
        if match["path"]:
            yield Slip(UNQUOTED, _is_list(text), edit)
        elif match["mixed"] and not _ALONE.fullmatch(text):
            yield Slip(UNQUOTED, is_map(_HAS_BRACES.findall(text)[0]), edit)


def is_map(text: str) -> str:
    """Say what a placeholder without quotes is to YAML."""
    return f"quote the placeholder: {text} without quotes is a map in YAML"


def _is_list(text: str) -> str:
    return f"quote the path: [] begins a list in YAML, so {text} without quotes cannot be read"


def is_tag(text: str) -> str:
    """Say what a text that begins with ``!`` is to YAML."""
    return f"quote the text: ! begins a tag in YAML, so {text[:60]} without quotes is none"


def explain(error: yaml.YAMLError, source: Source, offset: int) -> Problem:
    """Say in one line what the parser could not read, and what usually helps."""
    start, line = source.line_at(offset)
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent and start + len(indent) >= offset:
        return Problem(
            SYNTAX,
            "a tab indents this line, and YAML takes spaces only",
            start + indent.index("\t"),
            fix="indent with spaces",
        )
    if isinstance(error, yaml.reader.ReaderError):
        return Problem(
            SYNTAX,
            f"the character {line[offset - start : offset - start + 1]!r} cannot stand in YAML text",
            offset,
        )
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    message = "not readable as YAML: " + " ".join(str(problem).split())
    if context := getattr(error, "context", None):
        message += f" {context}"
        if mark := getattr(error, "context_mark", None):
            message += f" that starts on line {source.mark(min(mark.index, offset)).line}"
    fix = next((advice for words, advice in _ADVICE if words in message), None)
    return Problem(SYNTAX, message, offset, fix=fix)
