"""The stored form of events, and what they say of their run."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from planbench import events as ev
from planbench.checkpoints.base import DAMAGED, RunRecord, check_run_id
from planbench.errors import RecordDamaged, StoreError
from planbench.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from planbench.checkpoints.base import Lease

MAX_SEQ: Final = 2**53
"""Event numbers stay below: the scripts of Redis count in doubles."""
_LONGEST_STATUS: Final = 50
_DEEPEST: Final = 400
"""Levels of one event: more could be written, and not be read from a deeper stack."""
_STRICT: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_STATUS: Final = {
    ev.RUN_STARTED: "running",
    ev.RUN_CONTINUED: "running",
    ev.RUN_PAUSED: "waiting",
}
_ENDS: Final = {
    ev.RUN_FINISHED: "unknown",
    ev.RUN_CANCELLED: "cancelled",
    ev.RUN_INTERRUPTED: "interrupted",
}
"""The events that end a run, with the status of one that does not name it."""


# -- what is written ----------------------------------------------------------------------


class Change(NamedTuple):
    """What a batch says of its run. ``status`` is None where no event of it names one.

    ``head`` holds, as JSON, what the first run.started says for good; None without one.
    """

    started: float
    updated: float
    last: int
    status: str | None
    status_seq: int
    head: str | None


class Entry(NamedTuple):
    """What a store that folds here keeps of a run beside its events."""

    head: str | None
    status: str
    started: float
    updated: float
    events: int
    last: int

    def changed(self, change: Change, count: int) -> Entry:
        """Give the entry after ``count`` further events."""
        return Entry(
            self.head or change.head,
            change.status or self.status,
            self.started,
            change.updated,
            self.events + count,
            change.last,
        )

    @classmethod
    def first(cls, change: Change, count: int) -> Entry:
        """Give the entry of a run that begins with ``count`` events."""
        status = change.status or "running"
        return cls(change.head, status, change.started, change.updated, count, change.last)

    def record(self, run_id: str) -> RunRecord:
        """Give the entry as it is listed."""
        return record_of(run_id, *self[:5])


class Batch(NamedTuple):
    """Events on their way into a store: checked, and in stored form."""

    run_id: str
    events: Sequence[Event]
    bodies: list[bytes]

    @property
    def seqs(self) -> list[int]:
        """The numbers of the events."""
        return [event.seq for event in self.events]

    def without(self, known: Mapping[int, bytes | None]) -> Batch:
        """Leave out what is stored already; raises StoreError where that is something else."""
        kept: list[Event] = []
        bodies: list[bytes] = []
        for event, body in zip(self.events, self.bodies, strict=True):
            if event.seq not in known:
                kept.append(event)
                bodies.append(body)
                continue
            stored = known[event.seq]
            if stored is None:
                check_same(event, None)
            elif stored != body:
                check_same(event, decoded(self.run_id, event.seq, stored))
        return Batch(self.run_id, kept, bodies)


def check_events(run_id: str, events: Sequence[Event], lease: Lease | None) -> None:
    """Raise StoreError for events that cannot be the journal of this run."""
    check_run_id(run_id)
    if lease is not None and lease.run_id != run_id:
        raise StoreError(f"the lease is for run {lease.run_id!r}, not for {run_id!r}")
    last = 0
    for event in events:
        if event.run_id != run_id:
            raise StoreError(f"event {event.seq} is of run {event.run_id!r}, not of {run_id!r}")
        if not last < event.seq < MAX_SEQ:
            raise StoreError(f"event {event.seq} of run {run_id!r} comes after event {last}")
        last = event.seq


def batch_of(run_id: str, events: Sequence[Event]) -> Batch:
    """Give events that were checked in stored form; raises StoreError for what is no JSON."""
    return Batch(run_id, events, [encoded(event) for event in events])


def encoded(event: Event) -> bytes:
    """Give the stored form: JSON that reads back equal, to the last digit of the time.

    What orjson would change (NaN, numbers beyond 64 bits, lone surrogates) is written by
    the standard library, and marked by a space in front.
    """
    try:
        record = event.to_dict() | {"timestamp": event.timestamp}
    except (ValueError, OverflowError, OSError, TypeError) as error:
        raise _unwritable(event, error) from error
    try:
        body = orjson.dumps(record, option=_STRICT)
        if b"null" not in body or orjson.loads(body) == record:
            return body
    except (TypeError, ValueError):  # the other writer takes more, or says what it is
        pass
    try:
        body = b" " + json.dumps(record, separators=(",", ":")).encode("ascii")
        _check_form(record)
    except (TypeError, ValueError, RecursionError) as error:
        raise _unwritable(event, error) from error
    return body


def _check_form(record: Any) -> None:
    """Refuse names that are no text, and more levels than can be read; what holds itself is known by now."""
    rest = [(record, 0)]
    while rest:
        value, level = rest.pop()
        if level > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"{key!r} is no name of a JSON object")
            rest.extend((item, level + 1) for item in value.values())
        elif isinstance(value, list | tuple):
            rest.extend((item, level + 1) for item in value)


def _unwritable(event: Event, error: Exception) -> StoreError:
    return StoreError(
        f"event {event.seq} ({event.type}) of run {event.run_id!r} cannot be written: {error}",
        hint="the data of an event holds JSON values only",
    )


def check_same(event: Event, stored: Event | None) -> None:
    """Raise StoreError when an event whose turn is over is not the one that is stored."""
    if stored is None:
        raise StoreError(
            f"event {event.seq} of run {event.run_id!r} comes too late: later ones are on record, and it is not"
        )
    if stored != event and _form(stored) != _form(event):
        raise StoreError(
            f"event {event.seq} of run {event.run_id!r} is on record already, with other content",
            hint="two writers of one run: each must hold its lease",
        )


def _form(event: Event) -> str:
    """Give what is stored of an event, its names in order: there NaN equals itself, and a tuple is a list."""
    return json.dumps(json.loads(encoded(event)), sort_keys=True)


def change_of(events: Sequence[Event]) -> Change:
    """Say what events, at least one, change in the record of their run."""
    status, status_seq, head = None, 0, None
    for event in events:
        kind = event.type
        if kind in _STATUS:
            status, status_seq = _STATUS[kind], event.seq
            if kind == ev.RUN_STARTED and head is None:
                names = ("plan_name", "root_run_id", "parent_run_id")
                head = json.dumps({name: _text(event.data.get(name)) for name in names})
        elif kind in _ENDS:
            status, status_seq = _status(event.data.get("status", _ENDS[kind])), event.seq
    first, last = events[0], events[-1]
    return Change(first.timestamp, last.timestamp, last.seq, status, status_seq, head)


def _status(value: Any) -> str:
    short = isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_STATUS
    return value if short else "unknown"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# -- what is read -------------------------------------------------------------------------


def decoded(run_id: str, seq: int, body: Any) -> Event:
    """Read one stored event; raises RecordDamaged."""
    try:
        if isinstance(body, str):
            body = body.encode()
        record = json.loads(body) if body[:1] == b" " else orjson.loads(body)
        event = Event.from_dict(record)
        exact = record["timestamp"]
        if type(exact) not in (int, float) or not math.isfinite(exact):
            raise ValueError("its time is no number")
        if event.seq != seq or event.run_id != run_id:
            raise ValueError(f"it says that it is event {event.seq} of run {event.run_id!r}")
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else error
        raise damaged(run_id, f"event {seq} cannot be read: {what}") from error
    return event._replace(timestamp=exact)


def decoded_all(run_id: str, rows: Iterable[tuple[int, Any]], expected: int | None) -> list[Event]:
    """Read stored events; raises RecordDamaged, also where there are fewer than expected."""
    found = [decoded(run_id, seq, body) for seq, body in rows]
    if expected is not None and len(found) != expected:
        raise damaged(run_id, f"{len(found)} of its {expected} events are there")
    return found


def damaged(run_id: str, why: str) -> RecordDamaged:
    """Make the error of a run whose record cannot be read."""
    return RecordDamaged(
        f"the record of run {run_id!r} is damaged: {why}",
        hint="other runs are not touched by it; delete the run to be rid of it",
    )


def record_of(
    run_id: str, head: Any, status: Any, started: Any, updated: Any, events: Any
) -> RunRecord:
    """Make a record of what is stored; what cannot be read gives one that says ``damaged``."""
    try:
        names = {} if head is None else json.loads(head)
        names = {key: names.get(key) for key in ("plan_name", "root_run_id", "parent_run_id")}
        first, last, count = float(started), float(updated), int(events)
        texts = isinstance(status, str) and all(_is_text(one) for one in names.values())
        if not texts or count < 1 or not math.isfinite(first) or not math.isfinite(last):
            return damaged_record(run_id)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return damaged_record(run_id)
    root, parent = names["root_run_id"], names["parent_run_id"]
    return RunRecord(run_id, names["plan_name"] or "", status, first, count, last, root, parent)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def damaged_record(run_id: str) -> RunRecord:
    """List a run of which nothing can be read."""
    return RunRecord(run_id, "", DAMAGED, 0.0, 0)


def listed(records: Iterable[RunRecord | None], status: str | None) -> list[RunRecord]:
    """Give the records of one status or of all, oldest first."""
    return sorted(
        (one for one in records if one is not None and status in (None, one.status)),
        key=lambda one: (one.started, one.run_id),
    )


class Damage:
    """The runs that this store object has found damaged when it read them."""

    def __init__(self) -> None:
        self._runs: set[str] = set()

    @contextmanager
    def noted(self, run_id: str, *, whole: bool) -> Iterator[None]:
        """Remember whether a run could be read, the whole of it or its end."""
        try:
            yield
        except RecordDamaged:
            self._runs.add(run_id)
            raise
        if whole:
            self._runs.discard(run_id)

    def forget(self, run_id: str) -> None:
        """Take a run for sound until it is read again."""
        self._runs.discard(run_id)

    def shown(self, record: RunRecord) -> RunRecord:
        """Give the record with what is known of its damage."""
        return record._replace(status=DAMAGED) if record.run_id in self._runs else record
