"""A checked plan made ready to run: templates, keys, guards and readers, compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from planbench.errors import PlanInvalid
from planbench.plan.facets import FacetReader
from planbench.plan.graph import dependents
from planbench.plan.guards import compile_guard
from planbench.plan.issues import ValidationIssue
from planbench.plan.paths import compile_path
from planbench.plan.placeholders import Placeholder, Scope, Template, as_text, scan
from planbench.plan.shapes import a, describe
from planbench.runtime.choices import choices_of, undecided

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from planbench.plan.guards import Guard
    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.plan.paths import Path
    from planbench.runtime.delegate import Delegate
    from planbench.tools import Tool, ToolRegistry

_CANONICAL: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


class CompiledNode:
    """One node with all that can be worked out before the run."""

    __slots__ = (
        "arg_reads",
        "attempts",
        "backoff",
        "check_result",
        "delegate",
        "description",
        "facets",
        "function",
        "guard",
        "id",
        "is_async",
        "key",
        "kids",
        "may_reuse",
        "needs",
        "node",
        "once",
        "reads",
        "resolve",
        "secrets",
        "select",
        "simple",
        "spreads",
        "store_key",
        "timeout",
        "tool",
        "tool_name",
        "validate",
        "wants_key",
        "written",
    )

    def __init__(self, node: PlanNode, tool: Tool, kids: list[str]) -> None:
        alias = node.for_each.alias if node.for_each else None
        template = Template(node.args, alias, items=node.for_each is not None)
        self.id = node.id
        self.node = node
        self.tool = tool
        self.tool_name = tool.name
        self.wants_key = tool.wants_idempotency_key
        self.description = node.description or ""
        self.delegate: Delegate | None = None
        self.function: Callable[..., Any] = tool.function
        self.kids = kids
        self.spreads = node.for_each is not None
        self.needs = len(node.depends_on)
        self.resolve: Callable[[Scope], Any] = template.resolve
        self.validate: Callable[[dict[str, Any]], dict[str, Any]] = tool.validate
        self.arg_reads = tuple(
            dict.fromkeys(p.name for p in template.placeholders if p.family == "artifacts")
        )
        self.secrets = tuple(
            dict.fromkeys(p.name for p in template.placeholders if p.family == "env")
        )
        self.written = (
            orjson.dumps(node.args, default=repr, option=_CANONICAL) if self.arg_reads else b""
        )
        source = (node.for_each.source_node,) if node.for_each else ()
        self.reads = tuple(dict.fromkeys((*self.arg_reads, *source)))
        self.guard: Guard | None = compile_guard(node.when) if node.when else None
        self.facets = FacetReader(node.facets) if node.facets.names() else None
        self.timeout = node.timeout
        self.attempts = node.retry.max_attempts
        self.backoff = node.retry.backoff_seconds
        self.is_async = tool.is_async
        self.check_result = tool.check_result
        self.once = (
            node.timeout is None and node.retry.max_attempts == 1 and tool.check_result is None
        )
        self.simple = tool.is_async and self.once
        select = node.for_each.select if node.for_each else None
        self.select: Path | None = compile_path(select) if select else None
        self.key = _key_template(node.store_as, alias)
        self.may_reuse = (
            node.for_each is not None and node.for_each.skip_existing and tool.effects == "read"
        )
        self.store_key = "" if node.for_each else self.key(_NO_ITEM)


def _key_template(text: str, alias: str | None) -> Callable[[Scope], str]:
    match scan(text, alias):
        case [str() as head, Placeholder(family="index")]:
            return lambda scope: head + str(scope.index)
    template = Template(text, alias)
    return lambda scope: as_text(template.resolve(scope))


def _nothing(_: str) -> Any:
    return None


_NO_ITEM: Final = Scope(_nothing, _nothing)


class CompiledPlan:
    """The nodes of a plan by id, in the plan's order.

    ``secrets`` names the variables that it reads, each with the first node that does;
    ``tools`` gives the fingerprint of each tool that it calls, ``modules`` where it lives;
    ``choices`` the tools of each delegate, which count too.
    """

    __slots__ = ("choices", "modules", "nodes", "plan", "record", "roots", "secrets", "tools")

    def __init__(
        self,
        plan: ExecutionPlan,
        registry: ToolRegistry,
        allowed_tools: Collection[str] | None = None,
    ) -> None:
        kids = dependents({node.id: node.depends_on for node in plan.nodes})
        self.plan = plan
        self.choices = choices = choices_of(plan, registry, allowed_tools)
        self.nodes = {
            node.id: CompiledNode(
                node,
                undecided() if node.id in choices else registry.get_tool(node.tool or ""),
                kids[node.id],
            )
            for node in plan.nodes
        }
        called = [node.tool for node in self.nodes.values() if node.id not in choices]
        called += [tool for tools in choices.values() for tool in tools]
        self.tools = {tool.name: tool.fingerprint for tool in called}
        self.modules = {tool.name: tool.module for tool in called}
        self.roots = [node for node in self.nodes.values() if not node.needs]
        self.secrets: dict[str, str] = {}
        for node in self.nodes.values():
            for name in node.secrets:
                self.secrets.setdefault(name, node.id)
        self.record = _record(plan)


def _record(plan: ExecutionPlan) -> dict[str, Any]:
    try:
        return plan.to_dict(compact=True)
    except (PydanticSerializationError, UnicodeDecodeError):
        raise PlanInvalid(list(_not_json(plan)), name=plan.name) from None


def _not_json(plan: ExecutionPlan) -> Iterator[ValidationIssue]:
    """Name the arguments that are no JSON values, as a frame that came in as a parameter."""
    for node in plan.nodes:
        for name, value in node.args.items():
            try:
                to_jsonable_python(value)
            except (PydanticSerializationError, UnicodeDecodeError):
                yield ValidationIssue(
                    node_id=node.id,
                    code="bad_field",
                    message=f"args.{name} holds {a(describe(value))}, and a plan holds JSON values only",
                    fix="let a tool give the value, and read it as {artifacts.<id>}",
                )
