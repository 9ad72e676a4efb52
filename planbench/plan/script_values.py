"""What a plan's script does with values: texts, fields, paths, facets, comparisons.

Only the parts that a script needs are copied into it; nothing here imports planbench.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planbench.plan.script_runtime import Run


def text(*parts: Any) -> str:
    """Join the parts of a text: strings and dates as they are, anything else as JSON."""
    return "".join(map(written, parts))


def written(part: Any) -> str:
    """Write one value as text: what JSON does not have as what comes nearest to it."""
    if isinstance(part, str):
        return str.__str__(part)
    try:
        made = dumped(part)
    except (TypeError, ValueError):  # a key that is no text, NaN
        made = dumped(as_json(part))
    return str(json.loads(made)) if made.startswith('"') else made


def dumped(value: Any) -> str:
    """Write a value as JSON; raises ValueError for what is no number, TypeError for an odd key."""
    return json.dumps(
        value, default=told, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def as_json(value: Any) -> Any:
    """Give a value in maps, lists and scalars of JSON."""
    if isinstance(value, dict):
        return {written(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, str | int) else as_json(told(value))


def told(value: Any) -> Any:
    """Give a value that JSON does not have as one that it has: dates and others as text."""
    if hasattr(value, "isoformat") and not isinstance(value, type):
        return value.isoformat()
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        single = value.tolist()
        is_other = value.dtype.kind not in "mM" and type(single) is not type(value)
        return single if is_other else str(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda one: (type(one).__name__, written(one)))
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return value.value if hasattr(type(value), "__members__") else str(value)


def field(item: Any, path: str) -> Any:
    """Read a field of an item: ``owner.name``."""
    for name in path.split("."):
        if isinstance(item, dict):
            item = item[name]
        elif isinstance(item, list | tuple) and name.isdecimal():
            item = item[int(name)]
        else:
            item = getattr(item, name)
    return item


def ref(run: Run, node: str) -> dict[str, Any]:
    """Give the small reference of a node, without the body of its result."""
    return {
        "node_id": node,
        "keys": run.keys.get(node, []),
        "facets": run.facets.get(node, {}),
        "status": run.status[node],
        "item_count": run.items[node][0] if node in run.items else None,
        "errors": run.reasons.get(node, []),
    }


def at(value: Any, path: str, *, counting: bool = False) -> Any:
    """Read a path such as ``findings[].severity``; one with ``[]`` gives a list."""
    many = False
    for step in re.findall(r"\[\]|\[\d+\]|[^.\[\]]+", path):
        if step == "[]":
            inner = [rows(one) for one in value if one is not None] if many else [rows(value)]
            value, many = [one for part in inner for one in part], True
        elif many:
            value = get_each(value, step, counting=counting)
        else:
            value = get(value, step)
    return rows(value) if many else value


def rows(value: Any) -> list[Any]:
    """Give the elements of a list, the rows of a table, the values of a column."""
    if hasattr(value, "iloc"):
        found: list[Any] = value.to_dict("records") if hasattr(value, "columns") else list(value)
        return found
    if isinstance(value, list | tuple):
        return list(value)
    raise TypeError(f"[] needs a list, and got {type(value).__name__}")


def get(value: Any, step: str) -> Any:
    """Take one step of a path: an index in brackets, a key, a column, an attribute."""
    if step.startswith("["):
        return rows(value)[int(step[1:-1])]
    if isinstance(value, dict) or hasattr(value, "iloc"):
        return value[step]
    if value is None or isinstance(value, list | str | bytes | int | float):
        raise TypeError(f"{type(value).__name__} has no field {step!r}")
    return getattr(value, step)


def get_each(values: list[Any], step: str, *, counting: bool) -> list[Any]:
    """Take a step from each value; null stays null, and so does, to be counted, what is missing."""
    found, missing = [], 0
    for value in values:
        try:
            found.append(None if value is None else get(value, step))
        except (KeyError, AttributeError, IndexError):
            if not counting:
                raise
            missing += 1
            found.append(None)
    if missing and missing == sum(value is not None for value in values):
        raise KeyError(step)
    return found


def facets_of(run: Run, node: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Read facets, of one result or merged over a fan-out; what does not fit is left out."""
    merged = node in run.survivors
    values = list(run.survivors[node].values()) if merged else [run.results[node]]
    facets: dict[str, Any] = {}
    notes = run.reasons.setdefault(node, [])
    for family in ("paths", "counts", "group_counts"):
        for name, path in spec.get(family, {}).items():
            found = readings(values, path, notes, counting=family != "paths")
            if merged or found:
                facets[name] = summary(family, found, spec["most"], merged=merged)
    return facets


def readings(values: list[Any], path: str, notes: list[str], *, counting: bool) -> list[Any]:
    """Read a path of each value; where it does not fit the facet is left out."""
    found = []
    for value in values:
        try:
            reading = at(value, path, counting=counting)
            found.append(rows(reading) if counting else fact(reading))
        except (KeyError, AttributeError, IndexError, TypeError) as error:
            notes.append(f"a facet is left out: {path}: {error}")
    return found


def summary(family: str, found: list[Any], most: int, *, merged: bool) -> Any:
    """Make one facet of what was read: a value, a number, or how many of each."""
    if family == "counts":
        return sum(len(part) for part in found)
    if family == "group_counts":
        return tally([value for part in found for value in part], most)
    return (
        list({json.dumps(value): value for value in found}.values())[:most] if merged else found[0]
    )


def fact(value: Any) -> Any:
    """Keep what is small; of anything else only say what it is."""
    if isinstance(value, dict):
        return {str(name): fact(inner) for name, inner in list(value.items())[:25]}
    if value is None or isinstance(value, bool | int | float | str):
        return value[:200] if isinstance(value, str) else value
    return type(value).__name__


def tally(values: list[Any], most: int) -> dict[str, int]:
    """Count by value, the largest groups first, the rest together."""
    counts: dict[str, int] = {}
    for value in values:
        name = value if isinstance(value, str) else json.dumps(fact(value))
        counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    rest = sum(count for _, count in ordered[most:])
    return dict(ordered[:most]) | ({"(other)": rest} if rest else {})


def facet(run: Run, node: str, name: str) -> Any:
    """Give a facet for a guard; a built-in one where the node has none of that name."""
    facets = run.facets.get(node, {})
    if name in facets or run.status[node] == "skipped":
        return facets[name]
    ok, failed = run.items.get(node, (int(run.status[node] == "ok"), 0))
    if name == "count" and node not in run.items:
        value: Any = run.results.get(node)
        ok = len(value) if hasattr(value, "__len__") else 1
    return {"count": ok, "items_ok": ok, "items_failed": failed}[name]


def errors(run: Run) -> int:
    """Count the nodes that have failed so far."""
    return sum(status == "error" for status in run.status.values())


def compare(left: Any, sign: str, right: Any) -> bool:
    """Compare as a guard does: numbers with numbers, text with text."""
    alike = kind(left) == kind(right)
    if sign in {"==", "!="}:
        return (alike and left == right) is (sign == "==")
    if not alike or kind(left) not in {"number", "str"}:
        raise TypeError(f"{kind(left)} and {kind(right)} have no order")
    answers = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return bool(answers[sign])


def one_of(value: Any, among: Any) -> bool:
    """Say whether a value is one of several, or a key of a map."""
    return any(compare(value, "==", other) for other in among)


def kind(value: Any) -> str:
    """Name the kind of a value; true and false are no numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def all_of(*tests: Any) -> bool:
    """Answer and: false decides, also beside a test that has no answer."""
    return answer(tests, decides=False)


def any_of(*tests: Any) -> bool:
    """Answer or: true decides, also beside a test that has no answer."""
    return answer(tests, decides=True)


def answer(tests: Any, *, decides: bool) -> bool:
    """Ask the tests in turn."""
    problem: Exception | None = None
    for test in tests:
        try:
            if yes_or_no(test()) is decides:
                return decides
        except Exception as error:  # noqa: BLE001 - whatever it is, the other test may decide
            problem = error
    if problem is not None:
        raise problem
    return not decides


def yes_or_no(value: Any) -> bool:
    """Accept nothing but true and false."""
    if value is True or value is False:
        return bool(value)
    raise TypeError(f"{value!r} is neither true nor false")
