"""Bodies as plain JSON: whole or not at all."""

import datetime as dt
import enum
import json
import uuid
from collections import namedtuple
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import ArtifactRefused
from planbench.memory.rehydrate import OverCeilingError, check_json, encoded_size, plain_json

Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is met too


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        ([1, 2.5, "x", True], [1, 2.5, "x", True]),
        (float("nan"), None),
        (float("inf"), None),
        ((1, {2}), [1, [2]]),
        ({2: "a", None: "b", True: "c"}, {"2": "a", "null": "b", "true": "c"}),
        ({dt.date(2026, 8, 6): 1}, {"2026-08-06": 1}),
        (b"\x00\xff", {"base64": "AP8="}),
        (Decimal("1.50"), "1.50"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (dt.datetime(2026, 8, 6, 12, tzinfo=dt.UTC), "2026-08-06T12:00:00+00:00"),
        (dt.timedelta(seconds=1), "0:00:01"),
        (Level.HIGH, 3),
        (Name("n"), "n"),
        (2**100, 2**100),
        (Point(1, 2), {"x": 1, "y": 2}),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.float32(1.5), 1.5),
        (np.datetime64("2026-08-06"), "2026-08-06"),
        (
            pd.DataFrame({"x": [1, 2], "t": [pd.Timestamp("2026-08-06"), pd.NaT]}),
            {"columns": ["x", "t"], "rows": [[1, "2026-08-06T00:00:00"], [2, None]]},
        ),
        (
            pd.DataFrame({"x": [1]}, index=pd.Index(["a"], name="key")),
            {"columns": ["key", "x"], "rows": [["a", 1]]},
        ),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), {"columns": ["x", "x"], "rows": [[1, 2]]}),
        (pd.Series([1, None], dtype="Int64"), {"columns": ["value"], "rows": [[1], [None]]}),
        ({"in": [pd.DataFrame({"x": [1]})]}, {"in": [{"columns": ["x"], "rows": [[1]]}]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_becomes_json(value, plain):
    found = plain_json(value, 10_000)
    assert found == plain
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(plain))


@pytest.mark.parametrize("value", [Thing(), {"a": [1, Thing()]}, pd.DataFrame({"x": [Thing()]})])
def test_what_has_no_form_in_json_is_named_with_its_place(value):
    with pytest.raises(ArtifactRefused, match="a Thing, which has no form in JSON"):
        plain_json(value, 10_000)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1: "a", "1": "b"}, "^the value has two keys that JSON writes as '1'"),
        ({"a": [{None: 1, "null": 2}]}, r"^a\[0\] has two keys"),
        (10**5_000, "^the value is a whole number of 16,610 bits"),
        ({"n": [1, 10**5_000]}, r"^n\[1\] is a whole number"),
        ({"n": {10**5_000: 1}}, "^n is a whole number"),
        (pd.DataFrame({"n": [10**5_000]}), "is a whole number"),
    ],
    ids=["key", "inner key", "number", "inner number", "long key", "cell"],
)
def test_nothing_is_left_out_and_what_json_cannot_hold_is_refused_with_its_place(value, said):
    with pytest.raises(ArtifactRefused, match=said):
        plain_json(value, 1_000_000)


def test_the_place_of_what_has_no_form_is_said():
    with pytest.raises(ArtifactRefused, match=r"^a\[1\] is a Thing"):
        plain_json({"a": [1, Thing()]}, 10_000)


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000, ["xy"] * 500, b"x" * 1_000, list(range(600)), {"ä" * 400: 1}, np.zeros(600)],
    ids=lambda value: type(value).__name__,
)
def test_more_than_the_ceiling_is_not_given_at_all(value):
    with pytest.raises(OverCeilingError):
        plain_json(value, 500)
    assert plain_json(value, 10_000) is not None


def test_the_walk_ends_at_the_ceiling():
    class Endless(list):
        def __len__(self):
            return 10**9

        def __iter__(self):
            while True:
                yield "x" * 100

    with pytest.raises(OverCeilingError):
        plain_json(Endless(), 10_000)


def test_what_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(ArtifactRefused, match="deeper"):
        plain_json(value, 10_000)
    with pytest.raises(ArtifactRefused, match="deeper"):
        check_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
).filter(lambda value: "Infinity" not in json.dumps(value))


@given(value=JSON)
def test_json_stays_as_it_is(value):
    check_json(value)
    assert plain_json(value, 10**6) == value
    assert encoded_size(value) <= 10**6


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, (2,)]}, r"data\.a\[1\] is a tuple"),
        ({"a": {1: 2}}, r"data\.a has a key that is a number"),
        ([float("nan")], r"data\[0\] is no finite number"),
        (b"x", "data is a bytes"),
        (Thing(), "data is a Thing"),
        (Level.HIGH, "data is a number"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_json_is_refused_with_its_place(value, place):
    with pytest.raises(ArtifactRefused, match=place):
        check_json(value)
