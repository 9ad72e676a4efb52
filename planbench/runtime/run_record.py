"""The journal of a run file, read as what it is: text of somebody else, checked field by field."""

from __future__ import annotations

import json
import math
import re
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, get_args

import orjson

from planbench import events as ev
from planbench.errors import ArtifactDamaged, RecordDamaged
from planbench.events import EVENT_TYPES, Event
from planbench.memory.artifacts import ArtifactRecord
from planbench.plan.manifest import RunStatus
from planbench.runtime import run_format as form
from planbench.runtime.history import History
from planbench.runtime.run_archive import shown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planbench.runtime.run_archive import Archive

_MOST: Final = 2**53
_ITEMS: Final = 100_000
_LONGEST: Final = 100_000
_KEY: Final = 500
_LAST: Final = 100_000_000_000.0
"""Seconds since the epoch up to which a time is one: the year 5138."""
_CONTINUED: Final = 1_000
_AGAIN: Final = 20_000
_NOTED: Final = 200
_FACTS: Final = 20
_OPENING: Final = frozenset({ev.NODE_STARTED, ev.NODE_SKIPPED, ev.NODE_BLOCKED})
_ENDING: Final = frozenset({ev.NODE_FINISHED, ev.NODE_FAILED, ev.NODE_SKIPPED, ev.NODE_BLOCKED})
_ARTIFACT_ID: Final = re.compile(r"[A-Za-z0-9_]{1,40}-[1-9][0-9]{0,14}")
_DEEP: Final = frozenset({list, dict})
_NODE_ENDS: Final = frozenset({"ok", "partial"})
_RUN_ENDS: Final = frozenset(get_args(RunStatus)) - {"running", "waiting"}
_STATUSES: Final = _NODE_ENDS | _RUN_ENDS


def read_history(archive: Archive, run_id: str, max_bytes: int) -> History:
    """Read the journal; raises RecordDamaged for whatever is not that of a run which happened.

    With a large ``max_bytes`` it may have more values than usual.
    """
    body = archive.read(form.JOURNAL, form.MOST_TEXT)
    most = max(form.MOST_TOKENS, max_bytes // form.TOKEN_BYTES)
    try:
        events = list(_events(body, run_id, most))
        _check_names(events)
        _check_effort(events)
        history = History(run_id, events)
        _check_standing(history, archive)
        history.state.manifest()
    except RecordDamaged as error:
        why = shown_text(error.message.partition(" cannot be read: ")[2])
        raise archive.damaged(f"{form.JOURNAL}: {why}") from error
    except (ValueError, ArtifactDamaged) as error:
        raise archive.damaged(f"{form.JOURNAL}: {shown_text(str(error))}") from error
    return history


def read_json(archive: Archive, name: str) -> Any:
    """Read a member that is one JSON value; raises RecordDamaged."""
    body = archive.read(name, form.MOST_TEXT)
    try:
        _count(body, form.MOST_TOKENS, form.MOST_TOKENS)
        value = json.loads(body)
        _check_depth(value)
    except (ValueError, RecursionError) as error:
        why = shown_text(str(error) or type(error).__name__)
        raise archive.damaged(f"{name}: {why}") from error
    return value


def _events(body: bytes, run_id: str, most: int) -> Iterator[Event]:
    left = most
    for number, line in enumerate(BytesIO(body), 1):
        if number > form.MOST_EVENTS or len(line) > form.MOST_LINE:
            raise ValueError("it is too long")
        left = _count(line, left, most)
        try:
            yield _event(line, run_id)
        except RecursionError as error:
            raise ValueError(f"line {number} is nested too deep") from error
        except KeyError as error:
            raise ValueError(f"line {number}: {error.args[0]!r} is missing") from error
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"line {number}: {error}") from error


def _count(text: bytes, left: int, most: int) -> int:
    """Count what a text will be made into, before it is."""
    left -= sum(text.count(sign) for sign in (b",", b"[", b"{"))
    if left < 0:
        raise ValueError(f"it has more than {most:,} values; a larger max_bytes lets them in")
    return left


def _event(line: bytes, run_id: str) -> Event:
    record = json.loads(line) if line[:1] == b" " else orjson.loads(line)
    _check_depth(record)
    event = Event.from_dict(record)
    exact = record.get("timestamp", event.timestamp)
    if type(exact) not in (int, float) or not abs(exact - event.timestamp) < 1:
        raise ValueError("its two times differ")
    if not 0 <= event.timestamp < _LAST:
        raise ValueError("its time is none")
    if event.run_id != run_id:
        raise ValueError("it belongs to another run")
    if event.type not in EVENT_TYPES:
        raise ValueError(f"there is no event {event.type[:60]!r}")
    if not 0 < event.seq < _MOST:
        raise ValueError("its number is none")
    _check_fields(event)
    return event._replace(timestamp=exact)


def _check_depth(value: Any) -> None:
    rest = [(value, 0)]
    while rest:
        one, depth = rest.pop()
        if depth > form.DEEPEST:
            raise ValueError("it is nested too deep")
        inner = one.values() if type(one) is dict else one if type(one) is list else ()
        rest += [(part, depth + 1) for part in inner if type(part) in _DEEP]


# -- the fields of events -------------------------------------------------------------------


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_place(value: Any) -> bool:
    return type(value) is int and 0 <= value < _ITEMS


def _is_total(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _ITEMS


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value < _LAST


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= _LONGEST


def _is_text_or_none(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_name(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= _KEY and value.isprintable()


def _is_name_or_none(value: Any) -> bool:
    return value is None or _is_name(value)


def _is_key(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= _KEY


def _are_names(value: Any) -> bool:
    return type(value) is list and all(map(_is_name, value))


def _is_map(value: Any) -> bool:
    return type(value) is dict


def _are_texts(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text, value.values()))


def _is_note(value: Any) -> bool:
    return (
        type(value) is dict
        and len(value) <= _FACTS
        and all(map(_is_name, value))
        and not any(type(fact) in _DEEP for fact in value.values())
    )


def _is_status(value: Any) -> bool:
    return type(value) is str and value in _STATUSES


def _is_artifact_id(value: Any) -> bool:
    return type(value) is str and _ARTIFACT_ID.fullmatch(value) is not None


def _is_recovery(value: Any) -> bool:
    return (
        type(value) is dict
        and type(value.get("checkpoint")) is bool
        and value.get("artifact_mode") in ("memory", "durable")
        and value.get("resume_level") in ("none", "process", "cross_restart")
        and _is_count(value.get("max_repairs"))
    )


_FIELDS: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("bytes", "calls", "attempt", "repairs"), _is_count),
    **dict.fromkeys(("seconds", "wait"), _is_seconds),
    **dict.fromkeys(("error", "warning", "text"), _is_text),
    **dict.fromkeys(("reason", "code", "purpose", "message", "outcome"), _is_text_or_none),
    **dict.fromkeys(("run_id", "memory_id", "node_id"), _is_name),
    **dict.fromkeys(("root_run_id", "parent_run_id", "kept"), _is_name_or_none),
    **dict.fromkeys(("digest", "entry_type"), _is_name_or_none),
    **dict.fromkeys(("reset", "partly", "reruns"), _are_names),
    **dict.fromkeys(("cancelled", "tools"), _are_texts),
    **dict.fromkeys(("facets", "plan", "artifact"), _is_map),
    "note": _is_note,
    "index": _is_place,
    "total": _is_total,
    "version": _is_count,
    "key": _is_key,
    "status": _is_status,
    "artifact_id": _is_artifact_id,
    "recovery": _is_recovery,
}
_OF_A_NODE: Final = ("node_id",)
_STORED: Final = frozenset({"key", "version", "bytes"})
_NEEDED: Final = {
    ev.RUN_STARTED: ("plan",),
    ev.RUN_CONTINUED: ("reset", "partly", "reruns", "seconds"),
    ev.RUN_FINISHED: ("status",),
    ev.RUN_CANCELLED: ("status",),
    ev.RUN_INTERRUPTED: ("status",),
    ev.NODE_STARTED: _OF_A_NODE,
    ev.NODE_PROGRESS: _OF_A_NODE,
    ev.NODE_BLOCKED: _OF_A_NODE,
    ev.NODE_RETRIED: _OF_A_NODE,
    ev.NODE_FINISHED: ("node_id", "status"),
    ev.NODE_FAILED: ("node_id", "error"),
    ev.NODE_SKIPPED: ("node_id", "reason"),
    ev.NODE_OUTPUT: ("node_id", "text"),
    ev.ITEM_FINISHED: ("node_id", "index", "key", "version", "bytes"),
    ev.ITEM_FAILED: ("node_id", "index"),
    ev.REPAIR_RESERVED: ("attempt",),
    ev.CHILD_STARTED: ("run_id",),
}


def _check_fields(event: Event) -> None:
    data = event.data
    for name in _NEEDED.get(event.type, ()):
        if name not in data:
            raise ValueError(f"{event.type} without {name!r}")
    for name, value in data.items():
        fits = _FIELDS.get(name)
        if fits is not None and not fits(value):
            raise ValueError(f"{event.type}: {name!r} has a value that it cannot have")
    if "status" in data:
        known = _NODE_ENDS if event.type == ev.NODE_FINISHED else _RUN_ENDS
        if data["status"] not in known:
            raise ValueError(f"{event.type}: nothing ends as {data['status']!r}")
    if "key" in data and event.type == ev.NODE_FINISHED and not data.keys() >= _STORED:
        raise ValueError(f"{event.type}: a stored value without its version")
    if "artifact" in data:
        record = ArtifactRecord.from_dict(data["artifact"])
        if record.codec == "pickle":
            raise ValueError("a result is a pickle, which could run code: it is not read")


def _check_names(events: list[Event]) -> None:
    """See that every node that is spoken of is one of the plan."""
    if not events or events[0].type != ev.RUN_STARTED:
        raise ValueError("it does not begin with the start of a run")
    if any("algorithm" in event.data for event in events):
        raise ValueError("it is the run of an algorithm, and files hold runs of plans")
    nodes = events[0].data["plan"].get("nodes")
    written = nodes if type(nodes) is list else ()
    ids = (node.get("id") for node in written if type(node) is dict)
    known = {node_id for node_id in ids if type(node_id) is str}
    for event in events:
        data = event.data
        names = [data["node_id"]] if "node_id" in data else []
        for field in ("reset", "partly", "cancelled"):
            names += data.get(field, ())
        for name in names:
            if name not in known:
                raise ValueError(f"{event.type}: the plan has no node {name[:60]!r}")


def _check_effort(events: list[Event]) -> None:
    """Refuse what takes far longer to work out than to read: no run begins again that often."""
    continued = again = 0
    ended: set[str] = set()
    noted: dict[str, set[str]] = {}
    for event in events:
        node_id = event.data.get("node_id", "")
        if event.type == ev.RUN_CONTINUED:
            continued += 1
        elif event.type in _OPENING and node_id in ended:
            again += 1
            ended.discard(node_id)
        if event.type in _ENDING:
            ended.add(node_id)
        if "note" in event.data:
            noted.setdefault(node_id, set()).update(event.data["note"])
    if continued > _CONTINUED or again > _AGAIN:
        raise ValueError(f"it was continued {continued:,} times, and {again:,} nodes ran again")
    if any(len(names) > _NOTED for names in noted.values()):
        raise ValueError(f"a node has more than {_NOTED:,} noted facts")


def _check_standing(history: History, archive: Archive) -> None:
    """See that what the run stands on belongs together: plan, states, records, bodies."""
    states = history.state.nodes
    if sum(state.ended for state in states.values()) != history.state.nodes_done:
        raise ValueError("a node ended twice")
    keys: set[str] = set()
    for node in history.plan.nodes:
        record, state = history.nodes[node.id], states[node.id]
        stored = list(record.items.values())
        spreads = node.for_each is not None
        if record.finished is not None and "key" in record.finished:
            stored.append(record.finished)
            if spreads:
                raise ValueError(f"node {node.id!r} is a fan-out, and stored one value")
        elif record.items and not spreads:
            raise ValueError(f"node {node.id!r} is no fan-out, and has items")
        if record.items and max(record.items) >= (state.total or 0):
            raise ValueError(f"node {node.id!r} has an item beyond its last")
        for data in stored:
            if data["key"] in keys:
                raise ValueError(f"two results stand under {data['key'][:60]!r}")
            keys.add(data["key"])
            _check_body(data, archive)


def _check_body(data: dict[str, Any], archive: Archive) -> None:
    if "artifact" not in data:
        return
    if "artifact_id" not in data:
        raise ValueError("a result without its id")
    record = ArtifactRecord.from_dict(data["artifact"])
    if archive.size(form.BODIES + record.sha256) != record.size:
        raise ValueError(f"the result {record.sha256[:12]} is not in it, or not of its size")
