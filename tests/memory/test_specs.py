"""Specs are read strictly, and what is wrong is said so that a model can mend it."""

import pytest

from planbench.errors import SpecInvalid
from planbench.memory.specs import MAX_OPS, read_spec

FILTER = {"op": "filter", "column": "x", "cmp": "==", "value": 3}


def op(**fields):
    return {"source": "a", "ops": [fields]}


@pytest.mark.parametrize(
    "spec",
    [
        {"source": "a"},
        {"source": ["a", "b.*"], "select": "rows[]", "label": None, "item": {"id": "report_id"}},
        {"source": "a", "ops": [FILTER] * MAX_OPS, "store_as": "k", "description": "d"},
        op(op="filter", column="x", cmp="in", value=["a", 1, True]),
        op(op="filter", column="x", cmp="isnull"),
        op(op="sort", by=["x", "y"], ascending=False),
        op(op="group", by="x"),
        op(op="group", by=["x"], agg={"y": "sum", "z": ["min", "max"]}),
        op(op="join", on="x", how="left", **{"with": "b"}),
        op(op="dedupe"),
        op(op="rename", columns={"a": "b"}),
        op(op="value_counts", column="x", n=3),
        op(op="head", n=0),
    ],
)
def test_a_spec_that_is_right_is_read(spec):
    assert read_spec(spec).source == spec["source"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "source: is missing"),
        ([], "the spec: write a map"),
        ("df.query('x > 3')", "the spec: write a map"),
        ({"source": 3}, "source: input should be a valid string"),
        ({"source": []}, "source: .*should have at least 1"),
        ({"source": ""}, "source: string should have at least 1 character"),
        ({"source": "a", "op": []}, "op: there is no such field; did you mean 'ops'?"),
        ({"source": "a", "ops": {}}, "ops: input should be a valid list"),
        ({"source": "a", "ops": [3]}, r"ops\[0\]: write a map"),
        ({"source": "a", "ops": [FILTER] * (MAX_OPS + 1)}, "ops: list should have at most 50"),
        (op(op="filtr"), r"ops\[0\]: there is no such op; did you mean 'filter'\?"),
        (op(op="query", text="x > 3"), r"ops\[0\]: there is no such op; there are filter, select"),
        (op(column="x"), r'ops\[0\]: each operation names itself in "op": filter'),
        (op(op="filter", cmp="=="), r"ops\[0\]\.column: is missing"),
        (op(op="filter", column="x", cmp="=", value=1), r"ops\[0\]\.cmp: write one of '=='"),
        (op(op="filter", column="x", cmp="in", value=1), r'ops\[0\]: "in" needs a list'),
        (op(op="filter", column="x", cmp="<", value=[1]), r'for several write "in"'),
        (op(op="filter", column="x", cmp="<"), r'empty cells are found with "isnull"'),
        (op(op="filter", column="x", cmp="isnull", value=1), r"isnull takes no value"),
        (op(op="head", n=-1), r"ops\[0\]\.n: input should be greater than or equal to 0"),
        (op(op="head", n="3"), r"ops\[0\]\.n: input should be a valid integer"),
        (op(op="head", n=True), r"ops\[0\]\.n: input should be a valid integer"),
        (op(op="select", columns=[]), r"ops\[0\]\.columns: list should have at least 1"),
        (op(op="group", by="x", agg={"y": "median"}), r"ops\[0\]\.agg\.y: write one of 'count'"),
        (op(op="join", on="x"), r"ops\[0\]\.with: is missing"),
        (op(op="join", on="x", how="cross", **{"with": "b"}), r"ops\[0\]\.how: write one of"),
        (op(op="sort", bye="x", by="x"), r"ops\[0\]\.bye: there is no such field; did you mean 'by'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place_and_the_right_form(spec, said):
    with pytest.raises(SpecInvalid, match=said) as caught:
        read_spec(spec)
    assert caught.value.code == "invalid_arguments"
    assert '"source": "fetch"' in caught.value.hint


def test_many_problems_are_counted_and_no_input_is_repeated():
    canary = "CANARY" * 50
    ops = [{"op": "head", "n": canary} for _ in range(10)]
    with pytest.raises(SpecInvalid, match="and 5 more") as caught:
        read_spec({"source": "a", "ops": ops})
    assert "CANARY" not in str(caught.value)
    with pytest.raises(SpecInvalid) as caught:
        read_spec({"source": "a", "ops": [{"op": canary}]})
    assert "CANARY" not in str(caught.value)
