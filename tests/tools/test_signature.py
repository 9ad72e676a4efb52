from __future__ import annotations

import asyncio
import functools
import math
import typing
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Field

from planbench.errors import ToolError
from planbench.tools import Tool
from planbench.tools.signature import bottom, is_async, is_unbound_method, read_signature

if TYPE_CHECKING:
    import decimal


class Item(typing.TypedDict):
    name: str


class Options(typing.TypedDict):
    key: str
    limit: typing.NotRequired[int]


def names(function: Any) -> list[str]:
    return [one.name for one in read_signature(function, "f").parameters]


def test_a_class_of_the_module_is_found_behind_a_text_annotation():
    def f(items: list[Item], count: int = 3): ...

    signature = read_signature(f, "f")
    assert signature.unread == ()
    assert [one.required for one in signature.parameters] == [True, False]


def test_a_class_local_to_the_running_outer_function_is_found():
    class Local(typing.TypedDict):
        op: int

    def f(one: Local, many: list[Local]): ...

    tool = Tool.from_function(f)
    assert tool.unchecked == ()
    assert tool.check_arguments({"one": {"op": 1}, "many": [{"op": "no"}]}, lambda _: False)


def test_a_class_in_the_closure_is_found_when_the_outer_function_is_over():
    def outer():
        class Local(typing.TypedDict):
            op: int

        def f(one: Local):
            return Local, one

        return f

    signature = read_signature(outer(), "f")
    assert signature.unread == ()


def test_a_name_that_cannot_be_found_makes_its_parameter_take_anything():
    def f(a: decimal.Decimal, b: int): ...

    tool = Tool.from_function(f)
    assert tool.unchecked == ("a",)
    assert tool.validate({"a": object, "b": "3"}) == {"a": object, "b": 3}


@pytest.mark.parametrize("written", ["1 / 0", "not python (", "3", "undefined[int]", "int.nothing"])
def test_an_annotation_that_is_no_type_makes_its_parameter_take_anything(written):
    def f(a, b: int): ...

    f.__annotations__["a"] = written
    tool = Tool.from_function(f)
    assert tool.unchecked == ("a",)
    assert tool.validate({"a": [1], "b": 1}) == {"a": [1], "b": 1}


def test_a_parameter_without_annotation_takes_anything_and_counts_as_read():
    def f(a, b=3): ...

    tool = Tool.from_function(f)
    assert tool.unchecked == ()
    assert tool.validate({"a": {1}}) == {"a": {1}}


def test_a_partial_loses_what_it_binds():
    def f(a: int, b: int, c: int = 3):
        return (a, b, c)

    assert names(functools.partial(f, 1)) == ["b", "c"]
    assert names(functools.partial(f, b=2)) == ["a", "c"]
    assert names(functools.partial(functools.partial(f, b=2), c=4)) == ["a"]


def test_a_bound_method_loses_its_object():
    class Api:
        def fetch(self, key: str):
            return key

        @classmethod
        def make(cls, key: str):
            return key

        @staticmethod
        def plain(key: str):
            return key

    assert names(Api().fetch) == names(Api.make) == names(Api.plain) == ["key"]


def test_a_decorated_function_shows_its_own_parameters():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @logged
    def f(items: list[Item], n: int = 1): ...

    assert names(f) == ["items", "n"]
    assert Tool.from_function(f).check_arguments({"items": [{"name": 1}]}, lambda _: False)


def test_star_args_are_refused_with_what_to_do():
    def f(a, *rest): ...

    with pytest.raises(ToolError, match=r"takes \*rest.*\n.*one list") as caught:
        Tool.from_function(f)
    assert caught.value.tool == "f"


def test_positional_only_parameters_are_refused_with_what_to_do():
    def f(a, /, b): ...

    with pytest.raises(ToolError, match=r"'a' of tool 'f' is positional-only.*\n.*remove the /"):
        Tool.from_function(f)
    with pytest.raises(ToolError, match="positional-only"):
        Tool.from_function(math.sqrt)
    assert names(functools.partial(f, 1)) == ["b"]


def test_a_callable_without_a_readable_signature_is_refused():
    with pytest.raises(ToolError, match=r"cannot be read.*\n.*wrap it"):
        Tool.from_function(max)


def test_double_star_leaves_the_call_open():
    def f(a: int, **rest: str):
        return a, rest

    tool = Tool.from_function(f)
    assert tool.validate({"a": "1", "b": "x"}) == {"a": 1, "b": "x"}
    assert tool.parameters["additionalProperties"] is True
    assert tool.check_arguments({"a": 1, "z": 2}, lambda _: False) == []


def test_a_packed_typed_dict_gives_its_keys_as_parameters():
    def f(**options: typing.Unpack[Options]):
        return options

    tool = Tool.from_function(f)
    assert tool.parameters["required"] == ["key"]
    assert tool.validate({"key": "a", "limit": "3"}) == {"key": "a", "limit": 3}
    assert [p.code for p in tool.check_arguments({"q": 1}, lambda _: False)] == [
        "missing_args",
        "unknown_args",
    ]


def test_a_default_of_none_lets_none_in():
    def f(limit: int = None): ...  # noqa: RUF013 - the very case

    tool = Tool.from_function(f)
    assert tool.validate({"limit": None}) == {"limit": None}
    assert tool.validate({"limit": "3"}) == {"limit": 3}


def test_fields_of_pydantic_give_limits_and_defaults():
    def f(
        a: int = Field(3, ge=1),
        b: Annotated[list[int], Field(default_factory=list)] = ...,
        c: Annotated[int, Field(le=5)] = 2,
        d: Annotated[int, Field(alias="from")] = 7,
    ): ...

    def g(b: Annotated[list[int], Field(default_factory=list)], e: int = Field(ge=3)): ...

    tool = Tool.from_function(f)
    assert tool.validate({})["a"] == 3
    assert tool.validate({"from": 1})["d"] == 1
    assert {p.path for p in tool.check_arguments({"a": 0, "c": 6}, lambda _: False)} == {
        ("a",),
        ("c",),
    }
    assert Tool.from_function(g).validate({"e": 4}) == {"b": [], "e": 4}
    assert Tool.from_function(g).parameters["required"] == ["e"]


def test_names_that_mean_something_to_pydantic_are_plain_names():
    def f(self: int, schema: str, copy: bool, model_config: int, _x: int, json: int = 1): ...

    tool = Tool.from_function(f)
    args = {"self": 1, "schema": "a", "copy": True, "model_config": 2, "_x": 3, "json": 4}
    assert tool.validate(args) == args
    assert [p.path for p in tool.check_arguments({**args, "_x": "no"}, lambda _: False)] == [
        ("_x",)
    ]


def test_the_text_of_a_signature_is_short_and_readable():
    def f(
        key: str, items: list[Item], *, limit: int = 10, names=(), raw: Any = Ellipsis, **more
    ): ...

    f.__annotations__["return"] = dict
    assert read_signature(f, "fetch").text == (
        "fetch(key: str, items: list[Item], limit: int = 10, names=(), raw: Any = ..., **more) -> dict"
    )


def test_the_idempotency_key_is_no_parameter_of_the_plan():
    def f(a: int, idempotency_key: str): ...

    tool = Tool.from_function(f)
    assert tool.wants_idempotency_key
    assert tool.validate({"a": 1}) == {"a": 1}
    assert tool.signature_text == "f(a: int)"
    assert [
        p.code for p in tool.check_arguments({"a": 1, "idempotency_key": "x"}, lambda _: False)
    ] == ["unknown_args"]


def test_is_async_sees_through_partials_methods_and_callable_objects():
    async def co(a): ...

    def plain(a): ...

    class Async:
        async def __call__(self, a): ...

        async def method(self, a): ...

    class Plain:
        def __call__(self, a): ...

    @functools.wraps(co)
    def blocking(a):
        return asyncio.run(co(a))

    for function in (
        co,
        functools.partial(co, a=1),
        Async(),
        functools.partial(Async()),
        Async().method,
    ):
        assert is_async(function)
        assert Tool.from_function(function).is_async
    for function in (plain, functools.partial(plain, a=1), Plain(), blocking, print):
        assert not is_async(function)


def test_the_bottom_of_a_stack_of_callables_is_the_plain_function():
    def f(a): ...

    @functools.lru_cache
    @functools.wraps(f)
    def cached(a): ...

    class Caller:
        def __call__(self, a): ...

    assert bottom(functools.partial(cached, 1)) is f
    assert bottom(Caller()) is Caller.__call__
    assert bottom(print) is print


def test_only_a_function_of_a_class_body_lacks_an_object():
    class Api:
        def fetch(self, a): ...

        @staticmethod
        def plain(a): ...

    def f(self): ...

    assert is_unbound_method(Api.fetch)
    assert not is_unbound_method(Api().fetch)
    assert not is_unbound_method(Api.plain)
    assert not is_unbound_method(f)
