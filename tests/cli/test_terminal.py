from __future__ import annotations

import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.cli.terminal import Screen, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("café \N{GREEK SMALL LETTER PI}", "café \N{GREEK SMALL LETTER PI}"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\rb"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}txt", "\\u202etxt"),
        ("\ud83d", "\\ud83d"),
        ("\x00", "\\x00"),
    ],
)
def test_what_would_steer_a_terminal_is_written_out(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_no_control_code_ever_comes_through(text):
    shown = printable(text)

    assert all(character in "\n\t" or ord(character) >= 32 for character in shown)
    assert "\x7f" not in shown
    assert "\x1b" not in shown


def test_a_screen_that_knows_only_ascii_gets_escapes_instead_of_an_error():
    raw = io.BytesIO()

    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)

    Screen(stream).line("\N{GREEK SMALL LETTER PI}")

    assert raw.getvalue() == b"\\u03c0\n"


def test_a_file_is_no_terminal():
    assert not Screen(io.StringIO()).interactive


def test_a_reader_that_went_away_ends_the_lines_and_not_the_program():
    program = (
        "import sys\n"
        "from planbench.cli.terminal import output\n"
        "screen = output()\n"
        "for number in range(100_000): screen.line(f'line {number}')\n"
        "print('done', file=sys.stderr)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        said = process.stderr.read()

    assert said == "done\n"
    assert process.returncode == 0
