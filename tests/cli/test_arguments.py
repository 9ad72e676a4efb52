from __future__ import annotations

from pathlib import Path

import pytest

from planbench.cli.arguments import command_line
from planbench.errors import CommandError


def test_every_command_is_read():
    read = command_line().parse_args

    checked = read(["validate", "p", "--param", "a=1", "--param", "b=2", "--json"])
    assert (checked.plan, checked.param, checked.json) == ("p", ["a=1", "b=2"], True)

    run = read(["run", "p", "--tools", "m:a", "--json", "-", "--html", "x.html", "--strict"])
    assert (run.tools, run.json, run.html) == (["m:a"], "-", Path("x.html"))
    assert run.strict
    assert not run.allow_errors

    assert read(["render", "p", "-o", "p.svg"]).output == Path("p.svg")
    assert read(["demo"]).out == Path("demo-output")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["run", "p", "--stric"], "did you mean '--strict'?"),
        (["run", "p", "--no-such-thing-at-all"], "--help"),
        (["run", "p", "q"], "'q'"),
        (["schema", "q"], "see: planbench schema --help"),
        (["run"], "PLAN"),
        (["render", "p"], "-o"),
        (["fly"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_a_command_that_cannot_be_read_says_what_is_wrong_and_what_next(line, said):
    with pytest.raises(CommandError) as caught:
        command_line().parse_args(line)

    assert said in str(caught.value)
    assert caught.value.hint


def test_flags_are_not_abbreviated():
    with pytest.raises(CommandError):
        command_line().parse_args(["run", "p", "--stri"])
