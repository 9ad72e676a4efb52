"""A delegate node: a model chooses one call, which is checked and made as any other.

The model sees the instruction, the tools, and the refs and facets of the nodes that the
delegate waits for. A result is handed on by its name, ``{artifacts.<id>}``, and put in here.
"""

from __future__ import annotations

import asyncio
import copy
import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from planbench import events as ev
from planbench.errors import ModelError, PlaceholderError, ToolArgumentsInvalid
from planbench.llm.arguments import sound
from planbench.llm.client import ModelRequest
from planbench.plan.placeholders import Placeholder, Template, near_misses, scan, walk
from planbench.runtime.budget import Spend
from planbench.runtime.choices import takes
from planbench.runtime.conditions import Refused
from planbench.runtime.delegate_answer import (
    Abstained,
    DelegateFailed,
    Wrong,
    correction,
    read_answer,
    recordable,
)
from planbench.runtime.delegate_prompt import (
    Instruction,
    first_messages,
    handle,
    has_body,
    none_of,
    shown_ref,
    specs_of,
    task_text,
)
from planbench.runtime.digests import digest_of
from planbench.runtime.node import CallTimedOut, error_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.llm.client import Message, ModelReply, ToolCall, ToolSpec
    from planbench.plan.placeholders import Scope
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.delegates import Asking
    from planbench.runtime.room import Held
    from planbench.runtime.scheduler import Scheduler
    from planbench.tools import Tool

ROUNDS: Final = 2
"""Answers that a model may give for one choice: the first and its correction."""
MAX_PROBLEMS: Final = 10
_RESULTS: Final = ("artifacts", "nodes")


class Chosen(NamedTuple):
    """A call that a model chose, found valid: the node as one that calls this tool, and its arguments."""

    node: CompiledNode
    kwargs: dict[str, Any]


class Delegate:
    """One delegate of one run: it stands where the function of a tool stands.

    ``called`` says whether the chosen tool was called, rather than only a model asked.
    """

    def __init__(
        self, asking: Asking, sched: Scheduler, node: CompiledNode, tools: tuple[Tool, ...]
    ) -> None:
        self._asking = asking
        # A scheduler that is let go is freed at once, which a way back to it would prevent.
        self._sched: Scheduler = weakref.proxy(sched)
        self._plain = node
        self._tools = {tool.name: tool for tool in tools}
        self._none = none_of(tools)
        self._instruction = Instruction(node.node.instruction or "")
        self._held: Held | None = None
        self.called = False
        self.node = copy.copy(node)
        self.node.delegate = self
        self.node.resolve = self._question
        self.node.validate = _as_they_are
        self.node.function = self._call
        self.node.simple = True  # limits and tries are kept here, for the model and for the tool

    def _question(self, scope: Scope) -> dict[str, Any]:
        """Give what the model is asked, and the arguments that the plan sets itself."""
        states = self._sched.run.state.nodes
        needs = self._plain.node.depends_on
        text = self._instruction.filled(lambda name: shown_ref(states[name]))
        task = task_text(text, (shown_ref(states[name]) for name in needs))
        secrets = self._sched.run.secrets
        task = task if secrets is None else secrets.mask(task)
        return {"task": task, "args": self._plain.resolve(scope)}

    async def _call(self, task: str, args: dict[str, Any]) -> Any:
        sched = self._sched
        try:
            chosen = await self._choose(task, args)
            self.node.tool, self.node.tool_name = chosen.node.tool, chosen.node.tool_name
            if sched.journal is not None:
                await sched.journal.kept()  # the choice is on record before it does anything
            self.called = True
            return await sched.caller.call(chosen.node, chosen.kwargs)
        finally:
            if sched.room is not None:
                sched.room.give_back(self._held)

    # -- asking -----------------------------------------------------------------------

    async def _choose(self, task: str, args: dict[str, Any]) -> Chosen:
        """Ask under the node's limit and retry policy; an answer that is no call is not asked for again."""
        node, run = self._plain, self._sched.run
        attempt = 1
        while True:
            try:
                return await self._in_time(task, args)
            except (ModelError, CallTimedOut) as error:
                if attempt >= node.attempts:
                    raise
                told = error_text(error, secrets=run.secrets)
            wait = node.backoff * attempt
            data = {"node_id": node.id, "attempt": attempt, "error": told, "wait": wait, "calls": 0}
            run.emit(ev.NODE_RETRIED, data)
            await asyncio.sleep(wait)
            attempt += 1

    async def _in_time(self, task: str, args: dict[str, Any]) -> Chosen:
        scope = asyncio.timeout(self._plain.timeout)
        try:
            async with scope:
                return await self._asked(task, args)
        except TimeoutError as error:
            if not scope.expired():
                raise
            text = f"TimeoutError: the model gave no call within {self._plain.timeout:g} s"
            raise CallTimedOut(text) from error

    async def _asked(self, task: str, args: dict[str, Any]) -> Chosen:
        specs = specs_of(self._tools.values(), args, self._handles(), self._none)
        messages = first_messages(task, self._none)
        problem = ""
        for number in range(1, ROUNDS + 1):
            reply = await self._ask(messages, specs, number)
            answer = read_answer(reply, self._tools, self._none)
            if isinstance(answer, Abstained):
                raise Refused(answer.reason, {})
            found = answer if isinstance(answer, Wrong) else await self._checked(answer, args)
            if isinstance(found, Chosen):
                return found
            problem = found.problem
            messages = [*messages, *correction(reply, problem)]
        raise DelegateFailed(f"no valid tool call, also after a correction: {problem}")

    async def _ask(self, messages: list[Message], specs: list[ToolSpec], number: int) -> ModelReply:
        asking = self._asking
        run = self._sched.run
        async with asking.slot:
            asking.check(run)
            asked = digest_of([message.model_dump(mode="json") for message in messages])
            data: dict[str, Any] = {"node_id": self._plain.id, "round": number, "digest": asked}
            began = monotonic()
            try:
                request = ModelRequest(messages=messages, tools=specs)
                reply = sound(await asking.llm.complete(request))
            except ModelError as error:
                failure = {"code": error.code, "message": error.message}
                seconds = round(monotonic() - began, 6)
                told = {**data, "model": error.model, "seconds": seconds, "error": failure}
                run.emit(ev.LLM_CALLED, told)
                raise
            asking.ledger.charge(reply.usage, reply.model)
        calls = [{"tool": call.name, "args": call.arguments} for call in reply.tool_calls]
        data |= {
            "model": reply.model,
            "finish_reason": reply.finish_reason,
            "usage": Spend.of(reply.usage).to_dict(),
            "seconds": round(monotonic() - began, 6),
            "tool_calls": self._recordable(calls),
        }
        run.emit(ev.LLM_CALLED, data)
        return reply

    def _handles(self) -> list[str]:
        states = self._sched.run.state.nodes
        needs = self._plain.node.depends_on
        return [handle(need) for need in needs if has_body(states[need])]

    # -- checking ---------------------------------------------------------------------

    async def _checked(self, call: ToolCall, args: dict[str, Any]) -> Chosen | Wrong:
        """Check a call as that of a plan is checked; a call that is valid goes on record."""
        sched, tool = self._sched, self._tools[call.name]
        mine = {name: value for name, value in args.items() if takes(tool, name)}
        problems = list(self._problems(call.arguments, mine))
        if problems:
            return Wrong("; ".join(problems[:MAX_PROBLEMS]))
        try:
            template = Template(call.arguments, items=False)
        except PlaceholderError as error:
            return Wrong(error.message)
        reads = [piece.name for piece in template.placeholders if piece.family == "artifacts"]
        if sched.room is not None:
            sched.room.give_back(self._held)
            self._held = await sched.room.hold(dict.fromkeys(reads))
        try:
            kwargs = tool.validate({**template.resolve(sched.scope), **mine})
        except (PlaceholderError, ToolArgumentsInvalid) as error:
            return Wrong(error.message)
        node = copy.copy(self._plain)
        node.tool, node.tool_name = tool, tool.name
        node.function, node.is_async = tool.function, tool.is_async
        written = self._recordable(call.arguments)
        node.arg_reads = tuple(dict.fromkeys((*node.arg_reads, *reads)))
        node.written = orjson.dumps([tool.name, written, node.written.decode()])
        digest = sched.values.digest(node, kwargs, None)
        if tool.wants_idempotency_key:
            kwargs["idempotency_key"] = sched.run.call_key(node.id)
        told = {"node_id": node.id, "tool": tool.name, "args": written, "digest": digest}
        sched.run.emit(ev.TOOL_CALLED, told)
        return Chosen(node, kwargs)

    def _problems(self, args: dict[str, Any], mine: dict[str, Any]) -> Iterator[str]:
        """Say what is wrong with the arguments as they are written, before anything is put in."""
        for name in args:
            if name in mine:
                yield f"the argument {name!r} is set by the plan: leave it out"
        handles = self._handles()
        known = f"write one of {', '.join(handles)}" if handles else "there is none"
        for _, text in walk(args):
            for piece in scan(text):
                if not isinstance(piece, Placeholder) or piece.family in ("item", "index"):
                    continue
                if piece.family not in _RESULTS:
                    yield f"{piece.text} is not given to a delegate"
                elif handle(piece.name) not in handles:
                    yield f"{piece.text} is no result of a step before this one: {known}"
            for miss in near_misses(text):
                yield f"{miss} names no result: {known}"

    def _recordable(self, value: Any) -> Any:
        secrets = self._sched.run.secrets
        written = recordable(value)
        return written if secrets is None else secrets.clean(written)


def _as_they_are(args: dict[str, Any]) -> dict[str, Any]:
    return args
