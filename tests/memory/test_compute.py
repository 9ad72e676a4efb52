"""Tables from stored values, by plain operations: what they give, and what is refused in words."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import ArtifactNotFound, FrameError, PathError, SpecInvalid
from planbench.memory import WorkingMemory
from planbench.memory import compute as computing
from planbench.memory.compute import compute
from planbench.memory.specs import read_spec


@pytest.fixture
def memory():
    memory = WorkingMemory()
    memory.put(
        "t",
        pd.DataFrame(
            {
                "name": ["a", "b", "c", "d", None],
                "n": [3, 1, 2, 3, 1],
                "x": [1.5, None, 0.5, 2.5, 3.5],
                "tags": [["p"], ["p", "q"], [], ["q"], None],
                "mixed": [1, "two", 3, None, 5.0],
                "when": pd.to_datetime(["2026-01-01", "2026-02-01", None, "2026-03-01", "2026-04-01"]),
            }
        ),
    )  # fmt: skip
    items = memory.start_items("fetch")
    for index in range(3):
        body = {
            "report_id": f"r{index}",
            "findings": [{"uid": f"{index}{i}", "severity": "high" if i else "low"} for i in range(2)],
        }  # fmt: skip
        memory.put_item(f"fetch.{index}", body, "fetch", "get", index, 100, None, None, items)
    memory.put("owners", [{"uid": "00", "owner": "ann"}, {"uid": "11", "owner": "bob"}])
    return memory


def run(memory, source, *ops, **more):
    return compute(memory, read_spec({"source": source, "ops": list(ops), **more}))


def cells(frame, column="name"):
    return [None if pd.isna(cell) else cell for cell in frame[column]]


# Sources


def test_a_source_is_a_key_a_node_a_pattern_or_a_list_of_them(memory):
    assert len(run(memory, "t")) == 5
    assert run(memory, "fetch", select="findings[]")["key"].tolist() == [
        f"fetch.{i}" for i in (0, 0, 1, 1, 2, 2)
    ]
    assert len(run(memory, "fetch.*", select="findings[]")) == 6
    assert run(memory, ["fetch.2", "fetch.0"], select="findings[]")["uid"].tolist() == [
        "20", "21", "00", "01",
    ]  # fmt: skip
    assert list(run(memory, "fetch.0", select="findings[]").columns) == ["uid", "severity"]


def test_columns_from_each_entry_are_added_by_path(memory):
    table = run(memory, "fetch", select="findings[]", label="report", item={"id": "report_id"})
    assert list(table.columns) == ["report", "id", "uid", "severity"]
    assert table["id"].tolist() == ["r0", "r0", "r1", "r1", "r2", "r2"]
    assert run(memory, "fetch.1", select="findings[]", item={"id": "report_id"})["id"].tolist() == [
        "r1", "r1",
    ]  # fmt: skip


def test_a_named_index_becomes_columns():
    memory = WorkingMemory()
    memory.put("g", pd.DataFrame({"k": ["a", "a", "b"], "n": [1, 2, 3]}).groupby("k").sum())
    assert run(memory, "g").to_dict("list") == {"k": ["a", "b"], "n": [3, 3]}


def test_what_is_not_there_and_does_not_fit_is_said(memory):
    for source in ("fetsh", ["t", "fetsh"], "nothing.*"):
        with pytest.raises(ArtifactNotFound):
            run(memory, source)
    with pytest.raises(PathError, match="findngs"):
        run(memory, "fetch", select="findngs[]")
    with pytest.raises(FrameError, match="'uid'"):
        run(memory, "fetch", select="findings[]", label="uid")


def test_nothing_stored_is_changed(memory):
    before = memory.get("t").copy()
    table = run(memory, "t", {"op": "rename", "columns": {"n": "m"}}, {"op": "head", "n": 2})
    table.loc[0, "m"] = 99
    pd.testing.assert_frame_equal(memory.get("t"), before)


# Operations


@pytest.mark.parametrize(
    ("column", "cmp", "value", "names"),
    [
        ("n", "==", 3, ["a", "d"]),
        ("n", "!=", 3, ["b", "c", None]),
        ("n", "<", 2, ["b", None]),
        ("n", "<=", 2, ["b", "c", None]),
        ("n", ">", 2, ["a", "d"]),
        ("n", ">=", 2.5, ["a", "d"]),
        ("x", "!=", 0.5, ["a", "d", None]),
        ("x", ">", 1, ["a", "d", None]),
        ("name", "==", "a", ["a"]),
        ("name", "!=", "a", ["b", "c", "d"]),
        ("name", ">", "b", ["c", "d"]),
        ("name", "in", ["a", "d", 5], ["a", "d"]),
        ("n", "in", [1], ["b", None]),
        ("name", "contains", "b", ["b"]),
        ("tags", "contains", "q", ["b", "d"]),
        ("n", "contains", "3", []),
        ("x", "isnull", None, ["b"]),
        ("name", "notnull", None, ["a", "b", "c", "d"]),
        ("tags", "isnull", None, [None]),
        ("mixed", "==", "two", ["b"]),
        ("when", ">=", "2026-03-01", ["d", None]),
        ("n", "==", "3", []),
    ],
)
def test_filters_keep_the_rows_that_fit(memory, column, cmp, value, names):
    given = {} if value is None else {"value": value}
    table = run(memory, "t", {"op": "filter", "column": column, "cmp": cmp, **given})
    assert cells(table) == names
    assert list(table.index) == list(range(len(names)))


@pytest.mark.parametrize(
    ("column", "cmp", "value"), [("mixed", ">", 2), ("n", "<", "a"), ("name", ">", 3)]
)
def test_what_cannot_be_compared_is_said_without_quoting_a_cell(memory, column, cmp, value):
    with pytest.raises(SpecInvalid, match=r"ops\[0\]\.value: .*cannot be compared") as caught:
        run(memory, "t", {"op": "filter", "column": column, "cmp": cmp, "value": value})
    assert "two" not in str(caught.value)


def test_select_and_rename_name_columns(memory):
    table = run(
        memory,
        "t",
        {"op": "select", "columns": ["n", "name"]},
        {"op": "rename", "columns": {"n": "name", "name": "n"}},
    )
    assert list(table.columns) == ["name", "n"]
    assert table["name"].tolist() == [3, 1, 2, 3, 1]


def test_sort_is_stable_and_puts_empty_cells_last(memory):
    assert cells(run(memory, "t", {"op": "sort", "by": "n"})) == ["b", None, "c", "a", "d"]
    assert cells(run(memory, "t", {"op": "sort", "by": "n", "ascending": False})) == [
        "a", "d", "c", "b", None,
    ]  # fmt: skip
    assert cells(run(memory, "t", {"op": "sort", "by": ["n", "x"]})) == [None, "b", "c", "a", "d"]
    assert cells(run(memory, "t", {"op": "sort", "by": "x"}), "x")[-1] is None


def test_groups_are_in_the_order_in_which_they_appear(memory):
    table = run(
        memory, "t", {"op": "group", "by": "n", "agg": {"x": ["sum", "mean", "max"], "name": "count"}}
    )  # fmt: skip
    assert table.to_dict("list") == {
        "n": [3, 1, 2],
        "x_sum": [4.0, 3.5, 0.5],
        "x_mean": [2.0, 3.5, 0.5],
        "x_max": [2.5, 3.5, 0.5],
        "name_count": [2, 1, 1],
    }
    assert run(memory, "t", {"op": "group", "by": ["n"]})["count"].tolist() == [2, 2, 1]


def test_empty_cells_are_a_group_of_their_own(memory):
    memory.put("e", [{"k": None, "v": 1}, {"k": "a", "v": 2}, {"k": None, "v": 3}])
    table = run(memory, "e", {"op": "group", "by": "k", "agg": {"v": "sum"}})
    assert cells(table, "k") == [None, "a"]
    assert table["v_sum"].tolist() == [4, 2]
    counts = run(memory, "e", {"op": "value_counts", "column": "k"})
    assert counts["count"].tolist() == [2, 1]


def test_value_counts_put_the_most_frequent_first(memory):
    table = run(memory, "fetch", {"op": "value_counts", "column": "severity"}, select="findings[]")
    assert table.to_dict("list") == {"severity": ["low", "high"], "count": [3, 3]}
    assert len(run(memory, "t", {"op": "value_counts", "column": "n", "n": 1})) == 1


def test_joins_set_columns_beside_each_other(memory):
    def joined(how, **more):
        return run(
            memory, "fetch", {"op": "join", "with": "owners", "on": "uid", "how": how, **more},
            select="findings[]",
        )  # fmt: skip

    assert joined("inner")["owner"].tolist() == ["ann", "bob"]
    assert cells(joined("left"), "owner") == ["ann", None, None, "bob", None, None]
    assert len(joined("right")) == 2
    assert len(joined("outer")) == 6


def test_a_join_that_would_not_fit_is_refused_before_it_is_made(memory, monkeypatch):
    monkeypatch.setattr(computing, "MAX_ROWS", 100)
    memory.put("many", [{"k": 1, "v": n} for n in range(20)])
    with pytest.raises(SpecInvalid, match=r"ops\[0\] gives 400 rows, over 100"):
        run(memory, "many", {"op": "join", "with": "many", "on": "k"})


@settings(deadline=None, max_examples=40)
@given(
    left=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=8),
    right=st.lists(st.sampled_from(["a", "c", None]), min_size=1, max_size=8),
    how=st.sampled_from(["inner", "left", "right", "outer"]),
)
def test_the_rows_of_a_join_are_counted_right(left, right, how):
    one, two = pd.DataFrame({"k": left}, dtype=object), pd.DataFrame({"k": right}, dtype=object)
    assert computing._joined_rows(one, two, ["k"], how) == len(one.merge(two, how=how, on="k"))


def test_dedupe_keeps_the_first(memory):
    assert cells(run(memory, "t", {"op": "dedupe", "columns": ["n"]})) == ["a", "b", "c"]
    memory.put("d", [{"x": 1}, {"x": 1}, {"x": 2}])
    assert run(memory, "d", {"op": "dedupe"})["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ({"op": "select", "columns": ["nmae"]}, r"ops\[0\]\.columns: there is no column 'nmae'.*\n.*'name'"),
        ({"op": "sort", "by": "qqqqq"}, r"there is no column 'qqqqq'\nthe columns are name, n, x"),
        ({"op": "select", "columns": ["n", "n"]}, "'n' would be there twice"),
        ({"op": "rename", "columns": {"n": "x"}}, "'x' would be there twice"),
        ({"op": "sort", "by": "mixed"}, r"ops\[0\]\.by: the cells have no order"),
        ({"op": "group", "by": "tags"}, "holds lists or maps"),
        ({"op": "value_counts", "column": "tags"}, "'tags' holds lists or maps"),
        ({"op": "dedupe"}, "holds lists or maps.*\nname the columns"),
        ({"op": "group", "by": "n", "agg": {"name": "sum"}}, r"ops\[0\]\.agg\.name: sum of 'name' cannot be had"),
        ({"op": "group", "by": "n", "agg": {"mixed": "mean"}}, "mean of 'mixed' cannot be had"),
        ({"op": "group", "by": "n", "agg": {"mixed": "max"}}, "max of 'mixed' cannot be had"),
        ({"op": "group", "by": "n", "agg": {"tags": "nunique"}}, "nunique of 'tags' cannot be had"),
        ({"op": "join", "with": "owners", "on": "n"}, r"ops\[0\]\.on of 'owners': there is no column 'n'"),
        ({"op": "join", "with": "owners", "on": "owner"}, r"ops\[0\]\.on: there is no column 'owner'"),
        ({"op": "join", "with": "t", "on": "tags"}, "different kinds of cells there, or lists"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_table_is_said_with_its_place(memory, op, said):
    with pytest.raises(SpecInvalid, match=said):
        run(memory, "t", op)


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ({"op": "sort", "by": "tags"}, "have no order"),
        ({"op": "group", "by": "tags"}, "holds lists or maps"),
        ({"op": "value_counts", "column": "tags"}, "holds lists or maps"),
        ({"op": "dedupe"}, "holds lists or maps"),
        ({"op": "group", "by": "n", "agg": {"tags": "nunique"}}, "cannot be had"),
        ({"op": "join", "with": "t", "on": "tags"}, "lists or maps"),
    ],
)
def test_cells_of_arrow_that_cannot_be_compared_are_said_as_those_of_python(op, said):
    memory = WorkingMemory()
    tags = pd.Series([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int8())))
    memory.put("t", pd.DataFrame({"tags": tags, "n": [1, 1]}))
    with pytest.raises(SpecInvalid, match=said):
        run(memory, "t", op)


def test_columns_that_are_no_text_are_found_by_what_they_read_as():
    memory = WorkingMemory()
    memory.put("a", np.arange(6).reshape(3, 2))
    assert run(memory, "a", {"op": "sort", "by": "1", "ascending": False})[0].tolist() == [4, 2, 0]


def test_columns_of_one_name_are_refused_where_one_is_meant():
    memory = WorkingMemory()
    memory.put("a", pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(SpecInvalid, match="2 columns have the name 'x'"):
        run(memory, "a", {"op": "sort", "by": "x"})
    assert run(memory, "a", {"op": "head", "n": 1}).shape == (1, 2)


def test_numbers_in_a_column_of_objects_are_summed():
    memory = WorkingMemory()
    memory.put("a", pd.DataFrame({"k": [1, 1], "v": pd.Series([1, 2.5], dtype=object)}))
    assert run(memory, "a", {"op": "group", "by": "k", "agg": {"v": "sum"}})["v_sum"].tolist() == [
        3.5
    ]


def test_sources_and_tables_over_the_limits_are_refused(memory, monkeypatch):
    monkeypatch.setattr(computing, "MAX_ROWS", 4)
    with pytest.raises(SpecInvalid, match="source gives 5 rows"):
        run(memory, "t")
    monkeypatch.undo()
    monkeypatch.setattr(computing, "MAX_BYTES", 250)
    with pytest.raises(SpecInvalid, match="source: 3 entries hold 300 B"):
        run(memory, "fetch")
    monkeypatch.setattr(computing, "MAX_BYTES", 120)
    with pytest.raises(SpecInvalid, match="the table holds"):
        run(memory, "fetch.0", select="findings[]")


@pytest.mark.parametrize("empty", [[], pd.DataFrame({"x": pd.Series([], dtype="int64")})])
def test_empty_tables_go_through_every_operation(empty):
    memory = WorkingMemory()
    memory.put("e", empty)
    assert len(run(memory, "e", {"op": "head", "n": 3}, {"op": "dedupe"})) == 0
    if len(memory.df("e").columns):
        for op in (
            {"op": "filter", "column": "x", "cmp": ">", "value": 1},
            {"op": "filter", "column": "x", "cmp": "contains", "value": "a"},
            {"op": "sort", "by": "x"},
            {"op": "group", "by": "x", "agg": {"x": "count"}},
            {"op": "value_counts", "column": "x"},
            {"op": "join", "with": "e", "on": "x", "how": "outer"},
        ):
            assert len(run(memory, "e", op)) == 0
