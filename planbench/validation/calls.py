"""Whether the tools that a plan calls are there, allowed, and called as they are declared."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.placeholders import Placeholder, holds, mentions, references, scan
from planbench.plan.structure import ITEM_FAMILIES, alias_of
from planbench.tools import is_allowed
from planbench.validation.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planbench.plan.draft import Draft
    from planbench.plan.issues import Severity, ValidationIssue
    from planbench.plan.model import PlanNode
    from planbench.plan.source import Route
    from planbench.tools import ArgumentProblem, Tool
    from planbench.validation.host import Host

_SECRET: Final = "{env."  # noqa: S105 - how a placeholder starts, no secret
_WILD: Final = re.compile(r"[*?\[]")
_SHOWN: Final = 10
_TEXT: Final = frozenset({"string", "unknown"})


class Calls:
    """Looks at what each node calls, and with what."""

    def __init__(self, made: Draft, host: Host) -> None:
        self._made = made
        self._host = host

    def issues(self) -> Iterator[ValidationIssue]:
        """Give everything that is wrong with the calls, node by node."""
        if self._host.registry is None:
            message = "tools and their arguments were not checked: no registry was given"
            yield self._made.document.issue("no_registry", message, (), severity="warning")
        for position, node in enumerate(self._made.nodes):
            lost = self._made.left_out.get(position, set())
            if node.type == "delegate":
                yield from self._delegate(position, node)
            elif node.tool and not holds(node.tool, "params"):
                yield from self._call(position, node, check_args="args" not in lost)
            if "args" not in lost:
                yield from self._secrets(position, node)
            yield from self._flow(position, node)

    def _issue(
        self,
        code: str,
        message: str,
        position: int,
        field: Route,
        *,
        severity: Severity = "error",
        fix: str | None = None,
        at_key: bool = False,
    ) -> ValidationIssue:
        made = self._made
        return made.document.issue(
            code,
            message,
            (*made.routes[position], *field),
            node_id=made.node_id(position),
            severity=severity,
            fix=fix,
            at_key=at_key,
        )

    def _call(
        self, position: int, node: PlanNode, *, check_args: bool
    ) -> Iterator[ValidationIssue]:
        name = node.tool or ""
        tool = self._host.tool(name)
        if tool is None and self._host.registry is not None:
            yield self._unknown(position, ("tool",), name)
        elif not self._host.allows(name):
            yield self._not_allowed(position, ("tool",), name)
        if tool is None:
            return
        if check_args:
            for problem in self._argument_problems(tool, node):
                yield self._issue(
                    problem.code,
                    problem.message,
                    position,
                    ("args", *problem.path),
                    at_key=problem.code == "unknown_args",
                )
        attempts: Any = node.retry.max_attempts  # a number, or a parameter without a value yet
        if (
            isinstance(attempts, int)
            and attempts > 1
            and tool.effects != "read"
            and not tool.idempotent
        ):
            message = f"tool {name!r} is tried up to {attempts} times, and it {_does(tool)}: a try may have done its work"
            fix = "declare it idempotent=True if it is, or leave retry out"
            where = ("retry", "max_attempts")
            yield self._issue(
                "retry_on_unsafe_tool", message, position, where, severity="warning", fix=fix
            )

    def _unknown(self, position: int, field: Route, name: str) -> ValidationIssue:
        fix = self._host.near(name) or _registered(self._host.names)
        return self._issue("unknown_tool", no_tool(name), position, field, fix=fix)

    def _not_allowed(self, position: int, field: Route, name: str) -> ValidationIssue:
        fix = _listed("allowed", list(self._host.allowed_tools or ()))
        message = f"tool {name!r} is not allowed here"
        return self._issue("tool_not_allowed", message, position, field, fix=fix)

    def _argument_problems(self, tool: Tool, node: PlanNode) -> Iterator[ArgumentProblem]:
        alias = alias_of(node)
        for problem in tool.check_arguments(node.args, _unknown_for(alias)):
            if problem.code == "bad_arg_type" and _is_partly_unknown(
                node.args, problem.path, alias
            ):
                kinds = Shape(tool.parameters).at(problem.path).kinds()
                if kinds & _TEXT:
                    continue  # a text of unknown content may well be the right one
            yield problem

    def _delegate(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        for i, name in enumerate(node.tools or ()):
            if holds(name, "params"):
                continue
            where = ("tools", i)
            matching = [known for known in self._all_names() if is_allowed(known, [name])]
            if self._host.registry is not None and not matching:
                if _WILD.search(name):
                    fix = _registered(self._host.names)
                    yield self._issue("unknown_tool", no_match(name), position, where, fix=fix)
                else:
                    yield self._unknown(position, where, name)
            elif not any(self._host.allows(known) for known in matching or [name]):
                yield self._not_allowed(position, where, name)
        yield from self._instruction(position, node)

    def _instruction(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        told = set(node.depends_on)
        if "depends_on" in self._made.left_out.get(position, ()):
            return
        for _, piece in references(node.instruction):
            if piece.family in ("artifacts", "nodes") and piece.name not in told:
                told.add(piece.name)
                message = f"{piece.text} is read, and depends_on does not name {piece.name!r}"
                fix = f"add {piece.name} to depends_on"
                yield self._issue(
                    "undeclared_reference", message, position, ("instruction",), fix=fix
                )

    def _all_names(self) -> list[str]:
        return [] if self._host.registry is None else self._host.registry.names()

    def _secrets(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        for field in ("store_as", "when", "instruction"):
            text = getattr(node, field)
            if isinstance(text, str) and holds(text, "env"):
                message = f"{field} holds a secret, and secrets stand in args only"
                yield self._issue("env_not_allowed", message, position, (field,))
        if not mentions(node.args, _SECRET):
            return
        tool = node.tool if node.type == "tool" else None
        for path, piece in references(node.args, alias_of(node)):
            if piece.family == "env" and not (tool and self._host.gives_secret(piece.name, tool)):
                to = f"to tool {tool!r}" if tool else "to a delegate"
                message = f"{piece.text} is not given {to}"
                fix = (
                    f"the host allows it with env={{{piece.name!r}: [{tool!r}]}}, --env {piece.name}={tool},"
                    " or %config PlanMagics.env of a notebook"
                    if tool
                    else None
                )
                yield self._issue("env_not_allowed", message, position, ("args", *path), fix=fix)

    def _flow(self, position: int, node: PlanNode) -> Iterator[ValidationIssue]:
        each, plan = node.for_each, self._made.partial_plan
        if each is None or plan is None or "max_concurrency" not in each.model_fields_set:
            return
        cap: Any = plan.metadata.max_parallel_tasks
        wanted: Any = each.max_concurrency
        if isinstance(cap, int) and isinstance(wanted, int) and wanted > cap:
            message = f"max_concurrency {wanted} is above the plan's max_parallel_tasks {cap}, which bounds it"
            where = ("for_each", "max_concurrency")
            yield self._issue(
                "concurrency_above_flow_cap", message, position, where, severity="warning"
            )


def no_tool(name: str) -> str:
    """Say that there is no tool of that name."""
    return f"there is no tool {name!r}"


def no_match(pattern: str) -> str:
    """Say that no tool has a name that fits."""
    return f"no tool matches {pattern!r}"


def _does(tool: Tool) -> str:
    return "destroys" if tool.effects == "destructive" else "writes"


def _registered(names: list[str]) -> str:
    if not names:
        return "no tool is registered yet: run the cell, or add the module, that defines them"
    return _listed("registered", names)


def _listed(what: str, names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{what}: {', '.join(names[:_SHOWN]) or 'none'}{more}"


@functools.lru_cache(maxsize=256)
def _unknown_for(alias: str | None) -> Callable[[Any], bool]:
    """Give the test for values that are known only when the plan runs: exactly one placeholder."""

    def is_unknown(value: Any) -> bool:
        if not isinstance(value, str) or "{" not in value:
            return False
        pieces = scan(value, alias)
        return len(pieces) == 1 and _is_resolved(pieces[0], alias)

    return is_unknown


def _is_resolved(piece: str | Placeholder, alias: str | None) -> bool:
    if not isinstance(piece, Placeholder):
        return False
    return alias is not None or piece.family not in ITEM_FAMILIES


def _is_partly_unknown(args: Any, path: Route, alias: str | None) -> bool:
    """Whether the text at a path has a placeholder within other text."""
    try:
        for part in path:
            args = args[part]
    except (KeyError, IndexError, TypeError):
        return False
    if not isinstance(args, str) or "{" not in args:
        return False
    pieces = scan(args, alias)
    return len(pieces) > 1 and any(_is_resolved(piece, alias) for piece in pieces)
