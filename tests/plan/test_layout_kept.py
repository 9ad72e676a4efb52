"""Any plan, laid out in many ways and full of comments, is formatted and edited."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planbench.errors import LanguageError
from planbench.plan.document import format_json, read_document
from planbench.plan.draft import draft
from planbench.plan.edits import rename_node, set_argument, set_default
from planbench.plan.forms import format_plan
from planbench.plan.records import same
from planbench.plan.rename import renamed_node
from planbench.plan.written import Written

ROOT = Path(__file__).resolve().parents[2]
REAL = [
    *sorted((ROOT / "plans").glob("*.yaml")),
    *sorted((ROOT / "planbench/examples").glob("*.yaml")),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["x", "two\nlines", "# no comment", "it's", 'a "b"', "no", "1.0", " x", "[a, b]", "{item}", "a: b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["k", "on", "a b"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plan_in(text):
    return draft(read_document(text)).plan


def comments(text):
    return Counter(text[one.start : one.end] for one in Written(text).comments())


def with_comments(text, rng):
    """Put comments on lines of their own and behind what ends on a line, outside of texts."""
    written, plan = Written(text), plan_in(text)
    found, at, number = [], 0, 0
    for shown in text.splitlines():
        line, end = shown, at + len(shown)
        inside = any(piece.start < at < piece.end for piece in written.scalars)
        ends = not any(
            piece.start < end < piece.end or (piece.style in ("|", ">") and piece.end == end)
            for piece in written.scalars
        )
        if line.strip() and not inside and rng.random() < 0.3:
            found.append(f"{' ' * (len(line) - len(line.lstrip()))}# own {number}")
            number += 1
        if line.strip() and ends and rng.random() < 0.3:
            line += f"   # behind {number}"
            number += 1
        found.append(line)
        at = end + 1
    changed = "\n".join([*found, ""])
    return changed if same(plan_in(changed), plan) else text


@st.composite
def layouts(draw, plans):
    """A plan as a text of one style or another, with comments where it can have them."""
    plan = draw(plans)
    record = plan.to_dict(compact=True)
    style = draw(st.sampled_from(["ours", "block", "mixed", "flow", "json"]))
    if style == "json":
        return format_json(record)
    text = plan.to_yaml()
    if style != "ours":
        text = yaml.safe_dump(
            record,
            sort_keys=False,
            allow_unicode=True,
            width=draw(st.sampled_from([30, 80, 1000])),
            indent=draw(st.sampled_from([2, 4])),
            default_flow_style={"block": False, "mixed": None, "flow": True}[style],
        )
    assume(same(plan_in(text), plan))
    return with_comments(text, random.Random(draw(st.integers(0, 1000))))


@FEW
@given(data=st.data())
def test_formatting_keeps_plan_and_comments_and_is_done_once(plans, data):
    text = data.draw(layouts(plans))
    for reference in (False, True):
        found = format_plan(text, reference=reference)

        assert same(plan_in(found.text), plan_in(text))
        assert found.lost == []
        assert comments(found.text) == comments(text)
        assert format_plan(found.text, reference=reference) == found
        other = format_plan(found.text, reference=not reference)
        assert same(plan_in(other.text), plan_in(text))
        assert comments(other.text) == comments(text)


def paths_in(value, path=()):
    """Every path in arguments, and those that would be new."""
    found = [path] if path else []
    if isinstance(value, dict):
        found += [inner for key, item in value.items() for inner in paths_in(item, (*path, key))]
        found.append((*path, "quite new"))
    elif isinstance(value, list):
        found += [inner for key, item in enumerate(value) for inner in paths_in(item, (*path, key))]
        found.append((*path, len(value)))
    return found


def outside(old, new):
    """What two texts have in common at their start and their end."""
    start = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, len(old) - end


def check_argument(text, data):
    plan = plan_in(text)
    place = data.draw(st.integers(0, len(plan.nodes) - 1))
    node = plan.nodes[place]
    path = data.draw(st.sampled_from(paths_in(node.args)))
    value = data.draw(VALUES)
    try:
        found = set_argument(text, node.id, path, value)
    except LanguageError:
        assert "? " in text
        return
    held = plan_in(found).nodes[place].args
    for part in path:
        held = held[part]
    assert same(held, value)
    if found == text:
        return
    first, last = outside(text, found)
    piece = Written(text).at(("nodes", place))
    line_end = Written(text).line_end(piece.end)
    assert Written(text).line_start(piece.start) <= first
    assert last <= line_end
    assert comments(found) == comments(text)


def check_rename(text, data):
    plan = plan_in(text)
    old = data.draw(st.sampled_from([node.id for node in plan.nodes]))
    new = data.draw(st.sampled_from(["zz", "z-z", "list", "as", "ctx"]))
    assume(all(node.id != new for node in plan.nodes))
    found = rename_node(text, old, new)
    expected = [renamed_node(node, {old: new}) for node in plan.nodes]

    assert same(plan_in(found), plan.model_copy(update={"nodes": expected}))
    assert comments(found) == comments(text)
    assert same(plan_in(rename_node(found, new, old)).nodes[0].args, plan.nodes[0].args)


@FEW
@given(data=st.data())
def test_an_argument_changes_inside_its_node_and_nowhere_else(plans, data):
    check_argument(data.draw(layouts(plans)), data)


@FEW
@given(data=st.data())
def test_a_rename_is_the_plan_with_that_name_and_every_comment(plans, data):
    check_rename(data.draw(layouts(plans)), data)


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.parent.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_real_files_are_edited_in_either_form(file, data):
    text = with_comments(file.read_text(encoding="utf-8"), random.Random(data.draw(st.integers())))
    if data.draw(st.booleans()):
        text = format_plan(text, reference=data.draw(st.booleans())).text
    check_argument(text, data)
    check_rename(text, data)
    value = data.draw(st.sampled_from(["2023-03-18", "a: b", "", "no", "it's"]))
    found = set_default(text, "date", value)
    assert plan_in(found).params["date"].default == value
    assert comments(found) == comments(text)
    assert set_default(found, "date", value) == found
