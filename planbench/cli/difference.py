"""The command ``planbench diff``: what became of a plan, in words, as Markdown, as a drawing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planbench.cli.execution import FINE, check_writable
from planbench.cli.sources import NAMED, STANDARD, add_plans_dir, plan_source
from planbench.cli.terminal import output
from planbench.errors import CommandError
from planbench.files import PlanFileStore, load_plan
from planbench.plan.diff import diff_plans
from planbench.render.diff import draw_diff

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "diff", help="say what differs between two plans, or two versions of one"
    )
    for name, what in (("old", "the plan as it was"), ("new", "the plan as it is")):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"{what}: {NAMED}",
        )
    parser.add_argument(
        "--markdown", action="store_true", help="write Markdown, as a pull request shows it"
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw both plans as one graph")
    add_plans_dir(parser)


def difference(options: argparse.Namespace) -> int:
    """Say what differs; plans that differ are no failure."""
    if options.old == options.new == STANDARD:
        raise CommandError("the standard input holds one plan, and two are compared")
    if options.svg is not None:
        check_writable(options.svg)
    store = PlanFileStore(options.plans_dir)
    old, new = (load_plan(plan_source(word, store)) for word in (options.old, options.new))
    diff = diff_plans(old, new)
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
