from collections import deque
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from planbench.memory.sizes import SCALAR, SLOT, format_bytes, measure

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)


def expected(value):
    """The rule of the docstring, written as plainly as it can be, for values without sharing."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(2 * SLOT + expected(k) + expected(v) for k, v in value.items())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return sum(SLOT + expected(item) for item in value)
    return SCALAR


@given(JSON)
def test_json_values_count_text_numbers_and_references(value):
    assert measure(value, None) == expected(value)


@given(st.text(max_size=300))
def test_short_text_counts_its_exact_utf8_length(text):
    assert measure(text) == len(text.encode("utf-8", "surrogatepass"))


def test_half_a_surrogate_pair_is_measured():
    assert measure("a\ud800") == 4
    assert measure(["a\ud800"]) == SLOT + 4


def test_long_text_is_estimated_near_its_utf8_length():
    text = "Grüße " * 10_000
    assert measure(text) == pytest.approx(len(text.encode()), rel=0.01)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, SCALAR),
        (True, SCALAR),
        (7, SCALAR),
        (2.5, SCALAR),
        ("abc", 3),
        (b"abcd", 4),
        (bytearray(5), 5),
        (memoryview(b"abc"), 3),
        ((1, 2), 2 * (SLOT + SCALAR)),
        ({1, 2}, 2 * (SLOT + SCALAR)),
        (deque([1, 2, 3]), 3 * (SLOT + SCALAR)),
        ({"a": "é"}, 2 * SLOT + 3),
        ({1: "x"}, 2 * SLOT + SCALAR + 1),
        ([], 0),
        ({}, 0),
    ],
)
def test_each_plain_kind_has_its_size(value, size):
    assert measure(value) == size


def test_a_flat_map_and_the_same_map_nested_agree():
    flat = {"id": "r-1", "n": 3, "ok": True, "name": "eu-west-1"}
    assert measure([flat]) == SLOT + measure(flat)


def test_a_cycle_ends():
    loop = {"name": "loop"}
    loop["self"] = loop
    assert measure(loop) == 2 * 2 * SLOT + len("name") + len("loop") + len("self")
    ring = []
    ring.append(ring)
    assert measure(ring) == SLOT


def test_a_container_that_is_shared_counts_once():
    shared = ["x" * 100]
    assert measure([shared, shared]) == 2 * SLOT + measure(shared)


def test_deep_nesting_needs_no_recursion():
    value = []
    for _ in range(50_000):
        value = [value]
    assert measure(value, None) == 50_000 * SLOT


def test_a_value_over_the_budget_is_not_measured():
    assert measure([1] * 101, 100) is None
    assert measure([1] * 100, 100) == 100 * (SLOT + SCALAR)
    assert measure({"rows": [[1] * 60, [2] * 60]}, 100) is None
    assert measure([1] * 101, None) == 101 * (SLOT + SCALAR)


def test_many_columns_are_over_the_budget():
    wide = pd.DataFrame(np.zeros((2, 1_000)))
    assert measure(wide) is None
    assert measure(wide, None) >= wide.to_numpy().nbytes


def test_a_frame_counts_its_buffers():
    frame = pd.DataFrame({"a": np.arange(1000), "b": np.zeros(1000)})
    assert measure(frame) == pytest.approx(16_000, rel=0.05)
    assert measure(frame["a"]) == pytest.approx(8_000, rel=0.05)


def test_object_cells_of_a_frame_are_estimated_from_a_sample():
    frame = pd.DataFrame({"cell": [{"text": "x" * 1000}] * 5_000})
    assert measure(frame) == pytest.approx(5_000 * 1_030, rel=0.05)


def test_text_columns_count_their_text():
    frame = pd.DataFrame({"text": ["y" * 500] * 1_000})
    assert measure(frame) == pytest.approx(500_000, rel=0.1)
    python = pd.DataFrame({"text": pd.Series(["y" * 500] * 1_000, dtype=pd.StringDtype("python"))})
    assert measure(python) == pytest.approx(500_000, rel=0.1)


def test_a_cell_over_the_budget_sends_the_frame_off():
    frame = pd.DataFrame({"cell": [[0] * 50_000]})
    assert measure(frame) is None
    assert measure(frame, None) > 50_000 * SCALAR


def test_an_empty_frame_is_measured():
    assert measure(pd.DataFrame()) < 1_000
    assert measure(pd.DataFrame({"a": []}, dtype=object)) < 1_000


def test_arrays_and_arrow_tables_count_their_buffers():
    assert measure(np.zeros(1_000)) == 8_000
    assert measure(np.float64(1.0)) == SCALAR
    assert measure(np.int16(1)) == 2
    assert measure(np.array(["x" * 100, "y" * 100], dtype=object)) == 2 * (SLOT + 100)
    assert measure(pa.table({"a": [1, 2, 3]})) == 24


def test_models_and_dataclasses_count_their_fields():
    class Model(BaseModel, extra="allow"):
        text: str

    @dataclass(slots=True)
    class Record:
        text: str
        rows: list[int]

    assert measure(Model(text="x" * 50)) == SLOT + 50
    assert measure(Model(text="x" * 50, more="y" * 20)) == 2 * SLOT + 70
    assert measure(Record("x" * 50, [1, 2])) == 2 * SLOT + 50 + 2 * (SLOT + SCALAR)


def test_other_objects_count_their_own_size():
    class Odd:
        def __sizeof__(self):
            return 1_000

    assert measure(Odd()) >= 1_000
    assert measure(Decimal("1.5")) > 0
    assert measure([Odd(), Odd()]) > 2_000


def test_subclasses_count_like_what_they_are():
    class Name(str):
        __slots__ = ()

    class Bag(dict):
        pass

    assert measure(Name("abc")) == 3
    assert measure(Bag(a=1)) == 2 * SLOT + 1 + SCALAR
    assert measure([Name("é")]) == SLOT + 2


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_234, "1.2 kB"),
        (99_949, "99.9 kB"),
        (99_951, "100 kB"),
        (999_499, "999 kB"),
        (999_999, "1.0 MB"),
        (3_400_000, "3.4 MB"),
        (2_000_000_000, "2.0 GB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_bytes_are_written_in_three_digits(count, text):
    assert format_bytes(count) == text
