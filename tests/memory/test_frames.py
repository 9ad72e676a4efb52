from collections import ChainMap
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from pydantic import BaseModel

from planbench.errors import FrameError, PlanbenchError
from planbench.memory import frames
from planbench.memory.frames import stack, to_frame, view


class Finding(BaseModel):
    uid: str
    severity: str


@dataclass
class Check:
    name: str
    tags: dict


class Pair(NamedTuple):
    left: int
    right: str


def cells(frame):
    return frame.to_dict("list")


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ([{"a": 1, "b": 2}, {"a": 3}], {"a": [1, 3], "b": [2, None]}),
        ({"a": 1, "b": "x"}, {"a": [1], "b": ["x"]}),
        ({"a": 1, "deep": {"b": 2}}, {"a": [1], "deep": [{"b": 2}]}),
        ({"id": "r", "rows": [{"a": 1}, {"a": 2}]}, {"a": [1, 2]}),
        ({"id": "r", "rows": ({"a": 1}, {"a": 2})}, {"a": [1, 2]}),
        ({"id": "r", "rows": [{"a": 1}], "of": {"x": 1}}, {"a": [1]}),
        ({"rows": [{"a": 1}], "table": pd.DataFrame({"x": [1, 2]})}, None),
        ({"id": "r", "tags": ["x", "y"]}, {"id": ["r"], "tags": [["x", "y"]]}),
        ({"one": [{"a": 1}], "two": [{"a": 1}]}, {"one": [[{"a": 1}]], "two": [[{"a": 1}]]}),
        ([1, 2, 3], {"value": [1, 2, 3]}),
        ((1, 2), {"value": [1, 2]}),
        (["a", {"b": 1}], {"value": ["a", {"b": 1}]}),
        ([[1], [2, 3]], {"value": [[1], [2, 3]]}),
        ("some text", {"value": ["some text"]}),
        (b"raw", {"value": [b"raw"]}),
        (7, {"value": [7]}),
        (None, {"value": [None]}),
        ([None, None], {"value": [None, None]}),
        (Pair(1, "x"), {"left": [1], "right": ["x"]}),
        ([Pair(1, "x"), Pair(2, "y")], {"left": [1, 2], "right": ["x", "y"]}),
        (ChainMap({"a": 1}), {"a": [1]}),
        (Finding(uid="u", severity="low"), {"uid": ["u"], "severity": ["low"]}),
        ([Finding(uid="u", severity="low")], {"uid": ["u"], "severity": ["low"]}),
        (Check("c", {"k": 1}), {"name": ["c"], "tags": [{"k": 1}]}),
        ({"run": 1, "found": [Finding(uid="u", severity="low")]}, {"uid": ["u"], "severity": ["low"]}),
        (np.array([1, 2]), {"value": [1, 2]}),
        (np.array([[1, 2], [3, 4]]), {0: [1, 3], 1: [2, 4]}),
        (np.array([(1, "x")], dtype=[("n", int), ("s", "U1")]), {"n": [1], "s": ["x"]}),
        (np.float64(1.5), {"value": [1.5]}),
    ],
)  # fmt: skip
def test_each_form_of_value_has_one_table(value, columns):
    frame = to_frame(value)
    if columns is None:
        assert len(frame) == 1
        assert list(frame.columns) == list(value)
    else:
        assert_frame_equal(frame, pd.DataFrame(columns), check_dtype=False)


@pytest.mark.parametrize("value", [[], (), {"id": "r", "rows": []}, set()])
def test_an_empty_list_of_records_has_no_rows(value):
    assert to_frame(value).shape == (0, 0)


def test_the_form_decides_and_not_how_many_there_are():
    full = {"report_id": "a", "findings": [{"uid": 1}, {"uid": 2}]}
    none = {"report_id": "b", "findings": []}
    table = stack([({"key": "a"}, full), ({"key": "b"}, none)], ["key"])
    assert table.to_dict("list") == {"key": ["a", "a"], "uid": [1, 2]}


def test_a_series_is_one_column():
    assert cells(to_frame(pd.Series([1, 2]))) == {"value": [1, 2]}
    assert cells(to_frame(pd.Series([1], name=0))) == {0: [1]}


def test_arrow_tables_become_frames():
    assert cells(to_frame(pa.table({"a": [1, 2]}))) == {"a": [1, 2]}
    assert cells(to_frame(pa.array([1, 2]))) == {"value": [1, 2]}


def test_an_array_of_three_dimensions_keeps_a_cell_for_each_plane():
    frame = to_frame(np.zeros((2, 3, 4)))
    assert list(frame.columns) == ["value"]
    assert [cell.shape for cell in frame["value"]] == [(3, 4), (3, 4)]


def test_half_a_surrogate_pair_stays_in_its_cell():
    assert cells(to_frame("\ud800")) == {"value": ["\ud800"]}
    assert cells(to_frame([{"a": "\ud800", "b": 1}])) == {"a": ["\ud800"], "b": [1]}
    assert cells(to_frame([{"k\udc00": 1}, {"b": 2}]))["k\udc00"][0] == 1


def test_what_is_written_into_a_view_never_reaches_the_original():
    frame = pd.DataFrame({"a": [1, 2], "cells": [[1], [2]]})
    kept = frame.copy(deep=True)
    for made in (view(frame), to_frame(frame)):
        made.loc[0, "a"] = 99
        made["new"] = 1
    seen = view(frame["a"])
    seen.iloc[0] = 99
    column = to_frame(frame["a"])
    column.iloc[0, 0] = 99
    assert_frame_equal(frame, kept)


def test_without_copy_on_write_a_view_is_a_whole_copy(monkeypatch):
    frame = pd.DataFrame({"a": [1, 2]})
    assert np.shares_memory(view(frame)["a"].to_numpy(), frame["a"].to_numpy())
    monkeypatch.setattr(pd, "__version__", "2.3.3")
    monkeypatch.setattr(frames, "_copy_on_write_option", lambda: False)
    assert not np.shares_memory(view(frame)["a"].to_numpy(), frame["a"].to_numpy())


def test_a_frame_of_an_array_is_its_own():
    array = np.zeros((2, 2))
    frame = to_frame(array)
    frame.iloc[0, 0] = 5.0
    assert array.sum() == 0


def test_other_values_are_handed_out_as_they_are():
    value = {"a": [1]}
    assert view(value) is value


def test_parts_are_set_under_each_other_with_their_heads_first():
    table = stack([({"key": "a"}, [{"x": 1}, {"y": 2}]), ({"key": "b"}, {"x": 3})], ["key"])
    assert list(table.columns) == ["key", "x", "y"]
    assert list(table["key"]) == ["a", "a", "b"]
    assert list(table.index) == [0, 1, 2]


def test_frames_and_records_stack_together():
    first = pd.DataFrame({"x": [1, 2]}, index=[7, 7])
    table = stack([({"key": "a"}, first), ({"key": "b"}, [{"x": 3}]), ({"key": "c"}, [4])], ["key"])
    assert list(table["key"]) == ["a", "a", "b", "c"]
    assert table["x"].tolist()[:3] == [1, 2, 3]
    assert table["value"].tolist()[3] == 4


def test_an_empty_frame_changes_no_type_of_a_full_one():
    empty = pd.DataFrame({"x": pd.Series([], dtype=object), "y": pd.Series([], dtype=object)})
    table = stack([({"key": "a"}, empty), ({"key": "b"}, pd.DataFrame({"x": [1]}))], ["key"])
    assert table["x"].dtype == np.int64


def test_columns_of_empty_frames_survive_where_nothing_has_rows():
    table = stack([({"key": "a"}, pd.DataFrame({"x": []}))], ["key"])
    assert list(table.columns) == ["key", "x"]
    assert list(stack([], ["key", "report"]).columns) == ["key", "report"]


def test_a_named_index_becomes_columns():
    counts = pd.DataFrame({"high": [1], "low": [2]}, index=pd.Index(["iam"], name="service"))
    table = stack([({"key": "a"}, counts)], ["key"])
    assert table.to_dict("records") == [{"key": "a", "service": "iam", "high": 1, "low": 2}]


def test_a_name_that_is_a_column_already_is_refused():
    for value in ([{"key": 1}], pd.DataFrame({"key": [1]}), pd.DataFrame({"key": []})):
        with pytest.raises(FrameError, match="'key' is a column of the items already") as caught:
            stack([({"key": "a"}, value)], ["key"])
        assert "label=" in caught.value.hint
    assert issubclass(FrameError, PlanbenchError)
    assert issubclass(FrameError, ValueError)


def test_an_index_named_like_a_column_is_refused():
    frame = pd.DataFrame({"x": [1]}, index=pd.Index([5], name="x"))
    with pytest.raises(FrameError, match="index of the items"):
        stack([({}, frame)], [])


def test_items_with_two_columns_of_one_name_are_refused_where_they_differ():
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(FrameError, match="several columns of one name"):
        stack([({}, twice), ({}, pd.DataFrame({"y": [1]}))], [])


def test_a_list_in_a_head_is_one_cell_in_each_row():
    table = stack([({"tags": ["p", "q"]}, pd.DataFrame({"x": [1, 2]}))], ["tags"])
    assert table["tags"].tolist() == [["p", "q"], ["p", "q"]]


def test_moments_keep_their_zone():
    frame = to_frame([{"at": datetime(2026, 8, 6, tzinfo=UTC)}])
    assert str(frame["at"].dt.tz) == "UTC"
