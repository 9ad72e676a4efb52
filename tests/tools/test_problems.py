from __future__ import annotations

import pytest

from planbench.tools.problems import (
    ArgumentProblem,
    Finding,
    Unknowns,
    alternatives,
    path_text,
    told,
    type_name,
    worded,
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "args"),
        (("filters", 2, "op"), "args.filters[2].op"),
        (("a b", "x-y", 'q"'), "args['a b']['x-y']['q\"']"),
        (("k" * 100,), "args." + "k" * 40),
        (("a\n" * 100,), "args['" + "a\\n" * 20 + "']"),
    ],
)
def test_a_path_is_written_as_python_would(path, text):
    assert path_text(path) == text


def test_a_type_is_named_in_a_word():
    assert (type_name(None), type_name("x"), type_name([1])) == ("None", "str", "list")


def test_an_unknown_covers_its_place_and_softens_what_is_above():
    unknowns = Unknowns({"a": {"b": ["?", 1]}}, lambda value: value == "?")
    assert unknowns
    assert unknowns.allow(Finding(("a", "b", 0), "bad"))
    assert unknowns.allow(Finding(("a", "b", 0), "bad", firm=True))
    assert unknowns.allow(Finding(("a",), "bad"))
    assert not unknowns.allow(Finding(("a",), "bad", firm=True))
    assert not unknowns.allow(Finding(("a", "b", 1), "bad"))
    assert not unknowns.allow(Finding(("a", "b", 0), "extra"))
    assert not unknowns.allow(Finding(("a",), "missing"))


def test_nothing_is_unknown_in_a_call():
    assert not Unknowns()
    assert not Unknowns().allow(Finding((), "bad"))


def test_alternatives_keep_the_deepest_and_join_what_is_level():
    level = alternatives(
        [[Finding(("a",), "bad", "should be a str")], [Finding(("a",), "bad", "should be an int")]]
    )
    assert [one.text for one in level] == ["should be a str or an int"]
    deep = alternatives([[Finding(("a",), "bad", "x")], [Finding(("a", 0), "bad", "y")]])
    assert [one.path for one in deep] == [("a", 0)]
    kept = alternatives([[Finding(("a", "k"), "missing")], [Finding(("a",), "bad", "x")]])
    assert [one.kind for one in kept] == ["missing"]


def test_nested_problems_are_wrong_types_and_top_ones_have_their_codes():
    def said(finding):
        problem = worded(finding, "f", ["key", "limit"])
        return problem.code, problem.message

    assert said(Finding(("key",), "missing")) == (
        "missing_args",
        "tool 'f' needs the argument 'key'",
    )
    assert said(Finding(("kee",), "extra")) == (
        "unknown_args",
        "tool 'f' has no argument 'kee': did you mean 'key'?",
    )
    assert said(Finding(("zzz",), "extra")) == (
        "unknown_args",
        "tool 'f' has no argument 'zzz'; it has key, limit",
    )
    assert said(Finding(("a", "b"), "missing")) == ("bad_arg_type", "args.a.b is missing")
    assert said(Finding(("a", "opp"), "extra", names=("op",))) == (
        "bad_arg_type",
        "args.a.opp is not a known key: did you mean 'op'?",
    )


def test_problems_are_told_in_one_bounded_line():
    problems = [ArgumentProblem("bad_arg_type", (i,), f"m{i}") for i in range(7)]
    assert told(problems[:2]) == "m0; m1"
    assert told(problems) == "m0; m1; m2; m3; m4; and 2 more"
    assert str(problems[0]) == "m0"
    long = worded(Finding(("a",), "bad", "should be " + "x" * 1000, "str"), "f", [])
    assert len(long.message) < 400
