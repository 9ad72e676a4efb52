"""Whether facets and fan-outs point at something that the tools give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import PathError
from planbench.plan.paths import compile_path
from planbench.plan.structure import source_of, suggestion
from planbench.validation.calls import PARAMETER
from planbench.validation.shape import EACH, UNKNOWN, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.draft import Draft
    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import PlanNode
    from planbench.plan.paths import Path
    from planbench.plan.source import Route
    from planbench.tools import Tool
    from planbench.validation.host import Host

_NOT_A_LIST: Final = {"counts": "count_not_a_list", "group_counts": "group_count_not_a_list"}
_SHOWN: Final = 10
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
        if shape is not None and tool is not None:
            found = _not_there(path, shape, f"what tool {tool.name!r} returns")
            if found is not None:
                return found
        code = _NOT_A_LIST.get(kind)
        if code is None or path.gives_list:
            return None
        if shape is not None and shape.at(path.steps).kinds() <= {"array"}:
            return None
        message = f"{kind} needs a list, and the path {text!r} gives one value"
        return _Found(code, message, f"write {text}[] for the elements of a list")

    def _select(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        select = node.for_each.select if node.for_each else None
        path = None if select is None else self._compiled(select)
        if isinstance(path, _Found):
            yield self._issue(position, ("for_each", "select"), path)
            return
        source = self._nodes.get(source_of(node) or "")
        tool = None if source is None else self._host.tool_of(source)
        if source is None or tool is None or tool.output_schema is None:
            return
        schema: Any = tool.output_schema
        shape = Shape(schema)
        if source.for_each is not None:
            shape = Shape({"type": "array", "items": schema}, root=schema)
        what = f"the artifact of {source.id!r}"
        if select is None:
            found = _whole(shape, what)
            where = ("for_each", "source")
        else:
            found = None if path is None else _selected(path, shape, what)
            where = ("for_each", "select")
        if found is not None:
            yield self._issue(position, where, found)

    def _compiled(self, text: str) -> Path | _Found | None:
        """Compile a path; None for one that holds a parameter without a value yet."""
        if PARAMETER in text:
            return None
        try:
            return compile_path(text)
        except PathError as error:
            return _Found("bad_path", error.message, error.hint)

    def _issue(self, position: int, field: Route, found: _Found) -> ValidationIssue:
        made = self._made
        path = (*made.routes[position], *field)
        node_id = made.node_id(position)
        return made.document.issue(found.code, found.message, path, node_id=node_id, fix=found.fix)


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
        if inner.kinds():
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
