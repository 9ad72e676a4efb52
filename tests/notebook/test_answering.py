"""The place in a cell where an answer is shown as it comes; the front end is a list of what was put there."""

from __future__ import annotations

import asyncio

import pytest

from planbench.llm import FakeLLMClient, LLMHandler, Message, ModelReply, ModelRequest, Usage
from planbench.notebook import answering
from planbench.notebook.answering import AnswerView
from planbench.planner import Catalog

QUESTION = [Message(role="user", content="?")]


class Place:
    """An output of a cell: what it held, one after the other."""

    def __init__(self):
        self.held = []

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id
        self.held.append(bundle)
        return self

    def update(self, bundle, *, raw):
        assert raw
        self.held.append(bundle)

    @property
    def texts(self):
        return [one["text/plain"] for one in self.held]


@pytest.fixture
def place(monkeypatch):
    place = Place()
    monkeypatch.setattr(answering, "display", place.display)
    monkeypatch.setattr(answering, "front_end", lambda: "lab")
    return place


def view_of(*replies, model="m", **options):
    left = list(replies)
    return AnswerView(LLMHandler(FakeLLMClient(lambda _: left.pop(0), model=model), **options))


async def settled():
    """Give a view the time for one look at what it heard."""
    await asyncio.sleep(2.5 * answering.PAUSE)


def test_an_answer_is_shown_as_it_comes_in_one_place(place):
    view = view_of()

    async def work():
        view.hear('{"nodes"')
        await settled()
        view.hear(": []}")
        await settled()
        return "done"

    assert asyncio.run(view.until(work())) == "done"
    assert place.texts[0].startswith("asking m for an answer: 0 characters")
    assert any(text.endswith('\n{"nodes"') for text in place.texts)
    assert any(text.endswith('\n{"nodes": []}') for text in place.texts)


def test_the_correction_takes_the_place_of_the_first_answer(place):
    view = view_of("first", "second")

    async def work():
        for _ in range(2):
            await view._llm.complete(ModelRequest(QUESTION, on_text=view.hear))
            await settled()

    asyncio.run(view.until(work()))
    assert "for its correction: 6 characters" in place.texts[-1]
    assert place.texts[-1].endswith("\nsecond")


def test_what_is_shown_meanwhile_is_bounded_and_escaped(place):
    view = view_of()

    async def work():
        for number in range(3_000):
            view.hear(f"<b>line {number}</b>\n")
        view.hear("x" * 50_000)
        await settled()

    asyncio.run(view.until(work()))
    assert all(len(str(bundle)) < 12_000 for bundle in place.held)
    assert "<b>line" not in place.held[-1]["text/html"]


def test_where_nobody_looks_only_the_end_is_put_there(place, monkeypatch):
    monkeypatch.setattr(answering, "front_end", lambda: "none")
    view = view_of()

    async def work():
        view.hear("text")
        await settled()

    asyncio.run(view.until(work()))
    assert place.held == []
    view.end(["draft: d-1"])
    assert len(place.held) == 1


def test_the_end_is_small_and_says_what_the_planner_saw(place):
    view = view_of()
    names = tuple(f"tool_{number}" for number in range(500))
    catalog = Catalog("<i>x</i> " * 20_000, names, ("left",), is_shortened=True)
    view.end(["draft: d-1"], catalog, "asked-1")
    (bundle,) = place.held
    assert bundle["text/plain"].startswith("asked-1: 0 calls, ")
    assert "the planner saw 500 tools: tool_0, " in bundle["text/plain"]
    assert "and 470 more; 1 had no room; descriptions were shortened" in bundle["text/plain"]
    assert len(bundle["text/plain"]) < 1_000
    assert len(bundle["text/html"]) < 30_000
    assert "<i>x" not in bundle["text/html"]


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (
            Usage(input_tokens=1_200, output_tokens=3, cost=0.25),
            "1,200 tokens in, 3 out, cost 0.25",
        ),
        (Usage(input_tokens=1_200, output_tokens=3), "1,200 tokens in, 3 out, unpriced"),
        (Usage(reported=False), "tokens not reported, unpriced"),
    ],
)
def test_what_nobody_told_is_not_shown_as_nothing(place, usage, said):
    view = view_of(ModelReply(content="x", usage=usage))
    asyncio.run(view.until(view._llm.complete(ModelRequest(QUESTION))))
    view.end([])
    assert f"1 call, {said}, " in place.texts[-1]


def test_a_call_that_does_not_let_itself_be_cancelled_does_not_hold_the_cell(place, monkeypatch):
    monkeypatch.setattr(answering, "END_SECONDS", 0.05)
    view = view_of()

    async def main():
        gate = asyncio.Event()

        async def deaf():
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    continue

        work = asyncio.ensure_future(deaf())
        waiting = asyncio.ensure_future(view.until(work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not work.done()
        gate.set()
        await work

    asyncio.run(main())
