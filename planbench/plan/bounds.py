"""Records with more that is wrong in them than anybody would mend, cut before they are read.

What pydantic finds wrong takes a few hundred bytes for each mistake, and it finds all. A
node with a million unknown fields is refused for the first thousand of them.
"""

from __future__ import annotations

from typing import Any, Final

from planbench.plan.model import (
    ExecutionPlan,
    FacetSpec,
    ForEach,
    PlanMetadata,
    PlanNode,
    Provenance,
    RetryPolicy,
    ToolRequirement,
)

MOST: Final = 1000

_MODELS: Final = (
    ExecutionPlan, FacetSpec, ForEach, PlanMetadata, PlanNode, Provenance, RetryPolicy,
)  # fmt: skip
_NAMES: Final = frozenset(
    field.alias or name for model in _MODELS for name, field in model.model_fields.items()
)
_FREE: Final = frozenset({"args", "params", "nodes"})  # what may hold anything, and much of it


def bounded(record: dict[str, Any]) -> dict[str, Any]:
    """Give a node's record, or that of a plan, with at most a thousand wrong entries a field."""
    changed = {
        name: cut
        for name, value in record.items()
        if isinstance(value, dict | list)
        and name not in _FREE
        and (cut := _required(value) if name == "requires" else _cut(value)) is not value
    }
    found = {**record, **changed} if changed else record
    return _named(found) if len(found) > MOST else found


def _cut(value: Any) -> Any:
    """Keep the texts of a field, the names that the language has, and a thousand others."""
    if isinstance(value, list):
        if len(value) <= MOST:
            return value
        others = iter(range(MOST))
        return [one for one in value if isinstance(one, str) or next(others, None) is not None]
    inner = {
        name: cut
        for name, held in value.items()
        if isinstance(held, dict) and len(held) > MOST and (cut := _texts(held)) is not held
    }
    found = {**value, **inner} if inner else value
    return _texts(found) if len(found) > MOST else found


def _required(value: Any) -> Any:
    """Keep what reads as the place of a tool, and a thousand others."""
    if len(value) <= MOST or not isinstance(value, dict):
        return _cut(value)
    others = iter(range(MOST))
    return {
        name: held
        for name, held in value.items()
        if _is_requirement(held) or next(others, None) is not None
    }


def _is_requirement(held: Any) -> bool:
    return (
        isinstance(held, dict)
        and "module" in held
        and ToolRequirement.model_fields.keys() >= held.keys()
        and all(isinstance(one, str) for one in held.values())
    )


def _texts(record: dict[str, Any]) -> dict[str, Any]:
    others = iter(range(MOST))
    return {
        name: value
        for name, value in record.items()
        if name in _NAMES or isinstance(value, str) or next(others, None) is not None
    }


def _named(record: dict[str, Any]) -> dict[str, Any]:
    others = iter(range(MOST))
    return {
        name: value
        for name, value in record.items()
        if name in _NAMES or next(others, None) is not None
    }
