"""What code a tool would run now: its functions, those that they reach, and the values they read."""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import hashlib
import importlib.util
import inspect
import logging
import os
import pathlib
import re
import site
import sys
import sysconfig
import types
import typing
import uuid
import zoneinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from planbench.tools.code import facts
from planbench.tools.signature import bottom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from planbench.tools.code import Import
    from planbench.tools.definition import Tool

MAX_OBJECTS: Final = 500
MAX_TEXT: Final = 1_000_000

transparent: Final[set[type]] = {type(functools.lru_cache(len))}
"""Types whose objects only stand for the function in their ``__wrapped__``."""

_REPRESENTED: Final = frozenset(
    {
        *(type(None), bool, int, float, complex, type(Ellipsis), type(NotImplemented), range),
        *(dt.date, dt.timedelta, dt.timezone, decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath, pathlib.PureWindowsPath),
        zoneinfo.ZoneInfo,
    }
)
_TEXTS: Final = frozenset({str, bytes})
_CLOCKS: Final = frozenset({dt.datetime, dt.time})
_ZONES: Final = frozenset({type(None), dt.timezone, zoneinfo.ZoneInfo})
_DYNAMIC: Final = frozenset({"eval", "exec", "globals", "__import__"})
_METACLASSES: Final = frozenset({"builtins", "abc", "enum", "typing"})
"""Modules whose metaclasses keep no state that matters."""
_CLASS_NOISE: Final = frozenset(
    {
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__"),
        *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__hash__"),
        *("__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__slots__"),
        *("__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotate__"),
        *("_is_protocol", "__protocol_attrs__", "__non_callable_proto_members__"),
        *("_is_runtime_protocol", "__annotations_cache__"),
    }
)


_MISSING: Final = object()
_BUILT: Final = (list, dict, set, bytearray)


class _Pair(typing.NamedTuple):
    first: None


class _UntoldError(Exception):
    """Raised at the first thing whose state cannot be told."""


def identity(tool: Tool) -> str | None:
    """Give a hex digest of all that a call would run now; None where that cannot be told.

    Functions are followed through globals, closures, defaults, partials and decorators;
    installed packages count by name, file and code. Equal digests hold in one process.
    """
    try:
        walk = _Walk(bottom(tool.function))
        walk.add(tool.function)
        return walk.digest(tool.fingerprint)
    except Exception:  # noqa: BLE001 - objects of users may raise anything when looked at: then it is untold
        return None


class _Walk:
    """The objects reached so far, each told once and then named by its number."""

    def __init__(self, bare: Any) -> None:
        self._home = getattr(bare, "__globals__", None)
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []
        self._places = MAX_OBJECTS
        self._chars = MAX_TEXT

    def digest(self, start: str) -> str:
        digest = hashlib.blake2b(start.encode(), digest_size=16)
        for value in self._objects:  # it grows while it is told
            text = "\0".join(self._told(value))
            digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def add(self, value: Any) -> str:
        """Write a value that has no parts; note any other to be told, and give its number."""
        self._places -= 1
        if self._places < 0:
            raise _UntoldError
        kind = type(value)
        if kind in _TEXTS:
            self._chars -= len(value)
            if self._chars < 0:
                raise _UntoldError
            return f"{kind.__name__}:{value!r}"
        if kind in _REPRESENTED or (kind in _CLOCKS and type(value.tzinfo) in _ZONES):
            fold = getattr(value, "fold", 0)
            return f"{kind.__name__}:{value!r}:{fold}"
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return f"#{number}"

    def _all(self, values: Iterable[Any]) -> list[str]:
        return [self.add(value) for value in values]

    def _told(self, value: Any) -> list[str]:
        kind = type(value)
        teller = self._tellers.get(kind)
        if teller is not None:
            return teller(self, value)
        if kind in transparent:
            return ["wrapped", self.add(value.__wrapped__)]
        origin = typing.get_origin(value)
        if origin is not None:
            return ["generic", self.add(origin), *self._all(typing.get_args(value))]
        return self._class(value) if isinstance(value, type) else self._instance(value)

    def _instance(self, value: Any) -> list[str]:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return ["member", self.add(kind), str(value._name_), self.add(value._value_)]
        if dataclasses.is_dataclass(value):
            return self._frozen(value)
        if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
            return ["named tuple", self.add(kind), *self._all(value)]
        if kind.__module__ == "typing":
            return ["typing", repr(value)]
        if inspect.isroutine(value) or callable(value):
            return _named(value)
        raise _UntoldError

    def _function(self, function: types.FunctionType) -> list[str]:
        code = function.__code__
        known = facts(code)
        told = ["function", known.digest, self.add(function.__defaults__)]
        told.append(self.add(function.__kwdefaults__))
        cells: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not filled yet
                told.append(f"{name} is empty")
            else:
                told += (name, self.add(cells[name]))
        if "__wrapped__" in function.__dict__:
            told.append(self.add(function.__dict__["__wrapped__"]))
        if function.__globals__ is not self._home and _installed(code.co_filename):
            return [*told, str(function.__module__), function.__qualname__, _age(code.co_filename)]
        for path in known.cells:
            if path[0] in cells:
                told += self._path(path, cells[path[0]])
        for path in known.globals:
            told += self._global(path, function.__globals__)
        for one in known.imports:
            told += self._import(one, function.__globals__, known.names)
        return told

    def _global(self, path: tuple[str, ...], scope: dict[str, Any]) -> list[str]:
        name = path[0]
        if name in scope:
            return [name, self.add(scope[name]), *self._path(path, scope[name])]
        if name in _DYNAMIC:
            raise _UntoldError
        builtin = getattr(builtins, name, _MISSING)
        if builtin is _MISSING:
            return [name, "missing"]
        return [name, self.add(builtin)]

    def _path(self, path: tuple[str, ...], value: Any) -> list[str]:
        """Follow the attributes that are read of a user's own module, or of a function."""
        told: list[str] = []
        for name in path[1:]:
            if isinstance(value, types.ModuleType):
                if not self._own(value):
                    break
            elif not isinstance(value, types.FunctionType):
                break
            value = vars(value).get(name, _MISSING)
            if value is _MISSING:
                break
            told += (name, self.add(value))
        return told

    def _import(self, one: Import, scope: dict[str, Any], names: tuple[str, ...]) -> list[str]:
        name = "." * one.level + one.name
        if one.level:
            name = importlib.util.resolve_name(name, scope.get("__package__") or "")
        module = sys.modules.get(name)
        told = ["import", name]
        if module is None or not self._own(module):
            return told
        space = vars(module)
        if one.taken is not None:
            if "*" in one.taken:
                raise _UntoldError
            return told + self._all(space[taken] for taken in one.taken if taken in space)
        # which attributes are read of a local name cannot be seen: those of the names written
        return told + self._all(space[taken] for taken in names if taken in space)

    def _own(self, module: types.ModuleType) -> bool:
        """Whether it is code of the user, which may change while the process runs."""
        space = vars(module)
        if space is self._home or module.__name__ == "__main__":
            return True
        filename = space.get("__file__")
        if not isinstance(filename, str):
            return module.__name__ not in sys.builtin_module_names
        return not _installed(filename)

    def _class(self, kind: type) -> list[str]:
        module = sys.modules.get(kind.__module__)
        named = ["class", kind.__module__, kind.__qualname__]
        if module is not None and not self._own(module):
            return [*named, _age(getattr(module, "__file__", None) or "")]
        if type(kind).__module__ not in _METACLASSES:
            raise _UntoldError
        told = [*named, *self._all(kind.__bases__)]
        if issubclass(kind, enum.Enum):
            for name, member in kind.__members__.items():
                told += (name, self.add(member._value_))
        for name, value in tuple(vars(kind).items()):
            if name not in _CLASS_NOISE and not _is_made(kind, value):
                told += (name, self.add(value))
        if dataclasses.is_dataclass(kind):
            told.append(repr(kind.__dict__.get("__dataclass_params__")))
            for field in dataclasses.fields(kind):
                told += (field.name, f"{field.init} {field.compare} {field.hash} {field.kw_only}")
                for default in (field.default, field.default_factory):
                    told.append("-" if default is dataclasses.MISSING else self.add(default))
        return told

    def _frozen(self, value: Any) -> list[str]:
        kind = type(value)
        names = [field.name for field in dataclasses.fields(value)]
        extra = set(getattr(value, "__dict__", ())) - set(names)
        if extra or not kind.__dataclass_params__.frozen or issubclass(kind, _BUILT):
            raise _UntoldError
        return ["frozen", self.add(kind), *self._all(getattr(value, name) for name in names)]

    def _sequence(self, value: Any) -> list[str]:
        return [type(value).__name__, *self._all(value)]

    def _set(self, value: Any) -> list[str]:
        return [type(value).__name__, *sorted(self._all(value))]

    def _dict(self, value: Any) -> list[str]:
        return ["dict", *(self.add(part) for pair in value.items() for part in pair)]

    def _partial(self, value: functools.partial[Any]) -> list[str]:
        return ["partial", *self._all((value.func, value.args, value.keywords))]

    def _method(self, value: types.MethodType) -> list[str]:
        return ["method", *self._all((value.__func__, value.__self__))]

    def _builtin(self, value: Any) -> list[str]:
        told = ["builtin", str(value.__module__), value.__qualname__]
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return told
        return [*told, self.add(owner)]

    def _property(self, value: property) -> list[str]:
        return ["property", *self._all((value.fget, value.fset, value.fdel))]

    _tellers: ClassVar[dict[type, Callable[[Any, Any], list[str]]]] = {
        types.FunctionType: _function,
        types.ModuleType: lambda _, value: ["module", value.__name__],
        types.MethodType: _method,
        types.BuiltinFunctionType: _builtin,
        types.MethodWrapperType: lambda walk, value: [value.__name__, walk.add(value.__self__)],
        functools.partial: _partial,
        staticmethod: lambda walk, value: ["static", walk.add(value.__func__)],
        classmethod: lambda walk, value: ["class method", walk.add(value.__func__)],
        property: _property,
        functools.cached_property: lambda walk, value: ["cached", walk.add(value.func)],
        list: _sequence,
        tuple: _sequence,
        set: _set,
        frozenset: _set,
        dict: _dict,
        types.MappingProxyType: _dict,
        type(_Pair.first): lambda _, value: ["field", repr(value.__reduce__()[1])],
        object: lambda _, __: ["object"],  # a sentinel: it has no state
        logging.Logger: lambda _, value: ["logger", value.name],  # what it does changes no result
        re.Pattern: lambda walk, value: ["pattern", walk.add(value.pattern), str(value.flags)],
    }


_MADE: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
_CODE: Final = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)


def _is_made(kind: type, value: Any) -> bool:
    """Whether a class has it from its making: slots, what a dataclass or an enum adds."""
    if isinstance(value, _MADE):
        return True
    if issubclass(kind, enum.Enum):
        return not isinstance(value, _CODE)
    return isinstance(value, types.FunctionType) and value.__code__.co_qualname.startswith(
        "__create_fn__."
    )


def _named(value: Any) -> list[str]:
    """Name what is no Python function: a descriptor in C, or a callable that its module gives."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    owner = getattr(value, "__objclass__", None)
    if inspect.ismethoddescriptor(value) and isinstance(owner, type):
        return ["descriptor", owner.__module__, str(name)]
    found = sys.modules.get(str(module))
    filename = getattr(found, "__file__", None)
    if not isinstance(filename, str) or not _installed(filename):
        raise _UntoldError
    if getattr(found, str(name), None) is not value:
        raise _UntoldError
    return ["named", str(module), str(name), _age(filename)]


def _roots() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages())
    paths.add(site.getusersitepackages())
    paths.add(str(pathlib.Path(__file__).parents[1]))
    found = {os.path.realpath(path) for path in paths} | paths
    return tuple(sorted(os.path.join(path, "") for path in found))  # noqa: PTH118 - a text ending in a separator


_ROOTS: Final = _roots()


@lru_cache(maxsize=4096)
def _installed(filename: str) -> bool:
    return filename.startswith(("<frozen ", *_ROOTS))


def _age(filename: str) -> str:
    try:
        return str(os.stat(filename).st_mtime_ns)  # noqa: PTH116 - on the way of every fan-out, a Path costs more than the call
    except (OSError, ValueError):
        return ""
