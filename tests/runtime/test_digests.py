"""Equal arguments of equal types have one digest, anything else has another or none."""

import datetime as dt
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.runtime.digests import digest_of, digest_of_plain

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=6,
)


def typed(value):
    """The value with the types of all its parts, so that == tells them apart."""
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    if isinstance(value, dict):
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, float):
        return float, repr(value)
    return type(value), value


@given(plain, plain)
def test_digests_are_equal_exactly_where_values_and_types_are(one, other):
    assert (digest_of(one) == digest_of(other)) is (typed(one) == typed(other))


@given(plain)
def test_a_value_of_plain_parts_has_a_digest_that_a_copy_shares(value):
    def copy(part):
        if isinstance(part, dict):
            return {copy(key): copy(item) for key, item in part.items()}
        if isinstance(part, list | tuple):
            return type(part)(copy(item) for item in part)
        return (part + "x")[:-1] if isinstance(part, str) else part

    digest = digest_of(value)
    assert digest is not None
    assert len(digest) == 32
    assert digest_of(copy(value)) == digest


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": [1]}), pd.Series([1]), np.array([1]), np.float64(1), np.int64(1),
        object(), np.uint8(7), np.array([7], dtype=np.uint8), bytearray(b"x"), memoryview(b"x"), lambda: 1, range(3),
        pd.Timestamp("2026-08-06"), {"deep": [object()]}, type("Text", (str,), {})("x"),
        dt.datetime(2026, 8, 6, tzinfo=type("Zone", (dt.tzinfo,), {"utcoffset": lambda *_: None})()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_no_equality_is_claimed_for_other_objects(value):
    assert digest_of(value) is None


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x"), np.array([120], "u1")])
def test_buffers_of_the_same_bytes_never_meet(value):
    digests = [digest_of({"k": other}) for other in (b"x", "x") if other is not value]
    assert digest_of({"k": value}) not in digests or type(value) is bytes


def test_sets_count_by_what_is_in_them():
    assert digest_of({1, 2}) == digest_of({1, 2})
    assert len({digest_of(one) for one in ({1, 2}, {1, 3}, frozenset({1, 2}), [1, 2], (1, 2))}) == 5


@pytest.mark.parametrize("wrap", [list, tuple, lambda one: {"k": one[0]}])
def test_values_nested_without_end_have_no_digest_and_are_no_error(wrap):
    value = object()
    for _ in range(10_000):
        value = wrap([value])
    assert digest_of(value) is None
    value = 1
    for _ in range(10_000):
        value = wrap([value])
    assert digest_of(value) is None


def test_a_value_that_holds_itself_has_no_digest():
    value = []
    value.append(value)
    assert digest_of(value) is None


def test_the_prefix_counts():
    assert digest_of(1, b"a") != digest_of(1, b"b") != digest_of(1)
    assert digest_of_plain([1, "x"], b"a") == digest_of([1, "x"], b"a")


def test_digests_are_the_same_in_every_process():
    values = [1, "é", None, math.pi, [1, {"a": True}], (1, dt.date(2026, 8, 6)), 2**70]
    code = (
        "import datetime as dt, math\nfrom planbench.runtime.digests import digest_of\n"
        f"print([digest_of(v) for v in {values!r}])".replace("datetime.date", "dt.date")
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == repr([digest_of(value) for value in values])
