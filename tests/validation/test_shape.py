import pytest

from planbench.validation.shape import Shape

TREE = {
    "$defs": {
        "Node": {"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/Node"}}}}
    },
    "$ref": "#/$defs/Node",
}


@pytest.mark.parametrize(
    ("schema", "path", "kinds"),
    [
        ({}, ("anything", "[]", 3), {"unknown"}),
        ({"type": "object"}, ("a",), {"unknown"}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, ("a",), {"string"}),
        ({"properties": {"a": {"type": "integer"}}}, ("a",), {"integer"}),
        ({"properties": {"a": {}}}, ("b",), set()),
        ({"properties": {"a": {}}, "additionalProperties": True}, ("b",), {"unknown"}),
        ({"properties": {"a": {}}, "patternProperties": {"^b": {}}}, ("b",), {"unknown"}),
        ({"type": "array", "items": {"type": "string"}}, ("[]",), {"string"}),
        ({"type": "array", "prefixItems": [{}, {}]}, (1,), {"unknown"}),
        ({"type": "array"}, ("a",), set()),
        ({"type": "string"}, ("[]",), set()),
        ({"type": ["array", "null"]}, (), {"array"}),
        ({"type": "null"}, (), {"null"}),
        ({"enum": ["a", "b"]}, (), {"string"}),
        ({"const": 5}, (), {"unknown"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, (), {"string", "integer"}),
        (
            {"oneOf": [{"properties": {"a": {"type": "string"}}}, {"type": "null"}]},
            ("a",),
            {"string"},
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "string"}}},
                    {"properties": {"b": {"type": "array"}}},
                ]
            },
            ("b",),
            {"array"},
        ),
        ({"allOf": [{"$ref": "#/$defs/X"}]}, ("a",), {"unknown"}),
        (TREE, ("kids", "[]", "kids"), {"array"}),
        ({"$ref": "#/$defs/Nowhere"}, ("a",), {"unknown"}),
        ({"$ref": "https://elsewhere.example/schema"}, ("a",), {"unknown"}),
        (True, ("a",), {"unknown"}),
    ],
)
def test_a_path_through_a_schema_gives_what_may_stand_there(schema, path, kinds):
    assert Shape(schema).at(path).kinds() == kinds


def test_references_that_go_round_in_a_circle_end():
    schema = {
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        "$ref": "#/$defs/A",
    }

    assert Shape(schema).kinds() == {"unknown"}
    assert Shape({"anyOf": [{"$ref": "#"}, {"type": "string"}]}).kinds() >= {"unknown"}


def test_the_known_fields_are_named():
    assert Shape({"anyOf": [{"properties": {"a": {}, "b": {}}}, {"type": "null"}]}).names() == [
        "a",
        "b",
    ]
