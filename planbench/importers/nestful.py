"""Nested calls in the form of the NESTFUL data set: ``$var1.field$`` names an earlier result.

A plan passes whole results. A reference to a field becomes a node of its own that calls
``pick``, a tool that comes with the import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.importers.imported import Imported, Importing
from planbench.plan.placeholders import Placeholder, escape, scan
from planbench.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from planbench.plan.model import ExecutionPlan
    from planbench.plan.source import Route

_REFERENCE: Final = re.compile(r"\$([A-Za-z_]\w*)((?:\.[^.$\[\]{}]+|\[[0-9]+\])*)\$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
_VARIABLE: Final = re.compile(r"var_?[0-9]+")
_ALMOST: Final = re.compile(r"\$?var_?[0-9]+(?:\.\w+)*\$?")
_RESULT: Final = "var_result"
_TYPES: Final = {
    "string": "string",
    "number": "number",
    "float": "number",
    "integer": "integer",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}
_PARAMETERS: Final = ("query_parameters", "path_parameters", "parameters", "arguments")

Steps = tuple[str | int, ...]


def pick(value: Any, fields: list[str | int]) -> Any:
    """Give one field of a value, step by step: names of maps, places of lists."""
    for field in fields:
        value = value[field]
    return value


def import_nestful(source: Any, *, name: str | None = None) -> Imported:
    """Read a plan of nested calls: a list of them, or a record with ``input`` and ``output``.

    Each call is ``{name, arguments, label}``. The last one, ``var_result``, names the
    wanted results: they get those names as their keys. ``source`` is text, a Path or the
    data. Raises PlanInvalid that names what is wrong.
    """
    work = Importing(source)
    record = work.value if isinstance(work.value, dict) else {"output": work.value}
    work.leave_out_rest("plan", record, {"id", "input", "output", "set", "facts"}, "no such field")
    calls: Any = record.get("output")
    if isinstance(calls, str):  # the data set has it as text too
        inner = Importing(calls)
        work.issues += inner.issues
        calls = inner.value
    nodes: list[dict[str, Any]] = []
    reading = _Reading(work)
    if work.need(list, "output", calls, ("output",)):
        nodes = reading.nodes(calls)
    plan: ExecutionPlan = work.plan(
        {
            "name": name or record.get("id") or "nestful",
            "objective": str(record.get("input") or ""),
            "nodes": nodes,
        }
    )
    tools = (Tool.from_function(pick),) if reading.picks else ()
    return Imported(plan, tuple(work.report), tools)


class _Selection(NamedTuple):
    """A part of a call's result."""

    label: str
    steps: Steps


class _Reading:
    """Turns calls into nodes, and references into placeholders."""

    def __init__(self, work: Importing) -> None:
        self.work = work
        self.ids: dict[str, str] = {}
        self.picks: dict[_Selection, dict[str, Any]] = {}

    def nodes(self, calls: list[Any]) -> list[dict[str, Any]]:
        """Give the nodes, those that pick a field behind those that they read."""
        work, wanted = self.work, None
        found: list[tuple[str, int, dict[str, Any]]] = []
        for place, call in enumerate(calls):
            path = ("output", place)
            if not work.need(dict, f"call {place + 1}", call, path):
                continue
            tool, arguments = call.get("name"), call.get("arguments", {})
            named = work.need(str, "name", tool, (*path, "name"))
            if not work.need(dict, "arguments", arguments, (*path, "arguments")) or not named:
                continue
            if tool == _RESULT:
                wanted = (arguments, (*path, "arguments"))
                continue
            work.leave_out_rest(
                f"call {place + 1}",
                call,
                {"name", "arguments", "label"},
                "a call has no such field",
            )
            label = str(call.get("label") or tool)
            if label in self.ids:
                message = f"the label {label!r} is given twice"
                work.problem("duplicate_id", message, (*path, "label"))
                continue
            self.ids[label] = work.node_id(label, path)
            found.append((label, place, call))
        made = {label: self._node(label, place, call) for label, place, call in found}
        if wanted is not None:
            self._name_results(made, *wanted)
        nodes = []
        for label, node in made.items():
            nodes.append(node)
            nodes += [pick for chosen, pick in self.picks.items() if chosen.label == label]
        return nodes

    def _node(self, label: str, place: int, call: dict[str, Any]) -> dict[str, Any]:
        needs: dict[str, None] = {}
        path: Route = ("output", place, "arguments")
        args = self._value(call.get("arguments", {}), needs, path)
        node = {"id": self.ids[label], "tool": call["name"], "args": args}
        return {**node, "depends_on": list(needs)}

    def _value(self, value: Any, needs: dict[str, None], path: Route) -> Any:
        if isinstance(value, str):
            return self._text(value, needs, path)
        if len(path) > 100:  # noqa: PLR2004 - the plan's own check says so with the node's id
            return value
        if isinstance(value, dict):
            return {k: self._value(v, needs, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self._value(v, needs, (*path, i)) for i, v in enumerate(value)]
        return value

    def _text(self, text: str, needs: dict[str, None], path: Route) -> str:
        pieces: list[str] = []
        expected: list[str] = []
        end = 0
        for match in _REFERENCE.finditer(text):
            node = self._node_of(match, text, path)
            if node is None:
                continue
            needs[node] = None
            pieces += [escape(text[end : match.start()]), f"{{artifacts.{node}}}"]
            expected.append(node)
            end = match.end()
        rest = text[end:]
        if "$" in rest and not expected and _ALMOST.fullmatch(rest):
            self.work.leave_out(_shown(path), repr(text), "nearly a reference; it stays a text")
        written = "".join([*pieces, escape(rest)])
        if [p.name for p in scan(written) if isinstance(p, Placeholder)] != expected:
            message = f"{text!r}: a reference directly inside braces cannot be written in a plan"
            self.work.problem("bad_placeholder", message, path)
        return written

    def _node_of(self, match: re.Match[str], text: str, path: Route) -> str | None:
        """Give the node whose result a reference names; None for what is none."""
        label, rest = match.groups()
        steps = tuple(int(i) if i else name for name, i in _STEP.findall(rest))
        if label not in self.ids:
            if match.group() == text or _VARIABLE.fullmatch(label):
                known = ", ".join(self.ids) or "none"
                self.work.problem(
                    "undeclared_reference",
                    f"{match.group()} is read, and no call has the label {label!r}",
                    path,
                    fix=f"the labels are {known}",
                )
            return None
        if not steps:
            return self.ids[label]
        return str(self._pick(_Selection(label, steps))["id"])

    def _pick(self, chosen: _Selection) -> dict[str, Any]:
        if chosen not in self.picks:
            node = self.ids[chosen.label]
            self.picks[chosen] = {
                "id": self.work.new_id("_".join([node, *map(str, chosen.steps)])),
                "tool": pick.__name__,
                "args": {"value": f"{{artifacts.{node}}}", "fields": list(chosen.steps)},
                "depends_on": [node],
            }
        return self.picks[chosen]

    def _name_results(
        self, made: dict[str, dict[str, Any]], wanted: dict[str, Any], path: Route
    ) -> None:
        """Give the wanted results the names by which they are wanted, as their keys."""
        taken = {str(node["id"]) for node in made.values()}
        taken |= {str(node["id"]) for node in self.picks.values()}
        for name, text in wanted.items():
            where = (*path, name)
            match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
            needs: dict[str, None] = {}
            if match is None:
                self._value(text, needs, where)
                self.work.leave_out(_shown(where), repr(text), "a result is no computed value")
                continue
            before = set(self.picks)
            node_id = self._node_of(match, str(text), where)
            nodes = [*made.values(), *self.picks.values()]
            node = next((node for node in nodes if node["id"] == node_id), None)
            taken |= {str(self.picks[new]["id"]) for new in self.picks.keys() - before}
            if node is None:
                continue
            if "store_as" in node or (name in taken and name != node_id) or not _is_key(name):
                why = "the result has another name already, or the name is taken"
                self.work.leave_out(_shown(where), repr(name), why)
                continue
            node["store_as"] = escape(name)
            taken.add(name)


def _is_key(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and "{" not in name


def _shown(path: Route) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]


def nestful_tools(
    specs: Iterable[Mapping[str, Any]],
    call: Callable[[str], Callable[..., Any]],
    *,
    strict: bool = False,
) -> list[Tool]:
    """Make the tools of a NESTFUL specification file, in any of its three dialects.

    ``call`` gives the function of each name; it takes the arguments as keywords. The data
    set's own calls do not keep to its types and required arguments, so these describe a
    tool and bind it only when ``strict``.
    """
    made = []
    for spec in specs:
        schema = _arguments_schema(spec)
        output = _schema({"type": "object", "properties": spec.get("output_parameters") or {}})
        if not strict:
            schema = {"type": "object", "properties": _described(schema["properties"])}
            output = {"type": "object", "properties": _described(output["properties"])}
        words = str(spec.get("description", ""))
        tool = Tool.from_schema(spec["name"], words, schema, call(spec["name"]), output)
        tool.check_result = None  # what the set says of results is no schema that answers keep to
        made.append(tool)
    return made


def _described(properties: dict[str, Any]) -> dict[str, Any]:
    """Turn types into words."""
    return {
        name: {"description": f"{inner.get('type', 'any')}: {inner.get('description', '')}"}
        for name, inner in properties.items()
    }


def _arguments_schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {k: v for part in _PARAMETERS for k, v in (spec.get(part) or {}).items()}
    return {
        "type": "object",
        "properties": {name: _schema(inner) for name, inner in parameters.items()},
        "required": [name for name, inner in parameters.items() if inner.get("required") is True],
        "additionalProperties": False,
    }


def _schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Give the JSON Schema of one specification; types that are none stay open."""
    found: dict[str, Any] = {}
    kind = _TYPES.get(str(spec.get("type", "")).lower())
    if kind is not None:
        found["type"] = kind
    if isinstance(spec.get("description"), str):
        found["description"] = spec["description"]
    if isinstance(properties := spec.get("properties"), dict):
        found["properties"] = {k: _schema(v) for k, v in properties.items() if isinstance(v, dict)}
    if isinstance(items := spec.get("items"), dict):
        found["items"] = _schema(items)
    return found
