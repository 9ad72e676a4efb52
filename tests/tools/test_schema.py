from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planbench.errors import ToolArgumentsInvalid, ToolError, UnknownTool
from planbench.tools import Tool, ToolRegistry

UNKNOWN = "{artifacts.listing}"
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tool_schemas"
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the larger data sets are not there")

SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "default": 10},
        "filters": {"type": "array", "items": {"$ref": "#/$defs/filter"}},
        "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
        "one": {
            "oneOf": [
                {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
                {"type": "object", "required": ["b"], "properties": {"b": {"type": "integer"}}},
            ]
        },
        "kind": {
            "type": "object",
            "properties": {"is": {"enum": ["x", "y"]}, "n": {}},
            "if": {"properties": {"is": {"const": "x"}}},
            "then": {"properties": {"n": {"type": "integer"}}},
            "else": {"properties": {"n": {"type": "string"}}},
        },
        "unique": {"type": "array", "uniqueItems": True, "maxItems": 3},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$defs": {
        "filter": {
            "type": "object",
            "properties": {"op": {"enum": ["eq", "ne"]}, "value": {"type": ["number", "null"]}},
            "required": ["op"],
            "additionalProperties": False,
        }
    },
}


def search(**args: Any) -> Any:
    return args


def made(schema: dict[str, Any] = SEARCH, **options: Any) -> Tool:
    return Tool.from_schema("search", "Search.", schema, search, **options)


def is_unknown(value: Any) -> bool:
    return isinstance(value, str) and value == UNKNOWN


def check(args: dict[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    return [(one.code, one.path) for one in made().check_arguments(args, is_unknown)]


def test_arguments_that_fit_reach_the_call_as_they_are():
    args = {"query": "a", "filters": [{"op": "eq", "value": None}], "either": [1]}
    tool = made()
    assert tool.validate(args) == args
    assert tool.validate(args) is not args
    assert tool(**tool.validate(args)) == args


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({}, [("missing_args", ("query",))]),
        ({"query": "a", "limti": 1}, [("unknown_args", ("limti",))]),
        ({"query": 1}, [("bad_arg_type", ("query",))]),
        ({"query": ""}, [("bad_arg_type", ("query",))]),
        ({"query": None}, [("bad_arg_type", ("query",))]),
        ({"query": "a", "limit": "3"}, [("bad_arg_type", ("limit",))]),
        ({"query": "a", "limit": True}, [("bad_arg_type", ("limit",))]),
        (
            {"query": "a", "filters": [{"op": "eq"}, {"op": "zz"}]},
            [("bad_arg_type", ("filters", 1, "op"))],
        ),
        ({"query": "a", "filters": [{}]}, [("bad_arg_type", ("filters", 0, "op"))]),
        (
            {"query": "a", "filters": [{"op": "eq", "po": 1}]},
            [("bad_arg_type", ("filters", 0, "po"))],
        ),
        ({"query": "a", "either": ["x"]}, [("bad_arg_type", ("either", 0))]),
        ({"query": "a", "either": {}}, [("bad_arg_type", ("either",))]),
        ({"query": "a", "kind": {"is": "x", "n": "text"}}, [("bad_arg_type", ("kind", "n"))]),
        ({"query": "a", "unique": [1, 1]}, [("bad_arg_type", ("unique",))]),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(args, found):
    assert check(args) == found
    with pytest.raises(ToolArgumentsInvalid):
        made().validate(args)


@pytest.mark.parametrize(
    "args",
    [
        {"query": UNKNOWN, "limit": UNKNOWN, "filters": UNKNOWN},
        {"query": "a", "filters": [UNKNOWN, {"op": UNKNOWN}]},
        {"query": "a", "either": [UNKNOWN]},
        {"query": "a", "one": {"b": UNKNOWN}},
        {"query": "a", "kind": {"is": UNKNOWN, "n": 3}},
        {"query": "a", "unique": [UNKNOWN, UNKNOWN]},
    ],
)
def test_an_unknown_fits_at_any_depth(args):
    assert check(args) == []


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"query": "a", "filters": [UNKNOWN, {"op": "zz"}]}, ("filters", 1, "op")),
        ({"query": "a", "limit": {"n": UNKNOWN}}, ("limit",)),
        ({"query": "a", "either": [UNKNOWN, "x"]}, ("either", 1)),
        ({"query": "a", "unique": [UNKNOWN] * 4}, ("unique",)),
        ({"query": "a", "filters": [{"value": UNKNOWN}]}, ("filters", 0, "op")),
    ],
)
def test_what_is_wrong_whatever_the_unknown_becomes_is_found(args, path):
    assert check(args) == [("bad_arg_type", path)]


def test_messages_say_what_was_expected_and_never_quote_the_value():
    args = {
        "query": 3,
        "limit": 0,
        "filters": [{"op": "canary", "po": "canary"}],
        "either": "canary",
    }
    with pytest.raises(ToolArgumentsInvalid) as caught:
        made().validate(args)
    assert [problem.message for problem in caught.value.problems] == [
        "args.query should be a string (got int)",
        "args.limit should be at least 1 (got int)",
        "args.filters[0].op should be one of 'eq', 'ne' (got str)",
        "args.filters[0].po is not a known key; it has op, value",
        "args.either should be an integer or an array (got str)",
    ]
    assert "canary" not in str(caught.value)


def test_a_tuple_is_an_array_and_a_numpy_scalar_its_number():
    values = made().validate({"query": "a", "limit": np.int64(3), "filters": ({"op": "eq"},)})
    assert values == {"query": "a", "limit": 3, "filters": [{"op": "eq"}]}
    assert type(values["limit"]) is int


def test_a_schema_without_additional_properties_is_open():
    tool = made({"properties": {"a": {"type": "string"}}})
    assert tool.validate({"a": "x", "b": 1}) == {"a": "x", "b": 1}
    assert tool.parameters["type"] == "object"


def test_the_dialect_that_the_schema_names_is_used():
    draft7 = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"pair": {"items": [{"type": "string"}, {"type": "integer"}]}},
        "properties": {"pair": {"$ref": "#/definitions/pair"}},
    }
    (problem,) = made(draft7).check_arguments({"pair": ["a", "b"]}, is_unknown)
    assert problem.path == ("pair", 1)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, "is for 'string', and arguments are an object"),
        ({"properties": []}, "arguments are an object"),
        ({"properties": {"a": {"type": "strin"}}}, r"\['properties'\]\['a'\]\['type'\]"),
        ({"properties": {"a": {"pattern": "("}}}, r"\['pattern'\]"),
        (
            {"properties": {"a": {"$ref": "#/$defs/none"}}},
            "refers to '#/\\$defs/none', which is not in it",
        ),
        (
            {"properties": {"a": {"items": {"$ref": "https://example.org/a.json"}}}},
            "nothing is fetched",
        ),
        ({"properties": {"a": {"$ref": 3}}}, "search"),
        ({"required": "a"}, r"\['required'\]"),
    ],
)
def test_a_schema_that_is_not_well_formed_is_refused_at_once(schema, told):
    with pytest.raises(ToolError, match=told) as caught:
        made(schema)
    assert caught.value.tool == "search"


def test_a_reference_never_reaches_for_the_network(monkeypatch):
    def refuse(*_args, **_kwargs):
        pytest.fail("a schema reached for the network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    hidden = {"properties": {"a": {"$dynamicRef": "https://example.org/a.json#x"}}}
    with pytest.raises(ToolArgumentsInvalid, match="args cannot be checked"):
        made(hidden).validate({"a": 1})


def test_the_schema_given_is_not_kept_or_changed():
    schema = {
        "properties": {"a": {"type": "string"}, "idempotency_key": {}},
        "required": ["idempotency_key"],
    }
    before = json.dumps(schema)
    tool = made(schema)
    assert json.dumps(schema) == before
    schema["properties"]["a"]["type"] = "integer"
    assert tool.validate({"a": "x"}) == {"a": "x"}


def test_the_idempotency_key_is_left_to_the_run():
    tool = made(
        {
            "properties": {"a": {}, "idempotency_key": {"type": "string"}},
            "required": ["a", "idempotency_key"],
            "additionalProperties": False,
        }
    )
    assert tool.wants_idempotency_key
    assert tool.parameters["required"] == ["a"]
    assert tool.validate({"a": 1}) == {"a": 1}


def test_the_signature_text_reads_like_python():
    assert made(output_schema={"type": "array"}).signature_text == (
        "search(query: str, limit: int = 10, filters: list = ..., either: Any = ..., one: Any = ..., "
        "kind: dict = ..., unique: list = ...) -> list"
    )


def test_output_shape_and_effects_are_those_given():
    tool = made(output_schema={"type": "object"}, effects="destructive")
    assert tool.output_schema == {"type": "object"}
    assert (tool.effects, tool.idempotent) == ("destructive", False)


def test_a_call_may_be_sync_or_async():
    async def co(**args):
        return args["query"]

    registry = ToolRegistry([Tool.from_schema("co", "", SEARCH, co), made()])
    assert registry.get_tool("co").is_async
    assert asyncio.run(registry.execute_tool("co", {"query": "a"})) == "a"
    assert asyncio.run(registry.execute_tool("search", {"query": "a"})) == {"query": "a"}


def bfcl_cases() -> list[dict[str, Any]]:
    text = (SHARED / "bfcl" / "cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def bfcl_registry(case: dict[str, Any]) -> ToolRegistry:
    return ToolRegistry(
        Tool.from_schema(one["name"], one["description"], one["inputSchema"], search)
        for one in case["tools"]
    )


@shared
@pytest.mark.shared
def test_every_valid_call_of_the_leaderboard_checks_and_validates():
    calls = 0
    for case in bfcl_cases():
        registry = bfcl_registry(case)
        for call in case["calls"]:
            tool = registry.get_tool(call["name"])
            assert tool.check_arguments(call["arguments"], is_unknown) == [], case["id"]
            assert tool.validate(call["arguments"]) == call["arguments"]
            calls += 1
    assert calls == 76


@shared
@pytest.mark.shared
def test_every_broken_call_of_the_leaderboard_is_refused_with_its_path():
    calls = 0
    for case in bfcl_cases():
        registry = bfcl_registry(case)
        for call in case["invalid_calls"]:
            calls += 1
            if call["kind"] == "unknown_tool":
                with pytest.raises(UnknownTool, match="did you mean"):
                    registry.get_tool(call["name"])
                continue
            tool = registry.get_tool(call["name"])
            problems = tool.check_arguments(call["arguments"], is_unknown)
            paths = [".".join(map(str, problem.path)) for problem in problems]
            assert any(
                path == call["path"] or path.startswith(f"{call['path']}.") for path in paths
            ), call
            assert any(str(call["path"]) in problem.message for problem in problems), call
            with pytest.raises(ToolArgumentsInvalid):
                tool.validate(call["arguments"])
    assert calls == 336


@shared
@pytest.mark.shared
def test_an_unknown_in_place_of_any_argument_of_the_leaderboard_fits():
    for case in bfcl_cases():
        registry = bfcl_registry(case)
        for call in case["calls"]:
            tool = registry.get_tool(call["name"])
            for name, value in call["arguments"].items():
                args = {**call["arguments"], name: UNKNOWN}
                assert tool.check_arguments(args, is_unknown) == []
                if isinstance(value, list) and value:
                    args = {**call["arguments"], name: [UNKNOWN, *value[1:]]}
                    assert tool.check_arguments(args, is_unknown) == []


@shared
@pytest.mark.shared
def test_the_tools_of_an_mcp_server_register_and_list():
    text = (SHARED / "mcp" / "github_mcp_tools_list.json").read_text(encoding="utf-8")
    records = json.loads(text)["tools"]
    registry = ToolRegistry(
        Tool.from_schema(
            one["name"], one["description"], one["inputSchema"], search, one.get("outputSchema")
        )
        for one in records
    )
    assert registry.names() == [one["name"] for one in records]
    assert len(registry.list_tools()) == len(registry.catalog()) == 39
    assert json.dumps(registry.catalog())
    assert all(one["signature"].startswith(f"{one['name']}(") for one in registry.catalog())
