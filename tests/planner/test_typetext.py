import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from planbench.planner.typetext import described, parameters_text, type_text

LOOP = {
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        }
    },
    "$ref": "#/$defs/Tree",
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "string"),
        ({}, "any"),
        (True, "any"),
        (None, "any"),
        ({"type": "array", "items": {"type": "integer"}}, "integer[]"),
        ({"type": "array"}, "any[]"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": "x"}, '"x"'),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "string"}]}, "string"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "(string | null)[]",
        ),
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{[key]: number}"),
        (
            {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            "{a: string, b?: any}",
        ),
        ({"$ref": "#/$defs/none"}, "any"),
        ({"enum": list(range(30))}, " | ".join([*map(str, range(20)), "..."])),
    ],
)
def test_a_type_is_one_short_line(schema, text):
    assert type_text(schema) == text


def test_a_type_that_holds_itself_has_an_end():
    assert type_text(LOOP).startswith("{kids?: {kids?: ")


def test_a_model_is_written_with_its_fields():
    class Row(BaseModel):
        id: str
        n: int = 0

    class Table(BaseModel):
        rows: list[Row]

    assert type_text(Table.model_json_schema()) == "{rows: {id: string, n?: integer}[]}"


def test_parameters_show_what_may_be_left_out():
    schema = {
        "properties": {
            "a": {"type": "string", "description": "the\n day"},
            "n": {"type": "integer", "default": 10},
        },
        "required": ["a"],
    }

    assert parameters_text(schema) == "a: string, n?: integer = 10"
    assert described(schema) == {"a": "the day"}


def test_a_long_type_is_cut():
    wide = {"properties": {f"field_{i}_{'x' * 40}": {"type": "string"} for i in range(99)}}

    assert len(type_text(wide)) <= 1500
    assert type_text(wide).endswith("...")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "anyOf", "items", "properties", "enum", "$ref", "required", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
@example({"type": None, "required": [[]], "properties": None})
def test_whatever_a_schema_is_it_is_written(schema):
    assert isinstance(type_text(schema), str)
