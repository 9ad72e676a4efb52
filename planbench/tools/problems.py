"""What is wrong with the arguments of a call, said with the path and never with the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ArgumentPath = tuple[str | int, ...]
ProblemCode = Literal["unknown_args", "missing_args", "bad_arg_type"]

MAX_PROBLEMS: Final = 20
MAX_TEXT: Final = 300
_MAX_KEY: Final = 40
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One problem of a call's arguments; ``path`` starts with the argument's name."""

    code: ProblemCode
    path: ArgumentPath
    message: str

    def __str__(self) -> str:
        return self.message


class Finding(NamedTuple):
    """What a validator found at one place, before it is put into words.

    A firm finding stands whatever the unknown values inside its place become;
    ``names`` are the keys that a place knows.
    """

    path: ArgumentPath
    kind: Literal["missing", "extra", "bad"]
    text: str = ""
    got: str | None = None
    firm: bool = False
    names: tuple[str, ...] = ()


class Unknowns:
    """Where in the arguments a value stands that is known only when the plan runs."""

    def __init__(
        self, args: Mapping[str, Any] | None = None, is_unknown: Callable[[Any], bool] | None = None
    ) -> None:
        self._at: set[ArgumentPath] = set()
        self._above: set[ArgumentPath] = set()
        if is_unknown is None:
            return
        stack: list[tuple[ArgumentPath, Any]] = [((), args)]
        while stack:
            path, value = stack.pop()
            if path and is_unknown(value):
                self._at.add(path)
                self._above.update(path[:end] for end in range(len(path)))
            elif isinstance(value, dict):
                stack.extend(((*path, key), item) for key, item in value.items())
            elif isinstance(value, list | tuple):
                stack.extend(((*path, index), item) for index, item in enumerate(value))

    def __bool__(self) -> bool:
        return bool(self._at)

    def allow(self, finding: Finding) -> bool:
        """Whether the finding may vanish once the unknown values are there."""
        if finding.kind != "bad":
            return False
        return finding.path in self._at or (not finding.firm and finding.path in self._above)


def type_name(value: Any) -> str:
    """Name a value's type in a word."""
    return "None" if value is None else type(value).__name__[:_MAX_KEY]


def path_text(path: Iterable[str | int]) -> str:
    """Write a path as ``args.filters[2].op``."""
    pieces = ["args"]
    for part in path:
        if isinstance(part, int):
            pieces.append(f"[{part}]")
        elif (text := str(part)).isidentifier():
            pieces.append(f".{text[:_MAX_KEY]}")
        else:
            pieces.append(f"[{text[:_MAX_KEY]!r}]")
    return "".join(pieces)


def alternatives(branches: Iterable[Sequence[Finding]]) -> list[Finding]:
    """Join what the branches of a union say, when none of them fits.

    The deepest findings say the most: one above them only says that another branch
    was not meant. At one place the texts are joined by "or".
    """
    findings = [finding for branch in branches for finding in branch]
    above = {finding.path[:end] for finding in findings for end in range(len(finding.path))}
    deepest = [f for f in findings if f.kind != "bad" or f.path not in above]
    joined: dict[tuple[ArgumentPath, str], Finding] = {}
    for finding in deepest:
        key = (finding.path, finding.kind)
        known = joined.get(key)
        if known is None:
            joined[key] = finding
        elif finding.text not in known.text:
            text = f"{known.text} or {finding.text.removeprefix('should be ')}"
            joined[key] = known._replace(text=text, firm=known.firm and finding.firm)
    return list(joined.values())


def worded(finding: Finding, tool: str, names: Sequence[str]) -> ArgumentProblem:
    """Put a finding into words that a planner can mend the call by; ``names`` are the parameters."""
    path, kind, text, got, _, known = finding
    if len(path) == 1 and kind == "missing":
        message = f"tool {tool!r} needs the argument {_short(path[0])!r}"
        return ArgumentProblem("missing_args", path, message)
    if len(path) == 1 and kind == "extra":
        message = f"tool {tool!r} has no argument {_short(path[0])!r}{_known(path[0], names)}"
        return ArgumentProblem("unknown_args", path, message)
    place = path_text(path)
    if kind == "missing":
        message = f"{place} is missing"
    elif kind == "extra":
        message = f"{place} is not a known key{_known(path[-1], known)}"
    else:
        came = "" if got is None else f" (got {got})"
        message = f"{place} {_cut(text)}{came}"
    return ArgumentProblem("bad_arg_type", path, message)


def told(problems: Sequence[ArgumentProblem]) -> str:
    """Write problems as one line, the first few in full."""
    text = "; ".join(problem.message for problem in problems[:_SHOWN])
    rest = len(problems) - _SHOWN
    return text if rest <= 0 else f"{text}; and {rest} more"


def _known(name: str | int, names: Sequence[str]) -> str:
    near = suggestion(str(name)[:100], names)
    if near:
        return f": {near}"
    return f"; it has {', '.join(names[:10])}" if names else ""


def _short(part: str | int) -> str | int:
    return part[:_MAX_KEY] if isinstance(part, str) else part


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."
