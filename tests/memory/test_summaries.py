"""Summaries are bounded whatever the value is, and show nothing beyond their bound."""

import dataclasses
import enum
import uuid
from collections import namedtuple
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from planbench.memory.summaries import clipped, summarize, summarize_items

CANARY = "CANARY-5551234"


class Loud:
    """An object whose own words must never be used."""

    def __repr__(self):
        raise AssertionError("asked for its repr")

    __str__ = __repr__


class Model(BaseModel):
    name: str
    parts: list[int]


@dataclasses.dataclass
class Record:
    name: str
    inner: object


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is met too


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        ("text", "text"),
        (b"\x00\x01", "2 bytes"),
        ({"a": 1, "b": [1, 2]}, '{"a": 1, "b": [1, 2]}'),
        ([1, "x"], '[1, "x"]'),
        (list(range(10)), "list of 10: [0, 1, 2, ...]"),
        ((1, 2), "[1, 2]"),
        (Model(name="m", parts=[1]), '{"name": "m", "parts": [1]}'),
        (Record("r", None), '{"name": "r", "inner": null}'),
        (Point(1, 2), '{"x": 1, "y": 2}'),
        (Loud(), "a Loud"),
        ([Loud()], "[a Loud]"),
        ({Loud(): 1}, "{a Loud: 1}"),
        (np.zeros((3, 4)), "ndarray of 3 x 4"),
        (np.int64(4), "4"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 8, 6), "2026-08-06"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Colour.RED, "a Colour"),
        (10**5000, "a number of 16,610 bits"),
        (float("nan"), "nan"),
        (pd.DataFrame(), "table of 0 rows and 0 columns: "),
        (
            pd.DataFrame({"n": [1, 2], 7: ["a", None]}, dtype=object),
            'table of 2 rows and 2 columns: n (object), 7 (object); (1, "a"); (2, null)',
        ),
        (pd.Series([1.5], name="s"), "table of 1 rows and 1 columns: s (float64); (1.5)"),
        (pd.DataFrame({"t": [pd.Timestamp("2026-08-06"), pd.NaT]}), None),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_described_by_its_kind_its_size_and_how_it_begins(value, said):
    found = summarize(value, 500)
    if said is None:
        assert found.startswith("table of")
    else:
        assert found == said


def deep(levels):
    value = CANARY
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 600 + CANARY,
        {"a": "x" * 200 + CANARY},
        {f"k{i}": CANARY if i > 20 else i for i in range(100)},
        [0, 1, 2, CANARY],
        {"a": {"b": {"c": {"d": {"e": CANARY}}}}},
        deep(2_000),
        CANARY.encode(),
        Record("r", Loud()),
        pd.DataFrame({"x": ["a", "b", "c", CANARY]}),
        pd.DataFrame({f"c{i}": [CANARY if i > 30 else "x"] for i in range(60)}),
        pd.DataFrame({"x": pd.Categorical(["a"] * 4, categories=["a", CANARY])}),
        pd.DataFrame({"x": [["a", "b", "c", CANARY]]}),
        np.array([CANARY] * 5, dtype=object),
        {"k" * 1_000 + CANARY: 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_lies_beyond_the_bound_is_not_shown(value):
    for limit in (10, 100, 500):
        found = summarize(value, limit)
        assert len(found) <= limit
        assert CANARY not in found


def test_the_items_of_a_fan_out_are_described_by_the_first_of_them():
    read = []

    def items():
        for number in range(1_000):
            read.append(number)
            yield f"f.{number}", {"n": number}

    found = summarize_items(items(), 1_000, 500)
    assert found == (
        'fan-out of 1,000 items: f.0 = {"n": 0}; f.1 = {"n": 1}; f.2 = {"n": 2}; ... 997 more'
    )
    assert len(read) == 3
    assert summarize_items((), 0, 500) == "fan-out of 0 items"


def test_clipping_says_that_something_is_left_out():
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abc..."
    assert clipped("abcdefg", 2) == "ab"
    assert summarize("x" * 5_000, 40).endswith("... (5,000 characters)")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=40,
)


@given(value=VALUES, limit=st.integers(1, 400))
def test_no_summary_is_longer_than_its_limit(value, limit):
    assert len(summarize(value, limit)) <= limit
