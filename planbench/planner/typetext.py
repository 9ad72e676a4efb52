"""A JSON Schema as one line: short enough for a prompt, exact enough to write a call from."""

from __future__ import annotations

import json
from typing import Any, Final

_DEEPEST: Final = 6
_MOST_CHOICES: Final = 20
_MOST_FIELDS: Final = 60
_LONGEST: Final = 1500
_ANY: Final = "any"


def type_text(schema: Any) -> str:
    """Write the type that a schema describes, as ``{id: string, tags?: string[]}``."""
    text = _text(schema, schema, 0)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def parameters_text(schema: dict[str, Any]) -> str:
    """Write the parameters of a tool, those that may be left out with ``?`` and their default."""
    return ", ".join(_fields(schema, schema, 0, defaults=True))


def described(schema: dict[str, Any]) -> dict[str, str]:
    """Give what a schema says in words of its parameters, one line each."""
    found = {}
    for name, inner in _properties(schema).items():
        text = inner.get("description") if isinstance(inner, dict) else None
        if isinstance(text, str) and text.strip():
            found[name] = " ".join(text.split())
    return found


def _text(schema: Any, root: Any, depth: int) -> str:  # noqa: PLR0911 - a return for each kind of schema
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return _ANY
    if "$ref" in schema:
        return _text(_referred(schema["$ref"], root), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return _union([_text(part, root, depth + 1) for part in schema[key]])
    if "const" in schema:
        return _written(schema["const"])
    if isinstance(schema.get("enum"), list):
        more = ["..."] if len(schema["enum"]) > _MOST_CHOICES else []
        return _union([*map(_written, schema["enum"][:_MOST_CHOICES]), *more])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([_text({**schema, "type": one}, root, depth + 1) for one in kind])
    if kind == "array":
        inner = _text(schema.get("items"), root, depth + 1)
        return f"({inner})[]" if " | " in inner and not inner.startswith("{") else f"{inner}[]"
    if kind == "object" or "properties" in schema:
        return _object(schema, root, depth)
    return kind if isinstance(kind, str) else _ANY


def _object(schema: dict[str, Any], root: Any, depth: int) -> str:
    fields = _fields(schema, root, depth)
    further = schema.get("additionalProperties")
    if isinstance(further, dict) and further:
        fields.append(f"[key]: {_text(further, root, depth + 1)}")
    return f"{{{', '.join(fields)}}}" if fields else "object"


def _fields(schema: dict[str, Any], root: Any, depth: int, *, defaults: bool = False) -> list[str]:
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    fields = []
    for name, inner in list(_properties(schema).items())[:_MOST_FIELDS]:
        sign = "" if name in needed else "?"
        text = f"{name}{sign}: {_text(inner, root, depth + 1)}"
        if defaults and isinstance(inner, dict) and inner.get("default") is not None:
            text += f" = {_written(inner['default'])}"
        fields.append(text)
    return fields


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _union(parts: list[str]) -> str:
    return " | ".join(dict.fromkeys(parts)) or _ANY


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


def _referred(reference: Any, root: Any) -> Any:
    target = root
    for part in str(reference).removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, dict) else None
    return target
