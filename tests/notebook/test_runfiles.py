"""``%plan open``, and runs of cells that are saved when they end."""

from __future__ import annotations

import pytest

from planbench import SavedRun, open_run
from planbench.errors import CommandError, ConfigurationError, RecordDamaged, RunFailed

RED = """\
name: red
objective: o
nodes:
  - {id: a, tool: fetch, args: {key: x}}
  - {id: b, tool: boom, depends_on: [a]}
"""


@pytest.fixture
def saved(cells, tmp_path):
    """The file of a red run."""
    cells.fails(f"%%plan r --run\n{RED}")
    return cells.shell.user_ns["r"].save(tmp_path / "red.planrun")


def test_a_saved_run_is_shown_as_it_ended_and_put_into_a_variable(cells, saved):
    calls = len(cells.shell.user_ns["CALLS"])
    text = cells.ok("%plan open red.planrun again")
    assert "red: partial" in text
    assert "ValueError: it went off" in text
    html = cells.outputs[-1]["text/html"]
    assert "as it was saved to red.planrun; it is not live" in html
    assert "%plan show" not in html
    assert "application/vnd.jupyter.widget-view+json" not in cells.outputs[-1]
    again = cells.shell.user_ns["again"]
    assert isinstance(again, SavedRun)
    assert again.run.value("a") == {"key": "x", "limit": 10}
    assert len(cells.shell.user_ns["CALLS"]) == calls


def test_without_a_variable_it_is_only_shown(cells, saved):
    before = set(cells.shell.user_ns)
    assert "red: partial" in cells.ok("%plan open red.planrun")
    assert set(cells.shell.user_ns) - before <= {"_i1", "_i2", "_i3", "_i4", "_i5"}


def test_it_says_what_is_not_in_the_file(cells, saved):
    cells.shell.user_ns["r"].save("bare.planrun", artifacts="none")
    cells.ok("%plan open bare.planrun x")
    assert "left out: a: 1 value" in cells.outputs[-1]["text/html"]


def test_a_file_that_is_none_and_a_name_that_is_none_are_refused(cells, saved):
    assert isinstance(cells.fails("%plan open no.planrun"), CommandError)
    assert isinstance(cells.fails("%plan open"), CommandError)
    assert isinstance(cells.fails("%plan open red.planrun 1x"), CommandError)
    saved.write_bytes(b"PK")
    error = cells.fails("%plan open red.planrun x")
    assert isinstance(error, RecordDamaged)
    assert "x" not in cells.shell.user_ns


def test_its_files_are_completed(cells, saved):
    from planbench.notebook.runfiles import open_words

    assert list(open_words(cells.bench, [], "")) == ["red.planrun"]
    assert list(open_words(cells.bench, [], "r")) == ["red.planrun"]
    assert list(open_words(cells.bench, [], "no/")) == []
    assert list(open_words(cells.bench, ["red.planrun"], "")) == []


def test_a_red_cell_is_saved_before_it_fails(cells, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANBENCH_SAVE", "on-failure:failed")
    error = cells.fails(f"%%plan r --run\n{RED}")
    assert isinstance(error, RunFailed)
    (path,) = (tmp_path / "failed").glob("*.planrun")
    assert open_run(path).run.verdict() == "red"
    assert path.with_suffix(".html").exists()
    assert "planbench: saved failed/red-run_" in cells.stderr


def test_a_green_cell_is_not_saved(cells, tmp_path, monkeypatch, sweep):
    monkeypatch.setenv("PLANBENCH_SAVE", "on-failure:failed")
    cells.ok(f"%%plan r --run\n{sweep}")
    assert not (tmp_path / "failed").exists()
    assert cells.stderr == ""


def test_a_bad_value_of_the_variable_fails_the_cell_before_anything_is_called(
    cells, monkeypatch, sweep
):
    monkeypatch.setenv("PLANBENCH_SAVE", "often")
    assert isinstance(cells.fails(f"%%plan r --run\n{sweep}"), ConfigurationError)
    assert cells.shell.user_ns["CALLS"] == []
