"""The commands ``planbench save`` and ``planbench history``: the versions of a plan by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.cli.equipment import workbench_of
from planbench.cli.execution import FINE
from planbench.cli.findings import finding
from planbench.cli.sources import NAMED, add_plans_dir, add_tools, plan_source
from planbench.cli.terminal import errors, output
from planbench.files import PlanFileStore
from planbench.plan.document import format_json
from planbench.validation import read_text

if TYPE_CHECKING:
    import argparse

_SHA: Final = 12


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands to the command line."""
    keep = commands.add_parser("save", help="save a plan as a new version in the plans folder")
    keep.add_argument("plan", metavar="PLAN", help=NAMED)
    keep.add_argument("name", metavar="NAME", help="the name to save it under")
    keep.add_argument(
        "--force", action="store_true", help="save a plan also when it does not fit the tools"
    )
    add_tools(keep)
    add_plans_dir(keep)
    told = commands.add_parser("history", help="list the versions of a plan, the oldest first")
    told.add_argument("name", metavar="NAME", help="the name of a plan in the plans folder")
    told.add_argument("--json", action="store_true", help="print the versions as JSON")
    add_plans_dir(told)


def save(options: argparse.Namespace) -> int:
    """Save the text as it was written, comments included; a text that is there makes no version."""
    workbench = workbench_of(options)
    source = plan_source(options.plan, workbench.plans)
    text = source if isinstance(source, str) else read_text(source)
    saved = workbench.save(text, options.name, force=options.force)
    for issue in saved.report.issues:
        errors().line(finding(issue, options.plan))
    output().line(str(saved))
    return FINE


def history(options: argparse.Namespace) -> int:
    """List the versions; a file that was edited by hand stands under the number it will get."""
    versions = PlanFileStore(options.plans_dir).history(options.name)
    screen = output()
    if options.json:
        screen.write(format_json([version.model_dump(mode="json") for version in versions]))
        return FINE
    width = len(str(versions[-1].version)) if versions else 1
    for version in versions:
        saved = f"{version.saved_at.astimezone():%Y-%m-%d %H:%M}"
        said = " ".join((version.objective or "").split())
        model = f" ({version.model})" if version.model else ""
        screen.line(
            f"{version.version:>{width}}  {saved}  {version.sha256[:_SHA]}  {said}{model}".rstrip()
        )
    return FINE
