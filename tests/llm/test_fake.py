import asyncio

import pytest

from planbench.errors import ConfigurationError
from planbench.llm import FakeLLMClient, Message, ModelReply, ModelRequest, Usage
from planbench.llm.fake import text, together, tool_call

REQUEST = ModelRequest([Message(role="user", content="q")])


def answer(fn, request=REQUEST):
    return asyncio.run(FakeLLMClient(fn).complete(request))


def test_a_function_of_the_request_is_the_model():
    reply = answer(lambda request: text(request.messages[0].content + request.messages[-1].role))

    assert reply.content == "quser"
    assert reply.model == "fake"


def test_it_may_be_async_and_may_give_a_str():
    async def model(request):
        await asyncio.sleep(0)
        return "fine"

    assert answer(model) == answer(lambda request: text("fine"))


def test_every_keyword_of_a_call_is_an_argument():
    call = tool_call("population", city="Tokyo", name="n", cost=1, input_tokens=2).tool_calls[0]

    assert call.name == "population"
    assert call.arguments == {"city": "Tokyo", "name": "n", "cost": 1, "input_tokens": 2}
    assert call.id != tool_call("population").tool_calls[0].id


def test_replies_are_joined_to_one_with_its_usage():
    joined = together(text("so: "), tool_call("f", x=1), tool_call("g"), output_tokens=4, cost=0.5)

    assert joined.content == "so: "
    assert [call.name for call in joined.tool_calls] == ["f", "g"]
    assert joined.finish_reason == "tool_calls"
    assert joined.usage == Usage(output_tokens=4, cost=0.5)
    assert together(text("a"), text("b")).finish_reason == "stop"


def test_a_reply_says_how_it_ended():
    reply = text("", input_tokens=1, finish_reason="length", refusal="no")

    assert (reply.finish_reason, reply.refusal, reply.usage.input_tokens) == ("length", "no", 1)


def test_requests_are_kept_and_a_callback_hears_the_text():
    said = []
    client = FakeLLMClient(lambda request: "hello")
    asking = ModelRequest(REQUEST.messages, on_text=said.append)

    asyncio.run(client.complete(asking))

    assert client.requests == [asking]
    assert said == ["hello"]


def test_what_is_no_reply_says_what_to_return():
    with pytest.raises(ConfigurationError, match="gave dict"):
        answer(lambda request: {"content": "x"})
    with pytest.raises(ConfigurationError, match="takes a function"):
        FakeLLMClient("x")


def test_an_error_of_the_function_is_the_callers():
    def model(request):
        raise KeyError("x")

    with pytest.raises(KeyError):
        answer(model)


def test_a_reply_survives_a_journal():
    reply = together(text("a"), tool_call("f", x=[1, None]), input_tokens=1)

    assert ModelReply.model_validate_json(reply.model_dump_json()) == reply
    assert reply.message == Message(role="assistant", content="a", tool_calls=reply.tool_calls)
