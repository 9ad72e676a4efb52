"""Parameters: ``{params.x}`` gets its value before a run starts, and never during one."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from pydantic import BaseModel, ValidationError

from planbench.errors import ConfigurationError, LanguageError, PlaceholderError, PlanInvalid
from planbench.plan.document import Document
from planbench.plan.draft import draft, node_id_at, unwrapped
from planbench.plan.fields import field_problems
from planbench.plan.issues import ValidationIssue
from planbench.plan.kinds import Misfit, fit
from planbench.plan.model import PARAM, ExecutionPlan, ParamSpec, PlanNode
from planbench.plan.placeholders import MAX_DEPTH, Placeholder, as_text, scan
from planbench.plan.plain import is_plain, plain
from planbench.plan.source import shown
from planbench.plan.structure import MAX_PROBLEMS, suggestion
from planbench.plan.substitution import fill, joined_text, substitute

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from planbench.plan.source import Route

_SIGN: Final = "{params."
_TEMPLATES: Final = ("args", "store_as", "instruction")
_DEEPEST: Final = MAX_DEPTH + 10
_SHOWN: Final = 20
_QUOTES: Final = re.compile(r"""\\.|["']""")
_IN_GUARD: Final = re.compile(rf"\{{\{{params\.\w+\}}\}}|{PARAM.pattern}")
_READ_IN_GUARD: Final = re.compile(r"\{(?:params|env)\.[A-Za-z_][A-Za-z0-9_]*\}")


class ParameterProblem(NamedTuple):
    """A parameter that is missing, unused or of the wrong kind, and where that shows."""

    code: str
    message: str
    path: Route = ()
    fix: str | None = None


class Binding(NamedTuple):
    """A record with its parameters put in; what has no value stays as written."""

    value: dict[str, Any]
    problems: list[ParameterProblem]


@overload
def bind(plan: ExecutionPlan, params: Mapping[str, Any]) -> ExecutionPlan: ...


@overload
def bind(plan: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]: ...


def bind(
    plan: ExecutionPlan | dict[str, Any], params: Mapping[str, Any]
) -> ExecutionPlan | dict[str, Any]:
    """Put parameters into a plan or its record; the result declares none.

    Raises PlanInvalid with missing_param, unused_param and bad_param, and for a plan
    with all that its values make wrong.
    """
    record = record_of(plan) if isinstance(plan, ExecutionPlan) else plan
    binding = resolve(record, params)
    issues = _issues(Document(record), binding)
    name = record.get("name")
    if issues:
        raise PlanInvalid(issues, name=name if isinstance(name, str) else None)
    if not isinstance(plan, ExecutionPlan):
        return binding.value
    made = draft(Document(binding.value))
    if made.plan is None:
        raise PlanInvalid(made.issues, name=made.name)
    return made.plan


def check_params(params: Any) -> None:
    """Raise ConfigurationError for what is no map of parameters."""
    if not isinstance(params, Mapping):
        raise ConfigurationError(
            f"params is a map of names and values, not {shown(params)}",
            hint='write: params={"date": "2026-08-06"}',
        )


def bind_document(
    document: Document, params: Mapping[str, Any]
) -> tuple[Document, list[ValidationIssue]]:
    """Put parameters into what was read; the issues have the lines of the text."""
    document = unwrapped(document)
    if not document.complete or not isinstance(document.value, dict):
        return document, []
    binding = resolve(document.value, params)
    return document.replaced(binding.value), _issues(document, binding)


def wanted(plan: ExecutionPlan | Mapping[str, Any]) -> set[str]:
    """Name the parameters that a plan reads."""
    record = record_of(plan) if isinstance(plan, ExecutionPlan) else plan
    return set(_first_uses(record))


def resolve(record: Mapping[str, Any], params: Mapping[str, Any]) -> Binding:
    """Put parameters into a plan's record, and say what is wrong with them."""
    check_params(params)
    block = record.get("params") or {}
    specs, problems = _declared(block)
    uses = _first_uses(record)
    known = [*dict.fromkeys([*specs, *uses])]
    takes = f"the plan takes {_listed(known)}" if known else "the plan takes no parameters"
    read = _listed(uses) or "none"
    values: dict[str, Any] = {}
    for name, value in params.items():
        if name in specs:
            problems += _taken(values, name, value, ("params", name), specs[name])
        elif name in uses:
            problems += _taken(values, name, value, uses[name])
        elif not isinstance(block, dict) or name not in block:
            message = f"param {name!r} is given, and nothing in the plan reads it"
            near = suggestion(str(name), known)
            fix = f"{near[:-1]}? {takes}" if near else takes
            problems.append(ParameterProblem("unused_param", message, (), fix))
    for name, spec in specs.items():
        if name not in uses:
            message = f"params declares {name!r}, and nothing in the plan reads {{params.{name}}}"
            fix = f"read it, or leave it out; read are {read}"
            problems.append(ParameterProblem("unused_param", message, ("params", name), fix))
        elif name not in params and not spec.is_required:
            problems += _default(values, spec, name)
    for name, path in uses.items():
        optional = name in specs and not specs[name].is_required
        if name not in params and not optional:
            message = f"{{params.{name}}} has no value"
            fix = f"give params={{{name!r}: ...}} or --param {name}=...; {takes}"
            problems.append(ParameterProblem("missing_param", message, path, fix))
    return _put_in(record, values, problems)


def _listed(names: Collection[str]) -> str:
    """List names, as many as a person reads."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(itertools.islice(names, _SHOWN)) + more


def _issues(document: Document, binding: Binding) -> list[ValidationIssue]:
    return [_issue(document, problem) for problem in binding.problems[:MAX_PROBLEMS]]


def _issue(document: Document, problem: ParameterProblem) -> ValidationIssue:
    if not problem.path:  # about what was given, which has no place in the text
        return ValidationIssue(code=problem.code, message=problem.message, fix=problem.fix)
    return document.issue(
        problem.code,
        problem.message,
        problem.path,
        node_id=_node_id(document.value, problem.path),
        fix=problem.fix,
        at_key=problem.code == "unused_param",
    )


def _node_id(root: Any, path: Route) -> str | None:
    node = root["nodes"][path[1]] if path[:1] == ("nodes",) and len(path) > 1 else None
    return node.id if isinstance(node, PlanNode) else node_id_at(root, path)


def _declared(block: Any) -> tuple[dict[str, ParamSpec], list[ParameterProblem]]:
    if not isinstance(block, Mapping):
        message = f"params must be a map of declared parameters, not {shown(block)}"
        return {}, [ParameterProblem("bad_field", message, ("params",))]
    specs: dict[str, ParamSpec] = {}
    problems: list[ParameterProblem] = []
    for name, spec in block.items():
        try:
            specs[name] = ParamSpec.model_validate(spec)
        except ValidationError as error:
            problems += [
                ParameterProblem(
                    p.code, f"params.{name}: {p.message}", ("params", name, *p.path), p.fix
                )
                for p in field_problems(error, spec, ParamSpec)
            ]
    return specs, problems


def _taken(
    values: dict[str, Any], name: str, value: Any, path: Route, spec: ParamSpec | None = None
) -> list[ParameterProblem]:
    """Take a given value in when it fits what is declared, and a plan can hold it."""
    place = f"param {name!r}"
    try:
        values[name] = _held(value, place) if spec is None else _fitting(spec, value, place)
    except ValueError as error:
        return [_unfit(error, place, path)]
    return []


def _default(values: dict[str, Any], spec: ParamSpec, name: str) -> list[ParameterProblem]:
    place = f"the default of param {name!r}"
    path = ("params", name, "default")
    try:
        values[name] = None if spec.default is None else _fitting(spec, spec.default, place)
    except ValueError as error:
        return [_unfit(error, place, path)]
    return []


def _unfit(error: ValueError, place: str, path: Route) -> ParameterProblem:
    if isinstance(error, LanguageError):  # it names the place within the value
        return ParameterProblem("bad_param", error.message, path, error.hint)
    fix = error.fix if isinstance(error, Misfit) else None
    return ParameterProblem("bad_param", f"{place} {error}", path, fix)


def _fitting(spec: ParamSpec, value: Any, place: str) -> Any:
    """Give a value as the declared type and as a plan holds it; dates are read by their type."""
    if isinstance(value, Mapping | list | tuple):
        value = _held(value, place)
    return _held(fit(spec, value), place)


def _held(value: Any, place: str) -> Any:
    """Give a value as a plan holds it, so that what is shown and recorded is what is called with."""
    return value if is_plain(value) else plain(value, place, lambda _: None)


def _put_in(
    record: Mapping[str, Any], values: dict[str, Any], problems: list[ParameterProblem]
) -> Binding:
    bound: dict[str, Any] = {}
    for key, item in record.items():
        if key == "nodes" and isinstance(item, list):
            bound[key] = []
            for position, node in enumerate(item):
                try:
                    bound[key].append(_node(node, values))
                except PlaceholderError as error:
                    path = ("nodes", position)
                    problems.append(ParameterProblem("bad_param", error.message, path))
                    bound[key].append(node)
        elif key != "params":
            bound[key] = _filled(item, values)
    return Binding(bound, problems)


def _node(node: Any, values: dict[str, Any]) -> Any:
    """Put parameters into one node; a node that reads none stays the same object."""
    if next(_texts(node), None) is None:
        return node
    if isinstance(node, PlanNode):
        node = _fields_of(node)
    if not isinstance(node, dict):
        return _filled(node, values)
    bound = {key: _filled(item, values) for key, item in node.items() if key not in _TEMPLATES}
    each = bound.get("for_each")
    alias = each.get("as") if isinstance(each, dict) else None
    for key, item in node.items():
        if key in _TEMPLATES:
            bound[key] = substitute(item, values, alias if isinstance(alias, str) else None)
        elif key == "when" and isinstance(item, str):
            bound[key] = _guard(item, values)
    return bound


def _filled(value: Any, values: dict[str, Any], depth: int = 0) -> Any:
    """Put parameters into texts that are no templates, so that no item or result is escaped."""
    if isinstance(value, str):
        return fill(value, values)
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {key: _filled(item, values, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, values, depth + 1) for item in value]
    return value


def _guard(text: str, values: dict[str, Any]) -> str:
    """Put parameters into a guard; inside a quoted text they stay text, whatever they hold."""
    quotes = _Quotes(text)
    pieces: list[tuple[bool, str]] = []
    end = 0
    for match in _IN_GUARD.finditer(text):
        if match[1] in values:  # None in double braces, which read nothing
            pieces.append((True, text[end : match.start()]))
            pieces.append((False, _in_guard(values[match[1]], quotes.open_at(match.start()))))
            end = match.end()
    pieces.append((True, text[end:]))
    # to CEL it is the same text, and to nobody a placeholder
    return joined_text(pieces, _READ_IN_GUARD, lambda found: f"\\u007b{found[1:]}")


def _in_guard(value: Any, quote: str | None) -> str:
    written = as_text(value)
    if quote is None:
        return written
    inside = json.dumps(written, ensure_ascii=False)[1:-1]
    return inside if quote == '"' else inside.replace('\\"', '"').replace("'", "\\'")


class _Quotes:
    """Says inside which quote each place of a guard is; asked from left to right."""

    def __init__(self, text: str) -> None:
        self._signs = _QUOTES.finditer(text)
        self._next = next(self._signs, None)
        self._quote: str | None = None

    def open_at(self, place: int) -> str | None:
        """Give the sign of the text that is open there; None outside of texts."""
        while self._next is not None and self._next.start() < place:
            sign = self._next.group()
            if sign == self._quote:
                self._quote = None
            elif self._quote is None and len(sign) == 1:
                self._quote = sign
            self._next = next(self._signs, None)
        return self._quote


def _first_uses(record: Mapping[str, Any]) -> dict[str, Route]:
    """Name the parameters that a record reads, each with the path of its first use."""
    uses: dict[str, Route] = {}
    for key, item in record.items():
        if key != "params":
            for path, text in _texts(item):
                for piece in scan(text):
                    if isinstance(piece, Placeholder) and piece.family == "params":
                        uses.setdefault(piece.name, (key, *path))
    return uses


def _texts(value: Any) -> Iterator[tuple[Route, str]]:
    """Give every text that may read a parameter, in order, with its path; what is too deep is left out."""
    stack: list[tuple[Route, Any]] = [((), value)]
    while stack:
        path, current = stack.pop()
        if isinstance(current, str):
            if _SIGN in current:
                yield path, current
            continue
        if isinstance(current, PlanNode):
            current = _fields_of(current)
        if len(path) > _DEEPEST:
            continue
        if isinstance(current, dict):
            stack.extend(
                ((*path, key), item)
                for key, item in reversed(current.items())
                if not isinstance(item, str) or _SIGN in item
            )
        elif isinstance(current, list | tuple):
            stack.extend(((*path, i), current[i]) for i in range(len(current) - 1, -1, -1))


def record_of(plan: ExecutionPlan) -> dict[str, Any]:
    """Give a plan's fields as written, with nodes and declarations as the models that they are."""
    record = _fields_of(plan)
    record["nodes"] = plan.nodes
    if plan.params:
        record["params"] = plan.params
    return record


def _fields_of(model: BaseModel) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in type(model).model_fields:
        if name not in model.model_fields_set:
            continue
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            value = value.model_dump(by_alias=True, exclude_unset=True, warnings=False)
        fields[name] = value
    return fields
