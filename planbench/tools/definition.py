"""Tools: functions with a name, a description, checked arguments and known effects."""

from __future__ import annotations

import copy
import inspect
import logging
import types
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args, overload

from pydantic import ValidationError

from planbench.errors import ToolArgumentsInvalid, ToolError
from planbench.tools.fingerprint import fingerprint
from planbench.tools.identity import identity, transparent
from planbench.tools.problems import MAX_PROBLEMS, ArgumentProblem, Unknowns, told, worded
from planbench.tools.result_schema import ResultSchema
from planbench.tools.schema import MismatchError, SchemaArguments
from planbench.tools.signature import (
    bottom,
    default_text,
    is_async,
    is_unbound_method,
    read_signature,
)
from planbench.tools.typed import TypedArguments, output_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planbench.tools.problems import Finding

Effects = Literal["read", "write", "destructive"]

_MAX_NAME: Final = 200
_logger = logging.getLogger(__name__)
_observers: list[Callable[[Tool], None]] = []


class _Arguments(Protocol):
    """How a tool's arguments are read: from a signature, or from a JSON Schema."""

    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def unchecked(self) -> tuple[str, ...]: ...
    @property
    def read(self) -> Callable[[Any], dict[str, Any]]: ...
    @property
    def read_literal(self) -> Callable[[Any], dict[str, Any]]: ...
    def explain(
        self, error: Exception, args: Mapping[str, Any], unknowns: Unknowns, *, verbatim: bool
    ) -> list[Finding] | None: ...


class Tool:
    """A function that a plan may call by name, with what must be known to check the call.

    ``parameters`` and ``output_schema`` are JSON Schema; ``fingerprint`` changes when
    the function's source, signature or bound values do. With ``wants_idempotency_key``
    the call takes an ``idempotency_key`` that no plan writes. ``unchecked`` names the
    parameters whose annotation could not be used: they take anything. ``read`` gives what
    ``validate`` does, and raises whatever the validator raises. ``gives_nothing``
    says that it is declared to return None; then there is no ``output_schema``. ``check_result``
    is there where results are held to a schema, and raises ResultInvalid.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: _Arguments,
        *,
        description: str,
        signature_text: str,
        output_schema: dict[str, Any] | None,
        wants_idempotency_key: bool,
        options: _Options,
    ) -> None:
        self.name = name
        self.function = function
        self.description = description
        self.signature_text = signature_text
        self.parameters = arguments.parameters
        self.unchecked = arguments.unchecked
        self.gives_nothing = output_schema is not None and output_schema.get("type") == "null"
        self.output_schema = None if self.gives_nothing else output_schema
        self.wants_idempotency_key = wants_idempotency_key
        self.effects = options.effects
        self.idempotent = options.idempotent
        self.cost = options.cost
        self.is_async = is_async(function)
        self.module: str = getattr(bottom(function), "__module__", None) or ""
        self.fingerprint = fingerprint(function, arguments.parameters)
        self._arguments = arguments
        self.read = arguments.read
        self.check_result: Callable[[Any], None] | None = None
        self.__name__ = name
        self.__doc__ = description
        self.__wrapped__ = function

    @classmethod
    def from_function(
        cls,
        function: Any,
        *,
        name: str | None = None,
        description: str | None = None,
        effects: Effects = "read",
        idempotent: bool | None = None,
        cost: float | None = None,
    ) -> Tool:
        """Make a tool of a function, method, partial or callable object.

        The description is the docstring; ``idempotent`` is true for tools that only
        read, unless said otherwise. Raises ToolError for what a plan cannot call.
        """
        if isinstance(function, Tool):
            function = function.function
        if not callable(function) or isinstance(function, type):
            raise ToolError(
                f"{_kind(function)} cannot be a tool",
                hint="give a function, a bound method or an object that can be called",
            )
        name = _checked_name(function, name)
        options = _Options(name, effects, idempotent, cost)
        signature = read_signature(function, name)
        return cls(
            name,
            function,
            TypedArguments(name, signature),
            description=_description(function) if description is None else description,
            signature_text=signature.text,
            output_schema=output_schema(signature.returns),
            wants_idempotency_key=signature.takes_key,
            options=options,
        )

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        call: Callable[..., Any],
        output_schema: dict[str, Any] | None = None,
        *,
        effects: Effects = "read",
        idempotent: bool | None = None,
        cost: float | None = None,
    ) -> Tool:
        """Make a tool of a JSON Schema and a call, sync or async, that takes ``**arguments``.

        A result that breaks ``output_schema`` is an error of its call: ``check_result`` raises
        ResultInvalid. Raises ToolError for a schema that is not well formed or refers outside of itself.
        """
        name = _checked_name(call, name)
        options = _Options(name, effects, idempotent, cost)
        arguments = SchemaArguments(name, schema)
        made = cls(
            name,
            call,
            arguments,
            description=description or "",
            signature_text=_schema_text(name, arguments.parameters, output_schema),
            output_schema=output_schema,
            wants_idempotency_key=arguments.takes_key,
            options=options,
        )
        if output_schema is not None:
            made.check_result = ResultSchema(name, output_schema).check
        return made

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Give the keyword arguments for the call, coerced; raises ToolArgumentsInvalid.

        The message names paths, what was expected and the type that came, never a value.
        """
        try:
            return self.read(args)
        except Exception as error:  # noqa: BLE001 - validators of users may raise anything: it is explained
            cause = None if isinstance(error, ValidationError | MismatchError) else error
            raise self._refusal(error, args) from cause

    def check_arguments(
        self, args: dict[str, Any], is_unknown: Callable[[Any], bool]
    ) -> list[ArgumentProblem]:
        """Find what is wrong with arguments as a plan writes them.

        A value for which ``is_unknown`` holds, such as a placeholder, fits anything.
        """
        try:
            self._arguments.read_literal(args)
        except Exception as error:  # noqa: BLE001 - validators of users may raise anything: it is explained
            return self._problems(error, args, Unknowns(args, is_unknown), verbatim=True)
        return []

    def identity(self) -> str | None:
        """Say what code a call would run now, as a digest; None where that cannot be told.

        Unlike ``fingerprint`` it follows helpers and globals, and is made anew at each call.
        """
        return identity(self)

    @property
    def needs_object(self) -> bool:
        """Whether it is a method that lacks its object, and so cannot be called yet."""
        return is_unbound_method(self.function)

    def _problems(
        self, error: Exception, args: Mapping[str, Any], unknowns: Unknowns, *, verbatim: bool
    ) -> list[ArgumentProblem]:
        findings = self._arguments.explain(error, args, unknowns, verbatim=verbatim)
        if findings is None:
            if unknowns:  # a validator met a placeholder instead of its value
                return []
            text = f"args cannot be checked: a validator raised {type(error).__name__}"
            return [ArgumentProblem("bad_arg_type", (), text)]
        if not findings and not unknowns:
            return [ArgumentProblem("bad_arg_type", (), "args do not fit the tool's schema")]
        names = self._arguments.names
        return [worded(finding, self.name, names) for finding in findings[:MAX_PROBLEMS]]

    def _refusal(self, error: Exception, args: Mapping[str, Any]) -> ToolArgumentsInvalid:
        problems = self._problems(error, args, Unknowns(), verbatim=False)
        text = f"tool {self.name!r} refuses its arguments: {told(problems)}"
        return ToolArgumentsInvalid(text, tool=self.name, problems=problems)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: nothing is validated."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        """Bind a tool that was made of a method to its object, as a method is bound."""
        if instance is None or not self.needs_object:
            return self
        bound = copy.copy(self)
        bound.function = bound.__wrapped__ = types.MethodType(self.function, instance)
        return bound

    def __repr__(self) -> str:
        return f"<Tool {self.signature_text}>"


transparent.add(Tool)


class _Options:
    """How a tool may be used; raises ToolError for a value that is none of the choices."""

    def __init__(
        self, name: str, effects: Effects, idempotent: bool | None, cost: float | None
    ) -> None:
        if effects not in get_args(Effects):
            raise ToolError(
                f"tool {name!r}: effects must be 'read', 'write' or 'destructive', not {effects!r}",
                tool=name,
            )
        self.effects: Effects = effects
        self.idempotent = effects == "read" if idempotent is None else idempotent
        self.cost = cost


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Effects = "read",
    idempotent: bool | None = None,
    cost: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, as ``@tool`` or ``@tool(effects="write", ...)``.

    The options are those of ``Tool.from_function``. The tool is still called as the
    function was. Raises ToolError for what a plan cannot call.
    """
    if function is not None:
        return _defined(function, options)
    return lambda decorated: _defined(decorated, options)


def observe_definitions(callback: Callable[[Tool], None]) -> Callable[[], None]:
    """Be told of each tool that ``@tool`` makes; gives the way to end it.

    Methods in a class body are not told: they are tools once they have their object.
    """
    _observers.append(callback)

    def stop() -> None:
        if callback in _observers:
            _observers.remove(callback)

    return stop


def _defined(function: Callable[..., Any], options: dict[str, Any]) -> Tool:
    made = Tool.from_function(function, **options)
    if not made.needs_object:
        for observer in tuple(_observers):
            try:
                observer(made)
            except Exception:
                _logger.exception("an observer of tool definitions failed at %r", made.name)
    return made


def _checked_name(function: Any, name: Any) -> str:
    if name is None:
        name = _own_name(function)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ToolError(f"a tool's name must be printable text, not {name!r}")
    if len(name) > _MAX_NAME:
        raise ToolError(f"a tool's name holds at most {_MAX_NAME} characters: {name[:40]!r}...")
    if name == "<lambda>":
        raise ToolError("a lambda has no name that a plan could write", hint="give it: name=...")
    return str(name)


def _own_name(function: Any) -> str:
    """Give the function's name; a partial goes by what it calls, an object by its class."""
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _description(function: Any) -> str:
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func
    if inspect.isroutine(function) or hasattr(function, "__wrapped__"):
        return inspect.getdoc(function) or ""
    return inspect.getdoc(type(function).__call__) or inspect.getdoc(type(function)) or ""


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__!r}"
    return f"a value of type {type(value).__name__!r}"


_PYTHON: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}


def _schema_text(name: str, schema: Mapping[str, Any], output: Mapping[str, Any] | None) -> str:
    """Write a JSON Schema as a signature, the required arguments first."""
    required = set(schema.get("required", ()))
    parts = []
    properties: dict[str, Any] = schema.get("properties", {})
    for key in sorted(properties, key=lambda one: one not in required):
        inner = properties[key] if isinstance(properties[key], dict) else {}
        text = f"{key}: {_type_text(inner)}"
        if key not in required:
            text += f" = {default_text(inner['default'])}" if "default" in inner else " = ..."
        parts.append(text)
    end = "" if output is None else f" -> {_type_text(output)}"
    return f"{name}({', '.join(parts)}){end}"


def _type_text(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " | ".join(_PYTHON.get(kind, "Any") for kind in kinds) or "Any"
