"""Plans as text: YAML that a person likes to read, JSON for machines, both read back equal.

YAML comes in block style: words plain, what YAML or an older reader of it would take for
something else in quotes, placeholders in quotes, and text of several lines as a literal
block where that keeps it exactly.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.scalars import typed

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LEVELS: Final = 200
_LONG_KEY: Final = 900  # YAML wants a colon within 1,024 characters of a key's start
_INDENT: Final = 2
_KEY: Final = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_PLAIN: Final = re.compile(r"[^\W\d_](?:[^:\#{}`\\\n]|:(?=[^\s])|(?<=\S)\#)*")
_OLD_WORDS: Final = frozenset({"yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_CONTROL: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_FLOW_SIGNS: Final = frozenset(",[]{}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def format_yaml(record: Any) -> str:
    """Write JSON values as YAML text that reads back equal.

    Raises ValueError for what no text can hold: keys that are no text, other types, lone
    surrogates, over 200 levels.
    """
    if isinstance(record, dict | list | tuple) and record:
        return "".join(f"{line}\n" for line in _block(record, 0))
    return f"{_inline(record, quote_all=True)}\n"


def format_json(record: Any) -> str:
    """Write JSON values as indented JSON text that reads back equal.

    Raises ValueError as ``format_yaml`` does, and for NaN and infinity.
    """
    return "".join(_json(record, 0)) + "\n"


def entry_lines(head: str, value: Any) -> list[str]:
    """Give the lines of one entry of a block map or list, from its ``key:`` or ``-`` on.

    Raises ValueError as ``format_yaml`` does.
    """
    return list(_entry(head, value, 0))


def key_text(name: str) -> str:
    """Write the key of a map."""
    return _key(name)


def flow_text(value: Any, quote: str = "") -> str:
    """Write a value on one line, as it may stand inside brackets.

    A text is written in the quotes that are wanted where they can hold it. Raises
    ValueError as ``format_yaml`` does.
    """
    return _flow(value, 0, quote)


def json_text(value: Any) -> str:
    """Write a value as JSON on one line; raises ValueError as ``format_json`` does."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_json_text(key)}: {json_text(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(json_text(item) for item in value)}]"
    return "".join(_json(value, 0))


def _flow(value: Any, level: int, quote: str = "") -> str:
    _check_level(level)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)}: {_flow(item, level + 1)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_flow(item, level + 1) for item in value)}]"
    if not isinstance(value, str):
        return _inline(value)
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if quote == '"':
        return _double_quoted(value)
    return _inline(value, quote_all=not _FLOW_SIGNS.isdisjoint(value))


def _block(value: Any, level: int) -> Iterator[str]:
    """Give the lines of a map or list that is not empty, indented from the margin."""
    _check_level(level)
    if isinstance(value, dict):
        for key, item in value.items():
            name = _key(key)
            if len(name) > _LONG_KEY:
                yield f"? {name}"
                name = ""
            yield from _entry(f"{name}:", item, level)
    else:
        for item in value:
            yield from _entry("-", item, level)


def _entry(head: str, item: Any, level: int) -> Iterator[str]:
    pad = " " * _INDENT
    if isinstance(item, dict | list | tuple) and item:
        lines = _block(item, level + 1)
        if head == "-":
            yield f"- {next(lines)}"
        else:
            yield head
        for line in lines:
            yield pad + line if line else line
    elif isinstance(item, str) and (literal := _literal(item)) is not None:
        yield f"{head} {literal[0]}"
        for line in literal[1:]:
            yield pad + line if line else line
    else:
        yield f"{head} {_inline(item)}"


def _key(key: Any) -> str:
    if not isinstance(key, str):
        msg = f"a key must be text to be written, not {key!r}"
        raise ValueError(msg)  # noqa: TRY004 - one error for all that no text can hold
    if _KEY.fullmatch(key) and key.lower() not in _OLD_WORDS:
        return key
    return _quoted(key)


def _inline(value: Any, *, quote_all: bool = False) -> str:
    if isinstance(value, str):
        text = str(value)
        return text if not quote_all and _is_plain(text) else _quoted(text)
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else _not_finite(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    msg = f"a plan holds JSON values, and {type(value).__name__} is none"
    raise ValueError(msg)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "!!float .nan"
    return "!!float .inf" if value > 0 else "!!float -.inf"


def _is_plain(text: str) -> bool:
    return (
        _PLAIN.fullmatch(text) is not None
        and text.isprintable()
        and not text.endswith((" ", ":"))
        and text.lower() not in _OLD_WORDS
        and isinstance(typed(text), str)
    )


def _quoted(text: str) -> str:
    _check_text(text)
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return _double_quoted(text)


def _double_quoted(text: str) -> str:
    _check_text(text)
    written = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", written)


def _literal(text: str) -> list[str] | None:
    """Give a text of several lines as a literal block: its mark and its lines."""
    if "\n" not in text or text[0] in " \t\n" or text.endswith("\n\n") or _CONTROL.search(text):
        return None
    _check_text(text)
    body = text.removesuffix("\n")
    lines = body.split("\n")
    if any(line != "" and not line.strip() for line in lines):
        return None
    return ["|" if text.endswith("\n") else "|-", *lines]


def _json(value: Any, level: int) -> Iterator[str]:
    _check_level(level)
    if isinstance(value, dict | list | tuple) and value:
        is_map = isinstance(value, dict)
        pad = " " * (_INDENT * level)
        separator = "{" if is_map else "["
        for item in value:
            yield f"{separator}\n{pad}  "
            if is_map:
                if not isinstance(item, str):
                    msg = f"a key must be text to be written, not {item!r}"
                    raise ValueError(msg)
                yield f"{_json_text(item)}: "
            yield from _json(value[item] if is_map else item, level + 1)
            separator = ","
        yield f"\n{pad}{'}' if is_map else ']'}"
    elif isinstance(value, str):
        yield _json_text(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            msg = f"JSON has no {'NaN' if math.isnan(value) else 'infinity'}"
            raise ValueError(msg)
        yield repr(float(value))
    else:
        yield _inline(value)


def _json_text(text: str) -> str:
    _check_text(text)
    return json.dumps(str(text), ensure_ascii=False)


def _check_text(text: str) -> None:
    if _SURROGATE.search(text):
        msg = f"the text {text[:60]!r} holds a lone surrogate, which no file can hold"
        raise ValueError(msg)


def _check_level(level: int) -> None:
    if level > _MAX_LEVELS:
        msg = f"nested deeper than {_MAX_LEVELS} levels"
        raise ValueError(msg)
