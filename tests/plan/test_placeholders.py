import enum
import re
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planbench.errors import PlaceholderError
from planbench.plan.placeholders import (
    Placeholder,
    Scope,
    Template,
    as_text,
    escape,
    holds,
    mentions,
    near_misses,
    references,
    scan,
    walk,
)
from planbench.plan.substitution import fill, substitute

ARTIFACTS = {"a": "text with {artifacts.b}", "b": "SECRET", "n": None, "z": 0, "e": "", "f": False}


def resolve(value, *, item=None, index=0, alias=None, secret=None):
    scope = Scope(ARTIFACTS.__getitem__, lambda name: {"node_id": name}, item, index, secret)
    return Template(value, alias).resolve(scope)


def test_an_earlier_result_that_looks_like_a_placeholder_is_never_expanded():
    assert resolve("{artifacts.a} {artifacts.b}") == "text with {artifacts.b} SECRET"


def test_a_text_that_is_one_placeholder_keeps_the_value_falsy_ones_too():
    assert resolve(["{artifacts.n}", "{artifacts.z}", "{artifacts.e}", "{artifacts.f}"]) == [
        None,
        0,
        "",
        False,
    ]


def test_names_are_read_whole():
    assert resolve("{nodes.n1.output}") == {"node_id": "n1"}
    assert resolve("{nodes.n10.output}") == {"node_id": "n10"}
    assert scan("{nodes.n1.outputs}") == ["{nodes.n1.outputs}"]


def test_embedded_values_are_text_or_json():
    assert resolve(
        "[{artifacts.n}|{artifacts.f}|{item.l}|{index}]", item={"l": [1, "é"]}, index=3
    ) == ('[null|false|[1,"é"]|3]')


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as {it} is", "as {it} is"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (2**80, str(2**80)),
        ({"a": [1]}, '{"a":[1]}'),
        ({1: "x"}, '{"1":"x"}'),
        (date(2026, 8, 6), "2026-08-06"),
        (datetime(2026, 8, 6, 1, 2), "2026-08-06T01:02:00"),  # noqa: DTZ001 - a plain one as users have it
        (Decimal("1.10"), "1.10"),
        (np.int64(5), "5"),
        (np.bool_(True), "true"),  # noqa: FBT003 - a value
        (np.array([1, 2]), "[1,2]"),
        (np.str_("x"), "x"),
        (enum.StrEnum("E", {"A": "word"}).A, "word"),
        ({"b": 2**70, "t": True}, '{"b":1180591620717411303424,"t":true}'),
        ([Decimal("1.10"), None], '["1.10",null]'),
        ({"x": b"q"}, '{"x":"b\'q\'"}'),
        ([{"b", "a"}, frozenset([2, 1])], '[["a","b"],[1,2]]'),
        (["\ud83d", "é"], '["\ud83d","é"]'),
        ([float("nan"), 2**70], "[null,1180591620717411303424]"),
        ({date(2026, 8, 6): Decimal(1), (1, 2): 0}, '{"2026-08-06":"1","[1,2]":0}'),
        ([datetime(2026, 8, 6), {1}], '["2026-08-06T00:00:00",[1]]'),  # noqa: DTZ001 - as above
    ],
)
def test_as_text_writes_strings_and_dates_as_they_are_and_the_rest_as_json(value, text):
    assert as_text(value) == text


def test_a_value_that_cannot_be_written_is_an_error_with_a_reason():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    try:
        with pytest.raises(PlaceholderError, match="nested too deep"):
            as_text(deep)
    finally:
        while deep:  # taken apart here, since the interpreter would recurse
            deep = deep.pop()


def test_an_integer_of_too_many_digits_is_an_error_with_a_reason():
    with pytest.raises(PlaceholderError, match="digits"):
        as_text([2**20_000])


def test_what_a_text_holds_of_a_family_is_told_without_what_is_in_double_braces():
    assert holds("x {env.A}", "env")
    assert not holds("x {{env.A}} {params.a}", "env")


def test_doubled_braces_are_the_text_of_a_placeholder():
    assert resolve("{{artifacts.a}} {{x}} {y} { {}") == "{artifacts.a} {{x}} {y} { {}"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{x}",
        "{artifacts.}",
        "{ artifacts.a }",
        "{artifacts.a.b}",
        "{params.1}",
        "{items}",
        "}{",
    ],
)
def test_unknown_braces_stay_as_written(text):
    assert resolve(text) == text


def test_items_have_fields_indexes_and_a_name_of_their_own():
    item = {"a": [{"b": 1}], "c-d": 2}

    assert resolve("{item.a.0.b}", item=item) == 1
    assert resolve("{rep.c-d}", item=item, alias="rep") == 2
    assert resolve("{item}", item=item, alias="rep") is item
    assert resolve("{rep.a}", item=item) == "{rep.a}"


@pytest.mark.parametrize(
    ("text", "item", "words"),
    [
        ("{item.x}", {"a": 1}, "no field 'x'; it has a"),
        ("{item.5}", [1], "list has no field '5'"),
        ("{item.x}", "text", "str has no field 'x'"),
        ("{item.__class__}", object(), "has no field '__class__'"),
    ],
)
def test_a_field_that_an_item_lacks_is_named(text, item, words):
    with pytest.raises(PlaceholderError, match=re.escape(words)):
        resolve(text, item=item)


def test_a_parameter_without_a_value_is_an_error_that_says_what_to_give():
    with pytest.raises(PlaceholderError, match=re.escape("give params={'x': ...}")):
        resolve("{params.x}")


def test_a_secret_comes_only_where_the_scope_gives_it():
    assert resolve("Bearer {env.T}", secret=lambda name: f"<{name}>") == "Bearer <T>"
    with pytest.raises(PlaceholderError, match="not allowed"):
        resolve("{env.T}")


def test_containers_are_made_anew_for_each_call():
    template = Template({"x": [1, {"y": []}]})
    scope = Scope(str, str)

    first = template.resolve(scope)
    first["x"][1]["z"] = 1
    assert template.resolve(scope) == {"x": [1, {"y": []}]}


def test_a_template_tells_what_it_reads():
    template = Template({"a": "{artifacts.x} {item.y}", "b": ["{nodes.z.output}"]})

    assert [(p.family, p.name) for p in template.placeholders] == [
        ("artifacts", "x"),
        ("item", ""),
        ("nodes", "z"),
    ]


def test_a_value_nested_over_100_levels_is_refused():
    value = "x"
    for _ in range(102):
        value = [value]

    for call in (lambda: Template(value), lambda: substitute(value, {"p": 1})):
        with pytest.raises(PlaceholderError, match="deeper than 100"):
            call()
    with pytest.raises(PlaceholderError, match="deeper than 100"):
        substitute("{params.p}", {"p": value})


def test_walk_and_references_give_the_path_of_every_text():
    value = {"a": ["x {item}", 5, {"b": "{artifacts.y}"}], "c": ("{nodes.z.output}",)}

    assert [path for path, _ in walk(value)] == [("a", 0), ("a", 2, "b"), ("c", 0)]
    assert [(path, piece.text) for path, piece in references(value)] == [
        (("a", 0), "{item}"),
        (("a", 2, "b"), "{artifacts.y}"),
        (("c", 0), "{nodes.z.output}"),
    ]
    assert mentions(value, "{artifacts.")
    assert not mentions(value, "{env.")


def test_near_misses_are_braces_that_start_like_a_placeholder():
    assert near_misses("{artifacts.x.rows} {artifacts.x} {nodes.a} {{artifacts.z}} {x}") == [
        "{artifacts.x.rows}",
        "{nodes.a}",
    ]


class TestSubstitute:
    def test_a_parameter_alone_keeps_its_type_and_in_text_it_is_written(self):
        frame = pd.DataFrame({"a": [1]})
        params = {"n": 7, "d": date(2026, 8, 6), "f": frame, "z": None}

        assert substitute(["{params.n}", "x{params.n}-{params.d}", "{params.z}"], params) == [
            7,
            "x7-2026-08-06",
            None,
        ]
        assert substitute({"v": "{params.f}"}, params)["v"] is frame

    def test_without_a_value_it_stays_and_quoted_it_is_no_parameter(self):
        assert (
            substitute("{params.a} {params.b} {{params.b}}", {"b": 1})
            == "{params.a} 1 {{params.b}}"
        )

    def test_what_a_parameter_holds_never_becomes_a_placeholder(self):
        params = {"p": "{artifacts.a}", "l": ["{item}", {"k": "{params.p}"}], "brace": "{arti"}

        bound = substitute(
            ["{params.p}", "<{params.p}>", "{params.l}", "{params.brace}facts.b}"], params
        )

        assert resolve(bound, item="ITEM") == [
            "{artifacts.a}",
            "<{artifacts.a}>",
            ["{item}", {"k": "{params.p}"}],
            "{artifacts.b}",
        ]

    def test_the_alias_of_the_items_is_kept_from_values_too(self):
        assert (
            resolve(substitute("{params.p}", {"p": "{rep}"}, "rep"), item=1, alias="rep") == "{rep}"
        )

    def test_fill_escapes_only_what_a_later_binding_would_read(self):
        assert fill("{params.p}", {"p": ["{params.p}", "{item}"]}) == ["{{params.p}}", "{item}"]
        assert fill("about {params.p}", {"p": "{item}"}) == "about {item}"
        assert fill("{params.n}", {"n": 7}) == 7
        assert fill("{params.n} {params.m}", {"n": 7}) == "7 {params.m}"


PIECES = st.sampled_from(
    [
        "{artifacts.b}",
        "{item}",
        "{index}",
        "{rep.x}",
        "{{item}}",
        "{params.p}",
        "{x}",
        "a",
        " ",
        "é",
        "{",
        "}",
    ]
)
LOOSE = st.text(alphabet="{}artifcs.b itemparams", max_size=20)


@given(st.lists(PIECES).map("".join) | LOOSE)
@example("{{item}}")
@example("{{{item}}}")
def test_an_escaped_text_resolves_to_itself(text):
    for alias in (None, "rep"):
        pieces = scan(escape(text, alias), alias)
        assert "".join(piece for piece in pieces if isinstance(piece, str)) == text
        assert not any(isinstance(piece, Placeholder) for piece in pieces)


@given(st.lists(PIECES).map("".join) | LOOSE)
def test_a_parameter_arrives_as_it_is_whatever_it_holds(text):
    scope = Scope(ARTIFACTS.__getitem__, str, "ITEM", 5)

    for written in ("{params.p}", "<{params.p}> {artifacts.b} {params.p}"):
        bound = substitute(written, {"p": text}, "rep")
        expected = written.replace("{artifacts.b}", "SECRET").replace("{params.p}", text)
        assert Template(bound, "rep").resolve(scope) == expected


def test_a_decimal_field_finds_the_key_that_is_that_number():
    assert resolve("{item.0}", item={0: "a"}) == "a"
    assert resolve("{item.0}", item={0: "a", "0": "b"}) == "b"
    with pytest.raises(PlaceholderError, match="no field '01'"):
        resolve("{item.01}", item={1: "a"})


def test_without_items_the_item_stays_as_written_and_the_rest_is_resolved():
    scope = Scope(lambda name: {"a": 1}[name], lambda name: None)
    template = Template(
        ["{item}", "{index} of {artifacts.a}", "{{item.x}} {item.x}", "{artifacts.a}"], items=False
    )
    assert template.resolve(scope) == ["{item}", "{index} of 1", "{item.x} {item.x}", 1]
    assert [piece.family for piece in template.placeholders] == ["artifacts", "artifacts"]
