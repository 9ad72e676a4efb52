"""The root of a plan's run: everything of it is below, and its last event is recorded here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from planbench import events as ev
from planbench.runtime.node import error_text
from planbench.runtime.output import capture, release
from planbench.runtime.standing import MAX_ERROR_LENGTH

if TYPE_CHECKING:
    from planbench.errors import StoreError
    from planbench.runtime.keeping import Keeper
    from planbench.runtime.run import Run
    from planbench.runtime.scheduler import Scheduler


async def plan_root(run: Run, scheduler: Scheduler, keeper: Keeper) -> None:
    """Run a plan and record how it ended; a cancellation passes through when it is on record."""
    capture()
    try:
        try:
            await scheduler.work()
        except asyncio.CancelledError:
            trouble = keeper.trouble
            kind = ev.RUN_CANCELLED if trouble is None else ev.RUN_INTERRUPTED
            run.emit(kind, _broken_off(run, scheduler, trouble))
            keeper.give_up()
            raise
        except BaseException as error:
            # a defect of the engine, or an interrupt: the journal must not say "running" for ever
            text = error_text(error, secrets=run.secrets)
            reason = f"the run broke off: {text}"[:MAX_ERROR_LENGTH]
            data = {**_broken_off(run, scheduler, None), "reason": reason}
            run.emit(ev.RUN_CANCELLED, data)
            if not isinstance(error, KeyboardInterrupt):  # the loop has raised that one already
                raise
        else:
            run.emit(ev.RUN_FINISHED, {"status": run.state.outcome()})
    finally:
        release()
        await keeper.close()


def _broken_off(run: Run, scheduler: Scheduler, trouble: StoreError | None) -> dict[str, Any]:
    """Say how the nodes stood when the run was cancelled, or its store failed."""
    reasons = {}
    for state in run.state.nodes.values():
        if state.status != "running":
            continue
        text = "cancelled"
        if state.total is not None:
            text += f" after {state.done + state.failed} of {state.total} items"
        left = scheduler.left_running(state.node_id)
        if left:
            text += f"; abandoned, {'thread' if left == 1 else f'{left} threads'} still running"
        reasons[state.node_id] = text
    if trouble is None:
        return {"status": "cancelled", "cancelled": reasons}
    return {
        "status": "interrupted",
        "cancelled": reasons,
        "reason": trouble.message,
        "code": trouble.code,
    }
