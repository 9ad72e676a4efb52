from __future__ import annotations

import subprocess

import pytest

from planbench.errors import CommandError, PlanLoadError
from planbench.llm import extract
from planbench.notebook.sources import KEPT, CellTexts
from planbench.plan.document import read_document
from planbench.plan.draft import draft


def test_a_former_version_is_run_and_loaded_by_its_number(cells, sweep):
    cells.bench.plans.save(sweep, "sweep")
    cells.bench.plans.save(sweep.replace("key: x", "key: y"), "sweep")
    cells.ok("%plan run sweep@1\n%plan run sweep")
    assert cells.shell.user_ns["CALLS"] == [("x", 5), ("y", 5)]
    cells.ok("%plan load sweep@1")
    assert cells.shell.rl_next_input == f"%%plan\n{sweep}"


def test_a_plan_is_run_and_loaded_as_a_commit_has_it(cells, sweep):
    def git(*words):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *identity, *words], cwd=cells.plans, check=True, capture_output=True)

    cells.write("sweep")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    cells.write("sweep", sweep.replace("key: x", "key: y"))
    cells.ok("%plan run sweep@main --param limit=1")
    assert cells.shell.user_ns["CALLS"] == [("x", 1)]
    cells.ok("%plan load sweep@main")
    assert cells.shell.rl_next_input == f"%%plan\n{sweep}"
    assert 'args.key: "x" -> "y"' in cells.ok("%plan diff sweep@main sweep")
    assert not (cells.plans / "sweep.lock.json").exists()  # what ran is not the plan as it is


def test_a_name_of_the_plans_folder_goes_before_a_variable(cells, sweep):
    cells.write("sweep")
    cells.ok(f"%%plan sweep\n{sweep.replace('key: x', 'key: y')}")
    assert "no difference" in cells.ok("%plan diff sweep sweep")
    assert "args.key" in cells.ok("%plan diff sweep @sweep")


def test_a_text_or_a_file_of_a_variable_is_a_plan_too(cells, sweep):
    cells.ok("from pathlib import Path")
    cells.shell.user_ns["text"] = sweep
    (cells.plans.parent / "else.yaml").write_text(sweep)
    cells.ok("file = Path('else.yaml')")
    assert "no difference" in cells.ok("%plan diff text file")


@pytest.mark.parametrize("name", ["sweep@9", "sweep@no-such-ref", "sweep@"])
def test_a_version_that_is_not_there_is_an_error(cells, sweep, name):
    cells.write("sweep")
    for command in ("run", "load", "save other"):
        assert isinstance(cells.fails(f"%plan {command} {name}"), PlanLoadError | CommandError)


def kept(text):
    made = draft(read_document(text)).plan
    return extract(text), made


def test_a_text_is_found_by_the_very_plan_that_was_read_from_it(sweep):
    texts = CellTexts()
    assert texts.latest is None
    found, plan = kept(f"\n\n{sweep}")
    texts.keep(found, plan)
    assert texts.latest == texts.of_plan(plan) == found.text
    assert texts.of_source(found.aligned) == found.text
    assert texts.of_plan(kept(sweep)[1]) is None
    assert texts.of_source("other") == "other"


def test_only_the_latest_texts_are_kept(sweep):
    texts = CellTexts()
    first, *_ = made = [kept(sweep.replace("key: x", f"key: x{n}")) for n in range(KEPT + 1)]
    for found, plan in made:
        texts.keep(found, plan)
    assert texts.of_plan(first[1]) is None
    assert texts.of_plan(made[1][1]) == made[1][0].text
