"""What a check found: one line an issue, with the place and the way to mend it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["error", "warning"]


class ValidationIssue(BaseModel):
    """One finding about a plan.

    ``line`` and ``column`` count from 1 and are None for a plan that was not read
    from text. ``fix`` is the mended line or the next step, where one is known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: str | None = None
    code: str
    message: str
    severity: Severity = "error"
    line: int | None = None
    column: int | None = None
    fix: str | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}, column {self.column or 1}: "
        node = "" if self.node_id is None else f"node {self.node_id!r}: "
        fix = "" if self.fix is None else f" ({self.fix})"
        return f"{place}{node}{self.message} [{self.code}]{fix}"
