"""Writes a run as one file: its plan, its journal, its results, and what they were made with."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import zipfile
import zlib
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench import events as ev
from planbench.checkpoints.records import encoded
from planbench.errors import (
    ArtifactRefused,
    ConfigurationError,
    PlanbenchError,
    RecordDamaged,
    StoreError,
)
from planbench.files.atomic import replacing
from planbench.files.lock import package_of
from planbench.memory.codecs import encode
from planbench.memory.sizes import format_bytes
from planbench.plan.model import ExecutionPlan
from planbench.plan.source import shown
from planbench.runtime import run_format as form
from planbench.runtime.history import History
from planbench.runtime.run_format import LeftOut, ToolRecord
from planbench.runtime.texts import texts_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planbench.events import Event
    from planbench.memory.entries import Entry
    from planbench.runtime.masking import Masking
    from planbench.runtime.run import Kept, Run

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_WORTH_TRYING: Final = 1_000_000
"""Bytes from which on it is looked at whether a member packs so well that readers refuse it."""
_RECORDS: Final = (ev.NODE_FINISHED, ev.ITEM_FINISHED)


class _Body(NamedTuple):
    """One value that a node of the run stands on: its record, and where the value is."""

    node_id: str
    data: dict[str, Any]
    entry: Entry | None

    @property
    def nbytes(self) -> int:
        return int(self.data["bytes"])


def save_run(run: Run, path: str | Path, artifacts: Kept) -> Path:
    """Write a run as ``Run.save`` says; gives the path."""
    limit = _limit(artifacts)
    path = Path(path)
    if run.state.agent is not None:
        raise StoreError(
            f"run {run.run_id!r} is of an algorithm, and files hold runs of plans",
            hint="save the runs of plans that it started",
        )
    events = list(run.events)
    plan = _without_secrets(run)
    history = History(run.run_id, events)
    try:
        with (
            replacing(path) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=False) as archive,
        ):
            writer = _Writer(archive, limit, run.secrets)
            writer.write(_bodies(run, history))
            journal = b"\n".join(_lines(events, writer.told, history, plan))
            header = {
                "format": form.FORMAT,
                "planbench": _version(),
                "run_id": run.run_id,
                "plan": run.plan.name,
                "status": history.state.status,
                "saved": datetime.now(UTC).isoformat(),
                "masked": plan is not None,
                "left_out": [one.to_dict() for one in writer.left_out()],
            }
            put(archive, form.JOURNAL, journal)
            put(archive, form.PLAN, shown_plan(run).to_yaml().encode("utf-8", "replace"))
            put(archive, form.MANIFEST, _json(history.state.manifest().model_dump(mode="json")))
            put(archive, form.TOOLS, _json([one._asdict() for one in tools_of(run, history)]))
            put(archive, form.HEADER, _json(header))
    except (OSError, zipfile.LargeZipFile) as error:
        raise unwritable(path, error) from error
    return path


def shown_plan(run: Run) -> ExecutionPlan:
    """Give the plan of a run as others may see it; raises StoreError for a secret that cannot be masked."""
    masked = _without_secrets(run)
    return run.plan if masked is None else ExecutionPlan.model_validate(masked)


def unwritable(path: Path, error: Exception) -> StoreError:
    """Make the error for a file that cannot be written."""
    why = getattr(error, "strerror", None) or str(error)
    return StoreError(f"{path} cannot be written: {why}", hint="is the folder there, with room?")


def put(archive: zipfile.ZipFile, name: str, data: bytes, *, packed: bool = True) -> None:
    """Add a member; what would pack so well that it looks like a trap is not packed."""
    info = zipfile.ZipInfo(name, _DATE)
    info.external_attr = 0o600 << 16
    if packed and len(data) > _WORTH_TRYING:
        packed = 2 * len(data) < form.PACKED * len(zlib.compress(data))
    info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    archive.writestr(info, data)


def tools_of(run: Run, history: History) -> list[ToolRecord]:
    """Name the tools of a run as it knows them: fingerprint, and where each is installed."""
    found = []
    for name, fingerprint in sorted(history.tools.items()):
        module = run.modules.get(name, "")
        found.append(ToolRecord(name, fingerprint, module, *package_of(module)))
    return found


class _Stays(Exception):  # told to the reader of the file
    """Raised when a value stays out of the file; the text says why."""


class _Writer:
    """Puts bodies into the archive while they fit, and remembers why others did not."""

    def __init__(self, archive: zipfile.ZipFile, limit: int, secrets: Masking | None) -> None:
        self.told: dict[int, dict[str, Any]] = {}
        self._archive = archive
        self._limit = limit
        self._over = f"over the limit of {format_bytes(limit)} for all results"
        self._secrets = secrets
        self._written: set[str] = set()
        self._total = 0
        self._left: dict[tuple[str, str], list[_Body]] = {}

    def write(self, bodies: Iterable[_Body]) -> None:
        """Write the bodies, the smallest first; ``told`` then has the record of each, by its id."""
        for body in sorted(bodies, key=attrgetter("nbytes")):
            try:
                self._write(body)
            except _Stays as why:
                reason = _one_line(str(why))
                self._left.setdefault((body.node_id, reason), []).append(body)

    def left_out(self) -> list[LeftOut]:
        """Say what is not in the file, by node and reason."""
        found = [
            LeftOut(
                node_id,
                len(bodies),
                sum(body.nbytes for body in bodies),
                reason,
                tuple(body.data["key"] for body in bodies[: form.NAMED_KEYS]),
            )
            for (node_id, reason), bodies in self._left.items()
        ]
        rest = found[form.LEFT_OUT :]
        if not rest:
            return found
        values, nbytes = sum(one.values for one in rest), sum(one.nbytes for one in rest)
        return [
            *found[: form.LEFT_OUT],
            LeftOut("other nodes", values, nbytes, f"{len(rest):,} further reasons"),
        ]

    def _write(self, body: _Body) -> None:
        entry = body.entry
        if not self._limit:
            raise _Stays("results were not asked for")
        if entry is None:
            raise _Stays("its value was let go before the run was saved")
        if body.nbytes > self._limit:
            raise _Stays(self._over)
        codec, payload = self._encoded(entry)
        digest = hashlib.sha256(payload).hexdigest()
        if digest not in self._written:
            if self._total + len(payload) > self._limit:
                raise _Stays(self._over)
            if len(self._written) >= form.MOST_BODIES:
                raise _Stays(f"over the {form.MOST_BODIES:,} results that a file holds")
            put(self._archive, form.BODIES + digest, payload, packed=codec != "parquet")
            self._written.add(digest)
            self._total += len(payload)
        record = {"sha256": digest, "codec": codec, "size": len(payload)}
        self.told[id(body.data)] = {"artifact_id": entry.artifact_id, "artifact": record}

    def _encoded(self, entry: Entry) -> tuple[str, bytes]:
        try:
            value = entry.value
            codec, payload = encode(value)
            secret = self._secrets is not None and _holds(self._secrets, value)
        except ArtifactRefused as refused:
            raise _Stays(refused.message) from refused
        except (
            Exception
        ) as error:  # values of users may raise anything, and the run is saved without them
            text = error.message if isinstance(error, PlanbenchError) else repr(error)
            raise _Stays(f"it cannot be read: {text}") from error
        if secret:
            raise _Stays("it holds the value of a secret")
        return codec, payload


def _limit(artifacts: object) -> int:
    if artifacts == "all":
        return form.MOST_BYTES
    if artifacts == "none":
        return 0
    if type(artifacts) is int and artifacts >= 0:
        return min(artifacts, form.MOST_BYTES)
    raise ConfigurationError(
        f"artifacts is {shown(artifacts)}", hint='it takes "all", "none" or a number of bytes'
    )


def _bodies(run: Run, history: History) -> Iterator[_Body]:
    """Give what each node stands on; a value whose record is not the one of now is gone."""
    for node_id, record in history.nodes.items():
        held = run.bodies.get(node_id)
        if record.finished is not None and "key" in record.finished:
            entry = None if isinstance(held, list) else held
            yield _Body(node_id, record.finished, _same(entry, record.finished))
        for index, data in record.items.items():
            known = isinstance(held, list) and 0 <= index < len(held)
            entry = held[index] if known else None  # type: ignore[index]  # a list, as known says
            yield _Body(node_id, data, _same(entry, data))


def _same(entry: Entry | None, data: dict[str, Any]) -> Entry | None:
    if entry is None or (entry.key, entry.version) != (data["key"], data["version"]):
        return None
    return entry


def _lines(
    events: list[Event],
    told: dict[int, dict[str, Any]],
    history: History,
    plan: dict[str, Any] | None,
) -> Iterator[bytes]:
    """Write the events; a record names its artifact where, and only where, it is in the file."""
    for event in events:
        data = event.data
        if event.type in _RECORDS:
            data = {name: value for name, value in data.items() if name != "artifact"}
            data.update(told.get(id(event.data), ()))
        elif event is history.events[0] and plan is not None:
            data = {**data, "plan": plan}
        yield encoded(event if data is event.data else event._replace(data=data))


def _without_secrets(run: Run) -> dict[str, Any] | None:
    """Give the plan with masked secrets where somebody wrote one into it; None where nobody did."""
    secrets = run.secrets
    if secrets is None:
        return None
    record = run.events[0].data["plan"]
    if not _holds(secrets, record):
        return None
    masked: dict[str, Any] = secrets.clean(record)
    try:
        History(run.run_id, [run.events[0]._replace(data={**run.events[0].data, "plan": masked})])
    except RecordDamaged as error:
        raise StoreError(
            "the run cannot be saved: its plan holds the value of a secret where it cannot be masked",
            hint="write {env.NAME} in the plan, and give the variable another value",
        ) from error
    return masked


def _holds(secrets: Masking, value: Any) -> bool:
    return any(secrets.holds(text) for text in texts_in(value))


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode("ascii") + b"\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _version() -> str:
    try:
        return importlib.metadata.version("planbench")
    except importlib.metadata.PackageNotFoundError:  # run from a folder that nobody installed
        return ""
