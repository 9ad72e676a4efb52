from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planbench.errors import ConfigurationError, PlanInvalid
from planbench.files import load_plan
from planbench.plan.diff import PlanDiff, diff_plans
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.plan.rename import renamed_node

QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

SWEEP = """\
name: sweep
objective: Find what is new
nodes:
  - {id: listing, tool: list_reports, args: {date: today, filters: [{op: eq}, {op: lt}]}, facets: {counts: {n: "reports[]"}}}
  - id: fetch
    tool: fetch_report
    depends_on: [listing]
    for_each: {source: "{artifacts.listing}", select: "reports[]"}
    args: {key: "{item.key}"}
  - id: compare
    tool: compare
    depends_on: [fetch, listing]
    when: ctx.artifacts.listing.n > 0 && ctx.status["fetch"] != "error"
    args: {reports: "{artifacts.fetch}", about: "{nodes.listing.output} of {{artifacts.fetch}}"}
"""


def plan(*nodes, **fields):
    made = [PlanNode.model_validate({"tool": "t", **node}) for node in nodes]
    return ExecutionPlan(**{"name": "p", "objective": "o", "nodes": made, **fields})


def sweep(*replacements):
    text = SWEEP
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return load_plan(text)


def paths(diff, node_id):
    found = next(one for one in diff.changed if one.id == node_id)
    return {change.path: (change.kind, change.old, change.new) for change in found.changes}


def edge_list(edges):
    return {(edge.source, edge.target) for edge in edges}


def assert_applies(a, b):
    diff = diff_plans(a, b)
    made = diff.apply(a)
    assert made == b
    assert [node.id for node in made.nodes] == [node.id for node in b.nodes]
    assert not diff_plans(made, b)
    return diff


def test_equal_plans_differ_in_nothing():
    diff = diff_plans(sweep(), sweep())
    assert not diff
    assert str(diff) == "sweep: no difference"
    assert diff.apply(sweep()) == sweep()


def test_a_default_that_is_written_out_is_no_difference():
    assert not diff_plans(plan({"id": "a"}), plan({"id": "a", "timeout": None, "args": {}}))


def test_the_order_of_keys_is_no_difference():
    a, b = {"id": "a", "args": {"x": 1, "y": 2}}, {"id": "a", "args": {"y": 2, "x": 1}}
    assert not diff_plans(plan(a), plan(b))


def test_a_parameter_whose_default_is_null_is_not_one_without_a_default():
    a = load_plan(f"params: {{p: {{type: str}}}}\n{SWEEP}")
    b = load_plan(f"params: {{p: {{type: str, default: null}}}}\n{SWEEP}")
    diff = assert_applies(a, b)
    assert [change.path for change in diff.fields] == [("params", "p", "default")]
    assert diff.apply(a).params["p"].is_required is False
    assert diff_plans(b, a).apply(b).params["p"].is_required is True


def test_an_added_node_knows_the_one_before_it():
    diff = assert_applies(
        plan({"id": "a"}, {"id": "c"}),
        plan(
            {"id": "z"},
            {"id": "a"},
            {"id": "b", "depends_on": ["a"], "args": {"n": 1}},
            {"id": "c"},
        ),
    )
    assert [(new.node.id, new.after) for new in diff.added] == [("z", None), ("b", "a")]
    assert edge_list(diff.edges_added) == {("a", "b")}
    assert not diff.changed


def test_a_removed_node_is_kept_whole_in_the_diff():
    gone = {"id": "b", "depends_on": ["a"], "args": {"n": 1}}
    diff = assert_applies(plan({"id": "a"}, gone), plan({"id": "a"}))
    assert [one.node.args for one in diff.removed] == [{"n": 1}]
    assert edge_list(diff.edges_removed) == {("a", "b")}


def test_fields_are_compared_one_by_one_and_arguments_by_their_nested_path():
    diff = assert_applies(
        sweep(),
        sweep(("{op: lt}", "{op: gt}, {op: ne}"), ("date: today", "limit: 5"), ('select: "reports[]"', "max_items: 9")),
    )  # fmt: skip
    assert paths(diff, "listing") == {
        ("args", "date"): ("removed", "today", None),
        ("args", "limit"): ("added", None, 5),
        ("args", "filters", 1, "op"): ("changed", "lt", "gt"),
        ("args", "filters", 2): ("added", None, {"op": "ne"}),
    }
    assert paths(diff, "fetch") == {
        ("for_each", "select"): ("changed", "reports[]", None),
        ("for_each", "max_items"): ("changed", 1000, 9),
    }


def test_a_list_that_lost_its_first_items_is_one_change():
    a, b = plan({"id": "a", "args": {"x": [1, 2, 3]}}), plan({"id": "a", "args": {"x": [2, 3]}})
    assert paths(assert_applies(a, b), "a") == {("args", "x"): ("changed", [1, 2, 3], [2, 3])}


def test_a_list_that_lost_its_last_items_lost_them_one_by_one():
    a, b = plan({"id": "a", "args": {"x": [1, 2, 3]}}), plan({"id": "a", "args": {"x": [1]}})
    assert paths(assert_applies(a, b), "a") == {
        ("args", "x", 2): ("removed", 3, None),
        ("args", "x", 1): ("removed", 2, None),
    }


@pytest.mark.parametrize(("old", "new"), [(1, 1.0), (1, True), (0, False), ("1", 1), ("", None), ([], {})])  # fmt: skip
def test_values_that_python_takes_for_equal_are_told_apart_by_their_type(old, new):
    diff = diff_plans(plan({"id": "a", "args": {"x": old}}), plan({"id": "a", "args": {"x": new}}))
    made = diff.apply(plan({"id": "a", "args": {"x": old}}))
    assert type(made.nodes[0].args["x"]) is type(new)


def test_nan_is_the_same_as_nan():
    a, b = ({"id": "a", "args": {"x": float("nan")}} for _ in range(2))
    assert not diff_plans(plan(a), plan(b))


class Table:
    """Answers each comparison cell by cell, as tables do."""

    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")

    __hash__ = None


def test_what_is_no_plain_value_is_never_compared_and_only_itself():
    table = Table()
    same = plan({"id": "a", "args": {"x": table}}), plan({"id": "a", "args": {"x": table}})
    assert not diff_plans(*same)
    diff = diff_plans(same[0], plan({"id": "a", "args": {"x": Table()}}))
    assert "<Table>" in diff.to_text()


def test_a_renamed_node_is_found_and_its_references_follow():
    diff = assert_applies(
        sweep(),
        sweep(("id: listing", "id: all-reports"), ("[listing]", "[all-reports]"), ("fetch, listing", "fetch, all-reports"),
              ("{artifacts.listing}", "{artifacts.all-reports}"), ("{nodes.listing.output}", "{nodes.all-reports.output}"),
              ("ctx.artifacts.listing.n", 'ctx.artifacts["all-reports"].n')),
    )  # fmt: skip
    assert [(one.old, one.new) for one in diff.renamed] == [("listing", "all-reports")]
    assert not (diff.added)
    assert not (diff.removed)
    assert not (diff.changed)
    assert not (diff.moved)
    assert not (diff.edges_added)
    assert not (diff.edges_removed)


def test_nodes_of_a_chain_are_found_when_all_of_them_are_renamed():
    def chain(a, b, c):
        return plan(
            {"id": a},
            {"id": b, "depends_on": [a], "args": {"x": f"{{artifacts.{a}}}"}},
            {"id": c, "depends_on": [b, a], "args": {"x": f"{{artifacts.{b}}} {{nodes.{a}.output}}"}},
        )  # fmt: skip

    diff = assert_applies(chain("a", "b", "c"), chain("x", "y", "z"))
    assert [(one.old, one.new) for one in diff.renamed] == [("a", "x"), ("b", "y"), ("c", "z")]
    assert not diff.changed


def test_a_key_that_the_author_chose_stays_and_one_that_was_the_id_follows():
    diff = assert_applies(
        plan({"id": "a", "store_as": "key"}, {"id": "b"}),
        plan({"id": "x", "store_as": "key"}, {"id": "y"}),
    )
    assert len(diff.renamed) == 2
    assert not diff.changed


def test_a_node_that_is_renamed_and_changed_counts_as_removed_and_added():
    diff = assert_applies(plan({"id": "a", "args": {"n": 1}}), plan({"id": "b", "args": {"n": 2}}))
    assert not diff.renamed
    assert [one.node.id for one in diff.removed] == ["a"]
    assert [one.node.id for one in diff.added] == ["b"]


def test_of_nodes_that_are_alike_the_first_becomes_the_first():
    diff = assert_applies(plan({"id": "a"}, {"id": "b"}), plan({"id": "x"}, {"id": "y"}))
    assert [(one.old, one.new) for one in diff.renamed] == [("a", "x"), ("b", "y")]


def test_the_fewest_nodes_are_said_to_have_moved():
    a, b, c, d = ({"id": name} for name in "abcd")
    diff = assert_applies(plan(a, b, c, d), plan(d, a, b, c))
    assert [(one.id, one.after) for one in diff.moved] == [("d", None)]


def test_an_edge_that_came_or_went_is_listed():
    diff = assert_applies(
        plan({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a"]}),
        plan({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["b"]}),
    )
    assert edge_list(diff.edges_added) == {("b", "c")}
    assert edge_list(diff.edges_removed) == {("a", "c")}
    assert paths(diff, "c") == {("depends_on",): ("changed", ["a"], ["b"])}


def test_fields_of_the_plan_itself_are_compared():
    b = sweep(("name: sweep", "metadata: {max_parallel_tasks: 3}\nprovenance: {model: m}\nname: s"))
    diff = assert_applies(sweep(), b)
    assert {change.path: change.new for change in diff.fields} == {
        ("name",): "s",
        ("metadata", "max_parallel_tasks"): 3,
        ("provenance",): {"model": "m"},
    }


def test_the_graph_shows_both_plans_and_what_is_gone_stands_where_it_stood():
    diff = diff_plans(
        plan(
            {"id": "a"},
            {"id": "gone", "tool": "u", "depends_on": ["a"]},
            {"id": "c", "args": {"x": 1}},
        ),
        plan({"id": "a"}, {"id": "c", "args": {"x": 2}}, {"id": "new", "depends_on": ["a"]}),
    )
    marks = [(node.id, node.mark) for node in diff.graph.nodes]
    assert marks == [("a", "same"), ("gone", "removed"), ("c", "changed"), ("new", "added")]
    assert {(e.source, e.target, e.mark) for e in diff.graph.edges} == {
        ("a", "gone", "removed"),
        ("a", "new", "added"),
    }


def test_of_a_large_graph_the_changes_and_their_neighbours_are_shown():
    nodes = [{"id": f"n{i}", "depends_on": [f"n{i - 1}"] if i else []} for i in range(50)]
    changed = [{**node, "args": {"x": 1}} if node["id"] == "n20" else node for node in nodes]
    graph = diff_plans(plan(*nodes), plan(*changed)).graph
    assert graph.around_changes(50) is graph
    small = graph.around_changes(10)
    assert [node.id for node in small.nodes] == ["n19", "n20", "n21"]
    assert len(small.edges) == 2


def test_a_diff_survives_json():
    b = sweep(("date: today", "date: now"), ("id: compare", "id: other"))
    diff = diff_plans(sweep(), b)
    again = PlanDiff.model_validate_json(diff.model_dump_json())
    assert again == diff
    assert again.apply(sweep()) == b
    assert json.loads(diff.model_dump_json())["renamed"] == [{"old": "compare", "new": "other"}]


def test_a_diff_is_made_to_another_plan_where_nothing_is_in_its_way():
    diff = diff_plans(sweep(), sweep(("date: today", "date: now")))
    other = sweep(("key: ", "name: "))
    assert diff.apply(other) == sweep(("key: ", "name: "), ("date: today", "date: now"))


def test_every_place_where_a_diff_does_not_fit_is_named():
    diff = diff_plans(
        plan({"id": "a", "args": {"x": 1}}, {"id": "b", "args": {"y": 1}}, {"id": "d"}, {"id": "f", "args": {"f": 0}}),
        plan({"id": "a", "args": {"x": 2}}, {"id": "c", "args": {"z": 1}}, {"id": "e"}, {"id": "f", "args": {"f": 1}}),
    )  # fmt: skip
    with pytest.raises(PlanInvalid) as caught:
        diff.apply(plan({"id": "a", "args": {"x": 5}}, {"id": "c"}, {"id": "e"}))
    issues = caught.value.issues
    assert {issue.code for issue in issues} == {"diff_conflict"}
    assert {issue.node_id for issue in issues} == {"a", "b", "c", "d", "e", "f"}
    assert "args.x is 5, and the diff was made for 1" in str(caught.value)


def test_a_diff_whose_result_would_be_no_plan_says_why():
    diff = diff_plans(plan({"id": "a"}, {"id": "b"}), plan({"id": "b"}))
    with pytest.raises(PlanInvalid) as caught:
        diff.apply(plan({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a"]}))
    assert [issue.code for issue in caught.value.issues] == ["unknown_dependency"]


@pytest.mark.parametrize("value", ["text", [1], 5])
def test_a_change_below_a_value_that_is_no_map_does_not_fit(value):
    diff = diff_plans(
        plan({"id": "a", "args": {"x": {}}}), plan({"id": "a", "args": {"x": {"y": 1}}})
    )
    with pytest.raises(PlanInvalid, match="nothing to put it into"):
        diff.apply(plan({"id": "a", "args": {"x": value}}))


def test_no_diff_changes_the_plans_that_it_was_made_of():
    a, b = sweep(), sweep(("{op: lt}", "{op: gt}, {op: ne}"), ("id: compare", "id: other"))
    before = a.model_dump_json(), b.model_dump_json()
    diff_plans(a, b).apply(a)
    assert (a.model_dump_json(), b.model_dump_json()) == before


def test_thousands_of_nodes_are_compared_and_applied():
    nodes = [
        {"id": f"n{i}", "args": {"x": i}, "depends_on": [f"n{i - 1}"] if i else []}
        for i in range(3000)
    ]
    a = plan(*nodes)
    b = plan(*nodes[:1500], {"id": "new"}, *({**n, "args": {"x": -1}} for n in nodes[1500:]))
    diff = assert_applies(a, b)
    assert (len(diff.added), len(diff.changed), len(diff.moved)) == (1, 1500, 0)


@st.composite
def pairs(draw, plans):
    """A plan and what somebody made of it."""
    a = draw(plans)
    names = {
        node.id: f"{node.id[:3]}_{i}_{draw(st.sampled_from(['x', 'y-z']))}"
        for i, node in enumerate(a.nodes)
        if draw(st.integers(0, 2)) == 0
    }
    nodes = [renamed_node(node, names) for node in a.nodes]
    other = draw(plans)
    pool = {node.id: node for node in other.nodes if not node.depends_on}
    nodes = [
        node.model_copy(update={"args": draw(st.sampled_from(other.nodes)).args})
        if draw(st.integers(0, 3)) == 0
        else node
        for node in nodes
    ]
    nodes += [node for name, node in pool.items() if name not in {one.id for one in nodes}]
    nodes = draw(st.permutations(nodes)) if draw(st.booleans()) else nodes
    gone = {node.id for node in nodes if draw(st.integers(0, 4)) == 0}
    nodes = [node for node in nodes if node.id not in gone] or nodes[:1]
    fields = {"metadata": other.metadata} if draw(st.booleans()) else {"params": other.params}
    try:
        b = ExecutionPlan(name=a.name, objective=other.objective, nodes=nodes, **fields)
    except ValueError:
        b = other
    return a, b


@QUICK
@given(data=st.data())
def test_a_diff_of_any_two_plans_makes_the_second_of_the_first(data, plans):
    assert_applies(data.draw(plans), data.draw(plans))


@QUICK
@given(data=st.data())
def test_a_diff_of_a_plan_and_what_became_of_it_makes_the_one_of_the_other(data, plans):
    a, b = data.draw(pairs(plans))
    assert_applies(a, b)
    assert_applies(b, a)


@QUICK
@given(data=st.data())
def test_a_plan_whose_nodes_got_other_ids_differs_in_nothing_else(data, plans):
    a = data.draw(plans)
    names = {node.id: f"renamed-{i}" for i, node in enumerate(a.nodes)}
    b = ExecutionPlan.model_validate(
        {**dict(a), "nodes": [renamed_node(node, names) for node in a.nodes]}
    )
    diff = assert_applies(a, b)
    assert len(diff.renamed) == len(a.nodes)
    assert not (diff.added)
    assert not (diff.removed)
    assert not (diff.changed)
    assert not (diff.fields)


def test_what_is_no_plan_is_not_compared():
    with pytest.raises(ConfigurationError, match="1 is none"):
        diff_plans(1, 2)


@pytest.mark.parametrize(
    ("full", "bare"),
    [
        ({"provenance": {"objective": "o", "model": "m"}}, {}),
        ({"metadata": {"max_parallel_tasks": 3}}, {}),
        ({"requires": {"t": {"module": "m"}}}, {}),
        ({"params": {"q": {"type": "int"}}}, {}),
    ],
)
def test_a_field_of_the_plan_that_is_a_default_again_is_written_as_in_the_target(full, bare):
    first = {"id": "a", "args": {"x": "{params.q}"}} if "params" in full else {"id": "a"}
    one, two = plan(first, **full), plan({"id": "a"}, **bare)

    assert diff_plans(one, two).apply(one).to_yaml() == two.to_yaml()
    assert diff_plans(two, one).apply(two).to_yaml() == one.to_yaml()


@pytest.mark.parametrize(
    "fields",
    [
        {"facets": {"counts": {"n": "x[]"}}},
        {"for_each": {"source": "{artifacts.l}", "select": "k[]", "as": "one"}},
        {"retry": {"max_attempts": 2}},
        {"args": {"x": 1}},
        {"timeout": 3, "description": "d", "when": "true", "cache": True},
    ],
)
def test_a_field_of_a_node_that_is_a_default_again_is_written_as_in_the_target(fields):
    rest = {}
    if "for_each" in fields:
        rest = {"for_each": {"source": "{artifacts.l}"}, "depends_on": ["l"]}
        fields = {**fields, "depends_on": ["l"], "store_as": "a.{index}"}
    one, two = plan({"id": "l"}, {"id": "a", **fields}), plan({"id": "l"}, {"id": "a", **rest})

    assert diff_plans(one, two).apply(one).to_yaml() == two.to_yaml()
    assert diff_plans(two, one).apply(two).to_dict() == one.to_dict()
