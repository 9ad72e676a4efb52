"""What the keywords of a call in the builder say: tools, guards, facets, tries, dates."""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import LanguageError
from planbench.plan.conditions import Condition
from planbench.plan.handles import Facet, Handle
from planbench.plan.model import FacetSpec, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

Facets = Mapping[str, str | Facet] | FacetSpec
Retry = int | Mapping[str, Any] | RetryPolicy

_PARAM_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES: Final[dict[Any, str]] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    list: "list",
    dict: "dict",
    dt.date: "date",
    dt.datetime: "datetime",
}


def param_type(name: Any, kind: Any) -> str:
    """Give the name of a parameter's type, of a Python type or of that name."""
    if not isinstance(name, str) or not _PARAM_NAME.fullmatch(name):
        raise LanguageError(f"a parameter's name is a plain word, not {name!r}")
    found = _TYPES.get(kind, kind) if isinstance(kind, type | str) else None
    if found not in _TYPES.values():
        raise LanguageError(
            f"param {name!r} cannot have the type {kind!r}",
            hint=f"the types are {', '.join(_TYPES.values())}",
        )
    return str(found)


def tool_name(tool: Any) -> str:
    """Give the name by which a plan calls a function, a Tool or a name.

    Raises LanguageError for what has no name that a plan could write.
    """
    if isinstance(tool, str):
        return str(tool)
    if isinstance(tool, type | Handle) or not callable(tool):
        raise LanguageError(f"{tool!r} is no tool", hint="give a function, a Tool or a name")
    name: Any = getattr(tool, "name", None)
    if not isinstance(name, str):
        function: Any = tool
        while not hasattr(function, "__name__") and hasattr(function, "func"):
            function = function.func  # a partial goes by what it calls
        name = str(getattr(function, "__name__", type(function).__name__))
    if name == "<lambda>":
        raise LanguageError("a lambda has no name that a plan could write", hint="use def")
    return str(name)


def check_meant(tool: Any, name: str, options: Iterable[str]) -> None:
    """Refuse a keyword that may be an option of the node or an argument of the tool."""
    schema = getattr(tool, "parameters", None)
    if isinstance(schema, Mapping):
        takes = set(schema.get("properties", ()))
    elif callable(tool):
        try:
            takes = set(inspect.signature(tool).parameters)
        except (TypeError, ValueError):  # a builtin that does not say what it takes
            takes = set()
    else:
        return
    for option in options:
        if option in takes:
            raise LanguageError(
                f"{name} has a parameter {option!r}, and so have nodes",
                hint=f"for the tool write args={{{option!r}: ...}}; with args={{}} it is the node's",
            )


def guard_text(when: Any) -> str:
    """Give the text of a guard; raises LanguageError for what is none."""
    if isinstance(when, Condition):
        return when.text
    if isinstance(when, str):
        return when
    raise LanguageError(
        f"a guard is a text or a comparison, not {when!r}",
        hint="when=listing.facet('n') > 0, or when='ctx.artifacts.listing.n > 0'",
    )


def facets_record(facets: Any, max_group_keys: Any) -> dict[str, Any]:
    """Give the fields of a FacetSpec; raises LanguageError for a facet of another kind."""
    if isinstance(facets, FacetSpec):
        record: dict[str, Any] = facets.model_dump(exclude_unset=True, warnings=False)
    else:
        record = {}
        for name, facet in (facets or {}).items():
            if not isinstance(facet, str | Facet):
                raise LanguageError(
                    f"facet {name!r} is a path, count(path) or groups(path), not {facet!r}"
                )
            kind, path = ("paths", facet) if isinstance(facet, str) else (facet.kind, facet.path)
            record.setdefault(kind, {})[name] = path
    if max_group_keys is not None:
        record["max_group_keys"] = max_group_keys
    return record


def retry_record(retry: Any) -> dict[str, Any]:
    """Give the fields of a RetryPolicy, of a number of attempts too."""
    if isinstance(retry, RetryPolicy):
        found: dict[str, Any] = retry.model_dump(exclude_unset=True, warnings=False)
        return found
    return dict(retry) if isinstance(retry, Mapping) else {"max_attempts": retry}


def date_text(value: Any) -> Any:
    """Give a date as ISO text, and anything else as it is."""
    return value.isoformat() if isinstance(value, dt.date) else value


def written(**fields: Any) -> dict[str, Any]:
    """Keep the keywords that were given."""
    return {name: value for name, value in fields.items() if value is not None}
