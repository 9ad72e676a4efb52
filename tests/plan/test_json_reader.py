import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.document import Limits, Mark, read_document


def only(text, **limits):
    document = read_document(text, Limits(**limits))
    assert len(document.problems) == 1, document.problems
    return document.problems[0]


def test_numbers_follow_json():
    value = read_document('{"a": 1e3, "b": 1.10, "c": -0, "d": 1E-2}').value

    assert value == {"a": 1000.0, "b": 1.1, "c": 0, "d": 0.01}
    assert isinstance(value["a"], float)


def test_places_are_those_of_the_text():
    text = '{\n  "nodes": [\n    {"id": "a\\u00e9", "n": [1, {"x": true}]}\n  ]\n}\n'
    document = read_document(text)

    assert document.mark(("nodes", 0)) == Mark(3, 5)
    assert document.key_mark(("nodes", 0, "n")) == Mark(3, 23)
    assert document.mark(("nodes", 0, "n", 1, "x")) == Mark(3, 38)


def test_what_leaves_json_is_read_as_yaml():
    assert read_document("{a: 1, 'b': [x, 1e3,],}").value == {"a": 1, "b": ["x", "1e3"]}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('{"a": 1', 1, 8, "ends too early"),
        ('{"a" 1}', 1, 6, "a colon must stand here"),
        ('{"a": [1\n "b"]}', 2, 2, "a comma or the end"),
        ('{"a": 1} x', 1, 10, "more text follows"),
        ('{"a": "b', 1, 7, "does not end"),
        ('{"a": "b\\q"}', 1, 9, "escape"),
        ('{"a": 1,}', 1, 9, "a key in double quotes"),
        ('{"a": b}', 1, 7, "a value must stand here"),
    ],
)
def test_an_error_is_that_of_json_where_the_text_looks_like_it(text, line, column, words):
    problem = only(text)

    assert (problem.code, problem.line, problem.column) == ("yaml_syntax", line, column)
    assert words in problem.message


def test_numbers_that_json_lacks_are_told_and_the_rest_is_read():
    document = read_document('{"a": NaN, "b": [-Infinity, 1]}')

    assert document.value == {"a": None, "b": [None, 1]}
    assert [p.message.split()[0] for p in document.problems] == ["NaN", "-Infinity"]


def test_a_number_that_would_become_infinity_is_told_at_its_place_and_the_rest_is_read():
    document = read_document('{"a": 1e308,\n "b": [-1e999, 2], "c": 1e' + "9" * 400 + "}")

    assert document.value == {"a": 1e308, "b": [None, 2], "c": None}
    told = [(p.code, p.line, p.column) for p in document.problems]
    assert told == [("invalid_number", 2, 8), ("invalid_number", 2, 25)]
    assert document.problems[0].message == "-1e999 is too large for a number"
    assert len(document.problems[1].message) < 100


def test_the_same_number_in_yaml_stays_what_was_written():
    assert read_document("a: 1e999\nb: -1e400\n").value == {"a": "1e999", "b": "-1e400"}


def test_a_number_of_too_many_digits_is_refused():
    assert "too many digits" in only('{"a": ' + "9" * 5000 + "}").message


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_it_reads_what_json_writes(value):
    text = json.dumps({"v": value})

    document = read_document(text)

    assert document.value == json.loads(text)
    assert document.problems == []
