"""The subcommands about runs that wait for the store: listed, looked at, gone on with, repaired."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from planbench.errors import CommandError, PlanInvalid, RunRefused
from planbench.notebook.arguments import LineParser, add_run_flags, read_parameters
from planbench.notebook.command import Notebook, frame, one, plan_names, run_words
from planbench.notebook.sources import plan_to_run, run_of
from planbench.runtime import Run
from planbench.runtime.history import History
from planbench.runtime.outlook import outlook_of
from planbench.runtime.recollection import artifacts_of, check_status
from planbench.runtime.run_format import ENDING
from planbench.runtime.standing import RESUMABLE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable, Iterable

    from planbench.checkpoints import RunRecord
    from planbench.notebook.listing import Listing
    from planbench.plan.model import ExecutionPlan
    from planbench.session import PlanSession
    from planbench.workbench import Workbench

SHOWN: Final = 50
LOOKED_INTO: Final = 20
_CELL: Final = "cell"
_FILES: Final = (".yaml", ".yml", ".json")
_TODAY: Final = 86_400.0


class WaitingNotebook(Notebook, Protocol):
    """What these subcommands can reach beyond what others can."""

    async def continue_run(
        self, session: PlanSession, begin: Callable[[], Awaitable[Run]], options: Namespace
    ) -> Run:
        """Show a session, begin its run, wait for the end and raise what is red."""
        ...


# -- looking --------------------------------------------------------------------------------


def runs_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan runs``."""
    parser = LineParser("%plan runs", "the runs of this kernel and those on record, latest first")
    parser.add_argument("--status", metavar="S", help="only those: completed, interrupted, ...")
    parser.add_argument("--all", action="store_true", help=f"more than the latest {SHOWN}")
    return parser


async def runs(notebook: Notebook, words: list[str]) -> Listing:
    """Table the runs of this kernel and those on record, the latest first."""
    options = runs_parser().read(words)
    bench = notebook.workbench
    records = await bench.records()
    mine = {run.run_id for run in bench.runs}
    found = [(run.state.started or 0.0, _row(run)) for run in bench.runs]
    others = [record for record in records if record.run_id not in mine]
    left = await _calls_left(bench, others)
    found += [(one.started, _recorded_row(one, left.get(one.run_id, ""))) for one in others]
    rows = [row for _, row in sorted(found, key=lambda pair: pair[0], reverse=True)]
    rows = [row for row in rows if options.status in (None, row[2])]
    if not rows and options.status is not None:
        check_status(options.status)
    return frame(rows if options.all else rows[:SHOWN], COLUMNS)


COLUMNS: Final = ["run", "plan", "status", "calls left", "nodes", "started", "seconds"]


def kernel_runs(workbench: Workbench) -> Listing:
    """Table the runs of this kernel alone, where nothing can be waited for."""
    return frame([_row(run) for run in reversed(workbench.runs)], COLUMNS)


async def _calls_left(bench: Workbench, records: list[RunRecord]) -> dict[str, str]:
    known = {one.run_id: f"{one.left:,} of {one.total:,}" for one in bench.interrupted()}
    ended = [one.run_id for one in records if one.status in RESUMABLE and one.run_id not in known]
    for run_id in ended[-LOOKED_INTO:]:
        try:
            found = await bench.outlook(run_id)
        except RunRefused:
            continue  # its status says that it is damaged
        if found.run_id == run_id and found.left:
            known[run_id] = f"{found.left:,} of {found.total:,}"
    return known


def _row(run: Run) -> tuple[Any, ...]:
    left = outlook_of(run) if run.finished else None
    return (
        run.run_id,
        run.plan.name,
        run.status,
        "" if left is None else f"{left.left:,} of {left.total:,}",
        f"{run.nodes_done}/{run.nodes_total}",
        "" if not run.events else _moment(run.events[0].timestamp),
        round(run.manifest().duration_seconds, 3),
    )


def _recorded_row(record: RunRecord, left: str) -> tuple[Any, ...]:
    seconds = round(record.updated - record.started, 3)
    started = _moment(record.started)
    return (record.run_id, record.plan_name, record.status, left, "", started, seconds)


def _moment(timestamp: float) -> str:
    form = "%H:%M:%S" if time.time() - timestamp < _TODAY else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(timestamp))


async def show(notebook: Notebook, words: list[str]) -> None:
    """Open the panel of a run again, also of one that is only on record."""
    notebook.show_run(await _known(notebook, words, "show", "open the panel of a run again"))


async def status(notebook: Notebook, words: list[str]) -> Listing:
    """Table the nodes of a run as they stand, also of one that is only on record."""
    return status_table(await _known(notebook, words, "status", "the nodes of a run as they stand"))


def status_table(run: Run) -> Listing:
    """Table the nodes of a run as they stand."""
    rows = [
        (
            node_id,
            state.status,
            None if state.total is None else f"{state.done + state.failed}/{state.total}",
            None if state.seconds is None else round(state.seconds, 3),
            state.nbytes,
            state.reason or (state.errors[0] if state.errors else ""),
        )
        for node_id, state in run.state.nodes.items()
    ]
    return frame(rows, ["node", "status", "items", "seconds", "bytes", "reason"])


async def artifacts(notebook: Notebook, words: list[str]) -> Listing:
    """Table what a run has stored, and whether it outlives this kernel."""
    run = await _known(notebook, words, "artifacts", "what a run has stored")
    return artifact_table(run, in_memory=any(run is one for one in notebook.workbench.runs))


def artifact_table(run: Run, *, in_memory: bool) -> Listing:
    """Table what a run has stored; ``in_memory`` says whether what is not durable is there too."""
    found = artifacts_of(History(run.run_id, run.events), in_memory=in_memory)
    columns = ["key", "node", "item", "bytes", "version", "kept"]
    return frame([tuple(artifact) for artifact in found], columns)


async def _known(notebook: Notebook, words: list[str], command: str, summary: str) -> Run:
    """Find a run of this kernel, else one on record; without a name the latest."""
    name = one(words, command, "RUN", summary, optional=True)
    bench = notebook.workbench
    try:
        return run_of(notebook, name)
    except CommandError:
        if name is None:
            records = await bench.records()
            if not records:
                raise
            name = records[-1].run_id
    return (await bench.recorded(name)).run


async def _run_id(notebook: Notebook, word: str | None) -> str:
    """Find the run to go on with: one that a variable holds, else by its id."""
    value = None if word is None else notebook.shell.user_ns.get(word.removeprefix("@"))
    return value.run_id if isinstance(value, Run) else await notebook.workbench.find(word)


# -- going on -------------------------------------------------------------------------------


def resume_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan resume``."""
    parser = LineParser("%plan resume", "go on with a run, and wait in this cell")
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help=f"a run of this or of an earlier kernel, or a file as failed{ENDING};"
        " without one the latest that can be continued",
    )
    parser.add_argument(
        "--with",
        dest="plan",
        metavar="PLAN",
        help="with a mended plan: a file, a name, a variable, or the word cell for the last %%plan cell",
    )
    parser.add_argument(
        "--param",
        metavar="K=V",
        action="append",
        default=[],
        help="a value for {params.K} of that plan; again for each parameter",
    )
    parser.add_argument("--params", metavar="VAR", help="a dict of the notebook with parameters")
    add_run_flags(parser)
    return parser


async def resume(notebook: WaitingNotebook, words: list[str]) -> Run:
    """Say what will be called, then go on with a run; raises what is red."""
    options = resume_parser().read(words)
    if options.plan is None and (options.param or options.params is not None):
        raise CommandError(
            "parameters are for a mended plan, and none is named: a run goes on with its own",
            hint="leave them out, or add --with PLAN",
        )
    bench = notebook.workbench
    if options.run is not None and options.run.endswith(ENDING):
        return await _resume_file(notebook, options)
    run_id = await _run_id(notebook, options.run)
    if options.plan is None:
        look = await bench.outlook(run_id)
        session, plan = bench.session(look.plan), None
    else:
        session, plan = _mended(notebook, options, run_id)
        look = await bench.outlook(run_id, plan)
    notebook.publish({"text/plain": look.text()})
    return await notebook.continue_run(session, lambda: bench.resume(run_id, plan), options)


async def _resume_file(notebook: WaitingNotebook, options: Namespace) -> Run:
    from planbench.runtime.saved_run import open_run  # noqa: PLC0415 - few notebooks read a run file

    bench = notebook.workbench
    with await asyncio.to_thread(open_run, _run_file(options.run)) as saved:
        plan = None
        if options.plan is None:
            session = bench.session(saved.run.plan)
        else:
            session, plan = _mended(notebook, options, None)
        return await notebook.continue_run(
            session, lambda: bench.continue_from(saved, plan), options
        )


def _run_file(word: str) -> Path:
    path = Path(word).expanduser()
    if not path.exists():
        raise CommandError(f"there is no file {word}", hint="name a file that run.save() wrote")
    return path


def _mended(
    notebook: Notebook, options: Namespace, run_id: str | None
) -> tuple[PlanSession, ExecutionPlan]:
    """Open the plan that is to go on; the values of its parameters are those of the run, unless given."""
    bench = notebook.workbench
    params = read_parameters(options.param, options.params, notebook.shell.user_ns)
    if not params:
        before = next((run for run in bench.runs if run.run_id == run_id), None)
        origin = None if before is None else bench.origins.get(before)
        params = dict(origin.params or {}) if origin is not None else {}
    session = bench.session(_source(notebook, options.plan), params)
    if session.plan is None or not session.report.ok:
        issues, name = session.report.issues, session.name
        session.close()
        raise PlanInvalid(issues, name=name)
    return session, session.plan


def _source(notebook: Notebook, word: str) -> Path | str | ExecutionPlan:
    taken = word in plan_names(notebook.workbench) or word in notebook.shell.user_ns
    if word == _CELL and not taken:
        if notebook.cells.latest is None:
            raise CommandError("there was no %%plan cell yet", hint="write the mended plan in one")
        return notebook.cells.latest
    path = Path(word).expanduser()
    if path.suffix in _FILES and (path.exists() or len(path.parts) > 1):
        return path  # a path that is none says what its folder has
    return plan_to_run(notebook, word)


def resume_words(workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
    """Name what may stand behind ``%plan resume``."""
    del word
    if before[-1:] == ["--with"]:
        return [*plan_names(workbench), _CELL]
    return run_words(workbench)


# -- repairing ------------------------------------------------------------------------------


def repair_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan repair``."""
    parser = LineParser(
        "%plan repair", "have a model mend the failed nodes of a run, and go on with it"
    )
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run that ended with failed nodes")
    parser.add_argument(
        "--model",
        metavar="M",
        help="provider:model, or @VARIABLE for a client of the notebook; without it"
        " %%config PlanMagics.planner",
    )
    add_run_flags(parser)
    return parser


async def repair(notebook: WaitingNotebook, words: list[str]) -> Run:
    """Spend one repair attempt on a run, and run what the model has mended; raises what is red."""
    options = repair_parser().read(words)
    bench = notebook.workbench
    run_id = await _run_id(notebook, options.run)
    model = options.model
    if model is not None and model.startswith("@"):
        if model[1:] not in notebook.shell.user_ns:
            raise CommandError(
                f"the notebook has no variable {model[1:]!r}",
                hint="run the cell that defines it first",
            )
        model = notebook.shell.user_ns[model[1:]]
    model = bench.planner if model is None else model
    if model is None:
        raise CommandError(
            "no model is chosen to mend the plan",
            hint="give --model provider:model, or set %config PlanMagics.planner",
        )
    look = await bench.outlook(run_id)
    session = bench.session(look.plan)
    return await notebook.continue_run(
        session, lambda: bench.repair(run_id, bench.model(model)), options
    )
