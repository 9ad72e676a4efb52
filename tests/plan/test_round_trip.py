"""A plan is the same plan in every form in which it can be written."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import ExecutionPlan, load_plan
from planbench.plan.builder import Plan


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_plan_comes_back_from_yaml_and_from_json(plans, data):
    plan = data.draw(plans)

    assert load_plan(plan.to_yaml()) == plan
    assert load_plan(plan.to_json()) == plan
    assert load_plan(load_plan(plan.to_yaml()).to_json()).to_yaml() == plan.to_yaml()


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_plan_can_be_put_together_node_by_node(plans, data):
    plan = data.draw(plans)
    record = plan.to_dict(compact=True)
    head = {key: value for key, value in record.items() if key not in {"name", "nodes"}}
    metadata = head.pop("metadata", {})
    p = Plan(record["name"], **head, **metadata)
    for node in plan.nodes:
        p.node(node)

    assert p.build() == plan
    assert load_plan(p.to_yaml()) == plan


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_building_with_parameters_is_loading_with_parameters(plans, data):
    plan = data.draw(plans)
    p = Plan(plan.name, plan.objective, params=plan.to_dict(compact=True).get("params", {}))
    for node in plan.nodes:
        p.node(node)
    values = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    params = {name: data.draw(values) for name in ("p", "q")}

    assert attempt(lambda: p.build(params=params)) == attempt(
        lambda: load_plan(p.to_yaml(), params=params)
    )


def attempt(make):
    """The plan that is made, or the issues, without their lines."""
    from planbench import PlanInvalid

    try:
        return make()
    except PlanInvalid as error:
        return sorted((issue.code, issue.message) for issue in error.issues)


@settings(max_examples=50, deadline=None)
@given(
    edges=st.lists(st.sets(st.integers(0, 30), max_size=4), min_size=1, max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_a_graph_built_with_handles_is_the_graph_of_the_file(edges, order):
    p = Plan("p")
    handles = []
    for place, wanted in enumerate(edges):
        needs = [handles[i] for i in sorted(wanted) if i < place]
        order.shuffle(needs)
        handles.append(p.add("t", value=needs))
    plan = p.build()
    expected = ExecutionPlan.model_validate(json.loads(p.to_json()))

    assert plan == expected == load_plan(p.to_yaml())
    for place, wanted in enumerate(edges):
        ids = {handles[i].id for i in wanted if i < place}
        assert set(plan.nodes[place].depends_on) == ids
