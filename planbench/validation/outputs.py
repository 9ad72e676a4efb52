"""Whether facets and fan-outs point at something that the tools give.

What a tool declares is held to. Where it declares nothing, what was seen of its results on
earlier calls is looked at too, and a path that leaves that is a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import PathError
from planbench.plan.paths import compile_path
from planbench.plan.placeholders import holds, mentions, references
from planbench.plan.structure import alias_of, source_of, suggestion
from planbench.validation.shape import EACH, UNKNOWN, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.draft import Draft
    from planbench.plan.issues import Severity, ValidationIssue
    from planbench.plan.model import PlanNode
    from planbench.plan.paths import Path
    from planbench.plan.source import Route
    from planbench.tools import Tool
    from planbench.validation.host import Host

_NOT_A_LIST: Final = {"counts": "count_not_a_list", "group_counts": "group_count_not_a_list"}
_SHOWN: Final = 10
_NULL: Final = {"type": "null"}
_LACKS: Final = "give it a return, or leave the reading out: depends_on alone keeps the order"
_LISTS: Final = frozenset({"array", UNKNOWN})
_NOUNS: Final = {
    "object": "a map",
    "string": "text",
    "integer": "a number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "null": "null",
}


class _Found(NamedTuple):
    """What is wrong with one path."""

    code: str
    message: str
    fix: str | None = None
    severity: Severity = "error"


class Outputs:
    """Looks at the paths of each node, and follows them through what its tool returns."""

    def __init__(self, made: Draft, host: Host) -> None:
        self._made = made
        self._host = host
        self._known: dict[tuple[str | None, str, str], _Found | None] = {}
        self._nodes = {node.id: node for node in reversed(made.nodes)}

    def issues(self) -> Iterator[ValidationIssue]:
        """Give everything that is wrong with facets and selects, node by node."""
        for position, node in enumerate(self._made.nodes):
            yield from self._nothing(position, node)
            if node.facets.names():
                yield from self._facets(position, node)
            if node.for_each is not None:
                yield from self._select(position, node)

    def _facets(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        tool = self._host.tool_of(node)
        spec = node.facets
        for kind, paths in (
            ("paths", spec.paths),
            ("counts", spec.counts),
            ("group_counts", spec.group_counts),
        ):
            for name, text in paths.items():
                key = (node.tool, kind, text)
                if key not in self._known:
                    self._known[key] = self._facet(kind, text, tool)
                found = self._known[key]
                if found is not None:
                    yield self._issue(position, ("facets", kind, name), found)

    def _facet(self, kind: str, text: str, tool: Tool | None) -> _Found | None:
        path = self._compiled(text)
        if path is None or isinstance(path, _Found):
            return path
        shape = None if tool is None or tool.output_schema is None else Shape(tool.output_schema)
        kinds = {UNKNOWN}
        if shape is not None and tool is not None:
            found = _not_there(path, shape, f"what tool {tool.name!r} returns")
            if found is not None:
                return found
            kinds = shape.at(path.steps).kinds()
        code = _NOT_A_LIST.get(kind)
        if code is not None and not path.gives_list and not kinds <= {"array"}:
            message = f"{kind} needs a list, and the path {text!r} gives one value"
            return _Found(code, message, f"write {text}[] for the elements of a list")
        seen = self._host.observed(tool) if UNKNOWN in kinds else None
        if seen is None or tool is None or seen == _NULL:
            return None
        return _warned(
            _not_there(path, Shape(seen), f"what tool {tool.name!r} has returned so far")
        )

    def _select(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        select = node.for_each.select if node.for_each else None
        path = None if select is None else self._compiled(select)
        if isinstance(path, _Found):
            yield self._issue(position, ("for_each", "select"), path)
            return
        source = self._nodes.get(source_of(node) or "")
        tool = None if source is None else self._host.tool_of(source)
        if source is None or tool is None or tool.gives_nothing:
            return
        where = ("for_each", "source" if select is None else "select")
        what = f"the artifact of {source.id!r}"
        steps = None if path is None else path.steps
        kinds = {UNKNOWN}
        found = None
        if tool.output_schema is not None:
            shape = _artifact(source, tool.output_schema)
            found = _fanned(path, shape, what, whole=select is None)
            kinds = shape.at(steps or ()).kinds()
        seen = self._host.observed(tool) if found is None and UNKNOWN in kinds else None
        if seen is not None and seen != _NULL:
            shape = _artifact(source, seen)
            found = _warned(_fanned(path, shape, f"{what} so far", whole=select is None))
        if found is not None:
            yield self._issue(position, where, found)

    def _nothing(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        """Tell of what is read of nodes whose tool returns None."""
        told: set[str] = set()
        for name, where in self._reads(node):
            source = self._nodes.get(name)
            if source is None or name in told or name == node.id:
                continue
            told.add(name)
            if (how := self._is_none(source)) is not None:
                message = f"{{artifacts.{name}}} is read, and {how}"
                yield self._issue(position, where, _Found("reads_none", message, _LACKS, "warning"))
        if node.facets.names() and (how := self._is_none(node)) is not None:
            found = _Found("reads_none", f"facets are read, and {how}", _LACKS, "warning")
            yield self._issue(position, ("facets",), found)

    def _is_none(self, node: PlanNode) -> str | None:
        """Say that a node's tool returns None, where that is declared or was seen at each call."""
        tool = self._host.tool_of(node)
        if tool is None or not (tool.gives_nothing or self._host.observed(tool) == _NULL):
            return None
        how = "is declared to return" if tool.gives_nothing else "has so far returned"
        return f"tool {tool.name!r} of node {node.id!r} {how} None: does it lack a return?"

    def _reads(self, node: PlanNode) -> Iterator[tuple[str, Route]]:
        """Give the nodes whose result is read, and the field that reads it."""
        if (source := source_of(node)) is not None:
            yield source, ("for_each", "source")
        if mentions(node.args, "{artifacts."):
            for path, piece in references(node.args, alias_of(node)):
                if piece.family == "artifacts":
                    yield piece.name, ("args", *path)

    def _compiled(self, text: str) -> Path | _Found | None:
        """Compile a path; None for one that holds a parameter without a value yet."""
        if holds(text, "params"):
            return None
        try:
            return compile_path(text)
        except PathError as error:
            return _Found("bad_path", error.message, error.hint)

    def _issue(self, position: int, field: Route, found: _Found) -> ValidationIssue:
        made = self._made
        path = (*made.routes[position], *field)
        return made.document.issue(
            found.code,
            found.message,
            path,
            node_id=made.node_id(position),
            severity=found.severity,
            fix=found.fix,
        )


def _warned(found: _Found | None) -> _Found | None:
    """Give what is only likely to be wrong: it was not so on earlier calls."""
    return None if found is None else found._replace(severity="warning")


def _artifact(source: PlanNode, schema: Any) -> Shape:
    """Give the shape of what a node stores: for a fan-out the list of what its calls gave."""
    if source.for_each is None:
        return Shape(schema)
    return Shape({"type": "array", "items": schema}, root=schema)


def _fanned(path: Path | None, shape: Shape, what: str, *, whole: bool) -> _Found | None:
    """Look at a fan-out over an artifact or what a path selects of it."""
    if whole:
        return _whole(shape, what)
    return None if path is None else _selected(path, shape, what)


def _whole(shape: Shape, what: str) -> _Found | None:
    """Look at a fan-out over all of an artifact."""
    if shape.kinds() & _LISTS:
        return None
    lists = [name for name in shape.names() if "array" in shape.at((name,)).kinds()]
    fix = f'select: "{lists[0]}[]"' if lists else "give select the path of a list in it"
    message = f"{what} is {_told(shape)}, and for_each needs a list"
    return _Found("select_not_a_list", message, fix)


def _selected(path: Path, shape: Shape, what: str) -> _Found | None:
    """Look at a fan-out over what a path selects."""
    found = _not_there(path, shape, what)
    if found is not None or path.gives_list:
        return found
    inner = shape.at(path.steps)
    if inner.kinds() & _LISTS:
        return None
    message = f"select {path.text!r} gives {_told(inner)}, and for_each needs a list"
    return _Found("select_not_a_list", message)


def _not_there(path: Path, shape: Shape, what: str) -> _Found | None:
    """Say where a path leaves the shape, and what is there instead."""
    for count, step in enumerate(path.steps):
        inner = shape.at((step,))
        kinds = inner.kinds()
        if UNKNOWN in kinds:
            return None
        if kinds:
            shape = inner
            continue
        place = what if not count else f"{_written(path.steps[:count])!r} in {what}"
        names = shape.names()
        is_name = isinstance(step, str) and step != EACH
        fix = f"it has {', '.join(names[:_SHOWN])}" if names else None
        if is_name and "object" in shape.kinds():
            message = f"{place} has no field {step!r}"
            fix = suggestion(str(step), names) or fix
        elif is_name and "array" in shape.kinds():
            message = f"{place} is a list, and has no field {step!r}"
            fix = f"write [].{step} for a field of each"
        else:
            message = f"{place} is {_told(shape)}, and not {f'a map with {step!r}' if is_name else 'a list'}"
        return _Found("unknown_output_field", message, fix)
    return None


def _written(steps: tuple[str | int, ...]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += step if step == EACH or not text else f".{step}"
    return text


def _told(shape: Shape) -> str:
    return " or ".join(sorted({_NOUNS.get(kind, kind) for kind in shape.kinds()}))
