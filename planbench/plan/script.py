"""A plan as a plain asyncio script, for where planbench is not."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

from planbench.plan import script_runtime, script_values
from planbench.plan.graph import order
from planbench.plan.guard_code import guard_code
from planbench.plan.parameters import wanted
from planbench.plan.placeholders import Placeholder, references, scan
from planbench.plan.source_code import (
    Code,
    Group,
    Names,
    Pair,
    call,
    keywords,
    lines,
    literal,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planbench.plan.model import ExecutionPlan, PlanNode

_HEAD: Final = '''\
"""Calls the tools of a plan in the order of their dependencies, with asyncio alone.

    python SCRIPT.py MODULE [NAME=VALUE ...]

MODULE is an importable module that holds the tools as functions, each under its name; a
map TOOLS in it may hold those whose names are no Python names. What is marked with
@to_write could not be taken from the plan and has to be written first.
"""

from __future__ import annotations

'''
_TAIL: Final = """

async def start(tools, params):
    return await execute(Run(tools, params, %s), nodes(params), %s)


def main():
    if len(sys.argv) < 2:
        raise SystemExit("usage: python SCRIPT.py MODULE [NAME=VALUE ...]")
    params = given(sys.argv[2:], PARAMS, VALUES)
    return show(asyncio.run(start(Module(), params)))


if __name__ == "__main__":
    raise SystemExit(main())
"""
_NOT_OURS: Final = ("__future__", "planbench")
# the names of a script's own code, found without parsing it: no text in it goes over a line
_TEXT: Final = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w=])")
_REMARK: Final = re.compile(r"  # (?:noqa|type:)[^\n]*")
_LOCALS: Final = ("run", "params", "tools", "item", "index", "one", "start", "main", "nodes")
_CONSTANTS: Final = ("PLAN", "PARAMS", "VALUES", "TOOLS")


def to_script(plan: ExecutionPlan) -> str:
    """Give a plain asyncio script that calls the plan's tools with the same semantics in small.

    Fan-outs, guards, retries, time limits and failures behave as in a run; nothing is
    journalled, cached or kept between runs. Guards that are more than comparisons, and
    delegate nodes, become functions to be written: the script refuses to start before.
    All text of the plan stands in it as literals, whatever it holds.
    """
    return _Script(plan).source()


class _Script:
    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.names = Names([*_parts(), *_imports(), *_LOCALS, *_CONSTANTS, "os"])
        self.facets = {node.id: set(node.facets.names()) for node in plan.nodes}

    def source(self) -> str:
        """Write it all."""
        plan = self.plan
        nodes = {node.id: node for node in plan.nodes}
        walk = order({node.id: node.depends_on for node in plan.nodes})
        functions: list[str] = []
        table: list[Code] = []
        for node_id in walk:
            written, entry = self._node(nodes[node_id])
            functions += written
            table.append(entry)
        listed = Group("[", table, "]")
        body = "\n\n\n".join([*functions, f"def nodes(params):\n    return {lines(listed, 1)}"])
        metadata = plan.metadata
        tail = _TAIL % (
            lines(self._option(metadata.max_parallel_tasks, "params")),
            lines(self._option(metadata.execution_timeout, "params")),
        )
        parts, names = _needed(set(_WORD.findall(_TEXT.sub("", body + tail))))
        return f"{_HEAD}{_import_lines(names)}\n{self._constants()}\n\n{parts}{body}\n{tail}"

    def _constants(self) -> str:
        declared = self.plan.params
        names = [*dict.fromkeys([*declared, *sorted(wanted(self.plan))])]
        kinds = {name: declared[name].type if name in declared else "str" for name in names}
        values = {name: spec.default for name, spec in declared.items() if not spec.is_required}
        constants = {"PLAN": self.plan.name, "PARAMS": kinds, "VALUES": values}
        return "".join(
            f"{name} = {lines(literal(value), 0, len(name) + 3)}\n"
            for name, value in constants.items()
        )

    # -- nodes ------------------------------------------------------------------------

    def _node(self, node: PlanNode) -> tuple[list[str], Code]:
        """Give a node's functions and its line in the table of nodes."""
        name = self.names.new(node.id)
        functions = [
            self._delegate(node, name) if node.type == "delegate" else self._work(node, name)
        ]
        reads = dict.fromkeys([node.for_each.source_node] if node.for_each else [])
        alias = node.for_each.alias if node.for_each else None
        for _, piece in references(node.args, alias):
            if piece.family == "artifacts":
                reads[piece.name] = None
        entry = [
            Pair('"id": ', quoted(node.id)),
            Pair('"work": ', name),
            Pair('"needs": ', _plain(literal(node.depends_on))),
            Pair('"reads": ', _plain(literal(list(reads)))),
        ]
        if node.when is not None:
            guard = self.names.new(f"may_{name}")
            functions.append(self._guard(node.when, guard))
            entry.append(Pair('"guard": ', guard))
        if node.facets.names():
            spec = node.facets.model_dump(
                exclude_defaults=True, exclude={"max_group_keys"}, warnings=False
            )
            spec["most"] = node.facets.max_group_keys
            read = ["run", quoted(node.id), literal(spec, self._texts("params"))]
            entry.append(Pair('"facets": lambda run: ', call("facets_of", read)))
        return functions, Group("{", entry, "}")

    def _guard(self, text: str, name: str) -> str:
        string = self._texts("run.params")
        kinds = {param: spec.type for param, spec in self.plan.params.items()}
        code = guard_code(
            text, self.facets, kinds, lambda part: lines(_plain(literal(part, string)))
        )
        if code is not None:
            return f"def {name}(run):\n    return {code}"
        return (
            f"@to_write\ndef {name}(run):\n"
            f"    guard = {quoted(text)}\n"
            "    # facets: facet(run, node, name); statuses: run.status[node]; failed: errors(run)\n"
            '    raise NotWritten(f"write this guard in Python: {guard}")'
        )

    def _delegate(self, node: PlanNode, name: str) -> str:
        return (
            f"@to_write\nasync def {name}(run):\n"
            f"    instruction = {quoted(node.instruction or '')}\n"
            f"    tools = {lines(literal(node.tools), 1)}\n"
            '    raise NotWritten(f"let a model choose one call of {tools}: {instruction}")'
        )

    def _work(self, node: PlanNode, name: str) -> str:
        each = node.for_each
        alias = each.alias if each else None
        texts = self._texts("run.params", alias, has_item=each is not None)
        parts: list[Code] = ["run", quoted(node.tool or ""), literal(node.args, texts)]
        retry = node.retry
        options = {"limit": node.timeout, "attempts": retry.max_attempts}
        options["backoff"] = retry.backoff_seconds
        defaults = {"limit": None, "attempts": 1, "backoff": 0.0}
        parts += keywords(
            {key: value for key, value in options.items() if value != defaults[key]}, texts
        )
        made = call("call", parts)
        key = literal(node.store_as, texts)
        ask = ""
        if node.approve:
            message = node.approve if isinstance(node.approve, str) else f"call {node.tool}?"
            ask = f"    await approved({quoted(message)})\n"
        if each is None:
            stored = call("run.store", [quoted(node.id), key, _awaited(made)])
            return f"async def {name}(run):\n{ask}    return {lines(stored, 1)}"
        source: Code = f"run.results[{quoted(each.source_node)}]"
        if each.select:
            source = call("at", [source, literal(each.select, self._texts("run.params"))])
        limits = {
            option: getattr(each, option)
            for option in ("max_items", "max_concurrency", "on_item_error", "max_failed")
        }
        fan = call(
            "each",
            ["run", quoted(node.id), "items", "one", "key", literal(limits, texts)],
        )
        return (
            f"async def {name}(run):\n{ask}"
            f"    items = {lines(source, 1)}\n\n"
            f"    async def one(item, index):\n        return {lines(_awaited(made), 2)}\n\n"
            f"    def key(item, index):\n        return {lines(key, 2)}\n\n"
            f"    return {lines(_awaited(fan), 1)}"
        )

    # -- texts ------------------------------------------------------------------------

    def _option(self, value: Any, params: str) -> Code:
        return literal(value, self._texts(params))

    def _texts(
        self, params: str, alias: str | None = None, *, has_item: bool = False
    ) -> Callable[[str], Code | None]:
        """Give the function that writes a text with its placeholders as an expression."""

        def expression(piece: str | Placeholder) -> str:
            if isinstance(piece, str):
                return quoted(piece)
            name = quoted(piece.name)
            written = {
                "artifacts": f"run.results[{name}]",
                "nodes": f"ref(run, {name})",
                "params": f"{params}[{name}]",
                "env": f"os.environ[{name}]",
                "index": "index",
                "item": f"field(item, {quoted('.'.join(piece.fields))})"
                if piece.fields
                else "item",
            }[piece.family]
            is_literal = piece.family in {"item", "index"} and not has_item
            is_literal = is_literal or (params == "params" and piece.family != "params")
            return quoted(piece.text) if is_literal else written

        def text(written: str) -> Code | None:
            pieces = scan(written, alias)
            if all(isinstance(piece, str) for piece in pieces):
                return quoted("".join(map(str, pieces)))
            if len(pieces) == 1:
                return expression(pieces[0])
            return call("text", [expression(piece) for piece in pieces])

        return text


def _awaited(made: Group) -> Group:
    return Group(f"await {made.open}", made.parts, made.close)


def _plain(code: Code) -> str | Group:
    return code.value if isinstance(code, Pair) else code


@functools.cache
def _sources() -> list[tuple[str, ast.Module]]:
    texts = [inspect.getsource(module) for module in (script_values, script_runtime)]
    return [(text, ast.parse(text)) for text in texts]


@functools.cache
def _parts() -> dict[str, tuple[str, frozenset[str]]]:
    """Give each function and class that may be copied: its source, and the names in it."""
    found = {}
    for text, tree in _sources():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                source = ast.get_source_segment(text, node) or ""
                found[node.name] = (_REMARK.sub("", source), frozenset(_names(node)))
    return found


@functools.cache
def _imports() -> dict[str, str]:
    found = {"os": "import os"}
    for _, tree in _sources():
        for node in tree.body:
            module = getattr(node, "module", "") or ""
            if isinstance(node, ast.Import | ast.ImportFrom) and not module.startswith(_NOT_OURS):
                for alias in node.names:
                    start = f"from {module} import" if module else "import"
                    found[alias.name] = f"{start} {alias.name}"
    return found


def _names(tree: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _needed(names: set[str]) -> tuple[str, set[str]]:
    """Give the parts that names call for, in the order of their files, and all names in them."""
    parts = _parts()
    chosen = {name for name in names if name in parts}
    todo = list(chosen)
    found = set(names)
    while todo:
        inner = parts[todo.pop()][1]
        found |= inner
        new = [name for name in inner if name in parts and name not in chosen]
        chosen.update(new)
        todo += new
    return "".join(f"{parts[name][0]}\n\n\n" for name in parts if name in chosen), found


def _import_lines(names: set[str]) -> str:
    found = [line for name, line in _imports().items() if name in names]
    return "".join(f"{line}\n" for line in sorted(found, key=lambda line: (line[0] == "f", line)))
