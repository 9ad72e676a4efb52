from __future__ import annotations

import argparse
import io
import sys
import xml.etree.ElementTree as ET

import pytest

from planbench.cli.difference import add, difference
from planbench.errors import CommandError, PlanInvalid, PlanLoadError
from planbench.files import PlanFileStore

SWEEP = "name: sweep\nobjective: o\nnodes:\n  - {id: a, tool: t, args: {n: 1}}\n"


@pytest.fixture
def diff(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder where version 2 of ``sweep`` is current; gives code and output."""
    monkeypatch.chdir(tmp_path)
    store = PlanFileStore("plans")
    store.save(SWEEP, "sweep")
    store.save(SWEEP.replace("n: 1", "n: 2"), "sweep")

    def call(*words):
        parser = argparse.ArgumentParser()
        add(parser.add_subparsers(dest="command"))
        code = difference(parser.parse_args(["diff", *map(str, words)]))
        return code, capsys.readouterr().out

    return call


def test_two_versions_are_compared_in_words(diff):
    code, out = diff("sweep@1", "sweep")
    assert code == 0
    assert out == "sweep: 1 node changed\n  ~ node a\n      args.n: 1 -> 2\n"


def test_plans_that_do_not_differ_are_fine(diff):
    assert diff("sweep@2", "sweep") == (0, "sweep: no difference\n")


def test_files_are_named_by_their_path(diff, tmp_path):
    (tmp_path / "other.yaml").write_text(SWEEP.replace("n: 1", "n: 5"))
    assert "args.n: 2 -> 5" in diff("plans/sweep.yaml", "other.yaml")[1]


def test_one_of_them_may_come_from_the_standard_input(diff, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(SWEEP))
    assert "args.n: 1 -> 2" in diff("-", "sweep")[1]
    with pytest.raises(CommandError, match="one plan"):
        diff("-", "-")


def test_markdown_is_all_that_is_printed(diff):
    code, out = diff("sweep@1", "sweep", "--markdown")
    assert code == 0
    assert out.startswith("### `sweep`: 1 node changed\n\n```mermaid\n")
    assert out.endswith("  - `args.n`: `1` to `2`\n")


def test_a_drawing_goes_into_a_file(diff, tmp_path):
    code, out = diff("sweep@1", "sweep", "--svg", "diff.svg")
    assert (code, out) == (0, "wrote diff.svg\n")
    assert ET.fromstring((tmp_path / "diff.svg").read_text()).get("class") == "pb-diff"
    assert "wrote" not in diff("sweep@1", "sweep", "--svg", "diff.svg", "--markdown")[1]


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(diff):
    with pytest.raises(CommandError, match="no folder"):
        diff("nowhere", "nowhere", "--svg", "missing/diff.svg")


def test_plans_that_are_not_there_or_broken_are_errors(diff, tmp_path):
    with pytest.raises(PlanLoadError, match="no version 9"):
        diff("sweep@9", "sweep")
    (tmp_path / "broken.yaml").write_text("name: x\n")
    with pytest.raises(PlanInvalid):
        diff("broken.yaml", "sweep")


@pytest.mark.parametrize("ref", ["feature/x", "v1.yaml"])
def test_a_ref_that_looks_like_a_path_is_still_a_ref(diff, monkeypatch, ref):
    asked = []

    def read(folder, name, ref):
        asked.append((name, ref))
        return SWEEP.encode()

    monkeypatch.setattr("planbench.files.store.read_committed", read)
    assert "args.n: 1 -> 2" in diff(f"sweep@{ref}", "sweep")[1]
    assert asked == [("sweep", ref)]
