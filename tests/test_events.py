from __future__ import annotations

import dataclasses
from datetime import UTC, timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench import events
from planbench.events import EVENT_TYPES, Event

NAMES = """
run.started run.finished run.cancelled run.interrupted run.paused run.continued
node.started node.progress node.finished node.failed node.skipped node.blocked node.retried
node.cached node.output item.finished item.failed plan.created plan.revised
task.started task.finished task.failed llm.called tool.called child.started child.finished
approval.requested approval.decided repair.reserved budget.exceeded
"""
RECORD = {
    "seq": 1,
    "run_id": "run_1",
    "at": "2026-08-06T12:00:00+00:00",
    "type": events.RUN_STARTED,
    "data": {"plan": "sweep"},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
made_events = st.builds(
    Event,
    st.integers(1, 10**9),
    st.text(),
    st.floats(0, 4e9),
    st.sampled_from(sorted(EVENT_TYPES)),
    st.dictionaries(st.text(), json_values, max_size=3),
)


def test_the_types_are_those_of_the_design_and_no_other():
    assert {f"planbench.{name}" for name in NAMES.split()} == EVENT_TYPES


def test_every_type_has_a_constant_of_its_own_name():
    for kind in EVENT_TYPES:
        name = kind.removeprefix(events.PREFIX).replace(".", "_").upper()
        assert getattr(events, name) == kind


@given(made_events)
def test_an_event_comes_back_from_its_record(event):
    record = event.to_dict()
    again = Event.from_dict(orjson.loads(orjson.dumps(record)))
    assert again._replace(timestamp=0) == event._replace(timestamp=0)
    assert again.timestamp == pytest.approx(event.timestamp, abs=1e-6)
    assert Event.from_dict(again.to_dict()) == again


@given(made_events)
def test_the_moment_is_aware_and_in_utc(event):
    assert event.at.tzinfo is UTC
    assert event.at.utcoffset() == timedelta(0)
    assert event.to_dict()["at"] == event.at.isoformat()


def test_a_moment_in_another_zone_is_the_same_moment():
    here = Event.from_dict(RECORD)
    there = Event.from_dict({**RECORD, "at": "2026-08-06T14:00:00+02:00"})
    assert here == there


@pytest.mark.parametrize("key", sorted(RECORD))
def test_a_record_without_a_field_is_damaged(key):
    with pytest.raises(KeyError):
        Event.from_dict({k: v for k, v in RECORD.items() if k != key})


@pytest.mark.parametrize(
    "change",
    [
        {"at": "yesterday"},
        {"at": 3},
        {"at": "2026-08-06T12:00:00"},
        {"seq": "1"},
        {"seq": True},
        {"run_id": None},
        {"type": None},
        {"data": None},
        {"data": []},
    ],
)
def test_a_record_with_a_wrong_field_is_damaged(change):
    with pytest.raises(ValueError, match=r"the event|isoformat"):
        Event.from_dict({**RECORD, **change})


def test_an_event_is_frozen():
    event = Event.from_dict(RECORD)
    assert not dataclasses.is_dataclass(event)
    with pytest.raises(AttributeError):
        event.seq = 2
