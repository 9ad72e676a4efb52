"""How the line of a magic is read: words, flags, and values for a plan's parameters."""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from planbench.errors import CommandError
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOSING: Final = {"{": "}", "[": "]"}
_IPYTHON: Final = frozenset({"In", "Out", "exit", "get_ipython", "open", "quit"})


class HelpAsked(Exception):
    """Raised by ``--help``; the text is shown as the cell's output."""


def split_line(line: str) -> list[str]:
    r"""Split a line into words, and change nothing else.

    Quotes group at the start of a word and behind its ``=``, and go; anywhere else
    they are text, as are ``\``, ``$`` and braces. A value that starts with a brace or
    a bracket runs to the one that closes it, so JSON needs no quotes. A word that
    starts with ``#`` begins a comment. Raises CommandError for a quote left open.
    """
    words: list[str] = []
    position = 0
    while position < len(line):
        if line[position].isspace():
            position += 1
        elif line[position] == "#":
            break
        else:
            word, position = _read_word(line, position)
            words.append(word)
    return words


def _read_word(line: str, position: int) -> tuple[str, int]:
    pieces: list[str] = []
    at_start = True
    while position < len(line) and not line[position].isspace():
        letter = line[position]
        if at_start and letter in "'\"":
            end = line.find(letter, position + 1)
            if end < 0:
                raise CommandError(
                    f"the quote {letter} is not closed: {line[position:]}",
                    hint=f"close it with {letter}, or leave the quote out",
                )
            pieces.append(line[position + 1 : end])
            position = end + 1
        elif at_start and letter in _CLOSING and (end := _closing(line, position)):
            pieces.append(line[position:end])
            position = end
        else:
            pieces.append(letter)
            position += 1
        at_start = letter == "="
    return "".join(pieces), position


def _closing(line: str, position: int) -> int:
    """Give the place behind the bracket that closes the one here, 0 where none does."""
    waiting: list[str] = []
    quoted = escaped = False
    for place in range(position, len(line)):
        letter = line[place]
        if quoted:
            quoted = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            quoted, escaped = True, False
        elif letter in _CLOSING:
            waiting.append(_CLOSING[letter])
        elif waiting and letter == waiting[-1]:
            waiting.pop()
            if not waiting:
                return place + 1
    return 0


class LineParser(argparse.ArgumentParser):
    """An argparse parser whose every refusal is a CommandError with the next step."""

    def __init__(self, prog: str, description: str, **options: Any) -> None:
        super().__init__(
            prog=prog,
            description=description,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **options,
        )
        self.add_argument("-h", "--help", action=_Help, help="show this and do nothing")

    def read(self, line: str | Sequence[str]) -> argparse.Namespace:
        """Read a line, or words; raises CommandError, and HelpAsked for ``--help``."""
        words = split_line(line) if isinstance(line, str) else list(line)
        found, strangers = self.parse_known_args(words)
        if strangers:
            self._refuse(strangers[0])
        return found

    def error(self, message: str) -> NoReturn:
        """Turn what argparse says into a CommandError."""
        raise CommandError(f"{self.prog}: {message}", hint=self._short_usage())

    def flags(self) -> list[str]:
        """Name the flags, as written on the line."""
        return [flag for action in self._actions for flag in action.option_strings]

    def _refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            raise CommandError(
                f"{self.prog} has no use for {word!r} here", hint=self._short_usage()
            )
        flag = word.partition("=")[0]
        near = suggestion(f"--{flag.lstrip('-')}", self.flags())
        raise CommandError(f"{self.prog} has no flag {flag}", hint=near or self._short_usage())

    def _short_usage(self) -> str:
        return " ".join(self.format_usage().split())


class _Help(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        raise HelpAsked(parser.format_help())


def add_parameters(parser: LineParser) -> None:
    """Give a parser ``--param`` and ``--params``, the same for every magic that takes values."""
    parser.add_argument(
        "--param",
        metavar="K=V",
        action="append",
        default=[],
        help="a value for {params.K}: text as written, or K=@VARIABLE of the notebook"
        " with its type (K=@@x is the text @x); again for each parameter",
    )
    parser.add_argument(
        "--params", metavar="VAR", help="a dict of the notebook that holds parameters"
    )


def cell_parser() -> LineParser:
    """Make the parser for the first line of ``%%plan``."""
    parser = LineParser(
        "%%plan",
        "Check and draw the plan in this cell (YAML or JSON), and run it with --run.",
    )
    parser.add_argument(
        "var", metavar="VAR", nargs="?", help="gets the plan, or with --run the Run"
    )
    add_parameters(parser)
    add_run_flags(parser)
    parser.add_argument("--run", action="store_true", help="run it, and wait in this cell")
    return parser


def run_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan run``."""
    parser = LineParser("%plan run", "run a plan and wait in this cell")
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a plan of the plans folder, NAME@2 or NAME@main of it, or a plan of the notebook",
    )
    add_parameters(parser)
    add_run_flags(parser)
    return parser


def add_run_flags(parser: LineParser) -> None:
    """Give a parser the flags that say what is shown and what fails the cell."""
    parser.add_argument("--strict", action="store_true", help="lost items fail the cell too")
    parser.add_argument(
        "--allow-errors", action="store_true", help="show what is red without failing the cell"
    )
    parser.add_argument("--static", action="store_true", help="a picture in place of the panel")


def variable_name(text: str) -> str:
    """Give back a name that can be assigned to; raises CommandError for any other text."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise CommandError(
            f"{text!r} cannot be the name of a variable",
            hint="write a name, as in: %%plan morning --run",
        )
    return text


def read_parameters(
    pairs: Iterable[str], variable: str | None, namespace: Mapping[str, Any]
) -> dict[str, Any]:
    """Give the parameters of a line: ``--params`` first, each ``--param`` over it.

    Text stays text, and the plan's own declaration of a parameter decides on its type;
    a kernel variable keeps the type that it has. Raises CommandError.
    """
    values = {} if variable is None else _read_mapping(variable, namespace)
    given: set[str] = set()
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise CommandError(
                f"--param {pair!r} is not of the form NAME=VALUE",
                hint="for example: --param date=2026-08-06, or --param date=@date for a variable",
            )
        if key in given:
            raise CommandError(f"--param {key} is given twice", hint="leave one of them out")
        given.add(key)
        values[key] = read_value(value, namespace, f"--param {pair}")
    return values


def read_value(written: str, namespace: Mapping[str, Any], place: str) -> Any:
    """Give a value of a line: ``@NAME`` is a variable with its type, ``@@x`` the text ``@x``."""
    if written.startswith("@@"):
        return written[1:]
    return _read_variable(written[1:], namespace, place) if written.startswith("@") else written


def own_names(namespace: Mapping[str, Any]) -> list[str]:
    """List the names that the cells of a notebook have defined, for what may have been meant."""
    return [name for name in namespace if not name.startswith("_") and name not in _IPYTHON]


def _read_mapping(variable: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    name = variable.removeprefix("@")
    value = _read_variable(name, namespace, f"--params {variable}")
    if not isinstance(value, Mapping):
        raise CommandError(
            f"--params {variable}: the variable is of type {type(value).__name__}, not a dict",
            hint='for example: values = {"date": "2026-08-06"}, then --params values',
        )
    for key in value:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise CommandError(f"--params {variable}: {key!r} cannot be the name of a parameter")
    return dict(value)


def _read_variable(name: str, namespace: Mapping[str, Any], place: str) -> Any:
    if name not in namespace:
        raise CommandError(
            f"{place}: the notebook has no variable {name!r}",
            hint=suggestion(name, own_names(namespace)) or "run the cell that defines it first",
        )
    return namespace[name]
