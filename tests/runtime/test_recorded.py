"""Values in a journal: JSON where it can be, refused where it cannot, the same digest for the same question."""

import dataclasses
import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import ArtifactRefused, RunRefused
from planbench.runtime.recorded import as_text, asked_digest, plain, read_value, write_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(VALUES)
def test_a_value_comes_back_equal_through_a_journal(value):
    fields = json.loads(json.dumps(write_value(value)))

    assert read_value(fields) == value


def test_plain_data_is_readable_in_the_event():
    assert write_value({"a": [1, "x"]}) == {"value": {"a": [1, "x"]}}
    assert write_value("text") == {"value": "text"}


def test_what_would_come_back_different_is_refused():
    with pytest.raises(ArtifactRefused):
        write_value(object())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"codec": "npy", "payload": "AAAA"}, "artifacts_unavailable"),
        ({"codec": "bytes", "payload": "%%"}, "checkpoint_invalid"),
        ({"codec": "bytes"}, "checkpoint_invalid"),
        ({"codec": "pickle", "payload": ""}, "artifacts_unavailable"),
        ({"artifact": {"sha256": "0"}}, "artifacts_unavailable"),
    ],
)
def test_a_damaged_value_is_refused_and_never_run(fields, code):
    with pytest.raises(RunRefused) as caught:
        read_value(fields)
    assert caught.value.code == code


def test_no_value_is_none():
    assert read_value({}) is None


@dataclasses.dataclass
class Point:
    x: int


class Rude:
    def __str__(self):
        raise ValueError("no")


def test_what_is_no_data_becomes_data():
    assert plain(Point(1)) == {"x": 1}
    assert plain({"day": date(2026, 1, 2)}) == {"day": "2026-01-02"}
    assert plain(Rude()) == "<Rude>"


def test_a_model_is_shown_text_as_it_is_and_data_as_json():
    assert as_text("a\nb") == "a\nb"
    assert as_text([1, None, {"x": True}]) == '[1,null,{"x":true}]'


def test_equal_questions_have_equal_digests_and_others_do_not():
    assert asked_digest("a", [1, (2,)]) == asked_digest("a", [1, [2]])
    assert asked_digest("a", 1) != asked_digest("a", "1")
    assert asked_digest(object()) == asked_digest(object())
    assert asked_digest("\ud800") == asked_digest("\ud800")
