"""A run read from a file: shown as it ended, and a source to continue it from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from planbench import events as ev
from planbench.errors import (
    ArtifactMissing,
    ArtifactNotFound,
    ConfigurationError,
    PlanLoadError,
)
from planbench.events import Event
from planbench.files import load_plan
from planbench.memory import WorkingMemory
from planbench.memory.artifacts import ArtifactRecord
from planbench.memory.entries import artifact_parts
from planbench.plan.source import shown
from planbench.runtime import run_format as form
from planbench.runtime.run import KEPT_BYTES, Run
from planbench.runtime.run_archive import Archive
from planbench.runtime.run_bodies import Bodies, FileEntry
from planbench.runtime.run_format import LeftOut, ToolRecord
from planbench.runtime.run_record import read_history, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.memory.entries import Entry
    from planbench.runtime.history import History

GOING_ON: Final = "the run was going on when it was saved"


def open_run(path: str | Path, *, max_bytes: int = KEPT_BYTES) -> SavedRun:
    """Read a run that ``Run.save`` wrote, whoever gave it to you: nothing in it is executed.

    ``max_bytes`` bounds the results that are in memory at a time; each is read when it is
    asked for. Raises StoreError where there is no such file, and RecordDamaged, which
    names the file and the reason, for one that was damaged or forged.
    """
    if type(max_bytes) is not int or max_bytes < 0:
        raise ConfigurationError(
            f"max_bytes is {shown(max_bytes)}", hint="it takes a number of bytes"
        )
    return SavedRun(Path(path), max_bytes)


class SavedRun:
    """A run in a file.

    ``run`` is the run, ended: its plan, events, refs, items and values; one that was
    going on when it was saved is ``interrupted``. ``tools`` are those it called,
    ``left_out`` says which results are not in the file, ``warnings`` what in the file
    does not agree. With ``history`` it is what ``Engine.continue_from`` takes.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        archive = Archive(path)
        try:
            header = _Header(archive)
            self.run_id = header.run_id
            self.saved_at = header.saved_at
            self.planbench = header.planbench
            self.left_out = header.left_out
            self.history = read_history(archive, self.run_id, max_bytes)
            self.warnings = list(_disagreements(archive, self.history, header))
            self.tools = _tools(archive)
        except BaseException:
            archive.close()
            raise
        _interrupt(self.history)
        self._values = Bodies(archive, max_bytes)
        self.run = Run(self.history.plan, self.run_id, self.history)
        self.run.modules = {tool.name: tool.module for tool in self.tools.values()}
        self.run.bodies = dict(_bodies(self.history, self._values, self.left_out))

    def __repr__(self) -> str:
        run = self.run
        return f"<SavedRun {self.path.name}: {run.run_id} of {run.plan.name!r}, {run.status}, {run.nodes_done} of {run.nodes_total} nodes>"

    def _repr_html_(self) -> str:
        from planbench.runtime.run_page import fragment  # noqa: PLC0415 - only a notebook asks

        return fragment(self.run, self.notes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; results that were not read yet cannot be had then."""
        self._values.close()

    def notes(self) -> list[str]:
        """Say what a reader should know: what does not agree, and what is not in the file."""
        return [*self.warnings, *(f"left out: {one}" for one in self.left_out)]

    def read(self, record: ArtifactRecord, max_bytes: int | None = None) -> Any:
        """Give the result of a record; raises ArtifactMissing, ArtifactDamaged, ArtifactTooLarge."""
        return self._values.read(record, max_bytes)

    def value(self, name: str) -> Any:
        """Give a result by its key, or by the id of a node; raises ArtifactNotFound."""
        keys = {
            entry.key: entry
            for body in self.run.bodies.values()
            for entry in (body if isinstance(body, list) else [body])
            if entry is not None
        }
        if name in keys:
            return keys[name].value
        if name in self.run.bodies:
            return self.run.value(name)
        near = [key for key in keys if name.casefold() in key.casefold()]
        hint = None if near else f"the file has {', '.join(list(keys)[:5]) or 'no results'}"
        raise ArtifactNotFound(name, near[:5], hint=hint)

    @cached_property
    def memory(self) -> WorkingMemory:
        """All results in a working memory of their own, under the ids that they had.

        Raises ArtifactTooLarge where they are over ``max_bytes`` together.
        """
        records = [
            (node_id, index, data)
            for node_id, record in self.history.nodes.items()
            for index, data in _stored(record.finished, record.items)
            if "artifact" in data
        ]
        total = sum(data["artifact"]["size"] for _, _, data in records)
        self._values.check_size(total)
        memory = WorkingMemory()
        tools = {node.id: node.tool for node in self.history.plan.nodes}
        begun = {
            node_id: memory.start_items(node_id)
            for node_id, state in self.history.state.nodes.items()
            if state.total is not None
        }
        for node_id, index, data in records:
            memory.restore(
                data["key"],
                self._values.read(ArtifactRecord.from_dict(data["artifact"])),
                artifact_id=data["artifact_id"],
                version=data["version"],
                node=node_id,
                tool=tools[node_id],
                index=index,
                nbytes=data["bytes"],
                digest=data.get("digest"),
                items=None if index is None else begun[node_id],
            )
        return memory


class _Header:
    """What ``planrun.json`` says; raises RecordDamaged for what it cannot say."""

    def __init__(self, archive: Archive) -> None:
        record = read_json(archive, form.HEADER)
        if type(record) is not dict or type(record.get("format")) is not int:
            raise archive.damaged(f"{form.HEADER} names no format")
        if record["format"] != form.FORMAT:
            raise archive.damaged(
                f"it is of format {record['format']}, and this planbench reads format {form.FORMAT}"
            )
        try:
            self.run_id = _text(record["run_id"])
            self.status = _text(record["status"])
            self.saved_at = _text(record["saved"])
            self.planbench = _text(record["planbench"])
            self.masked = record["masked"] is True
            self.left_out = [_left_out(one) for one in _list(record["left_out"])]
        except (KeyError, TypeError, ValueError) as error:
            raise archive.damaged(f"{form.HEADER} is not complete: {error}") from error
        if not self.run_id.isprintable() or not self.run_id:
            raise archive.damaged(f"{form.HEADER} names no run")


def _bodies(
    history: History, values: Bodies, left_out: list[LeftOut]
) -> Iterator[tuple[str, Entry | list[Entry | None]]]:
    """Give what each node stored, to be read when it is asked for."""
    tools = {node.id: node.tool for node in history.plan.nodes}
    reasons = {one.node_id: one.reason for one in left_out}
    for node_id, record in history.nodes.items():
        total = history.state.nodes[node_id].total
        items: list[Entry | None] = [None] * (total or 0)
        for index, data in _stored(record.finished, record.items):
            entry = _entry(node_id, tools[node_id], index, data, values, reasons.get(node_id))
            if index is None:
                yield node_id, entry
            else:
                items[index] = entry
        if total is not None:
            yield node_id, items


def _entry(
    node_id: str,
    tool: str | None,
    index: int | None,
    data: dict[str, Any],
    values: Bodies,
    reason: str | None,
) -> Entry:
    memory_id, number = "file", 1
    if "artifact_id" in data:
        memory_id, number = artifact_parts(data["artifact_id"], data["version"])
    return FileEntry(
        data["key"],
        _reader(data, values, reason),
        node_id,
        tool,
        index,
        data["bytes"],
        0.0,
        data["version"],
        memory_id,
        number,
        "",
        data.get("digest"),
    )


def _reader(data: dict[str, Any], values: Bodies, reason: str | None) -> Any:
    if "artifact" in data:
        record = ArtifactRecord.from_dict(data["artifact"])
        return lambda: values.get(record)

    def missing() -> Any:
        why = reason or "nobody said why"
        raise ArtifactMissing(f"{data['key']!r} is not in the file: {why}")

    return missing


def _stored(
    finished: dict[str, Any] | None, items: dict[int, dict[str, Any]]
) -> Iterator[tuple[int | None, dict[str, Any]]]:
    if finished is not None and "key" in finished:
        yield None, finished
    for index in sorted(items):
        yield index, items[index]


def _interrupt(history: History) -> None:
    """Let a run whose end is not on record have ended where its record does."""
    state = history.state
    if state.status not in ("pending", "running", "waiting"):
        return
    last = history.events[-1]
    running = [node.node_id for node in state.nodes.values() if node.status == "running"]
    data = {
        "status": "interrupted",
        "cancelled": dict.fromkeys(running, GOING_ON),
        "reason": GOING_ON,
    }
    event = Event(last.seq + 1, last.run_id, last.timestamp, ev.RUN_INTERRUPTED, data)
    history.events.append(event)
    state.apply(event)


def _disagreements(archive: Archive, history: History, header: _Header) -> Iterator[str]:
    """Say where what other programs read of the file is not what the journal tells."""
    told = history.state.manifest().model_dump(mode="json")
    written = read_json(archive, form.MANIFEST)
    if not _alike(told, written):
        yield f"{form.MANIFEST} is not what the journal tells; the journal is shown"
    if header.status != history.state.status:
        yield f"{form.HEADER} says {header.status!r}, and the journal {history.state.status!r}"
    text = archive.read(form.PLAN, form.MOST_LINE).decode("utf-8", "replace")
    try:
        same = load_plan(text) == history.plan
    except PlanLoadError:
        same = False
    if not same:
        yield f"{form.PLAN} is not the plan of the journal; that of the journal is shown"
    if header.masked:
        yield "the plan held the value of a secret, which is masked: mend the plan before it is continued"


def _alike(told: Any, written: Any) -> bool:
    """Compare as JSON does: what is no number equals itself."""
    if type(told) is dict and type(written) is dict:
        return told.keys() == written.keys() and all(_alike(told[k], written[k]) for k in told)
    if type(told) is list and type(written) is list:
        return len(told) == len(written) and all(map(_alike, told, written))
    return bool(told == written or (told != told and written != written))  # noqa: PLR0124 - NaN is what does not


def _tools(archive: Archive) -> dict[str, ToolRecord]:
    try:
        return {tool.name: tool for tool in map(_tool, _list(read_json(archive, form.TOOLS)))}
    except (KeyError, TypeError, ValueError) as error:
        raise archive.damaged(f"{form.TOOLS} is not complete: {error}") from error


def _tool(record: Any) -> ToolRecord:
    package, version = record["package"], record["version"]
    return ToolRecord(
        _text(record["name"]),
        _text(record["fingerprint"]),
        _text(record["module"]),
        None if package is None else _text(package),
        None if version is None else _text(version),
    )


def _left_out(record: Any) -> LeftOut:
    values, nbytes = record["values"], record["nbytes"]
    if type(values) is not int or type(nbytes) is not int:
        raise ValueError("a number is missing")
    keys = tuple(map(_text, _list(record["keys"])))[: form.NAMED_KEYS]
    return LeftOut(_text(record["node_id"]), values, nbytes, _text(record["reason"]), keys)


def _text(value: Any, limit: int = 1_000) -> str:
    if type(value) is not str or len(value) > limit:
        raise ValueError("a text is missing, or too long")
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("a list is missing")
    return value
