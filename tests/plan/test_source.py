"""Places in a text: the same whether they are counted for a few, or looked up for many."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.source import Source

BREAK = re.compile(r"\r\n|\n|\r")
TEXTS = st.text(st.sampled_from("ab\n\r\x0b\u2028"), max_size=40)


def place(text, offset):
    starts = [0, *(match.end() for match in BREAK.finditer(text))]
    line = sum(start <= offset for start in starts)
    return line, offset - starts[line - 1] + 1


@given(TEXTS, st.data())
def test_a_place_is_the_same_counted_and_looked_up(text, data):
    offset = data.draw(st.integers(0, len(text)))
    counted, indexed = Source(text), Source(text)
    for _ in range(50):
        indexed.mark(0)
    assert "_starts" in indexed.__dict__
    assert counted.mark(offset) == indexed.mark(offset) == place(text, offset)


@given(TEXTS, st.data())
def test_the_line_at_an_offset_is_without_its_end(text, data):
    offset = data.draw(st.integers(0, len(text)))
    starts = [0, *(match.end() for match in BREAK.finditer(text)), len(text)]
    line, _ = place(text, offset)
    start, shown = Source(text).line_at(offset)
    assert start == starts[line - 1]
    assert shown == text[starts[line - 1] : max(starts[line], starts[line - 1])].rstrip("\r\n")
