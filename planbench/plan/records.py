"""The models of a plan compared and changed field by field.

Values of users are never compared with ``==``, which tables answer cell by cell and
numbers across their types: 1, 1.0 and true are three values here, and NaN is one.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from planbench.plan.model import ParamSpec, PlanModel

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

Route = tuple[str | int, ...]

MISSING: Final = object()
"""What stands where nothing does."""

_EXACT: Final = frozenset({type(None), bool, int, bytes})
_TOLD: Final = frozenset(
    {
        float,
        complex,
        dt.date,
        dt.datetime,
        dt.time,
        dt.timedelta,
        decimal.Decimal,
        uuid.UUID,
    }
)
_WHOLE: Final = ("depends_on",)


class FieldChange(BaseModel):
    """One field that is not what it was; ``path`` goes down from the node or the plan.

    An ``added`` one had no old value, a ``removed`` one has no new one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: tuple[str | int, ...]
    kind: Literal["added", "removed", "changed"]
    old: Any = None
    new: Any = None


def fields(value: Any) -> Mapping[str, Any] | None:
    """Give what a model or a map holds, under the names that are written; else None."""
    if isinstance(value, PlanModel):
        return {
            field.alias or name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if not _is_unsaid(value, name)
        }
    return value if type(value) is dict and all(type(name) is str for name in value) else None


def _is_unsaid(model: PlanModel, name: str) -> bool:
    """Whether it is the default of a parameter that has none: null is one, nothing is not."""
    return (
        isinstance(model, ParamSpec)
        and name == "default"
        and model.default is None
        and name not in model.model_fields_set
    )


def record(model: PlanModel, *, as_written: bool = False) -> dict[str, Any]:
    """Give a model as plain maps, without the fields that have their default value.

    With ``as_written`` those that somebody wrote stay.
    """
    found = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        said = name in model.model_fields_set and (as_written or isinstance(model, ParamSpec))
        if said or not same(value, field.get_default(call_default_factory=True)):
            found[field.alias or name] = plain(value, as_written=as_written)
    return found


def plain(value: Any, *, as_written: bool = False) -> Any:
    """Give a value whose models are maps; anything else is given as it is."""
    if isinstance(value, PlanModel):
        return record(value, as_written=as_written)
    if type(value) is dict and any(isinstance(item, PlanModel) for item in value.values()):
        return {name: plain(item, as_written=as_written) for name, item in value.items()}
    return value


def same(old: Any, new: Any) -> bool:
    """Whether two values are the same, type for type; what is no plain value is only itself."""
    kind = type(old)
    if old is new or kind is not type(new):
        return old is new
    if kind is str or kind in _EXACT:
        return bool(old == new)
    if kind is list or kind is tuple:
        return len(old) == len(new) and all(map(same, old, new))
    if kind in _TOLD:
        return repr(old) == repr(new)
    before, after = fields(old), fields(new)
    if before is None or after is None or before.keys() != after.keys():
        return False
    return all(same(value, after[name]) for name, value in before.items())


def key(value: Any) -> Hashable:
    """Give what equals only that of the same value."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind in _EXACT:
        return kind, value
    if kind in _TOLD:  # by what is seen: NaN is NaN, and 0.0 is not -0.0
        return kind, repr(value)
    if kind is list or kind is tuple:
        return kind, tuple(map(key, value))
    held = fields(value)
    if held is not None:
        return kind, frozenset((name, key(item)) for name, item in held.items())
    return object, id(value)


def changes(old: Any, new: Any, path: Route = ()) -> Iterator[FieldChange]:
    """Give the fields in which two values differ, those of nested maps and lists as well."""
    if same(old, new):
        return
    before, after = fields(old), fields(new)
    if before is not None and after is not None:
        for name in dict.fromkeys([*before, *after]):
            yield from _change(before.get(name, MISSING), after.get(name, MISSING), (*path, name))
    elif type(old) is list and type(new) is list and path != _WHOLE:
        yield from _list_changes(old, new, path)
    else:
        yield FieldChange(path=path, kind="changed", old=plain(old), new=plain(new))


def _change(old: Any, new: Any, path: Route) -> Iterator[FieldChange]:
    if old is MISSING:
        yield FieldChange(path=path, kind="added", new=plain(new))
    elif new is MISSING:
        yield FieldChange(path=path, kind="removed", old=plain(old))
    else:
        yield from changes(old, new, path)


def _list_changes(old: list[Any], new: list[Any], path: Route) -> Iterator[FieldChange]:
    common = min(len(old), len(new))
    alike = sum(map(same, old, new))
    if len(old) != len(new) and 2 * alike < common:  # what stood first is somewhere else now
        yield FieldChange(path=path, kind="changed", old=old, new=new)
        return
    for place in range(common):
        yield from changes(old[place], new[place], (*path, place))
    for place in range(common, len(new)):
        yield FieldChange(path=(*path, place), kind="added", new=new[place])
    for place in reversed(range(common, len(old))):  # in the order in which they can be taken off
        yield FieldChange(path=(*path, place), kind="removed", old=old[place])


def value_at(value: Any, path: Route) -> Any:
    """Give what stands at a path of a model, models as maps; MISSING where nothing does."""
    for part in path:
        held: Any = fields(value) if isinstance(part, str) else value
        try:
            value = held[part]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return plain(value)


def changed(value: Any, change: FieldChange, path: Route) -> Any:
    """Give a record with one change made at a path; nothing else in it is copied.

    Raises LookupError or TypeError where the path leads nowhere.
    """
    if not path:
        return change.new
    first, rest = path[0], path[1:]
    drops = change.kind == "removed" and not rest
    if isinstance(first, int):
        if not isinstance(value, list):
            raise TypeError(first)
        items = list(value)
        if drops:
            del items[first]
        elif first == len(items) and not rest:
            items.append(change.new)
        else:
            items[first] = changed(items[first], change, rest)
        return items
    if value is not None and not isinstance(value, dict):
        raise TypeError(first)
    found = dict(value or {})
    if drops:
        del found[first]
    else:
        found[first] = changed(found.get(first), change, rest)
    return found


def unsaid(model: PlanModel, made: dict[str, Any], path: Route) -> dict[str, Any]:
    """Give the record of a changed model without what its change made a default again.

    A plan whose author never wrote the field is written without it.
    """
    first, rest = path[0], path[1:]
    named = ((field.alias or name, name, field) for name, field in type(model).model_fields.items())
    name, field = next(
        ((name, field) for alias, name, field in named if alias == first), ("", None)
    )
    if field is None or isinstance(model, ParamSpec) or first not in made:
        return made
    held = getattr(model, name)
    value = made[str(first)]
    if rest and isinstance(held, PlanModel) and type(value) is dict:
        value = unsaid(held, value, rest)
    if same(value, plain(field.get_default(call_default_factory=True))):
        return {key: inner for key, inner in made.items() if key != first}
    return {**made, str(first): value}


def path_text(path: Route) -> str:
    """Write the path of a field as ``args.filters[2].op``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() and part.isascii():
            text += f".{part}"
        else:
            text += f"[{part!r}]"
    return text.removeprefix(".")
