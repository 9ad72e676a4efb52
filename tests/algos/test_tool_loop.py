"""The loop of tool calls: until an answer, side by side, with errors told to the model."""

import asyncio
import dataclasses
import threading
from contextvars import ContextVar

import pytest

from planbench import events as ev
from planbench.algos import ToolLoop
from planbench.errors import ModelError
from planbench.llm import FakeLLMClient, LLMHandler, ModelReply, ToolCall
from planbench.llm.fake import text, together, tool_call
from planbench.runtime import Engine
from planbench.tools import ToolHandler, ToolRegistry

SETTING = ContextVar("setting", default="unset")


def run_loop(answer, tools=(), task="do it", engine_tools=None, **options):
    """Run a loop with a model that is a function; gives outcome, events and requests."""
    client = FakeLLMClient(answer)

    async def main():
        async with Engine() as engine:
            LLMHandler(client).attach(engine)
            if engine_tools is not None:
                ToolHandler(engine_tools).attach(engine)
            run = await engine.start(ToolLoop(tools, **options), {"task": task})
            outcome = await run.result()
            log = await engine.store.read(run.run_id)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return outcome, log

    outcome, log = asyncio.run(main())
    return outcome, log, client.requests


def scripted(*replies):
    left = list(replies)
    return lambda request: left.pop(0)


def results(request):
    return [message.content for message in request.messages if message.role == "tool"]


def double(x: int) -> int:
    """Twice the number."""
    return 2 * x


async def half(x: int) -> float:
    """Half the number."""
    return x / 2


def test_the_answer_of_the_model_is_the_value():
    outcome, _, requests = run_loop(lambda request: text("42"), system="Be brief.")

    assert (outcome.status, outcome.value) == ("success", {"text": "42"})
    assert [m.content for m in requests[0].messages] == ["Be brief.", "do it"]
    assert not requests[0].tools


def test_calls_are_made_and_their_results_shown_until_there_is_an_answer():
    outcome, log, requests = run_loop(
        scripted(tool_call("double", x=4), tool_call("half", x=8), text("done")), [double, half]
    )

    assert outcome.value == {"text": "done"}
    assert outcome.usage.calls == 3
    assert results(requests[-1]) == ["8", "4.0"]
    assert {tool.name for tool in requests[0].tools} == {"double", "half"}
    called = [event.data for event in log if event.type == ev.TOOL_CALLED]
    assert [(one["tool"], one["value"]) for one in called] == [("double", 8), ("half", 4.0)]


def test_calls_of_one_turn_run_side_by_side_and_keep_their_order():
    barrier = threading.Barrier(2, timeout=60)

    def meet(x: int) -> int:
        barrier.wait()
        return x

    outcome, _, requests = run_loop(
        scripted(together(tool_call("meet", x=1), tool_call("meet", x=2)), text("ok")), [meet]
    )

    assert outcome.status == "success"
    assert results(requests[-1]) == ["1", "2"]
    ids = [call.id for call in requests[-1].messages[2].tool_calls]
    assert [m.tool_call_id for m in requests[-1].messages if m.role == "tool"] == ids


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (tool_call("double", x="many"), "x"),
        (tool_call("double"), "x"),
        (tool_call("doubl", x=1), "no tool 'doubl'"),
        (tool_call("double", x=float("inf")), "inf is no number in JSON"),
        (tool_call("broken"), "ZeroDivisionError"),
        (tool_call("leaver"), "SystemExit"),
        (tool_call("quitter"), "CancelledError"),
        (tool_call("stopper"), "StopIteration"),
        (
            ModelReply(tool_calls=(ToolCall(id="1", name="double", error="no JSON at all"),)),
            "no JSON at all",
        ),
    ],
)
def test_a_call_that_gives_nothing_is_told_to_the_model(call, words):
    def broken() -> float:
        return 1 / 0

    async def leaver():
        raise SystemExit(3)

    async def quitter():
        raise asyncio.CancelledError

    def stopper():
        return next(iter(()))

    tools = [double, broken, leaver, quitter, stopper]
    outcome, _, requests = run_loop(scripted(call, text("I see")), tools)

    assert outcome.value == {"text": "I see"}
    [told] = results(requests[-1])
    assert told.startswith("error: ")
    assert words in told


def test_turns_are_bounded():
    outcome, _, requests = run_loop(lambda request: tool_call("double", x=1), [double], max_turns=3)

    assert (outcome.status, outcome.reason) == ("failed", "no answer after 3 turns of the model")
    assert len(requests) == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (text("half an ans", finish_reason="length"), "cut off"),
        (text("", refusal="not that"), "refused: not that"),
        (text("", finish_reason="content_filter"), "filter"),
        (text("  "), "empty answer"),
    ],
)
def test_what_is_no_answer_fails_and_says_why(reply, words):
    outcome, _, _ = run_loop(lambda request: reply)

    assert outcome.status == "failed"
    assert words in outcome.reason


@pytest.mark.parametrize(
    ("stopped", "words"),
    [({"finish_reason": "content_filter"}, "filter"), ({"refusal": "not that"}, "refused")],
)
def test_calls_of_an_answer_that_was_stopped_are_not_made(stopped, words):
    made = []

    def note(x: int) -> int:
        made.append(x)
        return x

    reply = tool_call("note", x=1).model_copy(update=stopped)
    outcome, _, _ = run_loop(lambda request: reply, [note])

    assert outcome.status == "failed"
    assert words in outcome.reason
    assert made == []


def test_a_model_that_cannot_be_asked_fails_the_run_with_its_message():
    def model(request):
        raise ModelError("rate_limited", "too many requests", model="m")

    outcome, log, _ = run_loop(model)

    assert (outcome.status, outcome.reason) == ("failed", "too many requests")
    [called] = [event.data for event in log if event.type == ev.LLM_CALLED]
    assert called["error"]["code"] == "rate_limited"
    assert outcome.usage.calls == 0


def test_an_engine_without_a_model_says_how_to_attach_one():
    async def main():
        async with Engine() as engine:
            run = await engine.start(ToolLoop(), {"task": "t"})
            return await run.result()

    outcome = asyncio.run(main())
    assert outcome.status == "failed"
    assert "no model" in outcome.reason


def test_only_the_tools_of_the_loop_can_be_called_and_the_engines_own_goes_before():
    def other(x: int) -> int:
        return x

    def replaced(x: int) -> str:
        return f"the engine's {x}"

    engine_tools = ToolRegistry([other])
    engine_tools.register(__import__("planbench").Tool.from_function(replaced, name="double"))
    outcome, _, requests = run_loop(
        scripted(tool_call("double", x=1), tool_call("other", x=1), text("ok")),
        [double],
        engine_tools=engine_tools,
    )

    assert outcome.status == "success"
    first, second = results(requests[-1])
    assert first == "the engine's 1"
    assert "no tool 'other'" in second


def test_a_tool_that_the_host_does_not_allow_is_not_called():
    calls = []

    def delete_it(x: int) -> None:
        calls.append(x)

    client = FakeLLMClient(scripted(tool_call("delete_it", x=1), text("ok")))

    async def main():
        async with Engine(allowed_tools=["double"]) as engine:
            LLMHandler(client).attach(engine)
            run = await engine.start(ToolLoop([double, delete_it]), {"task": "t"})
            return await run.result()

    assert asyncio.run(main()).status == "success"
    assert calls == []
    assert "not allowed" in results(client.requests[-1])[0]


def test_values_are_shown_as_text_or_json_and_long_ones_are_cut():
    @dataclasses.dataclass
    class Point:
        x: int

    def point() -> Point:
        return Point(3)

    def pair() -> list:
        return [{"a": None}, True]

    def words() -> str:
        return "plain words"

    def long() -> str:
        return "x" * 60_000

    names = ["point", "pair", "words", "long"]
    outcome, _, requests = run_loop(
        scripted(together(*map(tool_call, names)), text("ok")), [point, pair, words, long]
    )

    assert outcome.status == "success"
    shown = results(requests[-1])
    assert shown[:3] == ['{"x":3}', '[{"a":null},true]', "plain words"]
    assert len(shown[3]) < 51_000
    assert "60000 characters" in shown[3]


def test_context_variables_of_the_caller_are_seen_and_what_tools_set_stays_with_them():
    def sets() -> str:
        was = SETTING.get()
        SETTING.set("by a tool")
        return was

    async def sets_too() -> str:
        was = SETTING.get()
        SETTING.set("by another")
        return was

    SETTING.set("of the caller")
    _, _, requests = run_loop(
        scripted(tool_call("sets"), tool_call("sets_too"), tool_call("sets"), text("ok")),
        [sets, sets_too],
    )

    assert results(requests[-1]) == ["of the caller"] * 3


def test_a_tool_that_takes_an_idempotency_key_gets_one_that_names_the_call():
    keys = []

    def pay(amount: int, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return "paid"

    pays = [tool_call("pay", amount=1), tool_call("pay", amount=1)]
    run_loop(scripted(*pays, text("ok")), [pay])

    assert len(set(keys)) == 2
    assert all(key.startswith("run_") for key in keys)
