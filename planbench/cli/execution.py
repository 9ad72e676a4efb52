"""A run from the command line: started, followed, interrupted, reported, recorded."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING, Final

from planbench.cli.interrupt import Interrupt
from planbench.cli.progress import progress
from planbench.cli.terminal import errors
from planbench.errors import CommandError
from planbench.render.figures import duration, size
from planbench.runtime.history import History
from planbench.runtime.outlook import outlook_of
from planbench.runtime.recollection import artifacts_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from planbench.cli.terminal import Screen
    from planbench.runtime.run import Run
    from planbench.session import PlanSession
    from planbench.workbench import Workbench

FINE: Final = 0
RED: Final = 1
WRONG: Final = 2
WAITING: Final = 3


def execute(
    workbench: Workbench,
    session: PlanSession,
    screen: Screen,
    *,
    start: Callable[[], Awaitable[Run]] | None = None,
    strict: bool = False,
) -> tuple[Run, int | None]:
    """Run the plan of the session to its end, and say how it stands while it runs.

    ``start`` begins the run in another way, and lets the session follow it. Gives the run,
    and the exit code where a signal ended it. Raises PlanInvalid and
    RunRefused before anything is called. The workbench is closed then.
    """
    return asyncio.run(_executed(workbench, session, screen, start or session.start, strict=strict))


async def _executed(
    workbench: Workbench,
    session: PlanSession,
    screen: Screen,
    start: Callable[[], Awaitable[Run]],
    *,
    strict: bool,
) -> tuple[Run, int | None]:
    try:
        run = await start()
        run.strict = strict
        with Interrupt(run.cancel) as interrupt:
            async with progress(screen).follow(run):
                await run.result()
            not_locked = await session.locked()
    finally:
        await workbench.close()
    screen.line(summary(run))
    if workbench.note:
        errors().line(f"planbench: note: {workbench.note}")
    if not_locked is not None:
        errors().line(f"planbench: warning: {not_locked}")
    if run.saved_as:
        errors().line(f"planbench: {run.saved_as}")
    return run, interrupt.code


def summary(run: Run) -> str:
    """Say in one line how the run ended."""
    manifest = run.manifest()
    parts = [f"{manifest.nodes_ok} of {manifest.nodes_total} nodes ok"]
    if manifest.nodes_skipped:
        parts.append(f"{manifest.nodes_skipped} skipped")
    if manifest.nodes_failed:
        parts.append(f"{manifest.nodes_failed} failed or partial")
    parts += [duration(manifest.duration_seconds), f"{size(manifest.total_bytes_stored)} stored"]
    return f"{run.plan.name}: {run.status}, {', '.join(parts)}"


def verdict(run: Run, *, strict: bool = False, allow_errors: bool = False) -> int:
    """Give the exit code of a run, and say on the standard error what is red."""
    judged = run.verdict(strict=strict)
    if judged == "fine":
        return FINE
    if judged == "waiting":
        errors().line(f"planbench: {run.plan.name} waits for an approval")
        return WAITING
    code = FINE if allow_errors or judged == "lost" else RED
    head = "" if code == RED else "warning: "
    text = run.failure_text() or run.state.reason or ""
    block(f"{head}{run.plan.name} is {run.status}", text)
    return code


def tell_the_rest(workbench: Workbench, run: Run, options: argparse.Namespace) -> None:
    """Say how a run with calls left is gone on with, where a later process can do so."""
    left = outlook_of(run)
    if left is None or not left.left or workbench.note or not workbench.remembering.store.durable:
        return
    stored = artifacts_of(History(run.run_id, run.events), in_memory=False)
    if any(artifact.kept != "durable" for artifact in stored):
        return
    words = ["planbench", "resume", run.run_id]
    for flag, values in (("--tools", options.tools), ("--env", options.env)):
        words += [word for value in values for word in (flag, value)]
    if options.store is not None:
        words += ["--store", options.store]
    errors().line(f"  {left.calls_left}: {shlex.join(words)}")


def block(message: str, rest: str = "") -> None:
    """Write one short block on the standard error."""
    screen = errors()
    screen.line(f"planbench: {message}")
    for line in rest.splitlines():
        screen.line(f"  {line}")


def check_writable(file: Path) -> None:
    """Refuse a file that could not be written, before anything is run for it."""
    if file.is_dir():
        raise CommandError(f"{file} is a folder", hint="name the file to write")
    folder = file.absolute().parent
    if not folder.is_dir():
        raise CommandError(f"there is no folder {folder}", hint="make it first, or name another")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise CommandError(f"{file} cannot be written: permission denied")
