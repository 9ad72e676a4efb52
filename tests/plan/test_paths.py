from __future__ import annotations

import contextlib
import dataclasses
import gc
import re
import subprocess
import sys
import tracemalloc
from collections import defaultdict, deque
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from planbench.errors import PathError
from planbench.plan.paths import MAX_PATH, Path, compile_path
from planbench.plan.shapes import describe

REPORT = {
    "metadata": {"scanner": "prowler", "owner": None},
    "keys": ["a", "b"],
    "findings": [
        {"id": 1, "severity": "high", "tags": ["x", "y"], "owner": {"name": "ann"}},
        {"id": 2, "severity": None, "tags": [], "owner": None},
        {"id": 3, "severity": "low", "tags": None, "owner": {"name": "bo"}},
    ],
}


class Finding(BaseModel):
    id: int
    severity: str


@dataclasses.dataclass
class Page:
    total: int
    findings: list[Finding]

    @property
    def broken(self):
        raise ZeroDivisionError


class Point(NamedTuple):
    x: int
    y: int


def read(text, value, **options):
    return compile_path(text).read(value, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys[]", ["a", "b"]),
        ("keys", ["a", "b"]),
        ("metadata.scanner", "prowler"),
        ("metadata.owner", None),
        ("findings[].severity", ["high", None, "low"]),
        ("findings[0].id", 1),
        ("findings[2].owner.name", "bo"),
        ("findings[].owner.name", ["ann", None, "bo"]),
        ("findings[].tags[]", ["x", "y"]),
    ],
)
def test_the_three_constructs_read_a_result(text, expected):
    assert read(text, REPORT) == expected


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("[]", [1, 2], [1, 2]),
        ("[]", (1, 2), [1, 2]),
        ("[0]", [{"a": 1}], {"a": 1}),
        ("[].x", [{"x": 1}, {"x": 2}], [1, 2]),
        ("[0].x", [{"x": 1}], 1),
        ("[][]", [[1], [2, 3], None], [1, 2, 3]),
        ("[][].x", [[{"x": 1}], [{"x": 2}]], [1, 2]),
        ("[].x[0]", [{"x": [1, 2]}, {"x": None}], [1, None]),
        ("[]", deque([1]), [1]),
        ("[]", range(2), [0, 1]),
    ],
)
def test_a_path_may_start_at_the_root(text, value, expected):
    assert read(text, value) == expected


@pytest.mark.parametrize("text", ["[]", "a[]", "a[].b", "[].b[0]", "a.b[].c.d"])
def test_a_path_with_brackets_says_that_it_gives_a_list(text):
    assert compile_path(text).gives_list
    assert not compile_path(text.replace("[]", "[0]")).gives_list


@given(st.lists(st.lists(st.lists(st.integers()))))
def test_brackets_flatten_whatever_is_nested(value):
    assert read("[][][]", value) == [x for a in value for b in a for x in b]


@given(
    st.lists(
        st.one_of(st.from_regex(r"\A[A-Za-z0-9_\-]{1,8}\Z"), st.integers(0, 99), st.just("[]")),
        min_size=1,
        max_size=6,
    )
)
def test_a_path_compiles_to_the_steps_that_were_written(steps):
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step == "[]":
            text += step
        else:
            text += f".{step}" if text else step
    assert compile_path(text).steps == tuple(steps)


@given(st.text(max_size=20))
def test_any_text_is_a_path_or_a_path_error(text):
    with contextlib.suppress(PathError):
        assert isinstance(compile_path(text), Path)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a[*]", "write [] for every element"),
        ("$.a", "leave the $ out"),
        ("a..b", "a name follows each dot"),
        (".a", "starts with a name"),
        ("a[-1]", "counts from 0"),
        ("a['b']", "write .name for a field"),
        ("a.[]", "no dot before a bracket"),
        ("[]x", "write a dot between ] and a name"),
        ("a b", "made of names"),
        ("a\n", "made of names"),
    ],
)
def test_a_path_that_cannot_be_read_says_where_and_what_to_write(text, advice):
    with pytest.raises(PathError, match=r"at character \d") as caught:
        compile_path(text)
    assert advice in caught.value.hint


def test_a_path_is_not_empty_and_not_endless():
    with pytest.raises(PathError, match="cannot be empty"):
        compile_path("")
    with pytest.raises(PathError, match="at most 1000"):
        compile_path("a" * (MAX_PATH + 1))
    with pytest.raises(PathError, match="a path is text, not a number"):
        compile_path(3)


def test_compiled_paths_are_kept():
    assert compile_path("a[].b") is compile_path("a[].b")


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        (
            "findings[]",
            {"keys": 1, "total": 2},
            "findings[]: the result has no field 'findings'; it has keys, total",
        ),
        ("a.b", {"a": {}}, "a.b: 'a' has no field 'b'; it has none"),
        ("a.b", {"a": None}, "a.b: 'a' is null, and has no field 'b'"),
        ("a.b", {"a": "text"}, "a.b: 'a' is text, and has no field 'b'"),
        ("a.b", {"a": [1]}, "a.b: 'a' is a list of 1; write a[].b for a field of each"),
        ("a[]", {"a": {"b": 1}}, "a[]: 'a' is a map of 1, and [] needs a list; it has b"),
        ("a[]", {"a": None}, "a[]: 'a' is null, and [] needs a list"),
        ("a[]", {"a": {1, 2}}, "a[]: 'a' is a set of 2, and [] needs a list"),
        ("[]", "text", "[]: the result is text, and [] needs a list"),
        ("[]", b"bytes", "[]: the result is a bytes of 5, and [] needs a list"),
        ("[]", (x for x in "ab"), "[]: the result is a generator, and [] needs a list"),
        ("a[3]", {"a": [1]}, "a[3]: 'a' has no element 3: it is a list of 1"),
        ("[0]", 5, "[0]: the result is a number, and [0] needs a list"),
        (
            "[].x",
            [{"x": 1}, {"y": 2}],
            "[].x: element 1 of '[]' has no field 'x'; it has y",
        ),
        ("[].x", [{"x": 1}, 7], "[].x: element 1 of '[]' is a number, and has no field 'x'"),
        (
            "[].x[]",
            [{"x": [1]}, {"x": 2}],
            "[].x[]: element 1 of '[].x' is a number, and [] needs a list",
        ),
    ],
)
def test_a_misfit_says_what_is_there_instead(text, value, message):
    with pytest.raises(PathError) as caught:
        read(text, value)
    assert caught.value.message == message


def test_a_misfit_shows_a_few_names_and_no_values():
    with pytest.raises(PathError) as caught:
        read("x", {f"key_{i}": "secret" for i in range(1000)} | {"k" * 500: 1})
    assert "key_7, ..." in caught.value.message
    assert "secret" not in caught.value.message
    assert len(caught.value.message) < 300


def test_a_missing_field_counts_as_null_only_where_others_have_it():
    rows = [{"severity": "high"}, {"id": 2}, None]
    assert read("[].severity", rows, fill_missing=True) == ["high", None, None]
    with pytest.raises(PathError, match="element 1"):
        read("[].severity", rows)
    with pytest.raises(PathError, match="has no field 'severty'"):
        read("[].severty", rows, fill_missing=True)


def test_reading_never_changes_a_map_that_makes_its_own_keys():
    rows = [defaultdict(list), defaultdict(list)]
    with pytest.raises(PathError):
        read("[].x", rows)
    with pytest.raises(PathError):
        read("x", rows[0])
    assert [len(row) for row in rows] == [0, 0]


def test_objects_are_read_by_their_public_attributes():
    page = Page(2, [Finding(id=1, severity="high"), Finding(id=2, severity="low")])
    assert read("findings[].severity", page) == ["high", "low"]
    assert read("total", page) == 2
    point = Point(1, 2)
    assert read("x", point) == 1
    assert read("[]", point) == [1, 2]
    assert read("a", MappingProxyType({"a": 1})) == 1
    with pytest.raises(PathError, match="has no field 'sevrity'; it has id, severity"):
        read("findings[].sevrity", page)
    for hidden in ("__class__", "_secret", "model_dump"):
        with pytest.raises(PathError, match="has no field"):
            read(hidden, page.findings[0])
    with pytest.raises(PathError, match="raised ZeroDivisionError"):
        read("broken", page)


def test_a_name_is_a_column_and_brackets_are_its_values():
    frame = pd.DataFrame({"severity": ["high", "low"], "n": [1, 2]})
    assert read("severity[]", frame) == ["high", "low"]
    assert read("[].n", frame) == [1, 2]
    assert type(read("n[]", frame)[0]) is int
    assert read("n[1]", frame) == 2
    assert read("[]", frame) == [{"severity": "high", "n": 1}, {"severity": "low", "n": 2}]
    assert read("[0]", frame) == {"severity": "high", "n": 1}
    assert read("report.n[]", {"report": frame}) == [1, 2]
    assert read("[].n[]", [frame, frame]) == [1, 2, 1, 2]
    pd.testing.assert_series_equal(read("n", frame), frame["n"])
    with pytest.raises(PathError, match=re.escape("has no field 'sev'; it has severity, n")):
        read("sev[]", frame)
    with pytest.raises(PathError, match="has no element 2: it is a DataFrame of 2 rows"):
        read("[2]", frame)


def test_a_column_is_given_for_counting_without_a_copy():
    frame = pd.DataFrame({"n": np.arange(5)})
    for text in ("n[]", "[].n"):
        column = compile_path(text).column(frame)
        assert np.shares_memory(column.to_numpy(), frame["n"].to_numpy())
    assert compile_path("[]").column(frame) is frame
    assert compile_path("a[]").column({"a": frame}) is frame


def test_a_column_of_several_tables_is_read_without_making_their_rows(monkeypatch):
    frames = [pd.DataFrame({"n": [1, 2], "x": ["a", "b"]}), None, pd.DataFrame({"n": [3]})]
    monkeypatch.delattr(pd.DataFrame, "to_dict")

    assert read("[][].n", frames) == [1, 2, 3]
    assert read("pages[].rows[].n", {"pages": [{"rows": frames[0]}, {"rows": [{"n": 9}]}]}) == [
        1, 2, 9,
    ]  # fmt: skip
    with pytest.raises(PathError, match="has no field 'x'"):
        read("[][].x", frames)


@pytest.mark.parametrize("text", ["[].n", "n[]", "n", "[]", "[].name", "[5].name", "name[5]"])
def test_a_path_into_a_table_takes_no_memory_of_its_size(text):
    frame = pd.DataFrame({"n": np.arange(300_000), "name": ["x"] * 300_000, "more": 1.5})
    path = compile_path(text)
    path.column(frame)
    gc.collect()
    tracemalloc.start()
    try:
        path.column(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 200_000


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(PathError, match="2 columns 'a'"):
        read("a[]", frame)
    with pytest.raises(PathError, match="several columns of one name"):
        read("[]", frame)


def test_series_and_arrays_are_lists():
    series = pd.Series([1.5, None], index=["x", "y"])
    assert read("[0]", series) == 1.5
    assert read("x", series) == 1.5
    assert len(read("[]", series)) == 2
    assert read("[]", np.array([1, 2])) == [1, 2]
    assert read("[][]", np.array([[1, 2], [3, 4]])) == [1, 2, 3, 4]
    assert read("[1]", np.arange(3)) == 1
    assert read("a[]", {"a": pd.Index(["p", "q"])}) == ["p", "q"]
    with pytest.raises(PathError, match="needs a list"):
        read("[]", np.array(3))
    with pytest.raises(PathError, match="has no field 'z'; it has x, y"):
        read("z", series)


def test_values_are_never_compared_or_tested_for_truth():
    class Touchy:
        def __bool__(self):
            raise AssertionError

        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    touchy = Touchy()
    assert read("a.b", {"a": {"b": touchy}}) is touchy
    assert read("a[].b", {"a": [{"b": touchy}, {"b": pd.DataFrame({"x": [1]})}]})[0] is touchy
    assert read("a[].b", {"a": [{"b": touchy}, {}]}, fill_missing=True)[0] is touchy


def test_reading_loads_no_pandas():
    program = (
        "import sys; from planbench.plan.paths import compile_path;"
        "compile_path('a[].b').read({'a': [{'b': 1}]});"
        "sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"),
        (True, "bool"),
        (1.5, "number"),
        ("x", "text"),
        ([1, 2], "list of 2"),
        ({"a": 1}, "map of 1"),
        ({1, 2}, "set of 2"),
        (b"abc", "bytes of 3"),
        (np.zeros((2, 3)), "ndarray of 2 x 3"),
        (pd.DataFrame({"a": [1]}), "DataFrame of 1 rows and 1 columns"),
        (pd.Series([1]), "Series of 1"),
        (object(), "object"),
        (Finding, "ModelMetaclass"),
    ],
)
def test_a_value_is_described_and_not_shown(value, said):
    assert describe(value) == said
