"""Steps drawn as a plan: under ids that nodes can have, and only to be looked at."""

import pytest

from planbench.runtime.sketch import node_name, sketch


@pytest.mark.parametrize(
    ("step_id", "name"),
    [
        ("a", "a"),
        ("r1-b_2", "r1-b_2"),
        ("1", "s_1"),
        ("a b.c", "a_b_c"),
        ("-x", "s_-x"),
        ("ü", "s__"),
    ],
)
def test_a_step_is_drawn_under_its_own_id_where_a_node_can_have_it(step_id, name):
    assert node_name(step_id) == name


def test_two_steps_are_never_one_node():
    assert node_name("a.b", ["a_b", "a_b_2"]) == "a_b_3"


def test_a_run_without_steps_is_one_node():
    plan = sketch("tool_loop", "count {artifacts.x}")

    assert [node.id for node in plan.nodes] == ["tool_loop"]
    assert plan.objective == "count {artifacts.x}"
    assert sketch("x", 5).objective == ""


def test_steps_keep_their_words_and_edges():
    steps = [
        {"id": "a", "description": "first", "depends_on": []},
        {"id": "b", "description": "", "depends_on": ["a"]},
    ]
    plan = sketch("p", "t", steps)

    assert [(n.id, n.instruction, n.depends_on) for n in plan.nodes] == [
        ("a", "first", []),
        ("b", "b", ["a"]),
    ]
