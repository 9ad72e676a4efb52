"""What a JSON Schema says about the value at a path; silence means that anything may be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

EACH: Final = "[]"
UNKNOWN: Final = "unknown"
_UNIONS: Final = ("anyOf", "oneOf")
_MAX_BRANCHES: Final = 100


class Shape:
    """The forms that a value may have, each a schema without references and unions."""

    def __init__(self, schema: Any, root: Any = None, forms: list[Any] | None = None) -> None:
        self._root = schema if root is None else root
        self._forms = _forms(schema, self._root) if forms is None else forms

    def kinds(self) -> set[str]:
        """Name the types that the value may have, null left out; ``unknown`` among them for any."""
        found: set[str] = set()
        for form in self._forms:
            found.update(_kinds(form))
        return found - {"null"} or found

    def at(self, steps: Iterable[str | int]) -> Shape:
        """Follow names, indexes and ``[]``; the shape of what is not there has no kinds."""
        shape = self
        for step in steps:
            found: list[Any] = []
            for form in shape._forms:
                for inner in _inner(form, step):
                    found += _forms(inner, self._root)
            shape = Shape(None, self._root, found[:_MAX_BRANCHES])
        return shape

    def names(self) -> list[str]:
        """Name the fields that the value is known to have."""
        return list(dict.fromkeys(n for form in self._forms for n in form.get("properties", {})))


def _forms(schema: Any, root: Any) -> list[dict[str, Any]]:
    """Resolve references and unions; what cannot be resolved is a schema that says nothing."""
    found: list[dict[str, Any]] = []
    stack, seen = [schema], 0
    while stack:
        current = stack.pop()
        seen += 1
        if not isinstance(current, dict) or seen > _MAX_BRANCHES:
            found.append({})
            if seen > _MAX_BRANCHES:
                break
            continue
        if "$ref" in current:
            stack.append(_referred(current["$ref"], root))
            continue
        union = next((current[key] for key in _UNIONS if current.get(key)), None)
        if isinstance(union, list):
            stack.extend(reversed(union))
        elif isinstance(current.get("allOf"), list):
            stack.append(_merged(current))
        else:
            found.append(current)
    return found


def _referred(reference: Any, root: Any) -> Any:
    target = root
    for part in str(reference).removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, dict) else None
    return target if str(reference).startswith("#") else None


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Join the parts of an ``allOf`` where they are plain; one that is not says nothing."""
    joined = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        if not isinstance(part, dict) or "$ref" in part or any(key in part for key in _UNIONS):
            return {}
        properties = {**joined.get("properties", {}), **part.get("properties", {})}
        joined = {**part, **joined, "properties": properties}
    return joined


def _kinds(form: dict[str, Any]) -> set[str]:
    kinds = form.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in kinds if isinstance(kind, str)}
    if "enum" in form or "const" in form:
        values = form.get("enum", [form.get("const")])
        return {"string"} if all(isinstance(value, str) for value in values) else {UNKNOWN}
    return {"object"} if "properties" in form else {"array"} if "items" in form else {UNKNOWN}


def _inner(form: dict[str, Any], step: str | int) -> list[Any]:
    """Give the schemas of what one step leads to: none where there is nothing."""
    kinds = _kinds(form)
    if UNKNOWN in kinds:
        return [{}]
    if step == EACH or isinstance(step, int):
        if "array" not in kinds:
            return []
        return [{}] if "prefixItems" in form else [form.get("items", {})]
    return _field(form, step) if "object" in kinds else []


def _field(form: dict[str, Any], name: str) -> list[Any]:
    properties = form.get("properties", {})
    if name in properties:
        return [properties[name]]
    if "patternProperties" in form:
        return [{}]
    # where fields are named and nothing is said of others, another name is taken for a slip
    further = form.get("additionalProperties", not properties)
    return [] if further is False else [further if isinstance(further, dict) else {}]
