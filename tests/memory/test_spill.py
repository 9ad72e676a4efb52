"""The files of spilled values: whose they are, and what happens when they are harmed."""

import errno
import gc
import logging
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from planbench.errors import ArtifactDamaged, ArtifactMissing, ConfigurationError
from planbench.memory import WorkingMemory
from planbench.memory.spill import PREFIX, SpillFolder

ROOT = Path(__file__).parent.parent.parent


def filled(folder, budget=100):
    memory = WorkingMemory(budget, folder)
    memory.put("a", "".join(["a"] * 1_000))
    assert memory.peek("a").spilled
    return memory


def only(folder):
    (path,) = folder.rglob("*.spill")
    return path


def folders(folder):
    return [path for path in folder.iterdir() if path.name.startswith(PREFIX)]


def test_files_stand_in_a_private_folder_of_the_memory(tmp_path):
    one, two = filled(tmp_path / "new" / "place"), filled(tmp_path / "new" / "place")
    made = folders(tmp_path / "new" / "place")
    assert len(made) == 2
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in made)
    assert one["a"] == two["a"]


def test_nothing_is_made_before_something_is_spilled(tmp_path):
    memory = WorkingMemory(10_000, tmp_path)
    memory.put("a", "x" * 100)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_gone_with_the_memory(tmp_path):
    memory = filled(tmp_path)
    del memory
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_spill_dir_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be made"):
        WorkingMemory(100, tmp_path / "file" / "folder")


def test_a_file_that_is_gone_says_what_to_do(tmp_path):
    memory = filled(tmp_path)
    only(tmp_path).unlink()
    with pytest.raises(ArtifactMissing, match="cannot be read back") as caught:
        memory["a"]
    assert "spill_dir" in caught.value.hint
    assert memory.info("a").entry_type == "text"
    memory.put("b", "fine")
    assert memory["b"] == "fine"


@pytest.mark.parametrize("harm", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"b" + b[1:]])
def test_a_file_that_was_changed_is_never_read_as_a_value(tmp_path, harm):
    memory = filled(tmp_path)
    path = only(tmp_path)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(ArtifactDamaged, match="was changed"):
        memory["a"]


def test_a_folder_that_was_cleaned_away_is_made_again(tmp_path):
    memory = filled(tmp_path)
    (folder,) = folders(tmp_path)
    only(tmp_path).unlink()
    (folder / "lock").unlink()
    folder.rmdir()
    memory.put("b", "".join(["b"] * 1_000))
    assert memory.peek("b").spilled
    assert memory["b"] == "b" * 1_000


def test_a_full_disk_leaves_the_values_in_memory_and_says_so_once(tmp_path, monkeypatch, caplog):
    memory = WorkingMemory(1_000, tmp_path)
    monkeypatch.setattr(SpillFolder, "_written", full)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            memory.put(f"k{number}", "".join([str(number)] * 900))
    assert memory.resident_bytes == 4_500
    assert memory.spilled_bytes == 0
    assert [memory[f"k{n}"] for n in range(5)] == [str(n) * 900 for n in range(5)]
    assert [record.message.count("No space left") for record in caplog.records] == [1]

    monkeypatch.undo()
    memory.spill()
    assert memory.resident_bytes <= 1_000


def full(folder, payload):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_half_a_file_is_not_left_behind(tmp_path, monkeypatch):
    folder = SpillFolder(tmp_path)
    folder.write("first")
    opened = Path.open

    def breaking(path, *args):
        file = opened(path, *args)
        file.write(b"half")
        file.close()  # so that the write of the rest fails
        return file

    monkeypatch.setattr(Path, "open", breaking)
    with pytest.raises(ValueError, match="closed"):
        folder.write("second")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.rglob("*.spill")] == ["1.spill"]


PROGRAM = """
    import os, sys
    from planbench.memory import WorkingMemory
    memory = WorkingMemory(100, sys.argv[1])
    memory.put("a", "".join(["a"] * 1_000))
    assert memory.peek("a").spilled
"""


def run(folder, more=""):
    program = textwrap.dedent(PROGRAM) + textwrap.dedent(more)
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_the_folder_is_gone_when_the_process_ends_also_by_an_error(tmp_path):
    done = run(tmp_path, "raise SystemExit(3)")
    assert done.returncode == 3, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="locks of folders are those of posix")
def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next(tmp_path):
    done = run(tmp_path, "os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = folders(tmp_path)
    (tmp_path / f"{PREFIX}other").mkdir()  # no lock in it: nobody knows whose it is
    living = filled(tmp_path)

    memory = filled(tmp_path)

    assert not left.exists()
    assert (tmp_path / f"{PREFIX}other").exists()
    assert memory["a"] == living["a"] == "a" * 1_000


@pytest.mark.skipif(os.name != "posix", reason="fork is of posix")
def test_a_process_that_is_forked_off_reads_what_was_spilled_and_removes_nothing(tmp_path):
    done = run(
        tmp_path,
        """
        child = os.fork()
        if not child:
            assert memory["a"] == "a" * 1_000
            memory.put("b", "".join(["b"] * 1_000))
            assert memory["b"] == "b" * 1_000
            memory.drop("a")
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert memory["a"] == "a" * 1_000
        print("read")
        """,
    )
    assert done.stdout == "read\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_memory_without_a_budget_loads_no_codec():
    program = (
        "import sys\nfrom planbench.memory import WorkingMemory\n"
        "WorkingMemory().put('a', 1)\n"
        "print('planbench.memory.spill' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "False\n"
