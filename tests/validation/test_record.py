import datetime as dt
import decimal
import enum
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from planbench import PlanInvalid, check_plan, load_plan
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.validation.record import record_document


class Colour(enum.StrEnum):
    RED = "red"


def echo(value=None):
    return value


def record(value, **fields):
    return {
        "name": "p",
        "objective": "o",
        "nodes": [{"id": "a", "tool": "echo", "args": {"value": value}, **fields}],
    }


NO_JSON = [
    dt.date(2024, 1, 1),
    {1, 2},
    b"x",
    decimal.Decimal("1.1"),
    {1: 2},
    {"\ud83d": 1},
    [{"k": {None: 1}}],
    object(),
    echo,
    "\ud83d",
    pd.DataFrame({"a": [1]}),
    pd.Series([1]),
    np.arange(2),
]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: type(value).__name__)
def test_what_no_plan_file_could_hold_is_refused_in_a_map_and_says_where(value):
    report = check_plan(record(value), [echo])

    assert not report.ok
    assert report.plan is None
    assert [(issue.code, issue.node_id) for issue in report.issues] == [("bad_field", "a")]
    assert "args.value" in report.issues[0].message
    with pytest.raises(PlanInvalid, match=r"args\.value"):
        load_plan({"plan": record(value)})


@pytest.mark.parametrize("field", ["id", "tool", "description", "when", "store_as", "timeout"])
@pytest.mark.parametrize("value", [pd.DataFrame({"a": [1]}), np.arange(3), pd.NaT, np.int64(3)])
def test_no_field_of_a_map_makes_the_check_raise(field, value):
    report = check_plan(record(1, **{field: value}), [echo])

    assert report.ok == (field == "timeout" and isinstance(value, np.int64))


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ((1, (2,)), [1, [2]]),
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.bool_(1), True),
        (Colour.RED, "red"),
        ({"k": (Colour.RED,)}, {"k": ["red"]}),
        ({Colour.RED: 1, "é": 2}, {"red": 1, "é": 2}),
    ],
)
def test_a_plan_that_is_given_as_a_map_is_the_one_that_its_text_gives(value, held):
    plan = load_plan(record(value))

    assert plan.nodes[0].args == {"value": held}
    assert type(plan.nodes[0].args["value"]) is type(held)
    assert load_plan(plan.to_yaml()) == load_plan(plan.to_json()) == plan


def test_dates_stand_in_a_declared_parameter_as_text():
    day = {"type": "date", "default": dt.date(2024, 1, 1), "choices": [dt.date(2024, 1, 1)]}
    plan = load_plan({**record("{params.day}"), "params": {"day": day}})

    assert plan.params["day"].default == "2024-01-01"
    assert load_plan(plan.to_yaml()) == plan


def test_a_map_may_hold_nodes_that_are_models_and_is_not_changed():
    node = PlanNode(id="b", tool="echo")
    given = record([1])
    given["nodes"].append(node)
    kept = {**given, "nodes": list(given["nodes"])}

    assert load_plan(given).nodes[1] == node
    assert given == kept


class Rows(Mapping):
    """A map that makes its values anew each time."""

    def __getitem__(self, key):
        return (key, [key])

    def __iter__(self):
        return iter([f"k{place}" for place in range(50)])

    def __len__(self):
        return 50


def test_any_kind_of_map_is_read_as_the_dict_that_it_stands_for():
    held = load_plan(record(Rows())).nodes[0].args["value"]

    assert held == {f"k{place}": [f"k{place}", [f"k{place}"]] for place in range(50)}


def test_a_value_that_stands_in_many_places_is_read_once():
    value = [1]
    for _ in range(20):
        value = (value, value)

    assert record_document(record(value)).problems == []


def test_a_value_within_itself_is_an_issue():
    value = []
    value += [value, value]

    report = check_plan(record(value), [echo])

    assert [(issue.code, issue.node_id) for issue in report.issues] == [("bad_field", "a")]
    assert "nested deeper" in report.issues[0].message


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: type(value).__name__)
def test_the_arguments_of_a_model_are_held_to_the_same(value):
    node = PlanNode(id="b", tool="echo", args={"value": value})
    given = record([1])
    given["nodes"].append(node)

    for source in (ExecutionPlan(name="p", objective="o", nodes=[node]), given):
        report = check_plan(source, [echo])
        assert report.plan is None
        assert [(issue.code, issue.node_id) for issue in report.issues] == [("bad_field", "b")]
        assert "args.value" in report.issues[0].message
