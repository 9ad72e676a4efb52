from __future__ import annotations

import datetime as dt
from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from planbench.memory.sameness import difference, same

BERLIN = ZoneInfo("Europe/Berlin")


def frame(**columns):
    return pd.DataFrame(columns)


def objects(*cells):
    return pd.Series(cells, dtype=object)


def with_attrs(value, **attrs):
    value.attrs.update(attrs)
    return value


NAIVE = dt.datetime.fromisoformat("2024-10-27T02:30")
DAYS = pd.date_range("2024-01-01", periods=3, freq="D")
DIFFERENT = {
    "an int and a bool": (1, True),
    "an int and a float": (1, 1.0),
    "the sign of zero": (0.0, -0.0),
    "the sign of zero in a complex": (complex(0, 0.0), complex(0, -0.0)),
    "a tuple and a list": ((1,), [1]),
    "the order of a map": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "a key of another type": ({1: 0}, {True: 0}),
    "a member of another type": ({1}, {True}),
    "a member inside of another type": ({(1,)}, {(1.0,)}),
    "fewer nan": ({float("nan"), 1}, {float("nan"), 2}),
    "a map and an ordered map": ({}, OrderedDict()),
    "a factory": (defaultdict(list), defaultdict(dict)),
    "the length of a deque": (deque([1], 2), deque([1], 3)),
    "a trailing zero": (Decimal("1.0"), Decimal("1.00")),
    "a range of equal numbers": (range(0, 3, 2), range(0, 4, 2)),
    "equal moments in two zones": (
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    ),
    "the name of an offset": (
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "Z")),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    ),
    "the fold": (NAIVE.replace(tzinfo=BERLIN), NAIVE.replace(tzinfo=BERLIN, fold=1)),
    "the making of a uuid": (UUID(int=1), UUID(int=1, is_safe=SafeUUID.safe)),
    "a numpy number": (np.int64(1), 1),
    "the width of a number": (np.int32(1), np.int64(1)),
    "the bytes of an array": (np.array([1], "<i4"), np.array([1], ">i4")),
    "the shape of an array": (np.zeros((2, 0)), np.zeros((0, 2))),
    "the unit of times": (np.array([1], "M8[s]"), np.array([1], "M8[ms]")),
    "a zero in an array": (np.array([0.0]), np.array([-0.0])),
    "a cell of an array": (np.array([1, None], object), np.array([True, None], object)),
    "missing cells of objects": (objects(None), objects(np.nan)),
    "nan and nat": (objects(np.nan), objects(pd.NaT)),
    "nat and na": (objects(pd.NaT), objects(pd.NA)),
    "an int among objects": (objects(1), objects(1.0)),
    "a bool among objects": (objects(1), objects(*[True])),
    "a tuple among objects": (objects((1,)), objects([1])),
    "a nested cell": (objects({"a": [1]}), objects({"a": [True]})),
    "a numpy number among objects": (objects(1), objects(np.int64(1))),
    "text and objects": (objects("a"), pd.Series(["a"], dtype="string[pyarrow]")),
    "text in python and objects": (objects("a"), pd.Series(["a"], dtype="string[python]")),
    "the storage of text": (
        pd.Series(["a"], dtype="string[python]"),
        pd.Series(["a"], dtype="string[pyarrow]"),
    ),
    "the type of categories": (
        pd.Series(pd.Categorical([1])),
        pd.Series(pd.Categorical([1.0])),
    ),
    "the order of categories": (
        pd.Series(pd.Categorical(["a"], ["a", "b"])),
        pd.Series(pd.Categorical(["a"], ["b", "a"])),
    ),
    "whether categories have an order": (
        pd.Series(pd.Categorical(["a"])),
        pd.Series(pd.Categorical(["a"], ordered=True)),
    ),
    "unused categories": (
        pd.Series(pd.Categorical(["a"], ["a"])),
        pd.Series(pd.Categorical(["a"], ["a", "b"])),
    ),
    "the unit of a column": (
        frame(a=np.array([1], "M8[s]")),
        frame(a=np.array([1000], "M8[ms]")),
    ),
    "the zone of a column": (
        frame(a=DAYS.tz_localize(dt.UTC)),
        frame(a=DAYS.tz_localize(ZoneInfo("UTC"))),
    ),
    "nan and na in a nullable column": (
        pd.Series(pd.arrays.FloatingArray(np.array([np.nan]), np.array([False]))),
        pd.Series(pd.arrays.FloatingArray(np.array([np.nan]), np.array([True]))),
    ),
    "the side of an interval": (pd.Interval(0, 1, "left"), pd.Interval(0, 1, "right")),
    "an arrow type": (
        pd.Series([1], dtype=pd.ArrowDtype(pa.int8())),
        pd.Series([1], dtype=pd.ArrowDtype(pa.int16())),
    ),
    "a range and its numbers": (frame(a=[1]), frame(a=[1]).set_axis(pd.Index([0]))),
    "the end of a range": (pd.RangeIndex(0, 3, 2), pd.RangeIndex(0, 4, 2)),
    "the frequency of an index": (DAYS, pd.DatetimeIndex(DAYS, freq=None)),
    "the name of an index": (pd.Index([1]), pd.Index([1], name="a")),
    "the type of a name": (pd.Index([1], name=1), pd.Index([1], name=True)),
    "the type of a label": (
        pd.DataFrame([[1]], columns=pd.Index([1], dtype=object)),
        pd.DataFrame([[1]], columns=pd.Index([1])),
    ),
    "the levels of an index": (
        pd.MultiIndex.from_arrays([["a"]]),
        pd.MultiIndex([["a", "b"]], [[0]]),
    ),
    "the name of a series": (pd.Series([1]), pd.Series([1], name="a")),
    "attributes": (frame(a=[1]), with_attrs(frame(a=[1]), source="x")),
    "flags": (frame(a=[1]), frame(a=[1]).set_flags(allows_duplicate_labels=False)),
    "the unit of a timestamp": (
        pd.Timestamp("2024").as_unit("s"),
        pd.Timestamp("2024").as_unit("ms"),
    ),
    "the unit of a timedelta": (
        pd.Timedelta(1, "s").as_unit("s"),
        pd.Timedelta(1, "s").as_unit("ms"),
    ),
    "a timestamp and a datetime": (pd.Timestamp("2024"), dt.datetime.fromisoformat("2024-01-01")),
    "the frequency of a period": (pd.Period("2024-01", "M"), pd.Period("2024Q1", "Q")),
}


@pytest.mark.parametrize(("left", "right"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_looks_equal_and_is_not_is_told_apart(left, right):
    assert not same(left, right)
    assert not same(right, left)
    assert not same([{"x": left}], [{"x": right}])


@pytest.mark.parametrize(("value", "_"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_value_is_the_same_as_itself(value, _):
    assert same(value, value)
    assert same([value], [value])


def test_every_nan_is_the_same_and_so_are_sets_that_hold_it():
    assert same(float("nan"), -float("nan"))
    assert same({float("nan"), 1}, {1, float("nan")})
    assert same(frame(a=[np.nan, None]), frame(a=[None, np.nan]))


def test_where_an_array_lies_in_memory_is_no_difference():
    array = np.arange(6).reshape(2, 3)

    assert same(array, np.asfortranarray(array))
    assert same(array[:, ::2], array[:, ::2].copy())


def test_the_first_difference_is_named():
    one = {"a": [1, frame(x=objects(1, {"k": [0]}))]}
    two = {"a": [1, frame(x=objects(1, {"k": [False]}))]}

    assert difference(one, two) == "value['a'][1], column 'x' [1]['k'][0]"


def test_values_that_hold_themselves_are_compared_and_it_ends():
    one: list = [1]
    one.append(one)
    two: list = [1]
    two.append(two)

    assert same(one, two)
