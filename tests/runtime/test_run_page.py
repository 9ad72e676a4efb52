"""A run as a page: all that happened, read offline, and no text of others as HTML."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from planbench import open_run
from planbench.errors import ConfigurationError, RenderError, StoreError
from planbench.runtime import run_page

NASTY = '</style></script><script>alert(1)</script><img src=x onerror="alert(2)">'
VOID = {"meta"}


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.open = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += data

    def all(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


@pytest.fixture
def mixed(lab):
    frame = pd.DataFrame({"number": range(700), "text": [f"row {at}" for at in range(700)]})

    @lab.tool
    def table() -> object:
        print("printed words")
        return frame

    return lab.run(
        lab.node("table", "table", facets={"counts": {"rows": "[]"}}, description="what it is for"),
        lab.node("late", "give", {}, "table", when="ctx.artifacts.table.count > 5000"),
        *lab.items([1, -1, 2], "picky"),
        lab.node("sum", "boom", {"value": "{artifacts.fan}"}, "fan"),
        lab.node("behind", "give", {}, "sum"),
    )


def test_the_page_tells_graph_nodes_timeline_details_and_facts(mixed, tmp_path):
    path = mixed.to_html(tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    read = Reader(text)
    for words in (
        mixed.run_id, "partial", "to prove a rule", "printed words", "what it is for",
        "ValueError: boom", "[1] ValueError: -1 is negative", "blocked", "rows", "row 19",
        "3 of 3 items, 1 failed", "ctx.artifacts.table.count > 5000", "{artifacts.fan}",
    ):  # fmt: skip
        assert words in read.text, words
    assert {"Graph", "Nodes", "Timeline", "Details"} <= set(re.findall(r"<h2>([^<]*)", text))
    assert read.all("svg")
    ids = {one["id"] for one in read.all("details") if "id" in one}
    assert {one["href"][1:] for one in read.all("a")} == ids


def test_nothing_is_loaded_and_no_script_but_its_own_can_run(mixed, tmp_path):
    text = mixed.to_html(tmp_path / "run.html").read_text()
    read = Reader(text)
    policy = next(one["content"] for one in read.all("meta") if one.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy
    assert len(read.all("script")) == 1
    for _, attributes in read.elements:
        assert not {"src", "srcset", "action", "data", "poster"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


@pytest.mark.parametrize("data", ["none", "preview", "full"])
def test_no_text_of_a_plan_or_tool_becomes_html(lab, tmp_path, data):
    @lab.tool
    def nasty() -> list:
        print(NASTY)
        return [{NASTY: NASTY}]

    @lab.tool
    def fails() -> int:
        raise ValueError(NASTY)

    run = lab.run(
        lab.node("a", "nasty", description=NASTY, facets={"paths": {"x": "[]"}}),
        lab.node("b", "fails"),
        lab.node("c", "give", {"value": NASTY}),
    )
    read = Reader(run.to_html(tmp_path / "x.html", data=data).read_text())
    assert len(read.all("script")) == 1
    assert not read.all("img")
    assert NASTY in read.text


def test_the_results_are_shown_as_much_as_was_asked_for(mixed, tmp_path):
    none = Reader(mixed.to_html(tmp_path / "1.html", data="none").read_text()).text
    preview = Reader(mixed.to_html(tmp_path / "2.html").read_text()).text
    full = Reader(mixed.to_html(tmp_path / "3.html", data="full").read_text()).text
    assert "row 0" not in none
    assert "row 19" in preview
    assert "row 20" not in preview
    assert "the first 20 of 700 rows" in preview
    assert all(f"row {at}" in full for at in range(700))
    assert "700 rows" in full


def test_a_page_with_all_data_is_cut_at_a_size_and_says_so(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr(run_page, "FULL_CHARACTERS", 3_000)
    text = Reader(mixed.to_html(tmp_path / "x.html", data="full").read_text()).text
    assert "Not all results are shown" in text
    assert "(table" in text
    assert "of 700 rows" in text
    assert "row 699" not in text


def test_the_items_of_a_fan_out_that_are_tables_stand_below_each_other(lab, tmp_path):
    @lab.tool
    def rows(value: int) -> object:
        return pd.DataFrame({"x": [value, value]})

    run = lab.run(*lab.items([11, 22], "rows"))
    text = Reader(run.to_html(tmp_path / "x.html", data="full").read_text()).text
    assert "4 rows" in text
    assert text.count("22") >= 2


@pytest.mark.parametrize("data", ["all", None, 1])
def test_a_choice_of_data_that_is_none_is_refused(mixed, tmp_path, data):
    with pytest.raises(ConfigurationError, match="data is"):
        mixed.to_html(tmp_path / "x.html", data=data)


def test_a_folder_that_is_not_there_is_said(mixed, tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        mixed.to_html(tmp_path / "no" / "x.html")


def test_where_no_picture_can_be_made_the_graph_stands_in_words(mixed, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RenderError("no engine")

    monkeypatch.setattr(run_page, "draw", fail)
    read = Reader(mixed.to_html(tmp_path / "x.html").read_text())
    assert not read.all("svg")
    assert "after src" in read.text


def test_a_large_plan_shows_what_is_red_and_counts_the_rest(lab, tmp_path):
    nodes = [lab.node(f"n{at}", "give", {"value": at}) for at in range(400)]
    run = lab.run(*nodes, lab.node("red", "boom"))
    text = Reader(run.to_html(tmp_path / "x.html", data="none").read_text()).text
    assert "and 101 more nodes" in text
    assert "ValueError: boom" in text


def test_a_saved_run_has_the_page_of_the_run_and_says_what_is_not_in_the_file(mixed, tmp_path):
    saved = open_run(mixed.save(tmp_path / "x.planrun", artifacts=1_000))
    text = Reader(run_page.run_page(saved.run, "preview", saved.notes())).text
    assert "left out: table" in text
    assert "is not in the file: over the limit" in text
    assert "printed words" in text
    assert "ValueError: boom" in text


def test_a_live_run_has_a_page(lab, tmp_path):
    async def main():
        gate = asyncio.Event()

        @lab.tool
        async def hold() -> int:
            await gate.wait()
            return 1

        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "hold")))
            await lab.until(lambda: run.state.nodes["a"].status == "running")
            text = run.to_html(tmp_path / "x.html").read_text()
            gate.set()
            await run
        return text

    assert "running" in Reader(asyncio.run(main())).text


def test_a_continued_run_tells_its_lineage(lab, tmp_path):
    broken = ["b"]

    @lab.tool
    async def shaky(value=None):
        if value in broken:
            raise ValueError("broken")
        return value

    async def main():
        plan = lab.plan(
            lab.node("a", "shaky", {"value": "a"}), lab.node("b", "shaky", {"value": "b"})
        )
        async with lab.engine() as engine:
            run = await engine.start(plan)
            await run
            saved = open_run(run.save(tmp_path / "x.planrun"))
            broken.clear()
            again = await engine.continue_from(saved.history, saved)
            await again
        return run, again

    run, again = asyncio.run(main())
    text = Reader(again.to_html(tmp_path / "x.html").read_text()).text
    assert "Lineage" in text
    assert f"continues{run.run_id}" in text
    assert "taken over" in text
