"""Chat completions as JSON: what is sent, and what an endpoint sends back, whole or in pieces."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from planbench.llm.arguments import read_arguments
from planbench.llm.client import STOP, TOOL_CALLS, Message, ModelReply, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.errors import ModelError
    from planbench.llm.client import ModelRequest, ReplySchema

Form = Literal["json_schema", "json_object", "text"]

_WEAKER: Final[dict[Form, Form]] = {"json_schema": "json_object", "json_object": "text"}
_FIELDS: Final = ("max_tokens", "max_completion_tokens")
_REFUSED: Final = (400, 422)
_NOT_FOUND: Final = 404
_FAILED: Final = 500
_OF_FORM: Final = ("response_format", "schema", "grammar", "structured")
# what another form of the request does not mend
_OTHER_CAUSES: Final = frozenset(
    {"context_length_exceeded", "content_filter", "model_not_found", "invalid_api_key"}
)
_CHOICES: Final = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class Manner:
    """How an endpoint wants to be asked, as far as is known."""

    form: Form = "json_schema"
    max_tokens_field: str = "max_tokens"
    streams_usage: bool = True
    is_turned: bool = False

    def after(self, error: ModelError, body: Mapping[str, Any]) -> Manner | None:
        """Give the next manner to try after a refusal; None where the manner is not the cause."""
        text = error.message.lower()
        if error.status not in _REFUSED:
            is_of_form = "response_format" in body and any(word in text for word in _OF_FORM)
            # a router answers "not found" when none of its endpoints knows the form
            if not is_of_form or ((error.status or 0) < _FAILED and error.status != _NOT_FOUND):
                return None
        elif error.detail in _OTHER_CAUSES:
            return None
        elif self.max_tokens_field in body and not self.is_turned and self.max_tokens_field in text:
            other = _FIELDS[self.max_tokens_field == _FIELDS[0]]
            return replace(self, max_tokens_field=other, is_turned=True)
        elif "stream_options" in body and "stream_options" in text:
            return replace(self, streams_usage=False)
        if "response_format" in body and self.form in _WEAKER:
            return replace(self, form=_WEAKER[self.form])
        return None


def body_of(
    request: ModelRequest, model: str, manner: Manner, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a request as an endpoint wants it; ``options`` are fields that hold unless asked otherwise."""
    body: dict[str, Any] = {
        **options,
        "model": model,
        "messages": [_message(message) for message in request.messages],
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    most = body.pop("max_tokens", None) if request.max_tokens is None else request.max_tokens
    if most is not None:
        body.pop("max_tokens", None)
        body[manner.max_tokens_field] = most
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
    if request.schema is not None and manner.form != "text":
        body["response_format"] = _format(request.schema, manner.form)
    if request.on_text is not None:
        body["stream"] = True
        if manner.streams_usage:
            body["stream_options"] = {"include_usage": True}
    return {key: as_utf8(value) for key, value in body.items()}


def as_utf8(value: Any) -> Any:
    """Give JSON data whose texts can be sent: what is half of a surrogate pair becomes ``?``."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {as_utf8(key): as_utf8(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_utf8(item) for item in value]
    return value


def _message(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        written["name"] = message.name
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        written["content"] = message.content or None
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return written


def _choice(choice: str) -> Any:
    return choice if choice in _CHOICES else {"type": "function", "function": {"name": choice}}


def _format(schema: ReplySchema, form: Form) -> dict[str, Any]:
    if form == "json_object":
        return {"type": form}
    inner = {"name": schema.name, "schema": schema.schema, "strict": schema.strict}
    return {"type": form, "json_schema": inner}


def reply_of(data: Mapping[str, Any]) -> ModelReply:
    """Read a completion; what is missing or of another type is left out, never guessed."""
    choices = data.get("choices")
    choice = _map(choices[0]) if isinstance(choices, list) and choices else {}
    message = _map(choice.get("message"))
    calls = message.get("tool_calls")
    made = _apart(
        [_call(_map(call), i) for i, call in enumerate(calls if isinstance(calls, list) else ())]
    )
    return ModelReply(
        content=_text(message.get("content")),
        tool_calls=made,
        finish_reason=_text(choice.get("finish_reason")) or (TOOL_CALLS if made else STOP),
        refusal=_text(message.get("refusal")) or None,
        usage=usage_of(data.get("usage")),
        model=_text(data.get("model")) or None,
    )


def usage_of(data: Any) -> Usage:
    """Read what a call took; some providers state its cost beside the tokens."""
    if not isinstance(data, dict):
        return Usage(reported=False)
    cost = data.get("cost")
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    is_cost = (
        isinstance(cost, int | float)
        and not isinstance(cost, bool)
        and math.isfinite(cost)
        and cost >= 0
    )
    return Usage(
        input_tokens=_number(data.get("prompt_tokens")),
        output_tokens=_number(data.get("completion_tokens")),
        cost=float(cost) if is_cost and cost is not None else None,
    )


def _apart(calls: list[ToolCall]) -> tuple[ToolCall, ...]:
    """Give calls of one answer ids of their own: endpoints refuse two results with one id."""
    taken: set[str] = set()
    made = []
    for call in calls:
        name, number = call.id, 1
        while name in taken:
            number += 1
            name = f"{call.id}_{number}"
        taken.add(name)
        made.append(call if name == call.id else call.model_copy(update={"id": name}))
    return tuple(made)


def _joined(pieces: list[str]) -> str:
    """Put pieces together, and the halves of a surrogate pair that came in two of them."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _call(call: Mapping[str, Any], position: int) -> ToolCall:
    function = _map(call.get("function"))
    arguments, error = read_arguments(function.get("arguments"))
    return ToolCall(
        id=_text(call.get("id")) or f"call_{position}",
        name=_text(function.get("name")),
        arguments=arguments,
        error=error,
    )


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """Give a text, or the texts of its parts where an endpoint sends a list of them."""
    if isinstance(value, list):
        parts = [_map(part).get("text") for part in value]
        return "".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else 0


class Pieces:
    """Puts the pieces of a streamed answer together."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, list[dict[str, str]]] = {}
        self._finish: str | None = None
        self._usage: Any = None
        self._model: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the endpoint said why the answer ended; if not, it broke off."""
        return self._finish is not None

    def add(self, data: Mapping[str, Any]) -> str:
        """Take the next piece and give the text that is new in it."""
        self._model = _text(data.get("model")) or self._model
        self._usage = data.get("usage") or self._usage
        choices = data.get("choices")
        choice = _map(choices[0]) if isinstance(choices, list) and choices else {}
        self._finish = _text(choice.get("finish_reason")) or self._finish
        delta = _map(choice.get("delta"))
        self._refusal.append(_text(delta.get("refusal")))
        calls = delta.get("tool_calls")
        for i, call in enumerate(calls if isinstance(calls, list) else ()):
            self._add_call(_map(call), i)
        text = _text(delta.get("content"))
        self._content.append(text)
        return text

    def _add_call(self, call: dict[str, Any], position: int) -> None:
        index = call.get("index")
        here = self._calls.setdefault(index if isinstance(index, int) else position, [])
        function, new_id = _map(call.get("function")), _text(call.get("id"))
        # some servers give every call of an answer the same place: another id is another call
        if not here or (new_id and here[-1]["id"] not in ("", new_id)):
            here.append({"id": "", "name": "", "arguments": ""})
        known = here[-1]
        known["id"] = new_id or known["id"]
        known["name"] = known["name"] or _text(function.get("name"))
        written = function.get("arguments")
        if written is not None:
            known["arguments"] += written if isinstance(written, str) else json.dumps(written)

    def reply(self) -> ModelReply:
        """Give the whole answer."""
        calls = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for _, here in sorted(self._calls.items())
            for call in here
        ]
        message = {
            "content": _joined(self._content),
            "refusal": _joined(self._refusal),
            "tool_calls": calls,
        }
        choice = {"message": message, "finish_reason": self._finish}
        return reply_of({"choices": [choice], "usage": self._usage, "model": self._model})
