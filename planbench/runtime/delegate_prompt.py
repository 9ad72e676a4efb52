"""What the model of a delegate is told: its task, its tools, and refs of what was stored, never a body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.llm.client import Message, ToolSpec
from planbench.plan.placeholders import Scope, Template, as_text
from planbench.runtime.output import as_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from planbench.runtime.standing import NodeState
    from planbench.tools import Tool

SYSTEM: Final = """You choose one tool call for a task. You see the task, the tools, and what earlier steps \
left: a reference with small facts for each of them, never the data itself.
Answer with exactly one tool call. To hand the data of an earlier step to a tool, give the text \
{artifacts.<id>} with the id of that step as the argument: the data takes its place when the tool is called.
If no tool fits the task, call the tool <none> and say why."""

SHOWN_KEYS: Final = 5
_NAMES_OF_NONE: Final = ("none", "no_tool_fits", "none_of_these_tools")
_TEXTS: Final = frozenset({"string"})


def none_of(tools: Iterable[Tool]) -> str:
    """Give the name of the tool that says that none fits: one that no other tool has."""
    taken = {tool.name for tool in tools}
    free = [name for name in _NAMES_OF_NONE if name not in taken]
    return free[0] if free else "_".join(sorted(taken, key=len)[-1:]) + "_none"


def handle(node_id: str) -> str:
    """Write how a result is named; what stands for it is put in at the call."""
    return f"{{artifacts.{node_id}}}"


def shown_ref(state: NodeState) -> dict[str, Any]:
    """Give the ref of a node as a model sees it: facets and counts, no body and no text of a tool."""
    ref = state.ref()
    shown: dict[str, Any] = {"id": ref.node_id, "status": ref.status}
    if has_body(state):
        shown |= {"data": handle(ref.node_id), "type": ref.entry_type, "bytes": ref.bytes_stored}
        shown["keys"] = ref.keys[:SHOWN_KEYS]
    if ref.item_count is not None:
        shown |= {"items_ok": ref.item_count, "items_failed": state.failed}
    return {**shown, "facets": ref.facets}


def has_body(state: NodeState) -> bool:
    """Whether a node left a result that can be handed to a tool."""
    return state.status in ("ok", "partial")


class Instruction:
    """The instruction of a delegate, compiled once.

    A ref stands where ``{nodes.<id>.output}`` is written. ``{artifacts.<id>}`` stays as it
    is written: it is how the model names a result whose body it never sees.
    """

    def __init__(self, text: str) -> None:
        self._template = Template(text, items=False)

    def filled(self, ref: Callable[[str], Any]) -> str:
        """Give the text for the model."""
        return as_text(self._template.resolve(Scope(handle, ref)))


def task_text(instruction: str, refs: Iterable[Mapping[str, Any]]) -> str:
    """Write what the model is asked, with a line for each earlier step."""
    lines = [as_text(dict(ref)) for ref in refs]
    steps = "\n".join(lines) if lines else "(there are none)"
    return as_utf8(f"Task:\n{instruction}\n\nEarlier steps:\n{steps}")


def first_messages(task: str, none: str) -> list[Message]:
    """Give the messages of the first question."""
    system = SYSTEM.replace("<none>", none)
    return [Message(role="system", content=system), Message(role="user", content=task)]


def specs_of(
    tools: Iterable[Tool], set_by_plan: Iterable[str], handles: list[str], none: str
) -> list[ToolSpec]:
    """Describe the tools without the arguments that the plan sets, and the one that says none fits.

    An argument that is no text takes the name of a result beside its own type, so that
    servers which hold a model to the schema let it hand a result over.
    """
    hidden = frozenset(set_by_plan)
    specs = [
        ToolSpec(tool.name, tool.description, _parameters(tool.parameters, hidden, handles))
        for tool in tools
    ]
    reason = {"reason": {"type": "string", "description": "Why no tool fits."}}
    schema = {"type": "object", "properties": reason, "required": ["reason"]}
    return [*specs, ToolSpec(none, "No tool fits the task: call nothing.", schema)]


def _parameters(
    schema: dict[str, Any], hidden: frozenset[str], handles: list[str]
) -> dict[str, Any]:
    properties = {
        name: _argument(inner, handles)
        for name, inner in schema.get("properties", {}).items()
        if name not in hidden
    }
    shown = {**schema, "properties": properties}
    if "required" in schema:
        shown["required"] = [name for name in schema["required"] if name not in hidden]
    return shown


def _argument(schema: Any, handles: list[str]) -> Any:
    if not handles or not isinstance(schema, dict) or not schema or _is_text(schema):
        return schema
    outer = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in outer}
    if not inner:
        return schema  # takes anything, and so a text too
    return {**outer, "anyOf": [inner, {"type": "string", "enum": handles}]}


def _is_text(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind}
    return bool(kinds & _TEXTS) and "enum" not in schema
