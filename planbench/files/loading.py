"""Plans read from text and from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planbench.errors import PlanInvalid, PlanLoadError
from planbench.plan.collector import paused_collector
from planbench.plan.draft import draft
from planbench.plan.model import ExecutionPlan
from planbench.plan.parameters import bind, bind_document
from planbench.validation import built, document_of, read_text

if TYPE_CHECKING:
    from planbench.plan.document import Limits
    from planbench.plan.issues import ValidationIssue
    from planbench.validation.given import Buildable


def load_plan(
    source: str | Path | Mapping[str, Any] | ExecutionPlan | Buildable,
    params: Mapping[str, Any] | None = None,
    *,
    limits: Limits | None = None,
) -> ExecutionPlan:
    """Read a plan: a str is text, a Path is a file.

    A map is the record of one, and an object with ``build()`` is asked for its plan.
    Without ``params`` a plan that takes parameters comes as it is written; with them,
    also with ``{}``, they are put in. ``limits`` bound the text. Raises PlanInvalid with every issue of the content,
    and PlanLoadError where there is nothing to read.
    """
    given = built(source)
    if isinstance(given, ExecutionPlan):
        return given if params is None else bind(given, params)
    if isinstance(given, Path):
        return read_plan_file(given, params, limits)
    return plan_of(given, params, limits=limits)


def read_plan_file(
    path: Path, params: Mapping[str, Any] | None = None, limits: Limits | None = None
) -> ExecutionPlan:
    """Read a plan file as ``load_plan`` does."""
    text = read_text(path) if limits is None else read_text(path, limits)
    return plan_of(text, params, path, limits)


def plan_of(
    source: Any,
    params: Mapping[str, Any] | None = None,
    path: Path | str | None = None,
    limits: Limits | None = None,
) -> ExecutionPlan:
    """Read a text or a record as ``load_plan`` does; errors name the ``path`` that it came from."""
    if not isinstance(source, str | Mapping):
        kind = type(source).__name__
        raise PlanLoadError(f"a plan is read from text (str) or a file (Path), not from {kind}")
    issues: list[ValidationIssue] = []
    with paused_collector():
        document = document_of(source, limits)
        if params is not None:
            document, issues = bind_document(document, params)
        made = draft(document)
    if made.plan is None or issues:
        raise PlanInvalid([*issues, *made.issues], path=path, name=made.name)
    return made.plan
