"""Stores that stop in mid-run: the run ends and says so, or waits and goes on, as its host wants."""

import asyncio
import gc
import getpass
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from planbench.errors import CheckpointWriteFailed
from planbench.runtime import PlanRecoveryConfig, replay
from tests.checkpoints.conftest import (
    HOST,
    absent,
    answers,
    free_port,
    mongodb_server,
    redis_server,
)

__all__ = ["mongodb_server", "redis_server"]

# pymongo leaves a socket open when it is closed while it connects
pytestmark = pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def leaks_are_found_here():
    yield
    gc.collect()


class Postgres:
    """A PostgreSQL of the test's own, in a folder of its own."""

    def __init__(self, folder):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not found and shutil.which("initdb") is None:
            absent("PostgreSQL is not installed")
        self.bin = found[-1] if found else Path(shutil.which("initdb")).parent
        self.data = folder / "data"
        self.port = free_port()
        folder.mkdir()
        if getpass.getuser() == "root":  # it refuses to run as root
            shutil.chown(folder, "postgres")
            for parent in folder.parents:
                if str(parent).startswith("/tmp/") and parent.stat().st_uid == 0:
                    parent.chmod(0o755)
        self._do("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")

    def _do(self, name, *arguments):
        command = [str(self.bin / name), *map(str, arguments)]
        if getpass.getuser() == "root":
            command = ["runuser", "-u", "postgres", "--", *command]
        log = self.data.with_name("log")
        with log.open("ab") as file:
            done = subprocess.run(command, check=False, stdout=file, stderr=file)
        assert done.returncode == 0, log.read_text()

    def start(self):
        options = f"-p {self.port} -h {HOST} -k {self.data} -c fsync=off"
        self._do("pg_ctl", "-D", self.data, "-w", "-o", options, "start")
        return self

    def stop(self):
        self._do("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")


@pytest.fixture
def postgres_server(tmp_path):
    server = Postgres(tmp_path / "postgres").start()
    yield server
    if answers(server.port):
        server.stop()


URLS = {
    "redis_server": "redis://{host}:{port}/0",
    "mongodb_server": "mongodb://{host}:{port}/runs",
    "postgres_server": "postgresql://postgres@{host}:{port}/postgres",
}


@pytest.fixture(params=URLS)
def server(request):
    found = request.getfixturevalue(request.param)
    found.url = URLS[request.param].format(host=HOST, port=found.port)
    return found


async def begun(lab, engine, gate):
    """Start a chain whose second call waits, with the first on record."""

    @lab.tool
    async def hold(value):
        lab.note(value)
        await gate.wait()
        return value

    run = await engine.start(
        lab.plan(
            lab.node("a", "give", {"value": "a"}),
            lab.node("b", "hold", {"value": "b"}, "a"),
            lab.node("c", "give", {"value": "c"}, "b"),
        )
    )
    await lab.until(lambda: "b" in lab.calls)
    return run


def kept(url, run_id):
    async def read():
        async with open_store(url) as store:
            return await store.read(run_id)

    return asyncio.run(read())


def test_a_run_whose_store_stops_ends_with_its_progress(lab, server):
    async def main():
        gate = asyncio.Event()
        async with lab.engine(store=server.url) as engine:
            run = await begun(lab, engine, gate)
            await asyncio.to_thread(server.stop)
            gate.set()
            began = time.monotonic()
            with pytest.raises(CheckpointWriteFailed):
                await run
            assert time.monotonic() - began < 60
            assert run.status == "interrupted"
            manifest = run.manifest()
            assert manifest.recovery_reason.startswith("checkpoint_write_failed")
            assert manifest.nodes_ok >= 1
            assert "c" not in lab.calls
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        return run

    run = asyncio.run(main())
    server.start()
    found = kept(server.url, run.run_id)
    assert [event.type for event in found[:3]] == [
        ev.RUN_STARTED,
        ev.NODE_STARTED,
        ev.NODE_FINISHED,
    ]
    assert run.events[: len(found)] == found  # what was acknowledged is there


def test_a_run_that_waits_for_its_store_goes_on_when_it_is_back(lab, server):
    async def main():
        gate = asyncio.Event()
        settings = PlanRecoveryConfig(on_store_error="wait")
        async with lab.engine(store=server.url, recovery=settings) as engine:
            run = await begun(lab, engine, gate)
            await asyncio.to_thread(server.stop)
            gate.set()
            await asyncio.sleep(0.3)
            assert not run.finished
            await asyncio.to_thread(server.start)
            outcome = await asyncio.wait_for(run.result(), 60)
            assert outcome.status == "completed"
            assert lab.calls == ["a", "b", "c"]
            assert await engine.store.read(run.run_id) == run.events
        return run

    run = asyncio.run(main())
    assert replay(kept(server.url, run.run_id)).manifest() == run.manifest()


def test_a_run_that_waits_for_its_store_can_be_cancelled(lab, redis_server):
    url = f"redis://{HOST}:{redis_server.port}/0"

    async def main():
        gate = asyncio.Event()
        settings = PlanRecoveryConfig(on_store_error="wait")
        async with lab.engine(store=url, recovery=settings) as engine:
            run = await begun(lab, engine, gate)
            await asyncio.to_thread(redis_server.stop)
            gate.set()
            await asyncio.sleep(0.2)
            run.cancel()
            with pytest.raises(CheckpointWriteFailed):
                await asyncio.wait_for(run.result(), 60)
            assert run.status == "cancelled"

    asyncio.run(main())
