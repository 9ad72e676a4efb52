"""What may be given where a plan is wanted: text, a file, a map, a plan, or what builds one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planbench.plan.document import Document, Limits, read_document
from planbench.plan.model import ExecutionPlan
from planbench.plan.parameters import record_of
from planbench.validation.record import record_document
from planbench.validation.text import read_text

if TYPE_CHECKING:
    from typing import Protocol

    class Buildable(Protocol):
        """What gives a plan, such as ``planbench.plan.builder.Plan``."""

        def build(self) -> ExecutionPlan:
            """Give the plan."""
            ...


def built(source: Any) -> Any:
    """Give the plan of an object with a method ``build``, and anything else as it is."""
    if isinstance(source, str | Path | Mapping | ExecutionPlan | type):
        return source
    build = getattr(source, "build", None)
    return build() if callable(build) else source


def document_of(source: Any, limits: Limits | None = None) -> Document:
    """Give the document of a text, a file, a plan, or a record; raises PlanLoadError for no file."""
    limits = Limits() if limits is None else limits
    if isinstance(source, str):
        return read_document(source, limits)
    if isinstance(source, Path):
        return read_document(read_text(source, limits), limits)
    if isinstance(source, ExecutionPlan):
        return Document(record_of(source))
    return record_document(source) if isinstance(source, Mapping) else Document(source)
