from __future__ import annotations

import argparse
import io
import sys

import pytest

from planbench.cli.formatting import add, formatting
from planbench.errors import CommandError, PlanInvalid, PlanLoadError
from planbench.files import PlanFileStore

LONG = "# why\nname: p\nobjective: o\nnodes:\n  - id: a\n    tool: t\n    store_as: a\n"
SHORT = LONG.replace("    store_as: a\n", "")
WRITTEN = SHORT + "    store_as: a\n"


@pytest.fixture
def fmt(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder with the plan ``p``; gives its code and what it prints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/p.yaml").write_text(LONG)

    def call(*words):
        parser = argparse.ArgumentParser()
        add(parser.add_subparsers(dest="command"))
        code = formatting(parser.parse_args(["fmt", *map(str, words)]))
        return code, *capsys.readouterr()

    return call


def test_a_file_is_written_in_place_and_then_left_alone(fmt, tmp_path):
    assert fmt("plans/p.yaml") == (0, "plans/p.yaml: changed\n", "")
    assert (tmp_path / "plans/p.yaml").read_text() == SHORT
    assert fmt("p") == (0, "p: nothing to change\n", "")


def test_the_long_form_is_written_with_reference(fmt, tmp_path):
    fmt("p")
    assert fmt("p", "--reference")[:2] == (0, "p: changed\n")
    assert (tmp_path / "plans/p.yaml").read_text() == WRITTEN


def test_a_check_says_what_would_be_and_changes_nothing(fmt, tmp_path):
    assert fmt("p", "--check") == (1, "p: would be changed\n", "")
    assert (tmp_path / "plans/p.yaml").read_text() == LONG
    assert fmt("p", "--check", "--reference") == (0, "p: nothing to change\n", "")
    with pytest.raises(CommandError, match="--check writes nothing"):
        fmt("p", "--check", "-o", "x.yaml")


def test_it_can_be_written_elsewhere(fmt, tmp_path):
    assert fmt("p", "-o", "new.yaml")[:2] == (0, "wrote new.yaml\n")
    assert (tmp_path / "new.yaml").read_text() == SHORT
    assert (tmp_path / "plans/p.yaml").read_text() == LONG
    assert fmt("p", "-o", "-") == (0, SHORT, "")
    with pytest.raises(CommandError, match="no folder"):
        fmt("p", "-o", "nowhere/new.yaml")


def test_the_standard_input_goes_to_the_standard_output(fmt, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(LONG))
    assert fmt("-") == (0, SHORT, "")


def test_a_kept_version_is_never_changed(fmt, tmp_path):
    store = PlanFileStore(tmp_path / "plans")
    store.save(LONG, "kept")
    store.save(LONG.replace("o\n", "other\n", 1), "kept")

    with pytest.raises(CommandError, match="kept version"):
        fmt("kept@1")
    assert fmt("kept@1", "-o", "-")[0] == 0


def test_comments_that_find_no_place_are_named(fmt, tmp_path):
    shared = "name: p\nobjective: o\nnodes:\n  - &n {id: a, tool: t, facets: &f {n: 'count([])'}}   # one\n  - {<<: *n, id: b}   # two\n"
    (tmp_path / "s.yaml").write_text(shared)
    code, out, err = fmt("s.yaml", "--reference")

    assert (code, out) == (0, "s.yaml: changed\n")
    assert err == "s.yaml: 2 comments have no place in that form: '# one', '# two'\n"


def test_a_plan_with_errors_is_refused_with_its_name(fmt, tmp_path):
    (tmp_path / "bad.yaml").write_text(LONG.replace("tool: t", "tool: 5"))

    with pytest.raises(PlanInvalid, match="tool must be text") as caught:
        fmt("bad.yaml")
    assert caught.value.path == "bad.yaml"
    with pytest.raises(PlanLoadError):
        fmt("nowhere.yaml")


def test_a_folder_that_takes_no_files_is_told(fmt, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("planbench.cli.formatting.write_whole", refuse)
    with pytest.raises(PlanLoadError, match=r"p\.yaml cannot be written: Permission denied"):
        fmt("p")
