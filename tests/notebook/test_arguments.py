import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.errors import CommandError
from planbench.notebook.arguments import (
    HelpAsked,
    cell_parser,
    read_parameters,
    split_line,
    variable_name,
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  a   b\t c ", ["a", "b", "c"]),
        ("--param q={item}", ["--param", "q={item}"]),
        ("""--param 'cfg={"a": 1}'""", ["--param", 'cfg={"a": 1}']),
        ("""--param cfg={"a": 1, "b": [1, "} x"]} --run""",
         ["--param", 'cfg={"a": 1, "b": [1, "} x"]}', "--run"]),
        ("""--param cfg={"a":1}""", ["--param", 'cfg={"a":1}']),
        ("--param ids=[1, 2] x", ["--param", "ids=[1, 2]", "x"]),
        ("--param q=$HOME", ["--param", "q=$HOME"]),
        ("--param p=C:\\new\\table", ["--param", "p=C:\\new\\table"]),
        ("--param p='a b'", ["--param", "p=a b"]),
        ('--param "p=a b"', ["--param", "p=a b"]),
        ("--param p=", ["--param", "p="]),
        ("--param p=''", ["--param", "p="]),
        ("''", [""]),
        ("--param n=O'Brien", ["--param", "n=O'Brien"]),
        ("--param q={item b", ["--param", "q={item", "b"]),
        ("--param q={item} {}", ["--param", "q={item}", "{}"]),
        ("--param q={{x}}", ["--param", "q={{x}}"]),
        ('--param q={"a": "\\"} "}', ["--param", 'q={"a": "\\"} "}']),
        ("x --run  # nightly", ["x", "--run"]),
        ("--param tag=#1", ["--param", "tag=#1"]),
        ("--param q=a%20b%", ["--param", "q=a%20b%"]),
    ],
)  # fmt: skip
def test_words_are_what_was_written(line, words):
    assert split_line(line) == words


def test_an_open_quote_is_an_error_that_says_so():
    with pytest.raises(CommandError, match="is not closed: 'a b"):
        split_line("--param p='a b")


@given(st.lists(st.text("ab{}[]$\\=@%'\"", min_size=1).filter(lambda w: "'" not in w)))
def test_quoted_words_come_back_as_they_were(words):
    assert split_line(" ".join(f"'{word}'" for word in words)) == words


@given(st.text())
def test_any_line_is_split_or_refused(line):
    try:
        words = split_line(line)
    except CommandError:
        return
    assert all(isinstance(word, str) for word in words)


def test_a_cell_line_is_read_in_any_order():
    found = cell_parser().read("--run morning --param a=1 --strict --param b=2 --params more")
    assert (found.var, found.run, found.strict, found.allow_errors) == (
        "morning",
        True,
        True,
        False,
    )
    assert found.param == ["a=1", "b=2"]
    assert found.params == "more"


@pytest.mark.parametrize(
    ("line", "flag", "near"),
    [
        ("--rnu", "--rnu", "--run"),
        ("-run", "-run", "--run"),
        ("x --stric", "--stric", "--strict"),
        ("--parms=x", "--parms", "--params"),
        ("--allow-error", "--allow-error", "--allow-errors"),
    ],
)
def test_an_unknown_flag_names_the_nearest(line, flag, near):
    with pytest.raises(CommandError) as caught:
        cell_parser().read(line)
    assert f"no flag {flag}" in str(caught.value)
    assert f"did you mean {near!r}?" in str(caught.value)


@pytest.mark.parametrize("line", ["--param", "--run=yes", "a b", "--params"])
def test_what_argparse_refuses_is_a_command_error_with_the_usage(line):
    with pytest.raises(CommandError) as caught:
        cell_parser().read(line)
    assert caught.value.hint.startswith("usage: %%plan")
    assert not isinstance(caught.value, argparse.ArgumentError)


@pytest.mark.parametrize("line", ["-h", "--help", "x --run --help"])
def test_help_is_text_and_no_exit(line):
    with pytest.raises(HelpAsked, match="--allow-errors"):
        cell_parser().read(line)


def test_text_stays_text_and_a_variable_keeps_its_type():
    day = object()
    given_ = ["date=@day", "n=3", "q={item}", "e=a=b", "empty=", "at=@@day"]
    assert read_parameters(given_, None, {"day": day}) == {
        "date": day,
        "n": "3",
        "q": "{item}",
        "e": "a=b",
        "empty": "",
        "at": "@day",
    }


def test_params_come_from_a_dict_and_single_ones_win():
    namespace = {"values": {"a": 1, "b": [2]}}
    assert read_parameters(["a=x"], "values", namespace) == {"a": "x", "b": [2]}
    assert namespace["values"] == {"a": 1, "b": [2]}


def test_a_missing_variable_names_a_near_one():
    with pytest.raises(CommandError) as caught:
        read_parameters(["date=@dat"], None, {"date": 1, "_dat": 2})
    assert "no variable 'dat'" in str(caught.value)
    assert "did you mean 'date'?" in str(caught.value)


def test_what_ipython_defines_is_never_meant():
    with pytest.raises(CommandError) as caught:
        read_parameters(["date=@opn"], None, {"open": open, "exit": 1, "In": [], "Out": {}})
    assert "run the cell that defines it first" in str(caught.value)


@pytest.mark.parametrize("pair", ["date", "=x", "2a=x", "a b=x", "a.b=x"])
def test_a_pair_of_another_form_is_refused(pair):
    with pytest.raises(CommandError, match="NAME=VALUE"):
        read_parameters([pair], None, {})


def test_a_parameter_given_twice_is_refused():
    with pytest.raises(CommandError, match="twice"):
        read_parameters(["a=1", "a=2"], None, {})


@pytest.mark.parametrize("value", [[1], "text", None, {1: 2}, {"a b": 1}])
def test_params_that_are_no_dict_of_names_are_refused(value):
    with pytest.raises(CommandError):
        read_parameters([], "values", {"values": value})


@pytest.mark.parametrize("name", ["2x", "a-b", "a.b", "class", "x;y", ""])
def test_only_a_name_can_take_the_plan(name):
    with pytest.raises(CommandError, match="name of a variable"):
        variable_name(name)
