"""How a cell ends: with what is red, what was lost, what was cancelled, or what cannot be waited for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from planbench.errors import CommandError, RunCancelled, RunFailed

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planbench.runtime import Run


def judge(run: Run, *, allow_errors: bool, strict: bool) -> None:
    """Raise for what is red; say what was lost."""
    if allow_errors:
        return
    match run.verdict(strict=strict):
        case "cancelled":
            raise cancelled(run)
        case "red":
            what = "plan" if run.state.agent is None else "algorithm"
            text = f"{what} {run.plan.name!r} is {run.status}\n{_why(run)}"
            raise RunFailed(text.rstrip(), manifest=run.manifest())
        case "lost":
            sys.stderr.write(f"planbench: items were lost\n{run.failure_text()}\n")


def _why(run: Run) -> str:
    """Say why a run is red: by its nodes, and what an algorithm itself says."""
    reason = run.state.reason if run.state.agent is not None else None
    told = run.failure_text()
    return told if reason is None or reason in told else f"{reason}\n{told}"


def cancelled(run: Run | None) -> RunCancelled:
    """Make the error for a cell whose run was cancelled."""
    if run is None:
        return RunCancelled("the run was cancelled before it began")
    whole = sum(node.status == "ok" for node in run.state.nodes.values())
    return RunCancelled(
        f"run {run.run_id} of plan {run.plan.name!r} was cancelled:"
        f" {whole} of {run.nodes_total} nodes had finished",
        hint=f"what they stored is kept; go on with %plan resume {run.run_id}",
    )


def out_of_reach(
    form: str,
    shell: InteractiveShell,
    what: str = "the run",
    instead: str = "planbench.run_sync(plan)",
) -> CommandError:
    """Make the error for a form that has to be awaited and cannot be where it stands."""
    if not shell.autoawait:
        return CommandError(f"{form} waits for {what}, and %autoawait is off: write %autoawait on")
    return CommandError(
        f"{form} waits for {what} and cannot do so from here: put it into a cell of its own, not under"
        " another magic or in a plain function, in a cell after %load_ext planbench; in a script"
        f" write {instead}"
    )
