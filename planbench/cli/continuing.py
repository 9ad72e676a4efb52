"""What the commands that go on with a run share: its tools, its plan, and how it is reported."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from planbench.cli.equipment import Unequipped, workbench_of
from planbench.cli.execution import check_writable, execute, tell_the_rest, verdict
from planbench.cli.findings import finding
from planbench.cli.record import session_page
from planbench.cli.sources import NAMED, parameters, plan_source
from planbench.cli.terminal import errors, output
from planbench.errors import CommandError, PlanInvalid
from planbench.plan.model import ExecutionPlan
from planbench.runtime.run import KEPT_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence

    from planbench.runtime.run import Run
    from planbench.session import PlanSession
    from planbench.workbench import Workbench


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Give a parser ``--with`` and ``--param``, for a mended plan."""
    parser.add_argument("--with", dest="plan", metavar="PLAN", help=f"with this plan: {NAMED}")
    parser.add_argument(
        "--param",
        metavar="K=V",
        action="append",
        default=[],
        help="a value for {params.K} of that plan; may be given again",
    )


def add_ending(parser: argparse.ArgumentParser) -> None:
    """Give a parser the flags that say what is red and what is written at the end."""
    parser.add_argument(
        "--allow-errors", action="store_true", help="exit with 0 also when nodes are red"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 also when a fan-out lost items"
    )
    parser.add_argument("--html", metavar="OUT", type=Path, help="write a page of the finished run")
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="save the continued run to a file"
    )
    add_limit(parser)


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Give a parser ``--max-bytes``."""
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        type=int,
        default=KEPT_BYTES,
        help="bytes of results that are read back (default: %(default)s)",
    )


def check_files(options: argparse.Namespace) -> None:
    """Refuse files that could not be written, before anything is called for them."""
    for file in (options.html, options.save):
        if file is not None:
            check_writable(file)


def equipped(options: argparse.Namespace) -> Workbench:
    """Make the workbench with the tools that were named, and room for what is read back."""
    workbench = workbench_of(options)
    if isinstance(workbench, Unequipped):
        raise CommandError(
            "nobody named the tools of the plan",
            hint="add --tools MODULE, or [tool.planbench] tools = [...] to pyproject.toml",
        )
    engine = workbench.engine
    most = max(0, options.max_bytes)
    engine.recovery = dataclasses.replace(engine.recovery, max_restore_bytes=most)
    return workbench


def opened(
    workbench: Workbench, plan: ExecutionPlan | str, called: str, params: Sequence[str] = ()
) -> PlanSession:
    """Open a plan, or the one that a word names, and refuse what does not fit the tools."""
    if isinstance(plan, ExecutionPlan):
        session = workbench.session(plan)
    else:
        session = workbench.session(plan_source(plan, workbench.plans), parameters([*params]))
    if not session.report.ok:
        raise PlanInvalid(session.report.issues, path=called, name=session.name)
    for issue in session.report.issues:
        errors().line(finding(issue, called))
    return session


def finish(
    options: argparse.Namespace,
    workbench: Workbench,
    session: PlanSession,
    begin: Callable[[], Awaitable[Run]],
) -> int:
    """Begin the run, follow it to its end, and give the exit code."""

    async def start() -> Run:
        run = await begin()
        session.follow(run)
        return run

    finished, signalled = execute(workbench, session, output(), start=start, strict=options.strict)
    code = verdict(finished, strict=options.strict, allow_errors=options.allow_errors)
    tell_the_rest(workbench, finished, options)
    if options.save is not None:
        output().line(f"saved {finished.save(options.save)}")
    if options.html is not None:
        options.html.write_text(session_page(session), encoding="utf-8")
        output().line(f"wrote {options.html}")
    return code if signalled is None else signalled
