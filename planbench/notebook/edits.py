"""``%plan set`` and ``%plan rename``: changes of a saved plan that keep its comments and layout."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import CommandError, PlanInvalid
from planbench.files import load_plan
from planbench.files.names import check_new_name
from planbench.notebook.arguments import LineParser, read_value
from planbench.notebook.command import plan_names
from planbench.plan.diff import diff_plans
from planbench.plan.document import read_document
from planbench.plan.edits import rename_node, set_argument, set_default
from planbench.plan.kinds import fit
from planbench.plan.scalars import typed
from planbench.validation.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planbench.notebook.command import Notebook
    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import ExecutionPlan
    from planbench.plan.source import Route
    from planbench.tools import ToolRegistry
    from planbench.workbench import Workbench

_TEXT: Final = frozenset({"string"})
_PARAM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT: Final = re.compile(
    r"(?P<node>[A-Za-z][\w-]*)(?P<path>\.[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[[0-9]{1,6}\])*)"
)
_STEP: Final = re.compile(r"\.([\w-]+)|\[([0-9]+)\]")


def set_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan set``."""
    parser = LineParser(
        "%plan set", "change a saved plan where it stands, and keep its comments and layout"
    )
    parser.add_argument("name", metavar="NAME", help="a plan of the plans folder")
    parser.add_argument(
        "changes",
        metavar="PARAM=VALUE|NODE.ARG=VALUE",
        nargs="+",
        help="the default of a parameter, or an argument of a node, as fetch.key=x or"
        " fetch.keys[0]=x; @VARIABLE takes a value of the notebook",
    )
    _add_force(parser)
    return parser


def rename_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan rename``."""
    parser = LineParser("%plan rename", "give a node another id; every reference to it follows")
    parser.add_argument("name", metavar="NAME", help="a plan of the plans folder")
    parser.add_argument("old", metavar="OLD", help="the id of the node")
    parser.add_argument("new", metavar="NEW", help="its new id")
    _add_force(parser)
    return parser


def _add_force(parser: LineParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="save it also when it fits the tools less than before"
    )


def change(notebook: Notebook, words: list[str]) -> str:
    """Make the changes one after the other, and save what comes of them as one version."""
    options = set_parser().read(words)
    text = before = _text(notebook, options.name)
    for word in options.changes:
        text = _changed(text, word, notebook)
    return _save(notebook.workbench, options.name, before, text, force=options.force)


def rename(notebook: Notebook, words: list[str]) -> str:
    """Rename a node, and save the plan as a new version."""
    options = rename_parser().read(words)
    before = _text(notebook, options.name)
    text = rename_node(before, options.old, options.new)
    return _save(notebook.workbench, options.name, before, text, force=options.force)


def _text(notebook: Notebook, name: str) -> str:
    check_new_name(name)
    return notebook.workbench.plans.read(name)


def _changed(text: str, word: str, notebook: Notebook) -> str:
    key, equals, written = word.partition("=")
    value = read_value(written, notebook.shell.user_ns, word)
    is_text = value is written  # and no value of the notebook, which has its type
    plan = load_plan(text)
    if equals and _PARAM.fullmatch(key):
        if is_text and key not in plan.params and _is_read_as_text(plan, key, notebook):
            return set_default(text, key, value)
        return set_default(text, key, _default(plan, key, value, is_text=is_text))
    place = _ARGUMENT.fullmatch(key)
    if place is None or not equals:
        raise CommandError(
            f"%plan set: {word!r} is not of the form PARAM=VALUE or NODE.ARG=VALUE",
            hint="for example: %plan set sweep date=2026-08-06, or %plan set sweep fetch.limit=5",
        )
    route = tuple(name or int(number) for name, number in _STEP.findall(place["path"]))
    if is_text:
        value = _argument(plan, place["node"], route, written, notebook.workbench.registry)
    return set_argument(text, place["node"], route, value)


def _default(plan: ExecutionPlan, name: str, value: Any, *, is_text: bool) -> Any:
    spec = plan.params.get(name)
    if spec is None:
        return _read(value) if is_text else value
    with contextlib.suppress(ValueError):  # what does not fit is refused where it is put in
        return fit(spec, value)
    return value


def _is_read_as_text(plan: ExecutionPlan, name: str, notebook: Notebook) -> bool:
    """Whether a tool that gets the parameter alone as an argument takes text there."""
    registry = notebook.workbench.registry
    return any(
        _takes_text(registry, node.tool, route)
        for node in plan.nodes
        for route in _places(node.args, f"{{params.{name}}}")
    )


def _places(args: Any, wanted: str) -> Iterable[Route]:
    """Find where a text stands in arguments, however deep."""
    open_: list[tuple[Route, Any]] = [((), args)]
    while open_:
        route, value = open_.pop()
        if isinstance(value, Mapping):
            open_ += [((*route, key), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            open_ += [((*route, index), inner) for index, inner in enumerate(value)]
        elif value == wanted:
            yield route


def _takes_text(registry: ToolRegistry, name: str | None, route: Route) -> bool:
    tool = None if name is None else registry.get(name)
    return tool is not None and Shape(tool.parameters).at(route).kinds() == _TEXT


def _argument(
    plan: ExecutionPlan, node_id: str, route: Route, written: str, registry: ToolRegistry
) -> Any:
    """Read a value as the tool takes it: what takes text gets text, else as YAML reads it."""
    node = next((node for node in plan.nodes if node.id == node_id), None)
    if node is not None and _takes_text(registry, node.tool, route):
        return written
    return _read(written)


def _read(written: str) -> Any:
    if written[:1] in ("[", "{"):
        document = read_document(written)
        if not document.problems and isinstance(document.value, list | dict):
            return document.value
        return written  # a placeholder is text
    return typed(written)


def _save(workbench: Workbench, name: str, before: str, text: str, *, force: bool) -> str:
    """Save the new text and say what differs; raises PlanInvalid for errors that are new."""
    # with what the defaults give, since a default may fit no tool; params that have none are known
    known = Counter(map(_mark, workbench.check(before, {}).issues))
    fresh = [
        issue
        for issue in workbench.check(text, {}).issues
        if issue.severity == "error" and not _is_known(issue, known)
    ]
    if fresh and not force:
        raise PlanInvalid(fresh, name=name)
    saved = workbench.save(text, name, force=True)
    return f"{saved}\n{diff_plans(load_plan(before), load_plan(text)).to_text()}"


def _is_known(issue: ValidationIssue, known: Counter[tuple[str, str]]) -> bool:
    mark = _mark(issue)
    known[mark] -= 1
    return known[mark] >= 0


def _mark(issue: ValidationIssue) -> tuple[str, str]:
    return issue.code, issue.message


def set_words(workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
    """Name the plans, then what can be set in one: its parameters and the arguments of its nodes."""
    del word
    if not before:
        return plan_names(workbench)
    plan = load_plan(workbench.plans.read(before[0]))
    arguments = (
        f"{node.id}.{name}="
        for node in plan.nodes
        for name in {**node.args, **_taken(workbench.registry, node.tool)}
    )
    return [*(f"{name}=" for name in plan.params), *arguments]


def rename_words(workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
    """Name the plans, then the nodes of one; the new id is up to the author."""
    del word
    if not before:
        return plan_names(workbench)
    if len(before) > 1:
        return ()
    return [node.id for node in load_plan(workbench.plans.read(before[0])).nodes]


def _taken(registry: ToolRegistry, tool: str | None) -> Mapping[str, Any]:
    found = None if tool is None else registry.get(tool)
    properties: Mapping[str, Any] = {} if found is None else found.parameters.get("properties", {})
    return properties
