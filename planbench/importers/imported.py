"""What every importer needs: the source as data, ids that fit, and what came of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import PlanInvalid
from planbench.plan.document import Document, read_document
from planbench.plan.draft import draft
from planbench.plan.source import shown
from planbench.validation import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import ExecutionPlan
    from planbench.plan.source import Route
    from planbench.tools import Tool

_KINDS: Final = {"dict": "a map", "list": "a list", "str": "text"}
_NO_ID_SIGN: Final = re.compile(r"[^A-Za-z0-9_\-]")
_MAX_NAME: Final = 200


class LeftOut(NamedTuple):
    """Something of the source that the plan does not hold: where it stands, what it is, why."""

    place: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A plan, what of its source it does not hold, and the tools of planbench's own that it calls."""

    plan: ExecutionPlan
    report: tuple[LeftOut, ...] = ()
    tools: tuple[Tool, ...] = ()

    def __str__(self) -> str:
        head = f"plan {self.plan.name!r}: {len(self.plan.nodes)} nodes"
        return "\n".join([head, *map(str, self.report)])


class Importing:
    """One import: the source, what is wrong with it, and what is left out."""

    def __init__(self, source: Any) -> None:
        self.document = _document(source)
        self.value: Any = self.document.value
        self.issues: list[ValidationIssue] = list(self.document.problems)
        self.report: list[LeftOut] = []
        self._ids: dict[str, str] = {}

    def problem(
        self,
        code: str,
        message: str,
        path: Route,
        *,
        node_id: str | None = None,
        fix: str | None = None,
    ) -> None:
        """Note what makes the source no plan, with its line where it was read from text."""
        self.issues.append(self.document.issue(code, message, path, node_id=node_id, fix=fix))

    def leave_out(self, place: str, what: str, why: str) -> None:
        """Note what the plan will not hold."""
        self.report.append(LeftOut(place, what, why))

    def leave_out_rest(
        self, place: str, record: Mapping[str, Any], known: set[str], why: str
    ) -> None:
        """Note the fields of a map that nothing reads."""
        for name in record:
            if name not in known:
                self.leave_out(place, str(name), why)

    def node_id(self, name: str, path: Route) -> str:
        """Make a name an id; dots and other signs become ``_``, and a collision is a problem."""
        found = plain_id(name)
        other = self._ids.setdefault(found, name)
        if other != name:
            message = f"{other!r} and {name!r} both become {found!r}"
            self.problem("duplicate_id", message, path, node_id=found, fix="rename one of them")
        return found

    def new_id(self, base: str) -> str:
        """Make an id that no other node has."""
        base = found = plain_id(base)
        number = 1
        while found in self._ids:
            number += 1
            found = f"{base}_{number}"
        self._ids[found] = found
        return found

    def need(self, kind: type[Any], what: str, value: Any, path: Route) -> bool:
        """Whether a value is of a kind; if not, that is a problem."""
        if isinstance(value, kind):
            return True
        name = _KINDS.get(kind.__name__, kind.__name__)
        self.problem("bad_field", f"{what} must be {name}, not {shown(value)}", path)
        return False

    def plan(self, record: dict[str, Any]) -> ExecutionPlan:
        """Give the plan; raises PlanInvalid with everything that is wrong."""
        name = str(record.get("name") or "plan")
        record["name"] = (name if name.isprintable() else repr(name))[:_MAX_NAME]
        if self.issues:
            raise PlanInvalid(self.issues, name=record["name"])
        made = draft(Document(record))
        if made.plan is None:
            raise PlanInvalid(made.issues, name=made.name)
        return made.plan


def plain_id(name: str) -> str:
    """Make an id of a name: other signs become ``_``, and a letter comes first."""
    found = _NO_ID_SIGN.sub("_", name)
    return found if found[:1].isalpha() else f"n_{found}"


def _document(source: Any) -> Document:
    if isinstance(source, Path):
        return read_document(read_text(source))
    return read_document(source) if isinstance(source, str) else Document(source)
