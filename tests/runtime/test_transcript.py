"""The record of an agent's run: what it gives again, in which order, and what is tried anew."""

import asyncio

import pytest

from planbench import events as ev
from planbench.errors import RunRefused
from planbench.events import Event
from planbench.runtime import transcript as module
from planbench.runtime.transcript import Transcript


def events(*told):
    return [Event(i, "r", float(i), kind, data) for i, (kind, data) in enumerate(told, 1)]


def called(asked, asks, number=1, **more):
    return ev.LLM_CALLED, {"call": number, "asked": asked, "asks": asks, **more}


def begun(step):
    return ev.CHILD_STARTED, {"run_id": f"run_{step}", "step_id": step, "asked": "x"}


def over(step, status, asks):
    return ev.CHILD_FINISHED, {"run_id": f"run_{step}", "status": status, "asks": asks}


def child(record, step):
    return record.next_child(step, "x")[1]


def test_a_new_run_has_nothing_on_record():
    record = Transcript("r")

    assert record.is_new
    assert record.next_call(ev.LLM_CALLED, "q") == (1, None)
    assert record.next_call(ev.LLM_CALLED, "q") == (2, None)
    assert child(record, "a") is None
    assert not record.has_begun("a")


def test_answers_are_given_in_the_order_in_which_they_came():
    record = Transcript("r", events(called("second", 2), called("first", 2)))
    given = []

    async def ask(what):
        _, found = record.next_call(ev.LLM_CALLED, what)
        await record.turn(found.place)
        given.append(what)

    async def new():
        await record.turn(None)
        given.append("new")

    async def main():
        await asyncio.gather(new(), ask("first"), ask("second"))

    asyncio.run(main())
    assert given == ["second", "first", "new"]


def test_an_answer_waits_for_as_much_to_be_asked_as_had_been_when_it_came():
    record = Transcript("r", events(called("one", 2), called("two", 2)))
    told = []

    async def ask(what, after=None):
        if after is not None:
            await after.wait()
        _, found = record.next_call(ev.LLM_CALLED, what)
        told.append(f"asked {what}")
        await record.turn(found.place)
        told.append(f"given {what}")

    async def main():
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, later.set)
        await asyncio.gather(ask("one"), ask("two", later))

    asyncio.run(main())
    assert told == ["asked one", "asked two", "given one", "given two"]


def test_equal_questions_get_their_answers_in_the_order_of_the_calls():
    record = Transcript("r", events(called("q", 2, 2, n="b"), called("q", 2, 1, n="a")))

    assert [record.next_call(ev.LLM_CALLED, "q")[1].data["n"] for _ in range(2)] == ["a", "b"]


def test_a_record_that_nobody_asks_for_refuses_the_run(monkeypatch):
    monkeypatch.setattr(module, "WAIT", 0.01)
    record = Transcript("r", events(called("q", 1)))

    with pytest.raises(RunRefused) as caught:
        asyncio.run(record.turn(None))
    assert caught.value.code == "run_not_resumable"


def test_a_child_that_was_given_something_else_refuses_the_run():
    record = Transcript("r", events(begun("a")))

    with pytest.raises(RunRefused):
        record.next_child("a", "other")


@pytest.mark.parametrize(
    ("more", "stands"),
    [
        ([], False),
        ([over("b", "success", 2)], False),
        ([called("q", 3)], True),
        ([begun("c")], True),
        ([(ev.RUN_CONTINUED, {}), called("q", 3)], False),
    ],
)
def test_a_failed_child_is_final_when_the_run_went_on_from_it(more, stands):
    told = [begun("a"), begun("b"), over("a", "failed", 2), *more]
    record = Transcript("r", events(*told))

    assert record.stands("a") is stands
    assert (child(record, "a").ended is not None) is stands


@pytest.mark.parametrize("status", ["cancelled", "interrupted", "budget_exceeded"])
def test_a_child_that_was_cut_off_always_goes_on(status):
    record = Transcript("r", events(begun("a"), over("a", status, 1), called("q", 2)))

    assert child(record, "a").ended is None


def test_a_model_that_gave_no_answer_is_asked_again_unless_the_run_went_on():
    failed = called("q", 1, error={"code": "x"})
    for told, known in (([failed], False), ([failed, called("p", 2)], True)):
        _, found = Transcript("r", events(*told)).next_call(ev.LLM_CALLED, "q")
        assert (found is not None) is known


def test_what_was_told_is_told_once_and_an_open_step_again():
    plan = (ev.PLAN_CREATED, {"steps": [1]})
    started = {name: (ev.TASK_STARTED, {"step_id": name}) for name in "ab"}
    finished = (ev.TASK_FINISHED, {"step_id": "a"})
    told = [plan, started["a"], begun("a"), started["b"], begun("b"), over("a", "success", 2)]
    record = Transcript("r", events(*told, finished))

    assert record.has_told(*plan)
    assert not record.has_told(*plan)
    assert record.has_told(*started["a"])
    assert record.has_told(*finished)
    assert not record.has_told(*started["b"])
