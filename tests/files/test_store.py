from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from planbench.errors import ConfigurationError, PlanInvalid, PlanLoadError
from planbench.files import PlanFileStore, load_plan

SWEEP = """\
# the sweep of every morning
name: sweep
objective: Find what is new   # since yesterday
nodes:
  - {id: a, tool: t, args: {n: 1}}
"""


def numbered(n):
    return SWEEP.replace("n: 1", f"n: {n}")


@pytest.fixture
def store(tmp_path):
    return PlanFileStore(tmp_path / "plans")


def kept(store, name="sweep"):
    folder = store.plans_dir / ".versions" / name
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_the_first_version_is_1_and_is_loaded_by_its_number_while_it_is_the_current_one(store):
    assert store.save(SWEEP, "sweep") == 1
    assert store.load("sweep") == store.load("sweep@1") == load_plan(SWEEP)
    assert [entry.name for entry in store.list()] == ["sweep"]


def test_a_text_keeps_its_layout_and_comments_to_the_byte(store):
    text = "\ufeff" + SWEEP.replace("\n", "\r\n").rstrip()
    store.save(text, "sweep")
    assert (store.plans_dir / "sweep.yaml").read_bytes() == text.encode()
    assert store.read("sweep@1").removeprefix("\ufeff") == text.removeprefix("\ufeff")


def test_every_version_is_kept_and_loads_by_its_number(store):
    assert [store.save(numbered(n), "sweep") for n in (1, 2, 3)] == [1, 2, 3]
    assert [store.load(f"sweep@{n}").nodes[0].args["n"] for n in (1, 2, 3)] == [1, 2, 3]
    assert store.load("sweep") == store.load("sweep@3")
    assert kept(store)["1.yaml"] == numbered(1)
    assert kept(store)["2.yaml"] == numbered(2)


def test_an_equal_text_makes_no_new_version(store):
    assert [store.save(text, "sweep") for text in (SWEEP, SWEEP, numbered(2), numbered(2))] == [
        1,
        1,
        2,
        2,
    ]
    assert len(store.history("sweep")) == 2


def test_going_back_to_an_earlier_text_is_a_version_of_its_own(store):
    assert [store.save(numbered(n), "sweep") for n in (1, 2, 1)] == [1, 2, 3]


def test_a_plan_that_equals_the_file_makes_no_version_and_leaves_the_layout(store):
    store.save(SWEEP, "sweep")
    assert store.save(load_plan(SWEEP), "sweep") == 1
    assert store.read("sweep") == SWEEP
    assert store.save(load_plan(numbered(2)), "sweep") == 2
    assert store.load("sweep") == load_plan(numbered(2))


def test_neither_time_nor_hash_stands_in_the_file(store):
    plan = load_plan(SWEEP)
    store.save(plan, "sweep")
    assert store.read("sweep") == plan.to_yaml()


def test_a_file_that_was_edited_by_hand_is_kept_before_it_is_replaced(store):
    store.save(numbered(1), "sweep")
    (store.plans_dir / "sweep.yaml").write_text(numbered(7))
    assert [v.version for v in store.history("sweep")] == [1, 2]
    assert store.load("sweep@2").nodes[0].args["n"] == 7
    assert store.save(numbered(8), "sweep") == 3
    assert store.load("sweep@2").nodes[0].args["n"] == 7
    assert store.load("sweep@1").nodes[0].args["n"] == 1


def test_a_file_that_was_never_saved_here_is_its_own_first_version(store):
    store.plans_dir.mkdir()
    (store.plans_dir / "sweep.yaml").write_text(SWEEP)
    assert store.load("sweep@1") == load_plan(SWEEP)
    assert not (store.plans_dir / ".versions").exists()
    assert store.save(SWEEP, "sweep") == 1
    assert store.save(numbered(2), "sweep") == 2


def test_a_broken_file_is_kept_as_a_version_too(store):
    store.plans_dir.mkdir()
    (store.plans_dir / "sweep.yaml").write_text("name: [")
    assert store.save(load_plan(SWEEP), "sweep") == 2
    assert kept(store)["1.yaml"] == "name: ["
    assert [version.objective for version in store.history("sweep")] == [None, "Find what is new"]


def test_a_text_that_is_no_plan_is_refused_and_nothing_is_written(store):
    with pytest.raises(PlanInvalid):
        store.save("name: x\nnodes: []\n", "sweep")
    assert not store.plans_dir.exists()


def test_parameters_are_put_into_an_old_version_too(store):
    text = numbered('"{params.n}"')
    store.save(text, "sweep")
    store.save(SWEEP, "sweep")
    assert store.load("sweep@1", {"n": 4}).nodes[0].args == {"n": 4}
    with pytest.raises(PlanInvalid) as caught:
        store.load("sweep@1", {})
    assert caught.value.path == store.plans_dir / ".versions" / "sweep" / "1.yaml"


@pytest.mark.parametrize("suffix", [".yml", ".json", ".plan.yaml"])
def test_a_plan_keeps_the_ending_of_its_file(store, suffix):
    store.plans_dir.mkdir()
    file = store.plans_dir / f"sweep{suffix}"
    file.write_text(load_plan(SWEEP).to_json())
    assert store.save(load_plan(numbered(2)), "sweep") == 2
    assert [path.name for path in store.plans_dir.iterdir() if path.is_file()] == [file.name]
    assert store.load("sweep") == load_plan(numbered(2))
    assert store.load("sweep@1") == load_plan(SWEEP)


def test_a_json_file_never_gets_yaml(store):
    store.plans_dir.mkdir()
    file = store.plans_dir / "sweep.json"
    file.write_text(load_plan(SWEEP).to_json())
    with pytest.raises(PlanLoadError, match="is no JSON"):
        store.save(numbered(2), "sweep")
    assert store.save(load_plan(numbered(2)).to_json(), "sweep") == 2
    assert file.read_text().startswith("{")


@pytest.mark.parametrize(
    "name",
    ["sweep@2", "a/b", "..", ".hidden", "", "a\\b", "c:d", "sweep.yaml", "sweep.plan", "sweep.lock", " a", "a.", "a?", "a" * 201, "a\nb", 3],
)  # fmt: skip
def test_names_that_would_not_be_found_again_are_refused(store, name):
    with pytest.raises(PlanLoadError):
        store.save(SWEEP, name)
    assert not store.plans_dir.exists()


@pytest.mark.parametrize("name", ["sweep@", "sweep@0", "sweep@3", "other@1", "../x@1", "@1"])
def test_versions_that_are_not_there_are_refused_and_those_that_are_named(store, name):
    store.save(numbered(1), "sweep")
    store.save(numbered(2), "sweep")
    with pytest.raises(PlanLoadError) as caught:
        store.load(name)
    if name == "sweep@3":
        assert "versions: 1, 2" in str(caught.value)


def test_the_path_of_a_version_is_that_of_its_file(store):
    store.save(numbered(1), "sweep")
    store.save(numbered(2), "sweep")
    assert store.path("sweep@1").read_text() == numbered(1)
    assert store.path("sweep@2").read_text() == numbered(2)
    assert store.path("sweep").name == "sweep.yaml"
    with pytest.raises(PlanLoadError, match="stands in git"):
        store.path("sweep@main")


def test_a_file_with_a_name_that_holds_an_at_sign_is_still_found(store):
    store.plans_dir.mkdir()
    (store.plans_dir / "a@b.yaml").write_text(SWEEP)
    assert store.load("a@b") == load_plan(SWEEP)
    assert store.list() == ["a@b"]


def test_a_version_and_a_file_of_the_same_name_are_never_mixed_up(store):
    store.save(numbered(1), "sweep")
    store.save(numbered(2), "sweep")
    (store.plans_dir / "sweep@1.yaml").write_text(numbered(9))
    with pytest.raises(PlanLoadError, match="not plain"):
        store.load("sweep@1")


def test_history_tells_when_what_and_by_which_model(store):
    first = f"{SWEEP}provenance: {{objective: What is new?, model: some-model}}\n"
    store.save(first, "sweep")
    store.save(SWEEP, "sweep")
    one, two = store.history("sweep")
    assert (one.version, one.objective, one.model) == (1, "What is new?", "some-model")
    assert (two.version, two.objective, two.model) == (2, "Find what is new", None)
    assert one.saved_at.tzinfo is not None
    assert one.saved_at <= two.saved_at
    assert len(one.sha256) == 64
    assert one.sha256 != two.sha256


def test_the_versions_of_a_plan_outlive_its_file(store):
    store.save(numbered(1), "sweep")
    (store.plans_dir / "sweep.yaml").unlink()
    assert [version.version for version in store.history("sweep")] == [1]
    assert store.load("sweep@1") == load_plan(numbered(1))
    assert store.save(numbered(2), "sweep") == 2
    with pytest.raises(PlanLoadError, match="there is no plan 'other'"):
        store.history("other")


def test_a_version_is_never_overwritten(store):
    store.save(numbered(1), "sweep")
    folder = store.plans_dir / ".versions" / "sweep"
    (folder / "2.yaml").write_text("of somebody else")
    assert store.save(numbered(3), "sweep") == 3
    assert (folder / "2.yaml").read_text() == "of somebody else"
    assert store.read("sweep") == numbered(3)


def test_what_does_not_belong_into_the_folder_of_versions_is_left_alone(store):
    store.save(numbered(1), "sweep")
    folder = store.plans_dir / ".versions" / "sweep"
    for name in ("01.yaml", "x.yaml", "-1.yaml", "3.yml", "0.yaml"):
        (folder / name).write_text("x")
    assert [version.version for version in store.history("sweep")] == [1]


def test_a_failed_write_leaves_the_plan_as_it_was_and_nothing_behind(store, monkeypatch):
    store.save(numbered(1), "sweep")

    def full(self, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(PlanLoadError, match="cannot be written: No space left"):
            store.save(numbered(2), "sweep")
    assert store.read("sweep") == numbered(1)
    assert [path.name for path in store.plans_dir.glob(".*.tmp")] == []
    assert store.save(numbered(2), "sweep") == 3
    assert store.load("sweep") == load_plan(numbered(2))


@pytest.mark.skipif(sys.platform == "win32", reason="rights are told otherwise there")
def test_the_rights_of_the_file_stay_and_new_files_get_the_usual_ones(store):
    store.save(numbered(1), "sweep")
    file = store.plans_dir / "sweep.yaml"
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask
    file.chmod(0o640)
    store.save(numbered(2), "sweep")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_a_link_stays_one(store):
    store.plans_dir.mkdir()
    (store.plans_dir / "real").mkdir()
    real = store.plans_dir / "real" / "sweep.txt"
    real.write_text(numbered(1))
    (store.plans_dir / "sweep.yaml").symlink_to(real)
    store.save(numbered(2), "sweep")
    assert (store.plans_dir / "sweep.yaml").is_symlink()
    assert real.read_text() == numbered(2)


def test_links_that_lead_out_of_the_folder_are_neither_read_nor_written(store, tmp_path):
    outside = tmp_path / "outside"
    (outside / "sweep").mkdir(parents=True)
    (outside / "secret.yaml").write_text(SWEEP)
    (outside / "sweep" / "1.yaml").write_text(SWEEP)
    store.plans_dir.mkdir()
    (store.plans_dir / "linked.yaml").symlink_to(outside / "secret.yaml")
    (store.plans_dir / ".versions").symlink_to(outside)
    for act in (
        lambda: store.load("linked"),
        lambda: store.save(numbered(2), "linked"),
        lambda: store.load("sweep@1"),
        lambda: store.save(SWEEP, "sweep"),
    ):
        with pytest.raises(PlanLoadError, match="out of the plans folder"):
            act()
    assert (outside / "secret.yaml").read_text() == SWEEP
    assert sorted(path.name for path in outside.iterdir()) == ["secret.yaml", "sweep"]


def test_a_single_version_that_is_a_link_out_of_the_folder_is_not_read(store, tmp_path):
    store.save(numbered(1), "sweep")
    (tmp_path / "secret").write_text(SWEEP)
    (store.plans_dir / ".versions" / "sweep" / "2.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(PlanLoadError, match="out of the plans folder"):
        store.load("sweep@2")


SAVER = """
import sys
from planbench.files import PlanFileStore
text = open(sys.argv[2]).read()
store = PlanFileStore(sys.argv[1])
sys.stdin.readline()
for n in range(10):
    print(store.save(text.replace("n: 1", f"n: {sys.argv[3]}{n:03}"), "sweep"))
"""


def test_processes_that_save_at_once_get_a_version_each_and_the_last_one_is_current(
    store, tmp_path
):
    (tmp_path / "text").write_text(SWEEP)
    savers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, store.plans_dir, tmp_path / "text", str(i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in (1, 2, 3)
    ]
    for saver in savers:
        saver.stdin.write("go\n")
        saver.stdin.flush()
    said = [saver.communicate(timeout=100)[0].split() for saver in savers]
    numbers = sorted(int(number) for one in said for number in one)
    assert numbers == list(range(1, 31))
    for i, one in zip((1, 2, 3), said, strict=True):
        for n, number in enumerate(one):
            assert store.load(f"sweep@{number}").nodes[0].args == {"n": int(f"{i}{n:03}")}
    assert store.read("sweep") == store.read("sweep@30")


ENDLESS = """
import itertools, sys
from planbench.files import PlanFileStore
text = open(sys.argv[2]).read()
store = PlanFileStore(sys.argv[1])
for n in itertools.count(1):
    print(store.save(text.replace("n: 1", f"n: {n}"), "sweep"), flush=True)
"""


@pytest.mark.parametrize("saves", [1, 4])
def test_a_process_that_is_killed_while_it_saves_leaves_whole_files(store, tmp_path, saves):
    (tmp_path / "text").write_text(SWEEP)
    saver = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, store.plans_dir, tmp_path / "text"], stdout=subprocess.PIPE
    )
    with saver:
        said = [int(saver.stdout.readline()) for _ in range(saves)]
        saver.kill()
    for version in store.history("sweep"):
        assert store.load(f"sweep@{version.version}").nodes[0].args == {"n": version.version}
    assert store.load("sweep").nodes[0].args["n"] >= said[-1]
    number = len(store.history("sweep")) + 1
    assert store.save(numbered(0), "sweep") == number


def test_threads_that_save_at_once_get_a_version_each(store):
    found = []
    start = threading.Barrier(6)

    def save(n):
        start.wait()
        found.append(store.save(numbered(n), "sweep"))

    threads = [threading.Thread(target=save, args=(n,)) for n in range(100, 106)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert store.read("sweep") == store.read("sweep@6")


def test_without_hard_links_versions_are_still_made_once(store, monkeypatch):
    def none(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    assert [store.save(numbered(n), "sweep") for n in (1, 2)] == [1, 2]
    assert kept(store) == {"1.yaml": numbered(1), "2.yaml": numbered(2)}


def test_what_no_text_can_hold_is_not_saved(store):
    plan = load_plan(SWEEP)
    node = plan.nodes[0].model_copy(update={"args": {"x": {1, 2}}})
    with pytest.raises(PlanLoadError, match=r"another one(?s:.*)args\.x"):
        store.save(plan.model_copy(update={"nodes": [node]}), "sweep")


def test_a_lock_is_no_plan_of_the_folder(store):
    store.save(SWEEP, "sweep")
    (store.plans_dir / "sweep.lock.json").write_text("{}")
    assert store.list() == ["sweep"]


def test_a_store_needs_the_path_of_a_folder():
    with pytest.raises(ConfigurationError, match="plans_dir is the path of a folder"):
        PlanFileStore(None)


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(PlanLoadError, match=r"there is no folder '.*nowhere'"):
        PlanFileStore(tmp_path / "nowhere").load("sweep")


def test_a_name_that_is_too_long_is_refused_for_that(store):
    with pytest.raises(PlanLoadError, match="at most 200 characters, and this one has 201"):
        store.load("x" * 201)


def test_a_link_out_of_the_folder_is_not_offered(store, tmp_path):
    store.save(SWEEP, "ok")
    (tmp_path / "outside.yaml").write_text(SWEEP)
    (store.plans_dir / "link.yaml").symlink_to(tmp_path / "outside.yaml")

    with pytest.raises(PlanLoadError) as caught:
        store.load("~")
    assert caught.value.hint == "the folder 'plans' has ok"


def test_a_plan_is_also_read_from_a_record_a_plan_and_what_builds_one():
    plan = load_plan(SWEEP)

    class Builder:
        def build(self):
            return plan

    assert load_plan(plan) is plan
    assert load_plan(plan.to_dict()) == load_plan(Builder()) == plan


def test_a_name_stands_for_a_file_and_a_version_for_its_own(store):
    store.save(SWEEP, "sweep")
    store.save(numbered(2), "sweep")
    assert store.source("sweep") == store.path("sweep")
    assert store.source("sweep@1") == store.path("sweep@1")
    with pytest.raises(PlanLoadError, match="no version 9"):
        store.source("sweep@9")


def test_a_file_of_the_folder_is_known_by_its_name_and_no_other_file_is(store, tmp_path):
    store.save(SWEEP, "sweep")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (store.plans_dir / "two.yaml").write_text(SWEEP)
    (store.plans_dir / "two.json").write_text("{}")
    (store.plans_dir / "odd@2.yaml").write_text(SWEEP)
    (store.plans_dir / "out.yaml").symlink_to(tmp_path / "sweep.yaml")
    assert store.name_of(store.path("sweep")) == "sweep"
    assert store.name_of(store.plans_dir / ".." / "plans" / "sweep.yaml") == "sweep"
    others = ["two.yaml", "odd@2.yaml", "out.yaml", "gone.yaml", "notes.txt", ".versions"]
    for path in [*(store.plans_dir / name for name in others), tmp_path / "sweep.yaml"]:
        assert store.name_of(path) is None
    assert store.name_of(store.path("sweep@1")) is None


def test_the_latest_version_counts_a_file_that_is_not_kept_yet(store):
    assert store.latest("sweep") == 0
    store.save(SWEEP, "sweep")
    assert store.latest("sweep") == 1
    store.path("sweep").write_text(numbered(2))
    assert store.latest("sweep") == 2
    store.path("sweep").unlink()
    assert store.latest("sweep") == 1
