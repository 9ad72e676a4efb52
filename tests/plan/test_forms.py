from __future__ import annotations

from pathlib import Path

import pytest

from planbench import load_plan
from planbench.errors import PlanInvalid
from planbench.plan.forms import format_plan

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    ROOT / "planbench/examples/daily_security_sweep.yaml",
    *sorted((ROOT / "plans").glob("*.yaml")),
]

LONG = """\
# What this plan is for.
name: p   # short
objective: o

nodes:
  # the first one
  - id: a           # its id
    tool:   t       # odd spaces
    store_as: a     # the key
    depends_on: []
    args: {x: [1,2],   zip: 0123}

    facets:
      # how many
      counts:       # all of them
        n: "[]"     # rows

        # the second
        m: rows[]
      group_counts: {by: "rows[].kind"}   # kinds
      max_group_keys: 5

    # behind the facets
  - id: b
    tool: t
    depends_on:     # the edge
      - a           # because
    for_each:
      # why
      source: "{artifacts.a}"   # the source
      select: "rows[]"          # the path
    when: >-
      ctx.artifacts.a.n > 0
      && ctx.status.a != "error"
    store_as: "b.{index}"
  - {id: c, tool: t, args: {x: "{artifacts.b}"},
     depends_on: [b], store_as: c}     # in brackets
# the end
"""
SHORT = """\
# What this plan is for.
name: p   # short
objective: o

nodes:
  # the first one
  - id: a           # its id
    tool:   t       # odd spaces
    # the key
    args: {x: [1,2],   zip: 0123}

    facets:
      # how many
      # all of them
      n: count([])     # rows

      # the second
      m: count(rows[])
      by: groups(rows[].kind)   # kinds
      max_group_keys: 5

    # behind the facets
  - id: b
    tool: t
    # the edge
    # because
    # why
    # the source
    for_each: a.rows[]          # the path
    when: >-
      a.n > 0
      && a.status != "error"
  - {id: c, tool: t, args: {x: "{artifacts.b}"}}     # in brackets
# the end
"""
REFERENCE = """\
nodes:
  - id: a
    tool: t
    store_as: a
  - id: b
    tool: t
    depends_on: [a]
    store_as: "b.{index}"
    for_each: {source: "{artifacts.a}", select: "rows[]"}   # each row
    args: {x: "{item}"}
  - {id: c, tool: t, depends_on: [a], store_as: c, when: ctx.artifacts.a.n > 0}
"""


def test_the_short_form_keeps_layout_and_comments():
    found = format_plan(LONG)

    assert found.text == SHORT
    assert found.lost == []


def test_the_short_form_stays_as_it_is():
    assert format_plan(SHORT).text == SHORT


def test_the_long_form_has_what_reference_files_have():
    head = "name: p\nobjective: o\n"
    short = head + (
        "nodes:\n"
        "  - id: a\n"
        "    tool: t\n"
        "  - id: b\n"
        "    tool: t\n"
        "    for_each: a.rows[]   # each row\n"
        '    args: {x: "{item}"}\n'
        "  - {id: c, tool: t, when: a.n > 0}\n"
    )
    found = format_plan(short, reference=True)

    assert found.text == head + REFERENCE
    assert found.lost == []
    assert format_plan(found.text, reference=True) == found


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
@pytest.mark.parametrize("reference", [False, True])
def test_a_real_file_is_the_same_plan_in_either_form(file, reference):
    text = file.read_text(encoding="utf-8")
    found = format_plan(text, reference=reference)

    assert load_plan(found.text) == load_plan(text)
    assert found.lost == []
    assert format_plan(found.text, reference=reference) == found
    assert load_plan(format_plan(found.text, reference=not reference).text) == load_plan(text)


def test_line_breaks_and_the_mark_before_the_text_are_kept():
    text = "\ufeff" + LONG.replace("\n", "\r\n")

    assert format_plan(text).text == "\ufeff" + SHORT.replace("\n", "\r\n")


def test_a_text_without_a_last_line_break_gets_none():
    text = "name: p\nobjective: o\nnodes:\n  - id: a\n    tool: t\n    store_as: a"

    assert format_plan(text).text == "name: p\nobjective: o\nnodes:\n  - id: a\n    tool: t\n"


def test_what_stands_first_behind_a_dash_goes_without_it():
    text = "name: p\nobjective: o\nnodes:\n  - store_as: a   # key\n    id: a\n    tool: t\n"

    assert format_plan(text).text == (
        "name: p\nobjective: o\nnodes:\n  # key\n  - id: a\n    tool: t\n"
    )


def test_json_stays_json():
    text = '{"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "t", "store_as": "a"}]}'
    found = format_plan(text)

    assert found.text == (
        '{\n  "name": "p",\n  "objective": "o",\n  "nodes": [\n    {\n      "id": "a",\n'
        '      "tool": "t"\n    }\n  ]\n}\n'
    )
    assert format_plan(found.text) == found


SHARED = """\
name: p
objective: o
nodes:
  - &base
    id: a
    tool: t
    store_as: a
    facets: &f {counts: {n: "[]"}}
  - <<: *base       # the same
    id: b
    store_as: b
    facets: *f
    depends_on: [a]
    args: {x: "{artifacts.a}"}
"""


def test_what_several_nodes_share_stays_in_the_short_form():
    found = format_plan(SHARED)

    assert found.text == SHARED.replace("    depends_on: [a]\n", "")
    assert found.lost == []


def test_what_several_nodes_share_is_written_out_in_the_long_form_where_it_must_be():
    text = "# head\n" + SHARED.replace('{counts: {n: "[]"}}', '{n: "count([])"}   # shared')
    found = format_plan(text, reference=True)

    assert load_plan(found.text) == load_plan(text)
    assert found.text.startswith("# head\nname: p\n")
    assert sorted(found.lost) == ["# shared", "# the same"]


def test_a_wrapped_plan_stays_wrapped():
    text = "plan:\n  name: p\n  objective: o\n  nodes:\n    - {id: a, tool: t, store_as: a}\n"

    assert format_plan(text).text == text.replace(", store_as: a", "")
    assert format_plan(text, reference=True).text == text


def test_a_plan_with_errors_is_not_written():
    with pytest.raises(PlanInvalid, match="unknown_dependency"):
        format_plan("name: p\nobjective: o\nnodes:\n  - {id: a, tool: t, depends_on: [b]}\n")
