import datetime as dt
import re
from collections import OrderedDict
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import ConfigurationError, PlanInvalid
from planbench.plan.document import read_document
from planbench.plan.draft import draft
from planbench.plan.guards import compile_guard
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.plan.parameters import bind, bind_document, wanted
from planbench.plan.placeholders import Scope, Template

TEXT = """\
name: sweep of {params.region}
objective: about {params.date}
params:
  date: {type: date}
  limit: {type: int, default: 10}
  region: {choices: [eu, us], default: eu}
nodes:
  - id: listing
    tool: "{params.tool}"
    args: {date: "{params.date}", limit: "{params.limit}", text: "up to {params.limit}"}
    timeout: "{params.limit}"
  - id: plain
    tool: t
"""


def plan(*nodes, **fields):
    return ExecutionPlan(name="p", objective="o", nodes=list(nodes), **fields)


def bound(text, **params):
    return bind(read_document(text).value, params)


def refused(record, **params):
    with pytest.raises(PlanInvalid) as caught:
        bind(record, params)
    return [(issue.code, issue.message, issue.fix) for issue in caught.value.issues]


def test_parameters_go_everywhere_a_text_stands_native_when_alone():
    made = bound(TEXT, date="2026-08-06", tool="s3_list")

    assert made == {
        "name": "sweep of eu",
        "objective": "about 2026-08-06",
        "nodes": [
            {
                "id": "listing",
                "tool": "s3_list",
                "args": {"date": "2026-08-06", "limit": 10, "text": "up to 10"},
                "timeout": 10,
            },
            {"id": "plain", "tool": "t"},
        ],
    }


def test_wanted_names_what_a_plan_refers_to():
    record = read_document(TEXT).value

    assert wanted(record) == {"date", "region", "tool", "limit"}
    assert wanted(plan(PlanNode(id="a", tool="t", args={"x": ["{params.q}", "{{params.r}}"]}))) == {
        "q"
    }
    assert wanted(plan(PlanNode(id="a", tool="t"))) == set()


def test_a_plan_that_is_a_model_stays_one_and_declares_nothing_any_more():
    made = draft(read_document(TEXT.replace('"{params.tool}"', "t"))).plan
    done = bind(made, {"date": "2026-08-06", "limit": "7"})

    assert done.params == {}
    assert done.nodes[0].timeout == 7
    assert done.nodes[0].args["limit"] == 7
    assert done.nodes[1] is made.nodes[1]
    assert (
        done
        == draft(
            bind_document(
                read_document(TEXT.replace('"{params.tool}"', "t")),
                {"date": "2026-08-06", "limit": 7},
            )[0]
        ).plan
    )


NO_JSON = [
    dt.date(2024, 1, 1),
    pd.Timestamp("2024-01-01"),
    {1, 2},
    b"x",
    Decimal("1.1"),
    float("nan"),
    float("inf"),
    "\ud83d",
    2**20_000,
    {1: 2},
    [{"k": {None: 1}}],
    pd.DataFrame({"a": [1]}),
    pd.Series([1]),
    np.arange(3),
    object(),
]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", [None, "str", "int", "list", "dict"])
def test_a_value_that_no_plan_could_hold_is_refused_by_the_name_of_its_parameter(value, kind):
    for record in (
        {"name": "p", "objective": "o {params.v}", "nodes": [{"id": "a", "tool": "t"}]},
        {"name": "p", "objective": "o", "nodes": [{"id": "a", "args": {"x": "{params.v}"}}]},
    ):
        if kind is not None:
            record["params"] = {"v": {"type": kind}}
        if kind == "str" and isinstance(value, str):
            value = [value]
        (issue,) = refused(record, v=value)
        assert issue[0] == "bad_param"
        assert issue[1].startswith("param 'v'") or issue[1].startswith("a key of param 'v'")


def test_a_value_that_is_refused_is_told_at_the_node_that_reads_it():
    document, issues = bind_document(
        read_document('name: p\nnodes:\n  - {id: a, args: {x: "{params.v}"}}\n'), {"v": {1}}
    )

    assert [(i.code, i.node_id, i.line) for i in issues] == [("bad_param", "a", 3)]
    assert "give a list" in issues[0].fix
    with pytest.raises(PlanInvalid) as caught:
        bind(plan(PlanNode(id="b", tool="t", args={"x": "{params.v}"})), {"v": {1}})
    assert [issue.node_id for issue in caught.value.issues] == ["b"]
    assert document.value["nodes"][0]["args"] == {"x": "{params.v}"}


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ((1, (2,)), [1, [2]]),
        (np.int64(3), 3),
        (np.str_("x"), "x"),
        (OrderedDict(a=(1,)), {"a": [1]}),
        ({"k": np.bool_(1)}, {"k": True}),
        (2**70, 2**70),
    ],
)
@pytest.mark.parametrize("declared", [False, True])
def test_what_is_bound_is_what_the_text_of_the_plan_gives(value, held, declared):
    made = plan(
        PlanNode(id="a", tool="t", args={"x": "{params.v}"}),
        params={"v": {"type": {int: "int", str: "str", list: "list", dict: "dict"}[type(held)]}}
        if declared
        else {},
    )
    done = bind(made, {"v": value})

    assert repr(done.nodes[0].args["x"]) == repr(held)
    assert draft(read_document(done.to_yaml())).plan == done


def test_dates_are_text_where_the_parameter_is_declared_as_one():
    record = {
        "params": {
            "d": {"type": "date"},
            "m": {"type": "datetime", "default": dt.datetime(2024, 1, 1)},  # noqa: DTZ001 - as users have it
        },
        "nodes": [{"id": "a", "args": ["{params.d}", "{params.m}"]}],
    }

    assert bind(record, {"d": dt.date(2024, 1, 1)})["nodes"][0]["args"] == [
        "2024-01-01",
        "2024-01-01T00:00:00",
    ]


def test_a_default_that_no_plan_could_hold_is_told():
    record = {"params": {"v": {"type": "dict", "default": {1: 2}}}, "name": "{params.v}"}

    (issue,) = refused(record)
    assert issue[:2] == (
        "bad_param",
        "the default of param 'v' has the key 1; the keys of a plan are text",
    )


HOSTILE = [
    "{params.zz}",
    "{params.v}",
    "{{params.zz}}",
    "a {params.zz} {env.HOME}",
    "{{{params.v}}",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_becomes_no_parameter_in_any_field_and_the_plan_needs_none(value):
    text = """\
name: p
objective: "o {params.v}"
nodes:
  - id: a
    tool: t
    description: "{params.v}"
    approve: "go {params.v}"
    when: 'ctx.errors == 0 && "{params.v}" == "{params.v}"'
    store_as: "k {params.v}"
    args: {x: "{params.v}", y: "({params.v})"}
"""
    made = draft(bind_document(read_document(text), {"v": value})[0]).plan

    assert wanted(made) == set()
    assert bind(made, {}) == made
    assert draft(read_document(made.to_yaml())).plan == made
    assert Template(made.nodes[0].args).resolve(Scope(str, str)) == {"x": value, "y": f"({value})"}
    assert Template(made.nodes[0].store_as).resolve(Scope(str, str)) == f"k {value}"
    assert compile_guard(made.nodes[0].when).evaluate({("errors",): 0}) is True


def test_a_parameter_that_is_only_made_by_joining_is_none():
    record = {"objective": "{params.{params.v}} {{params.v}}", "nodes": [{"id": "{params.v}"}]}

    assert bind(record, {"v": "zz"})["objective"] == "{{params.zz}} {{params.v}}"


@pytest.mark.parametrize("value", ["{params.zz}", "{env.HOME} {params.v}", "{{params.v}}"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_in_a_guard_a_value_is_the_text_that_it_is_whatever_it_looks_like(value, quote):
    guard = f"ctx.artifacts.b.k == {quote}{{params.v}}{quote}"
    record = {"nodes": [{"id": "a", "when": guard}]}

    when = bind(record, {"v": value})["nodes"][0]["when"]
    assert compile_guard(when).evaluate({("artifacts", "b", "k"): value}) is True


def test_double_braces_read_no_parameter_in_a_guard():
    record = {"nodes": [{"id": "a", "when": '"{{params.v}}" == "{params.v}"'}]}

    assert bind(record, {"v": "x"})["nodes"][0]["when"] == '"{{params.v}}" == "x"'


def test_missing_parameters_are_told_with_what_the_plan_takes():
    assert refused(read_document(TEXT).value) == [
        (
            "missing_param",
            "{params.date} has no value",
            "give params={'date': ...} or --param date=...; the plan takes date, limit, region, tool",
        ),
        (
            "missing_param",
            "{params.tool} has no value",
            "give params={'tool': ...} or --param tool=...; the plan takes date, limit, region, tool",
        ),
    ]


def test_unused_parameters_are_told_with_the_near_name():
    (issue,) = refused(read_document(TEXT).value, date="2026-08-06", tool="t", regoin="us")

    assert issue[0] == "unused_param"
    assert issue[2].startswith("did you mean 'region'?")
    assert refused({"name": "p", "nodes": []}, x=1)[0][2] == "the plan takes no parameters"


def test_a_declared_parameter_that_nothing_reads_is_unused():
    record = {
        "name": "p",
        "params": {"x": {"default": 1}, "y": {}},
        "nodes": [{"id": "{params.z}"}],
    }

    assert [(code, message.split(",")[0]) for code, message, _ in refused(record, z=1)] == [
        ("unused_param", "params declares 'x'"),
        ("unused_param", "params declares 'y'"),
    ]


def test_values_of_the_wrong_kind_are_told():
    record = read_document(TEXT).value

    assert [i[:2] for i in refused(record, date="soon", limit="x", region="asia", tool="t")] == [
        ("bad_param", "param 'date' must be a date, not 'soon'"),
        ("bad_param", "param 'limit' must be an int, not 'x'"),
        ("bad_param", "param 'region' must be one of 'eu', 'us', not 'asia'"),
    ]


def test_a_default_of_the_wrong_kind_is_told_when_it_is_needed():
    record = {"params": {"n": {"type": "int", "default": "x"}}, "name": "{params.n}"}

    assert refused(record)[0][:2] == (
        "bad_param",
        "the default of param 'n' must be an int, not 'x'",
    )
    assert bind(record, {"n": 1}) == {"name": 1}


def test_an_optional_parameter_without_a_value_is_null():
    record = {
        "params": {"n": {"required": False}},
        "nodes": [{"id": "a", "args": {"x": "{params.n}"}}],
    }

    assert bind(record, {})["nodes"][0]["args"] == {"x": None}


def test_a_block_that_cannot_be_read_is_told():
    assert refused({"params": [1], "name": "p"})[0][:2] == (
        "bad_field",
        "params must be a map of declared parameters, not a list of 1",
    )
    (issue,) = refused({"params": {"x": {"typ": "int"}}, "name": "p"})
    assert issue[:2] == ("unknown_field", "params.x: unknown field 'typ'")


def test_the_issues_of_a_text_have_their_lines_and_nodes():
    _, issues = bind_document(read_document(TEXT), {"limit": "x", "zz": 1})

    assert [(i.code, i.node_id, i.line, i.column) for i in issues] == [
        ("bad_param", None, 5, 10),
        ("unused_param", None, None, None),
        ("missing_param", None, 2, 12),
        ("missing_param", "listing", 9, 11),
    ]


def test_what_a_value_looks_like_never_matters():
    record = {
        "nodes": [
            {
                "id": "a",
                "for_each": {"as": "rep"},
                "args": {"x": "{params.p}"},
                "store_as": "k_{params.p}",
            }
        ]
    }
    node = bind(record, {"p": "{artifacts.b}{rep.id}{params.p}"})["nodes"][0]

    assert Template(node["args"], "rep").resolve(Scope(str, str)) == {
        "x": "{artifacts.b}{rep.id}{params.p}"
    }
    assert (
        Template(node["store_as"], "rep").resolve(Scope(str, str))
        == "k_{artifacts.b}{rep.id}{params.p}"
    )


def test_names_and_descriptions_are_no_templates_so_nothing_is_doubled_in_them():
    record = {
        "name": "{params.p}",
        "objective": "about {params.p}",
        "nodes": [{"id": "a", "description": "{params.p}"}],
    }

    assert bind(record, {"p": "{item}"}) == {
        "name": "{item}",
        "objective": "about {item}",
        "nodes": [{"id": "a", "description": "{item}"}],
    }


@pytest.mark.parametrize(
    ("guard", "value", "found"),
    [
        ("ctx.errors > {params.p}", 3, "ctx.errors > 3"),
        ("{params.p}", True, "true"),
        ('ctx.status.a == "{params.p}"', 'o"k\\', 'ctx.status.a == "o\\"k\\\\"'),
        ("ctx.status.a == '{params.p}'", "o'k\"", "ctx.status.a == 'o\\'k\"'"),
        ("'x' == \"it's {params.p}\"", 'a"', "'x' == \"it's a\\\"\""),
        ("{params.other} && {params.p}", False, "{params.other} && false"),
    ],
)
def test_in_a_guard_a_value_inside_quotes_stays_inside_them(guard, value, found):
    record = {"nodes": [{"id": "a", "when": guard, "args": {"x": "{params.other}"}}]}
    if "other" not in guard:
        record["nodes"][0].pop("args")

    document, _ = bind_document(_document(record), {"p": value})
    assert document.value["nodes"][0]["when"] == found


def _document(record):
    from planbench.plan.document import Document

    return Document(record)


def test_a_plan_that_its_values_make_wrong_is_invalid():
    made = plan(PlanNode(id="a", tool="t", retry={"max_attempts": "{params.n}"}))

    with pytest.raises(
        PlanInvalid, match=re.escape("retry.max_attempts must be less than or equal to 10, not 99")
    ):
        bind(made, {"n": 99})


def test_values_nested_too_deep_are_told():
    deep = []
    for _ in range(300):
        deep = [deep]
    made = plan(PlanNode(id="a", tool="t", args={"x": "{params.p}"}))

    with pytest.raises(PlanInvalid, match="nested deeper"):
        bind(made, {"p": deep})


def test_a_record_that_is_no_plan_is_bound_as_far_as_it_goes():
    record = {
        "nodes": [5, "x {params.p}", {"id": "a", "args": "{params.p}"}, None],
        "name": ["{params.p}"],
    }

    assert bind(record, {"p": 1}) == {
        "nodes": [5, "x 1", {"id": "a", "args": 1}, None],
        "name": [1],
    }


@given(st.text(max_size=30), st.text(alphabet="{}params.xitem", max_size=20))
def test_any_text_arrives_as_it_is(value, around):
    if "{params." in around:
        around = ""
    written = {"alone": "{params.p}", "inside": f"<{{params.p}}> {around}"}
    record = {"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "t", "args": written}]}

    args = bind(record, {"p": value})["nodes"][0]["args"]
    found = Template(args).resolve(Scope(str, str, "ITEM", 0))

    assert found["alone"] == value
    assert found["inside"].startswith(f"<{value}>")


@pytest.mark.parametrize("params", [[1], "x", 5])
def test_parameters_that_are_no_map_are_refused(params):
    with pytest.raises(ConfigurationError, match="params is a map"):
        bind({"name": "p", "nodes": []}, params)
