import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from planbench.errors import (
    ArtifactNotFound,
    ArtifactRefused,
    ConfigurationError,
    FrameError,
    PathError,
)
from planbench.memory import WorkingMemory, measure


def report(number, *severities):
    return {
        "report_id": f"r-{number}",
        "meta": {"region": f"region-{number}"},
        "findings": [{"uid": f"{number}-{i}", "severity": s} for i, s in enumerate(severities)],
    }


@pytest.fixture
def swept():
    """A fan-out whose items finished out of order, between two plain nodes."""
    memory = WorkingMemory()
    memory.put("listing", {"n": 3}, node="listing", tool="list")
    memory.start_items("fetch")
    for index in (2, 0, 1):
        memory.put(
            f"report.{index}", report(index, "high", "low"), node="fetch", tool="get", index=index
        )
    memory.put("result", "text", node="diff", tool="compare")
    return memory


# Values by key


@pytest.mark.parametrize("value", [None, "", 0, False, [], {}, pd.DataFrame(), np.zeros(0)])
def test_values_that_are_false_are_stored_like_any_other(value):
    memory = WorkingMemory()
    memory.put("k", value, node="n")
    memory.put("k", value, node="n")
    assert "k" in memory
    assert "n" in memory
    assert type(memory.get("k")) is type(value)
    assert type(memory["n"]) is type(value)
    assert type(memory.get("k", "default")) is type(value)


@pytest.mark.parametrize("value", [pd.DataFrame({"a": [1, 2]}), pd.Series([1, 2]), np.ones(3)])
def test_frames_and_arrays_go_through_every_reading_method(value):
    memory = WorkingMemory()
    for key in ("one.0", "one.1"):
        memory.put(key, value, node="one", index=int(key[-1]))
        memory.put(key, [value, {"cell": value}], description="holds frames")
        memory.put(key, value, node="one", index=int(key[-1]))
    assert len(memory.get("one")) == 2
    assert len(memory.search("one")) == 2
    assert len(memory.concat("one")) == 2 * len(memory.df("one.0"))
    assert memory.version(memory.info("one.0").artifact_id, 2)[1]["cell"] is not None
    assert len(memory.catalog()) == 2
    assert "one.1" in memory._repr_html_()
    memory.drop("one")
    assert memory.nbytes == 0


def test_a_missing_key_names_near_keys_and_node_ids(swept):
    with pytest.raises(ArtifactNotFound) as caught:
        swept["fetsh"]
    assert "fetch" in caught.value.near
    with pytest.raises(KeyError):
        swept.get("report.9")
    with pytest.raises(ArtifactNotFound, match=r"report\.0"):
        swept.get("REPORT")
    for read in (swept.info, swept.df, swept.concat, swept.drop):
        with pytest.raises(ArtifactNotFound):
            read("nowhere-near")


def test_a_missing_key_of_an_empty_memory_says_that_it_is_empty():
    with pytest.raises(ArtifactNotFound, match="empty"):
        WorkingMemory().get("k")


def test_a_default_is_given_for_a_missing_key_only():
    memory = WorkingMemory()
    memory.put("k", None)
    assert memory.get("k", 5) is None
    assert memory.get("other", 5) == 5
    assert memory.get("other", None) is None


def test_a_key_that_is_no_text_is_refused():
    memory = WorkingMemory()
    with pytest.raises(TypeError, match="a key is text"):
        memory.put(5, "value")
    with pytest.raises(ArtifactNotFound):
        memory[5]
    assert len(memory) == 0
    assert memory.nbytes == 0


def test_an_empty_memory_is_true():
    assert WorkingMemory()
    assert len(WorkingMemory()) == 0


def test_given_bytes_are_taken_and_missing_ones_measured():
    memory = WorkingMemory()
    assert memory.put("a", "xyz").nbytes == 3
    assert memory.put("b", "xyz", nbytes=1_000).nbytes == 1_000
    assert memory.nbytes == 1_003
    big = [0] * 50_000
    assert memory.put("c", big).nbytes == measure(big, None)


def test_what_a_reader_or_the_giver_writes_into_a_frame_stays_with_them():
    memory = WorkingMemory()
    frame = pd.DataFrame({"a": [1, 2]})
    memory.put("k", frame, node="n", index=0)
    frame.loc[0, "a"] = 99
    for read in (memory.get, memory.df, lambda key: memory.entries(key)[0].value.copy()):
        taken = read("k")
        taken.loc[1, "a"] = 99
        taken["new"] = 0
    (item,) = memory.get("n")
    item["a"] = 0
    assert memory.get("k").to_dict("list") == {"a": [1, 2]}


# Versions


def test_versions_count_per_key_from_one_and_share_the_artifact_id():
    memory = WorkingMemory()
    first, second = memory.put("a", "one"), memory.put("a", "two")
    other = memory.put("b", "x")
    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert first.artifact_id == second.artifact_id == memory.info("a").artifact_id
    assert other.artifact_id != first.artifact_id
    assert memory.version(first.artifact_id, 1) == "one"
    assert memory.version(first.artifact_id, 2) == "two"


def test_the_last_three_versions_are_kept_and_counted():
    memory = WorkingMemory()
    for text in ("1", "22", "333", "4444"):
        entry = memory.put("a", text)
    assert memory.nbytes == 2 + 3 + 4
    assert memory.version(entry.artifact_id, 2) == "22"
    with pytest.raises(ArtifactNotFound, match="@1"):
        memory.version(entry.artifact_id, 1)


def test_keep_versions_may_be_one():
    memory = WorkingMemory(keep_versions=1)
    memory.put("a", "1")
    memory.put("a", "22")
    assert memory.nbytes == 2
    with pytest.raises(ConfigurationError):
        WorkingMemory(keep_versions=0)


def test_prune_leaves_the_current_versions():
    memory = WorkingMemory()
    memory.put("a", "1")
    entry = memory.put("a", "22")
    memory.prune()
    assert memory.nbytes == 2
    assert memory.version(entry.artifact_id, 2) == "22"
    with pytest.raises(ArtifactNotFound):
        memory.version(entry.artifact_id, 1)
    assert memory.put("a", "3").version == 3


def test_a_dropped_key_comes_back_as_another_artifact():
    memory = WorkingMemory()
    first = memory.put("a", "old")
    memory.put("a", "older")
    memory.drop("a")
    assert memory.nbytes == 0
    second = memory.put("a", "new")
    assert second.version == 1
    assert second.artifact_id != first.artifact_id
    with pytest.raises(ArtifactNotFound):
        memory.version(first.artifact_id, 1)


def test_an_artifact_id_of_another_memory_is_not_found():
    entry = WorkingMemory().put("a", 1)
    other = WorkingMemory()
    other.put("a", 2)
    for artifact_id in (entry.artifact_id, "a", "", "wm-x", f"{entry.artifact_id}1"):
        with pytest.raises(ArtifactNotFound):
            other.version(artifact_id, 1)


# Nodes


def test_a_node_id_means_the_value_that_it_stored(swept):
    assert swept["diff"] == "text"
    assert swept.info("diff").key == "result"
    assert swept.keys("diff") == ["result"]
    assert swept.df("diff").to_dict("list") == {"value": ["text"]}


def test_a_fan_out_is_the_list_of_its_items_in_item_order(swept):
    assert [body["report_id"] for body in swept["fetch"]] == ["r-0", "r-1", "r-2"]
    assert swept.keys("fetch") == ["report.0", "report.1", "report.2"]
    assert [entry.index for entry in swept.entries("fetch")] == [0, 1, 2]


def test_the_info_of_a_fan_out_sums_its_items(swept):
    info = swept.info("fetch")
    items = [swept.info(key) for key in swept.keys("fetch")]
    assert info.rows == 3
    assert info.nbytes == sum(item.nbytes for item in items)
    assert (info.key, info.node, info.tool) == ("fetch", "fetch", "get")
    assert info.created == max(item.created for item in items)


def test_a_fan_out_over_nothing_reads_as_empty():
    memory = WorkingMemory()
    memory.start_items("fetch")
    assert memory["fetch"] == []
    assert "fetch" in memory
    assert memory.keys("fetch") == []
    assert memory.info("fetch").rows == 0
    assert memory.df("fetch").shape == (0, 1)
    assert list(memory.concat("fetch", "findings[]", item="report_id").columns) == [
        "key",
        "report_id",
    ]
    memory.drop("fetch")
    assert "fetch" not in memory


def test_a_fan_out_that_starts_again_means_its_new_items_only(swept):
    swept.start_items("fetch")
    swept.put("report.1", report(7), node="fetch", index=0)
    assert [body["report_id"] for body in swept["fetch"]] == ["r-7"]
    assert swept["report.2"]["report_id"] == "r-2"
    swept.drop("report.2")
    assert [body["report_id"] for body in swept["fetch"]] == ["r-7"]


def test_dropping_a_leftover_item_leaves_an_empty_fan_out_readable(swept):
    swept.start_items("fetch")
    swept.drop("report.2")
    assert swept["fetch"] == []


def test_an_item_that_is_reused_belongs_to_its_node_again(swept):
    kept = swept.nbytes
    swept.start_items("fetch")
    swept.reuse(swept.peek("report.2"), "fetch", 0)
    swept.reuse(swept.peek("report.0"), "fetch", 1)
    assert [body["report_id"] for body in swept["fetch"]] == ["r-2", "r-0"]
    assert swept.info("report.2").version == 1
    assert swept.nbytes == kept
    assert list(swept.concat("report.*", "findings[]")["uid"])[:4] == ["2-0", "2-1", "0-0", "0-1"]


def test_an_item_that_another_node_reuses_leaves_the_first_one(swept):
    entry = swept.peek("report.0")
    swept.reuse(entry, "again", 5)
    assert [body["report_id"] for body in swept["again"]] == ["r-0"]
    assert [body["report_id"] for body in swept["fetch"]] == ["r-1", "r-2"]
    assert swept.info("report.0").node == "again"
    assert (entry.node, entry.index) == ("fetch", 0)
    swept.drop("report.0")
    assert "again" not in swept


def test_peek_looks_at_keys_only(swept):
    assert swept.peek("result").value == "text"
    assert swept.peek("diff") is None
    assert swept.peek("nowhere") is None


def test_a_key_goes_before_a_node_of_the_same_name():
    memory = WorkingMemory()
    memory.put("a", "by key", node="b")
    memory.put("c", "by node", node="a")
    assert memory["a"] == "by key"
    assert memory["b"] == "by key"


def test_a_key_that_another_node_takes_leaves_the_first_one():
    memory = WorkingMemory()
    memory.put("shared", 1, node="a")
    memory.put("shared", 2, node="b")
    assert memory["b"] == 2
    assert "a" not in memory
    memory.put("shared", 3)
    assert "b" not in memory


def test_a_node_that_was_a_fan_out_and_is_none_any_more_is_one_value(swept):
    swept.put("single", 1, node="fetch")
    assert swept["fetch"] == 1
    swept.put("report.0", 2, node="fetch", index=0)
    assert swept["fetch"] == [2]


def test_dropping_a_node_drops_all_its_items(swept):
    kept = swept.info("listing").nbytes + swept.info("result").nbytes
    swept.drop("fetch")
    assert swept.keys() == ["listing", "result"]
    assert swept.nbytes == kept
    assert "fetch" not in swept


def test_a_node_is_gone_with_its_last_item(swept):
    for key in swept.keys("fetch"):
        assert "fetch" in swept
        swept.drop(key)
    assert "fetch" not in swept


def test_clear_forgets_everything(swept):
    swept.clear()
    assert swept.nbytes == 0
    assert swept.keys() == []
    assert "fetch" not in swept
    assert swept.put("listing", 1).version == 1


# Keys and search


def test_keys_keep_the_order_of_the_first_put():
    memory = WorkingMemory()
    for key in ("b", "a", "c", "a", "b"):
        memory.put(key, 1)
    assert memory.keys() == list(memory) == ["b", "a", "c"]


def test_keys_match_patterns_and_case(swept):
    assert swept.keys("report.*") == ["report.2", "report.0", "report.1"]
    assert swept.keys("report.[01]") == ["report.0", "report.1"]
    assert swept.keys("?esult") == ["result"]
    assert swept.keys("REPORT.*") == []
    assert swept.keys("result") == ["result"]
    assert swept.keys("none") == []


def test_a_key_with_brackets_is_found_by_its_name():
    memory = WorkingMemory()
    memory.put("rows[0]", 1)
    memory.put("*", 2)
    assert memory.keys("rows[0]") == ["rows[0]"]
    assert memory["rows[0]"] == 1
    assert memory.keys("*") == ["rows[0]", "*"]


def test_search_looks_at_key_node_tool_and_description_in_any_case(swept):
    swept.put("other", 1, description="Findings of the QUARTER")
    assert [info.key for info in swept.search("FETCH")] == ["report.2", "report.0", "report.1"]
    assert [info.key for info in swept.search("compare")] == ["result"]
    assert [info.key for info in swept.search("quarter")] == ["other"]
    assert [info.key for info in swept.search("REPORT.1")] == ["report.1"]
    assert len(swept.search("")) == 6
    assert swept.search("absent") == []


def test_search_keeps_one_entry_type(swept):
    assert [info.key for info in swept.search("", "text")] == ["result"]
    assert len(swept.search("fetch", "json")) == 3
    with pytest.raises(ConfigurationError, match="no entry type 'jsn'"):
        swept.search("", "jsn")


# Tables


def test_concat_gives_the_rows_of_all_items_in_item_order(swept):
    table = swept.concat("fetch", "findings[]", item=("report_id", "meta.region"))
    assert list(table.columns) == ["key", "report_id", "meta.region", "uid", "severity"]
    assert list(table["key"]) == [f"report.{i}" for i in (0, 0, 1, 1, 2, 2)]
    assert list(table["uid"]) == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert list(table["meta.region"])[-1] == "region-2"


def test_concat_of_a_pattern_keeps_item_order_too(swept):
    assert list(swept.concat("report.*")["key"].unique()) == ["report.0", "report.1", "report.2"]


def test_concat_keeps_the_items_of_two_fan_outs_apart():
    memory = WorkingMemory()
    for node, index in (("b", 1), ("a", 1), ("b", 0), ("a", 0)):
        memory.put(f"{node}.{index}", {"x": 1}, node=node, index=index)
    memory.put("plain", {"x": 1})
    assert list(memory.concat("*")["key"]) == ["b.0", "b.1", "a.0", "a.1", "plain"]


def test_concat_names_its_columns(swept):
    table = swept.concat("fetch", "findings[]", label="report", item={"region": "meta.region"})
    assert list(table.columns) == ["report", "region", "uid", "severity"]
    bare = swept.concat("fetch", "findings[]", label=None)
    assert list(bare.columns) == ["uid", "severity"]


def test_concat_takes_one_path_as_text(swept):
    table = swept.concat("fetch", "findings[].severity", item="report_id")
    assert list(table.columns) == ["key", "report_id", "value"]
    assert len(table) == 6


def test_concat_refuses_a_label_that_is_a_column(swept):
    with pytest.raises(FrameError, match="'uid'"):
        swept.concat("fetch", "findings[]", label="uid")
    with pytest.raises(FrameError, match="'severity'"):
        swept.concat("fetch", "findings[]", item={"severity": "report_id"})
    with pytest.raises(FrameError, match="'report_id'"):
        swept.concat("fetch", "findings[]", label="report_id", item="report_id")


def test_concat_names_the_key_where_a_path_does_not_fit(swept):
    swept.put("report.3", {"other": 1}, node="fetch", index=3)
    with pytest.raises(PathError, match=r"'report\.3'.*findings"):
        swept.concat("fetch", "findings[]")


def test_concat_of_frames_keeps_item_order():
    memory = WorkingMemory()
    for index in (1, 0):
        memory.put(f"f.{index}", pd.DataFrame({"x": [index]}), node="f", index=index)
    assert memory.concat("f").to_dict("list") == {"key": ["f.0", "f.1"], "x": [0, 1]}
    assert memory.concat("f", "[].x").to_dict("list") == {"key": ["f.0", "f.1"], "value": [0, 1]}


def test_df_reads_keys_nodes_and_parts(swept):
    assert swept.df("report.0").to_dict("list") == {
        "uid": ["0-0", "0-1"],
        "severity": ["high", "low"],
    }
    assert list(swept.df("report.0", "meta").columns) == ["region"]
    assert len(swept.df("fetch", "findings[]")) == 6
    assert len(swept.df("fetch")) == 6


# Other threads, and what is imported


def test_readers_in_other_threads_see_whole_snapshots():
    memory = WorkingMemory()
    stop = threading.Event()
    problems = []

    def read():
        try:
            while not stop.is_set():
                memory.keys("k.*")
                memory.entries("n")
                memory.search("k")
                len(memory.get("n", ()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(3_000):
        memory.put(f"k.{turn % 500}", turn, node="n", index=turn % 500, nbytes=1)
        if turn % 7 == 0:
            memory.drop(f"k.{turn % 500}")
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_storing_and_reading_load_no_pandas():
    program = (
        "import sys\n"
        "from planbench.memory import WorkingMemory\n"
        "memory = WorkingMemory()\n"
        "memory.put('k', {'a': [1, 'b', b'c', (1,), object()]}, node='n', index=0)\n"
        "memory.get('n'), memory.info('k'), memory.search('k'), memory._repr_html_()\n"
        "print([name for name in ('pandas', 'numpy', 'pyarrow') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# Against a model

KEYS = st.sampled_from(["a", "b", "c", "item.0", "item.1", "item.2"])
NODES = st.sampled_from([None, "n", "m"])
VALUES = st.none() | st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=4)


class MemoryMachine(RuleBasedStateMachine):
    """The memory against a plain dict of key -> the versions that must be there."""

    @initialize(keep=st.integers(1, 4))
    def start(self, keep):
        self.keep = keep
        self.memory = WorkingMemory(keep_versions=keep)
        self.model = {}
        self.ids = {}

    @rule(key=KEYS, value=VALUES, node=NODES, index=st.none() | st.integers(0, 5))
    def put(self, key, value, node, index):
        entry = self.memory.put(key, value, node=node, index=index)
        versions = self.model.setdefault(key, [])
        number = versions[-1][0] + 1 if versions else 1
        versions.append((number, value, measure(value), node))
        del versions[: -self.keep]
        assert entry.version == number
        assert entry.artifact_id == self.ids.setdefault(key, entry.artifact_id)

    @rule(key=KEYS)
    def drop(self, key):
        if key in self.model:
            self.memory.drop(key)
            del self.model[key]
            del self.ids[key]
        else:
            with pytest.raises(ArtifactNotFound):
                self.memory.drop(key)

    @rule()
    def prune(self):
        self.memory.prune()
        for versions in self.model.values():
            del versions[:-1]

    @rule(key=KEYS, node=st.sampled_from(["n", "m"]), index=st.integers(0, 5))
    def reuse(self, key, node, index):
        entry = self.memory.peek(key)
        assert (entry is not None) == (key in self.model)
        if entry is not None:
            self.memory.reuse(entry, node, index)
            self.model[key][-1] = (*self.model[key][-1][:3], node)
            assert self.memory.peek(key) in self.memory.entries(node)

    @rule(node=st.sampled_from(["n", "m"]))
    def start_items(self, node):
        self.memory.start_items(node)
        assert self.memory[node] == []

    @rule()
    def clear(self):
        self.memory.clear()
        self.model.clear()
        self.ids.clear()

    @invariant()
    def holds_what_the_model_holds(self):
        assert self.memory.keys() == list(self.model)
        for key, versions in self.model.items():
            assert self.memory[key] == versions[-1][1]
            for number, value, _, _ in versions:
                assert self.memory.version(self.ids[key], number) == value

    @invariant()
    def bytes_are_the_sum_of_what_is_held(self):
        held = sum(size for versions in self.model.values() for _, _, size, _ in versions)
        assert self.memory.nbytes == held

    @invariant()
    def a_node_reads_only_what_it_stored_itself(self):
        for node in ("n", "m"):
            for entry in self.memory.entries(node):
                assert entry.node == node
                assert self.model[entry.key][-1][3] == node


TestMemoryAgainstModel = MemoryMachine.TestCase
TestMemoryAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_pattern_never_mixes_the_rows_of_two_runs():
    memory = WorkingMemory()
    for index in range(3):
        memory.put(f"q.{index}", [{"run": 1}], node="q", index=index)
    memory.start_items("q")
    memory.put("q.0", [{"run": 2}], node="q", index=0)
    assert memory.concat("q.*")["run"].tolist() == [2]
    assert memory.concat("q")["run"].tolist() == [2]
    assert memory["q.2"] == [{"run": 1}]  # asked for by its own name it is still there
    assert memory.keys("q.*") == ["q.0", "q.1", "q.2"]


def test_a_node_id_means_what_the_node_stored_last_also_over_a_key_of_that_name():
    memory = WorkingMemory()
    memory.put("q", "first run", node="q")
    memory.put("q.0", "second run", node="q", index=0)
    assert memory["q"] == ["second run"]
    memory.put("elsewhere", "third run", node="q")
    assert memory["q"] == "third run"
    memory.put("q", "by hand")
    assert memory["q"] == "by hand"


@pytest.mark.parametrize("value", [(n for n in range(3)), iter([1]), map(str, [1])])
def test_what_can_be_read_only_once_is_refused(value):
    memory = WorkingMemory()
    with pytest.raises(ArtifactRefused, match="return a list"):
        memory.put("g", value)
    assert "g" not in memory


def test_a_value_that_raises_at_every_attribute_is_an_object_and_breaks_no_catalog():
    class Proxy:
        def __getattr__(self, name):
            raise RuntimeError(name)

    memory = WorkingMemory()
    memory.put("proxy", Proxy())
    memory.put("good", 1)
    assert memory.info("proxy").entry_type == "object"
    assert memory.catalog()["key"].tolist() == ["proxy", "good"]
    assert "proxy" in memory._repr_html_()
    assert [info.key for info in memory.search("o")] == ["proxy", "good"]


@pytest.mark.parametrize("name", ["concat", "keys", "entries", "search"])
def test_entries_are_found_by_text_only(name):
    with pytest.raises(ConfigurationError, match="found by text, not by int"):
        getattr(WorkingMemory(), name)(5)
