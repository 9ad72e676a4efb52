"""The command ``planbench diff``: what became of a plan, in words, as Markdown, as a drawing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.cli.execution import FINE, check_writable
from planbench.cli.terminal import output
from planbench.errors import CommandError
from planbench.files import PlanFileStore, load_plan
from planbench.plan.diff import diff_plans
from planbench.render.diff import draw_diff

if TYPE_CHECKING:
    import argparse

    from planbench.plan.model import ExecutionPlan

_FILES: Final = (".yaml", ".yml", ".json")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "diff", help="say what differs between two plans, or two versions of one"
    )
    for name, what in (("old", "the plan as it was"), ("new", "the plan as it is")):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"{what}: a file, a name, NAME@2, NAME@main, or - for the standard input",
        )
    parser.add_argument(
        "--markdown", action="store_true", help="write Markdown, as a pull request shows it"
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw both plans as one graph")
    parser.add_argument(
        "--plans-dir",
        metavar="DIR",
        type=Path,
        default=Path("plans"),
        help="where plans are looked up by name (default: %(default)s)",
    )


def difference(options: argparse.Namespace) -> int:
    """Say what differs; plans that differ are no failure."""
    if options.old == options.new == "-":
        raise CommandError("the standard input holds one plan, and two are compared")
    if options.svg is not None:
        check_writable(options.svg)
    store = PlanFileStore(options.plans_dir)
    diff = diff_plans(_plan(options.old, store), _plan(options.new, store))
    screen = output()
    if options.markdown:
        screen.write(diff.to_markdown())
    elif options.svg is None:
        screen.line(diff.to_text())
    if options.svg is not None:
        options.svg.write_text(draw_diff(diff) + "\n", encoding="utf-8")
        if not options.markdown:
            screen.line(f"wrote {options.svg}")
    return FINE


def _plan(source: str, store: PlanFileStore) -> ExecutionPlan:
    if source == "-":
        return load_plan(sys.stdin.read())
    path = Path(source)
    if path.suffix in _FILES or len(path.parts) > 1:
        # a ref may hold a slash or an ending too: sweep@feature/new, sweep@v1.yaml
        named = "@" in source and not path.exists() and "/" not in source.partition("@")[0]
        return store.load(source) if named else load_plan(path)
    return store.load(source)
