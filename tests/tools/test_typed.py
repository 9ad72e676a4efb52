from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import typing
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from planbench.errors import ToolArgumentsInvalid
from planbench.tools import Tool, tool

UNKNOWN = "{artifacts.listing}"
Numbers = collections.abc.Iterable[int]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Filter(typing.TypedDict):
    op: Literal["eq", "ne"]
    value: typing.NotRequired[int | list[int]]


class Tree(typing.TypedDict, total=False):
    name: str
    kids: list[Tree]


class Model(BaseModel):
    a: int
    tags: list[str] = []
    inner: Point | None = None


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


@tool
def rich(
    filters: list[Filter],
    model: Model,
    point: Point,
    table: dict[str, list[int]],
    either: int | list[Filter] | Model,
    pet: Annotated[Cat | Dog, Field(discriminator="kind")],
    *,
    pair: tuple[int, str] = (0, ""),
    color: Color = Color.RED,
    limit: Annotated[int, Field(ge=1, le=10)] = 3,
    day: dt.date | None = None,
) -> list[Filter]:
    """Take everything."""
    return [filters, model, point, table, either, pet, pair, color, limit, day]


words = st.text("abc", min_size=1, max_size=3)
numbers = st.integers(-5, 5)
filter_values = st.fixed_dictionaries(
    {"op": st.sampled_from(["eq", "ne"])},
    optional={"value": numbers | st.lists(numbers, max_size=2)},
)
points = st.fixed_dictionaries({"x": st.floats(-1, 1)}, optional={"y": st.floats(-1, 1)})
models = st.fixed_dictionaries(
    {"a": numbers}, optional={"tags": st.lists(words, max_size=2), "inner": points | st.none()}
)
pets = st.fixed_dictionaries({"kind": st.just("cat"), "lives": numbers}) | st.fixed_dictionaries(
    {"kind": st.just("dog"), "name": words}
)
rich_args = st.fixed_dictionaries(
    {
        "filters": st.lists(filter_values, max_size=3),
        "model": models,
        "point": points,
        "table": st.dictionaries(words, st.lists(numbers, max_size=2), max_size=2),
        "either": numbers | st.lists(filter_values, min_size=1, max_size=2) | models,
        "pet": pets,
    },
    optional={
        "pair": st.tuples(numbers, words).map(list),
        "color": st.sampled_from(["red", "blue"]),
        "limit": st.integers(1, 10),
        "day": st.dates().map(str) | st.none(),
    },
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Give the path of each value inside a value."""
    inner = list(value.items()) if isinstance(value, dict) else []
    inner += list(enumerate(value)) if isinstance(value, list) else []
    return [p for key, one in inner for p in [(*path, key), *places(one, (*path, key))]]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Copy a value with another one at a path."""
    if not path:
        return new
    head, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[head] = put(value[head], tuple(rest), new)
    return copy


def is_unknown(value: Any) -> bool:
    return isinstance(value, str) and value == UNKNOWN


@given(st.text(), st.integers(), st.booleans(), st.lists(st.integers()))
def test_values_of_the_right_type_reach_the_function_as_they_are(key, limit, flag, more):
    def f(key: str, limit: int = 1, flag: bool = False, more: list[int] = ()):
        return key, limit, flag, more

    args = {"key": key, "limit": limit, "flag": flag, "more": more}
    made = tool(f)
    assert made(**made.validate(args)) == f(**args)
    assert made(**made.validate({"key": key})) == f(key)


@given(st.integers(), st.booleans(), st.dates(), st.sampled_from(Color))
def test_text_is_coerced_to_what_the_signature_says(number, flag, day, color):
    def f(number: int, flag: bool, day: dt.date, color: Color): ...

    args = {"number": str(number), "flag": str(flag), "day": day.isoformat(), "color": color.value}
    assert tool(f).validate(args) == {"number": number, "flag": flag, "day": day, "color": color}


@given(rich_args)
def test_arguments_that_fit_validate_and_check(args):
    assert rich.check_arguments(args, is_unknown) == []
    values = rich.validate(args)
    assert values.keys() == args.keys()
    assert isinstance(values["model"], Model)
    assert isinstance(values["point"], Point)


@given(rich_args, st.data())
def test_an_unknown_fits_at_any_depth(args, data):
    chosen = data.draw(st.lists(st.sampled_from(places(args)), min_size=1, max_size=3))
    for path in sorted(chosen, key=len, reverse=True):
        args = put(args, path, UNKNOWN)
    assert rich.check_arguments(args, is_unknown) == []


@given(rich_args, st.data())
def test_what_is_wrong_beside_an_unknown_is_still_found(args, data):
    args["filters"] = [{"op": "eq"}, {"op": "no"}]
    others = [path for path in places(args) if path[0] != "filters"]
    args = put(args, data.draw(st.sampled_from(others)), UNKNOWN)
    args = put(args, ("filters", 0, "op"), UNKNOWN)
    (problem,) = rich.check_arguments(args, is_unknown)
    assert (problem.code, problem.path) == ("bad_arg_type", ("filters", 1, "op"))
    assert problem.message == "args.filters[1].op should be 'eq' or 'ne' (got str)"


BASE = {
    "filters": [],
    "model": {"a": 1},
    "point": {"x": 1},
    "table": {},
    "either": 1,
    "pet": {"kind": "cat", "lives": 9},
}


@pytest.mark.parametrize(
    ("name", "value", "paths"),
    [
        ("filters", {"op": "eq"}, [("filters",)]),
        ("filters", [{"op": "eq"}, 3], [("filters", 1)]),
        ("filters", [{"value": 1}], [("filters", 0, "op")]),
        ("filters", [{"op": "eq", "valeu": 1}], [("filters", 0, "valeu")]),
        ("filters", [{"op": "eq", "value": "x"}], [("filters", 0, "value")]),
        ("filters", [{"op": "eq", "value": [1, "x"]}], [("filters", 0, "value", 1)]),
        ("model", {}, [("model", "a")]),
        ("model", {"a": 1, "tags": [1]}, [("model", "tags", 0)]),
        ("model", {"a": 1, "inner": {}}, [("model", "inner", "x")]),
        ("point", {"x": "far"}, [("point", "x")]),
        ("point", {"x": 1, "z": 1}, [("point", "z")]),
        ("table", {"k": [1, None]}, [("table", "k", 1)]),
        ("either", "much", [("either",)]),
        ("either", [{"op": "zz"}], [("either", 0, "op")]),
        ("pet", {"kind": "cow"}, [("pet",)]),
        ("pet", {"kind": "dog"}, [("pet", "name")]),
        ("pair", [1], [("pair", 1)]),
        ("pair", ["x", "y"], [("pair", 0)]),
        ("color", "green", [("color",)]),
        ("limit", 11, [("limit",)]),
        ("limit", {"n": UNKNOWN}, [("limit",)]),
        ("limit", [UNKNOWN], [("limit",)]),
        ("filters", [{"op": [UNKNOWN]}], [("filters", 0, "op")]),
        ("pair", [1, UNKNOWN, UNKNOWN], [("pair",)]),
        ("day", "2024-13-01", [("day",)]),
    ],
)
def test_a_wrong_literal_is_named_with_its_path(name, value, paths):
    problems = rich.check_arguments({**BASE, name: value}, is_unknown)
    assert [problem.path for problem in problems] == paths
    assert {problem.code for problem in problems} == {"bad_arg_type"}


def test_a_union_says_what_each_branch_wants_in_one_line():
    def f(limit: int | list[int] | None = None): ...

    (problem,) = tool(f).check_arguments({"limit": {}}, is_unknown)
    assert problem.message == "args.limit should be a valid integer or a valid list (got dict)"


def test_unknown_and_missing_arguments_have_codes_of_their_own():
    problems = rich.check_arguments(
        {**{k: v for k, v in BASE.items() if k != "table"}, "limt": UNKNOWN}, is_unknown
    )
    assert [(p.code, p.path) for p in problems] == [
        ("missing_args", ("table",)),
        ("unknown_args", ("limt",)),
    ]
    assert problems[0].message == "tool 'rich' needs the argument 'table'"
    assert problems[1].message == "tool 'rich' has no argument 'limt': did you mean 'limit'?"


def test_a_typed_dict_in_a_call_keeps_keys_that_it_does_not_name():
    value = {"op": "eq", "more": {"deep": 1}}
    assert rich.validate({**BASE, "filters": [value]})["filters"] == [value]


def test_a_typed_dict_with_a_config_of_its_own_is_as_exact_as_it_says():
    class Exact(typing_extensions.TypedDict):
        __pydantic_config__ = ConfigDict(extra="forbid")
        a: int

    def f(one: Exact): ...

    with pytest.raises(ToolArgumentsInvalid, match=r"args\.one\.b is not a known key"):
        tool(f).validate({"one": {"a": 1, "b": 2}})


def test_a_typed_dict_inside_itself_is_checked_to_be_a_map():
    def f(tree: Tree): ...

    made = tool(f)
    assert made.check_arguments({"tree": {"kids": [{"kids": []}]}}, is_unknown) == []
    (problem,) = made.check_arguments({"tree": {"kids": [3]}}, is_unknown)
    assert problem.path == ("tree", "kids", 0)


def test_a_slotted_dataclass_takes_no_further_keys_in_a_call():
    @dataclasses.dataclass(slots=True)
    class Slim:
        a: int

    def f(one: Slim): ...

    made = tool(f)
    assert made.validate({"one": {"a": "1"}}) == {"one": Slim(1)}
    with pytest.raises(ToolArgumentsInvalid, match=r"args\.one\.b is not a known key"):
        made.validate({"one": {"a": 1, "b": 2}})


def test_a_frame_is_taken_as_it_is_and_nothing_else_is_one():
    def f(frame: pd.DataFrame, maybe: pd.DataFrame | None = None): ...

    made, frame = tool(f), pd.DataFrame({"a": [1]})
    assert made.validate({"frame": frame})["frame"] is frame
    assert made.check_arguments({"frame": {"a": UNKNOWN}}, is_unknown)
    (problem,) = made.check_arguments({"frame": [1]}, is_unknown)
    assert problem.message == "args.frame should be an instance of DataFrame (got list)"
    assert made.parameters["properties"]["frame"] == {"description": "an instance of DataFrame"}


def test_a_frame_as_a_default_or_a_value_is_never_compared():
    frame = pd.DataFrame({"a": [1]})

    def f(a: Any = frame, b: list[Any] = (), c: int = 1): ...

    made = tool(f)
    assert made.validate({"a": frame, "b": [frame]})["b"][0] is frame
    with pytest.raises(ToolArgumentsInvalid, match=r"args\.c .*\(got DataFrame\)"):
        made.validate({"b": [frame], "c": frame})


def test_numpy_values_count_as_numbers():
    def f(n: int, x: float, many: list[int]): ...

    values = tool(f).validate({"n": np.int64(3), "x": np.float32(2), "many": np.array([1, 2])})
    assert values == {"n": 3, "x": 2.0, "many": [1, 2]}


SECRET = "canary-8713"


def _refuse(value):
    raise ValueError(f"never {value}")


def _broken(value):
    raise KeyError(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, SECRET),
        (list[int], [SECRET]),
        (Literal["a"], SECRET),
        (dt.datetime, SECRET),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": SECRET}),
        (Annotated[str, Field(pattern="^x")], SECRET),
        (Annotated[str, AfterValidator(_refuse)], SECRET),
        (Annotated[str, BeforeValidator(_broken)], SECRET),
        (Filter, {"op": SECRET}),
        (Model, SECRET),
        (int | list[int], {"a": SECRET}),
    ],
)
def test_a_refused_call_never_quotes_the_value(kind, value):
    def f(one): ...

    f.__annotations__["one"] = kind
    with pytest.raises(ToolArgumentsInvalid) as caught:
        tool(f).validate({"one": value})
    assert SECRET not in str(caught.value)
    assert not any(SECRET in problem.message for problem in caught.value.problems)
    assert "http" not in str(caught.value)
    assert "args" in str(caught.value)


def test_a_refused_call_names_tool_path_wish_and_type():
    with pytest.raises(ToolArgumentsInvalid) as caught:
        rich.validate({**BASE, "limit": 0, "filters": [{"op": 3}]})
    assert caught.value.tool == "rich"
    assert str(caught.value) == (
        "tool 'rich' refuses its arguments: "
        "args.filters[0].op should be 'eq' or 'ne' (got int); "
        "args.limit should be greater than or equal to 1 (got int)"
    )


def test_a_check_of_a_plan_tells_what_a_validator_said():
    def f(one: Annotated[str, AfterValidator(_refuse)]): ...

    (problem,) = tool(f).check_arguments({"one": "x"}, is_unknown)
    assert problem.message == "args.one is refused: never x (got str)"


def test_a_validator_that_fails_on_an_unknown_says_nothing_about_the_plan():
    def f(one: Annotated[str, BeforeValidator(_broken)], two: int = 1): ...

    assert tool(f).check_arguments({"one": UNKNOWN}, is_unknown) == []
    (problem,) = tool(f).check_arguments({"one": "x"}, is_unknown)
    assert "KeyError" in problem.message


def test_a_validator_of_a_model_that_meets_an_unknown_field_says_nothing():
    class Range(BaseModel):
        low: str
        high: str

        def model_post_init(self, _context):
            if self.low > self.high:
                raise ValueError("low is above high")

    def f(span: Range): ...

    made = tool(f)
    assert made.check_arguments({"span": {"low": "2", "high": "1"}}, is_unknown)
    assert made.check_arguments({"span": {"low": UNKNOWN, "high": "1"}}, is_unknown) == []


def test_a_type_that_pydantic_cannot_use_takes_anything():
    class Odd:
        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            raise RuntimeError("no")

    def f(odd: Odd, n: int = 1): ...

    made = tool(f)
    assert made.unchecked == ("odd",)
    assert made.validate({"odd": 3, "n": "2"}) == {"odd": 3, "n": 2}
    assert made.parameters["required"] == ["odd"]


def test_the_schema_of_the_parameters_is_plain_json_schema():
    assert rich.parameters["required"] == [
        "filters",
        "model",
        "point",
        "table",
        "either",
        "pet",
    ]
    properties = rich.parameters["properties"]
    assert properties["limit"] == {"type": "integer", "minimum": 1, "maximum": 10, "default": 3}
    assert properties["color"]["default"] == "red"
    assert rich.parameters["additionalProperties"] is False
    assert "title" not in rich.parameters


@pytest.mark.parametrize(
    ("returns", "schema"),
    [
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (int, {"type": "integer"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (typing.Awaitable[int], {"type": "integer"}),
        (
            dict[str, pd.DataFrame],
            {"type": "object", "additionalProperties": {"description": "an instance of DataFrame"}},
        ),
        (pd.DataFrame, None),
        (Any, None),
        (None, None),
        ("nowhere.Thing", None),
    ],
)
def test_the_output_shape_comes_from_the_return_annotation(returns, schema):
    def f(): ...

    f.__annotations__["return"] = returns
    assert tool(f).output_schema == schema


@pytest.mark.parametrize("kind", [Filter, Model, Point])
def test_records_give_an_output_shape_with_their_fields(kind):
    def f(): ...

    f.__annotations__["return"] = kind
    schema = tool(f).output_schema
    assert schema["type"] == "object"
    assert schema["properties"]
    f.__annotations__["return"] = list[kind]
    assert tool(f).output_schema["items"]["$ref"].endswith(kind.__name__)


def test_no_annotation_gives_no_output_shape():
    def f(): ...

    assert tool(f).output_schema is None


def test_deep_and_wide_arguments_are_checked_without_recursion():
    deep: Any = UNKNOWN
    for _ in range(3000):
        deep = [deep]

    def f(a: Any, n: int = 1): ...

    (problem,) = tool(f).check_arguments({"a": deep, "n": "x"}, is_unknown)
    assert problem.path == ("n",)


def test_many_problems_are_told_shortly():
    def f(many: list[int]): ...

    with pytest.raises(ToolArgumentsInvalid) as caught:
        tool(f).validate({"many": ["x"] * 10_000})
    assert len(caught.value.problems) == 20
    assert len(str(caught.value)) < 700
    assert str(caught.value).endswith("more")


def test_a_tool_of_pydantic_models_from_elsewhere_takes_their_instances():
    model = Model(a=1)
    assert rich.validate({**BASE, "model": model})["model"] is model
    assert isinstance(rich, Tool)


def test_an_iterable_is_handed_on_as_it_is_and_literals_are_checked():
    def f(many: Numbers, deep: list[Numbers] = ()):
        return list(many), list(many)

    made = tool(f)
    values = made.validate({"many": [1, 2], "deep": [(3,)]})
    assert values == {"many": [1, 2], "deep": [(3,)]}
    assert made(**values) == ([1, 2], [1, 2])
    assert made.validate({"many": {1: 2}.keys()})["many"] == {1}
    assert [p.path for p in made.check_arguments({"many": ["x"]}, is_unknown)] == [("many", 0)]
    with pytest.raises(ToolArgumentsInvalid, match=r"args\.many should be an instance of Iterable"):
        made.validate({"many": 3})


def test_a_protocol_or_self_as_a_type_takes_anything():
    class Readable(typing.Protocol):
        def read(self) -> str: ...

    def f(one: Readable, two: typing.Self | None = None, n: int = 1): ...

    made = tool(f)
    assert made.unchecked == ("one", "two")
    assert made.validate({"one": 1, "two": 2, "n": "3"}) == {"one": 1, "two": 2, "n": 3}


def test_a_type_whose_json_schema_fails_leaves_the_names():
    class Odd(BaseModel):
        a: int

        @classmethod
        def __get_pydantic_json_schema__(cls, core, handler):
            raise RuntimeError("no")

    def f(odd: Odd, n: int = 1) -> Odd: ...

    made = tool(f)
    assert made.parameters["required"] == ["odd"]
    assert list(made.parameters["properties"]) == ["odd", "n"]
    assert made.output_schema is None
    assert made.validate({"odd": {"a": "1"}})["odd"].a == 1
