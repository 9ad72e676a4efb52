"""What a check found: one line an issue, with the place and the way to mend it."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, field_validator

Severity = Literal["error", "warning"]

_SHOWN: Final = 100
MAX_TEXT: Final = 2000
"""How many characters of a message or a fix are kept: what is wrong may be quoted in it."""


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

    @field_validator("message", "fix")
    @classmethod
    def _is_short(cls, value: str | None) -> str | None:
        return value if value is None or len(value) <= MAX_TEXT else f"{value[: MAX_TEXT - 3]}..."

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}, column {self.column or 1}: "
        node = "" if self.node_id is None else f"node {self.node_id[:_SHOWN]!r}: "
        fix = "" if self.fix is None else f" ({self.fix})"
        return f"{place}{node}{self.message} [{self.code}]{fix}"
