"""What an agent-facing tool answers: a value, or an error with its code."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class ToolResult(BaseModel):
    """One answer to an agent: ``result`` on success, ``error`` and ``error_code`` otherwise.

    A refusal may carry a ``result`` too, where something is known about its subject.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    success: bool
    status: Literal["success", "error"]
    result: dict[str, Any] | None = None
    error: str | None = None
    error_code: str | None = None

    @classmethod
    def ok(cls, result: dict[str, Any] | None = None) -> ToolResult:
        """Answer with a value."""
        return cls(success=True, status="success", result=result)

    @classmethod
    def failed(
        cls, error: str, error_code: str, result: dict[str, Any] | None = None
    ) -> ToolResult:
        """Answer with an error and its code."""
        return cls(success=False, status="error", result=result, error=error, error_code=error_code)
