from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.tools import Tool, ToolRegistry
from planbench.tools.observed import MAX_FIELDS, MAX_NAMES, MAX_TOOLS, ObservedShapes


class Pair(NamedTuple):
    a: int
    b: int


def made(name="t", source=0):
    """A tool as the registry knows it: a name and a fingerprint."""
    return SimpleNamespace(name=name, fingerprint=str(source))


def seen(*values):
    shapes, tool = ObservedShapes(), made()
    for value in values:
        shapes.observe(tool, value)
        shapes._seen["t"].left = 0  # look at each
    return shapes.schema(tool)


def properties(**fields):
    return {"type": "object", "properties": fields}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (None, {"type": "null"}),
        (True, {"type": "boolean"}),
        ("secret", {"type": "string"}),
        ({"n": 1, "rows": [{"x": "a"}, {"y": 0.5}]}, properties(
            n={"type": "integer"},
            rows={"type": "array", "items": {}},  # elements of other names are data
        )),
        ([{"id": 1, "tags": []}, {"id": "x", "more": None}], {"type": "array", "items": properties(
            id={"anyOf": [{"type": "integer"}, {"type": "string"}]},
            tags={"type": "array", "items": {}},
            more={"type": "null"},
        )}),
        ({}, {"type": "object"}),
        ([], {"type": "array", "items": {}}),
        ((1, 2), {"type": "array", "items": {"type": "integer"}}),
        ({1: "x"}, {}),
        ({"no name": 1}, {}),
        ({str(n): n for n in range(MAX_FIELDS + 1)}, {}),
        (object(), {}),
        (b"bytes", {}),
        (np.arange(3), {}),
        (pd.Series([1]), {}),
        (Pair(1, 2), {}),
        (type("Sub", (dict,), {})(a=1), {}),
        (pd.DataFrame({1: [1]}), {}),
        (pd.DataFrame([[1, 2]], columns=["a", "b"]), {"anyOf": [
            properties(a={}, b={}), {"type": "array", "items": properties(a={}, b={})},
        ]}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_names_and_types_are_kept_and_no_value(value, schema):
    assert seen(value) == schema


def test_what_later_calls_give_is_added():
    assert seen({"a": 1}, {"a": None, "b": "x"}, {}) == properties(
        a={"anyOf": [{"type": "integer"}, {"type": "null"}]}, b={"type": "string"}
    )
    assert seen([], {"a": 1}) == {
        "anyOf": [{"type": "array", "items": {}}, properties(a={"type": "integer"})]
    }


def test_a_map_with_other_keys_at_each_call_is_data():
    assert seen({"eu-west-1": 3}, {"us-east-1": 5}) == {}


def test_deep_values_are_looked_at_only_at_their_outer_levels():
    deep = []
    for _ in range(10_000):
        deep = [deep]

    inner = {}
    for _ in range(4):
        inner = {"type": "array", "items": inner}
    assert seen(deep) == inner


def test_a_tool_is_looked_at_ever_more_rarely():
    shapes, tool = ObservedShapes(), made()
    looked = []
    for call in range(3000):
        before = shapes._seen["t"].left if call else 0
        shapes.observe(tool, {"a": 1})
        if shapes._seen["t"].left >= before:
            looked.append(call)

    assert looked == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047]


def test_another_fingerprint_begins_anew():
    shapes = ObservedShapes()
    shapes.observe(made(source=1), {"a": 1})
    shapes.observe(made(source=2), {"b": 1})

    assert shapes.schema(made(source=1)) is None
    assert shapes.schema(made(source=2)) == properties(b={"type": "integer"})
    assert shapes.schema(made("other")) is None
    shapes.clear()
    assert shapes.schema(made(source=2)) is None


def test_what_is_kept_is_bounded():
    shapes = ObservedShapes()
    for n in range(MAX_TOOLS + 5):
        shapes.observe(made(f"t{n}"), None)
    assert len(shapes._seen) == MAX_TOOLS
    assert shapes.schema(made("t0")) is None

    wide = {
        f"a{n}": {f"b{m}": {f"c{k}": 1 for k in range(60)} for m in range(60)} for n in range(60)
    }
    shapes.observe(made(), wide)
    assert str(shapes.schema(made())).count("type") <= 2 * MAX_NAMES


def test_any_thread_may_observe():
    shapes, tool = ObservedShapes(), made()

    def work():
        for n in range(500):
            shapes.observe(tool, {"a": n, "b": [n]})
            shapes.schema(tool)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert shapes.schema(tool)["properties"].keys() == {"a", "b"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.lists(VALUES, max_size=4))
def test_any_value_may_be_observed(values):
    seen(*values) if values else None


def test_a_registry_keeps_what_was_observed_of_its_tools():
    def fetch(key: str):
        return {"rows": []}

    registry = ToolRegistry([fetch])
    tool = registry.get_tool("fetch")
    assert registry.observed(tool) is None
    registry.observe(tool, {"rows": ["secret"]})

    assert registry.observed(tool) == properties(
        rows={"type": "array", "items": {"type": "string"}}
    )
    assert "secret" not in str(vars(registry._observed))


@pytest.mark.parametrize("gives", [None, type(None), "None"])
def test_a_tool_that_is_declared_to_return_nothing_says_so(gives):
    def write(path: str): ...

    write.__annotations__["return"] = gives
    assert Tool.from_function(write).gives_nothing


def test_a_tool_that_says_nothing_of_its_result_may_return_something():
    def fetch(key: str): ...

    async def note(key: str) -> None: ...

    assert not Tool.from_function(fetch).gives_nothing
    assert Tool.from_function(note).gives_nothing
    assert Tool.from_schema("w", "", {"type": "object"}, fetch, {"type": "null"}).gives_nothing
    assert not Tool.from_schema("w", "", {"type": "object"}, fetch).gives_nothing
