from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.render.lettering import clean, shorten, shorten_end, text_width


@given(st.text(st.characters()))
def test_clean_text_can_stand_in_any_xml(text):
    cleaned = clean(text)
    root = ET.Element("a")
    root.text = cleaned
    assert (ET.fromstring(ET.tostring(root, encoding="utf-8")).text or "") == cleaned
    assert "\n" not in cleaned


def test_what_is_no_text_or_turns_the_line_round_is_replaced():
    assert clean("a\0b\ud800c\u202ed\x1be") == "a�b�c�d�e"
    assert clean(" a\n\tb\u00a0c ") == "a b c"


@given(st.text(max_size=60), st.integers(20, 200))
def test_a_shortened_text_fits(text, width):
    for short in (shorten(text, width, 10), shorten_end(text, width, 10)):
        assert text_width(short, 10) <= width
        assert short == clean(text) or "…" in short


def test_a_name_keeps_its_end_and_a_sentence_its_start():
    assert shorten("score_2026_final_report_of_everything_6", 100, 8) == "score_2026_fin…rything_6"
    assert shorten_end("the tool said that it would not", 60, 8) == "the tool said t…"


@pytest.mark.parametrize(("wide", "narrow"), [("mmm", "iii"), ("日本", "ab"), ("AB", "ab")])
def test_wide_letters_are_wide(wide, narrow):
    assert text_width(wide, 10) > text_width(narrow, 10)
    assert text_width(wide, 10, bold=True) > text_width(wide, 10)
