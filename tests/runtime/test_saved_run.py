"""A run out of a file: the same to look at, a source to continue from, and nothing is executed."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from planbench import SavedRun, load_plan, open_run
from planbench.errors import (
    ArtifactMissing,
    ArtifactNotFound,
    ArtifactTooLarge,
    ConfigurationError,
    PlanInvalid,
    RunRefused,
    StoreError,
)
from planbench.memory import WorkingMemory
from planbench.runtime import Engine, PlanRecoveryConfig
from planbench.tools import ToolRegistry

CALLS = "calls.txt"
TOOLS = """
from pathlib import Path


def note(text):
    with Path("{calls}").open("a") as file:
        file.write(text + "\\n")


def numbers(n: int = 3) -> list[int]:
    note("numbers")
    return list(range(n))


def square(x: int) -> dict:
    note(f"square {{x}}")
    return {{"x": x, "square": x * x}}


def total(rows: list) -> int:
    note("total")
    {total}
"""
PLAN = """\
name: sums
objective: Sum the squares
nodes:
  - {id: numbers, tool: numbers}
  - {id: squares, tool: square, for_each: {source: "{artifacts.numbers}"}, args: {x: "{item}"}}
  - {id: total, tool: total, args: {rows: "{artifacts.squares}"}}
"""
RUN = """
import asyncio
from pathlib import Path
from planbench import Engine, load_plan
import own_tools as tools

async def main():
    async with Engine(registry=[tools.numbers, tools.square, tools.total]) as engine:
        run = await engine.start(load_plan(Path("plan.yaml")))
        await run
        run.save("run.planrun")

asyncio.run(main())
"""
CONTINUE = """
import asyncio, sys
from planbench import Engine, load_plan, open_run
import own_tools as tools

async def main():
    saved = open_run(sys.argv[1])
    async with Engine(registry=[tools.numbers, tools.square, tools.total]) as engine:
        run = await engine.continue_from(saved.history, saved)
        await run
        print(run.status, run.value("total"), run.verdict())

asyncio.run(main())
"""


def on_a_loop(test):
    """Run a test on a loop of its own."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture
def mixed(lab, tmp_path):
    """A saved run with a frame, a fan-out that lost an item, prints, facets, a red node and what it blocks."""
    frame = pd.DataFrame({"a": pd.Series([1, None], dtype="Int64"), "b": ["x", None]})

    @lab.tool
    def table() -> object:
        print("two rows")
        return frame

    run = lab.run(
        lab.node("table", "table", facets={"counts": {"rows": "[]"}}),
        lab.node("late", "give", {}, "table", when="ctx.artifacts.table.count > 5"),
        *lab.items([1, -1, 2], "picky"),
        lab.node("sum", "boom", {"value": "{artifacts.fan}"}, "fan"),
        lab.node("behind", "give", {}, "sum"),
    )
    return run, run.save(tmp_path / "mixed.planrun")


def test_the_run_is_the_same_to_look_at(mixed):
    run, path = mixed
    saved = open_run(path)
    assert isinstance(saved, SavedRun)
    assert saved.run.manifest() == run.manifest()
    assert saved.run.refs == run.refs
    assert saved.run.plan == run.plan
    assert saved.run.finished
    assert saved.run.failure_text() == run.failure_text()
    assert saved.run.verdict() == run.verdict() == "red"
    assert saved.run.items("fan").equals(run.items("fan"))
    assert saved.run.state.nodes["table"].output == run.state.nodes["table"].output == "two rows\n"
    assert [event.type for event in saved.run.events] == [event.type for event in run.events]
    assert saved.notes() == []
    assert saved.tools["picky"].fingerprint == run.events[0].data["tools"]["picky"]


def test_the_results_are_equal_in_value_and_type(mixed):
    run, path = mixed
    saved = open_run(path)
    pd.testing.assert_frame_equal(saved.run.value("table"), run.value("table"))
    assert saved.run.value("fan") == [1, 2]
    assert saved.value("fan.2") == 2
    assert saved.memory.get("fan") == [1, 2]
    assert saved.memory.info("table").artifact_id == run.bodies["table"].artifact_id
    assert saved.memory.keys() == ["table", "src", "fan.0", "fan.2"]


def test_a_result_is_read_when_it_is_asked_for_and_read_once(mixed, monkeypatch):
    _, path = mixed
    saved = open_run(path)
    reads = []
    read = type(saved._values).read
    monkeypatch.setattr(
        type(saved._values), "read", lambda self, record: reads.append(record) or read(self, record)
    )
    assert repr(saved)
    assert reads == []
    assert saved.run.value("src") is saved.run.value("src")
    assert len(reads) == 1


def test_no_more_results_are_held_than_the_limit_allows(lab, tmp_path):
    nodes = [lab.node(f"n{at}", "give", {"value": f"{at}" * 1_000}) for at in range(5)]
    path = lab.run(*nodes).save(tmp_path / "x.planrun")
    saved = open_run(path, max_bytes=2_500)
    for at in range(5):
        assert saved.run.value(f"n{at}") == f"{at}" * 1_000
    assert len(saved._values._held) == 2
    with pytest.raises(ArtifactTooLarge, match="max_bytes=5000"):
        saved.memory  # noqa: B018 - reading it is the matter
    with pytest.raises(ArtifactTooLarge):
        open_run(path, max_bytes=999).run.value("n0")


def test_a_result_that_is_not_in_the_file_says_so_wherever_it_is_read(lab, tmp_path):
    run = lab.run(*lab.items(["a", "b" * 2_000]))
    saved = open_run(run.save(tmp_path / "x.planrun", artifacts=1_000))
    assert "over the limit" in str(saved.left_out[0])
    with pytest.raises(ArtifactMissing, match="over the limit"):
        saved.run.value("fan")  # not the list of those that are there
    assert saved.memory.get("fan.0") == "a"
    assert "fan.1" not in saved.memory


def test_a_key_that_is_not_there_names_near_ones(mixed):
    saved = open_run(mixed[1])
    with pytest.raises(ArtifactNotFound, match=r"near: fan\.0, fan\.2"):
        saved.value("FAN")
    with pytest.raises(ArtifactNotFound, match="the file has"):
        saved.value("zzz")


def test_a_saved_run_is_saved_again_and_still_the_same(mixed, tmp_path):
    run, path = mixed
    again = open_run(path).run.save(tmp_path / "again.planrun")
    saved = open_run(again)
    assert saved.run.manifest() == run.manifest()
    pd.testing.assert_frame_equal(saved.run.value("table"), run.value("table"))
    assert saved.tools == open_run(path).tools


def test_a_notebook_shows_it_as_a_table_of_its_nodes_with_all_text_escaped(lab, tmp_path):
    @lab.tool
    def nasty() -> int:
        raise ValueError("<script>alert(1)</script>")

    saved = open_run(lab.run(lab.node("a", "nasty")).save(tmp_path / "x.planrun"))
    shown = saved._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "failed" in shown


def test_values_of_many_kinds_come_back(lab, tmp_path):
    values = {
        "text": "half \ud800",
        "blob": b"\0\xff",
        "number": 2**70,
        "nested": {"a": [(1, 2), {"x"}, None, float("inf")]},
        "array": np.arange(6).reshape(2, 3),
        "series": pd.Series([1.5, None], name="s"),
        "none": None,
        "empty": [],
    }
    for name, value in values.items():
        lab.tool(lambda value=value: value, name=name)
    run = lab.run(*(lab.node(name, name) for name in values))
    saved = open_run(run.save(tmp_path / "x.planrun"))
    assert saved.left_out == []
    for name, value in values.items():
        found = saved.run.value(name)
        assert type(found) is type(value)
        assert repr(found) == repr(value)


def test_parameters_literal_braces_and_templates_are_as_they_ran(lab, tmp_path):
    plan = load_plan(
        "name: p\nobjective: o\nparams: {who: {type: str}}\nnodes:\n"
        '  - {id: a, tool: give, args: {value: "{{artifacts.x}} of {params.who}"}}\n',
        params={"who": "{item} & co"},
    )

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(plan)
            await run
            return run

    run = asyncio.run(main())
    saved = open_run(run.save(tmp_path / "x.planrun"))
    assert saved.run.plan == run.plan
    assert saved.run.value("a") == "{artifacts.x} of {item} & co"
    assert saved.warnings == []


@pytest.mark.parametrize("value", [-1, 1.5, None, "all"])
def test_a_limit_that_is_none_is_refused(mixed, value):
    with pytest.raises(ConfigurationError, match="max_bytes is"):
        open_run(mixed[1], max_bytes=value)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        open_run(tmp_path / "no.planrun")
    with pytest.raises(StoreError, match="is no file"):
        open_run(tmp_path)


def test_it_is_closed_by_its_context_and_says_so(mixed):
    with open_run(mixed[1]) as saved:
        assert saved.value("src")
    with pytest.raises(StoreError):
        saved.value("table")
    assert saved.value("src")  # what was read stays


# -- what disagrees ------------------------------------------------------------------------


def changed(path, name, change):
    """Write the file anew with one member changed."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    members[name] = change(members[name])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, data in members.items():
            archive.writestr(one, data)
    return path


def test_a_manifest_that_tells_something_else_is_a_warning_and_the_journal_is_shown(mixed):
    run, path = mixed
    changed(path, "manifest.json", lambda data: data.replace(b'"partial"', b'"completed"'))
    saved = open_run(path)
    assert saved.run.status == run.status
    assert saved.warnings == ["manifest.json is not what the journal tells; the journal is shown"]


def test_a_plan_that_is_another_is_a_warning_and_that_of_the_journal_is_shown(mixed):
    run, path = mixed
    changed(path, "plan.yaml", lambda data: data.replace(b"tool: boom", b"tool: give"))
    saved = open_run(path)
    assert saved.run.plan == run.plan
    assert any(text.startswith("plan.yaml is not") for text in saved.warnings)


def test_a_status_in_the_header_that_is_another_is_a_warning(mixed):
    _, path = mixed
    changed(path, "planrun.json", lambda data: data.replace(b'"partial"', b'"completed"'))
    assert any("planrun.json says" in text for text in open_run(path).warnings)


# -- continuing ----------------------------------------------------------------------------


def test_a_red_run_of_another_process_and_folder_ends_green_with_one_call(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    calls = tmp_path / CALLS
    for folder, body in (
        (there, 'raise ValueError("not yet")'),
        (here, "return sum(r['square'] for r in rows)"),
    ):
        folder.mkdir()
        (folder / "own_tools.py").write_text(TOOLS.format(calls=calls, total=body))
        (folder / "plan.yaml").write_text(PLAN)
    subprocess.run([sys.executable, "-c", RUN], cwd=there, check=True, timeout=60)
    first, *squares, last = calls.read_text().splitlines()
    assert (first, last) == ("numbers", "total")
    assert sorted(squares) == ["square 0", "square 1", "square 2"]
    calls.unlink()
    done = subprocess.run(
        [sys.executable, "-c", CONTINUE, there / "run.planrun"],
        cwd=here,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "completed 5 fine\n"
    assert calls.read_text() == "total\n"


class World:
    """Tools that note their calls, and fail as long as they are told to."""

    def __init__(self, folder):
        self.calls = []
        self.broken = {"total"}
        self.path = folder / "run.planrun"

    def registry(self):
        def numbers(n: int = 3) -> list[int]:
            self.calls.append("numbers")
            return list(range(n))

        def square(x: int) -> dict:
            self.calls.append(f"square {x}")
            if x in self.broken:
                raise ValueError(f"{x} is broken")
            return {"x": x, "square": x * x}

        def total(rows: list) -> int:
            self.calls.append("total")
            if "total" in self.broken:
                raise ValueError("not yet")
            return sum(row["square"] for row in rows)

        return ToolRegistry([numbers, square, total])

    def engine(self, **options):
        return Engine(registry=self.registry(), memory=WorkingMemory(), **options)

    async def saved(self, plan=PLAN, **options):
        async with self.engine() as engine:
            run = await engine.start(load_plan(plan))
            await run
            run.save(self.path, **options)
        self.calls.clear()
        return open_run(self.path)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


async def continued(world, saved, plan=None, **options):
    async with world.engine(**options) as engine:
        run = await engine.continue_from(saved.history, saved, plan)
        await run
        return run


@on_a_loop
async def test_with_an_edited_plan_what_it_leaves_untouched_is_kept(world):
    saved = await world.saved()
    edited = load_plan(
        PLAN.replace("id: total, tool: total", "id: total, tool: square").replace(
            'args: {rows: "{artifacts.squares}"}', "args: {x: 7}, depends_on: [squares]"
        )
    )
    run = await continued(world, saved, edited)
    assert run.status == "completed"
    assert world.calls == ["square 7"]
    assert run.value("squares") == [{"x": x, "square": x * x} for x in range(3)]


@on_a_loop
async def test_a_plan_without_a_node_does_not_ask_for_what_that_stored(world):
    saved = await world.saved(
        PLAN + "  - {id: big, tool: numbers, args: {n: 5000}}\n", artifacts=2_000
    )
    assert [one.node_id for one in saved.left_out] == ["big"]
    world.broken.clear()
    with pytest.raises(RunRefused) as refused:
        await continued(world, saved)
    assert refused.value.code == "artifacts_unavailable"
    assert "run.save(path" in refused.value.hint
    run = await continued(world, saved, load_plan(PLAN))
    assert run.status == "completed"
    assert world.calls == ["total"]


@on_a_loop
async def test_lost_items_are_called_again_and_the_others_are_not(world):
    world.broken = {1}
    saved = await world.saved()
    assert saved.run.status == "partial"
    world.broken.clear()
    run = await continued(world, saved)
    assert run.status == "completed"
    assert world.calls == ["square 1", "total"]
    assert run.value("total") == 5


@on_a_loop
async def test_a_file_can_be_continued_more_than_once(world):
    saved = await world.saved()
    first = await continued(world, saved)
    assert first.status == "partial"
    world.broken.clear()
    second = await continued(world, saved)
    assert second.status == "completed"
    assert world.calls == ["total", "total"]
    assert saved.run.status == "partial"
    assert second.manifest().parent_run_id == first.manifest().parent_run_id == saved.run_id


@on_a_loop
async def test_the_continued_run_is_saved_and_knows_where_it_comes_from(world, tmp_path):
    saved = await world.saved()
    world.broken.clear()
    run = await continued(world, saved)
    again = open_run(run.save(tmp_path / "2.planrun"))
    assert again.warnings == []
    assert again.run.manifest().root_run_id == saved.run_id
    assert again.memory.get("squares") == run.value("squares")


@on_a_loop
async def test_a_run_that_was_going_on_is_continued_from_what_had_finished(world, tmp_path):
    gate = asyncio.Event()
    registry = world.registry()

    @registry.register
    async def total(rows: list) -> int:
        await gate.wait()
        return 0

    async with Engine(registry=registry) as engine:
        run = await engine.start(load_plan(PLAN))
        async for event in run:
            if event.data.get("node_id") == "total":
                break
        run.save(world.path)
        run.cancel()
        await run
    world.calls.clear()
    world.broken.clear()
    ended = await continued(world, open_run(world.path))
    assert ended.status == "completed"
    assert world.calls == ["total"]


@on_a_loop
async def test_nothing_left_to_do_is_refused(world):
    world.broken.clear()
    saved = await world.saved()
    with pytest.raises(RunRefused) as refused:
        await continued(world, saved)
    assert refused.value.code == "run_not_resumable"
    assert world.calls == []


@on_a_loop
async def test_more_than_the_engine_restores_is_refused_before_anything_is_called(world):
    saved = await world.saved()
    with pytest.raises(RunRefused) as refused:
        await continued(world, saved, recovery=PlanRecoveryConfig(max_restore_bytes=10))
    assert refused.value.code == "restore_budget_exceeded"
    assert world.calls == []


@on_a_loop
async def test_a_plan_whose_tools_are_not_there_is_refused_like_any_other(world):
    saved = await world.saved()
    async with Engine(registry=ToolRegistry([lambda_free])) as engine:
        with pytest.raises(PlanInvalid):
            await engine.continue_from(saved.history, saved)


def lambda_free() -> int:
    """A tool that no plan here calls."""
    return 0


@on_a_loop
async def test_a_forged_result_refuses_the_run(world):
    await world.saved()
    with zipfile.ZipFile(world.path) as archive:
        name = next(one for one in archive.namelist() if one.startswith("artifacts/"))
        data = archive.read(name)
    changed(world.path, name, lambda data: bytes([data[0] ^ 1]) + data[1:])
    assert data
    saved = open_run(world.path)
    with pytest.raises(RunRefused, match="is not what was saved"):
        await continued(world, saved)
    assert world.calls == []


def test_the_header_says_what_was_saved_and_by_whom(mixed):
    saved = open_run(mixed[1])
    with zipfile.ZipFile(mixed[1]) as archive:
        header = json.loads(archive.read("planrun.json"))
    assert (saved.run_id, saved.saved_at, saved.planbench) == (
        header["run_id"], header["saved"], header["planbench"],
    )  # fmt: skip
