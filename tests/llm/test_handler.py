import asyncio
from types import SimpleNamespace

import pytest

from planbench.errors import ConfigurationError
from planbench.llm import FakeLLMClient, LLMHandler, Message, ModelRequest, OpenAIClient
from planbench.llm.fake import text
from planbench.llm.server import ScriptedServer

PRICES = {"fake": (1.0, 10.0), "dear": (1000.0, 1000.0)}


def request(**fields):
    return ModelRequest([Message(role="user", content="q")], **fields)


def handled(replies, *requests, **options):
    left = iter(replies)
    handler = LLMHandler(FakeLLMClient(lambda asked: next(left)), **options)

    async def main():
        return [await handler.complete(one) for one in requests or (request(),) * len(replies)]

    return handler, asyncio.run(main())


def test_a_call_is_priced_by_the_users_table_per_million_tokens():
    answer = text("x", input_tokens=500_000, output_tokens=100_000)
    handler, [reply] = handled([answer], prices=PRICES)

    assert reply.usage.cost == pytest.approx(1.5)
    assert handler.usage == reply.usage
    assert handler.calls == 1


def test_the_providers_own_figure_comes_before_the_table():
    _, [reply] = handled([text("x", input_tokens=500_000, cost=0.125)], prices=PRICES)

    assert reply.usage.cost == 0.125


def test_a_call_without_a_price_makes_the_sum_unknown_and_tokens_are_still_counted():
    answers = [text("x", input_tokens=1, cost=0.5), text("y", input_tokens=2, output_tokens=3)]
    handler, replies = handled(answers)

    assert [reply.usage.cost for reply in replies] == [0.5, None]
    assert (handler.usage.input_tokens, handler.usage.output_tokens) == (3, 3)
    assert handler.usage.cost is None
    assert handler.calls == 2


def test_a_call_of_which_the_endpoint_said_nothing_has_no_price():
    silent = text("x").model_copy(
        update={"usage": text("x").usage.model_copy(update={"reported": False})}
    )
    handler, [reply] = handled([silent], prices=PRICES)

    assert reply.usage.cost is None
    assert handler.usage.reported is False


def test_the_model_that_was_asked_gives_the_price():
    answer = text("x", input_tokens=1_000_000)
    _, [reply] = handled([answer], request(model="dear"), prices=PRICES)

    assert reply.usage.cost == 1000.0


def test_nothing_asked_is_nothing_spent():
    assert LLMHandler(FakeLLMClient(lambda asked: "x")).usage.cost == 0.0


def test_whether_a_price_is_known_can_be_asked_before():
    def fake(**options):
        return FakeLLMClient(lambda asked: "x", **options)

    assert LLMHandler(fake(), PRICES).is_priced()
    assert LLMHandler(fake(), PRICES).is_priced("dear")
    assert not LLMHandler(fake(), PRICES).is_priced("other")
    assert not LLMHandler(fake()).is_priced()
    assert LLMHandler(fake(reports_cost=True)).is_priced()
    assert LLMHandler("ollama:m", {"ollama:m": (0, 0)}).is_priced()


def test_it_is_found_on_the_engine_that_it_is_attached_to():
    engine = SimpleNamespace()
    handler = LLMHandler(FakeLLMClient(lambda asked: "x"))

    assert handler.attach(engine) is handler
    assert engine.llm is handler


@pytest.mark.parametrize(
    "prices",
    [
        [],
        {"m": 1},
        {"m": (1,)},
        {"m": (1, -1)},
        {"m": (1, float("nan"))},
        {"m": ("1", 2)},
        {"m": (True, 2)},
        {7: (1, 2)},
    ],
)
def test_a_table_that_is_none_is_refused(prices):
    with pytest.raises(ConfigurationError, match="price"):
        LLMHandler(FakeLLMClient(lambda asked: "x"), prices)


def test_it_closes_its_client():
    async def main(server):
        handler = LLMHandler(OpenAIClient("m", server.url, "k"))
        await handler.complete(request())
        await handler.close()
        await LLMHandler(FakeLLMClient(lambda asked: "x")).close()

    with ScriptedServer(["x"]) as server:
        asyncio.run(main(server))
