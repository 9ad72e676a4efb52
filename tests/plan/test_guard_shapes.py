from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import GuardError
from planbench.plan import guards
from planbench.plan.guard_shapes import MAX_SLOTS, shape_of
from planbench.plan.guards import Guard, compile_guard


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("ctx.artifacts.listing.n > 5", "ctx.artifacts.a0.f0 > i0"),
        (
            'ctx.artifacts.x.n >= 0.5 && ctx.status.x=="ok"',
            "ctx.artifacts.a0.f0 >= d0 && ctx.status.a0==t0",
        ),
        ('ctx.artifacts["my-id"].n > 1', 'ctx.artifacts["a0"].f0 > i0'),
        ("ctx.artifacts.a.by['high'].x < 3", "ctx.artifacts.a0.f0['high'].x < i0"),
        ("ctx.status.a != ctx.status.b", "ctx.status.a0 != ctx.status.a1"),
        ("ctx.artifacts.n.n == ctx.artifacts.m.n", "ctx.artifacts.a0.f0 == ctx.artifacts.a1.f0"),
        ("(ctx.errors == 0 ? 1 : 2) == 1", "(ctx.errors == i0 ? 1 : 2) == i1"),
        ("ctx.artifacts.a.n > 5 + 1", "ctx.artifacts.a0.f0 > 5 + 1"),
        ("ctx.artifacts.a.n > -5", "ctx.artifacts.a0.f0 > -5"),
        ("ctx.artifacts.a.n in [1, 2]", "ctx.artifacts.a0.f0 in [1, 2]"),
        ("ctx.artifacts.a.n > 0x1F", None),
        ("ctx.artifacts.a.n > 9223372036854775807", None),
        ("ctx.artifacts.a.n > 5u", None),
        ("ctx.artifacts.a.n > 1e3", None),
        ("ctx.artifacts.a.n == r'a'", None),
        ('ctx.artifacts.a.n == """a"""', None),
        ('"""a" && ctx.artifacts.x.n > "b""" != ""', None),
        ("ctx.artifacts.a.n == 'a\\'b'", None),
        ("ctx.artifacts.a.n > 1 // ctx.artifacts.b", None),
        ("[1].exists(ctx, ctx > 1)", None),
        ("has(ctx.artifacts.a.n)", None),
        ("ctx.artifacts.a.n.startsWith('x')", None),
        ("{'a': 1}.a == 1", None),
        ("other.n > 1", None),
        ("true", None),
        ("", None),
    ],
)
def test_a_guard_of_references_operators_and_plain_literals_has_a_shape(text, shape):
    found = shape_of(text)

    assert (found and found.text) == shape


def test_a_shape_keeps_the_names_and_values_that_were_taken_out():
    found = shape_of('ctx.artifacts.x.n > 5 && ctx.status["y z"] == "ok" && ctx.artifacts.x.m == 5')

    assert found.text == (
        'ctx.artifacts.a0.f0 > i0 && ctx.status["a1"] == t0 && ctx.artifacts.a0.f1 == i0'
    )
    assert found.names == {"a0": "x", "f0": "n", "a1": "y z", "f1": "m"}
    assert found.values == {"i0": 5, "t0": "ok"}


def test_names_that_mean_something_to_cel_stay_where_it_must_refuse_them():
    for text in ("ctx.artifacts.in.n > 1", "ctx.artifacts.a.true > 1", "ctx.status.null == 'ok'"):
        with pytest.raises(GuardError) as refused:
            compile_guard(text)
        assert text in str(refused.value)


def test_more_literals_than_there_are_slots_stay_as_written():
    text = " || ".join(f"ctx.artifacts.a.n == {n}" for n in range(MAX_SLOTS + 4))
    found = shape_of(text)

    assert len(found.values) == MAX_SLOTS
    assert found.text.endswith(f"ctx.artifacts.a0.f0 == {MAX_SLOTS + 3}")
    assert compile_guard(text).evaluate({("artifacts", "a", "n"): MAX_SLOTS + 2})


def test_guards_of_one_shape_are_compiled_once():
    guards._compiled.cache_clear()
    for n in range(500):
        guard = compile_guard(f"ctx.artifacts.step{n}.rows > {n} && ctx.status.step{n} != 's{n}'")
        place = ("artifacts", f"step{n}", "rows")
        assert guard.reads == (place, ("status", f"step{n}"))
        assert guard.evaluate({place: n + 1, ("status", f"step{n}"): "ok"})
        assert not guard.evaluate({place: n, ("status", f"step{n}"): "ok"})

    assert guards._compiled.cache_info().misses == 1


def test_what_goes_wrong_is_told_in_the_guard_s_own_words():
    guard = compile_guard('ctx.artifacts.listing.owner == "x" && ctx.artifacts.listing.n > 3')
    owner, n = guard.reads

    with pytest.raises(GuardError, match=r"ctx\.artifacts\.listing\.n has no value"):
        guard.evaluate({owner: "x"})
    with pytest.raises(GuardError, match=r"guard 'ctx\.artifacts\.listing\.owner == "):
        guard.evaluate({owner: "x", n: [1]})
    with pytest.raises(GuardError, match=r"'\(string, int\)'"):
        compile_guard('"a" == 1 && ctx.artifacts.a.n > 1')


def test_a_name_of_a_slot_is_no_variable_of_a_guard():
    for text in ("i0 > 1", "t0 == 'a' && has(ctx.artifacts.a.n)"):
        with pytest.raises(GuardError, match="is not known"):
            compile_guard(text)


NAMES = st.sampled_from(["a", "b", "a0", "f0", "i0", "in", "size", "type", "status", "x1"])
REFERENCES = (
    st.builds("ctx.artifacts.{}.{}".format, NAMES, NAMES)
    | st.builds('ctx.artifacts["{}"].{}'.format, NAMES, NAMES)
    | st.builds("ctx.artifacts.{}['{}'].{}".format, NAMES, NAMES, NAMES)
    | st.builds("ctx.status.{}".format, NAMES)
    | st.just("ctx.errors")
)
LITERALS = st.sampled_from(
    ["0", "1", "7", "007", "1.5", "1.0", "true", "null", "'ok'", '"a"', "''", "[1, 'ok']", "-1",
     "9223372036854775807", "1e2", "0x1", "1u"]
)  # fmt: skip
TERMS = st.recursive(
    REFERENCES | LITERALS,
    lambda inner: (
        st.builds("{}{}{}".format, inner, st.sampled_from([" + ", "-", " * ", "/ ", " % "]), inner)
        | st.builds("({})".format, inner)
        | st.builds("size({})".format, inner)
    ),
    max_leaves=3,
)
COMPARED = st.builds(
    "{}{}{}".format, TERMS, st.sampled_from(["==", " != ", "<", " > ", "<= ", " in "]), TERMS
)
GUARDS = st.recursive(
    COMPARED | REFERENCES,
    lambda inner: (
        st.builds("{}{}{}".format, inner, st.sampled_from([" && ", "||"]), inner)
        | st.builds("!({})".format, inner)
        | st.builds("({} ? {} : {})".format, inner, inner, inner)
    ),
    max_leaves=4,
)
FACETS = st.sampled_from(
    [0, 1, 7, -1, 1.0, 1.5, 2**63 - 1, True, None, "", "a", "ok", [1, "ok"], {"a": 1}, {"f0": "ok"}]
)


def answer(make, values):
    try:
        guard = make()
        return guard.reads, guard.evaluate(values)
    except GuardError as error:
        return str(error)


@settings(max_examples=400, deadline=None)
@given(text=GUARDS, data=st.data())
def test_a_shape_answers_as_the_guard_itself_does(text, data):
    def exact():
        return Guard(text, guards._compiled(text))

    try:
        reads = exact().reads
    except GuardError:
        reads = ()
    values = {read: data.draw(FACETS) for read in reads if data.draw(st.integers(0, 9))}

    assert answer(lambda: compile_guard(text), values) == answer(exact, values)
