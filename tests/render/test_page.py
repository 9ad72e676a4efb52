from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from planbench.render.page import MAX_ROWS, PageData, PageNode, PageTable, page
from planbench.render.view import NodeView

NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def node(node_id="fetch", **changes):
    fields = {
        "id": node_id,
        "title": node_id,
        "kind": "tool",
        "status": "ok",
        "done": None,
        "total": None,
        "seconds": None,
        "nbytes": None,
        "note": None,
        "reused": 0,
    }
    return NodeView(**{**fields, **changes})


class Reader(HTMLParser):
    """Collects what a browser would see: the elements, their attributes and the text."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_page_says_title_status_objective_and_facts():
    text = page(
        PageData(
            "sweep",
            "completed",
            [PageNode(0, node())],
            objective="What is new?",
            facts=[("took", "2 s")],
        )
    )

    seen = Reader(text).text
    for said in ("sweep", "completed", "What is new?", "took", "2 s", "fetch"):
        assert said in seen


def test_the_page_refers_to_nothing_outside_itself():
    data = PageData(
        "sweep",
        "completed",
        [PageNode(0, node(), tool="fetch", description="see https://example.org", keys=["a"])],
        svg='<svg xmlns="http://www.w3.org/2000/svg"><g data-node="n0"></g></svg>',
    )
    read = Reader(page(data))

    for tag, attributes in read.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "img", "form"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    style = page(data).partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_the_one_script_of_the_page_and_no_other():
    text = page(PageData("sweep", "ok", [PageNode(0, node())]))
    [policy] = re.findall(r"script-src &#x27;(sha256-[^&]+)&#x27;", text)

    assert text.count("<script") == 1
    assert "default-src &#x27;none&#x27;" in text
    assert policy.startswith("sha256-")


def test_no_text_of_a_user_becomes_markup():
    table = PageTable(NASTY, [NASTY], [[NASTY]], note=NASTY)
    nasty = PageNode(
        0,
        node(NASTY, status=NASTY, note=NASTY),
        tool=NASTY,
        description=NASTY,
        written=NASTY,
        facts=[(NASTY, NASTY)],
        facets={NASTY: {NASTY: NASTY}},
        problems=[NASTY],
        output=NASTY,
        keys=[NASTY],
        table=table,
    )
    data = PageData(
        NASTY, NASTY, [nasty], objective=NASTY, facts=[(NASTY, NASTY)], text=NASTY, tables=[table]
    )

    read = Reader(page(data))

    assert len(read.all("script")) == 1
    assert not read.all("img")
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)


@pytest.mark.parametrize("odd", ["\x00", "\ud83d", "\x1b[31m", "\uffff"])
def test_characters_that_no_page_can_hold_are_replaced(odd):
    text = page(PageData(f"a{odd}b", "ok", [PageNode(0, node())]))

    assert text.encode("utf-8")
    assert "\N{REPLACEMENT CHARACTER}" in text
    assert odd[0] not in text


def test_a_long_table_is_cut_and_says_so():
    rows = [[number] for number in range(MAX_ROWS + 7)]
    text = page(PageData("p", "ok", [PageNode(0, node())], tables=[PageTable("all", ["n"], rows)]))

    assert f"the first {MAX_ROWS:,} of {MAX_ROWS + 7:,} rows" in text
    assert f">{MAX_ROWS - 1}<" in text
    assert f">{MAX_ROWS}<" not in text


def test_a_table_that_was_cut_before_says_how_long_it_was():
    text = page(
        PageData("p", "ok", [], tables=[PageTable("t", ["n"], [["1"], ["2"]], n_rows=2_000)])
    )

    assert "the first 2 of 2,000 rows" in text


def test_columns_of_numbers_stand_to_the_right():
    table = PageTable("t", ["name", "n"], [["a", "1"], ["b", "2.5"], ["c", ""]])
    cells = Reader(page(PageData("p", "ok", [], tables=[table]))).all("td")

    assert [cell.get("class") for cell in cells] == [None, "number"] * 3


def test_a_fan_out_says_how_many_items_are_done():
    view = node(kind="fan_out", done=8, total=9, failed=1, reused=2, seconds=0.25, nbytes=12_300)
    text = page(PageData("p", "ok", [PageNode(0, view)]))

    for said in ("8 of 9, 1 failed, 2 reused", "250 ms", "12.3 kB"):
        assert said in text


def test_a_click_on_a_node_and_the_link_of_its_row_find_its_details():
    data = PageData("p", "ok", [PageNode(0, node("a")), PageNode(1, node("b"))])
    read = Reader(page(data))

    assert [link["href"] for link in read.all("a")] == ["#d0", "#d1"]
    assert [one["id"] for one in read.all("details") if "id" in one] == ["d0", "d1"]


def test_without_a_drawing_the_graph_stands_there_as_text():
    text = page(PageData("p", "ok", [PageNode(0, node())], svg=None, text="a -> b"))

    assert "<svg" not in text
    assert "a -&gt; b" in text


def test_details_of_a_session_become_a_node_of_the_page():
    details = {
        "tool": "fetch_report",
        "description": "one report",
        "args_text": "key: '{item.path}'\n",
        "when": "ctx.errors == 0",
        "depends_on": ["listing"],
        "status": "partial",
        "reason": None,
        "facets": {"n": 3},
        "errors": ["[1] boom"],
        "warnings": ["slow"],
        "output": "hello",
        "keys": ["fetch.0"],
        "issues": [{"code": "bad_path", "message": "no such column"}],
        "table": {"columns": ["a"], "rows": [["1"]], "n_rows": 40},
    }

    made = PageNode.from_details(0, node(), details)

    assert made.problems == ["[1] boom", "slow", "no such column [bad_path]"]
    assert ("waits for", "listing") in made.facts
    assert made.table.n_rows == 40
    seen = Reader(page(PageData("p", "partial", [made]))).text
    for said in ("{item.path}", "ctx.errors == 0", "hello", "fetch.0", "the first 1 of 40 rows"):
        assert said in seen


def test_nodes_that_are_left_out_are_counted():
    text = page(PageData("p", "ok", [PageNode(7, node())], left_out=4_700))

    assert "and 4,700 more nodes" in text
    assert 'href="#d7"' in text


def test_cells_wrap_so_that_no_column_is_cut():
    style = page(PageData("p", "ok", [])).partition("<style>")[2].partition("</style>")[0]

    assert "td:not(.number) { min-width: 9ch; overflow-wrap: anywhere; }" in style
