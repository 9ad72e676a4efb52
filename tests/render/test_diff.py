from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from planbench.errors import RenderError
from planbench.plan.diff import diff_plans
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.render import diff as module
from planbench.render.diff import STYLE, diff_view, draw_diff
from planbench.render.svg import sanitize

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '"><script>alert(1)</script><b onclick="x" \\N \0 &amp;'


def plan(*nodes, **fields):
    made = [PlanNode.model_validate({"tool": "t", **node}) for node in nodes]
    return ExecutionPlan(**{"name": "p", "objective": "o", "nodes": made, **fields})


@pytest.fixture
def diff():
    return diff_plans(
        plan({"id": "a"}, {"id": "gone", "tool": "u", "depends_on": ["a"]}, {"id": "c", "tool": "v", "depends_on": ["a"]}, {"id": "d", "tool": "w"}),
        plan({"id": "a"}, {"id": "c", "tool": "v", "args": {"x": 1}, "depends_on": ["a"]}, {"id": "new", "tool": "x", "depends_on": ["c"]}, {"id": "dd", "tool": "w"}),
    )  # fmt: skip


def groups(svg):
    """The cards of a drawing by the first line on them."""
    found = [e for e in ET.fromstring(svg).iter(f"{SVG}g") if "pb-node" in e.get("class", "")]
    return {next(one.iter(f"{SVG}text")).text: one for one in found}


def lines(group):
    return [one.text for one in group.iter(f"{SVG}text")]


def test_every_mark_is_a_word_on_the_card_and_in_its_label(diff):
    cards = groups(draw_diff(diff))
    assert {name: lines(card)[1:] for name, card in cards.items()} == {
        "a": ["t"],
        "gone": ["u", "removed"],
        "c": ["v", "changed: 1 field"],
        "new": ["x", "added"],
        "dd": ["w", "renamed, was d"],
    }
    assert cards["gone"].get("aria-label") == "gone, u, removed"
    assert cards["a"].get("aria-label") == "a, t, not changed"


def test_no_two_marks_look_the_same_without_colour(diff):
    looks = set()
    for card in groups(draw_diff(diff)).values():
        face = next(card.iter(f"{SVG}rect"))
        icons = [path.get("d") for path in card.iter(f"{SVG}path")]
        looks.add((face.get("stroke-dasharray"), face.get("stroke-width"), *icons))
    assert len(looks) == 5


def test_arrows_that_came_are_thick_and_those_that_went_are_dashed(diff):
    root = ET.fromstring(draw_diff(diff))
    by_mark = {mark: [e for e in root.iter(f"{SVG}path") if e.get("class") == f"pbn-{mark}"] for mark in ("same", "added", "removed")}  # fmt: skip
    assert {mark: len(found) for mark, found in by_mark.items()} == {"same": 1, "added": 1, "removed": 1}  # fmt: skip
    assert float(by_mark["added"][0].get("stroke-width")) > float(by_mark["same"][0].get("stroke-width"))  # fmt: skip
    assert by_mark["removed"][0].get("stroke-dasharray")


def test_the_drawing_says_what_it_shows(diff):
    label = ET.fromstring(draw_diff(diff)).get("aria-label")
    assert label == "diff of plan p: 1 added, 1 removed, 1 renamed, 1 changed"


def test_a_fan_out_is_a_stack_and_a_delegate_is_round():
    a = plan({"id": "a"})
    b = plan({"id": "a"}, {"id": "b", "depends_on": ["a"], "for_each": {"source": "{artifacts.a}"}}, {"id": "c", "type": "delegate", "tool": None, "instruction": "x", "tools": ["t"]})  # fmt: skip
    cards = groups(draw_diff(diff_plans(a, b)))
    assert len(list(cards["b"].iter(f"{SVG}rect"))) == 3
    assert next(cards["c"].iter(f"{SVG}rect")).get("rx") == "16"


def test_no_text_of_a_plan_is_markup():
    a = plan({"id": "a", "tool": EVIL}, name=EVIL)
    b = plan({"id": "a", "tool": f"x{EVIL}"}, {"id": "b", "tool": EVIL}, name=f"x{EVIL}")
    svg = draw_diff(diff_plans(a, b))
    root = ET.fromstring(svg)
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {"svg", "style", "g", "path", "rect", "text", "title"}  # fmt: skip
    for element in root.iter():
        assert not [name for name in element.attrib if name.startswith("on") or name in {"style", "href"}]  # fmt: skip
    assert [e.text for e in root.iter(f"{SVG}style")] == [STYLE]
    assert "\0" not in svg


def test_a_drawing_that_went_through_the_cleaner_still_tells_the_marks(diff):
    cards = groups(sanitize(draw_diff(diff)))
    assert lines(cards["gone"])[-1] == "removed"
    assert next(cards["gone"].iter(f"{SVG}rect")).get("stroke-dasharray")


def test_every_class_of_the_style_is_one_of_ours():
    assert all(name.startswith(("pb-", "pbn-")) for name in re.findall(r"\.([a-z][\w-]*)", STYLE))


def test_plans_that_do_not_differ_are_drawn_without_a_mark():
    same = diff_plans(plan({"id": "a"}), plan({"id": "a"}))
    assert "no node differs" in draw_diff(same)


def test_of_a_large_plan_the_changes_and_their_neighbours_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "WHOLE", 10)
    nodes = [{"id": f"n{i}", "depends_on": [f"n{i - 1}"] if i else []} for i in range(30)]
    changed = [*nodes[:-1], {**nodes[-1], "args": {"x": 1}}]
    assert set(groups(draw_diff(diff_plans(plan(*nodes), plan(*changed))))) == {"n28", "n29"}
    with pytest.raises(RenderError, match="nothing to draw"):
        draw_diff(diff_plans(plan(*nodes), plan(*nodes)))


def test_a_diff_of_too_many_nodes_says_where_to_read_it():
    nodes = [{"id": f"n{i}"} for i in range(1001)]
    changed = [{**node, "args": {"x": 1}} for node in nodes]
    with pytest.raises(RenderError, match="to_text"):
        draw_diff(diff_plans(plan(*nodes), plan(*changed)))


def test_the_view_has_both_plans_in_one_graph(diff):
    view = diff_view(diff.graph)
    assert [(node.id, node.note) for node in view.nodes] == [
        ("a", ""),
        ("gone", "removed"),
        ("c", "changed: 1 field"),
        ("new", "added"),
        ("dd", "renamed, was d"),
    ]
    assert len(view.edges) == 3
