"""The commands ``planbench show`` and ``planbench resume``: a run on record or in a file, looked at and continued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from planbench.cli import recorded
from planbench.cli.continuing import (
    add_ending,
    add_limit,
    add_plan,
    check_files,
    equipped,
    finish,
    opened,
)
from planbench.cli.execution import FINE, check_writable, summary
from planbench.cli.sources import (
    add_delegate,
    add_plans_dir,
    add_store,
    add_tools,
)
from planbench.cli.terminal import errors, output
from planbench.errors import (
    ArtifactNotFound,
    ArtifactUnavailable,
    CommandError,
    StoreError,
)
from planbench.events import PREFIX
from planbench.memory.frames import to_frame
from planbench.plan.structure import suggestion
from planbench.render.figures import duration, size
from planbench.render.text import as_text
from planbench.runtime.details import node_details, run_view
from planbench.runtime.outlook import outlook_of
from planbench.runtime.recollection import artifacts_of
from planbench.runtime.run import Shown
from planbench.runtime.run_format import ENDING
from planbench.runtime.run_page import lineage, run_page
from planbench.runtime.saved_run import SavedRun, open_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from planbench.events import Event
    from planbench.runtime.recollection import RecordedRun
    from planbench.runtime.run import Run

NAMED_RUN: Final = f"a run on record, by the start of its id, or a file as failed{ENDING}"
_LONGEST: Final = 200
_NAMED: Final = 10
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
_TABLES: Final = (".csv", ".parquet")
_SHOWN: Final = "preview"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands to the command line."""
    look = commands.add_parser("show", help="show a run on record, or one in a file")
    look.add_argument("run", metavar="RUN|FILE", help=NAMED_RUN)
    what = look.add_mutually_exclusive_group()
    what.add_argument("--html", metavar="OUT", type=Path, help="write it as one page")
    what.add_argument("--events", action="store_true", help="print what happened, a line each")
    what.add_argument("--node", metavar="ID", help="print all that is known about a node")
    what.add_argument("--artifact", metavar="KEY", help="take out the result of a key or a node")
    look.add_argument(
        "--data",
        choices=get_args(Shown),
        help=f"what the page of --html shows of the results (default: {_SHOWN})",
    )
    look.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="where the artifact goes; .csv, .parquet, .json or text",
    )
    add_limit(look)
    add_store(look)
    again = commands.add_parser("resume", help="continue a run on record, or one in a file")
    again.add_argument("run", metavar="RUN|FILE", help=NAMED_RUN)
    add_plan(again)
    add_ending(again)
    add_tools(again)
    add_delegate(again)
    add_plans_dir(again)
    add_store(again)


def show(options: argparse.Namespace) -> int:
    """Show the run: its graph and what is red, its events, one node, or one result as a file."""
    if (options.out is None) != (options.artifact is None):
        raise CommandError("--artifact and --out go together", hint="--artifact KEY --out FILE")
    if options.data is not None and options.html is None:
        raise CommandError(
            "--data says what a page shows, and no page is asked for",
            hint=f"write it with --html OUT --data {options.data}",
        )
    for file in (options.html, options.out):
        if file is not None:
            check_writable(file)
    screen = output()
    with _opened(options) if _is_file(options.run) else recorded.recorded(options) as saved:
        if options.html is not None:
            text = run_page(saved.run, options.data or _SHOWN, saved.notes())
            options.html.write_text(text, encoding="utf-8")
            screen.line(f"wrote {options.html}")
        elif options.artifact is not None:
            if not isinstance(saved, SavedRun):  # what is in a file was bounded when it was opened
                _check_size(saved, options.artifact, options.max_bytes)
            _take_out(saved, options.artifact, options.out)
            screen.line(f"wrote {options.out}")
        else:
            for line in _lines(saved, options):
                screen.line(line)
    return FINE


def resume(options: argparse.Namespace) -> int:
    """Continue a run of a file or on record with the tools of this process; what is kept is not called again."""
    check_files(options)
    if options.param and options.plan is None:
        raise CommandError(
            "--param gives a value to a mended plan, and none is named: a run goes on with its own",
            hint="leave it out, or add --with PLAN",
        )
    if not _is_file(options.run):
        return recorded.resume(options)
    with _opened(options) as saved:
        workbench = equipped(options)
        if options.plan is None:
            session = opened(workbench, saved.run.plan, str(saved.path))
        else:
            session = opened(workbench, options.plan, options.plan, options.param)
        for text in saved.warnings:
            errors().line(f"planbench: warning: {text}")
        plan = session.plan if options.plan else None
        return finish(options, workbench, session, lambda: workbench.continue_from(saved, plan))


def _is_file(word: str) -> bool:
    path = Path(word)
    return path.suffix == ENDING or path.exists()


def _opened(options: argparse.Namespace) -> SavedRun:
    try:
        return open_run(Path(options.run), max_bytes=max(0, options.max_bytes))
    except StoreError as error:
        hint = error.hint or "planbench runs lists the runs on record"
        raise CommandError(error.message, hint=hint) from error


def _lines(saved: SavedRun | RecordedRun, options: argparse.Namespace) -> Iterator[str]:
    run = saved.run
    if options.events:
        yield from (_event_line(event) for event in run.events)
    elif options.node is not None:
        yield from _node_lines(run, options.node)
    else:
        yield summary(run)
        yield f"run {run.run_id}, {_origin(saved)}"
        yield as_text(run_view(run))
        if run.failure_text():
            yield f"\nred:\n{_indented(run.failure_text())}"
        facts = lineage(run)
        if facts:
            yield "\nlineage:\n" + _indented("\n".join(f"{name}: {text}" for name, text in facts))
        if saved.notes():
            yield "\nto be known:\n" + _indented("\n".join(saved.notes()))


def _origin(saved: SavedRun | RecordedRun) -> str:
    if isinstance(saved, SavedRun):
        return f"saved {saved.saved_at} by planbench {saved.planbench or '?'}"
    left = outlook_of(saved.run)
    return "on record" if left is None else f"on record, {left.calls_left}"


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
        names = list(run.state.nodes)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        near = suggestion(node_id, names) or f"it has {', '.join(names[:_NAMED])}{more}"
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


def _check_size(saved: RecordedRun, key: str, most: int) -> None:
    found = artifacts_of(saved.history, in_memory=False)
    nbytes = sum(one.nbytes for one in found if key in (one.key, one.node))
    if nbytes > most:
        raise CommandError(
            f"{key!r} has {size(nbytes)}, over the limit of {size(most)}",
            hint=f"read it back with --max-bytes {nbytes}",
        )


def _take_out(saved: SavedRun | RecordedRun, key: str, file: Path) -> None:
    """Write one result: text and bytes as they are, a table where it is one or the file's ending asks for one, else JSON."""
    try:
        value = saved.value(key)
    except (ArtifactNotFound, ArtifactUnavailable) as error:
        raise CommandError(error.message, hint=error.hint) from error
    if isinstance(value, str):
        file.write_text(value, encoding="utf-8")
    elif isinstance(value, bytes):
        file.write_bytes(value)
    elif hasattr(value, "to_parquet") or file.suffix in _TABLES:
        _write_table(key, value, file)
    else:
        try:
            text = json.dumps(value, indent=2, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise _unheld(key, value, error) from error
        file.write_text(text + "\n", encoding="utf-8")


def _write_table(key: str, value: Any, file: Path) -> None:
    """Write a value as the table that ``WorkingMemory.df`` makes of it."""
    table = to_frame(value)
    try:
        if file.suffix == ".parquet":
            table.to_parquet(file)
        elif file.suffix == ".json":
            table.to_json(file, orient="records")
        else:
            table.to_csv(file, index=False)
    except (TypeError, ValueError) as error:  # columns of mixed types, names that are no text
        raise _unheld(key, value, error) from error


def _unheld(key: str, value: Any, error: Exception) -> CommandError:
    return CommandError(
        f"{key!r} is a {type(value).__name__}, which no file can hold as it is: {error}",
        hint="read it in Python: open_run(path).value(key)",
    )


def _indented(text: str, width: int = 2) -> str:
    return "\n".join(f"{' ' * width}{line}" for line in text.splitlines())
