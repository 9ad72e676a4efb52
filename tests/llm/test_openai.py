import asyncio
import os
import threading
import time
import traceback

import pytest

from planbench.errors import ConfigurationError, ModelError
from planbench.llm import Message, ModelRequest, OpenAIClient, ReplySchema, ToolCall, ToolSpec
from planbench.llm.fake import text, together, tool_call
from planbench.llm.server import ScriptedServer, disconnect, failure, raw, slow

KEY = "sk-very-secret-0123456789"
SCHEMA = ReplySchema("form", {"type": "object", "properties": {}})


def request(content="q", **fields):
    return ModelRequest([Message(role="user", content=content)], **fields)


def streamed(**fields):
    said = []
    return said, request(on_text=said.append, **fields)


def of_ours(error):
    """The frames of the package in a traceback, with their variables as a notebook may show them."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    for frame in told.stack:
        if f"planbench{os.sep}llm" in frame.filename:
            yield frame.name
            yield frame.locals


# -- what is sent --------------------------------------------------------------------------


def test_a_conversation_is_sent_as_chat_completions(ask):
    call = ToolCall(id="c1", name="f", arguments={"x": [1, "ü"]})
    asked = ask(
        ["fine"],
        ModelRequest(
            [
                Message(role="system", content="be short"),
                Message(role="user", content="q", name="ann"),
                Message(role="assistant", tool_calls=(call,)),
                Message(role="tool", content="7", tool_call_id="c1"),
            ],
            tools=[ToolSpec("f", "does", {"type": "object"})],
            tool_choice="f",
            temperature=0,
            max_tokens=5,
        ),
        seed=3,
    )

    assert asked.bodies == [
        {
            "model": "m",
            "stream": False,
            "seed": 3,
            "temperature": 0,
            "max_tokens": 5,
            "messages": [
                {"role": "system", "content": "be short"},
                {"role": "user", "content": "q", "name": "ann"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "f", "arguments": '{"x": [1, "\\u00fc"]}'},
                        }
                    ],
                },
                {"role": "tool", "content": "7", "tool_call_id": "c1"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "description": "does",
                        "parameters": {"type": "object"},
                    },
                }
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
        }
    ]
    assert asked.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_request_may_name_another_model_and_options_give_way_to_it(ask):
    asked = ask(
        ["a", "b"],
        request(model="other", temperature=1.0, max_tokens=9),
        request(),
        temperature=0,
        max_tokens=3,
    )

    assert [(b["model"], b["temperature"], b["max_tokens"]) for b in asked.bodies] == [
        ("other", 1.0, 9),
        ("m", 0, 3),
    ]


def test_a_schema_is_asked_for_as_such(ask):
    asked = ask(["{}"], request(schema=SCHEMA))

    assert asked.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "form", "schema": SCHEMA.schema, "strict": False},
    }


@pytest.mark.parametrize(
    "refusal",
    [
        failure(400, "This response_format type is unavailable now"),
        failure(422, "response_format: unknown variant `json_schema`"),
        failure(400, "Bad Request"),
    ],
)
def test_an_endpoint_that_refuses_a_schema_is_asked_in_json_mode_and_that_is_remembered(
    ask, refusal
):
    asked = ask([refusal, "{}", "{}"], request(schema=SCHEMA), request(schema=SCHEMA))

    assert [reply.content for reply in asked.got] == ["{}", "{}"]
    forms = [body["response_format"]["type"] for body in asked.bodies]
    assert forms == ["json_schema", "json_object", "json_object"]


def test_an_endpoint_without_json_mode_is_asked_in_plain_words(ask):
    refusal = failure(400, "response_format is not supported")
    asked = ask([refusal, refusal, "{}"], request(schema=SCHEMA))

    assert asked.one.content == "{}"
    assert "response_format" not in asked.bodies[2]


def test_a_server_that_fails_over_the_grammar_of_a_schema_is_asked_otherwise(ask):
    broken = failure(500, "failed to parse grammar")
    asked = ask([broken, "{}"], request(schema=SCHEMA), max_retries=0)

    assert asked.one.content == "{}"


def test_a_router_without_an_endpoint_for_a_schema_is_asked_otherwise_and_else_not(ask):
    asked = ask(
        [failure(404, "no endpoints found that support response_format"), "fine", failure(404)],
        *[request(schema=SCHEMA)] * 2,
    )

    assert asked.got[0].content == "fine"
    assert asked.got[1].code == "model_not_found"
    assert len(asked.bodies) == 3


def test_a_refusal_that_stays_is_told_in_the_words_of_the_first(ask):
    script = [failure(400, "messages are odd"), *[failure(400, "other words")] * 9]
    asked = ask(script, request(schema=SCHEMA))

    assert "messages are odd" in str(asked.got[0])
    assert len(asked.bodies) == 3


def test_what_another_form_cannot_mend_is_not_asked_again(ask):
    script = [failure(400, "too long", code="context_length_exceeded"), failure(404), failure(413)]
    asked = ask(script, *[request(schema=SCHEMA)] * 3)

    assert [error.code for error in asked.got] == [
        "model_request_refused",
        "model_not_found",
        "model_request_refused",
    ]
    assert asked.got[0].detail == "context_length_exceeded"
    assert len(asked.bodies) == 3


def test_the_field_for_the_limit_of_tokens_is_the_one_that_the_endpoint_knows(ask):
    refusal = failure(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.")
    asked = ask([refusal, "a", "b"], *[request(max_tokens=7)] * 2)

    assert [reply.content for reply in asked.got] == ["a", "b"]
    assert [("max_tokens" in b, b.get("max_completion_tokens")) for b in asked.bodies] == [
        (True, None),
        (False, 7),
        (False, 7),
    ]


# -- what comes back -----------------------------------------------------------------------


def test_a_text_comes_with_its_usage_and_the_model_that_answered(ask):
    reply = ask([text("hello ü", input_tokens=11, output_tokens=2, cost=0.25)]).one

    assert reply.content == "hello ü"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost) == (11, 2, 0.25)
    assert (reply.finish_reason, reply.refusal, reply.model) == ("stop", None, "m")


def test_calls_come_with_their_arguments_read(ask):
    answer = together(tool_call("f", city="Tokyo"), tool_call("g"))
    reply = ask([answer]).one

    assert reply.tool_calls == answer.tool_calls
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "finish", "refusal"),
    [
        (text('{"nodes": [', finish_reason="length"), "length", None),
        (text("", finish_reason="content_filter"), "content_filter", None),
        (text("", refusal="I will not"), "stop", "I will not"),
        (text(""), "stop", None),
    ],
)
def test_how_an_answer_ended_is_passed_on(ask, answer, finish, refusal, stream):
    reply = ask([answer], streamed()[1] if stream else request()).one

    assert (reply.content, reply.finish_reason, reply.refusal) == (answer.content, finish, refusal)


def test_a_prompt_that_a_filter_refuses_is_a_filtered_answer(ask):
    reply = ask([failure(400, "policy", code="content_filter")], request(schema=SCHEMA)).one

    assert (reply.content, reply.finish_reason) == ("", "content_filter")


def test_an_endpoint_that_says_nothing_of_usage_is_not_taken_for_free(ask):
    silent = text("x").model_copy(
        update={"usage": text("x").usage.model_copy(update={"reported": False})}
    )

    assert ask([silent]).one.usage.reported is False


def test_a_stream_gives_its_pieces_as_they_come_and_the_whole_at_the_end(ask):
    said, asking = streamed()
    answer = text("a longer answer, in pieces", input_tokens=5, output_tokens=6)
    asked = ask([answer], asking)

    assert len(said) > 2
    assert "".join(said) == asked.one.content == answer.content
    assert (asked.one.usage.input_tokens, asked.one.usage.output_tokens) == (5, 6)
    assert asked.bodies[0]["stream_options"] == {"include_usage": True}


def test_streamed_calls_are_put_together(ask):
    answer = together(tool_call("f", city="Tokyo", n=1), tool_call("g"), input_tokens=1)
    _, asking = streamed()

    assert ask([answer], asking).one.tool_calls == answer.tool_calls


def test_an_async_callback_is_awaited_and_what_it_raises_is_the_callers(ask):
    said = []

    async def on_text(piece):
        await asyncio.sleep(0)
        said.append(piece)

    def fails(piece):
        raise ValueError(piece)

    assert ask(["hello there"], request(on_text=on_text)).one.content == "".join(said)
    with pytest.raises(ValueError, match="hello"):
        ask(["hello there"], request(on_text=fails))


def test_an_endpoint_that_knows_no_usage_in_streams_still_streams(ask):
    refusal = failure(400, "Unknown field: stream_options")
    said, asking = streamed()
    asked = ask([refusal, "fine"], asking)

    assert asked.one.content == "".join(said) == "fine"
    assert asked.one.usage.reported is False


def test_a_stream_that_breaks_off_is_an_error_and_never_half_an_answer(ask):
    said, asking = streamed()
    asked = ask([disconnect(text("a longer answer " * 20), after=1_500)], asking)

    assert isinstance(asked.got[0], ModelError)
    assert asked.got[0].code == "model_unreachable"
    assert said
    assert len(asked.bodies) == 1


# -- failures ------------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_after_the_wait_that_it_names(ask):
    started = time.monotonic()
    asked = ask([failure(429, retry_after=0.3), failure(503, retry_after=0.2), "fine"])

    assert asked.one.content == "fine"
    assert time.monotonic() - started >= 0.5
    assert len(asked.bodies) == 3


def test_a_wait_that_is_too_long_is_told_and_not_sat_out(ask):
    started = time.monotonic()
    [error] = ask([failure(429, "slow down", retry_after=900)] * 3).got

    assert (error.code, error.status, error.retry_after) == ("rate_limited", 429, 900)
    assert "wait 900 seconds" in str(error)
    assert time.monotonic() - started < 60


def test_a_connection_that_breaks_is_tried_again_and_tries_have_an_end(ask):
    asked = ask([disconnect(), "fine", *[disconnect()] * 3], request(), request(), max_retries=1)

    assert asked.got[0].content == "fine"
    assert asked.got[1].code == "model_unreachable"
    assert len(asked.bodies) == 4


def test_a_server_that_is_not_there_is_named():
    with ScriptedServer([]) as server:
        url = server.url

    async def main():
        async with OpenAIClient("m", url, KEY, max_retries=0) as client:
            await client.complete(request())

    with pytest.raises(ModelError, match="cannot be reached") as caught:
        asyncio.run(main())
    assert url in str(caught.value)


def test_a_slow_answer_is_given_up_after_the_timeout(ask):
    [error] = ask([slow("late", 30)], timeout=0.2, max_retries=0).got

    assert error.code == "model_timeout"


def test_a_cancelled_call_ends_at_once_and_leaves_nothing():
    async def main(server):
        async with OpenAIClient("m", server.url, KEY) as client:
            asking = asyncio.create_task(client.complete(request()))
            await asyncio.to_thread(arrived.wait, 10)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        return asyncio.all_tasks() - {asyncio.current_task()}

    arrived = threading.Event()

    def script(received):
        arrived.set()
        return slow("late", 30)

    with ScriptedServer(script) as server:
        assert asyncio.run(main(server)) == set()


@pytest.mark.parametrize(
    "answer",
    [
        raw("<html>welcome</html>", content_type="text/html"),
        raw('{"choices": ['),
        raw('{"object": "list"}'),
        raw("[]"),
        raw('{"choices": ' + "[" * 100_000),
    ],
)
def test_an_answer_that_is_no_completion_says_where_to_look(ask, answer):
    [error] = ask([answer]).got

    assert error.code == "model_failed"
    assert "/v1" in str(error)


def test_an_error_inside_of_an_answer_is_an_error(ask):
    inside = raw('{"error": {"message": "upstream is down", "code": 502}}')
    [error] = ask([inside]).got

    assert (error.code, error.status) == ("model_failed", 502)
    assert "upstream is down" in str(error)


# -- keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_key_is_in_no_error_no_traceback_and_no_repr(ask, stream):
    said = f"the key {KEY} is wrong, and so is other-secret"
    asked = ask(
        [failure(401, said), failure(400, said), disconnect()],
        *[streamed()[1] if stream else request()] * 3,
        max_retries=0,
        headers={"x-api-key": "other-secret"},
    )

    assert [error.code for error in asked.got] == [
        "model_unauthorized",
        "model_request_refused",
        "model_unreachable",
    ]
    for error in asked.got:
        shown = str(error) + " ".join(map(str, of_ours(error)))
        assert "_answer" in shown or "complete" in shown
        assert KEY not in shown
        assert "other-secret" not in shown
        assert error.__cause__ is None
        assert error.__context__ is None
        assert KEY not in repr(vars(error))
    assert "***" in str(asked.got[0])


def test_a_key_is_in_nothing_that_shows_a_client():
    client = OpenAIClient(
        "m", "http://user:pass-word@127.0.0.1:9/v1?token=abc", KEY, headers={"x": "other-secret"}
    )

    assert repr(client) == "<OpenAIClient 'm' at http://127.0.0.1:9/v1>"
    assert KEY not in repr(vars(client))
    assert "other-secret" not in repr(vars(client))
    assert "pass-word" not in repr(vars(client))
    assert "token=abc" not in repr(vars(client))


@pytest.mark.parametrize("sign", ["\u2014", "\n", "\x7f", "\u201d"])
@pytest.mark.parametrize("where", ["key", "header", "variable"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(monkeypatch, where, sign):
    odd = f"{KEY}{sign}tail-of-the-key"
    monkeypatch.setenv("OPENAI_API_KEY", odd if where == "variable" else KEY)
    given = {"key": {"api_key": odd}, "header": {"headers": {"x": odd}}, "variable": {}}[where]

    with pytest.raises(ConfigurationError) as caught:
        OpenAIClient("m", **given)
    said = str(caught.value) + repr(vars(caught.value))
    assert f"U+{ord(sign):04X}" in said
    assert KEY not in said
    assert "tail-of" not in said


def test_blanks_around_a_key_and_a_header_are_no_part_of_them(ask):
    asked = ask(["fine"], key=f" {KEY}\n", headers={"x-more": "value\r\n"})

    assert asked.headers[0]["authorization"] == f"Bearer {KEY}"
    assert asked.headers[0]["x-more"] == "value"


def test_the_query_of_an_address_goes_with_each_request_and_no_secret_of_it_is_shown():
    async def main(server):
        url = server.url.replace("//", "//me:pass%20word@") + "/?version=2&token=query-secret"
        async with OpenAIClient("m", url, KEY, max_retries=0) as client:
            await client.complete(request())

    def script(received):
        return failure(404, f"nothing at {received.path} for {received.headers['authorization']}")

    with ScriptedServer(script) as server, pytest.raises(ModelError) as caught:
        asyncio.run(main(server))
    assert server.requests[0].path == "/v1/chat/completions?version=2&token=query-secret"
    shown = str(caught.value) + " ".join(map(str, of_ours(caught.value)))
    for secret in ("query-secret", "pass word", "pass%20word", "bWU6cGFzcyB3b3Jk"):
        assert secret not in shown
    assert "token=***" in str(caught.value)


def test_a_key_does_not_follow_a_redirect_to_another_address(ask):
    with ScriptedServer(["fine"]) as other:
        moved = raw("", status=307)
        moved.headers["location"] = f"{other.url}/chat/completions"
        ask([moved])

        assert [one.headers.get("authorization") for one in other.requests] in ([], [None])


def test_a_key_of_the_environment_stays_with_its_own_provider(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    with pytest.raises(ConfigurationError, match="needs its own api_key") as caught:
        OpenAIClient("m", "http://127.0.0.1:9/v1")
    assert KEY not in str(caught.value)
    OpenAIClient("m", "https://api.openai.com/v1")
    with pytest.raises(ConfigurationError):
        OpenAIClient("m", "http://api.openai.com/v1")  # not over an open line
    with pytest.raises(ConfigurationError):
        OpenAIClient("m", "https://api.openai.com.example.org/v1")


def test_what_else_the_environment_holds_for_openai_is_sent_to_nobody_else(ask, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Token: t0ken\nX-Other: 1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)

    [headers] = ask(["fine"], key="").headers

    assert not {"openai-organization", "openai-project", "x-token", "x-other"} & set(headers)
    assert KEY not in str(headers)


def test_the_address_of_the_environment_is_honoured_and_its_key_goes_with_it(monkeypatch):
    async def main():
        async with OpenAIClient("m") as client:
            return await client.complete(request())

    with ScriptedServer(["fine"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert asyncio.run(main()).content == "fine"
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_missing_key_names_its_variable():
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
        OpenAIClient("m")


def test_there_is_no_default_model():
    with pytest.raises(ConfigurationError, match="no default"):
        OpenAIClient("", "http://127.0.0.1:9/v1", KEY)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": None}, "timeout is seconds"),
        ({"timeout": 0}, "timeout is seconds"),
        ({"timeout": float("nan")}, "timeout is seconds"),
        ({"timeout": "5"}, "timeout is seconds"),
        ({"max_retries": None}, "max_retries is a number"),
        ({"max_retries": -1}, "max_retries is a number"),
        ({"max_retries": True}, "max_retries is a number"),
        ({"headers": {"x": 5}}, "'x' is a text, not int"),
        ({"headers": {"a b": "5"}}, "no header can have"),
        ({"api_key": 12345}, "api_key is a text, not int"),
    ],
)
def test_settings_that_no_request_can_have_are_refused_when_they_are_made(options, words):
    with pytest.raises(ConfigurationError, match=words):
        OpenAIClient("m", **{"base_url": "http://127.0.0.1:9/v1", "api_key": KEY, **options})


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match=r"planbench\[openai\]"):
        OpenAIClient("m", api_key=KEY)


# -- loops ---------------------------------------------------------------------------------


def test_one_client_serves_one_loop_after_the_other():
    async def main():
        reply = await client.complete(request())
        await client.close()
        return reply.content

    with ScriptedServer(["one", "two"]) as server:
        client = OpenAIClient("m", server.url, KEY)
        assert [asyncio.run(main()), asyncio.run(main())] == ["one", "two"]


def test_calls_at_the_same_time_share_one_connection_pool():
    async def main(server):
        async with OpenAIClient("m", server.url, KEY) as client:
            return await asyncio.gather(*[client.complete(request(str(i))) for i in range(5)])

    with ScriptedServer(lambda received: received.body["messages"][0]["content"]) as server:
        replies = asyncio.run(main(server))

    assert [reply.content for reply in replies] == list("01234")


def test_the_loop_is_free_while_a_client_starts_and_waits():
    longest = 0.0

    async def beat():
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    async def main(server):
        beating = asyncio.create_task(beat())
        async with OpenAIClient("m", server.url, KEY) as client:
            await client.complete(request())
        beating.cancel()

    with ScriptedServer([slow("fine", 0.1)]) as server:
        asyncio.run(main(server))
    assert longest < 1.0
