"""A memory with a budget: what goes to a file, what stays, and what the counts say."""

import asyncio
import gc
import logging
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from planbench.errors import ConfigurationError
from planbench.memory import WorkingMemory
from planbench.memory.budget import LOOKED_AT
from planbench.memory.spill import SpillFolder


def text(letter, size=1_000):
    """Make a text that nobody else holds."""
    return "".join([letter] * size)


def files(folder):
    return sorted(path.name for path in folder.rglob("*.spill"))


@pytest.fixture
def memory(tmp_path):
    return WorkingMemory(3_000, tmp_path)


# What goes and what stays


def test_over_the_budget_the_values_used_longest_ago_are_spilled(memory):
    for letter in "abc":
        memory.put(letter, text(letter))
    assert [memory.peek(key).spilled for key in "abc"] == [False, False, False]
    assert memory.get("a") == text("a")

    memory.put("d", text("d"))

    assert [memory.peek(key).spilled for key in "abcd"] == [False, True, False, False]
    assert (memory.resident_bytes, memory.spilled_bytes, memory.nbytes) == (3_000, 1_000, 4_000)


def test_a_spilled_value_is_read_back_equal_and_counts_as_used(memory):
    for letter in "abcd":
        memory.put(letter, text(letter))
    assert memory.peek("a").spilled

    assert memory["a"] == text("a")

    assert [memory.peek(key).spilled for key in "abcd"] == [False, True, False, False]
    assert memory.resident_bytes == 3_000


def test_a_value_that_has_its_file_goes_again_without_being_written(memory, tmp_path):
    for letter in "abcd":
        memory.put(letter, text(letter))
    assert files(tmp_path) == ["1.spill"]
    for _ in range(3):
        for letter in "abcd":
            assert memory[letter] == text(letter)
    assert len(files(tmp_path)) == 4


def test_superseded_versions_go_first(memory):
    memory.put("old", text("o"))
    memory.put("a", text("1"))
    entry = memory.put("a", text("2"))

    memory.put("b", text("b"))

    assert memory.entry(entry.artifact_id, 1).spilled
    assert not memory.peek("old").spilled
    assert memory.version(entry.artifact_id, 1) == text("1")


def test_one_value_over_the_whole_budget_is_spilled_too(memory):
    memory.put("a", text("a", 10_000))
    assert memory.peek("a").spilled
    assert memory.resident_bytes == 0
    assert memory["a"] == text("a", 10_000)


def test_what_is_known_of_a_spilled_value_is_known_without_reading_it(memory, tmp_path):
    memory.put("t", pd.DataFrame({"x": range(1_000)}), node="n", tool="tool", description="said")
    memory.put("l", [text("x", 500)] * 2)
    before = [memory.info(key) for key in "tl"]
    for letter in "abcd":
        memory.put(letter, text(letter))
    assert memory.peek("t").spilled
    assert memory.peek("l").spilled
    for path in tmp_path.rglob("*.spill"):
        path.unlink()

    assert [memory.info(key) for key in "tl"] == before
    assert (before[0].rows, before[0].columns, before[0].entry_type) == (1_000, 1, "dataframe")
    assert (memory.peek("t").length, memory.peek("l").length) == (1_000, 2)
    assert memory.catalog()["type"].tolist()[:2] == ["dataframe", "json"]
    assert [info.key for info in memory.search("said", "dataframe")] == ["t"]
    assert "t" in memory._repr_html_()
    assert "dataframe" in repr(memory.peek("t"))


@pytest.mark.parametrize(
    "value",
    [
        b"\x00\xff" * 500,
        "ä" * 1_000,
        {"a": [1, 2.5, None, True, "x" * 500], "b": {"c": []}},
        [(1, 2), {3, 4}, Decimal("1.50"), 2**80, "y" * 500],
        np.arange(500, dtype="int16").reshape(50, 10),
        pd.DataFrame({"i": [1, 2] * 100, "c": pd.Categorical(["a", "b"] * 100), "o": [{"k": 1}, [2]] * 100}),
        pd.Series(["a", None, "c"] * 100, name="s", index=range(300, 0, -1)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_every_kind_of_value_comes_back_equal_and_of_the_same_type(tmp_path, value):
    memory = WorkingMemory(100, tmp_path)
    memory.put("k", value)
    given = memory.peek("k")
    memory.put("other", text("x"))
    if not given.spilled:  # the test holds it itself
        given.cell.describe()
        given.cell.file = memory._budget._folder.write(value)
        given.cell.drop()

    back = memory["k"]

    assert back is not value
    assert type(back) is type(value)
    if isinstance(value, pd.DataFrame):
        pd.testing.assert_frame_equal(back, value)
        assert [type(cell) for cell in back["o"]] == [dict, list] * 100
    elif isinstance(value, pd.Series):
        pd.testing.assert_series_equal(back, value)
    elif isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        assert np.array_equal(back, value)
    else:
        assert back == value


def test_a_value_that_somebody_holds_stays_and_goes_when_it_is_let_go(memory):
    held = text("a", 2_000)
    memory.put("a", held)
    memory.put("b", text("b", 2_000))
    assert [memory.peek(key).spilled for key in "ab"] == [False, True]
    assert memory.resident_bytes == 2_000

    del held
    memory.put("c", text("c", 2_000))

    assert [memory.peek(key).spilled for key in "abc"] == [True, True, False]


@pytest.mark.parametrize(
    "part",
    [
        lambda memory: memory.get("f"),
        lambda memory: memory["f"]["x"],
        lambda memory: memory.df("f").iloc[:5],
        lambda memory: memory.entries("f")[0].value["x"][2:],
    ],
    ids=["view", "column", "rows", "part"],
)
def test_a_frame_stays_while_somebody_holds_a_part_of_it(tmp_path, part):
    memory = WorkingMemory(10_000, tmp_path)
    memory.put("f", pd.DataFrame({"x": np.arange(1_000), "y": np.arange(1_000)}))
    assert memory.peek("f").spilled
    held = part(memory)
    memory.spill()
    assert not memory.peek("f").spilled
    column = held if isinstance(held, pd.Series) else held["x"]
    assert np.shares_memory(column.to_numpy(), memory.peek("f").cell.held()["x"].to_numpy())
    del held, column
    gc.collect()
    memory.spill()
    assert memory.peek("f").spilled


@pytest.mark.parametrize("kind", ["text", "frame", "parts of a frame"])
def test_what_stands_under_several_keys_is_held_by_nobody(tmp_path, kind):
    memory = WorkingMemory(3_000, tmp_path)
    value = text("a", 2_000) if kind == "text" else pd.DataFrame({"x": range(200), "y": "y"})
    memory.put("a", value)
    memory.put("b", value)
    memory.put("c", value[["x"]] if kind == "parts of a frame" else value)
    assert not memory.peek("c").spilled
    del value
    memory.put("d", text("d", 3_000))
    assert [memory.peek(key).spilled for key in "abc"] == [True] * 3
    assert len(memory["a"]) == len(memory["b"]) == len(memory["c"])


def test_a_pinned_value_stays_until_it_is_unpinned(memory):
    entry = memory.put("a", text("a"))
    entry.pin()
    entry.pin()
    for letter in "bcde":
        memory.put(letter, text(letter))
    assert not entry.spilled
    entry.unpin()
    memory.spill()
    assert not entry.spilled
    entry.unpin()
    memory.put("f", text("f"))
    memory.put("g", text("g"))
    assert entry.spilled


def test_a_spilled_value_that_is_pinned_and_read_stays(memory):
    for letter in "abcd":
        memory.put(letter, text(letter))
    entry = memory.peek("a")
    entry.pin()
    assert entry.spilled
    entry.value  # noqa: B018 - reading is the matter
    for letter in "efgh":
        memory.put(letter, text(letter))
    assert not entry.spilled
    entry.unpin()


def test_what_no_codec_takes_stays_is_counted_and_is_named(memory, caplog):
    class Thing:
        pass

    with caplog.at_level(logging.WARNING):
        memory.put("thing", Thing(), nbytes=2_500)
        memory.put("other", {"a": Thing()}, nbytes=2_500)
        memory.put("a", text("a"))

    assert not memory.peek("thing").spilled
    assert memory.peek("a").spilled
    assert memory.resident_bytes == 5_000
    usage = memory.usage()
    assert sorted(usage.unspillable) == ["other", "thing"]
    assert "Thing" in usage.unspillable["thing"]
    assert [record.message.count("stays in memory") for record in caplog.records] == [1]
    assert not memory.over  # nothing more can be done


def test_tiny_values_are_not_worth_a_file(tmp_path):
    memory = WorkingMemory(10, tmp_path)
    for number in range(50):
        memory.put(f"k{number}", number)
    assert files(tmp_path) == []
    assert memory.resident_bytes == 400


# What the counts say


def test_usage_says_where_the_values_are(memory):
    for letter in "abcd":
        memory.put(letter, text(letter))
    assert memory.usage() == (3_000, 3_000, 1_000, 3, 1, {})


def test_without_a_budget_everything_is_in_memory():
    memory = WorkingMemory()
    entry = memory.put("a", text("a"))
    assert (memory.resident_bytes, memory.spilled_bytes, memory.over) == (1_000, 0, False)
    assert memory.usage() == (None, 1_000, 0, 1, 0, {})
    assert not memory.bounded
    assert not entry.spilled
    entry.pin()
    entry.unpin()
    memory.spill()
    asyncio.run(memory.make_room())
    assert memory["a"] == text("a")


def test_dropping_pruning_and_clearing_give_bytes_and_files_back(memory, tmp_path):
    for letter in "abcdef":
        memory.put(letter, text(letter))
    memory.put("f", text("g"))
    assert len(files(tmp_path)) == 4
    memory.drop("a")
    assert (memory.resident_bytes, memory.spilled_bytes) == (3_000, 3_000)
    memory.prune()
    memory.tidy()
    assert memory.nbytes == 5_000
    assert (memory.resident_bytes, memory.spilled_bytes) == (3_000, 2_000)
    memory.clear()
    assert (memory.resident_bytes, memory.spilled_bytes, memory.nbytes) == (0, 0, 0)
    assert files(tmp_path) == []


def test_what_only_a_run_still_holds_is_counted_spilled_and_read(memory):
    entry = memory.put("a", text("a"))
    memory.drop("a")
    assert memory.resident_bytes == 1_000
    for letter in "bcd":
        memory.put(letter, text(letter))
    assert entry.spilled
    assert entry.value == text("a")
    del entry
    assert memory.resident_bytes + memory.spilled_bytes == memory.nbytes == 3_000


def test_an_entry_outlives_its_memory_and_the_folder_goes_with_the_last(tmp_path):
    memory = WorkingMemory(100, tmp_path)
    entry = memory.put("a", text("a"))
    assert entry.spilled
    del memory
    assert entry.value == text("a")
    del entry
    assert list(tmp_path.iterdir()) == []


def test_an_item_that_is_reused_shares_the_value_of_the_entry_it_was(memory):
    entry = memory.put("q.0", text("a"), node="q", index=0)
    memory.reuse(entry, "q", 7, memory.start_items("q"))
    moved = memory.peek("q.0")
    assert (moved.index, entry.index) == (7, 0)
    assert moved.cell is entry.cell
    for letter in "bcd":
        memory.put(letter, text(letter))
    assert entry.spilled
    assert moved.spilled
    assert moved.value == text("a")
    assert not entry.spilled
    assert memory.resident_bytes + memory.spilled_bytes == 4_000


def test_a_restored_value_is_under_the_budget_too(memory):
    memory.restore("a", text("a", 5_000), artifact_id="wmother-1", version=2)
    memory.spill()
    assert memory.peek("a").spilled
    assert memory.version("wmother-1", 2) == text("a", 5_000)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1", True])
def test_a_budget_is_a_whole_number_of_bytes(wrong):
    with pytest.raises(ConfigurationError, match="max_bytes"):
        WorkingMemory(wrong)


def test_a_spill_dir_without_a_budget_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="max_bytes"):
        WorkingMemory(spill_dir=tmp_path)


# The engine's way


def test_put_item_spills_only_when_far_over_and_make_room_does_the_rest(memory):
    for letter in "abc":
        memory.put_item(letter, text(letter), None, None, None, 1_000)
    assert not memory.over
    memory.put_item("d", text("d", 700), None, None, None, 700)
    assert memory.over
    assert memory.spilled_bytes == 0

    memory.put_item("e", text("e"), None, None, None, 1_000)

    assert memory.resident_bytes <= 3_750
    assert memory.over
    asyncio.run(memory.make_room())
    assert not memory.over
    assert memory.resident_bytes <= 3_000


def test_make_room_encodes_and_writes_in_a_thread(tmp_path, monkeypatch):
    where = set()
    write = SpillFolder.write

    def watched(folder, value):
        where.add(threading.current_thread())
        return write(folder, value)

    monkeypatch.setattr(SpillFolder, "write", watched)
    memory = WorkingMemory(3_000, tmp_path)

    async def store():
        for letter in "abcdefgh":
            memory.put_item(letter, text(letter, 500), None, None, None, 500)
            await memory.make_room()

    asyncio.run(store())
    assert len(files(tmp_path)) == 2
    assert threading.main_thread() not in where
    assert len(where) > 0


def test_readers_in_threads_meet_whole_values_while_the_loop_spills(tmp_path):
    memory = WorkingMemory(20_000, tmp_path)
    stop = threading.Event()
    problems = []

    def read():
        turn = 0
        try:
            while not stop.is_set():
                turn += 1
                for key in memory:
                    value = memory.get(key, None)
                    if value is not None and value != text(key[0], 2_000):
                        problems.append((key, value[:20]))
                memory.catalog()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(600):
        memory.put(f"{'abcdefgh'[turn % 8]}{turn % 30}", text("abcdefgh"[turn % 8], 2_000))
        if turn % 5 == 0:
            memory.drop(f"{'abcdefgh'[turn % 8]}{turn % 30}")
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []
    memory.spill()
    assert memory.resident_bytes <= 20_000
    assert memory.resident_bytes + memory.spilled_bytes == memory.nbytes


def test_two_threads_that_read_one_spilled_value_get_the_same_object(memory):
    memory.put("a", text("a", 10_000))
    barrier = threading.Barrier(4)
    got = []

    def read():
        barrier.wait()
        got.append(memory["a"])

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len({id(value) for value in got}) == 1
    assert memory.resident_bytes == 10_000


def test_a_row_of_held_values_costs_a_put_a_bounded_look_and_hides_nothing_for_ever(tmp_path):
    memory = WorkingMemory(1_000, tmp_path)
    held = [text("h", 100) for _ in range(2 * LOOKED_AT)]
    for number, value in enumerate(held):
        memory.put(f"h{number}", value)
    memory.put("free", text("f", 100))
    for _ in range(4):
        memory.spill()
    assert memory.peek("free").spilled


# Against a model

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
SIZES = st.sampled_from([1, 100, 400, 1_500, 3_000])


class BudgetMachine(RuleBasedStateMachine):
    """Puts, reads, holds and pins against plain dicts: all reads are equal, and the budget is kept."""

    budget = 2_000

    @initialize(keep=st.integers(1, 3))
    def start(self, keep):
        self.memory = WorkingMemory(self.budget, keep_versions=keep)
        self.keep = keep
        self.model = {}
        self.held = []
        self.pinned = []
        self.turn = 0

    @rule(key=KEYS, size=SIZES, frame=st.booleans())
    def put(self, key, size, frame):
        self.turn += 1
        number = self.turn
        entry = self.memory.put(key, self.made(number, size, frame=frame))
        versions = self.model.setdefault(key, [])
        versions.append((entry.artifact_id, entry.version, number, size, frame, entry.nbytes))
        del versions[: -self.keep]

    @staticmethod
    def made(number, size, *, frame):
        if frame:
            return pd.DataFrame({"x": np.full(size // 10 + 1, number)})
        return f"{number}:".ljust(size, "x")

    @rule(data=st.data(), hold=st.booleans())
    def read(self, data, hold):
        if self.model:
            key = data.draw(st.sampled_from(sorted(self.model)))
            artifact_id, version, number, size, frame, _ = data.draw(
                st.sampled_from(self.model[key])
            )
            value = self.memory.version(artifact_id, version)
            self.equal(value, number, size, frame=frame)
            if hold:
                self.held.append((value, number, size, frame))

    def equal(self, value, number, size, *, frame):
        wanted = self.made(number, size, frame=frame)
        if frame:
            pd.testing.assert_frame_equal(value, wanted)
        else:
            assert value == wanted

    @rule()
    def let_go(self):
        self.held.clear()
        while self.pinned:
            self.pinned.pop().unpin()
        self.memory.spill()

    @rule(key=KEYS)
    def pin(self, key):
        entry = self.memory.peek(key)
        if entry is not None:
            entry.pin()
            self.pinned.append(entry)

    @rule(key=KEYS)
    def drop(self, key):
        if self.model.pop(key, None) is not None:
            self.memory.drop(key)

    @invariant()
    def the_budget_is_kept_but_for_what_is_in_use(self):
        held = sum(1_000_000 for _ in self.held) + sum(e.nbytes for e in self.pinned)
        largest = 8 * (3_000 // 10 + 1) + 200  # read last: it goes with the next look
        tiny = 200 * 8
        assert self.memory.resident_bytes <= self.budget + held + largest + tiny
        if not self.held and not self.pinned:
            self.memory.spill()
            assert self.memory.resident_bytes <= self.budget

    @invariant()
    def bytes_add_up(self):
        kept = sum(one[-1] for versions in self.model.values() for one in versions)
        assert self.memory.nbytes == kept
        away = self.memory.spilled_bytes
        assert away >= 0
        if not self.pinned:
            assert self.memory.resident_bytes + away == kept

    def teardown(self):
        for versions in getattr(self, "model", {}).values():
            for artifact_id, version, number, size, frame, _ in versions:
                self.equal(self.memory.version(artifact_id, version), number, size, frame=frame)


TestBudgetAgainstModel = BudgetMachine.TestCase
TestBudgetAgainstModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
