from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from planbench.plan.document import read_document
from planbench.plan.draft import draft
from planbench.plan.manifest import PlanRunManifest
from planbench.plan.model import (
    ExecutionPlan,
    FacetSpec,
    ForEach,
    ParamSpec,
    PlanMetadata,
    PlanNode,
    RetryPolicy,
)

REFERENCE = {  # the four-node plan of the reference, as a planner writes it
    "name": "daily_security_sweep",
    "objective": "Fetch today's reports, diff them, map what is new to SOC2",
    "nodes": [
        {
            "id": "listing",
            "tool": "s3_filter_reports",
            "args": {"date": "{params.date}"},
            "store_as": "listing",
        },
        {
            "id": "fetch",
            "tool": "s3_get_latest_report",
            "args": {"key": "{item.key}"},
            "store_as": "report_{item.id}",
            "depends_on": ["listing"],
            "for_each": {
                "source": "{artifacts.listing}",
                "select": "reports[]",
                "max_concurrency": 8,
            },
            "facets": {
                "counts": {"n": "findings[]"},
                "group_counts": {"sev": "findings[].severity"},
            },
            "retry": {"max_attempts": 2, "backoff_seconds": 1.5},
            "timeout": 30,
        },
        {
            "id": "diff",
            "tool": "compare_scans",
            "args": {"today": "{artifacts.fetch}", "ref": "{nodes.listing.output}"},
            "store_as": "diff",
            "depends_on": ["fetch", "listing"],
            "when": "ctx.artifacts.listing.count > 0",
        },
        {
            "id": "map",
            "tool": "soc2",
            "args": {"new": "{artifacts.diff}"},
            "store_as": "map",
            "depends_on": ["diff"],
        },
    ],
    "metadata": {"max_parallel_tasks": 5, "execution_timeout": 600},
}


def plan(*nodes, **fields):
    return ExecutionPlan(name="p", objective="o", nodes=list(nodes), **fields)


def errors(model, **fields):
    with pytest.raises(ValidationError) as caught:
        model(**fields)
    return [(e["type"], e["loc"]) for e in caught.value.errors()]


def test_the_reference_s_plan_is_a_plan():
    made = ExecutionPlan.model_validate(REFERENCE)

    assert made.node("fetch").for_each.alias == "item"
    assert made.node("fetch").for_each.source_node == "listing"
    assert made.node("listing").retry == RetryPolicy()
    assert made.metadata.max_parallel_tasks == 5
    with pytest.raises(KeyError):
        made.node("nobody")


def test_models_are_frozen_and_take_no_other_fields():
    with pytest.raises(ValidationError):
        PlanNode(id="a", tool="t").tool = "u"
    assert errors(PlanNode, id="a", tool="t", wat=1) == [("extra_forbidden", ("wat",))]
    assert errors(FacetSpec, count={}) == [("extra_forbidden", ("count",))]


@pytest.mark.parametrize(
    "bad", ["", "1a", "_a", "a b", "a:b", "a.b", "é", "a\n", "urn:x:1", "python:3.7@sha256:e8"]
)
def test_an_id_is_plain(bad):
    assert errors(PlanNode, id=bad, tool="t") == [("bad_id", ("id",))]


def test_a_node_without_a_key_is_stored_under_its_id():
    assert PlanNode(id="a", tool="t").store_as == "a"
    fan_out = PlanNode(id="a", tool="t", for_each={"source": "{artifacts.b}"})
    assert fan_out.store_as == "a.{index}"


@pytest.mark.parametrize(
    ("model", "field", "good", "bad"),
    [
        (ForEach, "max_items", [1, 100_000], [0, 100_001]),
        (ForEach, "max_concurrency", [1, 64], [0, 65]),
        (ForEach, "max_failed", [0, 7, "5%", "100%", "2.5%", "{params.x}"], [-1, "5", "101%", "x"]),
        (ForEach, "alias", ["rep", "_x"], ["1x", "index", "params", "a-b", ""]),
        (ForEach, "on_item_error", ["collect", "fail", "skip", "{params.x}"], ["maybe", None]),
        (ForEach, "source", ["{artifacts.a}"], ["a", "{artifacts.a}.x", "{nodes.a.output}", ""]),
        (RetryPolicy, "max_attempts", [1, 10, "{params.n}"], [0, 11, "many"]),
        (RetryPolicy, "backoff_seconds", [0, 60], [-1, 61]),
        (FacetSpec, "max_group_keys", [1, 200], [0, 201]),
        (PlanMetadata, "max_parallel_tasks", [1, 128], [0, 129]),
        (PlanMetadata, "execution_timeout", [None, 0.5], [0, -1]),
        (PlanNode, "timeout", [None, 1, "{params.t}"], [0, "soon"]),
        (PlanNode, "approve", [True, "please"], [[]]),
        (PlanNode, "cache", [True, 60.0, "{params.c}"], [-1.0, "x"]),
        (PlanNode, "type", ["tool"], ["other"]),
        (PlanNode, "store_as", ["k", "k {item}"], ["", " ", "a\nb", "x" * 501]),
    ],
)
def test_fields_have_their_limits(model, field, good, bad):
    rest = {ForEach: {"source": "{artifacts.a}"}, PlanNode: {"id": "a", "tool": "t"}}.get(model, {})

    for value in good:
        assert getattr(model(**{**rest, field: value}), field) == value
    for value in bad:
        with pytest.raises(ValidationError):
            model(**{**rest, field: value})


def test_the_message_about_a_source_shows_the_form_with_single_braces():
    with pytest.raises(ValidationError, match=r'"\{artifacts\.listing\}", not \'x\''):
        ForEach(source="x")


def test_each_type_of_node_has_the_fields_that_it_needs():
    assert PlanNode(id="a", type="delegate", instruction="do", tools=["x*"]).tool is None
    for fields, words in (
        ({"id": "a"}, "field 'tool' is missing"),
        ({"id": "a", "type": "delegate"}, "'instruction' is missing"),
        (
            {"id": "a", "type": "delegate", "instruction": "x", "tool": "t"},
            "write 'tools', not 'tool'",
        ),
        ({"id": "a", "tool": "t", "tools": []}, "'tools' belongs to a node with type: delegate"),
        ({"id": "a", "instruction": "x", "tools": []}, "'tool' is missing; 'instruction' belongs"),
    ):
        with pytest.raises(ValidationError, match=words):
            PlanNode(**fields)


def test_a_plan_is_checked_for_structure_when_it_is_made_with_every_problem():
    with pytest.raises(ValidationError) as caught:
        plan(
            PlanNode(id="a", tool="t", depends_on=["b", "zz"]),
            PlanNode(id="b", tool="t", depends_on=["a"]),
        )

    assert "no node has that id" in str(caught.value)
    assert "a -> b -> a" in str(caught.value)


def test_a_plan_has_a_name_and_at_least_one_node():
    assert errors(ExecutionPlan, name="", objective="o", nodes=[]) == [
        ("string_too_short", ("name",)),
        ("too_short", ("nodes",)),
    ]


def test_a_chain_of_many_nodes_in_any_order_is_made_without_recursion():
    ids = [f"n{i}" for i in range(20_000)]
    nodes = [PlanNode(id=a, tool="t", depends_on=[b]) for a, b in pairwise(ids)]

    assert len(plan(*nodes, PlanNode(id=ids[-1], tool="t")).nodes) == 20_000


def test_a_parameter_without_a_default_is_required():
    assert ParamSpec().is_required
    assert not ParamSpec(default=None).is_required
    assert ParamSpec(default=1, required=True).is_required
    assert not ParamSpec(required=False).is_required


def test_compact_records_leave_out_what_was_never_written():
    made = plan(PlanNode(id="a", tool="t", retry={"max_attempts": 2}))

    assert made.to_dict(compact=True) == {
        "name": "p",
        "objective": "o",
        "nodes": [{"id": "a", "tool": "t", "store_as": "a", "retry": {"max_attempts": 2}}],
    }
    assert made.to_dict()["nodes"][0]["retry"] == {"max_attempts": 2, "backoff_seconds": 0.0}


def test_failures_are_the_red_nodes_errors_first():
    manifest = PlanRunManifest(
        plan_name="p",
        objective="o",
        status="partial",
        artifacts=[
            {"node_id": "a", "status": "partial"},
            {"node_id": "b"},
            {"node_id": "c", "status": "error"},
        ],
    )

    assert [ref.node_id for ref in manifest.failures()] == ["c", "a"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_\-]{0,8}", fullmatch=True)
LINES = st.text(min_size=1)


@st.composite
def plans(draw):
    ids = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    nodes = []
    for position, node_id in enumerate(ids):
        fields = {
            "id": node_id,
            "tool": draw(LINES),
            "args": draw(st.dictionaries(st.text(), VALUES, max_size=3)),
        }
        needs = draw(st.lists(st.sampled_from(ids[:position]), unique=True)) if position else []
        fields["depends_on"] = needs
        fields["store_as"] = f"{node_id}-key"
        if needs and draw(st.booleans()):
            fields["for_each"] = {
                "source": f"{{artifacts.{needs[0]}}}",
                "as": "rep",
                "max_failed": "5%",
            }
            fields["store_as"] = f"{node_id}/{{rep.id}}"
        for name, values in (
            ("when", LINES),
            ("description", st.text()),
            ("timeout", st.floats(0.1, 9)),
        ):
            if draw(st.booleans()):
                fields[name] = draw(values)
        nodes.append(fields)
    record = {
        "name": draw(st.text(min_size=1, max_size=200)),
        "objective": draw(st.text()),
        "nodes": nodes,
    }
    if draw(st.booleans()):
        record["params"] = {"day": {"type": "date", "default": "2026-08-06", "choices": None}}
    return record


@settings(max_examples=200, deadline=None)
@given(plans())
def test_a_plan_written_and_read_is_the_same_plan_and_the_same_text(record):
    try:
        made = ExecutionPlan.model_validate(record)
    except ValidationError:  # texts at random may name a node that is not there
        return
    for write in (ExecutionPlan.to_yaml, ExecutionPlan.to_json):
        text = write(made)
        again = draft(read_document(text))
        assert again.plan == made, again.issues
        assert write(again.plan) == text


def test_texts_that_yaml_would_turn_into_values_survive_the_round_trip():
    args = {
        "country": "no",
        "on": "push",
        "zip": "0123",
        "ver": "1.10",
        "sha": "1e3",
        "at": "12:30",
        "day": "2024-01-01",
    }
    made = plan(PlanNode(id="a", tool="t", args=args))

    again = draft(read_document(made.to_yaml())).plan
    assert again.nodes[0].args == args
    assert again == made
