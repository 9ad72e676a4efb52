"""``%plan runs``, ``show``, ``status``, ``artifacts``, ``resume`` and ``repair``, also of earlier kernels."""

from __future__ import annotations

import pytest

from planbench.errors import CommandError, RunFailed, RunRefused
from planbench.llm import FakeLLMClient
from planbench.llm.fake import text
from planbench.notebook.bundle import static_text
from planbench.notebook.commands import COMMANDS
from planbench.workbench import Workbench, set_workbench

RED = """\
name: red
objective: Fail at the end
nodes:
  - {id: reports, tool: fetch, args: {key: x}}
  - {id: last, tool: boom, depends_on: [reports]}
"""
MENDED = RED.replace("tool: boom,", 'tool: score, args: {value: "{artifacts.reports}"},')


@pytest.fixture
def kept(cells, monkeypatch):
    """A notebook whose runs are kept in its folder."""
    monkeypatch.delenv("PLANBENCH_STORE")
    cells.bench.remember(None)
    return cells


def another_kernel(cells):
    """Take the place of the kernel with one that has the same tools and has run nothing."""
    old = cells.bench
    cells.ok(
        "from planbench.workbench import get_workbench as _bench\n_old = _bench()\nawait _old.close()"
    )
    set_workbench(Workbench(old.registry))


def red(cells, text=RED):
    with pytest.raises(RunFailed):
        raise cells.fails(f"%%plan r --run\n{text}")
    return cells.shell.user_ns["r"].run_id


def table(cells, line):
    cells.ok(f"t = {line}")
    return cells.shell.user_ns["t"]


def break_off(cells):
    """Let the run of this kernel look as if its process had been killed."""
    cells.ok(
        "import sqlite3\n"
        "_db = sqlite3.connect('.planbench/journal.db')\n"
        "_db.execute(\"DELETE FROM planbench_events WHERE body LIKE '%run.finished%'\")\n"
        "_db.execute(\"UPDATE planbench_runs SET status = 'running', events = events - 1\")\n"
        "_db.commit(); _db.close()"
    )


def test_runs_of_an_earlier_kernel_are_listed_with_the_calls_that_are_left(kept):
    run_id = red(kept)
    another_kernel(kept)
    found = table(kept, "%plan runs")
    assert found.loc[0, ["run", "plan", "status", "calls left"]].to_list() == [
        run_id, "red", "partial", "1 of 2",
    ]  # fmt: skip
    assert len(table(kept, "%plan runs --status completed")) == 0


def test_a_run_of_an_earlier_kernel_is_shown_with_its_nodes_and_results(kept):
    run_id = red(kept)
    another_kernel(kept)
    assert "last" in kept.ok(f"%plan show {run_id}")
    assert table(kept, f"%plan status {run_id[:9]}")["status"].to_list() == ["ok", "error"]
    found = table(kept, f"%plan artifacts {run_id}")
    assert found[["key", "kept"]].to_numpy().tolist() == [["reports", "durable"]]
    assert table(kept, "%plan status")["node"].to_list() == ["reports", "last"]
    assert isinstance(kept.fails("%plan status run_nobody"), CommandError)


def test_artifacts_of_a_run_in_memory_are_said_to_be_there(cells):
    red(cells)
    assert table(cells, "%plan artifacts")["kept"].to_list() == ["memory"]


def test_after_a_red_run_the_next_useful_command_goes_on_with_it(kept):
    run_id = red(kept)

    assert f"%plan resume {run_id}" in kept.ok("%plan")


def test_a_resumed_run_says_first_what_it_calls_and_is_red_as_a_run_is(kept):
    run_id = red(kept)
    another_kernel(kept)
    kept.ok("CALLS.clear()")
    assert isinstance(kept.fails(f"%plan resume {run_id}"), RunFailed)
    kept.ok(
        "@tool\ndef boom() -> int:\n    'Work.'\n    CALLS.append('boom')\n    return 5",
    )
    said = kept.ok(f"x = %plan resume {run_id}")
    assert said.startswith(f"run {run_id} of plan 'red' is partial: 1 of 2 calls left")
    assert "to be called: last" in said
    assert kept.shell.user_ns["CALLS"] == ["boom"]
    assert kept.shell.user_ns["x"].run_id == run_id
    error = kept.fails(f"%plan resume {run_id}")
    assert isinstance(error, RunRefused)
    assert error.code == "run_not_resumable"


@pytest.mark.parametrize("way", ["file", "name", "variable", "cell"])
def test_a_run_goes_on_with_a_mended_plan(kept, tmp_path, way):
    run_id = red(kept)
    another_kernel(kept)
    word = {"file": "mended.yml", "name": "mended", "variable": "mended", "cell": "cell"}[way]
    if way == "file":
        (tmp_path / "mended.yml").write_text(MENDED)
    elif way == "name":
        kept.write("mended", MENDED)
    else:
        kept.ok(f"%%plan {'mended' if way == 'variable' else ''}\n{MENDED}")
    kept.ok("CALLS.clear()")
    said = kept.ok(f"x = %plan resume {run_id} --with {word}")
    assert "to be called: last" in said
    run = kept.shell.user_ns["x"]
    assert run.manifest().parent_run_id == run_id
    assert run.status == "completed"
    assert kept.shell.user_ns["CALLS"] == []


def test_a_mended_plan_takes_the_parameters_of_the_run_unless_others_are_given(cells):
    head = "params: {limit: {type: int}}\n"
    first = head + RED.replace("{key: x}", '{key: x, limit: "{params.limit}"}')
    assert isinstance(cells.fails(f"%%plan r --run --param limit=3\n{first}"), RunFailed)
    cells.ok(f"%%plan\n{head}" + MENDED.replace("{key: x}", '{key: x, limit: "{params.limit}"}'))
    cells.ok("CALLS.clear()")
    cells.ok("%plan resume --with cell")
    assert cells.shell.user_ns["CALLS"] == []
    run = cells.bench.runs[0].run_id
    cells.ok(f"%plan resume {run} --with cell --param limit=4")
    assert cells.shell.user_ns["CALLS"] == [("x", 4)]


def test_a_saved_run_goes_on_from_its_file(cells):
    red(cells)
    cells.ok("r.save('red.planrun')\nCALLS.clear()")
    cells.ok(f"%%plan mended\n{MENDED}")
    cells.ok("x = %plan resume red.planrun --with mended")
    assert cells.shell.user_ns["x"].status == "completed"
    assert cells.shell.user_ns["CALLS"] == []
    assert isinstance(cells.fails("%plan resume nothing.planrun"), CommandError)
    assert isinstance(cells.fails("%plan resume red.planrun"), RunFailed)


def test_a_run_of_an_earlier_kernel_is_repaired_by_the_chosen_model(kept):
    run_id = red(kept)
    another_kernel(kept)
    assert "no model is chosen" in str(kept.fails(f"%plan repair {run_id}"))
    answer = (
        '{"nodes": [{"id": "last", "tool": "score", "args": {"value": "{artifacts.reports}"}}]}'
    )
    kept.shell.user_ns["client"] = FakeLLMClient(lambda _: text(answer))
    kept.ok("CALLS.clear()")
    kept.ok(f"x = %plan repair {run_id} --model @client")
    assert kept.shell.user_ns["x"].manifest().repair_attempts_used == 1
    assert kept.shell.user_ns["CALLS"] == []
    assert "no variable 'nobody'" in str(kept.fails(f"%plan repair {run_id} --model @nobody"))


def test_a_restarted_kernel_tells_of_what_was_interrupted(kept):
    run_id = red(kept)
    another_kernel(kept)
    break_off(kept)
    said = kept.ok("%plan")
    assert f"interrupted: {run_id} red 1 of 2 calls left" in said
    assert f"%plan resume {run_id}" in said
    shown = kept.ok(f"%%plan\n{RED}")
    told = f"run {run_id} of this plan was interrupted, 1 of 2 calls left: %plan resume {run_id}"
    assert told in shown
    (session,) = kept.bench.sessions
    assert told in static_text(session)
    assert "interrupted" in table(kept, "%plan runs")["status"].to_list()
    assert isinstance(kept.fails("%plan resume"), RunFailed)  # the latest that can go on


def test_the_store_is_chosen_by_config(kept, tmp_path):
    kept.ok('%config PlanMagics.store = "memory"')
    red(kept)
    assert not (tmp_path / ".planbench").exists()
    kept.ok('%config PlanMagics.store = "sqlite:///mine.db"')
    red(kept)
    assert (tmp_path / "mine.db").exists()


def test_out_of_reach_the_runs_of_this_kernel_are_listed(cells):
    run_id = red(cells)
    cells.ok(
        "def listed():\n    %plan runs\n    return get_ipython().run_line_magic('plan', 'runs')"
    )
    cells.ok("t = listed()")
    assert cells.shell.user_ns["t"]["run"].to_list() == [run_id]
    assert isinstance(cells.fails("def f():\n    %plan resume\nf()"), CommandError)


def test_runs_on_record_are_completed(kept):
    run_id = red(kept)
    another_kernel(kept)
    kept.ok("%plan runs")
    assert run_id in COMMANDS["resume"].candidates(kept.bench, [], run_id[:6])
    assert "cell" in COMMANDS["resume"].candidates(kept.bench, [run_id, "--with"], "")


def test_a_run_to_go_on_with_may_be_a_variable_in_every_subcommand(cells):
    run_id = red(cells)
    cells.ok("mine = r")
    for line in ("show", "status", "artifacts"):
        cells.ok(f"%plan {line} mine")
    with pytest.raises(RunFailed):
        raise cells.fails("%plan resume mine")
    assert run_id in str(cells.shell.user_ns["mine"])


def test_a_status_that_no_run_has_is_refused(cells):
    red(cells)
    assert "'completed'" in str(cells.fails("%plan runs --status complete"))
    assert len(table(cells, "%plan runs --status cancelled")) == 0


def test_a_parameter_without_a_mended_plan_is_refused(cells):
    red(cells)
    for flag in ("--param n=1", "--params r"):
        assert "--with PLAN" in str(cells.fails(f"%plan resume {flag}"))
