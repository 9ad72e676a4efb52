from __future__ import annotations

import contextlib
import enum
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import GuardError
from planbench.plan.guards import MAX_GUARD, Guard, compile_guard

X = ("artifacts", "a", "x")


def holds(text, values=None):
    return compile_guard(text).evaluate(values or {})


def refused(text):
    with pytest.raises(GuardError) as caught:
        compile_guard(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("ctx.artifacts.listing.n_reports > 0", [("artifacts", "listing", "n_reports")]),
        ('ctx.artifacts["my-id"].count > 0', [("artifacts", "my-id", "count")]),
        ('ctx["artifacts"]["my-id"]["count"] > 0', [("artifacts", "my-id", "count")]),
        ('ctx.artifacts.a.sev["high"] > 3', [("artifacts", "a", "sev")]),
        ('ctx.status.fetch == "ok"', [("status", "fetch")]),
        ("ctx.errors == 0", [("errors",)]),
        ("has(ctx.artifacts.a.x)", [X]),
        ("has(ctx.artifacts.a)", [("artifacts", "a")]),
        ('"x" in ctx.artifacts.a', [("artifacts", "a")]),
        (".ctx.artifacts.a.x > 1", [X]),
        ('{"k": ctx.artifacts.a.x}.k', [X]),
        (
            '[ctx.status.b, ctx.status.c].all(s, s == "ok") && ctx.artifacts.a.x',
            [("status", "b"), ("status", "c"), X],
        ),
        (
            'ctx.artifacts.a.x > 1 ? ctx.status.b == "ok" : ctx.errors > 0',
            [X, ("status", "b"), ("errors",)],
        ),
        ("ctx.artifacts.a.x > 1 && ctx.artifacts.a.x < 9", [X]),
        ("true", []),
        ('"ctx.artifacts.a.x" == "ctx.status.b"', []),
        ("[[true]].all(ctx, ctx[0])", []),
        ("true // ctx.artifacts.a.x", []),
    ],
)
def test_what_a_guard_reads_is_taken_from_the_checked_expression(text, reads):
    assert list(compile_guard(text).reads) == reads


def test_only_what_the_guard_reads_is_handed_on():
    class Untouchable(dict):
        def items(self):
            raise AssertionError

    values = {X: 2, ("artifacts", "b", "y"): Untouchable(), ("status", "a"): object()}
    assert holds("ctx.artifacts.a.x == 2", values) is True


@pytest.mark.parametrize(
    ("text", "values", "answer"),
    [
        ("ctx.artifacts.a.x > 0.5", {X: 1}, True),
        ("ctx.artifacts.a.x > 0.5", {X: np.int64(1)}, True),
        ("ctx.artifacts.a.x > 0.5", {X: np.float64(0.25)}, False),
        ("ctx.artifacts.a.x", {X: np.bool_(1)}, True),
        ('ctx.artifacts.a.x == "y"', {X: np.str_("y")}, True),
        ("ctx.artifacts.a.x > 0.5", {X: float("nan")}, False),
        ("ctx.artifacts.a.x > 0.5", {X: float("inf")}, True),
        ("ctx.artifacts.a.x > 0.5", {X: 2**63}, True),
        ("ctx.artifacts.a.x == 1", {X: 2**63}, False),
        ("ctx.artifacts.a.x == null", {X: None}, True),
        ("ctx.artifacts.a.x != null", {X: 1}, True),
        ("ctx.artifacts.a.x", {X: True}, True),
        ("!ctx.artifacts.a.x", {X: False}, True),
        ('ctx.artifacts.a.x["high"] > 3', {X: {"high": 4}}, True),
        ('ctx.artifacts.a.x.exists(v, v == "b")', {X: ("a", "b")}, True),
        ("has(ctx.artifacts.a.x)", {}, False),
        ("has(ctx.artifacts.a.x)", {X: None}, True),
        ("has(ctx.artifacts.a) && ctx.artifacts.a.x > 1", {("artifacts", "a"): {"x": 2}}, True),
        ("has(ctx.artifacts.a) && ctx.artifacts.a.x > 1", {}, False),
        ("ctx.artifacts.a.x > 1 || true", {}, True),
        ('ctx.status.a == "ok"', {("status", "a"): "skipped"}, False),
        ("ctx.errors > 1", {("errors",): 2}, True),
        ("ctx.errors > 0.5", {("errors",): 1}, True),
        ("has(ctx.errors) && ctx.errors == 0", {("errors",): 0}, True),
    ],
)
def test_a_guard_answers_yes_or_no(text, values, answer):
    assert holds(text, values) is answer


class Count(enum.IntEnum):
    TWO = 2


def test_numbers_of_a_kind_of_their_own_are_numbers():
    assert holds("ctx.artifacts.a.x == 2", {X: Count.TWO})


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        "a\0b",
        "\ud800",
        b"bytes",
        {1, 2},
        object(),
        pd.NA,
        pd.NaT,
        pd.Timestamp("2026-01-01"),
        pd.DataFrame({"x": [1]}),
        np.arange(3),
        np.datetime64("2026-01-01"),
        np.complex128(1),
        1 + 2j,
        {"k": 2**70},
        [b"x"],
    ],
)
def test_a_value_that_cel_cannot_hold_is_a_guard_error_that_names_the_facet(value):
    with pytest.raises(GuardError, match=r"ctx.artifacts.a.x holds .* a guard cannot read"):
        holds("ctx.artifacts.a.x == 1", {X: value})


LONG = "x" * 199 + "…"


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("size(ctx.artifacts.a.x) > 0", "<list of 0>", "says only <list of 0>"),
        ("ctx.artifacts.a.x.size() == 2", "<list of 2>", "says only <list of 2>"),
        ("'a' in ctx.artifacts.a.x", ["<list of 2>"], "says only <list of 2>"),
        ("ctx.artifacts.a.x.all(v, v != 'a')", ["<list of 2>", "b"], "says only <list of 2>"),
        ("ctx.artifacts.a.x != ''", "<set of 0>", "says only <set of 0>"),
        ("ctx.artifacts.a.x == '<list of 2>'", "<list of 2>", "says only <list of 2>"),
        ("ctx.artifacts.a.x != null", "<UUID object>", "says only <UUID object>"),
        ("ctx.artifacts.a.x.k != ''", {"k": "<list of 0>"}, "says only <list of 0>"),
        ("ctx.artifacts.a.x[ctx.status.b] != ''", {"k": "<list of 0>"}, "says only"),
        ("ctx.artifacts.a.x.contains('y')", LONG, "is cut at 200 characters"),
        ("size(ctx.artifacts.a.x) > 200", LONG, "is cut at 200 characters"),
        ("ctx.artifacts.a.x.endsWith('x')", LONG, "is cut at 200 characters"),
        (f"ctx.artifacts.a.x == '{'x' * 201}'", LONG, "is cut at 200 characters"),
        (f"ctx.artifacts.a.x in ['a', '{LONG}']", LONG, "is cut at 200 characters"),
        ("ctx.artifacts.a.x == ctx.status.b", LONG, "is cut at 200 characters"),
        ("['a'].exists(v, v == ctx.artifacts.a.x)", LONG, "is cut at 200 characters"),
        ("ctx.artifacts.a.x == 'a'", ["a"], "is a list of 1, and is compared with a plain value"),
        ("ctx.artifacts.a.x != 0", {"k": 1}, "is a map of 1, and is compared with a plain value"),
        (
            "!('low' in ctx.artifacts.a.x)",
            {"high": 3, "(other)": 1},
            "names the largest groups only",
        ),
        ("!has(ctx.artifacts.a.x.low)", {"high": 3, "(other)": 1}, "names the largest groups only"),
        ("!('c' in ctx.artifacts.a.x)", ["a", "b", "(other)"], "names only some of what there is"),
        ("size(ctx.artifacts.a.x) == 3", ["a", "b", "(other)"], "names only some"),
        ("size(ctx.artifacts.a.x) < 3", {"high": 3, "(other)": 1}, "names only some"),
    ],
)
def test_a_facet_that_holds_less_than_the_guard_asks_for_gives_no_answer(text, value, said):
    with pytest.raises(GuardError) as caught:
        holds(text, {X: value, ("status", "b"): "k"})
    assert f"ctx.artifacts.a.x {said}" in caught.value.message


@pytest.mark.parametrize(
    ("text", "value", "answer"),
    [
        ("ctx.artifacts.a.x == 'x' || ctx.artifacts.a.x != ''", LONG, True),
        ("ctx.artifacts.a.x.startsWith('xx')", LONG, True),
        ("ctx.artifacts.a.x in ['a', 'b']", LONG, False),
        ("ctx.artifacts.a.x > 'w' && 'y' > ctx.artifacts.a.x", LONG, True),
        ("ctx.artifacts.a.x != null", LONG, True),
        ("'a' in ctx.artifacts.a.x", [LONG, "a"], True),
        ("size(ctx.artifacts.a.x) == 2", {"k": "<list of 1>", "l": LONG}, True),
        ("ctx.artifacts.a.x.n > 1", {"k": "<list of 1>", "n": 2}, True),
        ("ctx.artifacts.a.x != null", {"k": 1}, True),
        (
            "'high' in ctx.artifacts.a.x && ctx.artifacts.a.x.high > 2",
            {"high": 3, "(other)": 1},
            True,
        ),
        ("has(ctx.artifacts.a.x.low)", {"high": 3}, False),
        ("'b' in ctx.artifacts.a.x", ["a", "b", "(other)"], True),
        ("'c' in ctx.artifacts.a.x", ["a", "b"], False),
        ("ctx.artifacts.a.x == 'list of 12'", "list of 12", True),
    ],
)
def test_what_a_facet_does_hold_is_answered(text, value, answer):
    assert holds(text, {X: value}) is answer


def test_a_value_that_holds_itself_is_a_guard_error():
    value = []
    value.append(value)
    with pytest.raises(GuardError, match="cannot read"):
        holds("ctx.artifacts.a.x == 1", {X: value})


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("ctx.artifacts.a.x > 1", {}, "ctx.artifacts.a.x has no value"),
        ('ctx.artifacts["a-b"].x > 1', {}, 'ctx.artifacts["a-b"].x has no value'),
        ('ctx.status.a == "ok"', {}, "ctx.status.a has no value"),
        ("ctx.artifacts.a.x > 1", {X: None}, "No matching overloads found : _>_(null_type, int64)"),
        ("ctx.artifacts.a.x > 1", {X: "text"}, "No matching overloads found"),
        ("ctx.artifacts.a.x && true", {X: 1}, "No matching overloads found"),
        ("!ctx.artifacts.a.x", {X: "false"}, "No matching overloads found"),
        ("ctx.artifacts.a.x", {X: 1}, "it gave a number, and a guard must give true or false"),
        ("ctx.artifacts.a.x", {X: "true"}, "it gave text, and a guard must give true or false"),
        ("ctx.artifacts.a.x", {X: None}, "it gave null"),
        ("ctx.artifacts.a.x", {X: {"s": 1}}, "it gave a map of 1"),
        ("ctx.artifacts.a.x / 0 == 1", {X: 1}, "divide by zero"),
        ("ctx.artifacts.a.x.y == 1", {X: {}}, "Key not found in map"),
        ("ctx.artifacts.a.x.exists(v, v > 9)", {X: [1] * 20_000}, "Iteration budget exceeded"),
        ('ctx.artifacts.a.x.matches("(")', {X: "a"}, ""),
    ],
)
def test_what_gives_no_yes_or_no_is_an_error_with_the_reason(text, values, said):
    with pytest.raises(GuardError) as caught:
        holds(text, values)
    assert caught.value.message.startswith(f"guard {text!r}: ")
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["1 + 1", '"true"', '{"s": 1 / 0}', "[true]", "null", "1.5"])
def test_what_is_known_to_be_no_bool_is_refused_at_once(text):
    error = refused(text)
    assert "a guard must give true or false" in error.message
    assert "compare it" in error.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ctx.artifacts.a.x and ctx.artifacts.a.y", "write && for and"),
        ("ctx.artifacts.a.x & true", "write && for and"),
        ("ctx.artifacts.a.x or true", "write || for or"),
        ("not ctx.artifacts.a.x", "write ! for not"),
        ("ctx.artifacts.a.x == True", "write true for True"),
        ("ctx.artifacts.a.x == False", "write false for False"),
        ("ctx.artifacts.a.x == None", "write null for nothing"),
        ("ctx.artifacts.a.x is None", "write == to compare"),
        ("len(ctx.artifacts.a.x) > 1", "write size(x) for len"),
        ("ctx.artifacts.a.x.startswith('a')", "write x.startsWith(y) for startswith"),
        ('ctx.status.a = "ok"', "write == to compare"),
        ('ctx.status.a === "ok"', "write == to compare"),
        ('ctx.status.a <> "ok"', "write != for unequal"),
        ("ctx.artifacts.my-id.count > 0", 'write ctx.artifacts["my-id"].count'),
        ('ctx.status.a-b == "ok"', 'write ctx.status["a-b"]'),
        ("ctx.artifacts.a.my-facet > 0", 'write ctx.artifacts.a["my-facet"]'),
        ("ctx.artifacts.in.count > 0", 'write ctx.artifacts["in"].count'),
        ('ctx.status.true == "ok"', 'write ctx.status["true"]'),
        ("artifacts.a.x > 1", "write ctx.artifacts"),
        ("{artifacts.x} > 1", "a guard takes no placeholders"),
        ("true # yes", "write // before a comment"),
    ],
)
def test_a_habit_of_another_language_is_answered_with_what_to_write(text, hint):
    assert hint in refused(text).hint


@pytest.mark.parametrize(
    "text", ['ctx.status.a == "and" && len(1)', "ctx.status.a == 'x = y' && foo", "foo // and or"]
)
def test_no_hint_comes_from_inside_a_text_or_comment(text):
    hint = refused(text).hint or ""
    assert "&&" not in hint
    assert "==" not in hint


@pytest.mark.parametrize("text", ["foo > 1", "x", "env.HOME == 'x'", "node.count > 1"])
def test_a_name_that_is_not_ctx_is_an_error_that_says_what_there_is(text):
    assert "a guard reads ctx.artifacts.<id>.<facet>" in refused(text).message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ctx.foo.bar > 1", "ctx has no field 'foo'"),
        ('ctx.artifacts.exists(k, k == "a")', "ctx.artifacts is read as a whole"),
        ("ctx.artifacts[ctx.status.a].x > 1", "ctx.artifacts is read as a whole"),
        ("size(ctx.status) > 1", "ctx.status is read as a whole"),
        ("size(ctx) > 1", "ctx is read as a whole"),
        ("", "the guard is empty"),
        (" \n", "the guard is empty"),
        ("'\ud800' == 'a'", "no text"),
        ("true\0", "no text"),
        ("ctx.artifacts.a.x > \n 1 and 2", "(line 2, character 4)"),
        (None, "a guard is text, not null"),
    ],
)
def test_a_guard_that_cannot_be_answered_for_is_refused(text, said):
    assert said in refused(text).message


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["ctx.artifacts.a.x"] * 400) + " > 1",
        "(" * 120 + "true" + ")" * 120,
        "(" * 4_000 + "true" + ")" * 4_000,
        "(" * 10_000,
        "[" * 5_000 + "]" * 5_000,
        "ctx" + ".a" * 4_000,
    ],
)
def test_deep_guards_are_refused_and_not_crashed_on(text):
    error = refused(text)
    assert "nested too deeply" in error.message
    assert len(error.message) < 300


def test_long_guards_are_refused_and_long_rows_of_terms_are_not():
    assert f"at most {MAX_GUARD:,}" in refused("(" * 20_000).message
    assert holds(" && ".join(["ctx.artifacts.a.x > 0"] * 400), {X: 1}) is True


@given(st.text(max_size=30) | st.text("ctx.aeroifs()[]{}&|!=<>'\"-+1 ", max_size=30))
@settings(deadline=None)
def test_any_text_is_a_guard_or_a_guard_error(text):
    with contextlib.suppress(GuardError):
        assert isinstance(compile_guard(text), Guard)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(
    json_values,
    st.sampled_from(["> 1", "== 1", '== "a"', "!= null", "", "in [1]", ".size() > 1", "[0] == 1"]),
)
@settings(deadline=None)
def test_any_facet_gives_a_bool_or_a_guard_error(value, rest):
    with contextlib.suppress(GuardError):
        assert holds(f"ctx.artifacts.a.x {rest}", {X: value}) in {True, False}


def test_compiled_guards_are_kept():
    assert compile_guard("ctx.artifacts.a.x > 7") is compile_guard("ctx.artifacts.a.x > 7")


def test_guards_may_be_asked_from_several_threads():
    guard = compile_guard("ctx.artifacts.a.x.exists(v, v > 900)")
    answers = []

    def ask():
        answers.extend(guard.evaluate({X: list(range(n))}) for n in range(880, 920))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(answers) == 4 * 18


def test_no_guard_loads_no_cel():
    program = "import sys, planbench.plan.guards; sys.exit('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "size(ctx.errors) > 0",
        "ctx.errors.size() > 0",
        "ctx.errors.exists(e, true)",
        '"a" in ctx.errors',
    ],
)
def test_the_number_of_errors_is_not_asked_for_what_only_a_list_has(text):
    with pytest.raises(GuardError, match=r"ctx\.errors is a number") as caught:
        compile_guard(text)

    assert caught.value.hint == "write ctx.errors > 0"
