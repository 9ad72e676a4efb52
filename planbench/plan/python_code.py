"""A plan as the builder code that makes it."""

from __future__ import annotations

import inspect
from typing import Any, Final

from planbench.errors import PathError
from planbench.plan.builder import OPTIONS, Plan, base_id
from planbench.plan.edges import edges
from planbench.plan.handles import FIELDS
from planbench.plan.model import (
    ExecutionPlan,
    FacetSpec,
    ForEach,
    ParamSpec,
    PlanMetadata,
    PlanNode,
    RetryPolicy,
)
from planbench.plan.paths import compile_path
from planbench.plan.placeholders import Placeholder, scan
from planbench.plan.source_code import (
    Code,
    Group,
    Names,
    Pair,
    call,
    is_name,
    keywords,
    lines,
    literal,
    quoted,
)

_KEYWORDS: Final = OPTIONS | {
    name
    for name, parameter in inspect.signature(Plan.map).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
_COPIED: Final = ("store_as", "timeout", "approve", "cache", "description")
_KNOWN: Final = frozenset(
    ["id", "type", "tool", "args", "depends_on", "when", "for_each", "facets", "retry"]
) | {"instruction", "tools", *_COPIED}
_TYPES: Final = frozenset(["str", "int", "float", "bool", "list", "dict"])
_NO_FACETS: Final = FacetSpec()
_NO_RETRY: Final = RetryPolicy()


def to_python(plan: ExecutionPlan) -> str:
    """Give the builder code that makes an equal plan, in a variable of that name.

    All text of the plan stands in it as literals, whatever it holds.
    """
    return _Writer(plan).source()


class _Writer:
    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.names = Names({"p", "plan", "Plan", "FacetSpec", "count", "groups", "item"})
        self.imports = {"Plan"}
        self.params: dict[str, str] = {}
        self.nodes: dict[str, str] = {}

    def source(self) -> str:
        """Write it all."""
        declared = [self._param(name, spec) for name, spec in self._plain_params().items()]
        calls = [self._node(node) for node in self.plan.nodes]
        body = "".join(f"    {lines(code, 1)}\n" for code in [*declared, *calls])
        order = sorted(self.imports, key=lambda name: (not name[0].isupper(), name))
        return (
            f"from planbench import {', '.join(order)}\n\n"
            f"with {lines(Group('Plan(', self._head(), ')'))} as p:\n{body}\n"
            "plan = p.build()\n"
        )

    def _plain_params(self) -> dict[str, ParamSpec]:
        return {
            name: spec
            for name, spec in self.plan.params.items()
            if name.isidentifier() and name.isascii()
        }

    def _head(self) -> list[Code]:
        plan = self.plan
        record = plan.to_dict()
        written: dict[str, Any] = {"objective": plan.objective}
        for name, field in PlanMetadata.model_fields.items():
            if getattr(plan.metadata, name) != field.get_default():
                written[name] = record["metadata"][name]
        odd = plan.params.keys() - self._plain_params().keys()
        if odd:
            compact = plan.to_dict(compact=True)["params"]
            written["params"] = {name: spec for name, spec in compact.items() if name in odd}
        for name, field in ExecutionPlan.model_fields.items():
            if name not in {"name", "objective", "nodes", "params", "metadata"} and getattr(
                plan, name
            ) != field.get_default(call_default_factory=True):
                written[name] = record[name]
        return [literal(plan.name), *keywords(written)]

    def _param(self, name: str, spec: ParamSpec) -> Code:
        self.params[name] = variable = self.names.new(name)
        written = spec.model_dump(mode="json", exclude_unset=True, exclude={"type"}, warnings=False)
        written = {k: v for k, v in written.items() if v is not None or k == "default"}
        kind = spec.type if spec.type in _TYPES else literal(spec.type)
        made = call("p.param", [literal(name), kind, *keywords(written)])
        return Pair(f"{variable} = ", made)

    def _node(self, node: PlanNode) -> Code:
        record = node.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
        made = self._call(node, record)
        if made is None:
            record.setdefault("depends_on", [])
            made = call("p.node", [literal(record)])
        variable = self.names.new(node.id)
        self.nodes[node.id] = variable
        return Pair(f"{variable} = ", made)

    def _call(self, node: PlanNode, record: dict[str, Any]) -> Group | None:
        """Write a call of add, map or delegate; None for a node that none of them can make."""
        each, defaults = node.for_each, PlanNode.model_fields
        odd = [n for n in node.model_fields_set - _KNOWN if getattr(node, n) != defaults[n].default]
        if odd:
            return None
        if node.type == "delegate":
            if each is not None or node.tool is not None:
                return None
            tools = {} if node.tools is None else {"tools": node.tools}
            parts = [literal(node.instruction), *keywords(tools)]
            base, function = "delegate", "p.delegate"
        else:
            base, function = base_id(node.tool or ""), "p.add"
            parts = [literal(node.tool)]
        if each is not None:
            source = self._source(each)
            if source is None:
                return None
            parts.append(source)
            function = "p.map"
        if node.id != base:
            parts += keywords({"id": node.id})
        parts += self._arguments(node)
        if each is not None:
            parts += self._each(each)
        parts += self._options(node, record)
        return call(function, parts)

    def _source(self, each: ForEach) -> str | None:
        path, node = each.select, each.source_node
        if path is not None and not _is_path(path):
            return None
        if node in self.nodes:
            return self.nodes[node] if path is None else f"{self.nodes[node]}[{quoted(path)}]"
        join = "" if path is None or path.startswith("[") else "."
        return quoted(f"{node}{join}{path or ''}")

    def _arguments(self, node: PlanNode) -> list[Code]:
        alias = None if node.for_each is None else node.for_each.alias

        def text(written: str) -> Code | None:
            return self._handle(written, alias)

        plain = node.type == "tool" and all(
            is_name(name) and name not in _KEYWORDS for name in node.args
        )
        if plain or not node.args:
            return keywords(node.args, text)
        return keywords({"args": node.args}, text)

    def _handle(self, written: str, alias: str | None) -> Code | None:
        """Give the handle whose placeholder a text is; None for any other text."""
        pieces = scan(written, alias)
        piece = pieces[0] if len(pieces) == 1 else None
        if not isinstance(piece, Placeholder) or piece.text != written:
            return None
        if piece.family == "item":
            return self._item(written, alias)
        variables = self.params if piece.family == "params" else self.nodes
        variable = variables.get(piece.name)
        return f"{variable}.ref" if variable and piece.family == "nodes" else variable

    def _item(self, written: str, alias: str | None) -> str | None:
        fields = written.removeprefix("{item").removesuffix("}").removeprefix(".")
        if alias is None or not (fields == "" or FIELDS.fullmatch(fields)):
            return None
        if written not in {"{item}", f"{{item.{fields}}}"}:  # it goes by another name
            return None
        self.imports.add("item")
        return f"item[{quoted(fields)}]" if fields else "item"

    def _param_text(self, written: str) -> Code | None:
        return self._handle(written, None) if written.startswith("{params.") else None

    def _each(self, each: ForEach) -> list[Code]:
        written: dict[str, Any] = {}
        for name, field in ForEach.model_fields.items():
            value = getattr(each, name)
            if name not in {"source", "select"} and value != field.default:
                written["as_" if name == "alias" else name] = value
        return keywords(written, self._param_text)

    def _options(self, node: PlanNode, record: dict[str, Any]) -> list[Code]:
        written: dict[str, Any] = {}
        if node.when is not None:
            written["when"] = node.when
        parts: list[Code] = [*keywords(written), *self._needs(node, record)]
        copied = {name: getattr(node, name) for name in _COPIED}
        if copied["store_as"] == node.id + (".{index}" if node.for_each else ""):
            del copied["store_as"]
        parts += keywords({n: v for n, v in copied.items() if v is not None}, self._param_text)
        if node.retry != _NO_RETRY:
            retry = node.retry.model_dump(mode="json", exclude_defaults=True, warnings=False)
            only = retry["max_attempts"] if retry.keys() == {"max_attempts"} else retry
            parts += keywords({"retry": only}, self._param_text)
        return parts + self._facets(node.facets)

    def _needs(self, node: PlanNode, record: dict[str, Any]) -> list[Code]:
        read, needs = edges(record), node.depends_on
        if needs == read:
            return []
        rest = needs[len(read) :]
        name = "after"
        if needs[: len(read)] != read or len({*read, *rest}) < len(needs):
            name, rest = "depends_on", needs
        return [Pair(f"{name}=", Group("[", (self.nodes.get(n, quoted(n)) for n in rest), "]"))]

    def _facets(self, facets: FacetSpec) -> list[Code]:
        parts: list[Code] = []
        kinds = {"": facets.paths, "count": facets.counts, "groups": facets.group_counts}
        names = facets.names()
        odd = len(set(names)) < len(names) or not all(
            _is_path(path) for function in ("count", "groups") for path in kinds[function].values()
        )
        if odd:
            self.imports.add("FacetSpec")
            fields = facets.model_dump(
                exclude={"max_group_keys"}, exclude_defaults=True, warnings=False
            )
            parts.append(Pair("facets=", call("FacetSpec", keywords(fields))))
        elif names:
            pairs = []
            for function, paths in kinds.items():
                if paths and function:
                    self.imports.add(function)
                for name, path in paths.items():
                    value = f"{function}({quoted(path)})" if function else quoted(path)
                    pairs.append(Pair(f"{quoted(name)}: ", value))
            parts.append(Pair("facets=", Group("{", pairs, "}")))
        if facets.max_group_keys != _NO_FACETS.max_group_keys:
            parts += keywords({"max_group_keys": facets.max_group_keys}, self._param_text)
        return parts


def _is_path(text: str) -> bool:
    try:
        compile_path(text)
    except PathError:
        return False
    return True
