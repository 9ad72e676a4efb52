from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.guards import compile_guard
from planbench.plan.model import PlanNode
from planbench.plan.placeholders import Placeholder, scan
from planbench.plan.rename import rename_in_guard, rename_in_text, renamed_in, renamed_node

NAMES = {"a": "b", "b": "a", "n": "my-node"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{artifacts.a}", "{artifacts.b}"),
        ("x {nodes.a.output} y {artifacts.b}", "x {nodes.b.output} y {artifacts.a}"),
        ("{{artifacts.a}}", "{{artifacts.a}}"),
        ("{{{artifacts.a}}}", "{{{artifacts.a}}}"),
        ("{artifacts.a.rows}", "{artifacts.a.rows}"),
        ("{artifacts.aa} {params.a} {env.a} {item.a} a", "{artifacts.aa} {params.a} {env.a} {item.a} a"),
        ("{artifacts.n}", "{artifacts.my-node}"),
    ],
)  # fmt: skip
def test_placeholders_follow_and_texts_that_only_look_like_them_stay(written, expected):
    assert rename_in_text(written, NAMES) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("ctx.artifacts.a.count > 0", "ctx.artifacts.b.count > 0"),
        ("ctx.artifacts.n.count > 0", 'ctx.artifacts["my-node"].count > 0'),
        ("ctx.artifacts['n'].count > 0", "ctx.artifacts['my-node'].count > 0"),
        ('ctx["artifacts"]["a"]["a"] > 0', 'ctx["artifacts"]["b"]["a"] > 0'),
        ("ctx . status\n. a == 'a'", "ctx . status\n.b == 'a'"),
        ('ctx.status.a == "ctx.artifacts.a"', 'ctx.status.b == "ctx.artifacts.a"'),
        ("ctx.status.a == r'\\' || ctx.status.b == ''", "ctx.status.b == r'\\' || ctx.status.a == ''"),
        ("ctx.status.a == '''it's ctx.status.a'''", "ctx.status.b == '''it's ctx.status.a'''"),
        ("true // ctx.artifacts.a.n", "true // ctx.artifacts.a.n"),
        ("ctx.errors == 0", "ctx.errors == 0"),
        ("ctx.artifacts.x.ctx.artifacts.a > 0", "ctx.artifacts.x.ctx.artifacts.a > 0"),
        ("[{'a': 1}].exists(ctx, ctx.status.a > 0)", "[{'a': 1}].exists(ctx, ctx.status.a > 0)"),
        ("[1].exists(a, a > 0) && has(ctx.artifacts.a.count)", "[1].exists(a, a > 0) && has(ctx.artifacts.b.count)"),
        ("no guard ' at all", "no guard ' at all"),
        ("ctx.artifacts[", "ctx.artifacts["),
        ("", ""),
    ],
)  # fmt: skip
def test_guards_follow_whatever_their_form_and_texts_in_them_stay(written, expected):
    assert rename_in_guard(written, NAMES) == expected


@pytest.mark.parametrize("name", ["in", "true", "null", "my-id"])
def test_an_id_that_cannot_stand_behind_a_dot_is_written_as_an_index(name):
    text = rename_in_guard("ctx.artifacts.a.n > 0", {"a": name})
    assert compile_guard(text).reads == (("artifacts", name, "n"),)


def test_a_node_follows_in_every_field_and_its_own_key_with_its_id():
    node = PlanNode.model_validate(
        {
            "id": "n",
            "tool": "t",
            "depends_on": ["a", "b", "c"],
            "for_each": {"source": "{artifacts.a}", "max_items": 5},
            "args": {"{artifacts.a}": ["{artifacts.b}", {"x": "{nodes.c.output}"}], "n": 1},
            "when": "ctx.status.a == 'ok'",
        }
    )
    made = renamed_node(node, NAMES)
    assert made == PlanNode.model_validate(
        {
            "id": "my-node",
            "tool": "t",
            "depends_on": ["b", "a", "c"],
            "for_each": {"source": "{artifacts.b}", "max_items": 5},
            "args": {"{artifacts.a}": ["{artifacts.a}", {"x": "{nodes.c.output}"}], "n": 1},
            "when": "ctx.status.b == 'ok'",
            "store_as": "my-node.{index}",
        }
    )


def test_a_node_that_refers_to_none_of_them_is_the_same_object():
    node = PlanNode(id="x", tool="t", args={"q": "{artifacts.y}"}, depends_on=["y"], when="true")
    assert renamed_node(node, NAMES) is node
    value = {"q": ["{artifacts.y}"]}
    assert renamed_in(value, NAMES) is value


@given(st.text(alphabet="{}artifcs.nodeuptxy", max_size=40) | st.lists(st.sampled_from(["{", "}", "{artifacts.x}", "{nodes.x.output}", "{{", "x"]), max_size=8).map("".join))  # fmt: skip
def test_exactly_the_placeholders_follow_that_the_language_sees(text):
    def seen(written):
        return [
            (piece.family, "y" if piece.name == "x" else piece.name)
            if isinstance(piece, Placeholder)
            else piece
            for piece in scan(written)
        ]

    assert seen(rename_in_text(text, {"x": "y"})) == seen(text)
    assert "x" not in {
        p.name for p in scan(rename_in_text(text, {"x": "y"})) if isinstance(p, Placeholder)
    }


@given(st.text(alphabet="ctx.artifsu[]\"'ab \n/rR\\&!=,()", max_size=60))
def test_any_text_for_a_guard_is_taken(text):
    renamed = rename_in_guard(text, {"a": "bb"})
    assert rename_in_guard(text, {}) == text
    assert isinstance(renamed, str)


def test_the_instruction_of_a_delegate_follows():
    node = PlanNode(id="d", type="delegate", instruction="of {artifacts.a}", depends_on=["a"])
    assert renamed_node(node, NAMES).instruction == "of {artifacts.b}"
