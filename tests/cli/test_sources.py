from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from planbench.cli.sources import plan_source
from planbench.errors import PlanLoadError
from planbench.files import PlanFileStore

PLAN = "name: sweep\nobjective: o\nnodes:\n  - {id: a, tool: numbers, args: {n: 1}}\n"


@pytest.fixture
def store(project):
    """The folder ``plans`` in a git tree: n is 1 at main and in version 1, and 2 in the file."""
    store = PlanFileStore("plans")
    store.save(PLAN, "sweep")
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "plans/sweep.yaml"],
        ["commit", "-qm", "x"],
    ):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *identity, *words], check=True, capture_output=True)
    store.save(PLAN.replace("n: 1", "n: 2"), "sweep")
    return store


def test_a_name_stands_for_its_file_a_version_for_its_own_and_a_ref_for_a_text(store):
    assert plan_source("sweep", store) == Path("plans/sweep.yaml")
    assert plan_source("sweep@1", store) == Path("plans/.versions/sweep/1.yaml")
    assert plan_source("sweep@main", store) == PLAN


def test_a_path_is_taken_as_it_is(store):
    for word in ("plans/sweep.yaml", "sweep.yaml", "nowhere/a@b.yml"):
        assert plan_source(word, store) == Path(word)


def test_a_file_whose_name_holds_an_at_sign_goes_before_a_ref(store, tmp_path):
    (tmp_path / "sweep@main.yaml").write_text(PLAN)
    assert plan_source("sweep@main.yaml", store) == Path("sweep@main.yaml")
    with pytest.raises(PlanLoadError, match="git knows no commit"):
        plan_source("sweep@other.yaml", store)


def test_the_standard_input_and_a_pipe_give_their_text_once(store, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("from outside"))
    assert plan_source("-", store) == "from outside"
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PLAN,))
    writer.start()
    assert plan_source(str(pipe), store) == PLAN
    writer.join()


@pytest.mark.parametrize(("name", "n"), [("sweep@1", 1), ("sweep@main", 1), ("sweep", 2)])
def test_every_command_about_a_plan_takes_versions_and_refs(store, with_tools, name, n):
    assert with_tools("validate", name)[0] == 0
    assert f'"n": {n}' in with_tools("validate", name, "--json")[1]
    assert with_tools("run", name)[0] == 0
    assert with_tools("render", name, "-o", "out.txt")[0] == 0
    assert json.loads(with_tools("run", name, "--json", "-")[1])["plan_name"] == "sweep"


def test_findings_of_a_ref_name_it_as_their_place(store, with_tools, project):
    (project / "own_tools.py").write_text("def other() -> int:\n    return 1\n")
    assert with_tools("validate", "sweep@main")[1].startswith("sweep@main:4:")


def test_a_plan_at_a_ref_is_formatted_onto_the_standard_output(store, command):
    code, out, _ = command("fmt", "sweep@main")
    assert code == 0
    assert out.startswith("name: sweep\n")
    assert command("diff", "sweep@main", "sweep")[1] == (
        "sweep: 1 node changed\n  ~ node a\n      args.n: 1 -> 2\n"
    )


def test_a_word_that_names_no_plan_says_what_it_is_and_what_to_write(command, project):
    (project / "notes.md").write_text("no plan")
    for word, what, instead in (
        ("notes.md", "is no plan file", "- < notes.md"),
        (".", "is a folder", "--plans-dir"),
        ("plans", "is a folder", "--plans-dir"),
        ("plans/sqares.yaml", "does not exist", "did you mean 'squares.yaml'?"),
        ("nowhere/a.yaml", "does not exist", "there is no folder 'nowhere'"),
    ):
        code, _, errors = command("validate", word)
        first, _, rest = errors.partition("\n")
        assert code == 2
        assert what in first
        assert instead in rest


def test_a_standard_input_that_is_closed_or_no_text_is_a_wrong_command(command, monkeypatch):
    for stream in (None, io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")):
        monkeypatch.setattr(sys, "stdin", stream)
        code, _, errors = command("validate", "-")
        assert code == 2
        assert "the standard input" in errors or "no standard input" in errors
