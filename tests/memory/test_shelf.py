"""Values that are put back under the artifact id and version that they had."""

import pandas as pd
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from planbench.errors import ArtifactConflict, ArtifactNotFound, ArtifactRefused, ConfigurationError
from planbench.memory import WorkingMemory

OTHER = "wm00ff00ff00-7"


def test_a_restored_value_has_the_artifact_id_and_version_of_another_process():
    memory = WorkingMemory()

    entry = memory.restore(
        "a",
        {"x": 1},
        artifact_id=OTHER,
        version=4,
        node="n",
        tool="t",
        nbytes=123,
        created=1_700_000_000.0,
        digest="d",
        fingerprint="f",
        description="from yesterday",
    )

    assert (entry.artifact_id, entry.version) == (OTHER, 4)
    assert memory["a"] == memory["n"] == memory.version(OTHER, 4) == {"x": 1}
    info = memory.info("a")
    assert (info.nbytes, info.tool, info.description) == (123, "t", "from yesterday")
    assert info.created.timestamp() == 1_700_000_000.0
    assert (entry.digest, entry.fingerprint) == ("d", "f")
    assert memory.nbytes == 123


def test_what_is_not_said_of_a_restored_value_is_measured():
    memory = WorkingMemory()
    entry = memory.restore("a", "xyz", artifact_id=OTHER, version=1)
    assert entry.nbytes == memory.nbytes == 3
    assert entry.created > 1_700_000_000


def test_the_next_put_of_a_restored_key_is_the_next_version_of_the_same_artifact():
    memory = WorkingMemory()
    memory.restore("a", "old", artifact_id=OTHER, version=4)

    entry = memory.put("a", "new")

    assert (entry.artifact_id, entry.version) == (OTHER, 5)
    assert memory.version(OTHER, 4) == "old"
    assert memory.version(OTHER, 5) == "new"
    with pytest.raises(ArtifactNotFound):
        memory.version(OTHER, 3)


def test_artifacts_of_two_processes_with_equal_numbers_stay_apart():
    memory = WorkingMemory()
    own = memory.put("own", "mine")
    number = own.artifact_id.rpartition("-")[2]
    memory.restore("other", "theirs", artifact_id=f"wmother-{number}", version=1)
    assert memory.version(own.artifact_id, 1) == "mine"
    assert memory.version(f"wmother-{number}", 1) == "theirs"


def test_restoring_what_is_there_already_gives_that_entry():
    memory = WorkingMemory()
    entry = memory.put("a", "value")

    again = memory.restore("a", "value", artifact_id=entry.artifact_id, version=1)

    assert again is entry
    assert memory.nbytes == 5


@pytest.mark.parametrize(
    ("artifact_id", "version"), [(OTHER, 1), (None, 2), (None, 9)], ids=["other", "former", "later"]
)
def test_a_key_that_holds_something_else_is_a_conflict_and_stays_as_it_is(artifact_id, version):
    memory = WorkingMemory()
    for text in ("1", "2", "3"):
        entry = memory.put("a", text)

    with pytest.raises(ArtifactConflict, match=f"'a' holds {entry.artifact_id}@3") as caught:
        memory.restore("a", "x", artifact_id=artifact_id or entry.artifact_id, version=version)

    assert caught.value.code == "artifact_alias_conflict"
    assert "drop" in caught.value.hint
    assert memory["a"] == "3"
    assert memory.nbytes == 3


def test_an_artifact_that_stands_under_another_key_is_a_conflict():
    memory = WorkingMemory()
    memory.restore("a", "x", artifact_id=OTHER, version=1)
    with pytest.raises(ArtifactConflict, match="'a'"):
        memory.restore("b", "x", artifact_id=OTHER, version=1)
    own = memory.put("c", "y")
    with pytest.raises(ArtifactConflict, match="'c'"):
        memory.restore("d", "y", artifact_id=own.artifact_id, version=1)
    assert memory.keys() == ["a", "c"]


def test_a_value_of_this_memory_comes_back_after_it_was_dropped():
    memory = WorkingMemory()
    entry = memory.put("a", "value")
    memory.put("b", "other")
    memory.drop("a")

    memory.restore("a", "value", artifact_id=entry.artifact_id, version=1)

    assert memory.version(entry.artifact_id, 1) == "value"
    third = memory.put("c", "third")
    assert len({entry.artifact_id, memory.info("b").artifact_id, third.artifact_id}) == 3


def test_a_number_that_this_memory_has_not_given_yet_is_not_given_again():
    memory = WorkingMemory()
    artifact_id = f"{memory.memory_id}-3"
    memory.restore("a", 1, artifact_id=artifact_id, version=1)
    given = {memory.put(key, 1).artifact_id for key in "bcde"}
    assert artifact_id not in given


def test_a_restored_key_can_be_dropped_pruned_and_cleared():
    memory = WorkingMemory()
    memory.restore("a", "12", artifact_id=OTHER, version=2)
    memory.put("a", "345")
    memory.prune()
    assert memory.nbytes == 3
    with pytest.raises(ArtifactNotFound):
        memory.version(OTHER, 2)
    assert memory.version(OTHER, 3) == "345"
    memory.drop("a")
    assert memory.nbytes == 0
    with pytest.raises(ArtifactNotFound):
        memory.version(OTHER, 3)
    assert memory.put("a", "x").artifact_id != OTHER
    memory.clear()
    memory.restore("a", "12", artifact_id=OTHER, version=2)
    assert memory.version(OTHER, 2) == "12"


def test_restored_items_are_what_their_node_means_in_item_order():
    memory = WorkingMemory()
    items = memory.start_items("fetch")
    for index in (2, 0, 1):
        memory.restore(
            f"fetch.{index}",
            {"i": index},
            artifact_id=f"wmother-{index + 1}",
            version=1,
            node="fetch",
            index=index,
            items=items,
        )
    assert [item["i"] for item in memory["fetch"]] == [0, 1, 2]
    assert memory.concat("fetch.*")["i"].tolist() == [0, 1, 2]


def test_a_restored_frame_is_not_the_givers_and_what_can_be_read_once_is_refused():
    memory = WorkingMemory()
    frame = pd.DataFrame({"x": [1, 2]})
    memory.restore("a", frame, artifact_id=OTHER, version=1)
    frame.loc[0, "x"] = 99
    assert memory["a"]["x"].tolist() == [1, 2]
    with pytest.raises(ArtifactRefused):
        memory.restore("b", iter([1]), artifact_id="wmother-8", version=1)


@pytest.mark.parametrize(
    ("artifact_id", "version"),
    [
        ("", 1),
        ("wm", 1),
        ("-1", 1),
        ("wm-x", 1),
        ("wm-01", 1),
        ("wm-" + "9" * 5_000, 1),
        ("wm-٣", 1),
        (OTHER, 0),
        (OTHER, True),
        (OTHER, "1"),
    ],
)
def test_what_names_no_version_of_an_artifact_is_refused(artifact_id, version):
    memory = WorkingMemory()
    with pytest.raises(ConfigurationError, match="names no version"):
        memory.restore("a", 1, artifact_id=artifact_id, version=version)
    assert "a" not in memory


KEYS = st.sampled_from(["a", "b", "c"])


class RestoreMachine(RuleBasedStateMachine):
    """Puts, drops and restores against the versions that must be there."""

    @initialize(keep=st.integers(1, 3))
    def start(self, keep):
        self.keep = keep
        self.memory = WorkingMemory(keep_versions=keep)
        self.model = {}
        self.seen = []

    @rule(key=KEYS, text=st.text(max_size=5))
    def put(self, key, text):
        entry = self.memory.put(key, text)
        held = self.model.get(key)
        if held is None:
            held = self.model[key] = (entry.artifact_id, [])
            assert all(entry.artifact_id != other for other, _, _, _ in self.seen)
        assert entry.artifact_id == held[0]
        if held[1]:
            assert entry.version == held[1][-1][0] + 1
        held[1].append((entry.version, text))
        del held[1][: -self.keep]
        self.seen.append((entry.artifact_id, entry.version, key, text))

    @rule(key=KEYS)
    def drop(self, key):
        if self.model.pop(key, None) is not None:
            self.memory.drop(key)

    @rule(data=st.data())
    def restore(self, data):
        foreign = ("wmother-1", 3, "a", "far")
        artifact_id, version, key, text = data.draw(st.sampled_from([*self.seen, foreign]))
        held = self.model.get(key)
        if held is None:
            entry = self.memory.restore(key, text, artifact_id=artifact_id, version=version)
            self.model[key] = (artifact_id, [(version, text)])
            self.seen.append((artifact_id, version, key, text))
        elif (held[0], held[1][-1][0]) == (artifact_id, version):
            entry = self.memory.restore(key, text, artifact_id=artifact_id, version=version)
            assert entry is self.memory.peek(key)
        else:
            with pytest.raises(ArtifactConflict):
                self.memory.restore(key, text, artifact_id=artifact_id, version=version)

    @invariant()
    def every_kept_version_is_found(self):
        for key, (artifact_id, versions) in self.model.items():
            assert self.memory[key] == versions[-1][1]
            for version, text in versions:
                assert self.memory.version(artifact_id, version) == text

    @invariant()
    def bytes_are_the_sum(self):
        held = sum(len(t.encode()) for _, kept in self.model.values() for _, t in kept)
        assert self.memory.nbytes == held


TestRestoreAgainstModel = RestoreMachine.TestCase
TestRestoreAgainstModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
