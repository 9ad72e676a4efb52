from __future__ import annotations

import asyncio
import functools
import inspect
import logging

import pytest

from planbench.errors import ToolError
from planbench.tools import Tool, observe_definitions, tool


def test_a_decorated_function_is_a_tool_that_is_called_as_before():
    @tool
    def fetch(key: str, limit: int = 10) -> dict:
        """Fetch one report.

        From the store.
        """
        return {"key": key, "limit": limit}

    assert isinstance(fetch, Tool)
    assert fetch("a", limit=3) == {"key": "a", "limit": 3}
    assert (fetch.name, fetch.description) == ("fetch", "Fetch one report.\n\nFrom the store.")
    assert (fetch.effects, fetch.idempotent, fetch.cost, fetch.is_async) == (
        "read",
        True,
        None,
        False,
    )
    assert fetch.module == __name__
    assert fetch.signature_text == "fetch(key: str, limit: int = 10) -> dict"
    assert repr(fetch) == "<Tool fetch(key: str, limit: int = 10) -> dict>"
    assert inspect.signature(fetch) == inspect.signature(fetch.function)
    assert fetch.__doc__ == fetch.description


def test_options_of_the_decorator_are_kept():
    @tool(name="send_mail", description="Send.", effects="write", idempotent=True, cost=0.5)
    def send(to: str): ...

    assert (send.name, send.description, send.effects) == ("send_mail", "Send.", "write")
    assert (send.idempotent, send.cost) == (True, 0.5)


@pytest.mark.parametrize(
    ("effects", "idempotent"), [("read", True), ("write", False), ("destructive", False)]
)
def test_only_tools_that_read_are_idempotent_by_themselves(effects, idempotent):
    def f(): ...

    assert Tool.from_function(f, effects=effects).idempotent is idempotent


def test_effects_outside_of_the_choices_are_refused():
    with pytest.raises(ToolError, match="'read', 'write' or 'destructive', not 'wirte'"):
        tool(effects="wirte")(len_of)
    with pytest.raises(ToolError, match="effects"):
        Tool.from_schema("f", "", {}, print, effects="none")


def test_an_async_tool_gives_its_coroutine():
    @tool
    async def fetch(key: str) -> str:
        return key

    assert fetch.is_async
    assert asyncio.run(fetch("a")) == "a"


def test_an_argument_called_self_reaches_the_function():
    @tool
    def f(self: int, args: int = 0):
        return self, args

    assert f(self=1, args=2) == (1, 2)
    assert f(**f.validate({"self": "3"})) == (3, 0)


def test_partials_objects_and_lambdas_have_a_name_and_a_text():
    def fetch(key: str, limit: int = 3):
        """Fetch one."""
        return key, limit

    class Scorer:
        """Score things."""

        def __call__(self, n: int):
            return n

    partial = Tool.from_function(functools.partial(fetch, limit=5))
    assert (partial.name, partial.description) == ("fetch", "Fetch one.")
    assert partial(**partial.validate({"key": "a"})) == ("a", 5)
    scorer = Tool.from_function(Scorer())
    assert (scorer.name, scorer.description, scorer.module) == ("Scorer", "Score things.", __name__)
    assert Tool.from_function(lambda a: a, name="same").name == "same"
    with pytest.raises(ToolError, match=r"lambda has no name.*\n.*name=") as caught:
        tool(lambda a: a)
    assert caught.value.hint


@pytest.mark.parametrize("thing", [3, "fetch", None, int, object(), [print]])
def test_what_cannot_be_called_with_names_is_no_tool(thing):
    with pytest.raises(ToolError, match="cannot be a tool"):
        Tool.from_function(thing)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, 3])
def test_a_name_that_cannot_be_written_is_refused(name):
    with pytest.raises(ToolError, match="tool's name"):
        Tool.from_function(print, name=name)


def test_a_tool_made_of_a_tool_uses_its_function():
    def f(a: int): ...

    again = Tool.from_function(Tool.from_function(f), name="g", effects="write")
    assert (again.function, again.name, again.effects) == (f, "g", "write")


def test_a_tool_in_a_class_body_binds_like_a_method():
    class Store:
        def __init__(self, base):
            self.base = base

        @tool(effects="write")
        def put(self, n: int) -> int:
            """Put one."""
            return self.base + n

    assert Store.put.needs_object
    bound = Store(10).put
    assert not bound.needs_object
    assert bound.effects == "write"
    assert bound(**bound.validate({"n": "5"})) == 15
    assert bound.check_arguments({}, lambda _: False)[0].path == ("n",)
    assert bound.signature_text == "put(n: int) -> int"
    assert Store(20).put(n=1) == 21


def test_a_plain_tool_kept_on_a_class_does_not_bind():
    made = Tool.from_function(len_of)

    class Holder:
        kept = made

    assert Holder().kept is made
    assert Holder().kept([1]) == 1


def len_of(value):
    return len(value)


def test_an_observer_hears_of_each_decorated_function_until_it_stops():
    heard = []
    stop = observe_definitions(heard.append)
    try:
        first = tool(len_of)
        second = tool(name="other")(len_of)
        Tool.from_function(len_of)

        class Store:
            @tool
            def put(self, n: int): ...

        assert heard == [first, second]
    finally:
        stop()
    stop()
    tool(len_of)
    assert heard == [first, second]


def test_an_observer_that_fails_breaks_no_definition(caplog):
    def fail(_):
        raise RuntimeError("observer")

    stop = observe_definitions(fail)
    try:
        with caplog.at_level(logging.ERROR):
            assert tool(len_of).name == "len_of"
    finally:
        stop()
    assert "observer" in caplog.text


def test_arguments_that_are_no_map_are_refused_like_any_other():
    made = Tool.from_function(len_of)
    (problem,) = made.check_arguments([1], lambda _: False)
    assert problem.message == "args should be a valid dictionary (got list)"
    assert [p.code for p in made.check_arguments({1: 2}, lambda _: False)]
