from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planbench
from planbench import TaskMemoryRuntime, TaskScope
from planbench.errors import ArtifactMissing, ConfigurationError, StoreError
from planbench.memory import scope as scope_module
from planbench.memory.artifact_files import LocalFiles, RemoteFiles

SCOPE = TaskScope("team", "sweep", "ann")


def in_loop(test):
    """Run a test that is a coroutine."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


def test_a_scope_is_what_it_says_and_cannot_be_changed():
    assert TaskScope("team").to_dict() == {"namespace": "team", "task": "default", "user": None}
    assert TaskScope("team", "sweep", "ann") == SCOPE
    assert len({SCOPE, TaskScope("team", "sweep", "ann"), TaskScope("team")}) == 2
    with pytest.raises(FrozenInstanceError):
        SCOPE.user = "bob"


@pytest.mark.parametrize(
    "arguments",
    [("",), (" ",), (None,), (7,), ("a", ""), ("a", None), ("a", "b", ""), ("x" * 1_001,), (b"a",)],
)
def test_a_scope_that_names_nothing_is_refused(arguments):
    with pytest.raises(ConfigurationError, match="of a scope is"):
        TaskScope(*arguments)


def test_what_is_written_in_one_process_is_read_in_another(tmp_path):
    async def write():
        async with TaskMemoryRuntime(tmp_path / "artifacts") as runtime:
            return runtime.store(SCOPE).write({"a": (1, 2)})

    record = asyncio.run(write())
    program = (
        "import asyncio, sys\n"
        "from planbench import TaskMemoryRuntime, TaskScope\n"
        "from planbench.memory import ArtifactRecord\n"
        "async def main():\n"
        "    async with TaskMemoryRuntime(sys.argv[1]) as runtime:\n"
        "        store = runtime.store(TaskScope('team', 'sweep', 'ann'))\n"
        "        print(store.read(ArtifactRecord(sys.argv[2], sys.argv[3], int(sys.argv[4]))))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "artifacts", *map(str, record)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "{'a': (1, 2)}\n"


OTHERS = [
    TaskScope("team", "sweep"),
    TaskScope("team", "sweep", "bob"),
    TaskScope("team", "sweep", "Ann"),
    TaskScope("team", "other", "ann"),
    TaskScope("Team", "sweep", "ann"),
    TaskScope("team/sweep", "ann"),
    TaskScope("team", "sweep/ann"),
    TaskScope("team", "..", "ann"),
    TaskScope("team", "sweep", "shared"),
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
@pytest.mark.parametrize("kind", ["local", "memory"])
@in_loop
async def test_another_scope_finds_nothing_by_the_record_of_this_one(tmp_path, kind, other):
    url = str(tmp_path) if kind == "local" else f"memory://{tmp_path.name}"
    async with TaskMemoryRuntime(url) as runtime:
        record = runtime.store(SCOPE).write("secret")
        theirs = runtime.store(other)

        assert not theirs.has(record)
        assert theirs.nbytes() == 0
        with pytest.raises(ArtifactMissing):
            theirs.read(record)
        assert theirs.prune() == []
        assert runtime.store(SCOPE).read(record) == "secret"


TEXTS = st.text(st.characters(exclude_categories=()), min_size=1, max_size=30).filter(str.strip)


@given(TEXTS, TEXTS)
def test_no_text_of_a_scope_becomes_a_path_and_no_two_share_one(one, two):
    first, second = scope_module._folder(one), scope_module._folder(two)

    assert (first == second) == (one == two)
    assert first.casefold() == first
    assert set(first) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert 0 < len(first) <= 80


@pytest.mark.parametrize(
    "name", ["..", ".", "/etc", "a/../../b", "C:\\x", "con", "\0", "~", "a" * 900]
)
@in_loop
async def test_a_scope_of_any_text_stays_inside_the_place(tmp_path, name):
    place = tmp_path / "artifacts"
    async with TaskMemoryRuntime(place) as runtime:
        record = runtime.store(TaskScope(name, name, name)).write("x")

    (found,) = tmp_path.rglob(f"{record.sha256}.txt")
    assert len(found.relative_to(place).parts) == 5


def address(kind, tmp_path):
    return {
        "path": tmp_path / "new" / "artifacts",
        "text": str(tmp_path / "new" / "artifacts"),
        "file": f"file://{tmp_path}/new/artifacts",
        "memory": f"memory://{tmp_path.name}",
    }[kind]


@pytest.mark.parametrize("kind", ["path", "text", "file", "memory"])
@in_loop
async def test_a_place_is_a_folder_or_a_url_and_is_made_when_it_starts(tmp_path, kind):
    runtime = TaskMemoryRuntime(address(kind, tmp_path))
    assert not runtime.started
    assert not (tmp_path / "new").exists()

    await runtime.start()
    await runtime.start()

    assert runtime.started
    assert isinstance(runtime._files, RemoteFiles if kind == "memory" else LocalFiles)
    store = runtime.store(SCOPE)
    assert store.read(store.write([1])) == [1]
    await runtime.close()
    await runtime.close()
    assert not runtime.started
    if kind != "memory":
        assert not list(tmp_path.rglob("*.tmp"))
        assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


@in_loop
async def test_the_home_folder_may_be_written_as_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    async with TaskMemoryRuntime("~/artifacts"):
        assert (tmp_path / "artifacts").is_dir()


@in_loop
async def test_a_place_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    runtime = TaskMemoryRuntime(tmp_path / "file" / "artifacts")

    with pytest.raises(StoreError, match="cannot be stored in") as refused:
        await runtime.start()
    assert "may write to" in refused.value.hint
    assert not runtime.started


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user who may not do all")
@in_loop
async def test_a_folder_without_the_right_to_write_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError):
        await TaskMemoryRuntime(tmp_path).start()


@pytest.mark.parametrize("url", ["nosuch://place", "", None, 7])
@in_loop
async def test_a_url_that_nobody_knows_is_a_mistake_of_the_host(url):
    with pytest.raises(ConfigurationError):
        await TaskMemoryRuntime(url).start()


def test_a_store_is_given_between_start_and_close_and_for_a_scope():
    runtime = TaskMemoryRuntime("somewhere")

    with pytest.raises(ConfigurationError, match="not started"):
        runtime.store(SCOPE)
    with pytest.raises(ConfigurationError, match="belong to a scope"):
        runtime.store("team")


@in_loop
async def test_leaving_ends_the_use_and_what_is_stored_stays(tmp_path):
    async with TaskMemoryRuntime(tmp_path) as runtime:
        record = runtime.store(SCOPE).write("kept")
    with pytest.raises(ConfigurationError):
        runtime.store(SCOPE)

    async with runtime:
        assert runtime.store(SCOPE).read(record) == "kept"


@in_loop
async def test_leave_to_pickle_is_the_hosts_and_goes_with_the_store(tmp_path):
    async with TaskMemoryRuntime(tmp_path, allow_pickle=True) as runtime:
        store = runtime.store(SCOPE)
        assert store.read(store.write(TaskScope)) is TaskScope
    assert TaskMemoryRuntime(tmp_path).allow_pickle is False


@in_loop
async def test_nothing_that_is_shown_holds_who_signs_in():
    url = "memory://user:hunter2@place/x?token=abc"
    runtime = TaskMemoryRuntime(url)

    assert repr(runtime) == "<TaskMemoryRuntime memory://***@place/x: not started>"

    def broken(_):
        raise OSError(f"cannot reach {url}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteFiles, "probe", broken)
        with pytest.raises(StoreError) as refused:
            await runtime.start()
    assert "hunter2" not in str(refused.value)
    assert "abc" not in str(refused.value)


def test_the_names_are_given_without_loading_what_they_need_later():
    program = "import json, sys, planbench; planbench.TaskScope; planbench.TaskMemoryRuntime('x'); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert {"TaskScope", "TaskMemoryRuntime"} <= set(planbench.__all__)
    assert not {"fsspec", "pandas", "pyarrow", "numpy"} & set(json.loads(done.stdout))
