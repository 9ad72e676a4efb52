import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.plan.document import Document, format_yaml, read_document
from planbench.plan.draft import MAX_GUARDS, draft, draft_of
from planbench.plan.model import ExecutionPlan, PlanNode

HEAD = "name: p\nobjective: o\n"


def drafted(text):
    return draft(read_document(text))


def told(text):
    """Each issue as code, node, line and column, in the order of the text."""
    found = [(i.code, i.node_id, i.line, i.column) for i in drafted(text).issues]
    return sorted(found, key=lambda issue: issue[2:])


def one(text):
    (issue,) = drafted(text).issues
    return issue


def node(lines, head=HEAD):
    """A plan of one node; line 4 is the first of the node."""
    return head + "nodes:\n  - " + "\n    ".join(lines) + "\n"


def test_a_plan_without_a_flaw_is_the_model_of_it():
    text = node(
        ["id: a", "tool: t", "args: {n: 0123}", "for_each: {source: '{artifacts.b}', as: x}"]
    )
    text += "    store_as: a_{index}\n    depends_on: [b]\n  - {id: b, tool: t}\n"
    made = drafted(text)

    assert made.issues == []
    assert made.plan == ExecutionPlan.model_validate(read_document(text).value)
    assert made.plan.model_fields_set == {"name", "objective", "nodes"}
    assert made.plan.nodes[0].args == {"n": "0123"}


def test_a_plan_wrapped_in_plan_is_read_with_its_own_lines():
    made = drafted("plan:\n  name: p\n  objective: o\n  nodes:\n    - {id: a, tool: 5}\n")

    assert [(i.code, i.node_id, i.line, i.column) for i in made.issues] == [
        ("bad_field", "a", 5, 21)
    ]
    assert (
        drafted("plan:\n  name: p\n  objective: o\n  nodes: [{id: a, tool: t}]\n").plan.name == "p"
    )


@pytest.mark.parametrize(
    ("lines", "code", "line", "column", "words"),
    [
        (["id: a"], "missing_field", 4, 5, "'tool' is missing"),
        (["tool: t"], "missing_field", 4, 5, "'id' is missing"),
        (["id: a b", "tool: t"], "bad_id", 4, 9, "must start with a letter"),
        (["id: 5", "tool: t"], "bad_id", 4, 9, "id must be text, not 5"),
        (["id: a:b", "tool: t"], "bad_id", 4, 9, "'a:b'"),
        (
            ["id: a", "tool: t", "timeout: soon"],
            "bad_field",
            6,
            14,
            "timeout must be a number, not 'soon'",
        ),
        (["id: a", "tool: t", "timeout: 0"], "bad_field", 6, 14, "greater than 0"),
        (
            ["id: a", "tool: t", "args: [1]"],
            "bad_field",
            6,
            11,
            "args must be a map, not a list of 1",
        ),
        (
            ["id: a", "tool: t", "retry: {max_attempts: 11}"],
            "bad_field",
            6,
            27,
            "retry.max_attempts must be less",
        ),
        (
            ["id: a", "tool: t", "facets: {counts: {n: 5}}"],
            "bad_field",
            6,
            26,
            "facets.counts.n must be text",
        ),
        (
            ["id: a", "tool: t", "approve: [x]"],
            "bad_field",
            6,
            14,
            "approve must be true or false or be text",
        ),
        (
            ["id: a", "tool: t", "depends_on: {}"],
            "bad_field",
            6,
            17,
            "depends_on must be a list, not an empty map",
        ),
        (["id: a", "tool: t", "type: tol"], "bad_field", 6, 11, "'tool' or 'delegate'"),
        (["id: a", "tool: t", 'store_as: ""'], "bad_field", 6, 15, "store_as must be 1 to 500"),
        (["id: a", "tool: t", "instruction: x"], "bad_field", 6, 5, "type: delegate"),
        (["id: a", "type: delegate"], "missing_field", 4, 5, "'instruction' is missing"),
        (
            ["id: a", "type: delegate", "instruction: x", "tool: t"],
            "bad_field",
            7,
            5,
            "write 'tools'",
        ),
    ],
)
def test_a_field_that_is_wrong_is_told_at_its_own_place(lines, code, line, column, words):
    issue = one(node(lines))

    assert (issue.code, issue.line, issue.column) == (code, line, column)
    assert words in issue.message


@pytest.mark.parametrize(
    ("lines", "line", "column", "fix"),
    [
        (["id: a", "tool: t", "dependsOn: []"], 6, 5, "did you mean 'depends_on'?"),
        (["id: a", "tool: t", "needs: []"], 6, 5, "did you mean 'depends_on'?"),
        (["id: a", "tool: t", "arguments: {}"], 6, 5, "did you mean 'args'?"),
        (["id: a", "tool: t", "retries: 1"], 6, 5, "did you mean 'retry'?"),
        (["id: a", "tool: t", "retry: {max_attempt: 1}"], 6, 13, "did you mean 'max_attempts'?"),
        (["id: a", "tool: t", "facets: {count: {}}"], 6, 14, "did you mean 'counts'?"),
        (["id: a", "tool: t", "zzz: 1"], 6, 5, "the fields here are id, type, tool, args"),
    ],
)
def test_an_unknown_field_is_told_at_its_key_with_what_was_meant(lines, line, column, fix):
    issue = one(node(lines))

    assert (issue.code, issue.node_id, issue.line, issue.column) == (
        "unknown_field",
        "a",
        line,
        column,
    )
    assert issue.fix.startswith(fix)


def test_fields_of_the_plan_itself_are_told_too():
    text = "name: 5\nnods: []\nmetadata: {max_paralel_tasks: 1, checkpoint: 9}\nparams: {x: {typ: int}}\n"

    assert told(text) == [
        ("missing_field", None, 1, 1),  # objective
        ("missing_field", None, 1, 1),  # nodes
        ("bad_field", None, 1, 7),
        ("unknown_field", None, 2, 1),
        ("unknown_field", None, 3, 12),
        ("bad_field", None, 3, 46),
        ("unknown_field", None, 4, 14),
    ]


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("", "bad_field", 1, "the text is empty"),
        ("- a\n- b\n", "bad_field", 1, "not a list of 2"),
        ("plans/daily.yaml", "bad_field", 1, "not 'plans/daily.yaml'"),
        (HEAD + "nodes: []\n", "bad_field", 3, "nodes is empty"),
        (HEAD + "nodes:\n", "bad_field", 3, "nodes must be a list, not nothing"),
        (HEAD + "nodes: 5\n", "bad_field", 3, "nodes must be a list, not 5"),
        (HEAD, "missing_field", 1, "'nodes' is missing"),
        (
            HEAD + "nodes:\n  - {id: a, tool: t}\n  - just text\n",
            "bad_field",
            5,
            "node 2 must be a map",
        ),
    ],
)
def test_what_is_no_plan_is_told_in_one_issue(text, code, line, words):
    issue = one(text)

    assert (issue.code, issue.line) == (code, line)
    assert words in issue.message


def test_text_that_names_a_file_says_how_to_read_one():
    assert (
        one("plans/daily.yaml").fix
        == "text is read as a plan itself: give Path('plans/daily.yaml') to read a file"
    )


def test_nodes_as_a_map_are_told_and_looked_at_all_the_same():
    text = HEAD + "nodes:\n  a: {tool: t}\n  b: {tool: t, depends_on: [c]}\n"

    assert told(text) == [("bad_field", None, 4, 3), ("unknown_dependency", "b", 5, 29)]


def test_several_problems_of_one_node_are_all_told_and_the_node_is_built_without_them():
    text = node(
        [
            "id: a",
            "tool: t",
            "wat: 1",
            "timeout: soon",
            "for_each: {source: '{artifacts.b}', max_items: 0, on_item_error: maybe, zz: 1}",
            "store_as: a_{index}",
            "depends_on: [b, 5]",
            "facets: {counts: {n: 'x[]', m: 5}}",
        ]
    )
    made = drafted(text + "  - {id: b, tool: t}\n")

    assert [(i.code, i.line) for i in sorted(made.issues, key=lambda i: (i.line, i.column))] == [
        ("unknown_field", 6),
        ("bad_field", 7),
        ("bad_field", 8),
        ("bad_field", 8),
        ("unknown_field", 8),
        ("bad_field", 10),
        ("bad_field", 11),
    ]
    a = made.nodes[0]
    assert (a.tool, a.timeout, a.depends_on) == ("t", None, ["b"])
    assert (a.for_each.source, a.for_each.max_items) == ("{artifacts.b}", 1000)
    assert a.facets.counts == {"n": "x[]"}
    assert made.plan is None
    assert [n.id for n in made.partial_plan.nodes] == ["a", "b"]


@pytest.mark.parametrize(
    "lines",
    [
        ["id: a", "tool: t", "args: {x: '{artifacts.b}'}", "depends_on: {b: 1}"],
        ["id: a", "tool: t", "args: {x: '{item}'}", "store_as: 'a_{item}'", "for_each: 5"],
        ["id: a", "tool: t", "for_each: {source: '{artifacts.b.c}'}", "depends_on: [b]"],
        [
            "id: a",
            "tool: t",
            "for_each: {source: '{artifacts.b}'}",
            "store_as: 5",
            "depends_on: [b]",
        ],
        ["id: a", "tool: 5", "depends_on: [b]"],
        ["id: a", "type: deleg", "instruction: do it", "depends_on: [b]"],
        ["id: a", "tool: t", "for_each: {}", "depends_on: [b]"],
    ],
)
def test_one_broken_field_is_one_issue_and_brings_no_others_with_it(lines):
    assert len(told(node(lines) + "  - {id: b, tool: t}\n")) == 1


def test_a_bad_id_is_still_the_id_that_others_mean():
    text = node(["id: a b", "tool: t"]) + "  - {id: c, tool: t, depends_on: [a b]}\n"

    assert told(text) == [("bad_id", "a b", 4, 9)]


def test_problems_of_the_text_have_their_node():
    text = node(["id: a", "tool: t", "args: {x: {artifacts.b}}", "tool: u"])

    assert told(text) == [
        ("unquoted_placeholder", "a", 6, 15),
        ("undeclared_reference", "a", 6, 15),
        ("duplicate_key", "a", 7, 5),
    ]


def test_after_a_syntax_error_nothing_is_said_of_the_rest():
    made = drafted(HEAD + "nodes:\n  - id: a\n   tool: t\n")

    assert [issue.code for issue in made.issues] == ["yaml_syntax"]
    assert made.plan is made.partial_plan is None


def test_problems_of_structure_have_the_line_of_their_field():
    text = HEAD + (
        "nodes:\n"
        "  - {id: a, tool: t, depends_on: [b, a]}\n"
        "  - {id: b, tool: t, depends_on: [a, zz]}\n"
        "  - id: b\n"
        "    tool: t\n"
        "    store_as: a\n"
        "    args:\n"
        "      deep: [1, {x: 'see {nodes.a.output}'}]\n"
        "    depends_on: []\n"
    )

    assert told(text) == [
        ("cycle", "a", 4, 34),
        ("self_dependency", "a", 4, 38),
        ("unknown_dependency", "b", 5, 38),
        ("duplicate_id", "b", 6, 9),
        ("key_conflict", "b", 8, 15),
        ("undeclared_reference", "b", 10, 21),
    ]


def test_a_field_that_was_never_written_has_the_place_of_its_node():
    text = HEAD + "nodes:\n  - {id: a, tool: t}\n  - {id: b, tool: t, store_as: a}\n"
    text = text.replace("{id: a, tool: t}", "{id: a, tool: t, store_as: b}").replace(
        ", store_as: a", ""
    )

    assert told(text) == [("key_conflict", "b", 5, 5)]


def test_args_nested_too_deep_are_told_and_looked_into_no_further():
    deep = "[" * 105 + "'{artifacts.x}'" + "]" * 105

    assert told(node(["id: a", "tool: t", f"args: {{x: {deep}}}"])) == [("bad_field", "a", 6, 11)]


def test_args_at_their_own_limit_still_read_from_text():
    value = "x"
    for _ in range(99):
        value = [value]
    plan = ExecutionPlan(
        name="p", objective="o", nodes=[PlanNode(id="a", tool="t", args={"x": value})]
    )

    assert drafted(plan.to_yaml()).plan == plan
    assert drafted(plan.to_json()).plan == plan


def test_a_mapping_is_read_like_a_text_without_lines():
    made = draft(Document({"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": 5}]}))

    (issue,) = made.issues
    assert (issue.code, issue.node_id, issue.line, issue.column) == ("bad_field", "a", None, None)


def test_a_plan_that_is_a_model_is_looked_at_again():
    plan = ExecutionPlan(
        name="p", objective="o", nodes=[PlanNode(id="a", tool="t", args={"x": "{item}"})]
    )
    made = draft_of(plan)

    assert made.plan is plan
    assert [issue.code for issue in made.issues] == ["literal_item_variable"]
    broken = draft_of(plan.model_copy(update={"nodes": plan.nodes * 2}))
    assert broken.plan is None
    assert broken.name == "p"


def test_a_chain_in_any_order_is_read_without_recursion():
    ids = [f"n{i}" for i in range(20_000)]
    nodes = [{"id": a, "tool": "t", "depends_on": [b]} for a, b in itertools.pairwise(ids)]
    record = {"name": "p", "objective": "o", "nodes": [*nodes, {"id": ids[-1], "tool": "t"}]}

    assert draft(Document(record)).issues == []


FIELDS = st.sampled_from(
    [
        "name",
        "objective",
        "nodes",
        "metadata",
        "params",
        "provenance",
        "id",
        "type",
        "tool",
        "args",
        "store_as",
        "depends_on",
        "when",
        "for_each",
        "facets",
        "timeout",
        "retry",
        "description",
        "approve",
        "cache",
        "instruction",
        "tools",
        "source",
        "select",
        "as",
        "max_items",
        "paths",
        "counts",
        "group_counts",
        "max_attempts",
        "wat",
        "plan",
    ]
)
TEXTS = st.sampled_from(
    ["a", "b", "{artifacts.a}", "{item}", "{params.x}", "delegate", "", "a b", "x[]"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.floats(-2, 2) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=400)
@given(JSON)
def test_any_tree_gives_a_draft_and_a_plan_or_an_error(value):
    made = drafted(format_yaml(value))

    errors = [issue for issue in made.issues if issue.severity == "error"]
    assert bool(errors) == (made.plan is None)
    assert all(issue.line >= 1 for issue in made.issues)


@settings(max_examples=300)
@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=8), min_size=1, max_size=4))
def test_any_nodes_give_a_draft(nodes):
    made = drafted(format_yaml({"name": "p", "objective": "o", "nodes": nodes}))

    assert len(made.nodes) == len(nodes)
    assert all(re.fullmatch("[a-z_]+", issue.code) for issue in made.issues)


def test_guards_that_are_too_long_together_are_refused_where_they_pass_the_limit():
    guard = "ctx.errors > 0 || " * 500 + "false"
    count = MAX_GUARDS // len(guard) + 10
    text = f"{HEAD}nodes:\n" + "".join(
        f"  - {{id: n{i}, tool: t, when: '{guard}'}}\n" for i in range(count)
    )
    (issue,) = drafted(text).issues

    assert issue.code == "bad_guard"
    assert "too long" in issue.message
    assert count - 10 < (issue.line or 0) - 3 <= count
    assert issue.fix
    assert drafted(text.replace(guard, "false")).issues == []
