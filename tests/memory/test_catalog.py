import pandas as pd

from planbench.memory import WorkingMemory

COLUMNS = ["key", "node", "tool", "type", "rows", "columns", "bytes", "version", "created"]


def test_the_catalog_has_a_row_for_each_key_in_the_order_of_its_first_put():
    memory = WorkingMemory()
    memory.put("b", pd.DataFrame({"x": [1, 2]}), node="n", tool="t")
    memory.put("a", "text")
    memory.put("b", {"x": 1}, node="n", tool="t")
    catalog = memory.catalog()
    assert list(catalog.columns) == COLUMNS
    assert list(catalog["key"]) == ["b", "a"]
    assert list(catalog["type"]) == ["json", "text"]
    assert list(catalog["version"]) == [2, 1]
    assert list(catalog["bytes"]) == [memory.info("b").nbytes, 4]
    assert catalog["created"].dt.tz is not None


def test_the_catalog_of_nothing_has_the_same_columns_and_types():
    memory = WorkingMemory()
    empty = memory.catalog()
    memory.put("a", pd.DataFrame({"x": [1, 2]}))
    full = memory.catalog()
    assert list(empty.columns) == COLUMNS
    assert list(empty.dtypes) == list(full.dtypes)
    assert full[["rows", "columns"]].to_numpy().tolist() == [[2, 1]]


def test_the_html_is_escaped():
    memory = WorkingMemory()
    memory.put("<script>alert(1)</script>", 1, node="<b>", tool="a&b")
    page = memory._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>" not in page
    assert "a&amp;b" in page


def test_the_html_shows_fifty_rows_and_says_how_many_more():
    memory = WorkingMemory()
    for number in range(1_060):
        memory.put(f"key.{number}", number)
    page = memory._repr_html_()
    assert page.count("<tr>") == 51
    assert "key.49" in page
    assert "key.50" not in page
    assert "and 1,010 more" in page


def test_the_html_holds_no_payload():
    memory = WorkingMemory()
    memory.put("k", {"canary": "XYZZY"})
    memory.put("t", "XYZZY")
    assert "XYZZY" not in memory._repr_html_() + repr(memory) + repr(memory.search(""))
