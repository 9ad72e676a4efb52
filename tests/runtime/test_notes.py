"""Facts that tools attach to their calls."""

import asyncio

import pytest

import planbench
from planbench import events as ev
from planbench.errors import ToolError
from planbench.runtime import replay


def test_a_tool_notes_facts_about_its_call_from_the_loop_and_from_a_thread(lab):
    note = planbench.note

    @lab.tool
    async def on_loop(value=None):
        note(source="here", rows=3)
        await asyncio.sleep(0)
        note(rows=4, ok=True, ratio=0.5, none=None)
        return value

    @lab.tool
    def in_thread(value=None):
        note(source="there")
        return value

    run = lab.run(lab.node("a", "on_loop"), lab.node("b", "in_thread"))
    notes = {node: run.state.nodes[node].notes for node in "ab"}
    assert notes["a"] == {"source": "here", "rows": 4, "ok": True, "ratio": 0.5, "none": None}
    assert notes["b"] == {"source": "there"}
    told = replay(run.events)
    assert told.nodes["a"].notes == notes["a"]
    for node in "ab":
        kinds = [e.type for e in run.events if e.data.get("node_id") == node]
        # a note belongs to its call, and stands before its end
        assert kinds[-1] == ev.NODE_FINISHED


@pytest.mark.parametrize("retry", [None, {"max_attempts": 2}])
@pytest.mark.parametrize("is_async", [True, False])
def test_the_notes_of_items_stand_in_their_table(lab, is_async, retry):
    note = planbench.note

    if is_async:

        @lab.tool(name="noting")
        async def noting_async(value=None):
            await asyncio.sleep(0.001 * (3 - value))
            note(etag=f"e{value}", bytes=value)
            return value

    else:

        @lab.tool(name="noting")
        def noting(value=None):
            note(etag=f"e{value}", bytes=value)
            return value

    fields = {"retry": retry} if retry else {}
    run = lab.run(*lab.items([0, 1, 2], "noting", **fields))
    table = run.items("fan")
    assert list(table["etag"]) == ["e0", "e1", "e2"]
    assert list(table["noted_bytes"]) == [0, 1, 2]
    assert run.state.nodes["fan"].notes == {}


def test_notes_are_small_and_plain(lab):
    note = planbench.note
    note(anything="outside of a run")
    for wrong in ({"value": [1]}, {"no name": 1}, {f"f{i}": i for i in range(21)}, {"b": b"x"}):
        with pytest.raises(ToolError):
            note(**wrong)

    @lab.tool
    async def long(value=None):
        note(text="x" * 1000, nan=float("nan"), big=2**80, half="\ud800")
        return value

    run = lab.run(lab.node("a", "long"))
    notes = run.state.nodes["a"].notes
    assert len(notes["text"]) == 200
    assert notes["nan"] is None
    assert notes["big"] == str(2**80)
    assert notes["half"] == "?"
