"""The JSON Schema that an endpoint is given for a planner's answer.

It is sent with ``strict: false``, on purpose. ``args`` is a map that differs from tool
to tool, and the strict mode of OpenAI knows closed objects only. The ways around that
lose more than they bring: one closed object per tool leaves no place for a placeholder
where a number belongs and grows with the registry, and arguments as JSON inside of a text
are quoted twice, which models get wrong. An endpoint that enforces schemas enforces this one, open map and
all; wherever it is only advice, the check of the plan and its one correction do the rest.
But for the open maps and fields that may be left out it keeps to what strict mode and the
grammars of local servers know: no references, no patterns, no conditions, no defaults.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from planbench.llm.client import ReplySchema
from planbench.plan.json_schema import language_schema

KEYWORDS: Final = frozenset(
    {
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "anyOf",
        "additionalProperties",
        "description",
    }
)
HOSTS: Final = frozenset({"provenance", "requires"})
"""Fields of a plan that are not the model's to write."""

# what a planner does not write, by the part of the language it is in
_LEFT_OUT: Final = {
    "ExecutionPlan": HOSTS,
    "PlanNode": frozenset({"type", "instruction", "tools", "cache"}),
    "PlanMetadata": frozenset({"checkpoint", "durable"}),
    "ParamSpec": frozenset({"choices", "required"}),
}
_REQUIRED: Final = {"ExecutionPlan": ["name", "objective", "nodes"], "PlanNode": ["id", "tool"]}
_SCALARS: Final = ("string", "number", "boolean")


@cache
def plan_form() -> ReplySchema:
    """Give the form of a whole plan."""
    return ReplySchema("execution_plan", _plan())


@cache
def delta_form() -> ReplySchema:
    """Give the form of a repair: the nodes that replace those of the same id."""
    nodes = _plan()["properties"]["nodes"]
    schema = {
        "type": "object",
        "properties": {"nodes": {**nodes, "description": "The nodes to replace, whole."}},
        "required": ["nodes"],
        "additionalProperties": False,
    }
    return ReplySchema("plan_repair", schema)


def _plan() -> dict[str, Any]:
    language = language_schema(short_forms=False)
    return _object("ExecutionPlan", language, language["$defs"])


def _object(name: str, part: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    left_out = _LEFT_OUT.get(name, frozenset())
    properties = {
        field: _plain(inner, parts)
        for field, inner in part["properties"].items()
        if field not in left_out
    }
    required = _REQUIRED.get(name, [one for one in part.get("required", []) if one in properties])
    return {
        "type": "object",
        "description": part["description"],
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _plain(inner: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Give a schema in the plain words; what says nothing of its type becomes any scalar."""
    if "$ref" in inner:
        name = inner["$ref"].rpartition("/")[2]
        made = _object(name, parts[name], parts)
    else:
        made = {key: value for key, value in inner.items() if key in KEYWORDS}
        options = [
            _plain(option, parts)
            for option in made.pop("anyOf", [])
            if option.get("type") != "null"
            and "{params" not in option.get("pattern", "")[:10].replace("\\", "")
        ]
        if len(options) == 1:
            made = {**options[0], **made}
        elif options:
            made["anyOf"] = options
        if isinstance(made.get("items"), dict):
            made["items"] = _plain(made["items"], parts)
        further = made.get("additionalProperties")
        if isinstance(further, dict):
            made["additionalProperties"] = _plain(further, parts)
        if not made.keys() & {"type", "anyOf", "enum"}:
            made["anyOf"] = [{"type": kind} for kind in _SCALARS]
    if "description" in inner:
        made["description"] = inner["description"]
    return made
