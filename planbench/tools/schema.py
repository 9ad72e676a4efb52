"""The arguments of a tool that is known only by a JSON Schema, validated by ``jsonschema``."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ToolError
from planbench.tools.problems import Finding, alternatives, type_name
from planbench.tools.signature import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planbench.tools.problems import Unknowns

_FIRM: Final = frozenset(
    {
        "type",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "dependentRequired",
    }
)
_LIMITS: Final = {
    "minimum": "should be at least {}",
    "exclusiveMinimum": "should be more than {}",
    "maximum": "should be at most {}",
    "exclusiveMaximum": "should be less than {}",
    "multipleOf": "should be a multiple of {}",
    "minLength": "should have at least {} characters",
    "maxLength": "should have at most {} characters",
    "pattern": "should match the pattern {!r}",
    "minItems": "should have at least {} items",
    "maxItems": "should have at most {} items",
    "minProperties": "should have at least {} keys",
    "maxProperties": "should have at most {} keys",
    "format": "should be written as {}",
    "const": "should be {!r}",
}
_OTHERS: Final = {
    "uniqueItems": "should hold no item twice",
    "contains": "should hold an item that fits",
    "not": "has a form that is not allowed",
    "oneOf": "fits more than one of the forms and should fit exactly one",
    None: "is not allowed",
}
_SHOWN_CHOICES: Final = 20


class MismatchError(Exception):
    """Raised inside this package when arguments do not fit a JSON Schema."""

    def __init__(self, errors: Sequence[Any]) -> None:
        super().__init__("the arguments do not fit the schema")
        self.errors = errors


class SchemaArguments:
    """The validator of one JSON Schema, built once.

    The dialect is the one that ``$schema`` names, else Draft 2020-12; a tuple counts as
    an array and a numpy scalar as its number. ``$ref`` finds what is in the schema and
    fetches nothing. Raises ToolError for a schema that is not well formed.
    """

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self.takes_key, self.parameters = _prepared(name, schema)
        self._validator = validator(name, self.parameters)
        self.names = tuple(self.parameters.get("properties", {}))
        self.read_literal = self.read
        self.unchecked: tuple[str, ...] = ()

    def read(self, args: Any) -> dict[str, Any]:
        """Give the arguments for the call; raises MismatchError."""
        errors = list(self._validator.iter_errors(args))
        if errors:
            args = _plain(args)
            errors = list(self._validator.iter_errors(args))
        if errors:
            raise MismatchError(errors)
        return dict(args)

    def explain(
        self, error: Exception, args: Mapping[str, Any], unknowns: Unknowns, *, verbatim: bool
    ) -> list[Finding] | None:
        """Give what is wrong apart from unknown values; None for an error of another kind."""
        del args, verbatim  # the errors hold the places, and no text of a user
        if not isinstance(error, MismatchError):
            return None
        return list(dict.fromkeys(f for one in error.errors for f in findings(one, unknowns)))


def _prepared(name: str, schema: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Copy the schema without the idempotency key, which the run fills and no plan writes."""
    own = copy.deepcopy(dict(schema))
    kind = own.setdefault("type", "object")
    properties = own.get("properties", {})
    if kind != "object" or not isinstance(properties, dict):
        raise ToolError(
            f"the schema of tool {name!r} is for {kind!r}, and arguments are an object",
            tool=name,
            hint='write {"type": "object", "properties": {...}}',
        )
    takes_key = properties.pop(IDEMPOTENCY_KEY, None) is not None
    required = own.get("required")
    if takes_key and isinstance(required, list) and IDEMPOTENCY_KEY in required:
        required.remove(IDEMPOTENCY_KEY)
    return takes_key, own


def validator(name: str, schema: dict[str, Any]) -> Any:
    """Build the validator of a tool's JSON Schema; raises ToolError for one that cannot be used."""
    # jsonschema takes 80 ms to import, and most sessions hold no tool of this kind.
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 - as said above
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - as said above
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415 - as said above

    dialect = validators.validator_for(schema, default=Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except SchemaError as error:
        place = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise ToolError(
            f"the schema of tool {name!r} is not valid JSON Schema at {place or 'its root'}: {error.message[:200]}",
            tool=name,
        ) from error
    except (TypeError, ValueError, RecursionError, re.error) as error:
        raise ToolError(
            f"the schema of tool {name!r} cannot be read: {type(error).__name__}", tool=name
        ) from error
    _check_references(name, schema, dialect)
    checker = dialect.TYPE_CHECKER.redefine("array", _is_array)
    extend: Any = validators.extend  # not typed
    return extend(dialect, type_checker=checker)(schema, registry=EMPTY_REGISTRY)


def _check_references(name: str, schema: dict[str, Any], dialect: Any) -> None:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - comes with jsonschema, imported as late
    from referencing.jsonschema import (  # noqa: PLC0415 - as above
        EMPTY_REGISTRY,
        specification_with,
    )

    specification = specification_with(dialect.META_SCHEMA["$schema"])
    root = specification.create_resource(schema)
    stack = [(root, EMPTY_REGISTRY.resolver_with_root(root))]
    while stack:
        resource, resolver = stack.pop()
        contents = resource.contents
        reference = contents.get("$ref") if isinstance(contents, dict) else None
        if reference is not None:
            try:
                resolver.lookup(reference)
            except (Unresolvable, ValueError, TypeError) as error:
                raise ToolError(
                    f"the schema of tool {name!r} refers to {str(reference)[:200]!r}, which is not in it",
                    tool=name,
                    hint="put the referred schema under $defs: nothing is fetched from elsewhere",
                ) from error
        stack += [(inner, resolver.in_subresource(inner)) for inner in resource.subresources()]


def _is_array(_checker: Any, value: Any) -> bool:
    return isinstance(value, list | tuple)


def _plain(value: Any) -> Any:
    """Copy with numpy's scalars as Python's, which is what JSON Schema knows."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def findings(error: Any, unknowns: Unknowns) -> list[Finding]:
    """Put one error of jsonschema into findings; none when unknown values may mend it."""
    if error.validator in {"anyOf", "oneOf"} and error.context:
        branches: dict[Any, list[Finding]] = {}
        for inner in error.context:
            branch = inner.relative_schema_path[0]
            branches.setdefault(branch, []).extend(findings(inner, unknowns))
        return alternatives(branches.values()) if all(branches.values()) else []
    if unknowns and {"then", "else"} & set(error.absolute_schema_path):
        return []  # whether the condition holds may hang on what is unknown
    return [finding for finding in _said(error) if not unknowns.allow(finding)]


def _said(error: Any) -> Iterator[Finding]:
    path = tuple(error.absolute_path)
    value, keyword, wanted = error.instance, error.validator, error.validator_value
    if keyword == "required" and isinstance(wanted, list):
        yield from (Finding((*path, key), "missing") for key in wanted if key not in value)
    elif wanted is False and (further := _further(keyword, value, error.schema)):
        names = tuple(error.schema.get("properties", {}))
        yield from (Finding((*path, key), "extra", names=names) for key in further)
    else:
        text = _text(keyword, wanted)
        yield Finding(path, "bad", text, type_name(value), firm=keyword in _FIRM)


def _further(keyword: str, value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Give the keys that a closed object does not know."""
    if keyword not in {"additionalProperties", "unevaluatedProperties"}:
        return []
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [k for k in value if k not in named and not any(re.search(p, k) for p in patterns)]


def _text(keyword: str | None, wanted: Any) -> str:
    if keyword == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        return f"should be {' or '.join(map(_kind, kinds))}"
    if keyword == "enum":
        shown = ", ".join(repr(one) for one in wanted[:_SHOWN_CHOICES])
        return f"should be one of {shown}{', ...' if len(wanted) > _SHOWN_CHOICES else ''}"
    if keyword == "dependentRequired":
        return f"should have the keys that go together: {wanted}"
    if keyword in _LIMITS:
        return _LIMITS[keyword].format(wanted)
    return _OTHERS.get(keyword, f"does not fit {keyword!r} of the schema")


def _kind(name: str) -> str:
    return name if name == "null" else f"{'an' if name[0] in 'aio' else 'a'} {name}"
