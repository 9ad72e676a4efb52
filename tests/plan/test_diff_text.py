from __future__ import annotations

import unicodedata

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planbench.plan.diff import diff_plans
from planbench.plan.diff_text import value_text
from planbench.plan.model import ExecutionPlan, PlanNode


def plan(*nodes, **fields):
    made = [PlanNode.model_validate({"tool": "t", **node}) for node in nodes]
    return ExecutionPlan(**{"name": "p", "objective": "o", "nodes": made, **fields})


def said(a, b):
    return diff_plans(plan(a), plan(b)).to_text().splitlines()[1:]


def test_every_kind_of_change_has_its_line():
    a = plan({"id": "a", "args": {"x": 1}}, {"id": "old", "tool": "u"}, {"id": "c", "depends_on": ["a"]}, {"id": "d", "tool": "d"}, {"id": "e"})  # fmt: skip
    b = plan({"id": "e"}, {"id": "a", "args": {"x": 2, "y": "z"}}, {"id": "c"}, {"id": "dd", "tool": "d"}, {"id": "new", "tool": "v"}, objective="p")  # fmt: skip
    assert str(diff_plans(a, b)).splitlines() == [
        "p: 1 node added, 1 node removed, 1 node renamed, 2 nodes changed, 1 node moved, 1 field of the plan changed",
        '  ~ objective: "o" -> "p"',
        "  + node new, after dd: calls v",
        "  - node old: calls u",
        "  > node d is now dd",
        "  ~ node a",
        "      args.x: 1 -> 2",
        '      args.y: added "z"',
        "  ~ node c",
        '      depends_on: ["a"] -> []',
        "  = node e stands first now",
        "  - edge a -> c",
    ]


def test_a_renamed_plan_shows_both_names():
    text = diff_plans(plan({"id": "a"}), plan({"id": "a"}, name="q")).to_text()
    assert text.splitlines() == ["p -> q: 1 field of the plan changed", '  ~ name: "p" -> "q"']


def test_of_long_texts_the_part_is_shown_where_they_begin_to_differ():
    start, end = "same words again " * 20, " and so on" * 50
    lines = said(
        {"id": "a", "description": f"{start}old{end}"},
        {"id": "a", "description": f"{start}new{end}"},
    )
    assert len(lines[1]) < 300
    assert "again old and so on" in lines[1]
    assert "again new and so on" in lines[1]


def test_odd_keys_are_quoted_in_paths():
    lines = said({"id": "a", "args": {}}, {"id": "a", "args": {"a b.c\n": {}}})
    assert lines[1] == "      args['a b.c\\n']: added {}"


def test_values_that_json_cannot_hold_are_shown_by_their_type():
    assert value_text({"x": {1, 2}}) == '{"x": "<set>"}'
    assert value_text({(1, 2): 3}) == "<dict>"
    assert value_text(10**5000) == "<int>"


def test_the_form_in_a_notebook_is_short_where_it_is_no_markdown():
    diff = diff_plans(plan({"id": "a"}), plan({"id": "b", "args": {"x": 1}}))
    assert repr(diff) == "<PlanDiff p: 1 node added, 1 node removed>"
    assert diff._repr_markdown_() == diff.to_markdown()


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_text_of_a_plan_steers_a_terminal(data, plans):
    text = diff_plans(data.draw(plans), data.draw(plans)).to_text()
    assert all(
        unicodedata.category(sign) not in {"Cc", "Cf", "Cs"} for sign in text if sign != "\n"
    )
