"""The command line as argparse reads it."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn

from planbench.cli import difference, formatting, language, recorded, runs, versions
from planbench.cli.sources import NAMED, add_delegate, add_plans_dir, add_store, add_tools
from planbench.errors import CommandError
from planbench.plan.structure import suggestion

DESCRIPTION: Final = "Plans of tool calls: drawn, checked, run and kept."
EXIT_CODES: Final = (
    "exit codes: 0 fine, 1 something is red, 2 the plan or the command is wrong, "
    "3 waiting for an approval, 130 interrupted"
)
PICTURES: Final = (".svg", ".html", ".dot", ".txt")


class _Parser(argparse.ArgumentParser):
    """Raises CommandError where argparse would print its usage and leave."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **settings,
            allow_abbrev=False,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        raise CommandError(message, hint=f"see: {self.prog} --help")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = getattr(found, "command", None)
            flags = _flags(self, command)
            near = suggestion(unknown[0].partition("=")[0], flags)
            hint = near or f"see: {self.prog}{f' {command}' if command else ''} --help"
            raise CommandError(f"there is no argument {unknown[0]!r}", hint=hint)
        return found


def _flags(parser: argparse.ArgumentParser, command: str | None) -> list[str]:
    found: list[str] = []
    for action in parser._actions:  # noqa: SLF001 - argparse lists its options nowhere else
        found += action.option_strings
        if isinstance(action, argparse._SubParsersAction) and command in action.choices:  # noqa: SLF001 - as above
            found += _flags(action.choices[command], None)
    return found


def command_line() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    parser = _Parser(prog="planbench", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"planbench {version('planbench')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    check = commands.add_parser(
        "validate", help="check a plan against the tools, without calling any"
    )
    _add_plan(check)
    check.add_argument("--json", action="store_true", help="print the report as JSON")

    run = commands.add_parser("run", help="check a plan and run it")
    _add_plan(run)
    add_delegate(run)
    add_store(run)
    run.add_argument(
        "--allow-errors", action="store_true", help="exit with 0 also when nodes are red"
    )
    run.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 also when a fan-out lost items (as PLANBENCH_STRICT=1 does)",
    )
    run.add_argument(
        "--json", metavar="FILE", help="write the manifest as JSON; - is the standard output"
    )
    run.add_argument("--html", metavar="FILE", type=Path, help="write a page of the finished run")

    picture = commands.add_parser("render", help="draw a plan into a file")
    _add_plan(picture)
    picture.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        required=True,
        help=f"the picture; its ending says which: {', '.join(PICTURES)}",
    )

    demo = commands.add_parser(
        "demo", help="run the daily security sweep on real reports and show what it found"
    )
    demo.add_argument(
        "--data", metavar="DIR", type=Path, help="another folder of reports of the same form"
    )
    demo.add_argument("--date", metavar="D", help="the day of the sweep, as 2026-08-06")
    demo.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("demo-output"),
        help="where the notebook and the page go (default: %(default)s)",
    )
    difference.add(commands)
    formatting.add(commands)
    versions.add(commands)
    recorded.add(commands)
    runs.add(commands)
    language.add(commands)
    return parser


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help=NAMED)
    parser.add_argument(
        "--param",
        metavar="K=V",
        action="append",
        default=[],
        help="a value for {params.K}; may be given again",
    )
    add_tools(parser)
    add_plans_dir(parser)
