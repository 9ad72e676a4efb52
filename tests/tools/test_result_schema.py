"""What a tool declares its results to be in a JSON Schema holds for each of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from planbench import Tool, ToolRegistry, ToolResult
from planbench.errors import ResultInvalid, ToolError
from planbench.tools.result_schema import ResultSchema

ROWS = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
    "required": ["rows"],
    "additionalProperties": False,
    "$defs": {"row": {"type": "object", "properties": {"id": {"type": "integer"}}}},
}


class Report(BaseModel):
    rows: list[dict]


@dataclass
class Plain:
    rows: tuple


@pytest.mark.parametrize(
    "value", [{"rows": []}, {"rows": [{"id": 1}]}, {"rows": ({"id": 1},)}, Report(rows=[{"id": 1}]), Plain(())]
)  # fmt: skip
def test_a_result_that_fits_passes_also_as_a_tuple_a_model_or_a_dataclass(value):
    ResultSchema("t", ROWS).check(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "it should be an object (got list)"),
        (None, "it should be an object (got None)"),
        ({}, "rows is missing"),
        ({"rows": [{"id": 1}, {"id": "s3cret"}]}, "rows[1].id should be an integer (got str)"),
        ({"rows": [], "more": 1}, "more is not a known key"),
        (Report(rows=[{"id": "x"}]), "rows[0].id should be an integer (got str)"),
        (object(), "it has no form in JSON (got object)"),
    ],
)
def test_a_result_that_does_not_fit_is_refused_with_its_place_and_type_and_never_its_value(
    value, said
):
    with pytest.raises(ResultInvalid) as caught:
        ResultSchema("t", ROWS).check(value)

    assert caught.value.problems == [said]
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_result_nested_too_deep_for_the_validator_is_refused():
    value: list = []
    for _ in range(50_000):
        value = [value]

    with pytest.raises(ResultInvalid, match="nested too deep"):
        ResultSchema("t", {"items": {"$ref": "#"}}).check(value)


def test_a_schema_of_results_that_cannot_be_used_is_refused_when_the_tool_is_made():
    for schema in ({"type": "wat"}, {"$ref": "https://elsewhere/x.json"}):
        with pytest.raises(ToolError, match="the schema of tool 't'"):
            Tool.from_schema("t", "", {"type": "object"}, dict, schema)


def test_what_a_tool_result_holds_is_what_is_held_to_the_schema():
    schema = ResultSchema("t", ROWS)
    schema.check(ToolResult.ok({"rows": []}))
    schema.check(ToolResult.failed("gone", "it is gone"))
    with pytest.raises(ResultInvalid, match="rows should be an array"):
        schema.check(ToolResult.ok({"rows": 1}))


def test_a_registry_gives_no_result_that_breaks_the_schema():
    registry = ToolRegistry([Tool.from_schema("t", "", {"type": "object"}, dict, ROWS)])

    with pytest.raises(ResultInvalid):
        asyncio.run(registry.execute_tool("t", {"rows": 1}))
    assert asyncio.run(registry.execute_tool("t", {"rows": []})) == {"rows": []}
