from __future__ import annotations

import datetime as dt
import difflib
from pathlib import Path

import pytest

from planbench import load_plan
from planbench.errors import LanguageError, PlanInvalid
from planbench.plan.edits import rename_node, set_argument, set_default

ROOT = Path(__file__).resolve().parents[2]
SWEEP = ROOT / "planbench/examples/daily_security_sweep.yaml"
PLAN = """\
# Where does it rain?
name:   rain      # in the south
objective: o

params:
    country: {type: str, default: Peru}   # the country
    days:
        type: int

nodes:
    # the cities
    -   id: cities
        tool:  list_cities
        args: {country: "{params.country}",   limit:   10}   # ten are enough

        facets: { n: "count([])" }


    - id: weather    # one call a city
      tool: weather
      for_each: cities[]
      when: >-
        cities.n > 0 && ctx.status.cities
        != "error"
      args:
        city: "{item.name}"
        days: '{params.days}'    # as many
        filters:
        - field: rain            # what else
          op: '>'
        -   sun
        kind:   # open
        note: |   # two lines
          see {artifacts.cities}
          # no comment
      facets:
        n: count([])
    - {id: report, tool: report, args: {data: "{artifacts.weather}", all: ["{artifacts.cities}"],
       when: 2023-03-18}, depends_on: [weather,
         cities], when: 'weather.status == "ok" && "cities.n" != ""'}    # the end
"""


def change(old, new):
    """The lines that went and the lines that came."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("node", "path", "value", "expected"),
    [
        ("cities", ("limit",), 20, ['-        args: {country: "{params.country}",   limit:   10}   # ten are enough',
                                    '+        args: {country: "{params.country}",   limit:   20}   # ten are enough']),
        ("cities", ("country",), "Chile, {params.kind}", ['-        args: {country: "{params.country}",   limit:   10}   # ten are enough',
                                            '+        args: {country: "Chile, {params.kind}",   limit:   10}   # ten are enough']),
        ("cities", ("sort",), ["a", None], ['-        args: {country: "{params.country}",   limit:   10}   # ten are enough',
                                     '+        args: {country: "{params.country}",   limit:   10, sort: [a, null]}   # ten are enough']),
        ("weather", ("days",), 5, ["-        days: '{params.days}'    # as many", "+        days: 5    # as many"]),
        ("weather", ("days",), "it's", ["-        days: '{params.days}'    # as many", "+        days: 'it''s'    # as many"]),
        ("weather", ("filters", 0, "op"), "<", ["-          op: '>'", "+          op: '<'"]),
        ("weather", ("filters", 1), "no", ["-        -   sun", '+        -   "no"']),
        ("weather", ("filters", 2), {"field": "wind"}, ["+        - field: wind"]),
        ("weather", ("filters", 1), {"field": "wind", "op": ">"}, ["-        -   sun", "+        - field: wind", '+          op: ">"']),
        ("weather", ("filters", 0), 7, ["-        - field: rain            # what else", "-          op: '>'",
                                        "+        # what else", "+        - 7"]),
        ("weather", ("kind",), "x", ["-        kind:   # open", "+        kind: x   # open"]),
        ("weather", ("kind",), {"a": 1}, ["-        kind:   # open", "+        kind:  # open", "+          a: 1"]),
        ("weather", ("kind",), "two\nlines", ["-        kind:   # open", "+        kind: |-  # open", "+          two", "+          lines"]),
        ("weather", ("note",), "short", ["-        note: |   # two lines", "-          see {artifacts.cities}", "-          # no comment",
                                         "+        # two lines", "+        note: short"]),
        ("weather", ("more",), {"a": [1]}, ["+        more: {a: [1]}"]),
        ("report", ("when",), "2024-01-01", ["-       when: 2023-03-18}, depends_on: [weather,", '+       when: "2024-01-01"}, depends_on: [weather,']),
    ],
)  # fmt: skip
def test_an_argument_is_changed_and_nothing_else(node, path, value, expected):
    found = set_argument(PLAN, node, path, value)
    held = load_plan(found).node(node).args
    for part in path:
        held = held[part]

    assert held == value
    assert change(PLAN, found) == expected


def test_arguments_are_added_to_a_node_that_has_none():
    text = "name: p\nobjective: o\nnodes:\n  - id: a   # first\n    tool: t   # called\n    timeout: 3\n  - {id: b, tool: t}\n"

    assert change(text, set_argument(text, "a", ("x",), 1)) == ["+    args: {x: 1}"]
    assert change(text, set_argument(text, "b", ("x", "y"), [1])) == [
        "-  - {id: b, tool: t}",
        "+  - {id: b, tool: t, args: {x: {y: [1]}}}",
    ]


def test_a_reference_that_is_set_is_an_edge_where_none_were_written():
    found = set_argument(PLAN, "cities", ("limit",), 3)
    with pytest.raises(PlanInvalid, match="cycle"):
        set_argument(found, "cities", ("of",), "{artifacts.report}")
    with pytest.raises(PlanInvalid, match="undeclared_reference"):
        set_argument(PLAN.replace("[weather,\n         cities]", "[cities]").replace("{artifacts.weather}", "x").replace("weather.status", "cities.status"), "report", ("data",), "{artifacts.weather}")  # fmt: skip


@pytest.mark.parametrize(
    ("node", "path", "words"),
    [
        ("nobody", ("x",), "no node has the id 'nobody'"),
        ("weathr", ("x",), "did you mean 'weather'"),
        ("cities", (), "starts with its name"),
        ("cities", ("limit", "x"), "is no map"),
        ("weather", ("filters", "x"), "is no map"),
        ("weather", ("filters", 3), "has 2 items, and no item 3"),
        ("weather", ("city", 0), "is no list"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(node, path, words):
    with pytest.raises(LanguageError, match=words):
        set_argument(PLAN, node, path, 1)


def test_a_value_that_no_file_holds_is_refused():
    with pytest.raises(LanguageError, match="isoformat"):
        set_argument(PLAN, "cities", ("day",), dt.date(2024, 1, 1))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("country", "Chile", ["-    country: {type: str, default: Peru}   # the country", "+    country: {type: str, default: Chile}   # the country"]),
        ("days", 3, ["+        default: 3"]),
    ],
)  # fmt: skip
def test_a_default_is_changed_or_added(name, value, expected):
    found = set_default(PLAN, name, value)

    assert load_plan(found).params[name].default == value
    assert change(PLAN, found) == expected


def test_a_parameter_that_is_read_is_declared_with_its_default():
    text = "name: p\nobjective: o   # why\nnodes:\n  - {id: a, tool: t, args: {x: '{params.n}', y: '{params.m}'}}\n"
    found = set_default(text, "n", 5)

    assert change(text, found) == ["+params: {n: {type: int, default: 5}}"]
    assert change(found, set_default(found, "m", "x")) == [
        "-params: {n: {type: int, default: 5}}",
        "+params: {n: {type: int, default: 5}, m: {type: str, default: x}}",
    ]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("days", "x", "must be an int, not 'x'"), ("dayz", 1, "reads no parameter 'dayz'")],
)
def test_a_default_that_does_not_fit_is_refused(name, value, words):
    with pytest.raises(LanguageError, match=words):
        set_default(PLAN, name, value)


def test_a_rename_is_followed_by_every_reference_and_nothing_else():
    found = rename_node(PLAN, "cities", "towns")

    assert change(PLAN, found) == [
        "-    -   id: cities",
        "+    -   id: towns",
        "-      for_each: cities[]",
        "+      for_each: towns[]",
        "-        cities.n > 0 && ctx.status.cities",
        "+        towns.n > 0 && ctx.status.towns",
        "-          see {artifacts.cities}",
        "+          see {artifacts.towns}",
        '-    - {id: report, tool: report, args: {data: "{artifacts.weather}", all: ["{artifacts.cities}"],',
        '+    - {id: report, tool: report, args: {data: "{artifacts.weather}", all: ["{artifacts.towns}"],',
        """-         cities], when: 'weather.status == "ok" && "cities.n" != ""'}    # the end""",
        """+         towns], when: 'weather.status == "ok" && "cities.n" != ""'}    # the end""",
    ]


def test_a_name_with_a_hyphen_has_the_long_form_in_guards():
    text = 'name: p\nobjective: o\nnodes:\n  - {id: a, tool: t, store_as: a}\n  - id: b\n    tool: t\n    when: "a.count > 0"   # any\n'
    found = rename_node(text, "a", "a-1")

    assert found == text.replace("{id: a, tool: t, store_as: a}", "{id: a-1, tool: t, store_as: a-1}").replace(
        '"a.count > 0"', '"ctx.artifacts[\\"a-1\\"].count > 0"'
    )  # fmt: skip
    assert load_plan(rename_node(found, "a-1", "a")).nodes[1].when == 'ctx.artifacts["a"].count > 0'


@pytest.mark.parametrize(
    ("change_it", "hint"),
    [
        (lambda: set_argument(PLAN, "nope", ("x",), 9), "the plan has cities, weather, report"),
        (lambda: set_argument(PLAN, "weathr", ("x",), 9), "did you mean 'weather'?"),
        (lambda: set_argument(PLAN, "weather", ("filters", 3), 9), "item 2 would be added"),
        (lambda: set_argument(PLAN, "cities", ("limit", "x"), 9), "leave the rest of the path out"),
        (lambda: set_argument(PLAN, "cities", (), 9), "write NODE.ARG"),
        (lambda: rename_node(PLAN, "nope", "y"), "the plan has cities, weather, report"),
        (lambda: rename_node(PLAN, "cities", "weather"), "taken are cities, weather, report"),
        (lambda: rename_node(PLAN, "cities", "my city"), "write my_city"),
        (lambda: rename_node(PLAN, "cities", "1."), "write n_1"),
        (lambda: set_default(PLAN, "days", []), None),
    ],
)
def test_what_cannot_be_changed_is_told_with_what_is_there(change_it, hint):
    with pytest.raises(LanguageError) as refused:
        change_it()
    assert hint is None or hint in refused.value.hint


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nobody", "x", "no node has the id"),
        ("cities", "weather", "taken"),
        ("cities", "a b", "must start with a letter"),
    ],
)
def test_an_id_that_cannot_be_had_is_refused(old, new, words):
    with pytest.raises(LanguageError, match=words):
        rename_node(PLAN, old, new)


def test_a_name_that_stays_changes_nothing():
    text = SWEEP.read_text(encoding="utf-8")

    assert rename_node(text, "diff", "diff") == text
    assert rename_node(rename_node(text, "diff", "other"), "other", "diff") == text


SHARED = """\
name: p
objective: o
nodes:
  - &base
    id: a
    tool: t
    args: &args {x: &one 1, y: [*one]}   # shared
  - <<: *base
    id: b
  - {id: c, tool: t, args: *args}
"""


def test_a_value_that_is_repeated_is_written_out_where_only_one_place_means_it():
    assert change(SHARED, set_argument(SHARED, "c", ("x",), 2)) == [
        "-  - {id: c, tool: t, args: *args}",
        "+  - {id: c, tool: t, args: {x: 2, y: [1]}}",
    ]
    assert change(SHARED, set_argument(SHARED, "b", ("x",), 2)) == ["+    args: {x: 2, y: [1]}"]
    assert change(SHARED, set_argument(SHARED, "b", ("y", 0), 2)) == ["+    args: {x: 1, y: [2]}"]


def test_a_change_that_other_places_would_feel_is_refused():
    with pytest.raises(LanguageError, match="nowhere else"):
        set_argument(SHARED, "a", ("x",), 2)


def test_a_name_that_is_shared_is_changed_once():
    text = "name: p\nobjective: o\nnodes:\n  - {id: &i a, tool: t}\n  - {id: b, tool: t, depends_on: [*i], args: {x: &r '{artifacts.a}', y: *r}}\n"

    assert rename_node(text, "a", "z") == text.replace("&i a", "&i z").replace("s.a}", "s.z}")


def test_json_keeps_its_layout():
    text = '{"name": "p",\n\t"objective": "\\u00e9", "nodes": [\n\t{"id": "a", "tool": "t",\n\t "args": {"x": 1}},\n\t{"id": "b", "tool": "t", "args": {"y": "{artifacts.a}"}}]}\n'

    assert set_argument(text, "a", ("x",), 'q"') == text.replace('"x": 1', '"x": "q\\""')
    assert set_argument(text, "a", ("z",), None) == text.replace('"x": 1', '"x": 1, "z": null')
    assert rename_node(text, "a", "c") == text.replace('"a"', '"c"').replace("s.a}", "s.c}")


def test_line_breaks_and_the_mark_before_the_text_are_kept():
    text = "\ufeff" + PLAN.replace("\n", "\r\n")
    found = set_argument(text, "weather", ("filters", 2), {"a": 1, "b": 2})

    assert found == text.replace(
        "        -   sun\r\n", "        -   sun\r\n        - a: 1\r\n          b: 2\r\n"
    )


def test_a_text_with_errors_is_not_changed():
    with pytest.raises(PlanInvalid, match="missing_field"):
        set_argument("name: p\nobjective: o\nnodes:\n  - {id: a}\n", "a", ("x",), 1)
