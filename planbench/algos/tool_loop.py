"""The usual loop: the model calls tools until it has an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from planbench.algos.asking import (
    asks_for_calls,
    checked_model,
    checked_prompt,
    checked_task,
    text_of,
)
from planbench.errors import AlgorithmFailed, ConfigurationError, ToolError
from planbench.llm.client import Message, ModelRequest, ToolSpec
from planbench.plan.source import shown
from planbench.runtime.recorded import as_text
from planbench.validation import registry_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.llm.client import ToolCall
    from planbench.runtime.agent import Agent
    from planbench.tools import ToolRegistry

MAX_TURNS: Final = 20
MAX_RESULT: Final = 50_000
"""Characters of one result that the model is shown."""
SYSTEM: Final = """You do a task with the tools that you are given. Call a tool whenever it can find out or do
what you need; call several at once when none of them needs another's result. When a call
fails, read why, and try otherwise or say what is missing. When you are done, answer with
the result itself, in as few words as it needs."""


class ToolLoop:
    """Asks the model, runs the tools that it calls, and shows it the results until it answers.

    ``tools`` are what the model may call: a registry, or a list of functions and tools. An
    engine's own tool of the same name goes before. ``model`` is the name of a model for
    the engine's client; None is the client's own. Calls of one turn run side by side, and
    what a tool raises is told to the model. The value is ``{"text": answer}``; a run without
    an answer after ``max_turns`` calls of the model fails. Inputs: ``{"task": text}``.
    """

    def __init__(
        self,
        tools: ToolRegistry | Iterable[Any] = (),
        *,
        model: str | None = None,
        name: str = "tool_loop",
        system: str = SYSTEM,
        max_turns: int = MAX_TURNS,
    ) -> None:
        if type(max_turns) is not int or max_turns < 1:
            raise ConfigurationError(f"max_turns is a number from 1 on, not {shown(max_turns)}")
        self.registry = registry_of(tools)
        self.model = checked_model(model)
        self.name = name
        self.system = checked_prompt("system", system)
        self.max_turns = max_turns

    def __repr__(self) -> str:
        return f"<ToolLoop {self.name!r} over {self.registry!r}>"

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Raise ConfigurationError for inputs without a task."""
        checked_task(inputs)

    async def run(self, agent: Agent, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Do the task; raises AlgorithmFailed when the model comes to no answer."""
        messages = [
            Message(role="system", content=self.system),
            Message(role="user", content=checked_task(inputs)),
        ]
        for _ in range(self.max_turns):
            tools = [ToolSpec.of(one) for one in self.registry.list_tools()]
            request = ModelRequest(messages=messages, model=self.model, tools=tools)
            reply = await agent.complete(request)
            if not asks_for_calls(reply):
                return {"text": text_of(reply)}
            results = await asyncio.gather(*(self._called(agent, one) for one in reply.tool_calls))
            messages = [*messages, reply.message, *results]
        turns = "turn" if self.max_turns == 1 else "turns"
        raise AlgorithmFailed(f"no answer after {self.max_turns} {turns} of the model")

    async def _called(self, agent: Agent, call: ToolCall) -> Message:
        """Make one call and give what the model is told of it."""
        if call.error is not None:
            text = f"error: nothing was called: {call.error}"
        else:
            try:
                value = await agent.call_tool(call.name, call.arguments, tools=self.registry)
            except ToolError as error:
                text = f"error: {error}"
            else:
                text = as_text(value)
        if len(text) > MAX_RESULT:
            text = f"{text[:MAX_RESULT]}\n... cut: {len(text)} characters in all"
        return Message(role="tool", content=text, tool_call_id=call.id, name=call.name)
