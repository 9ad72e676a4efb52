"""The parts of a script do with values what planbench does with them."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import PathError
from planbench.plan.facets import FacetMerger, FacetReader
from planbench.plan.model import FacetSpec
from planbench.plan.paths import compile_path
from planbench.plan.placeholders import as_text
from planbench.plan.script_runtime import Run
from planbench.plan.script_values import at, compare, facets_of, field, text

NAMES = st.sampled_from(["a", "b", "c-1"])
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["x", "y", ""])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
STEPS = st.sampled_from([".a", ".b", ".c-1", "[]", "[0]", "[1]"])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(lambda steps: "".join(steps).removeprefix("."))
FAILED = (KeyError, IndexError, AttributeError, TypeError)


@settings(max_examples=500)
@given(VALUES, PATHS, st.booleans())
def test_a_path_reads_what_it_reads_in_planbench(value, path, counting):
    try:
        expected = compile_path(path).read(value, fill_missing=counting)
    except PathError:
        with pytest.raises(FAILED):
            at(value, path, counting=counting)
    else:
        assert at(value, path, counting=counting) == expected


def test_a_path_reads_frames():
    frame = pd.DataFrame({"a": [1, 2], "b": [{"c": "x"}, {"c": "y"}]})

    for path in ("[]", "[].a", "[].b.c", "a[]", "[1].b.c"):
        assert at(frame, path) == compile_path(path).read(frame)


@settings(max_examples=300)
@given(
    st.lists(VALUES, min_size=1, max_size=4), st.lists(PATHS, min_size=3, max_size=3), st.booleans()
)
def test_facets_are_those_of_planbench(values, paths, merged):
    spec = FacetSpec(
        paths={"fact": paths[0]},
        counts={"n": paths[1]},
        group_counts={"by": paths[2]},
        max_group_keys=2,
    )
    reader, merger = FacetReader(spec), FacetMerger(spec)
    run = Run({}, {}, 1)
    if merged:
        for value in values:
            merger.add(reader.read(value)[0])
        expected = merger.result()
        run.survivors["x"] = dict(enumerate(values))
    else:
        expected, _ = reader.read(values[0])
        run.results["x"] = values[0]
    found = facets_of(run, "x", {**spec.model_dump(exclude={"max_group_keys"}), "most": 2})

    assert found.keys() == expected.keys()
    assert found.get("n") == expected.get("n")
    assert sum(found.get("by", {}).values()) == sum(expected.get("by", {}).values())
    if "fact" in found and not merged and not isinstance(expected["fact"], str | dict):
        assert found["fact"] == expected["fact"]


@given(VALUES, VALUES)
def test_a_text_is_joined_as_in_a_plan(one, two):
    assert text("a ", one, " b ", two) == f"a {as_text(one)} b {as_text(two)}"


def test_a_field_of_an_item_is_read_by_name_and_by_place():
    assert field({"a": [{"b": 1}]}, "a.0.b") == 1
    with pytest.raises(KeyError):
        field({}, "a")


@pytest.mark.parametrize(
    ("left", "sign", "right", "answer"),
    [
        (1, "==", 1.0, True),
        (1, "==", True, False),
        (1, "!=", "1", True),
        ("a", "<", "b", True),
        (2, ">=", 2, True),
        (None, "==", None, True),
    ],
)
def test_a_comparison_is_that_of_a_guard(left, sign, right, answer):
    assert compare(left, sign, right) is answer


@pytest.mark.parametrize(("left", "right"), [(1, "1"), (True, 0), (None, 1), ([1], [2])])
def test_what_has_no_order_is_an_error_and_so_skips_its_node(left, right):
    with pytest.raises(TypeError, match="have no order"):
        compare(left, "<", right)
