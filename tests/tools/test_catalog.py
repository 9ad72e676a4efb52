from __future__ import annotations

import json

import pytest

from planbench.tools import Tool, is_allowed
from planbench.tools.catalog import catalog_entry


@pytest.mark.parametrize(
    ("name", "allowed", "answer"),
    [
        ("fetch", None, True),
        ("fetch", [], False),
        ("fetch", ["fetch"], True),
        ("fetch", {"send", "fe*"}, True),
        ("Fetch", ["fetch"], False),
        ("fetch", ("get_?",), False),
        ("get_a", ("get_?",), True),
        ("fetch", "fetch", True),
        ("f", "fetch", False),
        ("a[1]", ["a[1]"], True),
    ],
)
def test_a_tool_is_allowed_by_name_or_pattern(name, allowed, answer):
    assert is_allowed(name, allowed) is answer


def test_an_entry_is_json_and_its_description_is_bounded():
    def f(a: int, b: dict | None = None) -> int: ...

    f.__doc__ = "x" * 5000
    entry = catalog_entry(Tool.from_function(f, effects="write"))
    assert json.loads(json.dumps(entry)) == entry
    assert len(entry["description"]) == 1000
    assert entry["description"].endswith("...")
    assert (entry["signature"], entry["effects"]) == (
        "f(a: int, b: dict | None = None) -> int",
        "write",
    )
