"""The short forms of the language, and the long one that everything else knows.

::

    for_each: listing.keys[]         {source: "{artifacts.listing}", select: "keys[]"}
    facets: {n: count(rows[])}       {counts: {n: "rows[]"}}
    facets: {by: groups(rows[].x)}   {group_counts: {by: "rows[].x"}}
    facets: {who: meta.owner}        {paths: {who: meta.owner}}
    when: diff.n > 0                 ctx.artifacts.diff.n > 0
    when: fetch.status == "ok"       ctx.status.fetch == "ok"

A key that is only the node's id, and ``depends_on`` where it says what is read anyway,
may be left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.fields import FieldProblem
from planbench.plan.inference import infer
from planbench.plan.model import ID_PATTERN, SOURCE, PlanNode
from planbench.plan.rename import default_key
from planbench.plan.short_guards import ambiguous, has_parameter, lengthened, names_of, shortened
from planbench.plan.source import shown
from planbench.plan.structure import Suggestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planbench.plan.short_guards import Names
    from planbench.plan.source import Route

KINDS: Final[dict[str, str]] = {"count": "counts", "groups": "group_counts"}

_SOURCE: Final = re.compile(rf"({ID_PATTERN})((?:\.(?=[^.])|\[).*)?", re.DOTALL)
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\((.*)\)", re.DOTALL)
FACET_MAPS: Final[tuple[str, ...]] = ("paths", "counts", "group_counts")
LIMIT: Final = "max_group_keys"
_MOST: Final = 1000
_PARAMETER: Final = "{params."
_FACET: Final = "a facet is count(path), groups(path) or a path"
BEFORE_EDGES: Final = ("id", "description", "type", "tool", "instruction", "tools")


class LongForm(NamedTuple):
    """A node's record in the long form.

    ``moved`` says where what stands at a path of it is written in the short one, and
    ``lost`` names the fields in which something is wrong.
    """

    record: dict[str, Any]
    moved: dict[Route, Route]
    problems: list[FieldProblem]

    @property
    def lost(self) -> set[str]:
        """The fields that could not be read."""
        return {str(problem.path[0]) for problem in self.problems}


class Vocabulary:
    """What the short forms of one plan may name."""

    def __init__(self, records: Iterable[Any]) -> None:
        found: dict[str, Any] = {}
        for record in records:
            if isinstance(record, PlanNode):
                found[record.id] = record.facets.model_dump()
            elif isinstance(record, dict) and isinstance(record.get("id"), str):
                found[record["id"]] = record.get("facets")
        self.names: Names = names_of(found)
        self.ids = Suggestions(found)


def long_form(record: dict[str, Any], known: Vocabulary) -> LongForm:
    """Give a node's record with its short forms written out; what is long stays the same object."""
    found = LongForm(record, {}, [])
    changed: dict[str, Any] = {}
    each, when, facets = record.get("for_each"), record.get("when"), record.get("facets")
    if isinstance(each, str) and (long := long_source(each)) is not None:
        changed["for_each"] = long
    if isinstance(when, str):
        node = ambiguous(when, known.names)
        if node is not None:
            found.problems.append(_ambiguous(node))
        elif (guard := lengthened(when, known.names)) != when:
            changed["when"] = guard
    if isinstance(facets, dict) and (flat := _flat_names(facets)):
        changed["facets"] = _long_facets(facets, flat, found)
    return found._replace(record={**record, **changed}) if changed else found


def long_source(text: str) -> dict[str, Any] | None:
    """Read ``listing.keys[]`` as source and select; None for a text that is no node and path."""
    match = _SOURCE.fullmatch(text.strip())
    if match is None:
        return None
    source = {"source": f"{{artifacts.{match[1]}}}"}
    return source | {"select": match[2].removeprefix(".")} if match[2] else source


def _ambiguous(node: str) -> FieldProblem:
    message = f"{node}.status is the status of node {node!r}, or its facet 'status'"
    fix = f"write ctx.status.{node} or ctx.artifacts.{node}.status"
    return FieldProblem("bad_guard", message, ("when",), fix)


def _flat_names(facets: dict[str, Any]) -> list[str]:
    """Name the facets that are written flat: any text beside the words of the long form."""
    return [
        name
        for name, value in facets.items()
        if isinstance(value, str) and name not in (*FACET_MAPS, LIMIT)
    ]


def _long_facets(facets: dict[str, Any], flat: list[str], found: LongForm) -> dict[str, Any]:
    maps = [name for name in FACET_MAPS if name in facets]
    for name in maps:
        if isinstance(facets[name], dict):
            message = f"facet {flat[0]!r} stands in the short form beside {name!r} of the long one"
            fix = (
                f"write all as name: count(path), or {flat[0]} under paths, counts or group_counts"
            )
            found.problems.append(
                FieldProblem("bad_field", message, ("facets", flat[0]), fix, superfluous=True)
            )
            return {key: value for key, value in facets.items() if key not in flat}
        message = f"a facet of the short form cannot be called {name!r}, a word of the long one"
        found.problems.append(
            FieldProblem("bad_field", message, ("facets", name), superfluous=True)
        )
    long: dict[str, Any] = {}
    for name, value in facets.items():
        if name in maps:
            continue
        if name == LIMIT:
            long[name] = value
            continue
        kind, path = _facet(value)
        if kind is None:
            if len(found.problems) < _MOST:
                found.problems.append(_no_facet(name, value))
            continue
        long.setdefault(kind, {})[name] = path
        found.moved["facets", kind, name] = ("facets", name)
    return long


def _facet(value: Any) -> tuple[str | None, str]:
    """Read one flat facet as its kind and path; no kind for what is none."""
    if not isinstance(value, str):
        return None, ""
    call = _CALL.fullmatch(value.strip())
    if call is None:
        return "paths", value
    return KINDS.get(call[1]), call[2].strip()


def _no_facet(name: str, value: Any) -> FieldProblem:
    message = f"facets.{name} cannot be read: {_FACET}, not {shown(value)}"
    fix = f'{name}: "[]"' if isinstance(value, list) and not value else None
    return FieldProblem("bad_field", message, ("facets", name), fix)


def long_record(record: dict[str, Any], known: Vocabulary) -> dict[str, Any]:
    """Give a node's record as reference files have it: also with its key and its edges.

    The record is that of a node that is in order.
    """
    long = long_form(record, known).record
    added: dict[str, Any] = {}
    if "depends_on" not in long and (needs := infer(long, known.ids).needs):
        added["depends_on"] = needs
    if "store_as" not in long:
        fan_out = long.get("for_each") is not None
        added["store_as"] = default_key(str(long["id"]), fan_out=fan_out)
    if not added:
        return long
    found: dict[str, Any] = {}
    before = next((key for key in reversed(BEFORE_EDGES) if key in long), None)
    for key, value in long.items():
        found[key] = value
        if key == before:
            found |= added
    return found


def short_record(record: dict[str, Any], known: Vocabulary) -> dict[str, Any]:
    """Give a node's record in the short form, as far as that reads back as the same node.

    The record is that of a node that is in order; what stays as it is, is the same object.
    """
    long = long_form(record, known).record
    short: dict[str, Any] = {}
    for key, value in record.items():
        if key == "store_as":
            fan_out = long.get("for_each") is not None
            if value == default_key(str(long["id"]), fan_out=fan_out):
                continue
        elif key == "depends_on":
            rest = {name: item for name, item in long.items() if name != key}
            # what a parameter brings into a guard is read once it has a value
            if not has_parameter(str(long.get("when"))) and value == infer(rest, known.ids).needs:
                continue
        elif key == "for_each" and isinstance(value, dict):
            short[key] = short_source(value)
            continue
        elif key == "facets" and isinstance(value, dict):
            short[key] = _short_facets(value)
            continue
        elif key == "when" and isinstance(value, str):
            short[key] = shortened(value, known.names)
            continue
        short[key] = value
    return short


def short_source(each: dict[str, Any]) -> Any:
    """Give a fan-out as a text, where nothing but source and select is said."""
    said = {key: value for key, value in each.items() if value is not None}
    match = SOURCE.fullmatch(str(said.get("source")))
    select = str(said.get("select", ""))
    if match is None or _PARAMETER in select:
        return each
    text = match[1] + ("." if select and not select.startswith("[") else "") + select
    return text if long_source(text) == said else each


def _short_facets(facets: dict[str, Any]) -> dict[str, Any]:
    short: dict[str, Any] = {}
    for kind, paths in facets.items():
        if kind not in FACET_MAPS:
            short[kind] = paths
            continue
        call = next((call for call, name in KINDS.items() if name == kind), None)
        for name, path in paths.items():
            if _PARAMETER in path:  # alone it may be no text
                return facets
            short.setdefault(name, f"{call}({path})" if call else path)
    flat = _flat_names(short)
    if not flat:
        return facets
    found = LongForm({}, {}, [])
    said = {key: value for key, value in facets.items() if not isinstance(value, dict) or value}
    return short if _long_facets(short, flat, found) == said and not found.problems else facets


def _each_node(root: Mapping[str, Any], form: Any) -> dict[str, Any]:
    known = Vocabulary(root["nodes"])
    return {**root, "nodes": [form(record, known) for record in root["nodes"]]}


def long_plan(root: Mapping[str, Any]) -> dict[str, Any]:
    """Give the record of a plan that is in order in the long form."""
    return _each_node(root, long_record)


def short_plan(root: Mapping[str, Any]) -> dict[str, Any]:
    """Give the record of a plan that is in order in the short form."""
    return _each_node(root, short_record)
