from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.render.timeline import Lane, timeline

NASTY = '"><script>alert(1)</script>'


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def of(self, name):
        return [one for _, one in self.elements if name in (one.get("class") or "").split()]


def places(style):
    return [float(number) for number in re.findall(r"(-?[\d.]+)%", style)]


def test_a_bar_stands_where_its_node_was_at_work():
    read = Reader(timeline([Lane(0, "a", "ok", 0, 5), Lane(1, "b", "error", 5, 10)], 10))
    assert [places(bar["style"]) for bar in read.of("bar")] == [[0, 50], [50, 50]]
    assert [bar["class"] for bar in read.of("bar")] == ["bar ok", "bar error"]
    assert [name["href"] for name in read.of("who") if "href" in name] == ["#d0", "#d1"]


def test_a_node_that_was_never_at_work_has_words_and_no_bar():
    read = Reader(
        timeline(
            [Lane(0, "a", "skipped", None, None), Lane(1, "b", "ok", None, None, "taken over")], 1
        )
    )
    assert read.of("bar") == []
    assert "skipped" in read.text
    assert "taken over" in read.text


def test_the_shortest_call_can_be_seen():
    (bar,) = Reader(timeline([Lane(0, "a", "ok", 1000, 1000)], 1000)).of("bar")
    left, width = places(bar["style"])
    assert width >= 0.25
    assert left + width <= 100.01


def test_the_scale_has_round_steps():
    text = Reader(timeline([Lane(0, "a", "ok", 0, 1)], 47)).text
    assert "010.0 s20.0 s30.0 s40.0 s" in text
    assert "1 h 00 min" in Reader(timeline([Lane(0, "a", "ok", 0, 1)], 16_000)).text


def test_no_text_of_others_becomes_html_or_style():
    html = timeline(
        [Lane(0, NASTY, NASTY, 0, 1, NASTY), Lane(1, NASTY, NASTY, None, None, NASTY)], 1
    )
    read = Reader(html)
    assert {tag for tag, _ in read.elements} == {"div", "span", "a"}
    assert all(re.fullmatch(r"[\d.%a-z:;-]*", one.get("style") or "") for _, one in read.elements)
    assert all(
        set(one) <= {"class", "style", "href", "title", "role", "aria-hidden"}
        for _, one in read.elements
    )


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=5),
    st.floats(0, 1e9),
)
def test_every_bar_and_mark_lies_within_the_width(times, seconds):
    lanes = [Lane(at, "n", "ok", start, start + took) for at, (start, took) in enumerate(times)]
    read = Reader(timeline(lanes, seconds))
    for bar in read.of("bar"):
        left, width = places(bar["style"])
        assert left >= 0
        assert left + width <= 100.02
    marks = [
        one for tag, one in read.elements if tag == "span" and "style" in one and "class" not in one
    ]
    assert 1 <= len(marks) <= 11
    assert all(0 <= places(mark["style"])[0] < 100 for mark in marks)


@pytest.mark.parametrize("seconds", [0.0, 1e-9])
def test_a_run_that_took_no_time_has_a_timeline(seconds):
    assert Reader(timeline([Lane(0, "a", "ok", 0, 0)], seconds)).of("bar")
