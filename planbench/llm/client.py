"""What is asked of a model and what comes back, whoever serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.tools import Tool

Role = Literal["system", "user", "assistant", "tool"]
OnText = Callable[[str], Awaitable[None] | None]

STOP: Final = "stop"
LENGTH: Final = "length"
TOOL_CALLS: Final = "tool_calls"
CONTENT_FILTER: Final = "content_filter"


class _Record(BaseModel):
    """The base of what a journal may keep: frozen, and exact about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_Record):
    """One call that a model asks for.

    ``error`` says why ``arguments`` is empty where the model sent what is no JSON object;
    whoever runs the call tells the model so and calls nothing.
    """

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    error: str | None = None


class Message(_Record):
    """One turn of a conversation; a result of a tool names its ``tool_call_id``."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


class Usage(_Record):
    """What calls took: tokens, and the cost in the currency of the prices.

    ``cost`` is None where nobody gave a price. ``reported`` is False when an endpoint
    said nothing about a call: its tokens are then missing from the numbers.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    reported: bool = True

    def __add__(self, other: Usage) -> Usage:
        costs = (self.cost, other.cost)
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=None if None in costs else sum(cost for cost in costs if cost is not None),
            reported=self.reported and other.reported,
        )


FREE: Final = Usage(cost=0.0)
"""The sum of no calls."""


class ModelReply(_Record):
    """What a model answered.

    ``finish_reason`` is the endpoint's word: ``stop``, ``length``, ``tool_calls``,
    ``content_filter``, or another. ``model`` is the one that answered, where it is told.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = STOP
    refusal: str | None = None
    usage: Usage = Field(default_factory=Usage)
    model: str | None = None

    @property
    def message(self) -> Message:
        """The reply as a turn of the conversation."""
        return Message(role="assistant", content=self.content, tool_calls=self.tool_calls)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; ``parameters`` is JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Describe a tool of a registry."""
        return cls(tool.name, tool.description, tool.parameters)


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The form that an answer should have; ``strict`` asks an endpoint to enforce it to the letter."""

    name: str
    schema: dict[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model.

    ``model`` None means the client's own. ``tool_choice`` is ``auto``, ``none``,
    ``required`` or the name of a tool. With ``on_text`` the answer is streamed: the
    callback, sync or async, gets each piece of text as it comes, and the reply is whole
    all the same.
    """

    messages: Sequence[Message]
    model: str | None = None
    tools: Sequence[ToolSpec] = ()
    tool_choice: str | None = None
    schema: ReplySchema | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    on_text: OnText | None = field(default=None, repr=False, compare=False)


class ModelClient(Protocol):
    """Anything that answers a request.

    It raises ModelError when no answer can be had, and is cancelled as any await is.
    """

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Give the answer of the model."""
        ...
