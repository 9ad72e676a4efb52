"""A model that is a function: for tests, examples, and runs without a network."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from planbench.errors import ConfigurationError
from planbench.llm.client import TOOL_CALLS, ModelReply, ModelRequest, ToolCall, Usage

Answer = ModelReply | str
Answers = Callable[[ModelRequest], Answer | Awaitable[Answer]]

_ids = itertools.count(1)


class FakeLLMClient:
    """Answers with what ``fn`` gives for the request: ``text(...)``, ``tool_call(...)`` or a str.

    ``fn`` may be async. ``requests`` holds all that was asked, oldest first. With
    ``reports_cost`` the costs written in the replies count as the provider's own figures.
    """

    def __init__(self, fn: Answers, *, model: str = "fake", reports_cost: bool = False) -> None:
        if not callable(fn):
            raise ConfigurationError(
                f"FakeLLMClient takes a function of the request, not {type(fn).__name__}",
                hint='write: FakeLLMClient(lambda request: text("..."))',
            )
        self.model = model
        self.reports_cost = reports_cost
        self.requests: list[ModelRequest] = []
        self._fn = fn

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Give the function's answer; what it raises is raised here."""
        self.requests.append(request)
        answer = self._fn(request)
        if inspect.isawaitable(answer):
            answer = await answer
        reply = text(answer) if isinstance(answer, str) else answer
        if not isinstance(reply, ModelReply):
            raise ConfigurationError(
                f"the function of FakeLLMClient gave {type(answer).__name__}, which is no reply",
                hint='return text("...") or tool_call("name", key=value)',
            )
        if reply.model is None:
            reply = reply.model_copy(update={"model": request.model or self.model})
        if request.on_text is not None and reply.content:
            said = request.on_text(reply.content)
            if inspect.isawaitable(said):
                await said
        return reply

    def __repr__(self) -> str:
        return f"<FakeLLMClient {self.model!r}, asked {len(self.requests)} times>"


def text(
    content: str,
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cost: float | None = None,
    finish_reason: str = "stop",
    refusal: str | None = None,
) -> ModelReply:
    """Make a reply of text."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)
    return ModelReply(content=content, finish_reason=finish_reason, refusal=refusal, usage=usage)


def tool_call(name: str, /, **arguments: Any) -> ModelReply:
    """Make a reply that asks for one call; every keyword is an argument of the tool."""
    call = ToolCall(id=f"call_{next(_ids)}", name=name, arguments=arguments)
    return ModelReply(tool_calls=(call,), finish_reason=TOOL_CALLS)


def together(
    *replies: ModelReply,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cost: float | None = None,
) -> ModelReply:
    """Join replies to one: its texts, all its calls, and what it took."""
    calls = tuple(call for reply in replies for call in reply.tool_calls)
    return ModelReply(
        content="".join(reply.content for reply in replies),
        tool_calls=calls,
        finish_reason=TOOL_CALLS if calls else "stop",
        usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost=cost),
    )
