from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import LanguageError
from planbench.plan.builder import Plan
from planbench.plan.conditions import Operand, dotted, literal
from planbench.plan.guards import compile_guard


@pytest.fixture
def plan():
    return Plan("p")


def test_a_comparison_is_the_text_of_a_guard(plan):
    a = plan.add("make", id="a")
    least = plan.param("least", int)
    day = plan.param("day", str)
    n = a.facet("n")

    for condition, text in [
        (n > 0, "ctx.artifacts.a.n > 0"),
        (n <= 1.5, "ctx.artifacts.a.n <= 1.5"),
        (operator.lt(0, n), "ctx.artifacts.a.n > 0"),
        (n == "x", 'ctx.artifacts.a.n == "x"'),
        (n != None, "ctx.artifacts.a.n != null"),  # noqa: E711 - the comparison is kept
        (n == True, "ctx.artifacts.a.n == true"),  # noqa: E712 - as above
        (n >= a.facet("m"), "ctx.artifacts.a.n >= ctx.artifacts.a.m"),
        (n < least, "ctx.artifacts.a.n < {params.least}"),
        (n == day, 'ctx.artifacts.a.n == "{params.day}"'),
        (n.is_in(["a", 1]), 'ctx.artifacts.a.n in ["a", 1]'),
        (a.status == "ok", 'ctx.status.a == "ok"'),
    ]:
        assert condition.text == text
        if "{" not in text:
            assert compile_guard(text).reads


def test_conditions_are_combined_with_signs(plan):
    a = plan.add("make", id="a")
    one, two = a.facet("n") > 1, a.status == "ok"

    assert (one & two).text == '(ctx.artifacts.a.n > 1) && (ctx.status.a == "ok")'
    assert (one | ~two).text == '(ctx.artifacts.a.n > 1) || (!(ctx.status.a == "ok"))'


@pytest.mark.parametrize(
    "use",
    [
        bool,
        lambda n: bool(n > 1),
        lambda n: n > 1 and n < 3,
        lambda n: 0 < n < 3,
        lambda n: not n > 1,
        lambda n: n > 1 if n else 0,
    ],
)
def test_a_guard_has_no_answer_before_the_plan_runs(plan, use):
    with pytest.raises(LanguageError):
        use(plan.add("make").facet("n"))


def test_a_guard_is_text_or_a_comparison(plan):
    a = plan.add("make")

    for wrong in (True, 1, a, a.facet("n")):
        with pytest.raises(LanguageError, match="a guard is a text or a comparison"):
            plan.add("t", when=wrong)
    for wrong in ({1}, object(), float("nan"), 2**64):
        with pytest.raises(LanguageError, match="a guard cannot hold"):
            a.facet("n") > wrong  # noqa: B015 - the comparison is the matter


@pytest.mark.parametrize("name", ["a", "my-id", "in", "null", 'q"uote', "é", "a b", "1"])
def test_a_name_that_cel_would_misread_goes_in_brackets(name):
    condition = Operand(("artifacts", "node", name)) > 0

    assert compile_guard(condition.text).reads == (("artifacts", "node", name),)
    assert dotted(("errors",)) == "ctx.errors"


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)
def test_a_literal_is_the_value(value):
    text = f"ctx.artifacts.a.x == {literal(value)}"

    assert compile_guard(text).evaluate({("artifacts", "a", "x"): value}) is True
