import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from planbench import load_plan
from planbench.algos.step_prompts import STEPS
from planbench.planner.answerform import KEYWORDS, delta_form, plan_form

ROOT = Path(__file__).resolve().parents[2]
FORMS = [plan_form(), delta_form()]
MAPS = {"args", "paths", "counts", "group_counts", "params"}


def strict_problems(schema, path=()):
    """What the strict mode of OpenAI refuses in a schema, as pairs of a rule and a field."""
    name = path[-1] if path else ""
    for key in schema.keys() - KEYWORDS:
        yield f"keyword {key}", name
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            yield "open map", name
        if set(schema.get("required", [])) != set(properties):
            yield "optional field", name
        for field, inner in properties.items():
            yield from strict_problems(inner, (*path, field))
        if isinstance(schema.get("additionalProperties"), dict):
            yield from strict_problems(schema["additionalProperties"], (*path, "[key]"))
    elif schema.get("type") == "array":
        yield from strict_problems(schema["items"], (*path, "[]"))
    for option in schema.get("anyOf", []):
        yield from strict_problems(option, path)
    if not schema.keys() & {"type", "anyOf", "enum"}:
        yield "no type", name


def depth(schema):
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [
        one
        for one in (schema.get("items"), schema.get("additionalProperties"))
        if isinstance(one, dict)
    ]
    return 1 + max(map(depth, inner), default=0)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_only_open_maps_and_optional_fields_keep_it_out_of_strict_mode(form):
    problems = set(strict_problems(form.schema))

    assert {rule for rule, _ in problems} == {"open map", "optional field"}
    assert {name for rule, name in problems if rule == "open map"} <= MAPS
    assert ("open map", "args") in problems
    assert form.strict is False  # which is why it is sent so


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_it_is_a_schema_small_and_flat_enough_for_endpoints(form):
    Draft202012Validator.check_schema(form.schema)

    assert depth(form.schema) <= 8
    assert len(json.dumps(form.schema)) < 10_000
    assert "$ref" not in json.dumps(form.schema)


def test_the_form_of_steps_is_one_for_strict_mode_and_is_sent_as_such():
    assert list(strict_problems(STEPS.schema)) == []
    assert STEPS.strict is True


def test_the_checker_finds_what_strict_mode_refuses():
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    good = {**closed, "additionalProperties": False}

    assert list(strict_problems(good)) == []
    assert list(strict_problems(closed)) == [("open map", "")]
    assert list(strict_problems({**good, "required": []})) == [("optional field", "")]
    assert list(strict_problems({"type": "string", "pattern": "x"})) == [("keyword pattern", "")]
    assert list(strict_problems({**good, "properties": {"a": {}}})) == [("no type", "a")]


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("planbench/examples/*.yaml")), ids=lambda file: file.stem
)
def test_a_plan_of_calls_in_the_long_form_fits_it(file):
    record = load_plan(file).to_dict(compact=True) if "params" not in file.read_text() else None
    record = record or json.loads(json.dumps(_plan(file)))
    for name in ("provenance", "requires"):
        record.pop(name, None)

    assert [
        error.json_path for error in Draft202012Validator(plan_form().schema).iter_errors(record)
    ] == []


def _plan(file):
    from planbench import check_plan

    return check_plan(file).plan.to_dict(compact=True)


def test_what_a_host_decides_is_not_the_models_to_write():
    plan = plan_form().schema["properties"]
    node = plan["nodes"]["items"]["properties"]

    assert not {"provenance", "requires"} & set(plan)
    assert not {"cache", "type", "instruction"} & set(node)
    assert not {"durable", "checkpoint"} & set(plan["metadata"]["properties"])
