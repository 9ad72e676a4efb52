"""Arguments of calls: what a journal can hold and give back the same, or an error for the model."""

import json

import pytest

from planbench.llm.arguments import MAX_DEPTH, fault_of, read_arguments, read_json, sound
from planbench.llm.fake import text, together, tool_call

DEEP = json.loads("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"a": {"b": 1, "b": 1}}', "'b' is given twice"),
        ('{"a": 1e999}', "1e999 is no number"),
        ('{"a": [-Infinity]}', "-Infinity is no number"),
        ({"a": [{"b": float("nan")}]}, "nan is no number"),
        ('{"a": {"\\ud800": 1}}', "is no text"),
        ({"a": DEEP}, "nested deeper"),
        (json.dumps({"a": DEEP}), "nested deeper"),
        ('{"a": ' + "[" * 100_000, "nested deeper"),
        ('{"a": ' + "9" * 5_000 + "}", "no JSON"),
    ],
)
def test_arguments_that_mean_two_things_or_none_are_an_error_and_empty(written, fault):
    arguments, error = read_arguments(written)

    assert arguments == {}
    assert fault in error
    assert len(error) < 300


@pytest.mark.parametrize(
    "value", ["half \ud800", 2**70, 1e300, -0.0, [[]], {"": None}, "a\x00b", "{artifacts.x}", "{}"]
)
def test_what_json_can_say_is_taken_as_it_is(value):
    assert read_arguments(json.dumps({"a": value})) == ({"a": value}, None)
    assert fault_of({"a": value}) is None


def test_json_in_json_text_is_no_deeper_than_a_text():
    assert read_json('"' + "[" * 1_000 + '"') == "[" * 1_000


def test_only_the_calls_at_fault_of_a_reply_are_changed():
    good, bad = tool_call("f", a=1), tool_call("g", a=float("inf"))
    reply = sound(together(good, bad))

    assert reply.tool_calls[0] == good.tool_calls[0]
    assert reply.tool_calls[1].arguments == {}
    assert "inf is no number" in reply.tool_calls[1].error
    assert reply.tool_calls[1].id == bad.tool_calls[0].id
    assert sound(good) is good
    assert sound(text("x")).content == "x"
