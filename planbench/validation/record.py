"""Plans that are given as maps of Python values, held to the values that a file can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import LanguageError
from planbench.plan.document import Document
from planbench.plan.model import PlanModel
from planbench.plan.options import date_text
from planbench.plan.placeholders import MAX_DEPTH
from planbench.plan.plain import is_plain, plain

if TYPE_CHECKING:
    from planbench.plan.draft import Draft
    from planbench.plan.issues import ValidationIssue

Route = tuple[str | int, ...]

_DEEPEST: Final = MAX_DEPTH + 10  # a plan's own levels around a value of the user's
_PLAIN: Final = frozenset({type(None), bool, int, float})
_DATED: Final = ("default", "choices")
_FIELD: Final = 4  # parts of the path of an argument: nodes, its place, args, its name


def record_document(source: Mapping[str, Any]) -> Document:
    """Give the document of a record; what no plan file could hold is one of its problems.

    Tuples become lists, and numbers of numpy and members of enums the values that they are.
    Of one with a value that is nested too deep, or within itself, nothing more is said.
    """
    if is_plain(source):
        return Document(dict(source))
    work = _Record()
    try:
        document = Document(work.plain(source, ()))
    except _TooDeep as error:
        document = Document(dict(source))
        document.complete = False
        message = f"{_shown(error.route)} is nested deeper than {MAX_DEPTH} levels"
        work.found = [(message, error.route, None)]
    document.problems = [
        document.issue("bad_field", message, route, fix=fix) for message, route, fix in work.found
    ]
    document.routes = [route for _, route, _ in work.found]
    return document


def args_issues(made: Draft) -> list[ValidationIssue]:
    """Say what no plan file could hold of the arguments of nodes that are models."""
    if is_plain([node.args for node in made.nodes]):
        return []
    found = []
    for position, node in enumerate(made.nodes):
        route = made.routes[position]
        work = _Record()
        try:
            work.plain(node.args, (*route, "args"))
        except _TooDeep as error:
            message = f"{_shown(error.route)} is nested deeper than {MAX_DEPTH} levels"
            work.found.append((message, error.route, None))
        found += [
            made.document.issue("bad_field", message, path, node_id=node.id, fix=fix)
            for message, path, fix in work.found
        ]
    return [issue for issue in found if issue not in made.issues]


class _TooDeep(Exception):
    """Raised to leave a value that is nested deeper than a plan may be; knows the field it is in."""

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self.route = route[:_FIELD]


class _Record:
    def __init__(self) -> None:
        self.found: list[tuple[str, Route, str | None]] = []
        # each with its value, so that the id stays its own
        self._seen: dict[int, tuple[Any, Any]] = {}

    def plain(self, value: Any, route: Route) -> Any:
        """Give a value as a plan holds it; in lists and maps of its own."""
        kind = type(value)
        if kind in _PLAIN or (kind is str and value.isascii()) or isinstance(value, PlanModel):
            return value
        if not isinstance(value, Mapping | list | tuple):
            return self._scalar(value, route)
        if len(route) > _DEEPEST:
            raise _TooDeep(route)
        if id(value) not in self._seen:
            made: Any
            if isinstance(value, Mapping):
                made = self._map(value, route)
            else:
                made = self._list(value, route)
            self._seen[id(value)] = (value, made)
        return self._seen[id(value)][1]

    def _map(self, value: Mapping[Any, Any], route: Route) -> dict[Any, Any]:
        made = {}
        for key, inner in value.items():
            try:
                plain({key: None}, _shown(route), lambda _: None)
            except LanguageError as error:
                self.found.append((error.message, route, error.hint))
            name = str.__str__(key) if isinstance(key, str) else key
            made[name] = self.plain(inner, (*route, name))
        return made

    def _list(self, value: list[Any] | tuple[Any, ...], route: Route) -> list[Any]:
        return [self.plain(inner, (*route, place)) for place, inner in enumerate(value)]

    def _scalar(self, value: Any, route: Route) -> Any:
        if route[:1] == ("params",) and any(part in _DATED for part in route[2:]):
            value = date_text(value)
        try:
            return plain(value, _shown(route), lambda _: None)
        except LanguageError as error:
            self.found.append((error.message, route, error.hint))
            return value if "args" in route else None


def _shown(route: Route) -> str:
    """Write a path as messages name it, from the node on where it leads into one."""
    route = route[1:] if route[:1] == ("plan",) else route
    route = (route[2:] if route[:1] == ("nodes",) else ()) or route
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in route]
    return "".join(parts).removeprefix(".") or "the plan"
