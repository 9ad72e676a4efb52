from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from planbench.errors import (
    ArtifactDamaged,
    ArtifactMissing,
    ArtifactRefused,
    ArtifactTooLarge,
    StoreError,
)
from planbench.memory import artifact_files
from planbench.memory.artifact_files import LocalFiles, open_files
from planbench.memory.artifacts import ArtifactRecord, ArtifactStore
from planbench.memory.sameness import same

VALUES = {
    "text": "some text",
    "json": {"a": [1, (2,)], 3: None},
    "frame": pd.DataFrame({"x": np.arange(500), "y": pd.Series([{1}, None] * 250)}),
    "parts": {"df": pd.DataFrame({"x": np.arange(500)}), "n": 3},
    "nothing": None,
    "empty": b"",
}


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    """Every rule holds in a folder and on a file system of fsspec."""
    if request.param == "local":
        return ArtifactStore(LocalFiles(tmp_path / "artifacts"))
    return ArtifactStore(open_files(f"memory://{tmp_path.name}/artifacts"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def local(folder):
    return ArtifactStore(LocalFiles(folder))


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_that_was_written_is_there_and_comes_back_equal(store, value):
    record = store.write(value)

    assert store.has(record)
    assert same(store.read(record), value)


def test_a_record_says_what_the_bytes_are(local, folder):
    record = local.write("grün")

    assert record == (hashlib.sha256("grün".encode()).hexdigest(), "text", 5)
    assert [path.name for path in files(folder)] == [f"{record.sha256}.txt"]
    assert files(folder)[0].parent.name == record.sha256[:2]
    assert ArtifactRecord.from_dict(record.to_dict()) == record


def test_equal_bytes_are_stored_once(store):
    first = store.write({"a": 1})
    before = store.nbytes()

    assert store.write({"a": 1}) == first
    assert store.nbytes() == before == first.size


def test_what_is_read_is_new_each_time(store):
    record = store.write({"a": [1]})
    store.read(record)["a"].append(2)

    assert store.read(record) == {"a": [1]}


def test_what_would_come_back_different_leaves_nothing_behind(local, folder):
    with pytest.raises(ArtifactRefused, match="value\\['f'\\]"):
        local.write({"f": print})

    assert files(folder) == []


def test_an_artifact_that_is_gone_is_missing(store):
    record = store.write([1])
    store.prune()

    assert not store.has(record)
    with pytest.raises(ArtifactMissing, match=record.sha256[:12]):
        store.read(record)


@pytest.mark.parametrize(
    "change",
    [lambda raw: raw[:-1], lambda raw: raw + b"\n", lambda raw: raw[:-2] + b"9]", lambda raw: b""],
)
def test_changed_bytes_are_damage_and_never_a_value(local, folder, change):
    record = local.write([1, 2])
    (path,) = files(folder)
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(ArtifactDamaged, match=record.sha256[:12]):
        local.read(record)


def test_a_file_that_was_cut_off_is_stored_again(local, folder):
    record = local.write([1, 2])
    (path,) = files(folder)
    path.write_bytes(b"[1")
    assert not local.has(record)

    local.write([1, 2])

    assert local.read(record) == [1, 2]


def test_what_is_damaged_is_stored_again(store):
    record = store.write([1, 2])
    place = store._files
    name = f"{record.sha256}.json"
    place.delete(name)
    place.put(name, b"[1,3]")
    with pytest.raises(ArtifactDamaged):
        store.read(record)

    assert store.write([1, 2]) == record

    assert store.read(record) == [1, 2]


def test_an_artifact_above_the_limit_is_not_even_opened(local, folder):
    record = local.write(b"x" * 1_000)
    files(folder)[0].unlink()

    with pytest.raises(ArtifactTooLarge, match="above the limit"):
        local.read(record, max_bytes=999)
    with pytest.raises(ArtifactMissing):
        local.read(record, max_bytes=1_000)


def test_a_file_larger_than_its_record_is_not_read(local, folder, monkeypatch):
    record = local.write([1])
    files(folder)[0].write_bytes(b"x" * 10_000)
    monkeypatch.setattr(LocalFiles, "read", lambda *_: pytest.fail("read"))

    with pytest.raises(ArtifactDamaged):
        local.read(record, max_bytes=100)


def test_a_table_is_bounded_by_what_it_becomes(store):
    record = store.write(pd.DataFrame({"x": np.zeros(200_000)}))

    assert record.size < 100_000
    with pytest.raises(ArtifactTooLarge):
        store.read(record, max_bytes=100_000)


@pytest.mark.parametrize(
    "record",
    [
        ("../../../../etc/passwd", "text", 5),
        ("0" * 63, "text", 5),
        ("A" * 64, "text", 5),
        ("0" * 64 + "\n", "text", 5),
        ("0" * 64, "../text", 5),
        ("0" * 64, "os", 5),
        ("0" * 64, ["text"], 5),
        ("0" * 64, "text", -1),
        ("0" * 64, "text", "5"),
        ("0" * 64, "text", True),
        (None, "text", 5),
    ],
)
def test_a_record_that_nobody_wrote_reaches_no_file(local, monkeypatch, record):
    monkeypatch.setattr(LocalFiles, "size", lambda *_: pytest.fail("looked"))
    monkeypatch.setattr(LocalFiles, "read", lambda *_: pytest.fail("read"))

    with pytest.raises(ArtifactDamaged):
        local.read(ArtifactRecord(*record))
    with pytest.raises(ArtifactDamaged):
        local.has(ArtifactRecord(*record))


@pytest.mark.parametrize(
    "data", [{}, {"sha256": "0" * 64}, None, [], {"sha256": 1, "codec": 1, "size": 1}]
)
def test_a_record_in_an_event_that_is_not_complete_is_damage(data):
    with pytest.raises(ArtifactDamaged):
        ArtifactRecord.from_dict(data)


def test_the_wrong_codec_in_a_record_finds_nothing(local):
    record = local.write({"a": 1})

    with pytest.raises(ArtifactMissing):
        local.read(record._replace(codec="text"))


def test_a_pickle_needs_leave_on_both_sides(tmp_path):
    place = LocalFiles(tmp_path)
    with pytest.raises(ArtifactRefused):
        ArtifactStore(place).write(ArtifactRefused)
    record = ArtifactStore(place, allow_pickle=True).write(ArtifactRefused)

    with pytest.raises(ArtifactDamaged, match="pickle is not allowed"):
        ArtifactStore(place).read(record)
    assert ArtifactStore(place, allow_pickle=True).read(record) is ArtifactRefused


def test_nothing_is_half_there_when_the_machine_stops_before_the_move(local, folder, monkeypatch):
    def stop(*_):
        raise OSError("the machine stopped")

    monkeypatch.setattr(Path, "replace", stop)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(StoreError, match="the machine stopped"):
        local.write([1, 2])
    monkeypatch.undo()

    (left,) = files(folder)
    record = ArtifactRecord(hashlib.sha256(b"[1,2]").hexdigest(), "json", 5)
    assert left.name.endswith(".tmp")
    assert not local.has(record)
    assert local.nbytes() == 0
    assert local.write([1, 2]) == record
    assert local.read(record) == [1, 2]


def test_what_a_writer_left_half_done_is_swept_after_a_day(local, folder):
    local.write([1])
    old, fresh = (files(folder)[0].parent / f".{name}.tmp" for name in ("old", "fresh"))
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - 90_000))

    local.prune(before=0)

    assert not old.exists()
    assert fresh.exists()
    assert local.nbytes() == 3


def test_a_write_that_fails_leaves_nothing_beside(local, folder, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    local.write([0])
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(StoreError, match="No space left"):
        local.write([1, 2])
    assert len(files(folder)) == 1


def test_a_file_and_its_name_reach_the_disk_before_the_record_is_given(local, monkeypatch):
    synced = []
    real = os.fsync

    def fsync(descriptor):
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real(descriptor)

    local.write([0])
    monkeypatch.setattr(os, "fsync", fsync)
    local.write([1])

    assert "file" in synced
    assert synced[-1] == "folder"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
def test_folders_and_files_are_readable_for_nobody_else(local, folder):
    local.write([1])

    made = [folder, *folder.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}


def test_threads_that_write_and_read_at_once_do_not_meet(store):
    def work(number):
        record = store.write({"n": number % 5, "x": "y" * 10_000})
        return store.read(record)["n"] == number % 5

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(80)))
    assert len(store.prune()) == 5


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from planbench.memory.artifact_files import LocalFiles
    from planbench.memory.artifacts import ArtifactStore

    store = ArtifactStore(LocalFiles(Path(sys.argv[1])))
    sys.stdin.readline()
    for round in range(40):
        record = store.write({"round": round, "x": "y" * 100_000})
        assert len(store.read(record)["x"]) == 100_000
    print(store.nbytes())
    """
)


def test_two_processes_that_write_the_same_at_once_leave_it_whole(folder):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=60) for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0], said
    assert len(files(folder)) == 40
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.stem for path in files(folder))


def aged(store, folder, *ages):
    """Write an artifact for each age in seconds; gives their records."""
    records = []
    for number, age in enumerate(ages):
        records.append(store.write("x" * 10 + str(number)))
        (path,) = folder.rglob(f"{records[-1].sha256}.*")
        os.utime(path, (0, time.time() - age))
    return records


def test_prune_by_age_deletes_what_is_older_and_not_kept(local, folder):
    old, kept, young = aged(local, folder, 1_000, 1_000, 10)

    deleted = local.prune(keep={kept.sha256}, before=time.time() - 100)

    assert deleted == [old.sha256]
    assert [local.has(record) for record in (old, kept, young)] == [False, True, True]


def test_prune_by_size_deletes_the_oldest_until_the_rest_fits(local, folder):
    oldest, kept, middle, young = aged(local, folder, 400, 300, 200, 100)

    deleted = local.prune(keep={kept.sha256}, max_bytes=25)

    assert deleted == [oldest.sha256, middle.sha256]
    assert local.has(kept)
    assert local.has(young)
    assert local.prune(max_bytes=22) == []


def test_prune_by_size_and_age_does_both(local, folder):
    ancient, old, young = aged(local, folder, 1_000, 200, 100)

    assert local.prune(before=time.time() - 500, max_bytes=11) == [ancient.sha256, old.sha256]
    assert local.has(young)


def test_what_is_stored_again_is_young_again(local, folder):
    (record,) = aged(local, folder, 1_000)
    local.write("x" * 10 + "0")

    assert local.prune(before=time.time() - 100) == []
    assert local.has(record)


def test_prune_touches_no_file_that_is_not_an_artifact(local, folder):
    local.write([1])
    other = folder / "no" / "notes.txt"
    other.parent.mkdir()
    other.write_text("mine")

    assert len(local.prune()) == 1
    assert other.read_text() == "mine"


def test_an_artifact_pruned_while_it_is_stored_again_is_written(local, folder, monkeypatch):
    record = local.write([1])
    real = os.utime

    def pruned(path, *rest):
        Path(path).unlink()
        real(path, *rest)

    monkeypatch.setattr(artifact_files.os, "utime", pruned)

    assert local.write([1]) == record
    assert local.has(record)


def test_an_artifact_that_is_stored_again_while_old_ones_are_pruned_stays(
    local, folder, monkeypatch
):
    (record,) = aged(local, folder, 1_000)
    real = LocalFiles.files

    def listed(files):
        found = [*real(files)]
        local.write("x" * 10 + "0")
        return iter(found)

    monkeypatch.setattr(LocalFiles, "files", listed)

    assert local.prune(before=time.time() - 100) == []
    assert local.read(record) == "x" * 10 + "0"


def test_an_artifact_that_is_stored_again_while_it_is_set_aside_stays(local, folder, monkeypatch):
    (record,) = aged(local, folder, 1_000)
    real = Path.rename

    def renamed(path, aside):
        local.write("x" * 10 + "0")
        return real(path, aside)

    monkeypatch.setattr(Path, "rename", renamed)

    assert local.prune(before=time.time() - 100) == []
    assert local.read(record) == "x" * 10 + "0"


def test_an_unwritable_place_is_an_error_of_the_store_that_says_what_failed(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = ArtifactStore(LocalFiles(tmp_path / "file"))

    with pytest.raises(StoreError, match="cannot write an artifact of 3 B") as failed:
        store.write([1])
    assert isinstance(failed.value.__cause__, OSError)
