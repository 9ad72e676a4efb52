import pytest

from planbench.tools import Tool, ToolRegistry

HEAD = "name: p\nobjective: o\nnodes:\n"
LISTING = """\
  - id: listing
    tool: list_reports
    facets: {counts: {n: "reports[]"}}
"""


@pytest.fixture
def facets(told, node):
    def found(text):
        return told(HEAD + node("id: a", "tool: list_reports", f"facets: {{{text}}}"))

    return found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("counts: {n: 'reports[]'}", None),
        ("counts: {n: reports}", None),  # the tool says that it is a list
        ("counts: {n: 'reports[].findings[]'}", None),
        ("group_counts: {n: 'reports[].id'}", None),
        ("paths: {n: 'extra.anything.at.all'}", None),
        ("paths: {n: 'reports[0].id'}", None),
        ("counts: {n: total}", "count_not_a_list"),
        ("group_counts: {n: total}", "group_count_not_a_list"),
        ("paths: {n: reprots}", "unknown_output_field"),
        ("paths: {n: 'reports.id'}", "unknown_output_field"),
        ("paths: {n: 'reports[].idd'}", "unknown_output_field"),
        ("paths: {n: 'total[]'}", "unknown_output_field"),
        ("paths: {n: total.x}", "unknown_output_field"),
        ("paths: {n: 'a[b]'}", "bad_path"),
        ("paths: {n: ''}", "bad_path"),
        ("paths: {n: '{params.x}'}", None),
    ],
)
def test_paths_are_followed_through_what_the_tool_returns(facets, text, code):
    assert [found[0] for found in facets(text)] == ([code] if code else [])


def test_without_an_output_shape_only_the_form_is_known(told, node):
    def codes(facets):
        lines = ("id: a", "tool: fetch", "args: {key: x}", f"facets: {{{facets}}}")
        return [code for code, *_ in told(HEAD + node(*lines))]

    assert codes("paths: {n: anything.at.all}, counts: {m: 'rows[]'}") == []
    assert codes("counts: {n: rows}") == ["count_not_a_list"]


def test_a_misspelled_field_is_told_with_the_near_one(one, node):
    issue = one(HEAD + node("id: a", "tool: list_reports", "facets: {paths: {n: 'reports[].idd'}}"))

    assert issue.fix == "did you mean 'id'?"
    assert "'reports[]' in what tool 'list_reports' returns has no field 'idd'" in issue.message
    assert (issue.line, issue.column) == (6, 25)


@pytest.mark.parametrize(
    ("select", "code"),
    [
        ("reports[]", None),
        ("reports", None),
        ("extra.x", None),
        ("total", "select_not_a_list"),
        ("reprots[]", "unknown_output_field"),
        ("reports[", "bad_path"),
        (None, "select_not_a_list"),
    ],
)
def test_a_fan_out_selects_a_list(told, node, select, code):
    each = "for_each: {source: '{artifacts.listing}'" + (
        f", select: '{select}'}}" if select else "}"
    )
    text = (
        HEAD
        + LISTING
        + node("id: a", "tool: fetch", "args: {key: '{item}'}", "depends_on: [listing]", each)
    )

    assert [found[0] for found in told(text)] == ([code] if code else [])


def test_the_artifact_of_a_fan_out_is_a_list(told, node):
    fan_out = node(
        "id: a",
        "tool: strict",
        "depends_on: [listing]",
        "for_each: {source: '{artifacts.listing}', select: 'reports[]'}",
    )

    def then(select):
        each = "for_each: {source: '{artifacts.a}'" + (f", select: '{select}'}}" if select else "}")
        return told(
            HEAD
            + LISTING
            + fan_out
            + node("id: b", "tool: fetch", "args: {key: '{item}'}", "depends_on: [a]", each)
        )

    assert then(None) == []
    assert then("[].findings[]") == []
    assert then("findings[]")[0][0] == "unknown_output_field"


def test_a_schema_is_followed_through_references_and_unions(told, node):
    schema = {
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            }
        },
        "anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}],
    }
    tool = Tool.from_schema("tree", "", {"type": "object"}, dict, schema)

    def paths(path):
        text = HEAD + node("id: a", "tool: tree", f"facets: {{paths: {{n: '{path}'}}}}")
        return [found[0] for found in told(text, registry=ToolRegistry([tool]))]

    assert paths("kids[].kids[0].kids") == []
    assert paths("kids[].kidz") == ["unknown_output_field"]
