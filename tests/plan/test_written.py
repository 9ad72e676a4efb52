from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.document import format_json, format_yaml
from planbench.plan.written import Written

TEXT = """\
# head
nodes: # of the plan
  - id: a#b # tail
    url: "http://x/#y"
    text: | # header
      # no comment
      two\x20\x20

    # own line
    flow: {a: 1, # inside
      b: '# no'}
    shared: &x [1, 2]
    again: *x
    <<: {m: 1, id: no}
    empty:
    last: plain
      text
"""


def node(text=TEXT):
    written = Written(text)
    return written, written.at(("nodes", 0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", "a#b"),
        ("url", '"http://x/#y"'),
        ("text", "| # header\n      # no comment\n      two  "),
        ("flow", "{a: 1, # inside\n      b: '# no'}"),
        ("shared", "&x [1, 2]"),
        ("again", "*x"),
        ("empty", ""),
        ("last", "plain\n      text"),
    ],
)
def test_a_value_is_known_from_its_first_to_its_last_character(name, value):
    _, piece = node()
    found = piece.own(name).value

    assert TEXT[found.start : found.end] == value


def test_comments_are_those_that_stand_outside_of_texts():
    found = Written(TEXT).comments()

    assert [(TEXT[one.start : one.end], one.own_line) for one in found] == [
        ("# head", True),
        ("# of the plan", False),
        ("# tail", False),
        ("# header", False),
        ("# own line", True),
        ("# inside", False),
    ]


def test_what_an_alias_or_a_merge_brings_is_found_and_is_not_own():
    written, piece = node()

    assert [item.text for item in written.at(("nodes", 0, "again")).items] == ["1", "2"]
    assert written.at(("nodes", 0, "m")).text == "1"
    assert written.at(("nodes", 0, "id")).text == "a#b"
    assert piece.own("m") is None
    assert written.at(("nodes", 0, "nobody")) is None
    assert written.at(("nodes", 7)) is None


def test_a_plan_that_is_wrapped_is_read_from_its_own_map():
    assert Written("plan:\n  nodes: [{id: a}]\n").at(("nodes", 0, "id")).text == "a"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("a: |+\n  x\n\n\nb: 1\n", "|+\n  x\n\n"),
        ("a: >-\n  x\n\nb: 1\n", ">-\n  x"),
        ("a: |\n  x", "|\n  x"),
    ],
)
def test_the_blank_lines_behind_a_block_belong_to_it_only_where_they_are_kept(text, end):
    piece = Written(text).at(("a",))

    assert text[piece.start : piece.end] == end


def test_json_is_read_as_json_also_where_yaml_could_not():
    text = '{"a":\t"x\\u0041\\"",\n\t"b": [1, {"c": null}], "d": "é\x7f"}'
    written = Written(text)

    assert written.is_json
    assert written.at(("a",)).text == 'xA"'
    assert text[written.at(("b",)).start : written.at(("b",)).end] == '[1, {"c": null}]'
    assert written.comments() == []


def follow(written, piece, value):
    """Compare the pieces of a text with what was written there."""
    if isinstance(value, dict):
        assert [entry.key.text for entry in piece.entries] == list(value)
        for entry, inner in zip(piece.entries, value.values(), strict=True):
            follow(written, entry.value, inner)
    elif isinstance(value, list):
        for item, inner in zip(piece.items, value, strict=True):
            follow(written, item, inner)
    elif isinstance(value, str):
        assert piece.text == value
    assert piece.start <= piece.end <= len(written.text)


@given(data=st.data())
def test_the_pieces_of_any_plan_are_its_values_in_their_order(plans, data):
    record = data.draw(plans).to_dict(compact=True)
    for text in (format_yaml(record), format_json(record)):
        written = Written(text)
        follow(written, written.root, record)
