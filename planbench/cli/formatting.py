"""The command ``planbench fmt``: a plan's text in the short form, or in the long one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.cli.execution import FINE, RED, check_writable
from planbench.cli.sources import NAMED, STANDARD, add_plans_dir, plan_source
from planbench.cli.terminal import errors, output
from planbench.errors import CommandError, LanguageError, PlanInvalid, PlanLoadError
from planbench.files import PlanFileStore
from planbench.files.atomic import write_whole
from planbench.plan.forms import format_plan
from planbench.validation import read_text

if TYPE_CHECKING:
    import argparse

    from planbench.plan.forms import Formatted

_VERSIONS: Final = ".versions"
_SHOWN: Final = 3


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "fmt", help="write a plan in the short form, its comments and layout kept"
    )
    parser.add_argument("plan", metavar="PLAN", help=NAMED)
    parser.add_argument(
        "--reference", action="store_true", help="write the long form, as reference files have it"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if something would be"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write it there instead of in place; - is the standard output",
    )
    add_plans_dir(parser)


def formatting(options: argparse.Namespace) -> int:
    """Write the plan in the form that is wanted; what stands in it stays the same."""
    if options.check and options.output is not None:
        raise CommandError("--check writes nothing, so it takes no --output")
    source = plan_source(options.plan, PlanFileStore(options.plans_dir))
    path = source if isinstance(source, Path) else None
    if path is not None and _VERSIONS in path.parts and not (options.check or options.output):
        hint = "write it elsewhere with -o FILE"
        raise CommandError(f"{options.plan} is a kept version, which is never changed", hint=hint)
    text = read_text(source) if isinstance(source, Path) else source
    try:
        found = format_plan(text, reference=options.reference)
    except PlanInvalid as error:
        raise PlanInvalid(error.issues, path=options.plan, name=error.name) from None
    except LanguageError as error:
        raise CommandError(f"{options.plan}: {error.message}") from error
    _tell_lost(options.plan, found)
    if options.check:
        same = found.text == text
        output().line(f"{options.plan}: {'nothing to change' if same else 'would be changed'}")
        return FINE if same else RED
    target = options.output or (STANDARD if path is None else None)
    if target == STANDARD:
        output().write(found.text)
    elif target is not None:
        check_writable(Path(target))
        _write(Path(target), found.text)
        output().line(f"wrote {target}")
    elif path is not None and found.text != text:
        _write(path, found.text)
        output().line(f"{options.plan}: changed")
    else:
        output().line(f"{options.plan}: nothing to change")
    return FINE


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path.resolve(), text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise PlanLoadError(f"{path} cannot be written: {reason}", path=path) from error


def _tell_lost(plan: str, found: Formatted) -> None:
    if found.lost:
        count = len(found.lost)
        shown = ", ".join(repr(comment) for comment in found.lost[:_SHOWN])
        more = ", ..." if count > _SHOWN else ""
        noun = "comment has" if count == 1 else "comments have"
        errors().line(f"{plan}: {count} {noun} no place in that form: {shown}{more}")
