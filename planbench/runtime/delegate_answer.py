"""What the model of a delegate answered: one call, that none fits, or what is wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from planbench.llm.arguments import read_arguments, read_json
from planbench.llm.client import CONTENT_FILTER, LENGTH, Message, ToolCall
from planbench.llm.layout import after_thoughts
from planbench.runtime.output import as_utf8

if TYPE_CHECKING:
    from collections.abc import Collection

    from planbench.llm.client import ModelReply

MAX_RECORDED: Final = 10_000
"""Characters of a call's arguments that are put on record as they are."""
MAX_CALLS: Final = 8
MAX_NAME: Final = 200
MAX_TOLD: Final = 1_500
_SHOWN: Final = 20
_IN_TEXT: Final = re.compile(
    r"\s*(?:<tool_call>|```(?:json)?)?\s*(\{.*\})\s*(?:</tool_call>|```)?\s*", re.DOTALL
)
# a call as one model or the other writes it where its server does not read it
_BEGINS: Final = re.compile(
    r"""<tool_call>\s*(?:[{<]|\Z) | <function= | \[TOOL_CALLS\] | <\|python_tag\|>
      | \A(?:```\w*)?\s*\[?\s*\{\s*"
        (?: (?:name|arguments|parameters|function|tool|tool_calls)"\s*: | type"\s*:\s*"function )""",
    re.VERBOSE,
)
_OF_CALL: Final = frozenset({"name", "arguments", "parameters", "type", "id"})


class DelegateFailed(Exception):
    """Raised inside the runtime when a model gave no valid call; the text says what was wrong."""


class Abstained(NamedTuple):
    """No tool is to be called."""

    reason: str


class Wrong(NamedTuple):
    """An answer that cannot be used, and why."""

    problem: str


def read_answer(
    reply: ModelReply, names: Collection[str], none: str
) -> ToolCall | Abstained | Wrong:
    """Find the one call in an answer; raises DelegateFailed for one that was refused or filtered."""
    if reply.refusal or reply.finish_reason == "refusal":
        raise DelegateFailed(f"the model refused: {as_utf8(reply.refusal or reply.content)}")
    if reply.finish_reason == CONTENT_FILTER:
        raise DelegateFailed("the answer of the model was filtered")
    said = _said(reply.content)
    calls = reply.tool_calls or _in_text(said, {*names, none})
    if not calls:
        return _without_call(reply, said)
    if len(calls) > 1:
        return Wrong(f"the answer has {len(calls)} tool calls, and exactly one is wanted")
    call = calls[0]
    if call.error is not None:
        cut = "; the answer was cut off" if reply.finish_reason == LENGTH else ""
        return Wrong(f"{call.error}{cut}")
    if call.name == none:
        reason = call.arguments.get("reason")
        return Abstained(_reason(reason if isinstance(reason, str) else ""))
    if call.name not in names:
        known = ", ".join(list(names)[:_SHOWN])
        return Wrong(f"{call.name[:MAX_NAME]!r} is none of the tools that may be called: {known}")
    return call


def _without_call(reply: ModelReply, said: str) -> Abstained | Wrong:
    if reply.finish_reason == LENGTH:
        return Wrong("the answer was cut off before it held a tool call")
    if not said:
        return Wrong("the answer is empty: it has no tool call and no reason for none")
    if _BEGINS.search(said):  # it does not say that no tool fits
        return Wrong(
            "the text holds what begins as a call and cannot be read as one of these tools"
        )
    return Abstained(_reason(said))


def _reason(text: str) -> str:
    said = " ".join(as_utf8(text).split())
    return (
        f"the model chose no tool: {said}"
        if said
        else "the model chose no tool, and gave no reason"
    )


def _said(content: str) -> str:
    """Give the text of an answer without the reasoning before it."""
    begin = after_thoughts(content)
    return "" if begin is None else content[begin:].strip()


def _in_text(text: str, names: Collection[str]) -> tuple[ToolCall, ...]:
    """Read an answer that is a call written as JSON, as small models send it."""
    found = _IN_TEXT.fullmatch(text)
    if found is None:
        return ()
    try:
        value = read_json(found[1])
    except ValueError:
        return ()
    name = value.get("name")
    if not isinstance(name, str) or name not in names or set(value) - _OF_CALL:
        return ()
    arguments = value.get("arguments", value.get("parameters", {}))
    if not isinstance(arguments, dict):
        return ()
    arguments, fault = read_arguments(arguments)
    return (ToolCall(id="call_0", name=name, arguments=arguments, error=fault),)


def correction(reply: ModelReply, problem: str) -> list[Message]:
    """Give the messages that tell a model what was wrong with its answer."""
    text = f"That cannot be called: {problem[:MAX_TOLD]}\nAnswer with exactly one tool call."
    calls = reply.tool_calls
    if not 0 < len(calls) <= MAX_CALLS:
        said = Message(role="assistant", content=as_utf8(reply.content) or "(no answer)")
        return [said, Message(role="user", content=text)]
    told = [
        Message(role="tool", content=text, tool_call_id=call.id, name=call.name) for call in calls
    ]
    return [reply.message, *told]


def recordable(args: Any) -> Any:
    """Give arguments as a journal can hold them: as they are, or cut as text where they are too much."""
    try:
        text = orjson.dumps(args, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, RecursionError):
        return as_utf8(repr(args))[:MAX_RECORDED]
    if len(text) > MAX_RECORDED:
        return text.decode()[:MAX_RECORDED] + "..."
    return orjson.loads(text)
