"""The store in a file: other processes, other programs, and what dies in the middle."""

import asyncio
import contextlib
import gc
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store, sqlite_file, sqlite_thread
from planbench.errors import ConfigurationError, RecordDamaged, StoreError
from planbench.events import Event


def journal(run_id, count):
    kinds = [ev.RUN_STARTED] + [ev.NODE_PROGRESS] * (count - 1)
    return [Event(i, run_id, 5.0 + i, kind, {"n": i}) for i, kind in enumerate(kinds, 1)]


def all_threads():
    return [one for one in threading.enumerate() if one.name.startswith("planbench sqlite")]


OF_OTHERS = []


@pytest.fixture(autouse=True)
def _threads_of_other_tests_are_theirs():
    OF_OTHERS[:] = all_threads()
    yield
    OF_OTHERS.clear()


def threads():
    return [one for one in all_threads() if one not in OF_OTHERS]


def program(text, *args):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text, *map(str, args)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process, code=0, seconds=60):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == code, err
    return out


def test_a_new_file_is_for_its_owner_only_and_its_folder_is_made(sqlite_place):
    async def main():
        async with sqlite_place.store() as store:
            await store.append("run_a", journal("run_a", 3))
            for file in sqlite_place.file.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600

    asyncio.run(main())
    assert [file.name for file in sqlite_place.file.parent.iterdir()] == ["runs.db"]
    assert threads() == []


def test_a_relative_address_is_taken_from_the_folder_of_the_moment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///deep/r%20uns.db")
    monkeypatch.chdir("/")

    async def main():
        async with store:
            pass

    asyncio.run(main())
    assert (tmp_path / "deep" / "r uns.db").is_file()
    assert repr(store) == f"<SQLiteStore {str(tmp_path / 'deep' / 'r uns.db')!r}>"


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://x.db", "sqlite:///x.db?mode=ro",
     "sqlite:///x.db?synchronous=OFF", "sqlite:///x.db?synchronous"],
)  # fmt: skip
def test_an_address_that_cannot_be_meant_is_a_configuration_error(url):
    with pytest.raises(ConfigurationError):
        open_store(url)


@pytest.mark.parametrize(
    ("query", "level"), [("", 1), ("?synchronous=full", 2), ("?synchronous=NORMAL", 1)]
)
def test_commits_reach_the_disk_as_the_address_says(sqlite_place, query, level):
    store = open_store(sqlite_place.url + query)

    async def main():
        async with store:
            pragmas = [
                await store._write(lambda c, name=name: c.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("journal_mode", "synchronous")
            ]
            assert pragmas == ["wal", level]

    asyncio.run(main())


def test_a_file_that_is_no_database_is_left_alone(sqlite_place):
    sqlite_place.file.parent.mkdir()
    sqlite_place.file.write_text("some notes of mine, long enough to be read as a header\n" * 40)
    before = sqlite_place.file.read_bytes()

    async def main():
        store = sqlite_place.store()
        with pytest.raises(
            StoreError, match=r"runs.db' cannot be written: it is no SQLite database"
        ):
            await store.open()
        with pytest.raises(StoreError, match="is not open"):
            await store.runs()

    asyncio.run(main())
    assert sqlite_place.file.read_bytes() == before
    assert threads() == []


def test_a_folder_in_the_place_of_the_file_is_a_store_error(sqlite_place):
    sqlite_place.file.mkdir(parents=True)

    async def main():
        with pytest.raises(StoreError, match=r"runs.db' cannot be written: "):
            await sqlite_place.store().open()

    asyncio.run(main())


def test_a_file_of_another_version_is_not_touched(sqlite_place):
    async def main():
        async with sqlite_place.store():
            pass
        sqlite_place.change("UPDATE planbench_meta SET version = 99")
        with pytest.raises(StoreError, match="another version of planbench"):
            await sqlite_place.store().open()

    asyncio.run(main())


def test_the_file_may_hold_other_tables(sqlite_place):
    sqlite_place.file.parent.mkdir()
    with contextlib.closing(sqlite3.connect(sqlite_place.file)) as connection:
        connection.execute("CREATE TABLE runs (mine TEXT)")
        connection.execute("PRAGMA user_version = 7")

    async def main():
        async with sqlite_place.store() as store:
            await store.append("run_a", journal("run_a", 3))

    asyncio.run(main())
    with contextlib.closing(sqlite3.connect(sqlite_place.file)) as connection:
        assert connection.execute("SELECT * FROM runs").fetchall() == []
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)


# -- at the same time ---------------------------------------------------------------------

MANY_RUNS = """
import asyncio, sys
from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.events import Event

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def run(store, run_id):
    lease = await store.acquire_lease(run_id, name, 30)
    for seq in range(1, count + 1):
        kind = ev.RUN_STARTED if seq == 1 else ev.NODE_PROGRESS
        await store.append(run_id, [Event(seq, run_id, 5.0 + seq, kind, {"n": seq})], lease)
    await store.release_lease(lease)

async def main():
    async with open_store(url) as store:
        await asyncio.gather(*[run(store, f"{name}_{i}") for i in range(20)])

asyncio.run(main())
"""


def test_two_processes_with_twenty_runs_each_and_a_reader_never_find_the_file_locked(sqlite_place):
    processes = [program(MANY_RUNS, sqlite_place.url, name, 25) for name in ("one", "two")]

    async def main():
        async with sqlite_place.store() as store:
            with contextlib.closing(sqlite3.connect(sqlite_place.file)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM planbench_runs").fetchone()
                while any(process.poll() is None for process in processes):
                    for record in await store.runs():
                        assert len(await store.read(record.run_id)) >= record.events
                    await asyncio.sleep(0.01)
            for process in processes:
                ended(process)
            records = await store.runs()
            assert len(records) == 40
            for record in records:
                assert await store.read(record.run_id) == journal(record.run_id, 25)

    asyncio.run(main())


def test_many_processes_may_open_a_new_file_at_once(sqlite_place):
    processes = [program(MANY_RUNS, sqlite_place.url, f"p{i}", 1) for i in range(3)]
    for process in processes:
        ended(process)

    async def main():
        async with sqlite_place.store() as store:
            assert len(await store.runs()) == 60

    asyncio.run(main())


def test_a_program_that_holds_the_file_is_waited_for_and_the_loop_goes_on(sqlite_place):
    async def main():
        async with sqlite_place.store() as store:
            with contextlib.closing(sqlite3.connect(sqlite_place.file)) as other:
                other.execute("BEGIN IMMEDIATE")
                write = asyncio.create_task(store.append("run_a", journal("run_a", 3)))
                turns, until = 0, time.monotonic() + 0.3
                while time.monotonic() < until or turns < 20:
                    await asyncio.sleep(0.001)
                    turns += 1
                assert not write.done()
                assert await store.runs() == []  # readers do not wait
                other.rollback()
            await write
            assert len(await store.read("run_a")) == 3

    asyncio.run(main())


def test_a_program_that_never_lets_go_is_a_store_error(sqlite_place, monkeypatch):
    monkeypatch.setattr(sqlite_file, "PATIENCE", 0.05)

    async def main():
        async with sqlite_place.store() as store:
            with contextlib.closing(sqlite3.connect(sqlite_place.file)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreError, match="another program has held it for more than"):
                    await store.append("run_a", journal("run_a", 3))
                other.rollback()
            await store.append("run_a", journal("run_a", 3))

    asyncio.run(main())


def test_appends_that_wait_together_share_a_commit_and_one_that_fails_undoes_only_itself(
    sqlite_place, monkeypatch
):
    commits = []
    done = sqlite_thread._done

    def counted(connection, batch, opener):
        if "IMMEDIATE" in opener.begin:
            commits.append(len(batch))
        return done(connection, batch, opener)

    monkeypatch.setattr(sqlite_thread, "_done", counted)

    async def main():
        async with sqlite_place.store() as store:
            await store.append("run_0", journal("run_0", 2))
            commits.clear()
            other = Event(2, "run_0", 9.0, ev.NODE_FAILED, {})
            answers = await asyncio.gather(
                store.append("run_0", [other, *journal("run_0", 5)[2:]]),
                *[store.append(f"run_{i}", journal(f"run_{i}", 5)) for i in range(1, 30)],
                return_exceptions=True,
            )
            assert [type(one) for one in answers] == [StoreError] + [type(None)] * 29
            assert sum(commits) == 30
            assert len(commits) < 10
            assert len(await store.read("run_0")) == 2
            assert len(await store.read("run_29")) == 5

    asyncio.run(main())


# -- ends ---------------------------------------------------------------------------------

WRITES = """
import asyncio, sys
from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.events import Event

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    for seq in range(1, 10_000):
        await store.append("run_a", [Event(seq, "run_a", 5.0, ev.NODE_PROGRESS, {"n": seq})])
        print(seq, flush=True)

asyncio.run(main())
"""


def test_what_was_acknowledged_outlives_a_process_that_is_killed(sqlite_place):
    process = program(WRITES, sqlite_place.url)
    seen = [int(process.stdout.readline()) for _ in range(30)]
    process.send_signal(signal.SIGKILL)
    seen += [int(line) for line in process.stdout.read().split()]
    process.communicate()

    async def main():
        async with sqlite_place.store() as store:
            kept = [event.seq for event in await store.read("run_a")]
            assert kept[: len(seen)] == seen
            assert (await store.record("run_a")).events == len(kept)

    asyncio.run(main())


ABANDONED = """
import asyncio, sys
from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.events import Event

store = open_store(sys.argv[1])

async def main():
    await store.open()
    await store.append("run_a", [Event(1, "run_a", 5.0, ev.RUN_STARTED, {})])
    await store.read("run_a")

asyncio.run(main())
print("done")
"""


def test_a_store_that_nobody_closes_does_not_keep_the_process_alive(sqlite_place):
    assert ended(program(ABANDONED, sqlite_place.url), seconds=30) == "done\n"


def test_the_threads_of_a_store_that_is_forgotten_end(sqlite_place):
    async def main():
        store = sqlite_place.store()
        await store.open()
        await store.append("run_a", journal("run_a", 2))
        await store.read("run_a")
        return threads()

    own = asyncio.run(main())
    assert len(own) == 2
    gc.collect()
    for thread in own:
        thread.join(60)
    assert not any(thread.is_alive() for thread in own)


def test_closing_waits_for_what_was_asked_before(sqlite_place):
    async def main():
        store = sqlite_place.store()
        await store.open()
        writes = [
            asyncio.create_task(store.append(f"run_{i}", journal(f"run_{i}", 50)))
            for i in range(10)
        ]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*writes)
        assert threads() == []
        async with store:
            assert len(await store.runs()) == 10

    asyncio.run(main())


def test_a_store_may_be_used_on_one_loop_after_the_other(sqlite_place):
    store = sqlite_place.store()
    asyncio.run(store.open())
    for i in range(3):
        asyncio.run(store.append("run_a", journal("run_a", i + 1)))
    assert len(asyncio.run(store.read("run_a"))) == 3
    asyncio.run(store.close())
    assert threads() == []


def test_a_forked_process_is_told_to_open_its_own(sqlite_place):
    store = sqlite_place.store()
    asyncio.run(store.open())
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            asyncio.run(asyncio.wait_for(store.append("run_a", journal("run_a", 2)), 20))
        except Exception as error:  # noqa: BLE001 - the parent looks at what it was
            os.write(into, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(into)
    with os.fdopen(out) as said:
        assert "StoreError: the store was opened in another process" in said.read()
    asyncio.run(store.append("run_a", journal("run_a", 2)))
    asyncio.run(store.close())


def test_a_file_that_is_taken_away_is_noticed_before_anything_is_lost(sqlite_place):
    async def main():
        async with sqlite_place.store() as store:
            await store.append("run_a", journal("run_a", 2))
            assert len(await store.runs()) == 1
            for file in sqlite_place.file.parent.iterdir():
                file.unlink()
            with pytest.raises(StoreError, match="was removed or replaced while it was open"):
                await store.append("run_a", journal("run_a", 3))
            await store.append("run_b", journal("run_b", 3))
            with pytest.raises(StoreError, match="was removed"):
                await store.runs()
            assert [record.run_id for record in await store.runs()] == ["run_b"]

    asyncio.run(main())


def test_a_full_disk_is_a_store_error_and_nothing_of_the_append_is_kept(sqlite_place):
    async def main():
        async with sqlite_place.store() as store:
            await store.append("run_a", journal("run_a", 2))
            pages = await store._write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
            await store._write(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())
            large = Event(3, "run_a", 9.0, ev.NODE_PROGRESS, {"x": "y" * 100_000})
            with pytest.raises(
                StoreError, match=r"runs.db' cannot be written: database or disk is full"
            ):
                await store.append("run_a", [large])
            assert len(await store.read("run_a")) == 2
            assert (await store.record("run_a")).events == 2

    asyncio.run(main())


def test_one_run_among_very_many_events_is_found_at_once(sqlite_place):
    async def main():
        async with sqlite_place.store() as store:
            with contextlib.closing(sqlite3.connect(sqlite_place.file)) as connection:
                connection.execute(
                    "INSERT INTO planbench_events WITH RECURSIVE n(i) AS "
                    "(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199999) "
                    "SELECT 'run_' || (i / 100), i % 100 + 1, "
                    "json_object('seq', i % 100 + 1, 'run_id', 'run_' || (i / 100), 'at', "
                    "'2026-01-01T00:00:00+00:00', 'type', 'planbench.node.progress', "
                    "'data', json_object(), 'timestamp', 1767225600.0) FROM n"
                )
                connection.execute(
                    "INSERT INTO planbench_runs SELECT 'run_' || value, NULL, 'completed', 1, 2, 100, 100 "
                    "FROM (WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n "
                    "WHERE value < 1999) SELECT value FROM n)"
                )
                connection.commit()
            steps = 0

            def step():
                nonlocal steps
                steps += 1

            await store._look(lambda c: c.set_progress_handler(step, 100))
            assert len(await store.read("run_1234")) == 100
            assert (await store.record("run_1234")).events == 100
            assert steps < 50  # each of 100 instructions of SQLite: far from a look at every event
            await store._look(lambda c: c.set_progress_handler(None, 0))
            assert len(await store.runs()) == 2000

    asyncio.run(main())


def test_pages_that_sqlite_cannot_read_are_damage_of_the_runs_that_stand_there(sqlite_place):
    names = [f"run_{number:02}" for number in range(12)]
    journals = {
        name: [
            Event(1, name, 5.0, ev.RUN_STARTED, {"plan_name": "p"}),
            *(Event(n, name, 5.0, ev.NODE_PROGRESS, {"text": "x" * 900}) for n in range(2, 30)),
            Event(30, name, 5.0, ev.RUN_FINISHED, {"status": "completed"}),
        ]
        for name in names
    }

    async def written():
        async with sqlite_place.store() as store:
            for name, events in journals.items():
                await store.append(name, events)

    async def looked():
        damaged = []
        async with sqlite_place.store() as store:
            assert [record.run_id for record in await store.runs()] == names
            for name, events in journals.items():
                try:
                    assert await store.read(name) == events
                except RecordDamaged:
                    damaged.append(name)
                    assert (await store.record(name)).status == "damaged"
        assert 0 < len(damaged) < len(names)

    async def pruned():
        async with sqlite_place.store() as store:
            gone = await store.prune(keep=0)
            assert 0 < len(gone) < len(names)

    asyncio.run(written())
    with contextlib.closing(sqlite3.connect(sqlite_place.file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    raw = bytearray(sqlite_place.file.read_bytes())
    page = raw.index(b'"run_id":"run_05"') // size * size
    raw[page : page + 8] = b"\x2a" * 8
    sqlite_place.file.write_bytes(raw)
    asyncio.run(looked())
    asyncio.run(pruned())
