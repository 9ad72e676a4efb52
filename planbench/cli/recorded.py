"""The commands about runs on record: runs and artifacts, repair, and the record's part of show and resume."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from planbench.cli.continuing import add_ending, check_files, equipped, finish, opened
from planbench.cli.execution import FINE
from planbench.cli.sources import add_delegate, add_plans_dir, add_store, add_tools
from planbench.cli.terminal import output
from planbench.errors import RunRefused
from planbench.render.figures import size
from planbench.runtime.recollection import artifacts_of, check_status
from planbench.runtime.standing import RESUMABLE
from planbench.workbench import Workbench

if TYPE_CHECKING:
    import argparse
    from collections.abc import Coroutine, Sequence

    from planbench.checkpoints import RunRecord
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.outlook import Outlook
    from planbench.runtime.recollection import RecordedRun
    from planbench.runtime.run import Run

_LOOKED_INTO = 50


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands to the command line."""
    listed = commands.add_parser("runs", help="list the runs on record, the latest first")
    listed.add_argument("--status", metavar="S", help="only those: completed, interrupted, ...")
    listed.add_argument("--json", action="store_true", help="print them as JSON")
    add_store(listed)

    kept = commands.add_parser("artifacts", help="list what a run on record has stored")
    kept.add_argument("run", metavar="RUN", help="a run, or the start of its id")
    kept.add_argument("--json", action="store_true", help="print them as JSON")
    add_store(kept)

    mend = commands.add_parser(
        "repair", help="have a model mend the failed nodes of a run, and go on with it"
    )
    mend.add_argument("run", metavar="RUN", help="a run, or the start of its id")
    mend.add_argument(
        "--planner", metavar="PROVIDER:MODEL", required=True, help="the model that mends the plan"
    )
    add_ending(mend)
    add_tools(mend)
    add_delegate(mend)
    add_plans_dir(mend)
    add_store(mend)


def runs(options: argparse.Namespace) -> int:
    """List the runs on record, the latest first, with the calls that are left of each."""
    workbench = Workbench(store=options.store)
    records, left = _done(workbench, _listed(workbench, options.status))
    if not records and options.status is not None:
        check_status(options.status)
    screen = output()
    if options.json:
        found = [_as_json(record, left.get(record.run_id)) for record in records]
        screen.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return FINE
    if not records:
        screen.line("no runs on record" if options.status is None else f"none is {options.status}")
    rows = [
        (
            record.run_id,
            record.plan_name,
            record.status,
            "" if record.run_id not in left else left[record.run_id].calls_left,
            _moment(record.started).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        )
        for record in records
    ]
    for line in _table(rows):
        screen.line(line)
    return FINE


def artifacts(options: argparse.Namespace) -> int:
    """List what a run has stored, and whether it is still there."""
    found = artifacts_of(recorded(options).history, in_memory=False)
    screen = output()
    if options.json:
        rows = [artifact._asdict() for artifact in found]
        screen.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        return FINE
    if not found:
        screen.line(f"run {options.run} has stored nothing")
    for line in _table([(one.key, one.node, size(one.nbytes), one.kept) for one in found]):
        screen.line(line)
    return FINE


def resume(options: argparse.Namespace) -> int:
    """Say what will be called, then go on with a run on record; with a mended plan as a child of it."""
    workbench = equipped(options)

    async def look(plan: ExecutionPlan | None) -> Outlook:
        return await workbench.outlook(options.run, plan)

    plan = None
    if options.plan is None:
        found = _done(workbench, look(None))
        session = opened(workbench, found.plan, found.run_id)
    else:
        session = opened(workbench, options.plan, options.plan, options.param)
        plan = session.plan
        found = _done(workbench, look(plan))
    for line in found.text().splitlines():
        output().line(line)
    return finish(options, workbench, session, lambda: workbench.resume(options.run, plan))


def repair(options: argparse.Namespace) -> int:
    """Spend one repair attempt on a run, and run what the model has mended."""
    check_files(options)
    workbench = equipped(options)
    found = _done(workbench, workbench.outlook(options.run))
    session = workbench.session(found.plan)
    model = workbench.model(options.planner)

    async def start() -> Run:
        return await workbench.repair(options.run, model)

    return finish(options, workbench, session, start)


def recorded(options: argparse.Namespace) -> RecordedRun:
    """Read a run back; raises CommandError for an unknown one, and RunRefused."""
    workbench = Workbench(store=options.store)
    found: RecordedRun = _done(workbench, workbench.recorded(options.run))
    return found


def _done(workbench: Workbench, work: Coroutine[Any, Any, Any]) -> Any:
    """Ask the store something, and close it again."""

    async def asked() -> Any:
        try:
            return await work
        finally:
            await workbench.close()

    return asyncio.run(asked())


async def _listed(
    workbench: Workbench, status: str | None
) -> tuple[list[RunRecord], dict[str, Outlook]]:
    records = [
        record for record in reversed(await workbench.records()) if status in (None, record.status)
    ]
    left = {}
    ended = [record.run_id for record in records if record.status in RESUMABLE]
    for run_id in ended[:_LOOKED_INTO]:
        try:
            found = await workbench.outlook(run_id)
        except RunRefused:
            continue  # its record is damaged: the list says so
        if found.run_id == run_id and found.left:
            left[run_id] = found
    return records, left


def _as_json(record: RunRecord, left: Outlook | None) -> dict[str, Any]:
    return {
        "run_id": record.run_id,
        "plan_name": record.plan_name,
        "status": record.status,
        "started": _moment(record.started).isoformat(),
        "updated": _moment(record.updated).isoformat(),
        "events": record.events,
        "root_run_id": record.root_run_id,
        "parent_run_id": record.parent_run_id,
        "calls_left": None if left is None else left.left,
        "calls_total": None if left is None else left.total,
    }


def _moment(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
