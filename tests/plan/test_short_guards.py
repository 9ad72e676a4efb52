from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import GuardError
from planbench.plan.edges import guard_edges
from planbench.plan.guard_tokens import Tokens
from planbench.plan.guards import compile_guard
from planbench.plan.short_guards import (
    ambiguous,
    has_parameter,
    lengthened,
    names_of,
    reads,
    renamed,
    shortened,
)

IDS = ["diff", "fetch", "my-node", "size", "list", "ctx", "in", "x", "errors", "e1"]
NAMES = names_of({name: {} for name in IDS})

LENGTHENED = [
    ("diff.n_new > 0", "ctx.artifacts.diff.n_new > 0"),
    ("fetch.status", "ctx.status.fetch"),
    ("fetch.status == 'ok'", "ctx.status.fetch == 'ok'"),
    ("fetch.status.startsWith('e')", "ctx.status.fetch.startsWith('e')"),
    ("!(diff.a)&&fetch.b", "!(ctx.artifacts.diff.a)&&ctx.artifacts.fetch.b"),
    ("has(diff.by.high)", "has(ctx.artifacts.diff.by.high)"),
    ('diff.by["a-b"] > x.n', 'ctx.artifacts.diff.by["a-b"] > ctx.artifacts.x.n'),
    ("diff . n > 0", "ctx.artifacts.diff . n > 0"),
    ("diff\n  .n > 0", "ctx.artifacts.diff\n  .n > 0"),
    ("true ? diff.n : fetch.n", "true ? ctx.artifacts.diff.n : ctx.artifacts.fetch.n"),
    ("[diff.n, 1].exists(v, v > x.m)", "[ctx.artifacts.diff.n, 1].exists(v, v > ctx.artifacts.x.m)"),
    ('{"a": diff.n}["a"] > 0', '{"a": ctx.artifacts.diff.n}["a"] > 0'),
    ("diff.n > {params.least}", "ctx.artifacts.diff.n > {params.least}"),
    ("-diff.n < 0 // diff.n", "-ctx.artifacts.diff.n < 0 // diff.n"),
    ("errors.n > 0 && ctx.errors == 0", "ctx.artifacts.errors.n > 0 && ctx.errors == 0"),
    ("1.5e3 < e1.n", "1.5e3 < ctx.artifacts.e1.n"),
    ("diff.status.n > 0", "ctx.status.diff.n > 0"),
]  # fmt: skip
LEFT_ALONE = [
    "ctx.artifacts.diff.n > 0",
    'ctx.artifacts["my-node"].n > 0',
    "my-node.n > 0",  # a subtraction
    "'diff.n' == \"fetch.status\"",
    "r'\\' + 'diff.n' == ''",
    '"""diff.n "" fetch.n""" == \'\'',
    "b'diff.n' == b''",
    "ctx.artifacts.y.diff.n > 0",
    "y.diff.n > 0",
    "y . diff.n > 0",
    "y.?diff.n > 0",
    "diff.n(1) > 0",
    "diff > 0",
    "size(diff)",
    "diff[0].n",
    "size.n > 0",
    "list.n > 0",
    "in.n",
    "other.n > 0",
    "{params.diff} > 0 && {params.x}.n > 0",
    "[1].exists(x, x.n > 0)",
    "[1].all(diff, fetch, diff.n > fetch.m)",
    "[1].exists(x, [2].exists(v, x.n > v))",
    "[1].exists(ctx, diff.n > 0)",
    "`diff`.n > 0",
    "ctx.artifacts.y.`diff.n` > 0",
    "1.diff.n",
    "// diff.n",
    "",
    "diff.",
    "\x00diff",
]


@pytest.mark.parametrize(("short", "long"), LENGTHENED)
def test_a_name_that_starts_a_path_and_is_a_node_is_read_from_ctx(short, long):
    assert lengthened(short, NAMES) == long


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_may_be_something_else_stays_as_it_is(text):
    assert lengthened(text, NAMES) == text


def test_what_a_macro_binds_is_bound_inside_its_brackets_only():
    text = "x.n > 0 && [1].exists(x, x.n > 0) && (x.n > 0)"
    long = "ctx.artifacts.x.n > 0 && [1].exists(x, x.n > 0) && (ctx.artifacts.x.n > 0)"
    assert lengthened(text, NAMES) == long


@pytest.mark.parametrize("long", [long for _, long in LENGTHENED])
def test_the_long_form_is_a_fixed_point(long):
    assert lengthened(long, NAMES) == long


@pytest.mark.parametrize(("short", "long"), LENGTHENED)
def test_shortening_gives_a_text_that_reads_as_the_same_guard(short, long):
    found = shortened(long, NAMES)
    assert found == shortened(found, NAMES)
    assert lengthened(found, NAMES) == long
    if "\n" not in short and " . " not in short:
        assert found == short


@pytest.mark.parametrize(
    "text",
    [
        "ctx . artifacts . diff . n > 0",  # read back it would be spaced in another way
        'ctx.artifacts["diff"].n > 0',
        "ctx.artifacts.size.n > 0",
        "ctx.artifacts.diff.status > 0",  # diff.status is another thing
        "[1].exists(diff, ctx.artifacts.diff.n > 0)",
        "[1].exists(ctx, ctx.artifacts.diff.n > 0)",
        "y.ctx.artifacts.diff.n > 0",
        "'ctx.artifacts.diff.n'",
        "ctx.artifacts.nobody.n > 0",
        "ctx.artifacts.diff",
        "ctx.errors > 0",
    ],
)
def test_a_guard_is_shortened_only_where_nothing_can_be_lost(text):
    assert shortened(text, NAMES) == text


def test_a_facet_called_status_makes_the_short_form_ambiguous_for_its_node_alone():
    for facets in ({"status": "a.b"}, {"paths": {"status": "a.b"}}, {"counts": {"status": "[]"}}):
        names = names_of({"diff": facets, "fetch": {"n": "[]"}})

        assert ambiguous("fetch.status == 'ok' && diff.status == 'ok'", names) == "diff"
        assert ambiguous("fetch.status == 'ok' && diff.n > 0", names) is None
        assert ambiguous("'diff.status' == '' && ctx.status.diff == 'ok'", names) is None
        assert shortened("ctx.status.diff == ctx.status.fetch", names) == (
            "ctx.status.diff == fetch.status"
        )


READ = [
    *(long for _, long in LENGTHENED),
    'ctx.artifacts["my-node"].n > 0 && ctx.status[\'x\'] == "ok"',
    'ctx["artifacts"]["x"]["n"] > 0',
    'ctx.artifacts["\\u0078"].n > 0',
    "ctx.artifacts.x.n > 0 && ctx.artifacts.x.m > ctx.artifacts.diff.n",
    "[1].exists(ctx, ctx > 0) && 'ctx.status.x' == ''",
    "ctx.errors == 0",
    "true",
]


@pytest.mark.parametrize("text", READ)
def test_what_a_guard_reads_is_what_cel_finds_in_it(text):
    readable = text.replace("{params.least}", "0")
    try:
        compile_guard(readable)
    except GuardError:
        return
    assert reads(text) == list(dict.fromkeys(guard_edges(readable)))


_PIECES = ["ctx", ".artifacts", ".status", ".diff", '["x"]', ".n", " > ", "0", "(", ")", " && ", "x",
    "diff", ".all(", ", ", "'ctx.status.x'", "!", "ctx.errors", "size(", "[", "]", "{params.p}"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join))
def test_of_any_guard_that_compiles_the_same_nodes_are_read(text):
    try:
        compile_guard(text)
    except GuardError:
        return
    assert reads(text) == list(dict.fromkeys(guard_edges(text)))


@given(st.lists(st.sampled_from([*_PIECES, *IDS, ".", ".status"]), max_size=14).map("".join))
def test_any_text_keeps_its_meaning_through_both_forms(text):
    long = lengthened(text, NAMES)

    assert lengthened(long, NAMES) == long
    assert lengthened(shortened(text, NAMES), NAMES) == long
    assert lengthened(shortened(long, NAMES), NAMES) == long


@given(st.text(max_size=30))
def test_the_tokens_of_any_text_stand_where_they_say(text):
    tokens = Tokens(text)

    assert all(text[token.start : token.end] == token.text for token in tokens)
    between = [text[a.end : b.start] for a, b in itertools.pairwise(tokens)]
    assert all(re.fullmatch(r"(?:\s|//[^\n]*\n?)*", gap) for gap in between)


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ("diff.n > fetch.n", "load", "load.n > fetch.n"),
        ("diff.n > 0 && diff.status == 'diff.n'", "a-b", "ctx.artifacts[\"a-b\"].n > 0 && ctx.status[\"a-b\"] == 'diff.n'"),
        ("ctx.artifacts.diff.n > diff.m", "size", "ctx.artifacts.size.n > ctx.artifacts.size.m"),
        ("[1].exists(load, load > diff.n)", "load", "[1].exists(load, load > ctx.artifacts.load.n)"),
        ("y.diff.n > 0 || [1].exists(diff, diff.n > 0)", "load", "y.diff.n > 0 || [1].exists(diff, diff.n > 0)"),
        ("diff.n > 0", "in", 'ctx.artifacts["in"].n > 0'),
    ],
)  # fmt: skip
def test_a_rename_is_followed_in_either_form(text, new, expected):
    assert renamed(text, "diff", new, IDS) == expected


def test_a_parameter_counts_where_it_is_no_part_of_a_quoted_text():
    assert has_parameter("x.n > {params.p}")
    assert not has_parameter("x.k == '{params.p}'")
    assert not has_parameter("x.n > 0")
