from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from planbench import load_plan
from planbench.plan.document import read_document
from planbench.plan.json_schema import language_schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = language_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
LONG = Draft202012Validator(language_schema(short_forms=False))
NODE = {"id": "a", "tool": "t"}
FAN = {"id": "b", "tool": "t", "depends_on": ["a"], "for_each": {"source": "{artifacts.a}"}}
EXAMPLES = [
    *sorted(ROOT.glob("plans/*.yaml")),
    *sorted(ROOT.glob("planbench/examples/*.yaml")),
]


def plan(*nodes, **fields):
    return {"name": "p", "objective": "o", "nodes": list(nodes) or [NODE], **fields}


def errors(record, validator=VALIDATOR):
    return [error.json_path for error in validator.iter_errors(record)]


def test_it_is_a_schema_and_json():
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def _parts():
    yield "plan", SCHEMA
    yield from SCHEMA["$defs"].items()


def test_every_field_says_what_it_is_for():
    silent = [
        f"{name}.{field}"
        for name, part in _parts()
        for field, inner in part["properties"].items()
        if len(inner["description"].split()) < 2
    ]

    assert silent == []


def test_every_part_is_strict_about_unknown_fields():
    assert [name for name, part in _parts() if part["additionalProperties"] is not False] == []


def test_every_example_is_valid_where_it_stands():
    for _, part in _parts():
        for inner in part["properties"].values():
            for example in inner.get("examples", ()):
                schema = {**inner, "$defs": SCHEMA["$defs"]}
                assert list(Draft202012Validator(schema).iter_errors(example)) == [], example


def test_it_can_be_changed_without_changing_the_next_one():
    language_schema()["$defs"]["PlanNode"]["properties"]["id"]["pattern"] = "x"

    assert language_schema() == SCHEMA


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_plans_of_this_project_are_valid(file):
    assert errors(read_document(file.read_text(encoding="utf-8")).value) == []


def test_the_plans_of_the_pages_are_valid():
    found = 0
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for body in re.findall(r"^```yaml\n(name:.*?)^```", text, re.DOTALL | re.MULTILINE):
            found += 1
            assert errors(read_document(body).value) == [], body
    assert found


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_whatever_the_models_take_is_valid_in_full_and_in_short(plans, data):
    made = data.draw(plans)

    assert errors(made.to_dict(compact=True)) == []
    assert errors(made.to_dict()) == []
    assert errors(made.to_dict(compact=True), LONG) == []


@pytest.mark.parametrize(
    "field",
    ["timeout", "cache", "retry.max_attempts", "retry.backoff_seconds", "facets.max_group_keys"]
    + [
        f"for_each.{name}"
        for name in ("max_items", "max_concurrency", "on_item_error", "max_failed", "skip_existing")
    ],
)
def test_a_parameter_may_stand_where_the_model_lets_it(field):
    record = plan(NODE, {**copy.deepcopy(FAN), "store_as": "b.{index}"})
    at = record["nodes"][1]
    *path, last = field.split(".")
    for part in path:
        at = at.setdefault(part, {})
    at[last] = "{params.x}"

    assert errors(record) == []
    load_plan(json.dumps(record))
    at[last] = "a {params.x}"
    assert errors(record)


@pytest.mark.parametrize(
    "record",
    [
        plan({**NODE, "for_each": "listing"}),
        plan({**NODE, "for_each": "listing.keys[]"}),
        plan({**NODE, "for_each": "my-listing[0].a-b[].c"}),
        plan({**NODE, "facets": {"n": "count(a[])", "by": "groups(a[].k)", "x": "a.b"}}),
        plan({**NODE, "facets": {"n": "count(a[])", "max_group_keys": 3}}),
    ],
)
def test_short_forms_are_valid_for_people_and_not_for_models(record):
    assert errors(record) == []
    assert errors(record, LONG)


@pytest.mark.parametrize(
    "record",
    [
        {},
        [],
        {"name": "p", "objective": "o"},
        plan(nodes=[]),
        plan(name=""),
        plan(name="x" * 201),
        plan(objective=3),
        plan(more=1),
        plan(metadata={"max_parallel_tasks": 0}),
        plan(metadata={"max_parallel_tasks": 129}),
        plan(metadata={"execution_timeout": 0}),
        plan(metadata={"checkpoint": "yes"}),
        plan(metadata={"parallel": 1}),
        plan(params={"x": {"type": "text"}}),
        plan(params={"x": {"typo": 1}}),
        plan(params=["x"]),
        plan(provenance={"by": "me"}),
        plan({"tool": "t"}),
        plan({"id": "a"}),
        plan({"id": "a", "tool": ""}),
        plan({"id": "1a", "tool": "t"}),
        plan({"id": "a.b", "tool": "t"}),
        plan({"id": "", "tool": "t"}),
        plan({**NODE, "type": "other"}),
        plan({**NODE, "args": []}),
        plan({**NODE, "depends_on": "b"}),
        plan({**NODE, "depends_on": ["b", "b"]}),
        plan({**NODE, "depends_on": [1]}),
        plan({**NODE, "store_as": ""}),
        plan({**NODE, "store_as": "x" * 501}),
        plan({**NODE, "timeout": 0}),
        plan({**NODE, "timeout": "soon"}),
        plan({**NODE, "retry": {"max_attempts": 11}}),
        plan({**NODE, "retry": {"max_attempts": 1.5}}),
        plan({**NODE, "retry": {"backoff_seconds": -1}}),
        plan({**NODE, "retry": 3}),
        plan({**NODE, "when": True}),
        plan({**NODE, "if": "true"}),
        plan({**NODE, "instruction": "x"}),
        plan({**NODE, "tools": ["x"]}),
        plan({"id": "a", "type": "delegate"}),
        plan({"id": "a", "type": "delegate", "instruction": ""}),
        plan({"id": "a", "type": "delegate", "instruction": "x", "tool": "t"}),
        plan({**FAN, "store_as": "constant"}),
        plan({**FAN, "for_each": {}}),
        plan({**FAN, "for_each": {"source": "a"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}{artifacts.b}"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "as": "1"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "as": "params"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "alias": "x"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "max_items": 0}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "max_concurrency": 65}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "on_item_error": "stop"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "max_failed": "101%"}}),
        plan({**FAN, "for_each": {"source": "{artifacts.a}", "max_failed": -1}}),
        plan({**FAN, "for_each": "not a source"}),
        plan({**FAN, "for_each": ["a"]}),
        plan({**NODE, "facets": {"counts": {"n": 1}}}),
        plan({**NODE, "facets": {"max_group_keys": 0}}),
        plan({**NODE, "facets": {"n": 3}}),
        plan({**NODE, "facets": ["n"]}),
    ],
    ids=lambda record: json.dumps(record)[-60:],
)
def test_what_the_models_refuse_is_not_valid(record):
    from planbench import PlanInvalid

    assert errors(record)
    assert errors(record, LONG)
    understood = plan(metadata={"checkpoint": "yes"})  # by the reader, not by the schema
    text = json.dumps(record)
    if record != understood and "for_each" not in text and "facets" not in text:
        with pytest.raises(PlanInvalid):
            load_plan(text)


def test_an_error_points_at_its_field():
    record = plan(NODE, copy.deepcopy(FAN))
    record["nodes"][1]["for_each"]["max_items"] = 0

    (error,) = LONG.iter_errors(record)
    inner = [found.json_path for found in error.context]
    assert "$.nodes[1].for_each" in [error.json_path, *inner][0]
