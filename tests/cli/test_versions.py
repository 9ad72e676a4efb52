from __future__ import annotations

import io
import json
import re
import sys

import pytest

SHORT = """\
# squares of numbers
name: squares
objective: Square some numbers
nodes:
  - {id: numbers, tool: numbers, args: {n: 2}}
  - {id: one, tool: square, args: {x: 1}, depends_on: [numbers]}
"""


@pytest.fixture
def short(project):
    (project / "short.yaml").write_text(SHORT)
    return project / "plans" / "short.yaml"


def test_a_file_is_saved_as_it_was_written_with_a_version(with_tools, short):
    assert with_tools("save", "short.yaml", "short") == (0, "saved short, version 1\n", "")
    assert short.read_text() == SHORT
    assert with_tools("save", "short.yaml", "short") == (0, "short is as it was, version 1\n", "")


def test_a_plan_comes_from_the_standard_input_and_a_version_is_brought_back(
    with_tools, short, monkeypatch
):
    with_tools("save", "short.yaml", "short")
    monkeypatch.setattr(sys, "stdin", io.StringIO(SHORT.replace("n: 2", "n: 3")))
    assert with_tools("save", "-", "short")[1] == "saved short, version 2\n"
    assert with_tools("save", "short@1", "short")[1] == "saved short, version 3\n"
    assert short.read_text() == SHORT


def test_a_plan_that_does_not_fit_the_tools_is_saved_only_by_force(with_tools, short, project):
    (project / "short.yaml").write_text(SHORT.replace("tool: square", "tool: sqare"))
    code, out, err = with_tools("save", "short.yaml", "short")
    assert (code, out) == (2, "")
    assert "did you mean 'square'?" in err
    assert not short.exists()
    code, out, err = with_tools("save", "short.yaml", "short", "--force")
    assert (code, out) == (0, "saved short, version 1\n")
    assert "short.yaml:6:" in err
    assert "[unknown_tool]" in err


def test_without_tools_a_plan_that_is_one_is_saved_with_a_warning(command, short):
    code, out, err = command("save", "short.yaml", "short")
    assert (code, out) == (0, "saved short, version 1\n")
    assert "[no_registry]" in err


def test_what_is_no_plan_and_what_is_no_name_are_refused(with_tools, short, project):
    (project / "short.yaml").write_text("name: x\n")
    assert with_tools("save", "short.yaml", "short", "--force")[0] == 2
    (project / "short.yaml").write_text(SHORT)
    code, _, err = with_tools("save", "short.yaml", "short@2")
    assert code == 2
    assert "asks for a version" in err


def test_the_history_has_a_line_for_each_version(with_tools, command, short):
    with_tools("save", "short.yaml", "short")
    short.write_text(SHORT.replace("Square some numbers", "By hand"))
    code, out, err = command("history", "short")
    assert (code, err) == (0, "")
    lines = [re.split(r"\s{2,}", line) for line in out.splitlines()]
    assert [(line[0], line[-1]) for line in lines] == [
        ("1", "Square some numbers"),
        ("2", "By hand"),
    ]
    versions = json.loads(command("history", "short", "--json")[1])
    assert [version["version"] for version in versions] == [1, 2]
    assert versions[0]["sha256"].startswith(lines[0][2])


def test_the_history_of_no_plan_is_an_error_that_names_a_near_one(command):
    code, out, err = command("history", "sqares")
    assert (code, out) == (2, "")
    assert "did you mean 'squares'?" in err
