"""Two runs in one memory, one after the other or at once: their rows never stand in one table."""

import itertools
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.memory import WorkingMemory


def item(memory, run, index, items, node="q", key=None):
    key = key or f"{node}.{index}"
    return memory.put_item(key, [{"run": run, "i": index}], node, "t", index, 8, None, None, items)


def runs(rows):
    return {row["run"] for body in rows for row in body}


def test_two_runs_at_once_leave_the_whole_fan_out_of_the_one_that_began_last():
    memory = WorkingMemory()
    one = memory.start_items("q")
    item(memory, 1, 0, one)
    two = memory.start_items("q")
    item(memory, 2, 0, two)
    item(memory, 1, 1, one)
    item(memory, 2, 1, two)
    item(memory, 2, 2, two)
    item(memory, 1, 2, one)
    item(memory, 1, 0, one)

    assert [body[0] for body in memory["q"]] == [{"run": 2, "i": i} for i in range(3)]
    assert memory.concat("q")["run"].tolist() == [2, 2, 2]
    assert memory.concat("q.*")["run"].tolist() == [2, 2, 2]
    assert memory.df("q")["run"].tolist() == [2, 2, 2]
    assert [e.index for e in memory.entries("q*")] == [0, 1, 2]
    assert memory["q.0"] == [{"run": 1, "i": 0}]  # by its own name the version stored last


def test_items_that_a_node_means_are_kept_however_often_another_run_puts_their_keys():
    memory = WorkingMemory(keep_versions=1)
    one = memory.start_items("q")
    two = memory.start_items("q")
    item(memory, 2, 0, two)
    for _ in range(5):
        item(memory, 1, 0, one)

    assert memory["q"] == [[{"run": 2, "i": 0}]]
    assert memory.nbytes == 16
    memory.prune()
    assert memory["q"] == [[{"run": 2, "i": 0}]]
    assert memory.nbytes == 16

    three = memory.start_items("q")
    item(memory, 3, 0, three)
    assert memory.nbytes == 8
    memory.drop("q")
    assert memory.nbytes == 0
    assert memory.keys() == []


def test_dropping_a_node_leaves_what_another_run_stored_under_its_keys():
    memory = WorkingMemory()
    one = memory.start_items("q")
    two = memory.start_items("q")
    item(memory, 2, 0, two)
    item(memory, 2, 1, two)
    item(memory, 1, 0, one)

    memory.drop("q")

    assert memory.keys() == ["q.0"]
    assert memory["q.0"] == [{"run": 1, "i": 0}]
    assert memory.nbytes == 8
    assert "q" not in memory


def test_dropping_a_key_takes_it_from_the_node_that_meant_a_former_version():
    memory = WorkingMemory()
    one = memory.start_items("q")
    two = memory.start_items("q")
    item(memory, 2, 0, two)
    item(memory, 2, 1, two)
    item(memory, 1, 0, one)

    memory.drop("q.0")

    assert memory["q"] == [[{"run": 2, "i": 1}]]
    assert memory.nbytes == 8


def test_a_later_run_that_stored_fewer_items_shows_only_those():
    memory = WorkingMemory()
    first = memory.start_items("q")
    for index in range(3):
        item(memory, 1, index, first)
    item(memory, 2, 0, memory.start_items("q"))
    assert runs(memory["q"]) == {2}
    assert memory.concat("q.*")["run"].tolist() == [2]


def test_a_fan_out_that_lost_a_key_to_a_node_of_another_name_is_shown_by_no_pattern():
    memory = WorkingMemory()
    first = memory.start_items("fetch")
    for index in range(4):
        item(memory, 1, index, first, node="fetch", key=f"report.{index}")
    second = memory.start_items("get")
    for index in range(2):
        item(memory, 2, index, second, node="get", key=f"report.{index}")

    assert memory.concat("report.*")["run"].tolist() == [2, 2]
    assert memory["report.3"] == [{"run": 1, "i": 3}]
    assert memory.keys("report.*") == [f"report.{i}" for i in range(4)]


def test_an_item_put_right_by_hand_stands_among_the_others():
    memory = WorkingMemory()
    items = memory.start_items("q")
    for index in range(3):
        item(memory, 1, index, items)
    memory.put("q.1", [{"run": "hand", "i": 1}])
    assert sorted(map(str, memory.concat("q.*")["run"])) == ["1", "1", "hand"]


def test_an_item_that_an_older_run_reuses_stays_with_the_newer_one():
    memory = WorkingMemory()
    one = memory.start_items("q")
    two = memory.start_items("q")
    entry = item(memory, 2, 0, two)
    memory.reuse(entry, "q", 5, one)
    assert [e.index for e in memory.entries("q")] == [0]
    assert runs(memory["q"]) == {2}
    assert memory.nbytes == 8


def test_a_fan_out_whose_items_were_dropped_while_it_runs_goes_on_under_its_node():
    memory = WorkingMemory()
    items = memory.start_items("q")
    item(memory, 1, 0, items)
    memory.drop("q.0")
    item(memory, 1, 1, items)
    assert [e.index for e in memory.entries("q")] == [1]


def test_what_is_not_kept_any_more_is_not_reused():
    memory = WorkingMemory()
    entry = item(memory, 1, 0, memory.start_items("q"))
    memory.drop("q.0")
    again = memory.start_items("q")
    memory.reuse(entry, "q", 0, again)
    assert memory["q"] == []


def test_a_plain_node_means_what_was_stored_last_whichever_run_it_was():
    memory = WorkingMemory()
    memory.put("a", "one", node="a")
    memory.put("b", "two", node="a")
    assert memory["a"] == "two"
    assert [e.value for e in memory.entries("[ab]")] == ["two"]


def test_a_fan_out_that_begins_anew_while_a_pattern_is_read_changes_nothing_in_what_is_read():
    memory = WorkingMemory()
    stop = threading.Event()
    mixed = []

    def read():
        while not stop.is_set():
            for pattern in ("q", "q.*"):
                found = {entry.value[0]["run"] for entry in memory.entries(pattern)}
                if len(found) > 1:
                    mixed.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for run in range(150):
        items = memory.start_items("q")
        for index in range(20):
            item(memory, run, index, items)
    stop.set()
    reader.join()
    assert mixed == []


@settings(deadline=None, max_examples=60)
@given(
    orders=st.lists(st.sampled_from([0, 1, 2]), max_size=40),
    keep=st.integers(1, 3),
    nodes=st.lists(st.sampled_from(["q", "r"]), min_size=3, max_size=3),
)
def test_no_pattern_and_no_node_id_mixes_three_runs_in_any_order_of_their_puts(orders, keep, nodes):
    memory = WorkingMemory(keep_versions=keep)
    groups = [memory.start_items(node) for node in nodes]
    places = [itertools.count() for _ in nodes]
    latest = {node: run for run, node in enumerate(nodes)}
    stored = {run: [] for run in range(3)}
    for run in orders:
        index = next(places[run])
        item(memory, run, index, groups[run], node=nodes[run], key=f"key.{index}")
        stored[run].append(index)
        for pattern in ("key.*", *latest):
            for node, last in latest.items():
                found = [e for e in memory.entries(pattern) if e.node == node]
                assert {e.value[0]["run"] for e in found} <= {last}
                assert [e.index for e in found] == sorted(e.index for e in found)
    if len(latest) == 1:
        run = latest[nodes[0]]
        assert [e.index for e in memory.entries(nodes[0])] == stored[run]


@pytest.mark.parametrize("pattern", ["*", "key.*"])
def test_two_nodes_that_share_keys_in_two_runs_are_not_set_under_each_other(pattern):
    memory = WorkingMemory()
    one, two = memory.start_items("a"), memory.start_items("b")
    for index in range(3):
        item(memory, 1, index, one, node="a", key=f"key.{index}")
        item(memory, 2, index, two, node="b", key=f"key.{index}")
    item(memory, 1, 3, one, node="a", key="key.3")
    assert memory.concat(pattern)["run"].tolist() == [2, 2, 2]
