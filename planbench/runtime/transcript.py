"""What an agent's run has on record: each answer is given again, in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench import events as ev
from planbench.errors import RunRefused
from planbench.runtime.recorded import asked_digest
from planbench.runtime.telling import is_told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.events import Event

WAIT: Final = 0.5
STALLS: Final = 4
"""Waits without a question or an answer after which a record does not fit its algorithm.

Several short ones: a loop that was blocked by somebody else is late with one of them only.
"""
ANSWERS: Final = frozenset({ev.LLM_CALLED, ev.TOOL_CALLED})
_WENT_ON: Final = frozenset({ev.LLM_CALLED, ev.TOOL_CALLED, ev.CHILD_STARTED})
_STEP_ENDS: Final = frozenset({ev.TASK_FINISHED, ev.TASK_FAILED})


class ChildRecord(NamedTuple):
    """A child that was started; ``ended`` is its end where that is final, and its place in the order."""

    run_id: str
    asked: str
    ended: dict[str, Any] | None
    place: int


class CallRecord(NamedTuple):
    """A call that was answered: its event, and its place in the order."""

    data: dict[str, Any]
    place: int


class Transcript:
    """The recorded part of one run, used up while its algorithm runs again.

    An answer is known by what was asked, and is given when all that came before it has
    been given. What is not on record is done when the whole record is used up: so an
    algorithm that asks something else than before is found out before it does anything.
    A failed child, or a model that gave no answer, is final only when the run went on
    after it: asked a model, called a tool or started another child. Otherwise it is tried
    again. Without events it is the transcript of a new run, and everything is new.
    """

    def __init__(self, run_id: str, events: Sequence[Event] = ()) -> None:
        self._run_id = run_id
        self._answers: dict[tuple[str, str], deque[CallRecord]] = {}
        self._children: dict[tuple[str, int], ChildRecord] = {}
        self._told: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._starts: Counter[str] = Counter()
        self._order: list[int] = []
        self._needed: dict[int, int] = {}
        self._given: set[int] = set()
        self._next = 0
        self._moves = 0
        self._moved = asyncio.Event()
        self.is_new = not events
        if events:
            self._read(events)

    # -- asking -----------------------------------------------------------------------

    @property
    def asks(self) -> int:
        """How much was asked so far: calls, and children."""
        return self._calls.total() + self._starts.total()

    def next_call(self, kind: str, asked: str) -> tuple[int, CallRecord | None]:
        """Count a call among those that ask the same, and give its record where there is one."""
        key = (kind, asked)
        self._calls[key] += 1
        self._move()
        known = self._answers.get(key)
        return self._calls[key], known.popleft() if known else None

    def next_child(self, step_id: str, asked: str) -> tuple[int, ChildRecord | None]:
        """Count a child of a step, and give its record where there is one.

        Raises RunRefused when the child on record was given something else.
        """
        self._starts[step_id] += 1
        self._move()
        number = self._starts[step_id]
        found = self._children.get((step_id, number))
        if found is not None and found.asked != asked:
            raise self._refused(f"step {step_id!r} gets something else than the step on record")
        return number, found

    def has_begun(self, step_id: str) -> bool:
        """Whether the next child of the step is on record."""
        return (step_id, self._starts[step_id] + 1) in self._children

    def has_told(self, kind: str, data: dict[str, Any]) -> bool:
        """Whether the run has told this before; each record counts once."""
        key = asked_digest(kind, data)
        known = self._told[key] > 0
        if known:
            self._told[key] -= 1
        return known

    def stands(self, step_id: str) -> bool:
        """Whether the end of a step on record is final."""
        return any(
            key[0] == step_id and found.ended is not None for key, found in self._children.items()
        )

    def _refused(self, text: str) -> RunRefused:
        return RunRefused(
            "run_not_resumable",
            f"run {self._run_id!r} does not fit its record: {text}",
            hint="resume it with the algorithm and prompts that it was started with, or start a new run",
        )

    # -- the order of answers -----------------------------------------------------------

    async def turn(self, place: int | None) -> None:
        """Wait until an answer's turn has come; None is what comes after the whole record.

        An answer is given when all that were recorded before it have been, and when as much
        has been asked as had been when it came. Raises RunRefused when that does not come
        about, since something on record is not asked for any more.
        """
        stalls = 0
        while not self._is_turn(place):
            before = self._moves
            try:
                async with asyncio.timeout(WAIT):
                    await self._moved.wait()
            except TimeoutError:
                stalls = stalls + 1 if before == self._moves else 0
                if stalls >= STALLS:
                    raise self._refused("something else is asked than what is on record") from None
        if place is not None:
            self._given.add(place)
            while self._next < len(self._order) and self._order[self._next] in self._given:
                self._next += 1
            self._move()

    def _is_turn(self, place: int | None) -> bool:
        if self._next >= len(self._order):
            return True
        if place is None or self._order[self._next] < place:
            return False
        return self.asks >= self._needed.get(place, 0)

    def _move(self) -> None:
        """Wake all that wait: something was asked or given."""
        self._moves += 1
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    # -- reading ------------------------------------------------------------------------

    def _read(self, events: Sequence[Event]) -> None:
        reading = _Reading()
        for event in events:
            reading.take(event)
        reading.drop_what_is_tried_again()
        for (kind, asked, _), found in sorted(reading.answers.items()):
            self._answers.setdefault((kind, asked), deque()).append(found)
            self._needed[found.place] = found.data["asks"]
        for run_id, (key, asked) in reading.started.items():
            data, place = reading.ended.get(run_id, (None, 0))
            self._children[key] = ChildRecord(run_id, asked, data, place)
            if data is not None:
                self._needed[place] = data["asks"]
        self._order = sorted(self._needed)
        self._told = reading.told


class _Reading:
    """Reads a journal: what was answered for good, and what will be tried again."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, int], CallRecord] = {}
        self.started: dict[str, tuple[tuple[str, int], str]] = {}
        self.ended: dict[str, tuple[dict[str, Any], int]] = {}
        self.told: Counter[str] = Counter()
        self._steps: dict[str, list[str]] = {}
        self._numbers: Counter[str] = Counter()
        self._went_on = 0

    def take(self, event: Event) -> None:
        """Read one event."""
        kind, data = event.type, event.data
        if kind in _WENT_ON:
            self._went_on = event.seq
        if kind in ANSWERS:
            self.answers[kind, data["asked"], data["call"]] = CallRecord(data, event.seq)
        elif kind == ev.CHILD_STARTED:
            step_id, run_id = data["step_id"], data["run_id"]
            self._numbers[step_id] += 1
            self.started[run_id] = (step_id, self._numbers[step_id]), data["asked"]
        elif kind == ev.CHILD_FINISHED:
            self.ended[data["run_id"]] = data, event.seq
        elif is_told(kind):
            self._tell(event)
        elif kind == ev.RUN_CONTINUED:
            self.drop_what_is_tried_again()

    def drop_what_is_tried_again(self) -> None:
        """Forget the failures that the run did not go on from, and the steps that had no end."""
        for key, found in [*self.answers.items()]:
            fails = key[0] == ev.LLM_CALLED and "error" in found.data
            if fails and found.place >= self._went_on:
                del self.answers[key]
        for run_id, (data, place) in [*self.ended.items()]:
            status = data["status"]
            if status != "success" and (status != "failed" or place > self._went_on):
                del self.ended[run_id]
        closed = {key[0] for run_id, (key, _) in self.started.items() if run_id in self.ended}
        begun = {key[0] for key, _ in self.started.values()}
        for step_id, keys in [*self._steps.items()]:
            if step_id in begun - closed or len(keys) == 1:
                self.told.subtract({one: self.told[one] for one in keys})
                del self._steps[step_id]

    def _tell(self, event: Event) -> None:
        key = asked_digest(event.type, event.data)
        self.told[key] += 1
        if event.type == ev.TASK_STARTED:
            self._steps[event.data["step_id"]] = [key]
        elif event.type in _STEP_ENDS:
            self._steps.setdefault(event.data["step_id"], []).append(key)
