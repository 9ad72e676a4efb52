"""``planbench runs``, ``show``, ``resume``, ``repair`` and ``artifacts`` on runs on record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from planbench.llm import FakeLLMClient
from planbench.llm.fake import text

KILLED = -9
MORTAL = '''
import contextlib
import os
import signal
import sqlite3
from pathlib import Path


def note(said):
    with Path("calls").open("a") as file:
        file.write(said + "\\n")


def listing() -> list:
    """The numbers."""
    note("listing")
    return list(range(4))


def recorded() -> int:
    with contextlib.closing(sqlite3.connect(".planbench/journal.db", timeout=20)) as connection:
        return connection.execute(
            "SELECT count(*) FROM planbench_events WHERE body LIKE '%item.finished%'"
        ).fetchone()[0]


def fetch(n: int) -> int:
    """One number."""
    if n == 2 and os.environ.get("DIE"):
        while recorded() < 2:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    note(f"fetch {n}")
    return n


def total(values: list) -> int:
    """Their sum."""
    note("total")
    return sum(values)


def odd() -> object:
    """What cannot be kept."""
    return Path


__all__ = ["fetch", "listing", "odd", "total"]
'''
PLAN = """\
name: mortal
objective: Be killed
nodes:
  - {id: listing, tool: listing}
  - id: each
    tool: fetch
    for_each: {source: "{artifacts.listing}", max_concurrency: 1}
    args: {n: "{item}"}
  - {id: total, tool: total, args: {values: "{artifacts.each}"}}
"""


@pytest.fixture
def kept(project, monkeypatch):
    """The project, with runs kept in its folder."""
    monkeypatch.delenv("PLANBENCH_STORE")
    (project / "own_mortal.py").write_text(MORTAL)
    (project / "plans" / "mortal.yaml").write_text(PLAN)
    return project


@pytest.fixture
def killed(kept):
    """A run whose process was killed in its middle."""
    words = [sys.executable, "-m", "planbench", "run", "mortal", "--tools", "own_mortal"]
    done = subprocess.run(
        words, cwd=kept, env={**os.environ, "DIE": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert calls(kept) == ["listing", "fetch 0", "fetch 1"]
    return kept


def calls(folder):
    found = (folder / "calls").read_text().splitlines()
    (folder / "calls").unlink()
    return found


def test_a_killed_run_is_listed_shown_and_finished_and_only_what_is_missing_is_called(
    command, killed
):
    code, said, _ = command("runs", "--json")
    (record,) = json.loads(said)
    assert (code, record["status"], record["plan_name"]) == (0, "interrupted", "mortal")
    assert (record["calls_left"], record["calls_total"]) == (3, 6)
    run_id = record["run_id"]
    assert "interrupted  3 of 6 calls left" in command("runs")[1]
    code, said, _ = command("show", run_id[:9])
    assert code == 0
    assert f"run {run_id}, on record, 3 of 6 calls left" in said
    code, said, errors = command("resume", run_id, "--tools", "own_mortal")
    assert code == 0, errors
    assert "to be called: each (2 of 4 items), total" in said
    assert [line.split()[:2] for line in said.splitlines() if line.startswith("  ")] == [
        ["listing", "ok"],
        ["each", "started"],
        ["each", "ok"],
        ["total", "started"],
        ["total", "ok"],
    ]
    assert "mortal: completed, 3 of 3 nodes ok" in said
    assert calls(killed) == ["fetch 2", "fetch 3", "total"]
    code, _, errors = command("resume", run_id, "--tools", "own_mortal")
    assert code == 2
    assert "run_not_resumable" in errors


def test_results_on_record_are_listed_and_taken_out(command, killed):
    run_id = json.loads(command("runs", "--json")[1])[0]["run_id"]
    code, said, _ = command("artifacts", run_id)
    assert code == 0
    assert "each.1" in said
    assert "durable" in said
    rows = json.loads(command("artifacts", run_id, "--json")[1])
    assert [row["key"] for row in rows] == ["listing", "each.0", "each.1"]
    assert command("show", run_id, "--artifact", "each", "--out", "e.json")[0] == 0
    assert json.loads((killed / "e.json").read_text()) == [0, 1]


def test_a_red_run_goes_on_with_a_mended_plan(command, kept):
    (kept / "plans" / "mortal.yaml").write_text(
        PLAN.replace("tool: total", "tool: fetch").replace("values:", "n:")
    )
    code, _, errors = command("run", "mortal", "--tools", "own_mortal")
    assert code == 1, errors
    calls(kept)
    (kept / "mended.yaml").write_text(PLAN)
    run_id = json.loads(command("runs", "--json", "--status", "partial")[1])[0]["run_id"]
    code, said, errors = command(
        "resume", run_id, "--with", "mended.yaml", "--tools", "own_mortal", "--save", "x.planrun"
    )
    assert code == 0, errors
    assert "to be called: total" in said
    assert "saved x.planrun" in said
    assert calls(kept) == ["total"]
    first, second = json.loads(command("runs", "--json")[1])
    assert first["parent_run_id"] == run_id == second["run_id"]


def test_a_run_is_repaired_by_a_model(command, kept, monkeypatch):
    broken = PLAN.replace("tool: total", "tool: fetch").replace("values:", "n:")
    (kept / "plans" / "mortal.yaml").write_text(broken)
    assert command("run", "mortal", "--tools", "own_mortal")[0] == 1
    calls(kept)
    answer = '{"nodes": [{"id": "total", "tool": "total", "args": {"values": "{artifacts.each}"}}]}'
    asked = []

    def model(bench, spec):
        asked.append(spec)
        return FakeLLMClient(lambda _: text(answer))

    monkeypatch.setattr("planbench.workbench.Workbench.model", model)
    run_id = json.loads(command("runs", "--json")[1])[0]["run_id"]
    code, said, errors = command(
        "repair", run_id, "--planner", "some:model", "--tools", "own_mortal"
    )
    assert code == 0, errors
    assert asked == ["some:model"]
    assert "completed" in said
    assert calls(kept) == ["total"]


def test_a_repair_without_a_model_is_a_wrong_command(command, kept):
    code, _, errors = command("repair", "run_1", "--tools", "own_mortal")
    assert code == 2
    assert "--planner" in errors


@pytest.mark.parametrize("words", [["show", "run_x"], ["artifacts", "run_x"]])
def test_an_unknown_run_is_a_wrong_command_and_makes_no_folder(command, kept, words):
    code, _, errors = command(*words)
    assert code == 2
    assert "there is no run 'run_x'" in errors
    assert not (kept / ".planbench").exists()


def test_no_runs_are_no_error(command, kept):
    assert command("runs") == (0, "no runs on record\n", "")
    assert command("runs", "--json") == (0, "[]\n", "")
    assert not (kept / ".planbench").exists()


def test_a_run_with_memory_leaves_nothing_behind(command, kept):
    assert command("run", "squares", "--tools", "own_tools", "--store", "memory")[0] == 0
    assert not (kept / ".planbench").exists()


def test_a_store_is_named_for_the_run_and_for_the_list(command, kept):
    store = "sqlite:///mine.db"
    assert command("run", "squares", "--tools", "own_tools", "--store", store)[0] == 0
    assert "squares" in command("runs", "--store", store)[1]
    assert command("runs")[1] == "no runs on record\n"


def test_a_folder_that_cannot_be_used_is_a_note(command, kept):
    (kept / ".planbench").write_text("in the way")
    code, _, errors = command("run", "squares", "--tools", "own_tools")
    assert code == 0
    assert "planbench: note: runs are kept in this process only" in errors


def test_a_result_that_was_in_memory_only_is_told_as_gone(command, kept):
    (kept / "plans" / "odd.yaml").write_text(
        "name: odd\nobjective: o\nnodes:\n  - {id: a, tool: odd}\n"
    )
    assert command("run", "odd", "--tools", "own_mortal")[0] == 0
    run_id = json.loads(command("runs", "--json")[1])[0]["run_id"]
    assert command("artifacts", run_id)[1].split()[-1] == "gone"
    assert "gone with its process: a" in command("show", run_id)[1]
    code, _, errors = command("show", run_id, "--artifact", "a", "--out", "a.json")
    assert code == 2
    assert "kept in the memory of the process" in errors


def test_a_status_that_no_run_has_is_a_wrong_command(command, kept):
    for word, said in (("complete", "did you mean 'completed'?"), ("zzz", "it is one of running")):
        code, _, errors = command("runs", "--status", word)
        assert code == 2
        assert said in errors
    assert command("runs", "--status", "cancelled") == (0, "none is cancelled\n", "")


def test_a_red_run_says_the_command_that_goes_on_with_it(command, kept):
    words = ["run", "red", "--tools", "own_tools"]
    code, _, errors = command(*words)
    (said,) = [line for line in errors.splitlines() if "calls left" in line]
    assert code == 1
    again = said.partition(": planbench ")[2].split()
    assert again[:1] == ["resume"]
    assert again[2:] == ["--tools", "own_tools"]
    assert command(*again)[0] == 1
    _, _, errors = command(*words, "--store", "memory")
    assert "calls left" not in errors


def test_a_limit_of_bytes_holds_for_a_run_on_record_too(command, kept):
    assert command("run", "mortal", "--tools", "own_mortal")[0] == 0
    run_id = json.loads(command("runs", "--json")[1])[0]["run_id"]
    words = ["show", run_id, "--artifact", "each", "--out", "each.json", "--max-bytes"]
    code, _, errors = command(*words, 1)
    assert code == 2
    enough = errors.split()[-1]
    assert not (kept / "each.json").exists()
    assert command(*words, enough)[0] == 0
