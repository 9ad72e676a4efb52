"""Runs that are saved when they end: the red ones or all, and nothing else changes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from planbench import Workbench, load_plan, open_run, run_plan
from planbench.errors import ConfigurationError
from planbench.runtime import saving
from planbench.runtime.saving import SavePolicy, save_policy

GREEN = "name: green\nobjective: o\nnodes:\n  - {id: a, tool: give, args: {value: 1}}\n"
RED = "name: r/e d\nobjective: o\nnodes:\n  - {id: a, tool: boom}\n"
LOSSY = (
    "name: lossy\nobjective: o\nnodes:\n  - {id: src, tool: give, args: {value: [1, -1]}}\n"
    '  - {id: fan, tool: picky, for_each: {source: "{artifacts.src}"}, args: {value: "{item}"}}\n'
)


@pytest.fixture
def saves(tmp_path, monkeypatch):
    """Set the variable to a folder that does not exist yet."""
    folder = tmp_path / "runs" / "red"
    monkeypatch.delenv("PLANBENCH_STRICT", raising=False)

    def set_to(when):
        monkeypatch.setenv("PLANBENCH_SAVE", f"{when}:{folder}")
        return folder

    return set_to


def ran(lab, text, strict=False):
    async def main():
        bench = Workbench(lab.registry)
        run = await bench.start(load_plan(text))
        run.strict = strict
        outcome = await run
        told = run.saved_as
        await bench.close()
        return outcome, told

    return asyncio.run(main())


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_red_run_is_saved_as_file_and_page_before_who_waited_goes_on(lab, saves):
    folder = saves("on-failure")
    outcome, told = ran(lab, RED)
    assert outcome.status == "failed"
    run_id = outcome.value.run_id
    assert names(folder) == [f"r_e_d-{run_id}.html", f"r_e_d-{run_id}.planrun"]
    assert told.startswith("saved ")
    assert open_run(folder / f"r_e_d-{run_id}.planrun").run.verdict() == "red"


def test_a_green_run_is_not_saved_unless_all_are(lab, saves):
    folder = saves("on-failure")
    outcome, told = ran(lab, GREEN)
    assert (outcome.status, told, names(folder)) == ("completed", "", [])
    assert not folder.exists()
    saves("always")
    ran(lab, GREEN)
    assert len(names(folder)) == 2


def test_lost_items_are_a_failure_where_the_run_is_strict(lab, saves):
    folder = saves("on-failure")
    ran(lab, LOSSY)
    assert names(folder) == []
    ran(lab, LOSSY, strict=True)
    assert len(names(folder)) == 2


def test_run_plan_saves_too(lab, saves):
    folder = saves("on-failure")
    manifest = asyncio.run(run_plan(load_plan(RED), registry=lab.registry))
    assert manifest.status == "failed"
    assert len(names(folder)) == 2


def test_a_cancelled_run_is_saved_only_where_all_are(lab, saves):
    async def main():
        gate = asyncio.Event()

        @lab.tool
        async def hold() -> None:
            await gate.wait()

        bench = Workbench(lab.registry)
        run = await bench.start(load_plan(GREEN.replace("give, args: {value: 1}", "hold")))
        await lab.until(lambda: run.state.nodes["a"].status == "running")
        run.cancel()
        outcome = await run
        await bench.close()
        assert outcome.status == "cancelled"

    folder = saves("on-failure")
    asyncio.run(main())
    assert names(folder) == []
    saves("always")
    asyncio.run(main())
    assert len(names(folder)) == 2


@pytest.mark.parametrize("text", [GREEN, RED])
def test_a_file_that_cannot_be_written_changes_nothing_and_is_logged(
    lab, saves, caplog, monkeypatch, text
):
    saves("always")

    def fail(*args):
        raise OSError("the disk is full")

    monkeypatch.setattr(saving, "_saved", fail)
    with caplog.at_level(logging.WARNING, "planbench"):
        outcome, told = ran(lab, text)
    assert outcome.status == ("completed" if text is GREEN else "failed")
    assert told == ""
    assert "could not be saved" in caplog.text
    assert "the disk is full" in caplog.text


@pytest.mark.parametrize(
    "value", ["on-failure", "always", "always:", "never:x", ":x", "x", "Always:x", "always: "]
)
def test_a_value_that_is_none_is_refused_before_anything_is_called(lab, monkeypatch, value):
    monkeypatch.setenv("PLANBENCH_SAVE", value)
    with pytest.raises(ConfigurationError, match="PLANBENCH_SAVE"):
        ran(lab, GREEN)
    with pytest.raises(ConfigurationError, match="PLANBENCH_SAVE"):
        asyncio.run(run_plan(load_plan(GREEN), registry=lab.registry))
    assert lab.calls == []


def test_a_folder_that_is_a_file_is_refused_before_anything_is_called(lab, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PLANBENCH_SAVE", f"always:{tmp_path / 'file'}")
    with pytest.raises(ConfigurationError, match="is no folder"):
        ran(lab, GREEN)
    assert lab.calls == []


def test_a_folder_may_hold_a_colon_and_an_empty_value_is_none(monkeypatch):
    monkeypatch.setenv("PLANBENCH_SAVE", "always:a:b")
    assert save_policy() == SavePolicy(always=True, folder=Path("a:b"))
    monkeypatch.setenv("PLANBENCH_SAVE", "")
    assert save_policy() is None


def test_the_values_of_a_run_are_there_until_it_is_saved(lab, saves, monkeypatch):
    folder = saves("always")
    saved = saving._saved
    held = []

    def slowly(run, target):
        run.let_go()  # what the workbench does with older runs
        held.append(bool(run.bodies))
        return saved(run, target)

    monkeypatch.setattr(saving, "_saved", slowly)
    outcome, _ = ran(lab, GREEN)
    assert held == [True]
    (path,) = folder.glob("*.planrun")
    assert open_run(path).run.value("a") == 1
    assert outcome.status == "completed"


def test_a_workbench_continues_a_file_and_saves_that_run_too(lab, saves):
    folder = saves("always")
    broken = ["x"]

    @lab.tool
    async def shaky() -> int:
        if broken:
            raise ValueError("broken")
        return 1

    text = GREEN.replace("give, args: {value: 1}", "shaky")
    ran(lab, text)
    (path,) = folder.glob("*.planrun")
    broken.clear()

    async def main():
        bench = Workbench(lab.registry)
        run = await bench.continue_from(open_run(path))
        assert bench.run() is run
        await run
        await bench.close()
        return run

    run = asyncio.run(main())
    assert run.status == "completed"
    assert open_run(folder / f"green-{run.run_id}.planrun").run.value("a") == 1
