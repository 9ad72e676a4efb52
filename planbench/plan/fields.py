"""What is wrong with the fields of a record, in the words of the plan language."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.model import (
    SOURCE,
    ExecutionPlan,
    FacetSpec,
    ForEach,
    ParamSpec,
    PlanMetadata,
    PlanNode,
    Provenance,
    RetryPolicy,
)
from planbench.plan.source import shown
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import ValidationError

    from planbench.plan.model import PlanModel
    from planbench.plan.source import Route

_PARTS: Final[dict[str, type[PlanModel]]] = {
    "for_each": ForEach,
    "facets": FacetSpec,
    "retry": RetryPolicy,
    "metadata": PlanMetadata,
    "provenance": Provenance,
}
_OTHER_NAMES: Final = {
    "depends": "depends_on",
    "dependencies": "depends_on",
    "needs": "depends_on",
    "after": "depends_on",
    "if": "when",
    "condition": "when",
    "guard": "when",
    "loop": "for_each",
    "arguments": "args",
    "parameters": "args",
    "params": "args",
    "inputs": "args",
    "kwargs": "args",
    "name": "id",
    "function": "tool",
    "action": "tool",
    "output": "store_as",
    "save_as": "store_as",
    "alias": "as",
    "steps": "nodes",
    "tasks": "nodes",
    "goal": "objective",
    "variables": "params",
}
_CUSTOM: Final = frozenset({"bad_field", "bad_id", "missing_field"})
_SHOULD: Final = re.compile(r"^\w+ should ")
_INSTANCE: Final = re.compile(r" or (?:instance of \w+|object to extract fields from)")
_WORDS: Final = (
    ("a valid string", "text"),
    ("a valid dictionary", "a map"),
    ("a valid list", "a list"),
    ("a valid boolean", "true or false"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
)


class FieldProblem(NamedTuple):
    """One problem of a record, at a path inside it.

    ``absent`` says that the last part of the path is not there, ``superfluous`` that it
    should not be.
    """

    code: str
    message: str
    path: Route
    fix: str | None = None
    absent: bool = False
    superfluous: bool = False


def field_problems(
    error: ValidationError, record: Any, model: type[PlanModel]
) -> list[FieldProblem]:
    """Say what pydantic found, one problem a field, however many ways of reading it were tried."""
    found: dict[Route, list[dict[str, Any]]] = {}
    for detail in error.errors(include_url=False, include_input=False):
        detail_record: dict[str, Any] = dict(detail)
        path = _path_in(record, detail["loc"], missing=detail["type"] == "missing")
        found.setdefault(path, []).append(detail_record)
    problems: list[FieldProblem] = []
    for path, details in found.items():
        problems.extend(_problems(path, details, record, model))
    return problems


def unknown_field(name: str, path: Route, model: type[PlanModel], have: Any = ()) -> FieldProblem:
    """Say that a map has a field that the language does not know."""
    fields = [field.alias or known for known, field in model.model_fields.items()]
    other = _OTHER_NAMES.get(name.lower())
    if other in fields and other not in have:
        fix: str | None = f"did you mean {other!r}?"
    else:
        fix = suggestion(name, fields) or f"the fields here are {', '.join(fields)}"
    message = f"unknown field {name[:100]!r}"
    return FieldProblem("unknown_field", message, path, fix, superfluous=True)


def label(path: Route) -> str:
    """Write a path the way that a person points at a field: ``for_each.max_items``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def value_at(record: Any, path: Route) -> Any:
    """Give what stands at a path that exists."""
    for part in path:
        record = record[part]
    return record


def _path_in(record: Any, place: tuple[int | str, ...], *, missing: bool) -> Route:
    """Follow pydantic's place as far as the record goes; it names the ways of a union too."""
    path: list[str | int] = []
    for part in place:
        in_map = isinstance(record, dict) and part in record
        if in_map or (isinstance(record, list) and isinstance(part, int) and part < len(record)):
            record = record[part]
            path.append(part)
        else:
            if missing:
                path.append(part)
            break
    return tuple(path)


def _problems(
    path: Route, details: list[dict[str, Any]], record: Any, model: type[PlanModel]
) -> Iterator[FieldProblem]:
    first = details[0]
    kind = first["type"]
    if inner := first.get("ctx", {}).get("problems"):
        for problem in inner:
            absent = problem.code == "missing_field"
            yield FieldProblem(
                problem.code, problem.message, problem.field, absent=absent, superfluous=not absent
            )
    elif kind == "missing":
        yield FieldProblem("missing_field", f"field {label(path)!r} is missing", path, absent=True)
    elif kind == "extra_forbidden":
        holder = value_at(record, path[:-1])
        yield unknown_field(str(path[-1]), path, _model_at(path[:-1], model), holder)
    elif kind in _CUSTOM:
        code = "bad_field" if kind == "missing_field" else kind
        yield FieldProblem(code, first["msg"], path)
    else:
        value = value_at(record, path)
        code = "bad_id" if path == ("id",) and model is PlanNode else "bad_field"
        wanted = " or ".join(dict.fromkeys(_wanted(detail["msg"]) for detail in details))
        if path == ("for_each",) and isinstance(value, str):
            wanted = f"{wanted}, or as a text a node id, then a path, as listing.keys[]"
        message = f"{label(path) or 'the value'} must {wanted}, not {shown(value)}"
        yield FieldProblem(code, message, path, _fix(path, value, details))


def _model_at(path: Route, model: type[PlanModel]) -> type[PlanModel]:
    if path and model is ExecutionPlan and path[0] == "params":
        return ParamSpec
    return _PARTS.get(str(path[0]), model) if path else model


def _wanted(message: str) -> str:
    text = (
        _INSTANCE.sub("", _SHOULD.sub("", message))
        .split(", unable")[0]
        .split(", got")[0]
        .split(", not")[0]
    )
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    return text


def _fix(path: Route, value: Any, details: list[dict[str, Any]]) -> str | None:
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    kinds = {detail["type"] for detail in details}
    if path == ("for_each",) and isinstance(value, str):
        source = SOURCE.fullmatch(value.strip())
        return f"for_each: {source[1]}" if source else None
    if value is None:
        return f"give {name} a value, or leave it out"
    if "string_type" in kinds and isinstance(value, str | int | float):
        text = json.dumps(str(value).lower() if isinstance(value, bool) else str(value))
        return text if isinstance(path[-1], int) else f"{name}: {text}"
    if "string_type" in kinds and isinstance(value, list) and not value:
        return f'{name}: "[]"'
    if "list_type" in kinds and isinstance(value, str):
        return f"{name}: [{value[:80]}]"
    return None
