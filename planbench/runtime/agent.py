"""What an algorithm has at hand while it runs: models, tools, child runs, and its journal.

Everything that is asked through it is on record when it is answered. When a run is
resumed, its algorithm runs again from the start, and what is on record is given instead of
being done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from planbench import events as ev
from planbench.errors import (
    BudgetExceeded,
    ConfigurationError,
    ModelError,
    PlanbenchError,
    RunRefused,
    StoreError,
    ToolError,
)
from planbench.llm.arguments import sound
from planbench.llm.client import ModelReply
from planbench.llm.wire import as_utf8
from planbench.runtime.agent_tools import error_record, recorded_error
from planbench.runtime.budget import Spend, check_priced
from planbench.runtime.outcome import Outcome, Usage
from planbench.runtime.recorded import asked_digest
from planbench.runtime.telling import check_told

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping

    from planbench.llm.client import ModelClient, ModelRequest
    from planbench.runtime.agent_tools import ToolCaller
    from planbench.runtime.algorithm import Algorithm
    from planbench.runtime.budget import Ledger
    from planbench.runtime.recorded import Values
    from planbench.runtime.recorder import Recorder
    from planbench.runtime.run import Run
    from planbench.runtime.transcript import Transcript
    from planbench.tools import ToolRegistry

T = TypeVar("T")
VALUE_FIELDS = ("value", "artifact", "codec", "payload")
"""The fields of an event that keep a value."""


class Host(Protocol):
    """What an agent needs of whoever runs it."""

    @property
    def llm(self) -> ModelClient | None:
        """The model that is attached."""
        ...

    async def child(
        self,
        parent: Agent,
        run_id: str,
        algorithm: Algorithm,
        inputs: Mapping[str, Any],
        step_id: str,
    ) -> tuple[Run, asyncio.Task[None] | None]:
        """Start or resume a child run; gives its root task while it is at work."""
        ...

    def known(self, algorithm: Algorithm | str) -> Algorithm:
        """Register an algorithm, or find one by its name."""
        ...


class Agent:
    """The one way of an algorithm to the world, for one run.

    ``partial`` is the value of a run that does not come to its end: set it to the results
    so far. ``over`` says why calls are refused, once a limit of the budget is reached.
    """

    def __init__(
        self,
        run: Run,
        host: Host,
        ledger: Ledger,
        transcript: Transcript,
        tools: ToolCaller,
        values: Values,
        journal: Recorder | None,
    ) -> None:
        self.run = run
        self.ledger = ledger
        self.transcript = transcript
        self.partial: Any = None
        self.over: str | None = None
        self.stopped: PlanbenchError | None = None
        self._host = host
        self._tools = tools
        self._values = values
        self._journal = journal
        self._one_at_a_time = asyncio.Lock()
        self._at_work: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run_id

    # -- what an algorithm asks for ---------------------------------------------------

    async def complete(self, request: ModelRequest, *, known_by: Any = None) -> ModelReply:
        """Ask the engine's model.

        Raises ModelError when it gives no answer, ConfigurationError when there is none,
        and BudgetExceeded when a limit is reached, which ends the run. An answer on record
        is taken for the same ``known_by``, JSON data that is by default the messages,
        whatever else of the request has changed. Under a budget for calls one run asks one
        thing at a time.
        """
        with self._asking():
            if known_by is None:
                known_by = [message.model_dump(mode="json") for message in request.messages]
            asked = asked_digest(known_by)
            number, record = self.transcript.next_call(ev.LLM_CALLED, asked)
            await self._turn(None if record is None else record.place)
            if record is not None:
                return _reply_of(record.data)
            slot = self._one_at_a_time if self.ledger.bounds_calls else contextlib.nullcontext()
            async with slot:
                reply = await self._ask(request, {"call": number, "asked": asked})
            await self._kept()
            return reply

    async def call_tool(
        self, name: str, args: Mapping[str, Any], *, tools: ToolRegistry | None = None
    ) -> Any:
        """Call a tool of the engine, or one of ``tools``, and give its value; raises ToolError.

        A value that cannot be recorded as it is comes back as plain JSON data.
        """
        with self._asking():
            asked = asked_digest(name, args)
            number, record = self.transcript.next_call(ev.TOOL_CALLED, asked)
            await self._turn(None if record is None else record.place)
            if record is not None:
                if "error" in record.data:
                    raise recorded_error(name, record.data["error"])
                return await self._values.read(record.data)
            data: dict[str, Any] = {"call": number, "asked": asked, "tool": name}
            begun = monotonic()
            try:
                key = f"{self.run_id}:{asked}:{number}"
                value, cancelled = await self._tools.call(name, args, key, tools)
            except ToolError as error:
                self._answered(
                    ev.TOOL_CALLED, {**data, **_since(begun), "error": error_record(error)}
                )
                await self._kept()
                raise
            value = await self._note_value(ev.TOOL_CALLED, {**data, **_since(begun)}, value)
            if cancelled is not None:
                raise cancelled
            await self._kept()
            return value

    async def child(
        self, algorithm: Algorithm | str, inputs: Mapping[str, Any], *, step_id: str
    ) -> Outcome:
        """Run an algorithm as a child run of its own, to its end, and give its Outcome.

        A child that fails, or is over the common budget, is told in the Outcome and not
        raised. Whoever is cancelled while waiting cancels the child. What it spends counts
        for this run too.
        """
        with self._asking():
            algorithm = self._host.known(algorithm)
            asked = asked_digest(algorithm.name, inputs)
            try:
                number, record = self.transcript.next_child(step_id, asked)
            except RunRefused as error:
                self.stopped = error
                raise
            if record is not None and record.ended is not None:
                await self._turn(record.place)
                return await self._recorded_outcome(record.ended)
            data = {"run_id": child_id(self.run_id, step_id, number), "step_id": step_id}
            await self._turn(None)
            if record is None:
                refusal = self.ledger.refusal()
                if refusal is not None:
                    self.refuse(refusal)
                    return Outcome("budget_exceeded", lambda: None, refusal, Usage())
                self._note(ev.CHILD_STARTED, {**data, "algorithm": algorithm.name, "asked": asked})
                await self._kept()
            outcome = await self._lived(algorithm, inputs, data)
            await self._kept()
            return outcome

    def has_begun(self, step_id: str) -> bool:
        """Whether a child of the step, that was not asked for yet since, is on record."""
        return self.transcript.has_begun(step_id)

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell in the journal what the algorithm does: its plan, its steps, or events of your own.

        ``plan.created`` and ``plan.revised`` carry ``steps``, ``task.*`` a ``step_id``. What
        is on record already is not told again. Raises ConfigurationError for data that is
        no JSON and for events that are the engine's own.
        """
        check_told(kind, data, self.run.state)
        try:
            plain = orjson.loads(orjson.dumps(as_utf8(data)))
        except (TypeError, orjson.JSONEncodeError) as error:
            raise ConfigurationError(f"the data of event {kind!r} is no JSON: {error}") from error
        if not self.transcript.has_told(kind, plain):
            self._note(kind, plain)

    # -- for whoever runs it ----------------------------------------------------------

    async def perform(self, algorithm: Algorithm, inputs: Mapping[str, Any]) -> Any:
        """Run an algorithm; what it left at work is cancelled and awaited at its end."""
        try:
            return await algorithm.run(self, inputs)
        finally:
            self._closed = True
            await self._settle()

    async def fields_of(self, value: Any) -> tuple[dict[str, Any], Any]:
        """Give the fields of an event that keep a value, and the value as it will come back."""
        return await self._values.write(value)

    def refuse(self, why: str) -> None:
        """Note that the budget of the run is used up; what is asked from now on is refused."""
        if self.over is None:
            self.over = why
            self._note(ev.BUDGET_EXCEEDED, {"reason": why, **self.ledger.spent.to_dict()})

    # -- inside -----------------------------------------------------------------------

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        if self._closed:
            raise RuntimeError(f"run {self.run_id} has ended, and its algorithm asks for more")
        if self.stopped is not None:
            raise self.stopped
        task = asyncio.current_task()
        if task is None or task is self.run.root or task in self._at_work:
            yield
            return
        self._at_work.add(task)
        try:
            yield
        finally:
            self._at_work.discard(task)

    async def _turn(self, place: int | None) -> None:
        """Wait for the turn of an answer; a record that does not fit stops the whole tree of runs."""
        try:
            await self.transcript.turn(place)
        except RunRefused as error:
            self.stopped = error
            raise

    async def _ask(self, request: ModelRequest, data: dict[str, Any]) -> ModelReply:
        llm = self._host.llm
        if llm is None:
            raise ConfigurationError(
                "there is no model to ask: LLMHandler(client).attach(engine) gives one",
                hint='a client may be a name too: LLMHandler("ollama:llama3.2:3b")',
            )
        try:
            self.ledger.check()
        except BudgetExceeded as error:
            self.refuse(error.message)
            raise
        check_priced(self.ledger.budget, llm, iter([request.model]))
        begun = monotonic()
        try:
            reply = sound(await llm.complete(request))
        except ModelError as error:
            failure = {"code": error.code, "message": error.message, "model": error.model}
            self._answered(ev.LLM_CALLED, {**data, **_since(begun), "error": failure})
            raise
        self.ledger.charge(reply.usage, reply.model or request.model)
        record = reply.model_dump(mode="json", exclude={"usage"})
        usage = Spend.of(reply.usage).to_dict()
        told = {"model": reply.model or request.model, "reply": record, "usage": usage}
        self._answered(ev.LLM_CALLED, {**data, **_since(begun), **told})
        return reply

    async def _lived(
        self, algorithm: Algorithm, inputs: Mapping[str, Any], data: dict[str, Any]
    ) -> Outcome:
        """See a child run to its end and record it, also when this run is cancelled meanwhile."""
        try:
            child, root = await self._host.child(
                self, data["run_id"], algorithm, inputs, data["step_id"]
            )
        except (RunRefused, StoreError) as error:
            self.stopped = error
            raise
        cancelled: asyncio.CancelledError | None = None
        while root is not None and not root.done():
            try:
                await asyncio.wait([root])
            except asyncio.CancelledError as error:
                cancelled = error
                child.cancel()
        agent = child.state.agent
        assert agent is not None
        ended = {name: agent.ended[name] for name in VALUE_FIELDS if name in agent.ended}
        spent = {"usage": agent.spent.to_dict(), "seconds": round(child.state.seconds, 6)}
        status, reason = child.state.status, child.state.reason
        told = {**data, "status": status, "reason": reason, **ended, **spent}
        self._answered(ev.CHILD_FINISHED, told)
        failure = None if root is None or root.cancelled() else root.exception()
        if cancelled is not None:
            raise cancelled
        if failure is not None:
            if isinstance(failure, PlanbenchError):
                self.stopped = failure
            raise failure
        if status == "budget_exceeded":
            self.refuse(reason or "the budget is used up")
        outcome = child.outcome()
        return outcome if child.value_given is not None else await self._recorded_outcome(told)

    async def _recorded_outcome(self, data: Mapping[str, Any]) -> Outcome:
        value = await self._values.read(data)
        usage = Usage(*Spend.from_dict(data["usage"]), seconds=data.get("seconds", 0.0))
        return Outcome(data["status"], lambda: value, data.get("reason"), usage)

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        self.run.emit(kind, data)

    def _answered(self, kind: str, data: dict[str, Any]) -> None:
        """Record an answer, and how much had been asked when it came."""
        self._note(kind, {**data, "asks": self.transcript.asks})

    async def _note_value(self, kind: str, data: dict[str, Any], value: Any) -> Any:
        """Record what was given; a cancellation waits until it is on record."""
        (fields, value), cancelled = await uninterrupted(self._values.write(value))
        self._answered(kind, {**data, **fields})
        if cancelled is not None:
            raise cancelled
        return value

    async def _kept(self) -> None:
        """Wait until the store has it, and until all that was answered earlier has been given."""
        if self._journal is not None:
            await self._journal.kept()
        await self._turn(None)

    async def _settle(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while left := {task for task in self._at_work if not task.done()}:
            for task in left:
                task.cancel()
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled


async def uninterrupted(
    work: Coroutine[Any, Any, T],
) -> tuple[T, asyncio.CancelledError | None]:
    """Do something to its end, and give the cancellation that came meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    return task.result(), cancelled


def child_id(parent: str, step_id: str, number: int) -> str:
    """Name the run of a step: the same name again when the step goes on in another process."""
    text = f"{parent}\n{step_id}\n{number}".encode("utf-8", "surrogatepass")
    return f"run_{hashlib.sha256(text).hexdigest()[:12]}"


def _reply_of(record: Mapping[str, Any]) -> ModelReply:
    if "error" in record:
        error = record["error"]
        raise ModelError(error["code"], error["message"], model=error["model"])
    return ModelReply.model_validate(record["reply"])


def _since(begun: float) -> dict[str, float]:
    return {"seconds": round(monotonic() - begun, 6)}
