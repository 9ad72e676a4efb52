from __future__ import annotations

import json

import pytest

from planbench.files import LockedTool, PlanLock
from planbench.notebook.commands import COMMANDS, usage


def elsewhere(name):
    return {name: LockedTool(module="acme.reports", package="acme-tools", version="1.2")}


def test_a_green_run_of_a_named_plan_writes_its_lock(cells):
    cells.write("sweep")
    cells.ok("%plan run sweep")
    lock = json.loads((cells.plans / "sweep.lock.json").read_text())
    assert list(lock["tools"]) == ["fetch", "score"]
    assert cells.stderr == ""


@pytest.mark.parametrize("line", ["run red", "run sweep@1", "run @held"])
def test_any_other_run_writes_none(cells, sweep, line):
    cells.bench.plans.save(sweep, "sweep")
    cells.bench.plans.save(sweep.replace("key: x", "key: y"), "sweep")
    cells.write("red", sweep.replace("tool: score", "tool: boom").replace("args: {value", "x: {v"))
    cells.ok(f"%%plan held\n{sweep}")
    cells.run(f"%plan {line}")
    assert list(cells.plans.glob("*.lock.json")) == []


def test_a_folder_that_takes_no_lock_is_a_note_and_no_failure(cells, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("planbench.files.store.write_whole", refuse)
    cells.write("sweep")
    cells.ok("r = %plan run sweep")
    assert cells.stderr == (
        "planbench: the lock of plan 'sweep' cannot be written: Permission denied\n"
    )
    assert cells.shell.user_ns["r"].verdict() == "fine"


def test_a_colleague_without_a_tool_is_told_where_it_lives(cells, sweep):
    cells.write("sweep", sweep.replace("tool: score", "tool: rate"))
    cells.bench.plans.write_lock("sweep", PlanLock(tools=elsewhere("rate")))
    told = (
        "there is no tool 'rate'; it lives in module acme.reports of package acme-tools 1.2"
        " [unknown_tool] (install acme-tools, and register the tools of acme.reports)"
    )
    loaded = cells.ok("%plan load sweep")
    assert len(loaded.splitlines()) == 1
    assert told in loaded
    assert cells.shell.rl_next_input == f"%%plan\n{cells.read('sweep')}"
    assert told in str(cells.fails("%plan run sweep"))
    cells.ok("t = %plan list")
    assert "acme-tools" in cells.shell.user_ns["t"]["first error"][0]


def test_a_changed_signature_is_seen_before_the_run(cells):
    cells.write("sweep")
    assert cells.ok("%plan run sweep")
    assert cells.ok("%plan load sweep") == ""
    cells.ok(
        "@tool\ndef fetch(key: str, limit: int = 20) -> dict:\n"
        "    CALLS.append('as it is now')\n    return {}"
    )
    assert "[tool_changed]" in cells.ok("%plan load sweep")
    text = cells.ok("%plan run sweep")  # a warning, which stops nothing
    assert "[tool_changed]" in text
    assert cells.ok("%plan load sweep") == ""  # and the green run put it on record


def test_a_plan_in_a_cell_is_told_what_it_requires_itself(cells, sweep):
    requires = "requires: {rate: {module: acme.reports, package: acme-tools}}\n"
    text, error = cells.run(f"%%plan\n{requires}{sweep.replace('tool: score', 'tool: rate')}")
    assert "lives in module acme.reports of package acme-tools" in str(error)
    assert "acme-tools" in text


def test_every_subcommand_is_named_in_the_help_and_explains_itself(cells):
    for name, command in COMMANDS.items():
        assert f"%plan {name}" in usage()
        assert name in cells.shell.magics_manager.registry["PlanMagics"].plan.__doc__
        shown = cells.ok(f"%plan {name} -h")
        assert f"usage: %plan {name}" in shown
        if command.parser is not None:
            assert all(flag in shown for flag in command.parser().flags())
