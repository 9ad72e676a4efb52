"""The table of what becomes of a fan-out: sources, failures, keys, facets, reuse."""

import asyncio
import datetime as dt
import enum
import itertools
import math
import uuid
from decimal import Decimal

import numpy as np
import orjson
import pandas as pd
import pytest

from planbench import events as ev
from planbench.memory import WorkingMemory


def told(run, kind):
    return [e.data for e in run.events if e.type == kind]


def counts(run, node_id="fan"):
    return run.manifest().items[node_id].model_dump()


# Some items fail


def test_collect_keeps_the_messages_and_the_node_is_partial(lab):
    run = lab.run(*lab.items([1, -1, 2, -2], "picky", each={"on_item_error": "collect"}))
    ref = run.refs["fan"]
    assert ref.status == "partial"
    assert sorted(ref.errors) == [
        "[1] ValueError: -1 is negative",
        "[3] ValueError: -2 is negative",
    ]
    assert ref.item_count == 2
    assert ref.keys == ["fan.0", "fan.2"]
    assert counts(run) == {"ok": 2, "failed": 2, "skipped": 0, "reused": 0}
    assert lab.memory["fan"] == [1, 2]
    assert run.events[-2].type == ev.NODE_FINISHED


def test_collect_is_what_a_fan_out_does_when_nothing_is_said(lab):
    run = lab.run(*lab.items([1, -1], "picky"))
    assert run.refs["fan"].status == "partial"
    assert run.refs["fan"].errors == ["[1] ValueError: -1 is negative"]


def test_skip_only_counts(lab):
    run = lab.run(*lab.items([1, -1, 2], "picky", each={"on_item_error": "skip"}))
    assert "(1 of 3 items): only counted" in run.failure_text()
    ref = run.refs["fan"]
    assert ref.status == "partial"
    assert ref.errors == []
    assert counts(run) == {"ok": 2, "failed": 1, "skipped": 0, "reused": 0}
    assert all("error" not in data for data in told(run, ev.ITEM_FAILED))
    assert run.status == "partial"


def test_fail_makes_the_node_an_error_at_the_first_failed_item_and_calls_no_more(lab):
    each = {"on_item_error": "fail", "max_concurrency": 1}
    run = lab.run(*lab.items([1, -1, 2, 3], "picky", each=each), lab.node("next", after="fan"))
    ref = run.refs["fan"]
    assert ref.status == "error"
    assert ref.errors == [
        "stopped at the first failed item, [1]",
        "[1] ValueError: -1 is negative",
    ]
    assert lab.calls == [1, -1]
    assert counts(run) == {"ok": 1, "failed": 1, "skipped": 2, "reused": 0}
    assert run.state.nodes["next"].status == "blocked"


def test_fail_cancels_the_items_at_work_and_only_them(lab):
    async def main():
        cancelled, finished = [], []

        async def work(value):
            lab.calls.append(value)
            if value == 0:
                await lab.until(lambda: len(lab.calls) == 4)
                raise ValueError("first")
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancelled.append(value)
                raise

        async def other(value=None):
            await asyncio.sleep(0.1)
            finished.append(value)

        lab.tool(work)
        lab.tool(other)
        nodes = lab.items(
            [0, 1, 2, 3, 4, 5], "work", each={"on_item_error": "fail", "max_concurrency": 4}
        )
        also = lab.node(
            "also", "other", {"value": "{item}"}, "src", for_each={"source": "{artifacts.src}"}
        )
        run = await lab.finish(*nodes, also, lab.node("plain", "other"), max_parallel_tasks=64)
        assert sorted(cancelled) == [1, 2, 3]
        assert sorted(map(str, finished)) == ["0", "1", "2", "3", "4", "5", "None"]
        assert {n: s.status for n, s in run.state.nodes.items()} == {
            "src": "ok", "fan": "error", "also": "ok", "plain": "ok",
        }  # fmt: skip
        assert run.status == "partial"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_fail_drops_the_late_results_of_threads(lab, gate):
    async def main():
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(value):
            if value == 0:
                loop.call_soon_threadsafe(begun.set)
                gate.wait(30)
                return "late"
            while not begun.is_set():
                pass
            raise ValueError("first")

        lab.tool(work)
        run = await lab.finish(*lab.items([0, 1], "work", each={"on_item_error": "fail"}))
        gate.set()
        await asyncio.sleep(0.05)
        assert run.state.nodes["fan"].done == 0
        assert lab.memory["fan"] == []
        assert not told(run, ev.ITEM_FINISHED)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["collect", "skip"])
@pytest.mark.parametrize(
    ("most", "failing", "status"),
    [
        (None, 9, "partial"),
        (2, 2, "partial"),
        (2, 3, "error"),
        (0, 1, "error"),
        (0, 0, "ok"),
        ("20%", 2, "partial"),
        ("20%", 3, "error"),
        ("25%", 2, "partial"),
        ("25%", 3, "error"),
        ("0%", 1, "error"),
        ("100%", 9, "partial"),
        ("5.5%", 1, "error"),
    ],
)
def test_over_max_failed_the_node_is_an_error(lab, mode, most, failing, status):
    items = [-1] * failing + [1] * (10 - failing)
    each = {"on_item_error": mode, "max_failed": most, "max_concurrency": 1}
    run = lab.run(*lab.items(items, "picky", each=each))
    ref = run.refs["fan"]
    assert ref.status == status
    if status == "error":
        assert ref.errors[0] == f"{failing} items failed, over max_failed of {most}"
        assert len(lab.calls) == failing


@pytest.mark.parametrize(
    ("share", "total", "most"),
    [("0.29%", 10_000, 29), ("58%", 50, 29), ("7%", 100, 7), ("1.1%", 1_000, 11)],
)
def test_a_share_of_the_items_is_counted_exactly(lab, share, total, most):
    each = {"max_failed": share, "on_item_error": "skip", "max_items": total, "max_concurrency": 1}
    for failing, status in ((most, "partial"), (most + 1, "error")):
        items = [-1] * failing + [1] * (total - failing)
        run = lab.run(*lab.items(items, "picky", each=each))
        assert run.refs["fan"].status == status, (share, failing)


@pytest.mark.parametrize("mode", ["collect", "skip"])
def test_when_all_items_fail_the_node_is_an_error_and_blocks(lab, mode):
    run = lab.run(
        *lab.items([-1, -2], "picky", each={"on_item_error": mode}), lab.node("next", after="fan")
    )
    ref = run.refs["fan"]
    assert ref.status == "error"
    assert ref.errors[0] == "all 2 items failed"
    assert len(ref.errors) == (3 if mode == "collect" else 1)
    assert run.state.nodes["next"].status == "blocked"


def test_a_run_of_which_only_the_source_is_ok_is_partial(lab):
    assert lab.run(*lab.items([-1], "picky")).status == "partial"


def test_an_item_with_the_wrong_field_fails_alone_and_the_tool_is_not_called_for_it(lab):
    run = lab.run(*lab.items([{"a": 1}, {"b": 2}], args={"value": "{item.a}"}))
    assert run.refs["fan"].status == "partial"
    assert run.refs["fan"].errors == [
        "[1] PlaceholderError: {item.a}: the item has no field 'a'; it has b"
    ]
    assert lab.calls == [1]


def test_an_item_that_the_tool_refuses_fails_alone(lab):
    async def typed(value: int):
        lab.calls.append(value)

    lab.tool(typed)
    run = lab.run(*lab.items([1, "secret text"], "typed"))
    (error,) = run.refs["fan"].errors
    assert error.startswith("[1] ToolArgumentsInvalid: ")
    assert "secret" not in error
    assert lab.calls == [1]


# Over nothing


def test_a_fan_out_over_nothing_is_ok_with_no_items_and_chains(lab):
    each = {"source": "{artifacts.fan}"}
    run = lab.run(
        *lab.items([]),
        lab.node("again", args={"value": "{item}"}, after="fan", for_each=each),
        lab.node("end", args={"value": "{artifacts.again}"}, after="again"),
    )
    assert run.status == "completed"
    assert [run.refs[n].item_count for n in ("fan", "again")] == [0, 0]
    assert run.refs["fan"].status == "ok"
    assert counts(run) == {"ok": 0, "failed": 0, "skipped": 0, "reused": 0}
    assert lab.memory["end"] == []
    assert lab.calls == [[]]


def test_a_fan_out_over_nothing_has_facets_of_nothing(lab):
    facets = {"counts": {"n": "[]"}, "group_counts": {"g": "k[]"}, "paths": {"p": "p"}}
    run = lab.run(*lab.items([], facets=facets))
    assert run.refs["fan"].facets == {"n": 0, "g": {}, "p": []}


def test_many_fan_outs_over_nothing_in_a_row_are_no_recursion(lab):
    nodes = lab.items([])
    for i in range(2_000):
        before = f"f{i - 1}" if i else "fan"
        each = {"source": f"{{artifacts.{before}}}"}
        nodes.append(lab.node(f"f{i}", args={"value": "{item}"}, after=before, for_each=each))
    assert lab.run(*nodes).status == "completed"


def test_a_fan_out_without_survivors_among_some_is_a_list_in_item_order(lab):
    run = lab.run(
        *lab.items([3, -1, 1, 2], "picky"),
        lab.node("end", args={"value": "{artifacts.fan}"}, after="fan"),
    )
    assert run.status == "partial"
    assert lab.memory["end"] == [3, 1, 2]


# Sources


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "None"),
        ({"a": 1}, "a dict"),
        ("text", "a str"),
        (7, "an int"),
        ({1}, "a set"),
        (range(3), "a range"),
        (np.arange(3), "a ndarray"),
        (pd.Series([1]), "a Series"),
    ],
)
def test_a_source_that_is_no_list_is_an_error_that_names_the_type(lab, source, said):
    lab.tool(lambda: source() if callable(source) else source, name="odd")
    run = lab.run(
        lab.node("src", "odd"),
        lab.node(
            "fan", args={"value": "{item}"}, after="src", for_each={"source": "{artifacts.src}"}
        ),
        lab.node("next", after="fan"),
    )
    assert run.refs["fan"].status == "error"
    text, _, _ = run.refs["fan"].errors[0].partition(";")
    assert text == f"for_each needs a list, and {{artifacts.src}} is {said}"
    assert run.state.nodes["next"].status == "blocked"
    assert lab.calls == []


def test_a_selected_part_that_is_no_list_names_the_path(lab):
    lab.tool(lambda: {"rows": {"a": 1}}, name="odd")
    each = {"source": "{artifacts.src}", "select": "rows"}
    run = lab.run(
        lab.node("src", "odd"),
        lab.node("fan", args={"value": "{item}"}, after="src", for_each=each),
    )
    assert run.refs["fan"].errors == [
        "for_each needs a list, and {artifacts.src} at 'rows' is a dict"
    ]


def test_a_path_that_does_not_fit_is_the_error_of_the_node(lab):
    lab.tool(lambda: {"rows": []}, name="odd")
    each = {"source": "{artifacts.src}", "select": "lines[]"}
    run = lab.run(
        lab.node("src", "odd"),
        lab.node("fan", args={"value": "{item}"}, after="src", for_each=each),
    )
    assert run.refs["fan"].status == "error"
    assert "lines" in run.refs["fan"].errors[0]


def test_a_frame_is_spread_by_its_rows(lab):
    frame = pd.DataFrame({"name": ["a", "b"], "n": [1, 2]})
    run = lab.run(*lab.items(frame, args={"value": "{item.name}"}, store_as="row_{item.name}"))
    assert run.refs["fan"].keys == ["row_a", "row_b"]
    assert lab.memory["fan"] == ["a", "b"]


def test_a_frame_with_two_columns_of_one_name_is_refused_since_rows_would_lose_one(lab):
    run = lab.run(*lab.items(pd.DataFrame([[1, 2]], columns=["a", "a"])))
    assert run.refs["fan"].status == "error"
    assert "'a'" in run.refs["fan"].errors[0]


def test_an_empty_frame_is_a_fan_out_over_nothing(lab):
    run = lab.run(*lab.items(pd.DataFrame({"a": []})))
    assert (run.refs["fan"].status, run.refs["fan"].item_count) == ("ok", 0)


def test_a_tuple_is_spread_like_a_list(lab):
    run = lab.run(*lab.items((1, 2)))
    assert lab.memory["fan"] == [1, 2]
    assert run.status == "completed"


def test_frames_may_be_items(lab):
    frames = [pd.DataFrame({"a": [1, 2]}), pd.DataFrame()]
    run = lab.run(*lab.items(frames))
    assert run.status == "completed", run.failure_text()
    assert [len(frame) for frame in lab.memory["fan"]] == [2, 0]


def test_more_items_than_max_items_is_an_error_and_never_a_silent_cut(lab):
    run = lab.run(*lab.items([1, 2, 3], each={"max_items": 2}))
    assert run.refs["fan"].errors == ["for_each has 3 items, over max_items of 2"]
    assert lab.calls == []


def test_a_long_source_is_spread_as_well(lab):
    run = lab.run(*lab.items([{"n": i} for i in range(3_000)], each={"max_items": 3_000}))
    assert run.refs["fan"].item_count == 3_000


def test_a_fan_out_reads_a_fan_out_as_a_list_of_its_survivors(lab):
    each = {"source": "{artifacts.fan}"}
    run = lab.run(
        *lab.items([5, -1, 7], "picky"),
        lab.node("again", args={"value": "{index}:{item}"}, after="fan", for_each=each),
    )
    assert lab.memory["again"] == ["0:5", "1:7"]
    assert run.status == "partial"


def test_a_tool_that_empties_its_source_changes_nothing_for_the_other_items(lab):
    source = [1, 2, 3]

    async def spoils(value):
        source.clear()
        lab.memory["src"].clear()
        return value

    lab.tool(spoils)
    run = lab.run(*lab.items(source, "spoils"))
    assert run.status == "completed"
    assert lab.memory["fan"] == [1, 2, 3]


# Keys


def test_of_two_items_with_one_key_the_second_is_an_error(lab):
    run = lab.run(*lab.items(["a", "b", "a"], store_as="k_{item}", each={"max_concurrency": 1}))
    assert run.refs["fan"].status == "partial"
    assert run.refs["fan"].keys == ["k_a", "k_b"]
    (error,) = run.refs["fan"].errors
    assert error.startswith("[2] ")
    assert "'k_a'" in error
    assert "another item" in error
    assert lab.calls == ["a", "b"]


def test_a_key_that_another_node_has_taken_is_an_error_for_the_item(lab):
    run = lab.run(
        lab.node("first", args={"value": "mine"}, store_as="k_a"),
        *lab.items(["a"], store_as="k_{item}"),
        max_parallel_tasks=1,
    )
    assert run.refs["fan"].status == "error"
    assert "node 'first'" in run.refs["fan"].errors[1]
    assert lab.memory["k_a"] == "mine"


@pytest.mark.parametrize("key", ["", "x" * 501, "half \ud800 of a pair"])
def test_a_key_that_cannot_be_one_is_an_error_for_its_item_alone(lab, key):
    run = lab.run(*lab.items([key, "good"], store_as="{item}"))
    assert run.refs["fan"].status == "partial"
    assert run.refs["fan"].keys == ["good"]
    assert all(len(data.get("key", "")) <= 500 for data in told(run, ev.ITEM_FAILED))
    orjson.dumps([event.to_dict() for event in run.events if event.type != ev.RUN_STARTED])


def test_keys_stand_in_item_order_whichever_item_ends_first(lab):
    async def nap(value):
        await asyncio.sleep(0)
        if value == 0:
            await lab.until(lambda: len(lab.calls) == 2)
            await asyncio.sleep(0.01)
        else:
            lab.calls.append(value)
        return value

    lab.tool(nap)
    run = lab.run(*lab.items([0, 1, 2], "nap"))
    finished = [data["index"] for data in told(run, ev.ITEM_FINISHED)]
    assert finished[-1] == 0
    assert run.refs["fan"].keys == ["fan.0", "fan.1", "fan.2"]
    assert lab.memory["fan"] == [0, 1, 2]
    assert list(run.items("fan")["index"]) == [0, 1, 2]


# Facets


def test_facets_of_the_items_are_merged(lab):
    items = [
        {"region": "eu", "findings": [{"s": "high"}, {"s": "low"}]},
        {"region": "us", "findings": [{"s": "high"}]},
        {"region": "eu", "findings": []},
    ]
    facets = {
        "paths": {"region": "region"},
        "counts": {"n": "findings[]"},
        "group_counts": {"by": "findings[].s"},
    }
    run = lab.run(*lab.items(items, facets=facets))
    assert run.refs["fan"].facets == {"region": ["eu", "us"], "n": 3, "by": {"high": 2, "low": 1}}
    assert [data["facets"]["n"] for data in told(run, ev.ITEM_FINISHED)] == [2, 1, 0]


def test_merged_groups_and_values_are_capped(lab):
    items = [{"k": f"v{i}", "g": [f"g{i}"]} for i in range(10)]
    facets = {"paths": {"k": "k"}, "group_counts": {"g": "g[]"}, "max_group_keys": 3}
    run = lab.run(*lab.items(items, facets=facets, each={"max_concurrency": 1}))
    merged = run.refs["fan"].facets
    assert merged["k"] == ["v0", "v1", "v2", "(other)"]
    assert merged["g"] == {"g0": 1, "g1": 1, "g2": 1, "(other)": 7}


def test_failed_items_add_nothing_to_the_facets(lab):
    run = lab.run(*lab.items([1, -1], "picky", facets={"paths": {"v": "value"}}))
    assert run.refs["fan"].facets == {"v": []}


def test_a_facet_that_does_not_fit_is_left_out_with_a_warning(lab):
    run = lab.run(
        lab.node(
            "a", args={"value": {"n": 1}}, facets={"counts": {"c": "n[]"}, "paths": {"n": "n"}}
        )
    )
    assert run.status == "completed"
    assert run.refs["a"].facets == {"n": 1}
    (warning,) = run.state.nodes["a"].warnings
    assert warning.startswith("facet left out: facet 'c'")


# skip_existing


def sweep(lab, items, **each):
    return lab.run(*lab.items(items, each=each, store_as="r_{item}"))


def test_an_equal_call_of_an_unchanged_tool_is_taken_over_and_counted_as_reused(lab):
    sweep(lab, ["a", "b"])
    run = sweep(lab, ["a", "b", "c"])
    assert lab.calls == ["a", "b", "c"]
    assert counts(run) == {"ok": 1, "failed": 0, "skipped": 0, "reused": 2}
    assert run.status == "completed"
    assert lab.memory["fan"] == ["a", "b", "c"]


def test_what_is_reused_counts_with_its_bytes_and_facets(lab):
    facets = {"paths": {"v": "v"}, "counts": {"n": "rows[]"}}
    items = [{"v": "a", "rows": [1, 2]}, {"v": "b", "rows": [3]}]
    nodes = lab.items(items, facets=facets)
    first, second = lab.run(*nodes), lab.run(*nodes)
    assert len(lab.calls) == 2
    assert second.refs["fan"].facets == first.refs["fan"].facets == {"v": ["a", "b"], "n": 3}
    assert second.refs["fan"].bytes_stored == first.refs["fan"].bytes_stored > 0
    assert list(second.items("fan")["status"]) == ["reused", "reused"]
    assert all(data["reused"] for data in told(second, ev.ITEM_FINISHED))
    assert second.manifest().usage["calls"] == 1  # the source alone


def test_the_facets_of_a_large_reused_value_are_read_off_the_loop_and_warn_again(lab):
    async def large(value):
        return {"text": "x" * 2_000_000, "n": value}

    lab.tool(large)
    nodes = lab.items([1], "large", facets={"counts": {"c": "n[]"}, "paths": {"n": "n"}})
    first, second = lab.run(*nodes), lab.run(*nodes)
    assert counts(second)["reused"] == counts(first)["ok"] == 1
    assert second.refs["fan"].facets == first.refs["fan"].facets == {"n": [1], "c": 0}
    assert second.state.nodes["fan"].warnings == first.state.nodes["fan"].warnings != ()


def test_without_skip_existing_every_call_is_made(lab):
    sweep(lab, ["a"], skip_existing=False)
    sweep(lab, ["a"], skip_existing=False)
    assert lab.calls == ["a", "a"]


@pytest.mark.parametrize("effects", ["write", "destructive"])
def test_nothing_is_reused_of_a_tool_that_changes_things(lab, effects):
    async def change(value):
        lab.calls.append(value)
        return value

    lab.tool(change, effects=effects)
    nodes = lab.items(["a"], "change")
    lab.run(*nodes)
    lab.run(*nodes)
    assert lab.calls == ["a", "a"]


def test_nothing_is_reused_after_the_tool_has_changed(lab):
    def first(value):
        return f"old {value}"

    def second(value):
        return f"new {value}"

    lab.tool(first, name="work")
    nodes = lab.items(["a"], "work")
    lab.run(*nodes)
    lab.tool(second, name="work")
    run = lab.run(*nodes)
    assert counts(run)["reused"] == 0
    assert lab.memory["fan"] == ["new a"]


def test_a_helper_defined_anew_in_the_notebook_makes_every_call_again(lab):
    cells = {"note": lab.note, "__name__": "__main__"}
    exec("def helper(x):\n    return x * 10", cells)
    exec("def work(value):\n    note(value)\n    return helper(value)", cells)
    lab.tool(cells["work"])
    nodes = lab.items([1, 2], "work")
    lab.run(*nodes)
    exec("\n\ndef helper(x):\n    return x * 10", cells)  # run again, unchanged
    assert counts(lab.run(*nodes))["reused"] == 2
    assert sorted(lab.calls) == [1, 2]
    exec("def helper(x):\n    return x * 100", cells)
    assert counts(lab.run(*nodes)) == {"ok": 2, "failed": 0, "skipped": 0, "reused": 0}
    assert sorted(lab.calls) == [1, 1, 2, 2]
    assert lab.memory["fan"] == [100, 200]
    assert counts(lab.run(*nodes))["reused"] == 2


def test_a_tool_whose_state_cannot_be_told_is_never_reused(lab):
    class Client:
        def get(self, value):
            return value

    client = Client()
    lab.tool(lambda value: client.get(value), name="work")  # noqa: PLW0108 - the closure is the case
    nodes = lab.items([1], "work")
    lab.run(*nodes)
    assert counts(lab.run(*nodes))["reused"] == 0
    assert all(entry.fingerprint is None for entry in lab.memory.entries())


def test_nothing_is_reused_because_a_key_has_the_same_name(lab):
    run = lab.run(*lab.items(["a"], args={"value": "{item} today"}, store_as="k_{item}"))
    assert counts(run)["reused"] == 0
    run = lab.run(*lab.items(["a"], args={"value": "{item} tomorrow"}, store_as="k_{item}"))
    assert counts(run)["reused"] == 0
    assert lab.calls == ["a today", "a tomorrow"]


def test_what_somebody_put_under_the_key_is_not_taken_for_a_result(lab):
    lab.memory.put("r_a", "put by hand")
    run = sweep(lab, ["a"])
    assert counts(run)["reused"] == 0
    assert lab.memory["r_a"] == "a"


def test_a_dropped_result_is_called_for_again(lab):
    sweep(lab, ["a"])
    lab.memory.drop("r_a")
    sweep(lab, ["a"])
    assert lab.calls == ["a", "a"]


def test_nothing_is_reused_from_another_memory(lab):
    sweep(lab, ["a"])
    lab.memory = WorkingMemory()
    sweep(lab, ["a"])
    assert lab.calls == ["a", "a"]


def test_a_failed_item_is_called_again_and_the_others_are_reused(lab, tmp_path):
    note, fails = lab.note, tmp_path / "fails"
    fails.write_text("b")

    async def flaky(value):
        note(value)
        if value in fails.read_text():
            raise ValueError("not yet")
        return value

    lab.tool(flaky)
    nodes = lab.items(["a", "b", "c"], "flaky")
    assert counts(lab.run(*nodes)) == {"ok": 2, "failed": 1, "skipped": 0, "reused": 0}
    fails.write_text("")
    lab.calls.clear()
    assert counts(lab.run(*nodes)) == {"ok": 1, "failed": 0, "skipped": 0, "reused": 2}
    assert lab.calls == ["b"]


def test_a_plan_for_one_date_and_then_for_another_makes_every_call_that_differs(lab):
    async def listing(date):
        return [{"region": r, "date": date} for r in ("eu", "us")]

    note = lab.note

    async def fetch(region, date):
        note((region, date))
        return {"region": region, "date": date}

    lab.tool(listing)
    lab.tool(fetch)
    nodes = [
        lab.node("list", "listing", {"date": "{params.date}"}),
        lab.node(
            "fetch", "fetch", {"region": "{item.region}", "date": "{params.date}"}, "list",
            store_as="report_{item.region}", for_each={"source": "{artifacts.list}"},
        ),
    ]  # fmt: skip
    for date in ("2026-08-06", "2026-08-07", "2026-08-06"):
        run = lab.run(*nodes, params={"date": date})
        assert counts(run, "fetch")["reused"] == 0
        assert [report["date"] for report in lab.memory["fetch"]] == [date, date]
    run = lab.run(*nodes, params={"date": "2026-08-06"})
    assert counts(run, "fetch")["reused"] == 2
    assert len(lab.calls) == 6


def test_an_item_that_reads_a_result_made_again_is_called_again(lab):
    lab.tool(lambda: next(turn), name="state")
    turn = itertools.count()
    nodes = [
        *lab.items(["a"], args={"value": "{item} {artifacts.state}"}),
        lab.node("state", "state"),
    ]
    nodes[1] = nodes[1].model_copy(update={"depends_on": ["src", "state"]})
    lab.run(*nodes)
    run = lab.run(*nodes)
    assert counts(run)["reused"] == 0
    assert lab.calls == ["a 0", "a 1"]


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        ("1", 1),
        (None, "null"),
        (math.nan, None),
        (math.inf, None),
        ((1, 2), [1, 2]),
        ({1: "x"}, {"1": "x"}),
        ([[]], [{}]),
        (dt.date(2026, 8, 6), "2026-08-06"),
        (dt.datetime(2026, 8, 6, tzinfo=dt.UTC), "2026-08-06T00:00:00+00:00"),
        (dt.date(2026, 8, 6), dt.datetime(2026, 8, 6)),  # noqa: DTZ001 - a naive one is the case
        (Colour.RED, "red"),
        (uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (Decimal("1.0"), 1.0),
        (b"x", "x"),
        (np.array([0]), np.array([0.0])),
        (np.array([1, 2]), [1, 2]),
        (np.float64(1), 1.0),
        ({"a": [1, {"b": (1,)}]}, {"a": [1, {"b": [1]}]}),
    ],
)
def test_arguments_of_another_type_or_value_are_never_equal(lab, before, after):
    for value in (before, after):
        run = lab.run(*lab.items([value], store_as="key_{index}"))
        assert run.status == "completed", run.failure_text()
        assert counts(run)["reused"] == 0
    assert len(lab.calls) == 2


@pytest.mark.parametrize(
    "value",
    [
        1, "é", None, True, 1.5, [1, [2]], {"a": {"b": [None]}}, (1, (2,)), {1: "x"}, 2**70, b"x",
        dt.date(2026, 8, 6), dt.datetime(2026, 8, 6, tzinfo=dt.UTC), Decimal("1.10"), Colour.RED,
        uuid.UUID(int=1), "half \ud800",
    ],
)  # fmt: skip
def test_equal_arguments_of_every_plain_type_are_equal(lab, value):
    for _ in range(2):
        run = lab.run(*lab.items([value], store_as="key_{index}"))
        assert run.status == "completed", run.failure_text()
    assert counts(run)["reused"] == 1


# The hot path keeps its promise


def test_a_wide_fan_out_makes_no_task_per_item(lab):
    made = []

    async def main():
        loop = asyncio.get_running_loop()

        def factory(loop, coroutine, **options):
            task = asyncio.Task(coroutine, loop=loop, **options)
            made.append(task)
            return task

        loop.set_task_factory(factory)
        await lab.finish(*lab.items(list(range(3_000)), each={"max_items": 3_000}))

    asyncio.run(main())
    assert len(lab.calls) == 3_000
    assert len(made) < 100


def test_a_generator_is_refused_where_it_would_be_stored_and_not_read_up_by_its_first_reader(lab):
    lab.tool(lambda: (n for n in range(3)), name="lazy")
    run = lab.run(
        lab.node("src", "lazy"),
        lab.node(
            "fan", args={"value": "{item}"}, after="src", for_each={"source": "{artifacts.src}"}
        ),
    )
    assert "which can be read only once: return a list" in run.refs["src"].errors[0]
    assert run.state.nodes["fan"].status == "blocked"
    assert "src" not in lab.memory
