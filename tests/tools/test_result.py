from __future__ import annotations

import pytest
from pydantic import ValidationError

from planbench.tools import ToolResult


def test_a_success_and_a_refusal_have_the_five_fields():
    assert ToolResult.ok({"a": 1}).model_dump() == {
        "success": True,
        "status": "success",
        "result": {"a": 1},
        "error": None,
        "error_code": None,
    }
    refused = ToolResult.failed("no such run", "unknown_run", {"run_id": "x"})
    assert (refused.success, refused.status, refused.error_code) == (False, "error", "unknown_run")
    assert (refused.error, refused.result) == ("no such run", {"run_id": "x"})


def test_a_result_is_frozen_and_exact():
    with pytest.raises(ValidationError):
        ToolResult.ok().success = False
    with pytest.raises(ValidationError):
        ToolResult(success=True, status="done")
