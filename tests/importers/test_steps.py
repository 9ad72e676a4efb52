from __future__ import annotations

import json

import pytest

from planbench import PlanInvalid
from planbench.importers import import_steps
from planbench.plan.steps import StepPlan

STEPS = {
    "steps": [
        {"id": "s1", "description": "List scan reports", "depends_on": []},
        {"id": "s2", "description": "Fetch each report", "depends_on": ["s1"]},
    ]
}


def problems(*steps):
    with pytest.raises(PlanInvalid) as refused:
        import_steps({"steps": list(steps)})
    return [(issue.code, issue.node_id) for issue in refused.value.issues]


def test_a_step_in_words_asks_a_model_for_its_call():
    made = import_steps(STEPS, name="scans", objective="What is new?", tools=["list", "fetch"])

    assert made.plan.name == "scans"
    assert [(n.id, n.type, n.instruction, n.depends_on, n.tools) for n in made.plan.nodes] == [
        ("s1", "delegate", "List scan reports", [], ["list", "fetch"]),
        ("s2", "delegate", "Fetch each report", ["s1"], ["list", "fetch"]),
    ]
    assert made.report == ()


def test_a_step_that_names_its_tool_is_a_call_and_its_texts_stand_for_themselves():
    made = import_steps(
        [{"id": "a", "tool": "list", "args": {"q": ["{artifacts.x}"]}, "description": "d"}]
    )
    node = made.plan.node("a")

    assert (node.tool, node.args, node.description) == ("list", {"q": ["{{artifacts.x}}"]}, "d")


def test_text_a_step_plan_and_one_dependency_without_its_list_are_taken_too():
    same = import_steps(STEPS).plan

    assert import_steps(json.dumps(STEPS)).plan == same
    assert import_steps(StepPlan.model_validate(STEPS)).plan == same
    assert import_steps([STEPS["steps"][0], {**STEPS["steps"][1], "depends_on": "s1"}]).plan == same


def test_ids_become_plain_and_what_is_not_carried_over_is_listed():
    made = import_steps(
        {"steps": [{"id": "1. first", "description": "x", "priority": 3}], "version": 2}
    )

    assert made.plan.nodes[0].id == "n_1__first"
    assert [(entry.place, entry.what) for entry in made.report] == [
        ("plan", "version"),
        ("step 1", "priority"),
    ]


def test_what_is_wrong_is_named():
    step = {"id": "a", "description": "x"}
    assert problems({**step, "depends_on": ["z"]}) == [("unknown_dependency", "a")]
    assert problems({"id": "a"}) == [("missing_field", "a")]
    assert problems({"description": "x"}) == [("bad_field", None)]
    assert problems({**step, "depends_on": ["a"]}) == [("self_dependency", "a")]
    assert problems(step, step) == [("duplicate_id", "a")]
    assert problems({**step, "id": "x.y"}, {**step, "id": "x_y"}) == [("duplicate_id", "x_y")]
    assert problems() == [("bad_field", None)]
    with pytest.raises(PlanInvalid, match="field 'steps' is missing"):
        import_steps({})
    with pytest.raises(PlanInvalid):
        import_steps("no steps")
