"""The stored form of an event reads back equal, and nothing else reads as one."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench import events as ev
from planbench.checkpoints.records import decoded, encoded
from planbench.errors import RecordDamaged, StoreError
from planbench.events import Event

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(
    st.dictionaries(st.text(), JSON, max_size=5),
    st.floats(min_value=-1e9, max_value=1e11) | st.integers(0, 10**10),
    st.integers(1, 2**53 - 1),
)
def test_an_event_reads_back_equal_with_the_types_of_its_values(data, at, seq):
    event = Event(seq, "run_a", at, ev.NODE_FINISHED, data)
    again = decoded("run_a", seq, encoded(event))
    assert again == event
    assert repr(again) == repr(event)


@given(st.text() | st.just(math.nan), JSON)
def test_what_orjson_would_change_is_written_by_the_standard_library(odd, value):
    data = {"value": value, "odd": [odd, 2**80, None]}
    again = decoded("r", 1, encoded(Event(1, "r", 5.0, ev.NODE_FINISHED, data)))
    assert repr(again.data) == repr(data)


def test_tuples_are_lists_afterwards():
    event = Event(1, "r", 5.0, ev.NODE_FINISHED, {"keys": ("a", "b"), "none": None})
    assert decoded("r", 1, encoded(event)).data == {"keys": ["a", "b"], "none": None}


@pytest.mark.parametrize(
    "data",
    [{"x": {1: 2}}, {"x": {1, 2}}, {"x": b"b"}, {"x": object()}, {1: 2}, {"x": [{None: 1}]}],
    ids=["key", "set", "bytes", "object", "own key", "inner key"],
)
def test_what_is_no_json_is_refused_and_the_event_named(data):
    with pytest.raises(StoreError, match=r"event 4 \(planbench.node.finished\) of run 'r'"):
        encoded(Event(4, "r", 5.0, ev.NODE_FINISHED, data))


def test_data_that_is_too_deep_is_refused():
    data = {}
    for _ in range(5_000):
        data = {"x": data}
    with pytest.raises(StoreError, match="cannot be written"):
        encoded(Event(1, "r", 5.0, ev.NODE_FINISHED, data))


@pytest.mark.parametrize("levels", range(390, 1_000, 10))
def test_what_is_written_can_be_read_from_a_deeper_stack(levels):
    data = {"x": None}
    for _ in range(levels):
        data["x"] = [data["x"]]

    def read(deeper):
        return read(deeper - 1) if deeper else decoded("r", 1, body)

    try:
        body = encoded(Event(1, "r", 5.0, ev.NODE_FINISHED, data))
    except StoreError:
        assert levels > 390
    else:
        assert repr(read(100).data) == repr(data)


def test_data_that_holds_itself_is_refused():
    data = {"x": []}
    data["x"].append(data)
    with pytest.raises(StoreError, match="cannot be written"):
        encoded(Event(1, "r", 5.0, ev.NODE_FINISHED, data))


@pytest.mark.parametrize("at", [math.nan, math.inf, 1e300, "now"])
def test_a_time_that_is_none_is_refused(at):
    with pytest.raises(StoreError, match="cannot be written"):
        encoded(Event(1, "r", at, ev.NODE_FINISHED, {}))


GOOD = json.loads(encoded(Event(3, "run_a", 5.25, ev.NODE_FINISHED, {"a": 1})))


def test_a_stored_event_can_be_read_by_people():
    assert GOOD == {
        "seq": 3, "run_id": "run_a", "at": "1970-01-01T00:00:05.250000+00:00",
        "type": "planbench.node.finished", "data": {"a": 1}, "timestamp": 5.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 4}, {"run_id": "run_b"}, {"seq": "3"}, {"seq": True}, {"data": []}, {"type": None},
        {"at": "soon"}, {"at": "2026-01-01T00:00:00"}, {"timestamp": "5"}, {"timestamp": None},
        {"timestamp": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_that_is_changed_is_damaged(change):
    with pytest.raises(RecordDamaged, match="event 3 cannot be read"):
        decoded("run_a", 3, json.dumps(GOOD | change).encode())


@pytest.mark.parametrize("name", GOOD)
def test_a_record_that_lacks_something_is_damaged(name):
    rest = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(RecordDamaged, match=f"'{name}' is missing"):
        decoded("run_a", 3, json.dumps(rest).encode())


@given(st.binary(max_size=60) | st.text(max_size=60) | st.none() | st.integers())
def test_noise_is_damage(noise):
    with pytest.raises(RecordDamaged):
        decoded("run_a", 3, noise)


@given(st.integers(0, len(json.dumps(GOOD)) - 1))
def test_a_record_that_was_cut_off_is_damaged(length):
    with pytest.raises(RecordDamaged):
        decoded("run_a", 3, json.dumps(GOOD).encode()[:length])
