import json
import math

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planbench.plan.document import format_json, format_yaml, read_document

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
LINES = st.lists(st.text(alphabet="ab:#-{}[] \t'\"|>~\\é", max_size=6), max_size=5).map("\n".join)
VALUES = st.recursive(
    SCALARS | LINES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | LINES, inner, max_size=4)
    ),
    max_leaves=20,
)


def same(a, b):
    """Equal, and of equal types all the way down: 1, 1.0 and true are three values."""
    return repr(a) == repr(b)


def read(text):
    document = read_document(text)
    assert document.problems == []
    return document.value


@settings(max_examples=600)
@given(VALUES)
@example({"": ""})
@example([[], [[]], {}, {"a": {}}])
@example("a\n")
@example({"k": "\n"})
@example({"k": " a\nb"})
@example({"k": "a\n\n"})
@example({"k": "a\n \nb"})
@example({"x" * 2000: [1]})
@example({"k\nk": {"a": [{"b": "c\nd"}]}})
@example({"k": "\0\x07\x85\u2028\ufeff\uffff\U0001f600"})
@example([{"a": 1, "b": [[1, [2]], {"c": None}]}])
@example({"a": -0.0, "b": 1e300, "c": float("inf"), "d": -float("inf"), "e": 2**200})
def test_what_is_written_as_yaml_reads_back_equal(value):
    assert same(read(format_yaml(value)), value)


@settings(max_examples=300)
@given(VALUES)
def test_what_is_written_as_json_reads_back_equal(value):
    text = format_json(value)

    assert same(read(text) if isinstance(value, dict | list) else json.loads(text), value)
    assert same(json.loads(text), value)


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "yes",
        "on",
        "off",
        "y",
        "N",
        "True",
        "null",
        "~",
        "0123",
        "1e3",
        "1.10",
        "12:30",
        "2024-01-01",
        ".nan",
        "-",
        "?",
        ":",
        "a:",
        "a:b",
        "#a",
        "a#b",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "{item}",
        "a{item}",
        "[a",
        "a]",
        "{}",
        "[]",
        "|",
        ">",
        "'a",
        '"a',
        "1",
        "1.5",
        "true",
        "-1",
        "=",
        "<<",
        "---",
        "...",
        "a,b",
        "{{artifacts.x}}",
        "é",
        "日本",
        ".inf",
        "",
        " ",
        " a",
        "a ",
        "a: b",
        "a #b",
        "a\tb",
        "- a",
        "? a",
        "it's",
        'say "x"',
        "both ' and \"",
    ],
)
def test_a_text_that_looks_like_something_else_stays_text(text):
    assert read(format_yaml({"k": text, text: [text]})) == {"k": text, text: [text]}


def test_other_readers_of_yaml_find_the_same_texts():
    words = {
        w: w
        for w in [
            "no",
            "yes",
            "on",
            "off",
            "0123",
            "1e3",
            "12:30",
            "2024-01-01",
            "null",
            "~",
            ".nan",
            "0x1f",
            "1_000",
            "0o7",
        ]
    }

    assert yaml.safe_load(format_yaml(words)) == words


def test_it_reads_like_a_plan_written_by_hand():
    text = format_yaml(
        {
            "name": "sweep",
            "nodes": [
                {
                    "id": "fetch",
                    "args": {
                        "key": "{item.path}",
                        "note": "first line\nsecond: line",
                        "n": 3,
                        "e": {},
                    },
                    "depends_on": ["listing"],
                    "when": 'ctx.status.listing == "ok"',
                    "facets": {"counts": {"n": "findings[]"}},
                }
            ],
        }
    )

    assert (
        text
        == """name: sweep
nodes:
  - id: fetch
    args:
      key: "{item.path}"
      note: |-
        first line
        second: line
      n: 3
      e: {}
    depends_on:
      - listing
    when: ctx.status.listing == "ok"
    facets:
      counts:
        n: findings[]
"""
    )


@pytest.mark.parametrize("write", [format_yaml, format_json])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1: "x"}, "a key must be text"),
        ({"a": object()}, "object is none"),
        ({"a": {1, 2}}, "set is none"),
        ({"a": "\ud83d"}, "lone surrogate"),
        ({"\ud83d": 1}, "lone surrogate"),
    ],
)
def test_what_no_text_can_hold_is_an_error(write, value, words):
    with pytest.raises(ValueError, match=words):
        write(value)


@pytest.mark.parametrize("write", [format_yaml, format_json])
def test_depth_is_bounded_before_python_s_own_limit(write):
    deep = []
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(ValueError, match="nested deeper"):
        write(deep)


def test_nan_and_infinity_have_a_form_in_yaml_and_none_in_json():
    assert math.isnan(read(format_yaml({"a": math.nan}))["a"])
    assert read(format_yaml({"a": -math.inf})) == {"a": -math.inf}
    with pytest.raises(ValueError, match="NaN"):
        format_json({"a": math.nan})
    with pytest.raises(ValueError, match="infinity"):
        format_json({"a": [math.inf]})
