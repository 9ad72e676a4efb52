"""What to write instead, for a guard that does not compile.

People and models write Python, SQL or JavaScript where CEL is meant, and each habit has
its answer. Only guards that failed are looked at, so a wrong guess does no harm.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

READS: Final = "a guard reads ctx.artifacts.<id>.<facet>, ctx.status.<id> and ctx.errors"

_ERROR: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (?:Syntax error: )?([^\n]*)")
_STATUS: Final = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]\s*$")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'.*")
_QUOTED: Final = re.compile(r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|//[^\n]*""")
_HYPHEN: Final = re.compile(
    r"\b(ctx\.(?:artifacts|status)|ctx\.artifacts\.\w+)\.(\w+(?:-\w+)+)((?:\.\w+)?)"
)
_KEYWORD: Final = re.compile(r"\b(ctx(?:\.\w+)*)\.(in|true|false|null)\b((?:\.\w+)?)")
_HABITS: Final = (
    (re.compile(r"(?<![.\w])and\b|(?<!&)&(?!&)"), "write && for and"),
    (re.compile(r"(?<![.\w])or\b|(?<!\|)\|(?!\|)"), "write || for or"),
    (re.compile(r"(?<![.\w])not\b"), "write ! for not"),
    (re.compile(r"(?<![.\w])True\b"), "write true for True"),
    (re.compile(r"(?<![.\w])False\b"), "write false for False"),
    (re.compile(r"(?<![.\w])(?:None|nil|undefined)\b"), "write null for nothing"),
    (re.compile(r"(?<![.\w])is\b|(?<![=!<>])=(?![=!])|==="), "write == to compare"),
    (re.compile(r"<>|=!|!=="), "write != for unequal"),
    (re.compile(r"(?<![.\w])if\b"), "write condition ? a : b for a choice"),
    (re.compile(r"(?<![.\w])for\b"), "write list.exists(x, x > 1) or list.all(x, x > 1)"),
    (
        re.compile(r"\{(?:artifacts|nodes|params|item|env)\."),
        "a guard takes no placeholders: write ctx.artifacts.<id>.<facet>",
    ),
    (re.compile(r"#"), "write // before a comment"),
)
_CALLS: Final = {
    "len": "size(x)",
    "length": "size(x)",
    "count": "size(x)",
    "startswith": "x.startsWith(y)",
    "endswith": "x.endsWith(y)",
    "includes": "x.contains(y)",
    "any": "x.exists(e, e > 1)",
    "some": "x.exists(e, e > 1)",
    "every": "x.all(e, e > 1)",
    "str": "string(x)",
    "float": "double(x)",
}


class Finding(NamedTuple):
    """Why a guard does not compile, and what to write."""

    problem: str
    hint: str | None


def explain(text: str, report: str) -> Finding:
    """Turn CEL's report on a guard into one line and the hints that fit."""
    if "recursion" in report:
        return Finding("it is nested too deeply", "CEL takes 32 levels; let the tool work it out")
    errors = _ERROR.findall(report)
    if not errors:
        return Finding(reason(report), None)
    line, column, said = errors[0]
    unknown = [name for _, _, error in errors for name in _UNDECLARED.findall(error)]
    if unknown and _UNDECLARED.match(said):
        is_call = text.split("\n")[int(line) - 1][int(column) - 1 :].startswith("(")
        said = (
            f"CEL has no function {unknown[0]!r}"
            if is_call
            else f"{unknown[0]!r} is not known: {READS}"
        )
    said = _STATUS.sub("", said).partition(" expecting {")[0]
    place = f"line {line}, character {column}" if int(line) > 1 else f"character {column}"
    hints = "; ".join(dict.fromkeys([*_habits(text), *_names(unknown)]))
    return Finding(f"{said} ({place})", hints or None)


def reason(report: str) -> str:
    """Give what CEL says without its status codes, at most 300 characters."""
    return _STATUS.sub("", report.strip().partition("\n")[0])[:300]


def _habits(text: str) -> list[str]:
    bare = _QUOTED.sub('""', text)
    indexed = [*_HYPHEN.findall(bare), *_KEYWORD.findall(bare)]
    hints = [f'write {before}["{name}"]{rest}' for before, name, rest in indexed]
    return [*hints, *(hint for pattern, hint in _HABITS if pattern.search(bare))]


def _names(unknown: list[str]) -> list[str]:
    calls = [f"write {_CALLS[name]} for {name}" for name in unknown if name in _CALLS]
    roots = [name.partition(".")[0] for name in unknown]
    return [*calls, *(f"write ctx.{r}" for r in roots if r in {"artifacts", "status", "errors"})]
