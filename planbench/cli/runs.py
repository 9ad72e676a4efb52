"""The commands ``planbench show`` and ``planbench resume``: a run in a file, looked at and continued."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from planbench.cli.equipment import Unequipped, workbench_of
from planbench.cli.execution import FINE, check_writable, execute, summary, verdict
from planbench.cli.findings import finding
from planbench.cli.record import session_page
from planbench.cli.sources import NAMED, add_plans_dir, add_tools, parameters, plan_source
from planbench.cli.terminal import errors, output
from planbench.errors import (
    ArtifactNotFound,
    ArtifactUnavailable,
    CommandError,
    PlanInvalid,
    StoreError,
)
from planbench.events import PREFIX
from planbench.plan.structure import suggestion
from planbench.render.figures import duration, size
from planbench.render.text import as_text
from planbench.runtime.details import node_details, run_view
from planbench.runtime.run import KEPT_BYTES, Shown
from planbench.runtime.run_format import ENDING
from planbench.runtime.run_page import lineage, run_page
from planbench.runtime.saved_run import open_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from planbench.events import Event
    from planbench.runtime.run import Run
    from planbench.runtime.saved_run import SavedRun
    from planbench.session import PlanSession
    from planbench.workbench import Workbench

_LONGEST: Final = 200
_TOLD: Final = (
    "status",
    "key",
    "total",
    "attempt",
    "reused",
    "kept",
    "error",
    "reason",
    "warning",
    "text",
)
_WRITTEN: Final = {".csv": "to_csv", ".parquet": "to_parquet", ".json": "to_json"}


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands to the command line."""
    look = commands.add_parser("show", help="show a run that was saved to a file")
    look.add_argument(
        "run", metavar="FILE", help=f"a file that run.save() wrote, as failed{ENDING}"
    )
    what = look.add_mutually_exclusive_group()
    what.add_argument("--html", metavar="OUT", type=Path, help="write it as one page")
    what.add_argument("--events", action="store_true", help="print what happened, a line each")
    what.add_argument("--node", metavar="ID", help="print all that is known about a node")
    what.add_argument("--artifact", metavar="KEY", help="take out the result of a key or a node")
    look.add_argument(
        "--data",
        choices=get_args(Shown),
        default="preview",
        help="what the page shows of the results (default: %(default)s)",
    )
    look.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="where the artifact goes; .csv, .parquet, .json or text",
    )
    _add_limit(look)
    again = commands.add_parser("resume", help="continue a run that was saved to a file")
    again.add_argument(
        "run", metavar="FILE", help=f"a file that run.save() wrote, as failed{ENDING}"
    )
    again.add_argument("--with", dest="plan", metavar="PLAN", help=f"with this plan: {NAMED}")
    again.add_argument(
        "--param",
        metavar="K=V",
        action="append",
        default=[],
        help="a value for {params.K} of that plan; may be given again",
    )
    again.add_argument(
        "--allow-errors", action="store_true", help="exit with 0 also when nodes are red"
    )
    again.add_argument(
        "--strict", action="store_true", help="exit with 1 also when a fan-out lost items"
    )
    again.add_argument("--html", metavar="OUT", type=Path, help="write a page of the finished run")
    again.add_argument("--save", metavar="FILE", type=Path, help="save the continued run to a file")
    _add_limit(again)
    add_tools(again)
    add_plans_dir(again)


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-bytes",
        metavar="N",
        type=int,
        default=KEPT_BYTES,
        help="bytes of results that are read from the file (default: %(default)s)",
    )


def show(options: argparse.Namespace) -> int:
    """Show the run: its graph and what is red, its events, one node, or one result as a file."""
    if (options.out is None) != (options.artifact is None):
        raise CommandError("--artifact and --out go together", hint="--artifact KEY --out FILE")
    for file in (options.html, options.out):
        if file is not None:
            check_writable(file)
    screen = output()
    with _opened(options) as saved:
        if options.html is not None:
            text = run_page(saved.run, options.data, saved.notes())
            options.html.write_text(text, encoding="utf-8")
            screen.line(f"wrote {options.html}")
        elif options.artifact is not None:
            _take_out(saved, options.artifact, options.out)
            screen.line(f"wrote {options.out}")
        else:
            for line in _lines(saved, options):
                screen.line(line)
    return FINE


def resume(options: argparse.Namespace) -> int:
    """Continue the run with the tools of this process; what the file holds is not called again."""
    for file in (options.html, options.save):
        if file is not None:
            check_writable(file)
    with _opened(options) as saved:
        workbench = _equipped(options)
        session = _session(workbench, saved, options)
        for text in saved.warnings:
            errors().line(f"planbench: warning: {text}")

        async def start() -> Run:
            run = await workbench.continue_from(saved, session.plan if options.plan else None)
            session.follow(run)
            return run

        finished, signalled = execute(
            workbench, session, output(), start=start, strict=options.strict
        )
    code = verdict(finished, strict=options.strict, allow_errors=options.allow_errors)
    if options.save is not None:
        output().line(f"saved {finished.save(options.save)}")
    if options.html is not None:
        options.html.write_text(session_page(session), encoding="utf-8")
        output().line(f"wrote {options.html}")
    return code if signalled is None else signalled


def _equipped(options: argparse.Namespace) -> Workbench:
    """Make the workbench with the tools that were named, and room for what the file holds."""
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


def _session(workbench: Workbench, saved: SavedRun, options: argparse.Namespace) -> PlanSession:
    """Open the plan of the file, or the one that was named, and refuse what does not fit the tools."""
    called = options.plan or str(saved.path)
    if options.plan is None:
        session = workbench.session(saved.run.plan)
    else:
        source = plan_source(options.plan, workbench.plans)
        session = workbench.session(source, parameters(options.param))
    if not session.report.ok:
        raise PlanInvalid(session.report.issues, path=called, name=session.name)
    for issue in session.report.issues:
        errors().line(finding(issue, called))
    return session


def _opened(options: argparse.Namespace) -> SavedRun:
    path = Path(options.run)
    if path.suffix != ENDING and not path.exists():
        raise CommandError(
            f"{options.run!r} is no file of a run",
            hint=f"name a file that run.save() wrote, as failed{ENDING}",
        )
    try:
        return open_run(path, max_bytes=max(0, options.max_bytes))
    except StoreError as error:
        raise CommandError(error.message, hint=error.hint) from error


def _lines(saved: SavedRun, options: argparse.Namespace) -> Iterator[str]:
    run = saved.run
    if options.events:
        yield from (_event_line(event) for event in run.events)
    elif options.node is not None:
        yield from _node_lines(run, options.node)
    else:
        yield summary(run)
        yield f"run {run.run_id}, saved {saved.saved_at} by planbench {saved.planbench or '?'}"
        yield as_text(run_view(run))
        if run.failure_text():
            yield f"\nred:\n{_indented(run.failure_text())}"
        facts = lineage(run)
        if facts:
            yield "\nlineage:\n" + _indented("\n".join(f"{name}: {text}" for name, text in facts))
        if saved.notes():
            yield "\nof the file:\n" + _indented("\n".join(saved.notes()))


def _event_line(event: Event) -> str:
    data = event.data
    place = data.get("node_id", "")
    if "index" in data:
        place += f"[{data['index']}]"
    told = [
        " ".join(str(data[name]).split()) if name in ("error", "text") else f"{name} {data[name]}"
        for name in _TOLD
        if data.get(name) not in (None, "")
    ]
    if "bytes" in data:
        told.append(size(data["bytes"]))
    if isinstance(data.get("seconds"), float):
        told.append(duration(data["seconds"]))
    kind = event.type.removeprefix(PREFIX)
    line = f"{event.seq:>5}  {event.at:%H:%M:%S.%f}  {kind:<16}  {place}  {', '.join(told)}"
    return line.rstrip()[:_LONGEST]


def _node_lines(run: Run, node_id: str) -> Iterator[str]:
    if node_id not in run.state.nodes:
        near = suggestion(node_id, list(run.state.nodes))
        raise CommandError(f"the plan has no node {node_id!r}", hint=near)
    known = node_details(run.plan.node(node_id), run)
    yield f"{node_id} ({known['tool'] or known['type']}): {known['status']}"
    facts = {
        "description": known["description"],
        "waits for": ", ".join(known["depends_on"]),
        "only when": known["when"],
        "for each": json.dumps(known["for_each"]) if known["for_each"] else "",
        "items": ""
        if known["total"] is None
        else f"{known['done'] + known['failed']} of {known['total']}, {known['failed']} failed",
        "time": "" if known["seconds"] is None else duration(known["seconds"]),
        "stored": size(known["nbytes"]) if known["nbytes"] else "",
        "keys": ", ".join(known["keys"]),
        "facets": json.dumps(known["facets"]) if known["facets"] else "",
        "reason": known["reason"],
    }
    yield from (f"  {name}: {text}" for name, text in facts.items() if text)
    blocks = {
        "arguments, as written": known["args_text"].rstrip(),
        "errors": "\n".join(known["errors"]),
        "warnings": "\n".join(known["warnings"]),
        "printed by the tool": known["output"].rstrip(),
    }
    yield from (f"  {name}:\n{_indented(text, 4)}" for name, text in blocks.items() if text)
    table = known["table"]
    if table is not None:
        yield f"  result, {len(table['rows'])} of {table['n_rows']} rows:"
        yield from (f"    {' | '.join(row)}" for row in [table["columns"], *table["rows"]])


def _take_out(saved: SavedRun, key: str, file: Path) -> None:
    """Write one result: a table in the form of the file's ending, text and bytes as they are, else JSON."""
    try:
        value = saved.value(key)
    except (ArtifactNotFound, ArtifactUnavailable) as error:
        raise CommandError(error.message, hint=error.hint) from error
    if isinstance(value, str):
        file.write_text(value, encoding="utf-8")
    elif isinstance(value, bytes):
        file.write_bytes(value)
    elif hasattr(value, "to_parquet"):
        write = getattr(value, _WRITTEN.get(file.suffix, "to_csv"))
        write(
            file,
            **(
                {}
                if file.suffix == ".parquet"
                else {"orient": "records"}
                if file.suffix == ".json"
                else {"index": False}
            ),
        )
    else:
        try:
            text = json.dumps(value, indent=2, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise CommandError(
                f"{key!r} is a {type(value).__name__}, which no file can hold as it is: {error}",
                hint="read it in Python: open_run(path).value(key)",
            ) from error
        file.write_text(text + "\n", encoding="utf-8")


def _indented(text: str, width: int = 2) -> str:
    return "\n".join(f"{' ' * width}{line}" for line in text.splitlines())
