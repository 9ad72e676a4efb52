"""What the keywords of a call in the builder say: tools, guards, facets, tries, dates."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Mapping
from typing import Any

from planbench.errors import LanguageError
from planbench.plan.conditions import Condition
from planbench.plan.handles import Facet, Handle
from planbench.plan.model import FacetSpec, RetryPolicy


def tool_name(tool: Any) -> str:
    """Give the name by which a plan calls a function, a Tool or a name.

    Raises LanguageError for what has no name that a plan could write.
    """
    if isinstance(tool, str):
        return str(tool)
    name = getattr(tool, "name", None)
    if not isinstance(name, str):
        while not hasattr(tool, "__name__") and hasattr(tool, "func"):
            tool = tool.func  # a partial goes by what it calls
        name = getattr(tool, "__name__", type(tool).__name__)
        if not callable(tool) or isinstance(tool, type | Handle):
            raise LanguageError(f"{tool!r} is no tool", hint="give a function, a Tool or a name")
    if name == "<lambda>":
        raise LanguageError("a lambda has no name that a plan could write", hint="use def")
    return name


def check_meant(tool: Any, name: str, options: dict[str, Any]) -> None:
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
    if isinstance(when, Condition):
        return when.text
    if isinstance(when, str):
        return when
    raise LanguageError(
        f"a guard is a text or a comparison, not {when!r}",
        hint="when=listing.facet('n') > 0, or when='ctx.artifacts.listing.n > 0'",
    )


def facets_record(facets: Any, max_group_keys: Any) -> dict[str, Any]:
    if isinstance(facets, FacetSpec):
        record: dict[str, Any] = facets.model_dump(exclude_unset=True, warnings=False)
    else:
        record = {}
        for name, facet in (facets or {}).items():
            kind, path = ("paths", facet) if isinstance(facet, str) else ("", "")
            if isinstance(facet, Facet):
                kind, path = facet.kind, facet.path
            if not kind:
                raise LanguageError(
                    f"facet {name!r} is a path, count(path) or groups(path), not {facet!r}"
                )
            record.setdefault(kind, {})[name] = path
    if max_group_keys is not None:
        record["max_group_keys"] = max_group_keys
    return record


def retry_record(retry: Any) -> Any:
    if isinstance(retry, RetryPolicy):
        return retry.model_dump(exclude_unset=True, warnings=False)
    return dict(retry) if isinstance(retry, Mapping) else {"max_attempts": retry}


def date_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def written(**fields: Any) -> dict[str, Any]:
    """Keep the keywords that were given."""
    return {name: value for name, value in fields.items() if value is not None}
