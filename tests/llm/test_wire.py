import json

import pytest

from planbench.llm.client import Message, ModelRequest, ToolSpec
from planbench.llm.wire import Manner, Pieces, body_of, reply_of, usage_of


def completion(**message):
    return {"choices": [{"message": message}]}


@pytest.mark.parametrize(
    ("written", "arguments", "fault"),
    [
        ('{"a": {"b": [1]}}', {"a": {"b": [1]}}, None),
        ("", {}, None),
        (None, {}, None),
        ({"a": 1}, {"a": 1}, None),
        ('{"a": ', {}, "no JSON"),
        ('{"a": NaN}', {}, "NaN"),
        ("[1]", {}, "list"),
        ("7", {}, "int"),
        ("[" * 100_000, {}, "no JSON"),
    ],
)
def test_arguments_that_are_no_object_are_told_and_never_guessed(written, arguments, fault):
    call = {"id": "c", "function": {"name": "f", "arguments": written}}
    [read] = reply_of(completion(tool_calls=[call])).tool_calls

    assert read.arguments == arguments
    assert (read.error is None) == (fault is None)
    assert fault is None or fault in read.error


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        completion(content=None),
        completion(content=5, tool_calls="x", refusal=[]),
    ],
)
def test_what_is_missing_or_odd_is_an_empty_answer(data):
    reply = reply_of(data)

    assert (reply.content, reply.tool_calls, reply.refusal) == ("", (), None)
    assert reply.usage.reported is False


def test_a_text_in_parts_is_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]

    assert reply_of(completion(content=parts)).content == "ab"


@pytest.mark.parametrize(
    ("data", "tokens", "cost"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}, (3, 4), 0.5),
        ({"prompt_tokens": 3, "cost": {"total_cost": 2}}, (3, 0), 2.0),
        ({"prompt_tokens": -3, "completion_tokens": True, "cost": -1}, (0, 0), None),
        ({"prompt_tokens": "3", "cost": float("nan")}, (0, 0), None),
        ({"cost": True}, (0, 0), None),
        ({"cost": 0}, (0, 0), 0.0),
    ],
)
def test_usage_takes_numbers_that_can_be_and_no_others(data, tokens, cost):
    usage = usage_of(data)

    assert (usage.input_tokens, usage.output_tokens) == tokens
    assert usage.cost == cost
    assert usage.reported


def test_calls_that_come_without_an_index_or_an_id_are_kept_apart():
    pieces = Pieces()
    pieces.add({"choices": [{"delta": {"tool_calls": [{"function": {"name": "f"}}]}}]})
    pieces.add(
        {
            "choices": [
                {
                    "delta": {"tool_calls": [{"function": {"arguments": "{}"}}]},
                    "finish_reason": "tool_calls",
                }
            ]
        }
    )
    calls = [{"function": {"name": "f"}}, {"function": {"name": "g"}}]
    read = reply_of(completion(tool_calls=calls)).tool_calls

    assert [(one.id, one.name) for one in pieces.reply().tool_calls] == [("call_0", "f")]
    assert [(one.id, one.name) for one in read] == [("call_0", "f"), ("call_1", "g")]


@pytest.mark.parametrize("place", [{"index": 0}, {}])
def test_streamed_calls_that_share_a_place_are_told_apart_by_their_ids(place):
    pieces = Pieces()
    for call in (
        {"id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"id": "a", "function": {"arguments": "1}"}},
        {"id": "b", "function": {"name": "g", "arguments": '{"y"'}},
        {"function": {"arguments": ": 2}"}},
    ):
        pieces.add({"choices": [{"delta": {"tool_calls": [{**place, **call}]}}]})

    read = [(call.id, call.name, call.arguments) for call in pieces.reply().tool_calls]
    assert read == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


@pytest.mark.parametrize(
    ("written", "arguments", "fault"),
    [({"x": 1}, {"x": 1}, None), ([1], {}, "list"), (5, {}, "int"), (None, {}, None)],
)
def test_streamed_arguments_that_are_no_text_are_read_or_told(written, arguments, fault):
    pieces = Pieces()
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": written}}
    pieces.add({"choices": [{"delta": {"tool_calls": [call]}}]})

    [read] = pieces.reply().tool_calls
    assert read.arguments == arguments
    assert (read.error is None) == (fault is None)
    assert fault is None or fault in read.error


def test_a_stream_without_an_end_is_not_finished():
    pieces = Pieces()
    pieces.add({"choices": [{"delta": {"content": "half"}}]})

    assert not pieces.is_finished


def test_two_calls_of_one_answer_have_two_ids():
    calls = [{"id": name, "function": {"name": "f"}} for name in ("a", "a", "a_2", "a")]
    read = reply_of(completion(tool_calls=calls)).tool_calls

    assert [one.id for one in read] == ["a", "a_2", "a_2_2", "a_3"]


def test_a_sign_that_comes_in_two_pieces_is_one_sign():
    pieces = Pieces()
    for half in ("x \ud83d", "\ude00 y"):
        pieces.add({"choices": [{"delta": {"content": half}, "finish_reason": "stop"}]})

    assert pieces.reply().content == "x \U0001f600 y"


def test_what_is_sent_is_text_whatever_a_tool_gave():
    half = "name-\udcff.txt"
    request = ModelRequest(
        [Message(role="tool", content=half, tool_call_id="a", name="f")],
        tools=[ToolSpec("f", half, {"type": "object", "description": half})],
    )
    body = body_of(request, "m", Manner(), {})

    assert json.dumps(body, ensure_ascii=False).encode().count(b"name-?.txt") == 3
