from __future__ import annotations

import datetime as dt
import enum
import gc
import json
import tracemalloc
import uuid
from collections import Counter
from decimal import Decimal

import numpy as np
import orjson
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import PathError
from planbench.plan.facets import (
    MAX_TEXT,
    OTHER,
    FacetMerger,
    FacetReader,
    capped,
    gap,
    scalar,
    tally,
)
from planbench.plan.model import FacetSpec


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()


def read(value, **fields):
    return FacetReader(FacetSpec(**fields)).read(value)


def test_paths_counts_and_groups_are_read_in_one_go():
    report = {
        "metadata": {"scanner": "prowler"},
        "findings": [{"severity": "high"}, {"severity": "low"}, {"severity": "low"}],
    }
    facets, problems = read(
        report,
        paths={"scanner": "metadata.scanner"},
        counts={"n": "findings[]"},
        group_counts={"by_severity": "findings[].severity"},
    )
    assert facets == {"scanner": "prowler", "n": 3, "by_severity": {"low": 2, "high": 1}}
    assert problems == []


def test_a_facet_that_does_not_fit_is_left_out_with_a_line_and_the_others_stay():
    facets, problems = read(
        {"keys": 3, "total": 2},
        paths={"total": "total", "name": "metadata.name"},
        counts={"n": "findings[]", "k": "keys"},
    )
    assert facets == {"total": 2}
    assert problems == [
        "facet 'name': metadata.name: the result has no field 'metadata'; it has keys, total",
        "facet 'n': findings[]: the result has no field 'findings'; it has keys, total",
        "facet 'k': keys: is a number, and only a list can be counted",
    ]


def test_a_path_that_cannot_be_read_is_refused_when_the_reader_is_made():
    with pytest.raises(PathError):
        FacetReader(FacetSpec(counts={"n": "a[*]"}))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ("text", "text"),
        (float("nan"), None),
        (float("-inf"), None),
        (2**63, 2**63),
        (2**64, "<integer of 65 bits>"),
        pytest.param(10**5000, "<integer of 16610 bits>", id="endless"),
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.float32("nan"), None),
        (np.bool_(1), True),
        (np.str_("x"), "x"),
        (np.datetime64("2026-08-06T01:02:03", "ns"), "2026-08-06T01:02:03"),
        (np.datetime64("2026-08-06"), "2026-08-06T00:00:00"),
        (np.datetime64("NaT"), None),
        (np.timedelta64(90, "s"), 90.0),
        (np.complex128(1), "<complex object>"),
        (np.longdouble(1), "<longdouble object>"),
        (np.array(5), 5),
        (np.arange(4), "<ndarray of 4>"),
        (pd.NA, None),
        (pd.NaT, None),
        (pd.Timestamp("2026-08-06 12:00"), "2026-08-06T12:00:00"),
        (pd.Timedelta(minutes=2), 120.0),
        (pd.DataFrame({"a": [1]}), "<DataFrame of 1 rows and 1 columns>"),
        (dt.date(2026, 8, 6), "2026-08-06"),
        (dt.datetime(2026, 8, 6, tzinfo=dt.UTC), "2026-08-06T00:00:00+00:00"),
        (dt.time(12, 30), "12:30:00"),
        (Decimal("1.5"), 1.5),
        (Decimal("NaN"), None),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (Text("sub"), "sub"),
        ("\ud800", "?"),
        ([1, 2], "<list of 2>"),
        ({"a": {}}, "<map of 1>"),
        (b"abc", "<bytes of 3>"),
        (uuid.UUID(int=0), "<UUID object>"),
        (object(), "<object object>"),
    ],
)
def test_a_fact_is_a_json_scalar_or_says_what_it_is(value, plain):
    found = scalar(value)
    assert found == plain
    assert type(found) is type(plain)
    assert orjson.loads(orjson.dumps(found)) == found


def test_texts_are_cut_at_two_hundred_characters():
    facets, _ = read({"a": "x" * 10_000, "m": {"k" * 500: "y" * 500}}, paths={"a": "a", "m": "m"})
    assert len(facets["a"]) == MAX_TEXT == 200
    assert facets["a"].endswith("…")
    assert [(len(k), len(v)) for k, v in facets["m"].items()] == [(200, 200)]


@pytest.mark.parametrize("value", [[], [1], {1}, b"", object(), 2**70, np.arange(3), {"k": [1]}])
def test_what_is_described_or_cut_is_told_from_what_it_stands_for(value):
    fact, _ = read({"a": value}, paths={"a": "a"})

    assert gap(fact["a"]).startswith("says only <")
    assert gap([fact["a"]]) == gap({"k": fact["a"]}) == gap(fact["a"])
    assert gap(scalar("x" * 201)) == "is cut at 200 characters"
    assert gap(scalar("x" * 201), cuts=False) is None


@pytest.mark.parametrize(
    "value", ["list of 12", "object", "x" * 200, "...", "wait…", "<b>", "<3 of 5", "", 1, None]
)
def test_a_value_that_is_what_it_says_has_no_gap(value):
    assert gap(scalar(value)) is None
    assert gap([value, {"k": value}]) is None


def test_a_small_map_is_a_fact_and_a_large_one_is_described():
    assert read({"high": 1, "at": {"x": 1}, 3: pd.NA}, paths={"m": "[]"})[0] == {}
    assert read({"m": {"high": np.int64(1), "at": {}, 3: pd.NA}}, paths={"m": "m"})[0] == {
        "m": {"high": 1, "at": "<map of 0>", "3": None}
    }
    large = {str(i): i for i in range(26)}
    assert read({"m": large}, paths={"m": "m"})[0] == {"m": "<map of 26>"}


def test_only_a_list_can_be_counted():
    assert read({"a": [1, 2], "b": (1,)}, counts={"a": "a", "b": "b[]"})[0] == {"a": 2, "b": 1}
    assert read({"a": "text"}, counts={"a": "a"})[0] == {}
    assert read({"a": {"x": 1}}, counts={"a": "a"})[0] == {}


def test_groups_are_counted_as_text_the_way_json_writes_it():
    values = ["a", None, True, 1, 1.0, float("nan"), [1], {"x": 1}, Color.RED, "true"]
    assert tally(values) == {
        "a": 1,
        "null": 2,
        "true": 2,
        "1": 1,
        "1.0": 1,
        "<list of 1>": 1,
        "<map of 1>": 1,
        "red": 1,
    }


def test_an_element_without_the_field_counts_as_null():
    rows = [{"severity": "high"}, {}, {"severity": None}]
    assert read(rows, group_counts={"s": "[].severity"})[0] == {"s": {"null": 2, "high": 1}}
    facets, problems = read(rows, group_counts={"s": "[].severty"})
    assert facets == {}
    assert "has no field 'severty'" in problems[0]


def test_the_largest_groups_are_kept_and_the_rest_is_summed():
    values = ["c"] * 3 + ["a"] + ["b"] * 2 + ["d"]
    facets, _ = read(values, group_counts={"g": "[]"}, max_group_keys=2)
    assert facets == {"g": {"c": 3, "b": 2, OTHER: 2}}
    assert list(facets["g"]) == ["c", "b", OTHER]


@given(st.dictionaries(st.text(max_size=3) | st.just(OTHER), st.integers(1, 9)), st.integers(1, 5))
def test_capping_loses_no_count(counts, limit):
    kept = capped(counts, limit)
    assert sum(kept.values()) == sum(counts.values())
    assert len(kept.keys() - {OTHER}) == min(limit, len(counts.keys() - {OTHER}))
    assert capped(kept, limit) == kept


@pytest.mark.parametrize(
    "column",
    [
        ["high", "low", "low", None],
        [1, 2, 2, 3],
        [1.5, None, 1.5],
        [True, False, True],
        pd.Categorical(["a", "b", "a"], categories=["a", "b", "unused"]),
        pd.array([1, None, 1], dtype="Int64"),
        pd.to_datetime(["2026-08-06", None]),
        [[1], [2, 3], None],
        [1, True, "1"],
    ],
)
def test_a_frame_is_counted_by_its_columns_as_its_rows_would_be(column):
    frame = pd.DataFrame({"x": column})
    spec = {"counts": {"n": "[]", "m": "x[]"}, "group_counts": {"a": "x[]", "b": "[].x"}}
    facets, problems = read(frame, **spec)
    assert problems == []
    assert facets["n"] == facets["m"] == len(frame)
    assert facets["a"] == facets["b"] == tally(frame["x"].tolist())


def test_counts_and_groups_of_a_table_take_no_memory_of_its_size():
    rows = 300_000
    frame = pd.DataFrame(
        {
            "n": np.arange(rows) % 7,
            "kind": pd.Series(["a", "b", None] * (rows // 3), dtype=object),
            "day": pd.Series(["mon", "tue"] * (rows // 2), dtype="category"),
            "tags": [["x", "y"]] * rows,
        }
    )
    spec = FacetSpec(
        counts={"rows": "[]", "kinds": "kind[]"},
        group_counts={"by_n": "n[]", "by_kind": "[].kind", "by_day": "day[]"},
        paths={"first": "[0].kind"},
    )
    reader = FacetReader(spec)
    before = reader.read(frame)
    gc.collect()
    tracemalloc.start()
    try:
        facets, problems = reader.read(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (facets, problems) == before
    assert problems == []
    assert facets["by_kind"] == {"a": rows // 3, "b": rows // 3, "null": rows // 3}
    assert facets["rows"] == sum(facets["by_n"].values()) == rows
    assert peak < frame["n"].nbytes  # less than one column of the four


def test_the_rows_of_a_frame_are_counted_without_making_them(monkeypatch):
    frame = pd.DataFrame({"x": range(3)})
    monkeypatch.delattr(pd.DataFrame, "to_dict")
    assert read(frame, counts={"n": "[]"}, group_counts={"g": "[]"})[0] == {
        "n": 3,
        "g": {"<map of 1>": 3},
    }


def test_facets_are_json_whatever_the_result_holds():
    frame = pd.DataFrame({"x": [np.nan, 1], "t": pd.to_datetime(["2026-01-01", None])})
    facets, _ = read(
        {"f": frame, "n": np.float32(1.5), "s": {1, 2}, "o": object()},
        paths={"f": "f", "n": "n", "s": "s", "o": "o", "t": "f.t[0]", "x": "f[0].x"},
    )
    assert json.loads(json.dumps(facets)) == facets
    assert facets["x"] is None
    assert facets["t"] == "2026-01-01T00:00:00"


SPEC = FacetSpec(
    paths={"scanner": "scanner"},
    counts={"n": "findings[]"},
    group_counts={"s": "findings[].severity"},
    max_group_keys=3,
)


def test_merging_sums_counts_and_merges_groups_and_lists_distinct_values():
    merger = FacetMerger(SPEC)
    merger.add({"scanner": "b", "n": 2, "s": {"low": 2}})
    merger.add({"scanner": "a", "n": 3, "s": {"high": 1, "low": 2}})
    merger.add({"scanner": "b", "n": 1, "s": {}})
    merger.add({})
    assert merger.result() == {"scanner": ["b", "a"], "n": 6, "s": {"low": 4, "high": 1}}


def test_merging_nothing_gives_zero_and_empty():
    assert FacetMerger(SPEC).result() == {"scanner": [], "n": 0, "s": {}}


def test_merged_groups_and_values_are_bounded():
    merger = FacetMerger(SPEC)
    for i in range(10_000):
        merger.add({"scanner": i, "n": 1, "s": {f"k{i % 7}": 1, OTHER: 1}})
    result = merger.result()
    assert result["scanner"] == [0, 1, 2, OTHER]
    assert result["n"] == 10_000
    assert len(result["s"]) == 4
    assert sum(result["s"].values()) == 20_000


def test_distinct_values_are_told_apart_by_type_too():
    merger = FacetMerger(FacetSpec(paths={"v": "v"}))
    values = [1, True, 1.0, "1", None, {"a": 1}, {"a": True}, {"a": 1}, None]
    for value in values:
        merger.add({"v": value})
    assert [repr(v) for v in merger.result()["v"]] == [repr(v) for v in values[:7]]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]))))
def test_merging_items_counts_as_counting_all_at_once(items):
    spec = FacetSpec(counts={"n": "[]"}, group_counts={"g": "[]"})
    reader, merger = FacetReader(spec), FacetMerger(spec)
    for item in items:
        merger.add(reader.read(item)[0])
    everything = [value for item in items for value in item]
    assert merger.result()["n"] == len(everything)
    assert merger.result()["g"] == Counter("null" if v is None else v for v in everything)
