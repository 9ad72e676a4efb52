"""What ``wm_compute`` is asked for: a source, a row of operations, a name. No code and no query text."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from planbench.errors import SpecInvalid
from planbench.plan.structure import suggestion

MAX_OPS: Final = 50
MAX_SOURCES: Final = 1_000
_SHOWN: Final = 5
_NO_VALUE: Final = ("isnull", "notnull")

Name = Annotated[str, Field(max_length=500)]
Key = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(min_length=1, max_length=100)]
Scalar = bool | int | float | Annotated[str, Field(max_length=10_000)]
Aggregate = Literal["count", "sum", "mean", "min", "max", "nunique", "first"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Filter(_Part):
    """Keeps the rows whose cell fits."""

    op: Literal["filter"]
    column: Name
    cmp: Literal["==", "!=", "<", "<=", ">", ">=", "in", "contains", "isnull", "notnull"]
    value: Scalar | Annotated[list[Scalar], Field(max_length=10_000)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.cmp in _NO_VALUE:
            if self.value is not None:
                raise ValueError(f"{self.cmp} takes no value")
        elif self.value is None:
            raise ValueError(f'{self.cmp} needs a value; empty cells are found with "isnull"')
        elif (self.cmp == "in") is not isinstance(self.value, list):
            raise ValueError(
                '"in" needs a list of values'
                if self.cmp == "in"
                else f'{self.cmp} needs one value; for several write "in"'
            )
        return self


class Select(_Part):
    """Keeps these columns, in this order."""

    op: Literal["select"]
    columns: Names


class Rename(_Part):
    """Gives columns other names: old to new."""

    op: Literal["rename"]
    columns: Annotated[dict[Name, Key], Field(min_length=1, max_length=100)]


class Sort(_Part):
    """Sorts rows; empty cells come last, equal rows keep their order."""

    op: Literal["sort"]
    by: Name | Names
    ascending: bool = True


class Head(_Part):
    """Keeps the first rows."""

    op: Literal["head"]
    n: Annotated[int, Field(ge=0)]


class Group(_Part):
    """Gives a row for each value of ``by``: ``column_function`` for each of ``agg``, or a ``count``."""

    op: Literal["group"]
    by: Name | Names
    agg: Annotated[dict[Name, Aggregate | list[Aggregate]], Field(max_length=50)] = Field(
        default_factory=dict
    )


class ValueCounts(_Part):
    """Gives each value of a column with its ``count``, the most frequent first."""

    op: Literal["value_counts"]
    column: Name
    n: Annotated[int, Field(ge=1)] | None = None


class Join(_Part):
    """Sets the columns of another entry beside these, where ``on`` is equal."""

    op: Literal["join"]
    with_: Key = Field(alias="with")
    on: Name | Names
    how: Literal["inner", "left", "right", "outer"] = "inner"
    select: str | None = None


class Dedupe(_Part):
    """Keeps the first of equal rows; with ``columns`` only those are looked at."""

    op: Literal["dedupe"]
    columns: Names | None = None


Op = Filter | Select | Rename | Sort | Head | Group | ValueCounts | Join | Dedupe
_KINDS: Final[dict[str, type[_Part]]] = {
    "filter": Filter,
    "select": Select,
    "rename": Rename,
    "sort": Sort,
    "head": Head,
    "group": Group,
    "value_counts": ValueCounts,
    "join": Join,
    "dedupe": Dedupe,
}


class ComputeSpec(_Part):
    """A table made of stored values.

    ``source`` is a key, a node id, a pattern, or a list of those; ``select`` a path to the
    part wanted, such as ``findings[]``. Of several entries ``label`` names the column with
    each row's key, and ``item`` adds columns: name to path in the entry.
    """

    source: Key | Annotated[list[Key], Field(min_length=1, max_length=MAX_SOURCES)]
    select: str | None = None
    label: Name | None = "key"
    item: Annotated[dict[Key, Key], Field(max_length=50)] = Field(default_factory=dict)
    ops: Annotated[list[Annotated[Op, Field(discriminator="op")]], Field(max_length=MAX_OPS)] = (
        Field(default_factory=list)
    )
    store_as: Key | None = None
    description: Annotated[str, Field(max_length=2_000)] = ""


_ADAPTER: Final = TypeAdapter(ComputeSpec)
_EXAMPLE: Final = (
    'a spec looks like {"source": "fetch", "select": "findings[]", "ops": '
    '[{"op": "filter", "column": "severity", "cmp": "==", "value": "high"}, '
    '{"op": "value_counts", "column": "service"}], "store_as": "high_by_service"}'
)


def read_spec(spec: Any) -> ComputeSpec:
    """Read a spec; raises SpecInvalid that names each place and the right form."""
    try:
        return _ADAPTER.validate_python(spec)
    except ValidationError as error:
        problems = _problems(error)
        more = len(problems) - _SHOWN
        said = problems[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        raise SpecInvalid("; ".join(said), hint=_EXAMPLE) from None


def _problems(error: ValidationError) -> list[str]:
    """Word the problems for a model; a field that may have several forms is told about one."""
    found: dict[str, tuple[bool, str]] = {}
    for problem in error.errors(include_url=False, include_input=False):
        place, kind = _place(problem["loc"])
        other_form = problem["type"].endswith("_type")
        if place not in found or (found[place][0] and not other_form):
            said = f"{place or 'the spec'}: {_worded(problem, place, kind)}"
            found[place] = other_form, said
    return [said for _, said in found.values()]


def _place(where: tuple[str | int, ...]) -> tuple[str, str | None]:
    """Name a place as one reads it, and the kind of operation that it lies in."""
    steps, kind = list(where), None
    if len(steps) > 2 and steps[0] == "ops" and steps[2] in _KINDS:  # noqa: PLR2004 - ops, number, kind
        kind = str(steps.pop(2))
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step[:60]}" if text else step[:60]
        else:
            break  # which of the allowed forms was tried
    return text, kind


def _worded(problem: Any, place: str, kind: str | None) -> str:
    context = problem.get("ctx", {})
    said = str(problem["msg"])
    match problem["type"]:
        case "extra_forbidden":
            fields = _fields(_KINDS[kind] if kind else ComputeSpec)
            near = suggestion(place.rpartition(".")[2], fields)
            said = f"there is no such field; {near or 'there are ' + ', '.join(fields)}"
        case "missing":
            said = "is missing"
        case "union_tag_invalid":
            near = suggestion(str(context.get("tag", ""))[:60], _KINDS)
            said = f"there is no such op; {near or 'there are ' + ', '.join(_KINDS)}"
        case "union_tag_not_found":
            said = f'each operation names itself in "op": {", ".join(_KINDS)}'
        case "literal_error":
            said = f"write one of {context.get('expected')}"
        case "value_error":
            said = str(context.get("error"))
        case "model_type" | "model_attributes_type" | "dict_type":
            said = "write a map"
    return said[:1].lower() + said[1:]


def _fields(kind: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]
