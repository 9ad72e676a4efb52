"""Small files that share a database, large ones beside it."""

import asyncio
import threading

import pytest

from planbench.errors import ArtifactMissing
from planbench.memory import TaskMemoryRuntime, TaskScope
from planbench.memory.packed_files import DATABASE, SMALL, PackedFiles

SCOPE = TaskScope("team")


@pytest.fixture
def files(tmp_path):
    found = PackedFiles(tmp_path / "place")
    yield found
    found.close()


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1])
def test_a_file_comes_back_whole_and_is_deleted(files, size):
    assert files.size("abcd") is None
    files.put("abcd", b"x" * size)
    assert files.size("abcd") == size
    assert files.read("abcd") == b"x" * size
    assert [(file.name, file.size) for file in files.files()] == [("abcd", size)]
    files.delete("abcd")
    assert files.size("abcd") is None
    with pytest.raises(FileNotFoundError):
        files.read("abcd")


def test_only_large_files_are_files_of_their_own(files):
    files.put("aa11", b"x")
    assert not (files.folder / "aa").exists()
    files.put("bb11", b"x" * (SMALL + 1))
    assert (files.folder / "bb" / "bb11").exists()


def test_looking_makes_nothing(files):
    assert [*files.files()] == []
    files.delete("abcd")
    assert files.size("abcd") is None
    assert not files.folder.exists()


def test_a_file_that_is_stored_again_counts_as_stored_now(files):
    files.put("abcd", b"x")
    (before,) = files.files()
    files.put("abcd", b"x")
    (after,) = files.files()
    assert after.stored > before.stored


def test_many_threads_and_a_second_process_store_at_once(files):
    other = PackedFiles(files.folder)
    places = [files, other] * 4

    def write(place, number):
        for one in range(25):
            place.put(f"{number:02}{one:02}", b"x")

    threads = [
        threading.Thread(target=write, args=pair) for pair in zip(places, range(8), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([*files.files()]) == 200
    other.close()


def test_a_runtime_that_is_not_flushed_packs_and_keeps_what_it_stored(tmp_path):
    async def main():
        async with TaskMemoryRuntime(tmp_path, flushed=False) as runtime:
            store = runtime.store(SCOPE)
            record = store.write({"a": (1, 2)})
            assert store is not runtime.store(SCOPE)
            assert runtime.store(SCOPE).read(record) == {"a": (1, 2)}
        assert len([*tmp_path.rglob(DATABASE)]) == 1
        async with TaskMemoryRuntime(tmp_path, flushed=False) as runtime:
            store = runtime.store(SCOPE)
            assert store.has(record)
            assert store.nbytes() == record.size
            assert runtime.store(TaskScope("others")).nbytes() == 0
            assert store.prune() == [record.sha256]
            with pytest.raises(ArtifactMissing):
                store.read(record)

    asyncio.run(main())


def test_a_database_that_is_taken_away_is_made_anew_before_anything_is_lost(files):
    files.put("abcd", b"x")
    for path in files.folder.glob(f"{DATABASE}*"):
        path.unlink()

    files.put("abce", b"y")

    other = PackedFiles(files.folder)
    assert other.read("abce") == b"y"
    assert other.size("abcd") is None
    other.close()


@pytest.mark.parametrize("size", [10, SMALL + 1])
def test_a_file_that_is_stored_again_after_it_was_listed_is_not_dropped(files, size):
    files.put("abcd", b"x" * size)
    (before,) = files.files()
    old = before._replace(stored=before.stored - 1)

    assert not files.drop(old)
    assert files.size("abcd") == size
    assert files.drop(before)
    assert files.size("abcd") is None


@pytest.mark.parametrize("size", [10, SMALL + 1])
def test_bytes_that_a_disk_has_changed_are_stored_again(files, size):
    right, wrong = b"x" * size, b"y" * size
    files.put("abcd", wrong)

    files.put("abcd", right)

    assert files.read("abcd") == right
