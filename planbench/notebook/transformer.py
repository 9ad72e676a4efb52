"""One cell transformer that turns the forms that must be awaited into awaited calls.

A magic is called, not awaited, so a magic alone could only start a run and leave it
behind. The transformer sees the cell as it was typed and writes the awaited call in
its place, in the same cell; line and body go over unchanged, as ``repr``.
"""

from __future__ import annotations

import inspect
import re
import tokenize
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from IPython.core.inputtransformer2 import (
    EscapedCommand,
    MagicAssign,
    TransformerManager,
    classic_prompt,
    ipython_prompt,
    leading_empty_lines,
    leading_indent,
)
from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.inputtransformer2 import TokenTransformBase

Tokens = Sequence[tokenize.TokenInfo]

AWAITED: Final = frozenset({"run", "resume", "repair", "runs", "show", "status", "artifacts"})
"""The subcommands of ``%plan`` that wait for a run, or for what is on record; ``%plan`` alone does so too."""

CELLS: Final = {"plan": "cell", "plan_objective": "objective"}
"""The cell magics, with what is awaited in their place."""

# The registry of magics is out of reach of `del` and of `%reset` in a notebook.
ENTRY: Final = "get_ipython().magics_manager.registry['PlanMagics']"

# IPython's own pieces, with the types that it does not state.
_CLEANUP: Final[tuple[Callable[[list[str]], list[str]], ...]] = (
    leading_empty_lines,
    leading_indent,
    classic_prompt,
    ipython_prompt,
)
_new_manager: Final[Callable[[], Any]] = TransformerManager
_find_assignment: Final[Callable[[Sequence[Tokens]], Any]] = MagicAssign.find

_CELL: Final = re.compile(
    r"%%(?P<magic>plan|plan_objective)(?:[ \t](?P<line>[^\r\n]*))?(?:\r\n|\n|\r|$)"
)
_LINE_ENDS: Final = re.compile(r"(?<=\n)")  # str.splitlines also splits at form feeds and the like
_SKIPPED: Final = {tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT}
_ENDS: Final = {tokenize.NEWLINE, tokenize.ENDMARKER}
_MAGIC_CALLS: Final = (
    InteractiveShell.run_cell_magic.__code__,
    InteractiveShell.run_line_magic.__code__,
)


class PlanTransformer:
    """The cleanup transformer of one shell; it goes before IPython's own.

    IPython's cleanup strips prompts and blanks from every line of a cell, and the
    body of ``%%plan`` is no Python: it has to be taken out first.
    """

    # Without this a terminal would take "%%plan" for a whole cell at the first Enter.
    has_side_effects = True

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Give the cell with its awaited forms, or the same lines where there are none."""
        text = "".join(lines)
        if "%plan" not in text or not self.shell.autoawait:
            return lines
        nested = _inside_a_magic()
        cell = _cell_form(text, awaited=not nested)
        if cell is not None:
            return [cell]
        if nested or _is_other_cell_magic(lines):
            return lines
        cleaned = lines
        for clean in _CLEANUP:
            cleaned = clean(cleaned)
        cell = _cell_form("".join(cleaned), awaited=True)
        if cell is not None:
            return [cell]
        if _is_other_cell_magic(cleaned):
            return lines
        return self._line_forms(cleaned, lines)

    def _line_forms(self, cleaned: list[str], lines: list[str]) -> list[str]:
        # IPython rewrites its special syntax from the top, one piece at a time, since
        # what follows a piece can be tokenized only when the piece is gone.
        manager = _new_manager()
        manager.token_transformers = [
            PlanCommand,
            PlanAssign,
            *self.shell.input_transformer_manager.token_transformers,
        ]
        changed: list[str] = manager.do_token_transforms(cleaned)
        return changed if any(ENTRY in line for line in changed) else lines


class PlanCommand(EscapedCommand):
    """``%plan run ...`` as a statement."""

    priority = 7  # after help (5), before IPython's own reading of the same place (10)
    method = "line"

    @classmethod
    def find(cls, tokens_by_line: Sequence[Tokens]) -> TokenTransformBase | None:
        """Find the first one in the cell that can be awaited where it stands."""
        for row, line in enumerate(tokens_by_line):
            for position in cls._places(line):
                if _is_awaited_magic(line[position:]) and _can_await(tokens_by_line, row, position):
                    return cls(line[position].start)
        return None

    @staticmethod
    def _places(line: Tokens) -> Iterator[int]:
        """Where in a logical line the magic may begin: as its first token."""
        for position, token in enumerate(line):
            if token.type not in {tokenize.INDENT, tokenize.DEDENT}:
                yield position
                return

    def transform(self, lines: list[str]) -> list[str]:
        """Write the awaited call in place of the magic."""
        before, text, after = self._cut(lines)
        head = lines[self.start_line][: self.start_col]
        words = text.removeprefix("%plan").lstrip()
        return [*before, f"{head}await {ENTRY}.{self.method}({words!r})\n", *after]

    def _cut(self, lines: list[str]) -> tuple[list[str], str, list[str]]:
        """Give the lines before, the magic itself as one line, and the lines after."""
        end = self.start_line
        while end + 1 < len(lines) and lines[end].rstrip("\r\n").endswith("\\"):
            end += 1
        first, *rest = lines[self.start_line : end + 1]
        pieces = [piece.rstrip("\r\n") for piece in (first[self.start_col :], *rest)]
        whole = [piece.removesuffix("\\") for piece in pieces[:-1]]
        return lines[: self.start_line], " ".join([*whole, pieces[-1]]), lines[end + 1 :]


class PlanAssign(PlanCommand):
    """``x = %plan run ...``: the same, and the Run is the value."""

    method = "value"

    @staticmethod
    def _places(line: Tokens) -> Iterator[int]:
        assigned = _find_assignment([line])
        if assigned is None:
            return
        for position, token in enumerate(line):
            if token.start == (assigned.start_line + 1, assigned.start_col):
                yield position
                return


def _is_awaited_magic(tokens: Tokens) -> bool:
    match [token for token in tokens[:4] if token.type not in _SKIPPED]:
        case [percent, plan, *rest] if percent.string == "%" and plan.string == "plan":
            return percent.end == plan.start and _waits(plan, rest)
    return False


def _waits(plan: tokenize.TokenInfo, rest: Tokens) -> bool:
    """Whether what stands behind ``%plan`` waits: nothing, or one of the subcommands that do."""
    if not rest or rest[0].type in _ENDS or rest[0].string.isspace():
        return True
    command, *behind = rest
    return (
        command.string in AWAITED
        and command.start != plan.end
        and (not behind or _ends_word(command, behind[0]))
    )


def _ends_word(word: tokenize.TokenInfo, follower: tokenize.TokenInfo) -> bool:
    return follower.start != word.end or follower.type in _ENDS or follower.string.isspace()


def _can_await(tokens_by_line: Sequence[Tokens], row: int, position: int) -> bool:
    """Whether ``await`` may stand there: not in a plain function, not in a class body."""
    own = [token for token in tokens_by_line[row][:position] if token.type not in _SKIPPED]
    start = own[0] if own else tokens_by_line[row][position]
    column = start.start[1]
    headers = [own] if own else []
    for line in reversed(tokens_by_line[:row]):
        if column == 0:
            break
        words = [token for token in line if token.type not in _SKIPPED]
        if words and words[0].start[1] < column and words[0].string.strip():
            column = words[0].start[1]
            headers.append(words)
    for header in headers:
        if header[0].string == "async" and len(header) > 1 and header[1].string == "def":
            return True
        if header[0].string in {"def", "class"}:
            return False
    return True


def _cell_form(text: str, *, awaited: bool) -> str | None:
    """Write the call for a cell that begins with one of the magics, after blanks and comments."""
    start = 0
    for line in _LINE_ENDS.split(text):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        start += len(line)
    indent = len(text[start:]) - len(text[start:].lstrip(" \t"))
    match = _CELL.match(text, start + indent)
    if match is None:
        return None
    body = text[match.end() :]
    if indent:
        body = _dedent(body, text[start : start + indent])
    call = CELLS[match["magic"]] if awaited else match["magic"]
    prefix = "await " if awaited else ""
    return f"{prefix}{ENTRY}.{call}({match['line'] or ''!r}, {body!r})\n"


def _dedent(body: str, indent: str) -> str:
    """Take the indent of the first line away, where every line of the body has it."""
    lines = _LINE_ENDS.split(body)
    if any(line.strip() and not line.startswith(indent) for line in lines):
        return body
    return "".join(line.removeprefix(indent) for line in lines)


def _is_other_cell_magic(lines: Sequence[str]) -> bool:
    for line in lines:
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return stripped.startswith("%%")
    return False


def _inside_a_magic() -> bool:
    """Whether another magic, such as ``%%time``, asks for this transformation.

    Such a magic runs the code itself, as plain Python, where nothing can be awaited.
    """
    frame: Any = inspect.currentframe()
    while frame is not None:
        if frame.f_code in _MAGIC_CALLS:
            return True
        frame = frame.f_back
    return False
