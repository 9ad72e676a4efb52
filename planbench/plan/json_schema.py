"""The language as JSON Schema, for editors that complete and for models that write plans.

The schema says all that can be said of one field, and of one node. What needs the whole
plan (ids, edges, tools) is the matter of ``check_plan``.
"""

from __future__ import annotations

from typing import Any, Final

from planbench.plan.model import ID_PATTERN, MAX_KEY, ExecutionPlan, Later, PlanModel

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_PARAMETER: Final = {
    "type": "string",
    "pattern": r"^\{params\.[A-Za-z_][A-Za-z0-9_]*\}$",
    "description": "A parameter that gives the value before the run starts.",
}
_ID: Final = f"^{ID_PATTERN}$"
_SOURCE: Final = rf"^\s*\{{artifacts\.{ID_PATTERN}\}}\s*$"
_SHARE: Final = r"^(?:(?:100|[0-9]{1,2})(?:\.[0-9]+)?%|\{params\.[A-Za-z_][A-Za-z0-9_]*\})$"
_SHORT_SOURCE: Final = rf"^\s*{ID_PATTERN}(?:\.[^.\[\]\s]+|\[[0-9]*\])*\s*$"

# What each field is for, and an example of it.
_FIELDS: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "ExecutionPlan": {
        "name": ("What the plan is called.", "daily_security_sweep"),
        "objective": ("What the plan is for, in a sentence.", "Find what is new today"),
        "nodes": ("The calls, in any order; what runs first is said by depends_on.",),
        "metadata": ("How the whole plan runs.", {"max_parallel_tasks": 4}),
        "params": (
            "The parameters that texts name as {params.x}; those without a default must be given.",
            {"date": {"type": "date", "description": "the day of the sweep"}},
        ),
        "provenance": ("Where the plan came from.",),
        "requires": (
            "Where the tools live, by name.",
            {"list_reports": {"module": "scans.tools", "package": "scans"}},
        ),
    },
    "PlanNode": {
        "id": ("A letter, then letters, digits, _ and -; unique in the plan.", "listing"),
        "type": ("tool calls one tool; delegate lets a small model choose the call.",),
        "tool": ("The name of the tool to call.", "list_reports"),
        "args": (
            (
                "The arguments of the call. Texts may hold {artifacts.id}, {nodes.id.output}, "
                "{params.name}, in a fan-out {item}, {item.field} and {index}."
            ),
            {"date": "{params.date}", "rows": "{artifacts.listing}"},
        ),
        "store_as": (
            (
                "The key of the result; with for_each it must vary by {item} or {index}. "
                "Left out, it is the id."
            ),
            "report.{item.id}",
        ),
        "depends_on": (
            "The ids of the nodes that must have ended before; left out, those that are read.",
            ["listing"],
        ),
        "when": (
            (
                "A guard in CEL over ctx.artifacts.<id>.<facet>, ctx.status.<id> and ctx.errors; "
                "when it is false the node is skipped."
            ),
            "ctx.artifacts.listing.n > 0",
        ),
        "for_each": ("One call per item of a list that another node gave.",),
        "facets": ("The small facts taken from the result, which guards and models may see.",),
        "timeout": ("Seconds that one call may take.", 30),
        "retry": ("How often a call is tried.", {"max_attempts": 3, "backoff_seconds": 1}),
        "description": ("A line for people.",),
        "approve": ("True, or the question to ask, when a person must agree before the call.",),
        "cache": ("True, or seconds, when an earlier result for equal arguments may be used.",),
        "instruction": ("What the model is asked to do; delegate nodes only.",),
        "tools": ("The tools that the model may choose from; delegate nodes only.",),
    },
    "ForEach": {
        "source": ("Exactly one artifact, a list.", "{artifacts.listing}"),
        "select": ("The path to the list inside it.", "reports[]"),
        "as": ("The name of the item in placeholders.", "report"),
        "max_items": ("More items than this are an error.",),
        "max_concurrency": ("How many calls run at once.",),
        "on_item_error": (
            "collect keeps the messages, skip only counts, fail stops at the first.",
        ),
        "max_failed": ("How many items may fail: a number or a share.", "5%"),
        "skip_existing": ("Whether results of earlier equal calls are reused.",),
    },
    "FacetSpec": {
        "paths": ("The value at a path, by name.", {"scanner": "metadata.scanner"}),
        "counts": ("How many elements a path has, by name.", {"n": "reports[]"}),
        "group_counts": ("How many elements of each value, by name.", {"by": "rows[].kind"}),
        "max_group_keys": ("How many groups are kept; the rest is summed up.",),
    },
    "RetryPolicy": {
        "max_attempts": ("How often a call is tried in all.",),
        "backoff_seconds": ("The wait before the next try: these seconds times the tries so far.",),
    },
    "PlanMetadata": {
        "max_parallel_tasks": ("How many calls run at once in the whole plan.",),
        "execution_timeout": ("Seconds that the whole plan may take.", 300),
        "checkpoint": ("False keeps the run out of the store.",),
        "durable": ("True asks for a store that survives the machine.",),
    },
    "ParamSpec": {
        "type": ("What a value must be.",),
        "default": ("The value when none is given.",),
        "required": ("Whether a value must be given; unless said, when there is no default.",),
        "description": ("A line for people.",),
        "choices": ("The values that are allowed.",),
    },
    "ToolRequirement": {
        "module": ("The module that defines it.", "scans.tools"),
        "package": ("The package to install.", "scans"),
        "version": ("The version of the package that the plan was last run with.", "1.4.0"),
        "fingerprint": ("What its source and schema were then.",),
    },
    "Provenance": {
        "objective": ("The request that was answered.",),
        "model": ("The model that answered it.",),
    },
}

# What the models check in code, said as schema.
_RULES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "PlanNode": {
        "id": {"pattern": _ID},
        "store_as": {
            "minLength": 1,
            "maxLength": MAX_KEY,
        },
        "depends_on": {"uniqueItems": True},
    },
    "ForEach": {
        "source": {"pattern": _SOURCE},
        "as": {"not": {"enum": ["params", "nodes", "artifacts", "env", "index", "ctx"]}},
        "max_failed": {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": _SHARE},
                {"type": "null"},
            ]
        },
    },
}
_NODE_RULES: Final[list[dict[str, Any]]] = [
    {
        "if": {"properties": {"type": {"const": "delegate"}}, "required": ["type"]},
        "then": {
            "required": ["instruction"],
            "properties": {
                "instruction": {"type": "string", "minLength": 1},
                "tool": {"enum": [None, ""]},
            },
        },
        "else": {
            "required": ["tool"],
            "properties": {
                "tool": {"type": "string", "minLength": 1},
                "instruction": {"type": "null"},
                "tools": {"type": "null"},
            },
        },
    },
    {
        "if": {
            "properties": {"for_each": {"not": {"type": "null"}}},
            "required": ["for_each", "store_as"],
        },
        "then": {"properties": {"store_as": {"pattern": r"\{"}}},
    },
]
_SHORT_FOR_EACH: Final = {
    "type": "string",
    "pattern": _SHORT_SOURCE,
    "description": "In short: the node, then the path to the list in its result.",
    "examples": ["listing.reports[]"],
}
_SHORT_FACETS: Final = {
    "type": "object",
    "properties": {
        "max_group_keys": {"$ref": "#/$defs/FacetSpec/properties/max_group_keys"},
        **dict.fromkeys(("paths", "counts", "group_counts"), False),
    },
    "additionalProperties": {"type": "string", "minLength": 1},
    "description": "In short: a path, count(path) or groups(path) by name.",
    "examples": [{"n": "count(reports[])", "by": "groups(reports[].state)", "scanner": "scanner"}],
}


def language_schema(*, short_forms: bool = True) -> dict[str, Any]:
    """Give the JSON Schema of a plan, strict about unknown fields.

    Placeholders of parameters are allowed where a number or a flag may come from one.
    Without ``short_forms`` only the long form of every field is valid, as models are
    asked to write it.
    """
    schema = ExecutionPlan.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema.pop("$defs")
    models = {model.__name__: model for model in PlanModel.__subclasses__()}
    for name, part in [("ExecutionPlan", schema), *definitions.items()]:
        model = models[name]
        part.pop("title", None)
        part["description"] = (model.__doc__ or "").split("\n")[0]
        part["properties"] = {
            field: _field(model, field, inner) for field, inner in part["properties"].items()
        }
    node = definitions["PlanNode"]
    node["allOf"] = _NODE_RULES
    if short_forms:
        _allow(node, "for_each", _SHORT_FOR_EACH)
        _allow(node, "facets", _SHORT_FACETS)
    return {"$schema": DIALECT, "title": "planbench plan", **schema, "$defs": definitions}


def _field(model: type[PlanModel], name: str, inner: dict[str, Any]) -> dict[str, Any]:
    idle = inner.get("default") in (None, "")
    inner = {k: v for k, v in inner.items() if k != "title" and not (idle and k == "default")}
    rules = _RULES.get(model.__name__, {}).get(name, {})
    if "anyOf" in rules:
        inner.pop("anyOf", None)
    inner |= rules
    if _may_come_later(model, name):
        default = {"default": inner.pop("default")} if "default" in inner else {}
        options = inner.pop("anyOf", None) or [inner]
        inner = {"anyOf": [*options, _PARAMETER], **default}
    description, *examples = _FIELDS.get(model.__name__, {}).get(name, ("",))
    return {"description": description, **inner, **({"examples": examples} if examples else {})}


def _may_come_later(model: type[PlanModel], name: str) -> bool:
    """Whether ``{params.x}`` may stand in a field that is no text."""
    return any(
        Later in field.metadata
        for known, field in model.model_fields.items()
        if (field.alias or known) == name
    )


def _allow(part: dict[str, Any], name: str, short: dict[str, Any]) -> None:
    """Allow a short form beside the long one of a field."""
    inner = dict(part["properties"][name])
    around = {key: inner.pop(key) for key in ("description", "default", "examples") if key in inner}
    part["properties"][name] = {**around, "anyOf": [*inner.pop("anyOf", [inner]), short]}
