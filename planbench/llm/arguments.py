"""The arguments of a call that a model asks for: JSON that means one thing, or what is wrong with it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NoReturn

from planbench.plan.source import shown

if TYPE_CHECKING:
    from planbench.llm.client import ModelReply

MAX_DEPTH: Final = 100
"""Maps and lists within one another: a journal holds not many more."""
_SHOWN: Final = 200


def read_json(text: str) -> Any:
    """Read JSON to the letter; raises ValueError for numbers it has not and for keys given twice."""
    try:
        return json.loads(
            text, object_pairs_hook=_map, parse_constant=_no_number, parse_float=_number
        )
    except RecursionError:
        raise ValueError(_too_deep()) from None


def read_arguments(written: Any) -> tuple[dict[str, Any], str | None]:
    """Read arguments, JSON as text or as some servers send them, an object; else say what they are."""
    if isinstance(written, str):
        if not written.strip():
            return {}, None
        try:
            written = read_json(written)
        except ValueError as error:
            return {}, f"the arguments are no JSON: {str(error)[:_SHOWN]}"
    if written is None:
        return {}, None
    if not isinstance(written, dict):
        return {}, f"the arguments are no JSON object but {type(written).__name__}"
    fault = fault_of(written)
    return (written, None) if fault is None else ({}, f"the arguments are no JSON: {fault}")


def fault_of(arguments: Any) -> str | None:
    """Say why arguments would not be the same when they are read from a record; None where they are."""
    rest = [(arguments, 1)]
    while rest:
        value, depth = rest.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return f"{value} is no number in JSON"
        if not isinstance(value, dict | list | tuple):
            continue
        if depth > MAX_DEPTH:
            return _too_deep()
        if isinstance(value, dict):
            for key in value:
                if isinstance(key, str) and not _is_text(key):
                    return f"the key {shown(key)} is no text"
            value = value.values()
        rest += [(part, depth + 1) for part in value]
    return None


def sound(reply: ModelReply) -> ModelReply:
    """Give a reply as a journal can hold it: a call with arguments that it cannot is one with an error."""
    faults = [fault_of(call.arguments) for call in reply.tool_calls]
    if not any(faults):
        return reply
    calls = [
        call
        if fault is None
        else call.model_copy(
            update={"arguments": {}, "error": f"the arguments are no JSON: {fault}"}
        )
        for call, fault in zip(reply.tool_calls, faults, strict=True)
    ]
    return reply.model_copy(update={"tool_calls": tuple(calls)})


def _map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} is given twice")
            seen.add(key)
    return made


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep() -> str:
    return f"they are nested deeper than {MAX_DEPTH} levels"
