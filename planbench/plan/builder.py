"""Plans written in Python: calls are added one by one, and handles carry the edges.

    with Plan("sweep", objective="What is new?") as p:
        listing = p.add(list_reports, date=p.param("date", str), facets={"n": count("keys[]")})
        fetch = p.map(fetch_report, listing["keys[]"], key=item)

What comes out is the same record that a YAML file holds.
"""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel

from planbench.errors import GuardError, LanguageError, PlanInvalid
from planbench.plan.conditions import Condition
from planbench.plan.document import Document, format_json, format_yaml
from planbench.plan.draft import draft
from planbench.plan.guards import compile_guard
from planbench.plan.handles import Facet, Handle, NodeHandle, ParamHandle, PathHandle, text_of
from planbench.plan.model import (
    ID,
    PARAM,
    ExecutionPlan,
    FacetSpec,
    ForEach,
    PlanMetadata,
    PlanNode,
    RetryPolicy,
)
from planbench.plan.parameters import bind_document
from planbench.plan.placeholders import MAX_DEPTH, references
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from types import TracebackType

Tool = Callable[..., Any] | str | Any
Facets = Mapping[str, str | Facet] | FacetSpec

_TYPES: Final[dict[Any, str]] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    list: "list",
    dict: "dict",
    datetime.date: "date",
    datetime.datetime: "datetime",
}
_PARAM_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_ID_SIGN: Final = re.compile(r"[^A-Za-z0-9_\-]+")
_EACH: Final = ("as", "max_items", "max_concurrency", "on_item_error", "max_failed")
_MISSING: Final = object()
_FOR_PARAMETERS: Final = ("0", "true", '""')  # one of them makes a guard of its text readable
