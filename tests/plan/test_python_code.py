from __future__ import annotations

import builtins

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import load_plan
from planbench.plan.python_code import to_python


def made(code):
    """Run builder code where nothing but planbench can be reached."""

    def only_planbench(name, *rest):
        assert name == "planbench", name
        return builtins.__import__(name, *rest)

    allowed = {
        name: getattr(builtins, name) for name in ("str", "int", "float", "bool", "list", "dict")
    }
    space = {"__builtins__": {**allowed, "__import__": only_planbench}}
    exec(compile(code, "plan.py", "exec"), space)
    return space["plan"]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_code_of_any_plan_makes_an_equal_plan(plans, data):
    plan = data.draw(plans)

    assert made(to_python(plan)) == plan
