"""The arguments of a Python function: validated and coerced by pydantic from its signature."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Awaitable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired

import typing_extensions
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import (
    PydanticSerializationError,
    SchemaValidator,
    core_schema,
    to_json,
    to_jsonable_python,
)

from planbench.tools.problems import Finding, alternatives, type_name
from planbench.tools.result import ToolResult
from planbench.tools.signature import EMPTY, typed_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planbench.tools.problems import ArgumentPath, Unknowns
    from planbench.tools.signature import Signature

    Extra = Literal["allow", "forbid"]
    Reader = Callable[[Any], dict[str, Any]]

_PLAIN: Final = ConfigDict(arbitrary_types_allowed=True)
_KNOWN_ERRORS: Final = frozenset(typing.get_args(core_schema.ErrorType))
_MAX_DEFAULT: Final = 200

# Errors whose own text holds (a part of) the value, or what a user's code said about it.
_SAFE_TEXTS: Final = {
    "bytes_invalid_encoding": "should be bytes in a valid encoding",
    "datetime_object_invalid": "should be a valid datetime",
    "get_attribute_error": "has an attribute that cannot be read",
    "iteration_error": "cannot be iterated to its end",
    "mapping_type": "should be a valid mapping",
    "url_parsing": "should be a valid URL",
    "url_syntax_violation": "should be a valid URL",
    "uuid_parsing": "should be a valid UUID",
}
_MISSING: Final = {"missing", "missing_argument", "missing_keyword_only_argument"}
_EXTRA: Final = {"extra_forbidden", "unexpected_keyword_argument"}
_FIRM: Final = {"is_instance_of", "literal_error", "none_required"}
_OWN_TEXT: Final = {"value_error", "assertion_error"}
_OUTSIDE: Final = object()


class TypedArguments:
    """The validators of one signature, built once; ``read`` is pydantic's own compiled one.

    A call may carry more keys in a TypedDict than the type names, as data often does;
    what is written in a plan may not: ``read_literal`` takes a further key for a slip.
    ``unchecked`` names the parameters whose annotation cannot be used; they take anything.
    """

    def __init__(self, name: str, signature: Signature) -> None:
        fields = {
            one.name: one.annotation if one.required else NotRequired[one.annotation]
            for one in signature.parameters
        }
        usable = _usable(name, fields)
        refused = [key for key, kind in usable.items() if kind is not fields[key]]
        self.unchecked = (*signature.unread, *refused)
        adapter = _build(name, usable)
        root: Extra = "allow" if signature.is_open else "forbid"
        self.read = _compiled(adapter, root, "allow")
        self.read_literal = _compiled(adapter, root, "forbid")
        self.parameters = _parameters_schema(adapter, signature)
        self.names = tuple(self.parameters["properties"])

    def explain(
        self, error: Exception, args: Mapping[str, Any], unknowns: Unknowns, *, verbatim: bool
    ) -> list[Finding] | None:
        """Give what is wrong apart from unknown values; None for an error that is not pydantic's.

        ``verbatim`` keeps the texts of a user's own validators, which may quote the value.
        """
        if not isinstance(error, ValidationError):
            return None
        root = _Place()
        for one in error.errors(include_url=False):
            _place(root, one["loc"], one["type"], args).own.append((one, verbatim))
        return root.findings((), unknowns)


def output_schema(returns: Any) -> dict[str, Any] | None:
    """Give the JSON Schema of what a tool returns; None where its annotation says nothing."""
    if typing.get_origin(returns) in {Awaitable, Coroutine}:
        returns = typing.get_args(returns)[-1]
    if returns is None or returns is type(None):
        return {"type": "null"}
    if returns is Any or returns is ToolResult:  # of an answer to an agent a plan gets the inside
        return None
    try:
        config = None if _has_config(returns) else _PLAIN
        schema = _json_schema(TypeAdapter(returns, config=config), "serialization")
    except Exception:  # noqa: BLE001 - building runs hooks of the users' types, which may raise anything
        return None
    return schema if schema.keys() - {"title", "description"} else None


class _Place:
    """The errors at one location, those below it, and those of each branch of a union there."""

    __slots__ = ("branches", "inner", "own")

    def __init__(self) -> None:
        self.own: list[tuple[Any, bool]] = []
        self.inner: dict[str | int, _Place] = {}
        self.branches: dict[str | int, _Place] = {}

    def findings(self, path: ArgumentPath, unknowns: Unknowns) -> list[Finding]:
        """Give what stays wrong whatever the unknown values become."""
        own = [_finding(error, path, verbatim=verbatim) for error, verbatim in self.own]
        found = [finding for finding in own if not unknowns.allow(finding)]
        for part, place in self.inner.items():
            found += place.findings((*path, part), unknowns)
        if self.branches:
            branches = [place.findings(path, unknowns) for place in self.branches.values()]
            if all(branches):
                found += alternatives(branches)
        return found


def _place(root: _Place, loc: tuple[str | int, ...], kind: str, value: Any) -> _Place:
    """Find the place of an error, telling keys of the data from names of union branches."""
    place = root
    for position, part in enumerate(loc):
        inner = _step(value, part)
        is_last = position == len(loc) - 1
        if inner is not _OUTSIDE:
            value = inner
        elif not (is_last and kind in _MISSING | _EXTRA) and not _is_index(part, value):
            place = place.branches.setdefault(part, _Place())
            continue
        place = place.inner.setdefault(part, _Place())
    return place


def _step(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part, _OUTSIDE)
    if isinstance(value, list | tuple) and isinstance(part, int) and 0 <= part < len(value):
        return value[part]
    return _OUTSIDE


def _is_index(part: str | int, value: Any) -> bool:
    """Whether it counts the items of something that cannot be indexed, such as a set."""
    return isinstance(part, int) and not isinstance(value, dict | str)


def _finding(error: Any, path: ArgumentPath, *, verbatim: bool) -> Finding:
    kind, message = error["type"], error["msg"]
    if kind in _MISSING:
        return Finding(path, "missing")
    if kind in _EXTRA:
        return Finding(path, "extra")
    firm = (
        kind.endswith("_type")
        or kind in _FIRM
        or (kind in {"too_short", "too_long"} and message.startswith(("List", "Tuple")))
    )
    text = _text(error, kind, message, verbatim=verbatim)
    return Finding(path, "bad", text, type_name(error["input"]), firm=firm)


def _text(error: Any, kind: str, message: str, *, verbatim: bool) -> str:
    if kind in _OWN_TEXT or kind not in _KNOWN_ERRORS:
        if verbatim:
            return f"is refused: {message.removeprefix('Value error, ')}"
        cause = error.get("ctx", {}).get("error")
        return f"is refused by its validator ({kind if cause is None else type(cause).__name__})"
    if kind == "union_tag_invalid":
        context = error["ctx"]
        return f"should have one of {context['expected_tags']} as {context['discriminator']}"
    if kind in _SAFE_TEXTS:
        return _SAFE_TEXTS[kind]
    _, should, rest = message.partition(" should ")
    return f"should {rest}" if should else f"is refused: {message[:1].lower()}{message[1:]}"


def _usable(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Put Any in place of the annotations that pydantic cannot use."""
    if _fits(name, fields):
        return fields
    return {
        key: kind if _fits(name, {key: kind}) else _anything(kind) for key, kind in fields.items()
    }


def _anything(kind: Any) -> Any:
    return NotRequired[Any] if typing.get_origin(kind) is NotRequired else Any


def _fits(name: str, fields: dict[str, Any]) -> bool:
    try:
        adapter = _build(name, fields)
        _compiled(adapter, "forbid", "allow")
        _compiled(adapter, "forbid", "forbid")
    except Exception:  # noqa: BLE001 - building runs hooks of the users' types, which may raise anything
        return False
    return True


def _build(name: str, fields: dict[str, Any]) -> TypeAdapter[Any]:
    """Make the record of the arguments; types inside without a config of their own are as exact."""
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return TypeAdapter(typed_dict(name, fields, config))


def _compiled(adapter: TypeAdapter[Any], root: Extra, nested: Extra) -> Reader:
    """Compile the record; ``root`` and ``nested`` say what becomes of keys that nothing names."""
    schema: Any = adapter.core_schema
    return SchemaValidator(_with_extra(schema, root, nested)).validate_python


def _with_extra(schema: Any, root: Extra, nested: Extra) -> Any:
    if schema["type"] == "definitions":
        definitions = [_inside(one, nested) for one in schema["definitions"]]
        inner = _with_extra(schema["schema"], root, nested)
        return {**schema, "schema": inner, "definitions": definitions}
    return {**schema, "fields": _inside(schema["fields"], nested), "extra_behavior": root}


def _inside(schema: Any, nested: Extra) -> Any:
    """Copy what stands inside the record; a type with a config of its own keeps it.

    Left to pydantic, a type takes over the config of whatever holds it first, and an
    iterable becomes one that can be read once only.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_inside(one, nested) for one in schema)
    if not isinstance(schema, dict) or schema.get("type") == "model":
        return schema
    copy = {key: _inside(one, nested) for key, one in schema.items()}
    if copy.get("type") == "generator":
        is_literal = nested == "forbid"
        return {**copy, "type": "list"} if is_literal else core_schema.is_instance_schema(Iterable)
    if not hasattr(copy.get("cls"), "__pydantic_config__"):
        if copy.get("type") == "typed-dict":
            copy["extra_behavior"] = nested
        elif copy.get("type") == "dataclass":  # its __init__ takes no other names either
            copy["config"] = {**copy.get("config", {}), "extra_fields_behavior": "forbid"}
    return copy


def _has_config(kind: Any) -> bool:
    """Whether pydantic refuses a config for it, since the type brings its own."""
    return (
        hasattr(kind, "__pydantic_config__")
        or hasattr(kind, "model_config")
        or hasattr(kind, "__dataclass_fields__")
        or typing_extensions.is_typeddict(kind)
    )


class _Lenient(GenerateJsonSchema):
    """Leaves open what JSON Schema cannot say, such as a DataFrame, and adds no titles to fields."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Stay silent: a default that JSON cannot say is left out."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        del error_info
        kind = schema.get("cls")
        name = getattr(kind, "__name__", None)
        return {} if name is None else {"description": f"an instance of {name}"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def _json_schema(
    adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"]
) -> dict[str, Any]:
    schema = adapter.json_schema(
        by_alias=mode == "validation", schema_generator=_Lenient, mode=mode
    )
    return dict(schema)


def _parameters_schema(adapter: TypeAdapter[Any], signature: Signature) -> dict[str, Any]:
    try:
        schema = _json_schema(adapter, "validation")
    except Exception:  # noqa: BLE001 - it runs hooks of the users' types, which may raise anything
        schema = {"properties": {one.name: {} for one in signature.parameters}, "type": "object"}
        schema["required"] = [one.name for one in signature.parameters if one.required]
    schema.pop("title", None)
    schema["additionalProperties"] = signature.is_open
    properties = schema.setdefault("properties", {})
    for one in signature.parameters:
        if one.default is not EMPTY and one.name in properties:
            _add_default(properties[one.name], one.default)
    return schema


def _add_default(schema: dict[str, Any], default: Any) -> None:
    """Tell the default where it is small and JSON can say it; the function knows it anyway."""
    with contextlib.suppress(PydanticSerializationError, ValueError, TypeError):
        if len(to_json(default)) <= _MAX_DEFAULT:
            schema.setdefault("default", to_jsonable_python(default))
