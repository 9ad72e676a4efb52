"""Whether facets and fan-outs point at something that the tools give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.errors import PathError
from planbench.plan.paths import compile_path
from planbench.plan.structure import source_of, suggestion
from planbench.validation.calls import PARAMETER
from planbench.validation.shape import UNKNOWN, Shape

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


class Outputs:
    """Looks at the paths of each node, and follows them through what its tool returns."""

    def __init__(self, made: Draft, host: Host) -> None:
        self._made = made
        self._host = host
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
        shape = None if tool is None or tool.output_schema is None else Shape(tool.output_schema)
        spec = node.facets
        for kind, paths in (
            ("paths", spec.paths),
            ("counts", spec.counts),
            ("group_counts", spec.group_counts),
        ):
            for name, text in paths.items():
                where = ("facets", kind, name)
                path = self._compiled(text)
                if isinstance(path, PathError):
                    yield self._issue("bad_path", path.message, position, where, path.hint)
                elif path is not None:
                    yield from self._facet(position, where, path, shape, tool)

    def _facet(
        self, position: int, where: Route, path: Path, shape: Shape | None, tool: Tool | None
    ) -> Iterator[ValidationIssue]:
        code = _NOT_A_LIST.get(str(where[1]))
        if shape is not None and tool is not None:
            problem = _not_there(path, shape, f"what tool {tool.name!r} returns")
            if problem is not None:
                yield self._issue("unknown_output_field", problem[0], position, where, problem[1])
                return
        if code is None or path.gives_list:
            return
        if shape is None or not shape.at(path.steps).kinds() <= {"array"}:
            fix = f'{where[-1]}: "{path.text}[]"'
            message = f"{where[1]} needs a list, and the path {path.text!r} gives one value"
            yield self._issue(code, message, position, where, fix)

    def _select(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        select = node.for_each.select if node.for_each else None
        where = ("for_each", "select")
        path = self._compiled(select) if select is not None else None
        if isinstance(path, PathError):
            yield self._issue("bad_path", path.message, position, where, path.hint)
            return
        source = self._nodes.get(source_of(node) or "")
        tool = None if source is None else self._host.tool_of(source)
        if source is None or tool is None or tool.output_schema is None:
            return
        if select is not None and path is None:  # it holds a parameter
            return
        schema: Any = tool.output_schema
        shape = Shape(schema)
        if source.for_each is not None:
            shape = Shape({"type": "array", "items": schema}, root=schema)
        what = f"the artifact of {source.id!r}"
        if path is None:
            yield from self._whole(position, shape, what)
            return
        problem = _not_there(path, shape, what)
        if problem is not None:
            yield self._issue("unknown_output_field", problem[0], position, where, problem[1])
        elif not path.gives_list and not shape.at(path.steps).kinds() & _LISTS:
            kinds = _told(shape.at(path.steps))
            message = f"select {path.text!r} gives {kinds}, and for_each needs a list"
            yield self._issue("select_not_a_list", message, position, where, None)

    def _whole(self, position: int, shape: Shape, what: str) -> Iterator[ValidationIssue]:
        if shape.kinds() & _LISTS:
            return
        lists = [name for name in shape.names() if "array" in shape.at((name,)).kinds()]
        fix = f'select: "{lists[0]}[]"' if lists else "give select the path of a list in it"
        message = f"{what} is {_told(shape)}, and for_each needs a list"
        where = ("for_each", "source")
        yield self._issue("select_not_a_list", message, position, where, fix)

    def _compiled(self, text: str) -> Path | PathError | None:
        """Compile a path; None for one that holds a parameter without a value yet."""
        if PARAMETER in text:
            return None
        try:
            return compile_path(text)
        except PathError as error:
            return error

    def _issue(
        self, code: str, message: str, position: int, field: Route, fix: str | None
    ) -> ValidationIssue:
        made = self._made
        path = (*made.routes[position], *field)
        return made.document.issue(code, message, path, node_id=made.node_id(position), fix=fix)


def _not_there(path: Path, shape: Shape, what: str) -> tuple[str, str | None] | None:
    """Say where a path leaves the shape, and what is there instead."""
    for count, step in enumerate(path.steps):
        inner = shape.at((step,))
        if inner.kinds():
            shape = inner
            continue
        place = what if not count else f"{_written(path.steps[:count])!r} in {what}"
        names = shape.names()
        if isinstance(step, str) and step != "[]" and "object" in shape.kinds():
            fix = suggestion(step, names) or f"it has {', '.join(names[:10])}"
            return f"{place} has no field {step!r}", fix
        if "array" in shape.kinds():
            return f"{place} is a list, and has no field {step!r}", f"write [] before {step}"
        needed = "a list" if step == "[]" or isinstance(step, int) else f"a field {step!r}"
        advice = f"it has {', '.join(names[:10])}" if names else None
        return f"{place} is {_told(shape)}, and not {needed}", advice
    return None


def _written(steps: tuple[str | int, ...]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += step if step == "[]" or not text else f".{step}"
    return text


def _told(shape: Shape) -> str:
    return " or ".join(sorted({_NOUNS.get(kind, kind) for kind in shape.kinds()}))
