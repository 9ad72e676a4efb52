"""What a callable says about itself: its parameters, their types, and whether it is async."""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import typing_extensions
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from planbench.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

EMPTY: Final = inspect.Parameter.empty
IDEMPOTENCY_KEY: Final = "idempotency_key"
_UNPACK: Final[tuple[Any, ...]] = (typing.Unpack, typing_extensions.Unpack)
_MAX_LAYERS: Final = 50
_MAX_DEFAULT: Final = 40
_MAX_ANNOTATION: Final = 80


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument that a call may name; ``default`` is EMPTY where none can be shown."""

    name: str
    annotation: Any
    required: bool
    default: Any = EMPTY


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters that a plan may write, and what the call gives.

    ``unread`` names the parameters whose annotation could not be resolved; they
    take anything. A parameter ``idempotency_key`` is left out: the run fills it.
    """

    parameters: tuple[Parameter, ...]
    is_open: bool
    returns: Any
    text: str
    unread: tuple[str, ...] = ()
    takes_key: bool = False


def read_signature(function: Callable[..., Any], name: str) -> Signature:
    """Read a callable's signature; raises ToolError where it cannot be called by names."""
    bare = bottom(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolError(
            f"the signature of {name!r} cannot be read: {error}",
            tool=name,
            hint="wrap it in a function with named parameters",
        ) from error
    bound = _bound_names(function)
    shown = [p for p in signature.parameters.values() if p.name not in bound]
    if is_unbound_method(function):
        shown = shown[1:]
    names = _Names(bare)
    read: dict[str, Parameter] = {}
    unread: list[str] = []
    is_open = False
    for parameter in shown:
        _refuse_positional(parameter, name)
        annotation = names.resolve(parameter.annotation)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            packed = list(_packed(annotation, names))
            read.update((one.name, one) for one in packed)
            is_open = not packed
            continue
        if annotation is EMPTY:
            unread.append(parameter.name)
        read[parameter.name] = _parameter(parameter.name, annotation, parameter.default)
    takes_key = read.pop(IDEMPOTENCY_KEY, None) is not None
    returns = names.resolve(signature.return_annotation)
    return Signature(
        parameters=tuple(read.values()),
        is_open=is_open,
        returns=Any if returns is EMPTY else returns,
        text=_text(name, shown, signature.return_annotation),
        unread=tuple(unread),
        takes_key=takes_key,
    )


def bottom(function: Any) -> Any:
    """Give the plain function under partials, methods, decorators and callable objects."""
    for layer in layers(function):
        function = layer
    return function


def layers(function: Any) -> Iterator[Any]:
    """Give a callable and then each callable that it stands for, down to the plain function."""
    for _ in range(_MAX_LAYERS):
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType | staticmethod | classmethod):
            function = function.__func__
        elif callable(wrapped := inspect.getattr_static(function, "__wrapped__", None)):
            function = wrapped
        elif inspect.isroutine(function) or not callable(function):
            return
        else:
            function = type(function).__call__


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine; a wrapper counts for itself, not for what it wraps."""
    for _ in range(_MAX_LAYERS):
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, staticmethod | types.MethodType):
            function = function.__func__
        elif inspect.iscoroutinefunction(function):
            return True
        elif inspect.isroutine(function):
            return False
        else:
            function = type(function).__call__
    return False


def is_unbound_method(function: Any) -> bool:
    """Whether it is a method that still lacks its object: a function of a class body."""
    if not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    if not owner or owner.endswith("<locals>"):
        return False
    return function.__code__.co_varnames[: function.__code__.co_argcount][:1] in {
        ("self",),
        ("cls",),
    }


def _bound_names(function: Any) -> set[str]:
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return names


def _refuse_positional(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise ToolError(
            f"tool {name!r} takes *{parameter.name}, and a plan passes arguments by name",
            tool=name,
            hint="name each parameter, take one list instead, or use functools.wraps on a decorator's wrapper",
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ToolError(
            f"parameter {parameter.name!r} of tool {name!r} is positional-only, and a plan passes arguments by name",
            tool=name,
            hint="remove the / from its signature, or wrap it in a function with named parameters",
        )


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    annotation = Any if annotation is EMPTY else annotation
    if isinstance(default, FieldInfo):
        shown = EMPTY if default.default is PydanticUndefined else default.default
        return Parameter(name, Annotated[annotation, default], default.is_required(), shown)
    if default is EMPTY:
        notes = getattr(annotation, "__metadata__", ())
        filled = any(isinstance(note, FieldInfo) and not note.is_required() for note in notes)
        return Parameter(name, annotation, required=not filled)
    if default is None and annotation is not Any:
        annotation = _optional(annotation)
    return Parameter(name, annotation, required=False, default=default)


def _optional(annotation: Any) -> Any:
    """``limit: int = None`` takes None, whatever the annotation says."""
    try:
        return Optional[annotation]  # noqa: UP045 - the type is a value here, and may lack |
    except TypeError:  # no type at all: what makes the validator says so
        return annotation


def _packed(annotation: Any, names: _Names) -> Iterator[Parameter]:
    """Give the parameters that ``**kwargs: Unpack[SomeTypedDict]`` declares."""
    if typing_extensions.get_origin(annotation) not in _UNPACK:
        return
    (record,) = typing_extensions.get_args(annotation)
    for key, (kind, required) in names.fields(record).items():
        yield Parameter(key, kind, required)


class _Names:
    """Resolves annotations where the function was written: its globals, closure and outer function."""

    def __init__(self, function: Any) -> None:
        self._globals: dict[str, Any] = getattr(function, "__globals__", {})
        self._locals: dict[str, Any] = {}
        if inspect.isfunction(function):
            self._locals = {
                **_outer_locals(function),
                **_closure(function),
                **{one.__name__: one for one in getattr(function, "__type_params__", ())},
            }

    def resolve(self, annotation: Any) -> Any:
        """Give the type that an annotation means; EMPTY where its names cannot be found."""
        if annotation is EMPTY:
            return Any
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            hints = typing_extensions.get_type_hints(
                holder, self._globals, self._locals, include_extras=True
            )
            return self._portable(hints["it"], ())
        except Exception:  # noqa: BLE001 - an annotation runs a user's expression, which may raise anything
            return EMPTY

    def fields(self, record: Any, seen: tuple[Any, ...] = ()) -> dict[str, tuple[Any, bool]]:
        """Give the keys of a TypedDict with their types, and whether each must be there."""
        hints = typing_extensions.get_type_hints(
            record, localns={**self._locals, record.__name__: record}, include_extras=True
        )
        found = {}
        for key, kind in hints.items():
            origin: Any = typing_extensions.get_origin(kind)
            required = key in record.__required_keys__
            bare = kind
            if origin in {typing_extensions.Required, typing_extensions.NotRequired}:
                required = origin is typing_extensions.Required
                (bare,) = typing_extensions.get_args(kind)
            found[key] = (self._portable(bare, (*seen, record)), required)
        return found

    def _portable(self, annotation: Any, seen: tuple[Any, ...]) -> Any:
        """Write typing.TypedDict as the backport's, since pydantic refuses it before Python 3.12."""
        if sys.version_info >= (3, 12):
            return annotation
        origin: Any = typing_extensions.get_origin(annotation)
        for record in (annotation, origin):
            if typing.is_typeddict(record) and type(record).__module__ == "typing":
                return self._converted(record, seen)
        inner = typing_extensions.get_args(annotation)
        if not inner or origin in {typing.Literal, *_UNPACK}:
            return annotation
        if origin is Annotated:
            return Annotated[(self._portable(inner[0], seen), *inner[1:])]
        changed = tuple(self._portable(one, seen) for one in inner)
        if all(new is old for new, old in zip(changed, inner, strict=True)):
            return annotation
        outer = typing.Union if origin is types.UnionType else origin
        return outer[changed if len(changed) > 1 else changed[0]]

    def _converted(self, record: Any, seen: tuple[Any, ...]) -> Any:
        if record in seen:  # a record inside itself: its inner ones are checked to be maps
            return dict[str, Any]
        fields = {
            key: kind if required else typing_extensions.NotRequired[kind]
            for key, (kind, required) in self.fields(record, seen).items()
        }
        made = typed_dict(record.__name__, fields, getattr(record, "__pydantic_config__", None))
        made.__doc__ = record.__doc__
        made.__module__ = record.__module__
        return made


def typed_dict(name: str, fields: Mapping[str, Any], config: Any = None) -> Any:
    """Make a TypedDict class out of fields that are known only now."""
    make: Any = typing_extensions.TypedDict
    made = make(name, dict(fields))
    if config is not None:
        made.__pydantic_config__ = config
    return made


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet: the name is bound further down
            continue
    return found


def _outer_locals(function: types.FunctionType) -> Mapping[str, Any]:
    """Give the names of the function that is defining this one, while it still runs.

    A class that is local to it and named in a text annotation only is in no closure.
    """
    outer, _, _ = function.__qualname__.rpartition(".<locals>.")
    frame = inspect.currentframe() if outer else None
    while frame is not None:
        code = frame.f_code
        if code.co_qualname == outer and code.co_filename == function.__code__.co_filename:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _text(name: str, parameters: list[inspect.Parameter], returns: Any) -> str:
    pieces = []
    for parameter in parameters:
        if parameter.name == IDEMPOTENCY_KEY:
            continue
        stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
        annotation = _annotation_text(parameter.annotation)
        piece = f"{stars}{parameter.name}{f': {annotation}' if annotation else ''}"
        if parameter.default is not EMPTY:
            equals = " = " if annotation else "="
            piece += f"{equals}{default_text(parameter.default)}"
        pieces.append(piece)
    end = _annotation_text(returns)
    return f"{name}({', '.join(pieces)}){f' -> {end}' if end else ''}"


def _annotation_text(annotation: Any) -> str:
    if annotation is EMPTY:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("typing.", "").replace("__main__.", "")
    return text if len(text) <= _MAX_ANNOTATION else f"{text[: _MAX_ANNOTATION - 3]}..."


def default_text(default: Any) -> str:
    """Write a default value shortly; anything that is no plain value is ``...``."""
    if isinstance(default, FieldInfo):
        default = default.default
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    if default is None or isinstance(default, bool | int | float | str):
        text = repr(default)
        return text if len(text) <= _MAX_DEFAULT else "..."
    return repr(default) if isinstance(default, list | dict | tuple) and not default else "..."
