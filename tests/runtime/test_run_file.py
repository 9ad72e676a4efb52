"""A run as a file: what is in it, what stays out, and that it is there whole or not at all."""

from __future__ import annotations

import asyncio
import json
import zipfile

import pandas as pd
import pytest

from planbench import open_run
from planbench.errors import ConfigurationError, StoreError
from planbench.events import Event
from planbench.files.names import check_name
from planbench.memory import TaskScope
from planbench.runtime import replay
from planbench.runtime.run_format import BODIES, HEADER, JOURNAL, MANIFEST, PLAN, TOOLS


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def journal(path):
    records = [json.loads(line) for line in members(path)[JOURNAL].splitlines()]
    return [Event.from_dict(one)._replace(timestamp=one["timestamp"]) for one in records]


def bodies(path):
    return [name for name in members(path) if name.startswith(BODIES)]


def left_out(path):
    return json.loads(members(path)[HEADER])["left_out"]


@pytest.fixture
def red(lab):
    """A run with a value, a fan-out that lost an item, a red node and one behind it."""
    return lab.run(
        *lab.items([1, -1, 2], "picky"),
        lab.node("sum", "boom", {"value": "{artifacts.fan}"}, "fan"),
        lab.node("behind", "give", {}, "sum"),
    )


def test_the_file_holds_plan_journal_manifest_tools_and_each_result_once(red, tmp_path):
    path = red.save(tmp_path / "red.planrun")
    found = members(path)
    assert {HEADER, PLAN, JOURNAL, MANIFEST, TOOLS} < found.keys()
    assert len(bodies(path)) == 3  # the list and two items
    assert replay(journal(path)).manifest() == red.manifest()
    assert json.loads(found[MANIFEST]) == red.manifest().model_dump(mode="json")
    tools = {tool["name"]: tool for tool in json.loads(found[TOOLS])}
    assert tools.keys() == {"source", "picky", "boom", "give"}
    assert tools["picky"]["fingerprint"] == red.events[0].data["tools"]["picky"]
    assert tools["picky"]["module"]


def test_a_tool_of_a_package_is_named_with_its_version(lab, tmp_path):
    lab.tool(check_name)
    run = lab.run(lab.node("a", "check_name", {"name": "sweep"}))
    told = json.loads(members(run.save(tmp_path / "a.planrun"))[TOOLS])
    assert told[0]["package"] == "planbench"
    assert told[0]["version"]


def test_a_record_names_its_artifact_where_the_file_holds_it(red, tmp_path):
    path = red.save(tmp_path / "red.planrun")
    found = [event.data for event in journal(path) if "artifact" in event.data]
    assert {data["key"] for data in found} == {"src", "fan.0", "fan.2"}
    assert {BODIES + data["artifact"]["sha256"] for data in found} == set(bodies(path))
    assert all(data["artifact_id"] for data in found)
    assert not any(
        "artifact" in event.data for event in red.events
    )  # the run itself stays as it was


def test_without_results_no_record_names_one(red, tmp_path):
    path = red.save(tmp_path / "red.planrun", artifacts="none")
    assert bodies(path) == []
    assert not any("artifact" in event.data for event in journal(path))
    assert {one["reason"] for one in left_out(path)} == {"results were not asked for"}


def test_over_the_limit_the_largest_results_stay_out_and_are_named(lab, tmp_path):
    texts = {"small": "s" * 100, "middle": "m" * 1_000, "large": "l" * 10_000}
    run = lab.run(*(lab.node(name, "give", {"value": text}) for name, text in texts.items()))
    path = run.save(tmp_path / "x.planrun", artifacts=2_000)
    assert len(bodies(path)) == 2
    (out,) = left_out(path)
    assert (out["node_id"], out["values"], out["nbytes"], out["keys"]) == (
        "large", 1, 10_000, ["large"],
    )  # fmt: skip
    assert out["reason"].startswith("over the limit of 2")
    assert len(bodies(run.save(tmp_path / "y.planrun", artifacts="all"))) == 3


def test_a_value_that_would_not_come_back_as_it_is_stays_out_and_fails_nothing(lab, tmp_path):
    class Odd:
        def __repr__(self):
            raise RuntimeError("cannot be shown")

    @lab.tool
    def odd() -> object:
        return Odd()

    run = lab.run(lab.node("a", "give", {"value": 1}), lab.node("odd", "odd"))
    path = run.save(tmp_path / "x.planrun")
    assert len(bodies(path)) == 1
    (out,) = left_out(path)
    assert out["node_id"] == "odd"
    assert "Odd" in out["reason"]


def test_equal_results_are_stored_once(lab, tmp_path):
    run = lab.run(*(lab.node(f"n{at}", "give", {"value": "same"}) for at in range(4)))
    path = run.save(tmp_path / "x.planrun")
    assert len(bodies(path)) == 1
    assert len([event for event in journal(path) if "artifact" in event.data]) == 4


def test_values_that_were_let_go_are_said_to_be(red, tmp_path):
    red.let_go()
    path = red.save(tmp_path / "red.planrun")
    assert bodies(path) == []
    assert {"its value was let go before the run was saved"} == {
        o["reason"] for o in left_out(path)
    }


def test_a_live_run_is_saved_as_it_stands(lab, tmp_path):
    async def main():
        gate = asyncio.Event()

        @lab.tool
        async def hold(value=None):
            await gate.wait()
            return value

        async with lab.engine() as engine:
            run = await engine.start(
                lab.plan(lab.node("a", "give", {"value": 7}), lab.node("b", "hold", {}, "a"))
            )
            await lab.until(lambda: run.state.nodes["b"].status == "running")
            path = run.save(tmp_path / "live.planrun")
            assert json.loads(members(path)[HEADER])["status"] == "running"
            gate.set()
            await run
        return path

    saved = open_run(asyncio.run(main()))
    assert saved.run.status == "interrupted"
    assert saved.run.value("a") == 7
    assert saved.run.state.nodes["b"].status == "cancelled"
    assert saved.warnings == []


def test_a_run_that_is_saved_again_after_it_was_resumed_holds_what_stands_now(lab, tmp_path):
    broken = ["b"]

    @lab.tool
    async def shaky(value=None):
        if value in broken:
            raise ValueError("broken")
        return value

    async def main():
        async with lab.engine(store="memory") as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("a", "shaky", {"value": "a"}), lab.node("b", "shaky", {"value": "b"})
                )
            )
            await run
            run.save(tmp_path / "1.planrun")
            broken.clear()
            again = await engine.resume(run.run_id)
            await again
            again.save(tmp_path / "2.planrun")

    asyncio.run(main())
    assert len(bodies(tmp_path / "1.planrun")) == 1
    saved = open_run(tmp_path / "2.planrun")
    assert saved.run.status == "completed"
    assert saved.memory.get("b") == "b"
    assert saved.warnings == []


def test_a_run_with_durable_artifacts_is_saved_like_any_other(lab, tmp_path):
    async def main():
        async with lab.engine(
            store="memory",
            task_memory_runtime=str(tmp_path / "artifacts"),
            scope=TaskScope("team"),
        ) as engine:
            run = await engine.start(lab.plan(*lab.items([1, 2])))
            await run
            return run

    run = asyncio.run(main())
    saved = open_run(run.save(tmp_path / "x.planrun"))
    assert saved.run.value("fan") == [1, 2]
    run.let_go()
    bare = run.save(tmp_path / "y.planrun")  # what stands elsewhere is not in the file
    assert not any("artifact" in event.data for event in journal(bare))


def test_the_value_of_a_secret_is_in_no_member(lab, tmp_path, monkeypatch):
    value = "tok-1234567890"
    monkeypatch.setenv("TOKEN", value)

    @lab.tool
    def leak(token: str) -> object:
        print("with", token)
        return pd.DataFrame({"a": ["x", f"Bearer {token}"]})

    @lab.tool
    def fine(token: str) -> list:
        return ["ok", len(token)]

    async def main():
        async with lab.engine(env={"TOKEN": ["*"]}) as engine:
            run = await engine.start(
                lab.plan(
                    lab.node("leak", "leak", {"token": "{env.TOKEN}"}),
                    lab.node("fine", "fine", {"token": "{env.TOKEN}"}),
                    lab.node("literal", "boom", {"value": f"key {value}"}),
                )
            )
            await run
            return run

    run = asyncio.run(main())
    path = run.save(tmp_path / "x.planrun")
    for name, data in members(path).items():
        assert value.encode() not in data, name
    assert [one["node_id"] for one in left_out(path)] == ["leak"]
    saved = open_run(path)
    assert saved.run.value("fine") == ["ok", len(value)]
    assert saved.run.plan.node("literal").args == {"value": "key ***TOKEN***"}
    assert any("secret" in text for text in saved.warnings)
    page = run.to_html(tmp_path / "x.html", data="full").read_text()
    assert value not in page


def test_a_plan_whose_secret_cannot_be_masked_is_not_saved(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "give")

    @lab.tool
    def fine(token: str) -> int:
        return len(token)

    async def main():
        async with lab.engine(env={"TOKEN": ["*"]}) as engine:
            run = await engine.start(
                lab.plan(lab.node("a", "fine", {"token": "{env.TOKEN}"}), lab.node("give", "give"))
            )
            await run
            return run

    run = asyncio.run(main())
    with pytest.raises(StoreError, match="secret"):
        run.save(tmp_path / "x.planrun")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_the_old_one(red, tmp_path, monkeypatch):
    path = red.save(tmp_path / "red.planrun")
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        red.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_said(red, tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        red.save(tmp_path / "no" / "red.planrun")


@pytest.mark.parametrize("value", ["most", -1, 1.5, True, None])
def test_a_limit_that_is_none_is_refused(red, tmp_path, value):
    with pytest.raises(ConfigurationError, match="artifacts is"):
        red.save(tmp_path / "x.planrun", artifacts=value)


def test_what_packs_better_than_readers_believe_is_not_packed(lab, tmp_path):
    run = lab.run(lab.node("a", "give", {"value": ["", "a" * 3_000_000]}))
    saved = open_run(run.save(tmp_path / "x.planrun"))
    assert saved.run.value("a") == ["", "a" * 3_000_000]


def test_of_very_many_nodes_the_rest_that_stays_out_is_counted(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("planbench.runtime.run_format.LEFT_OUT", 2)
    run = lab.run(*(lab.node(f"n{at}", "give", {"value": at}) for at in range(5)))
    path = run.save(tmp_path / "x.planrun", artifacts="none")
    assert [(one["node_id"], one["values"]) for one in left_out(path)][2:] == [("other nodes", 3)]
    assert len(open_run(path).left_out) == 3
