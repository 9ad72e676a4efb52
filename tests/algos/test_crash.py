"""A process that is killed in the middle of a plan of steps; another one goes on."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from tests.checkpoints.conftest import PLACES

PROGRAM = Path(__file__).parent / "crash_program.py"


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-W", "error", PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def steps_done(url, file):
    """Count the steps that have their end on record."""

    async def read():
        async with open_store(url) as store:
            log = await store.read(file.read_text())
        return sum(event.type == ev.CHILD_FINISHED for event in log)

    return asyncio.run(read()) if file.exists() and file.read_text() else 0


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request):
    place = PLACES[request.param](request)
    yield place.url
    asyncio.run(place.clear())


def test_what_was_done_before_a_kill_is_not_done_again_and_counts_once(url, tmp_path):
    first = start(url, str(tmp_path), "run")
    try:
        until = time.monotonic() + 60
        calls = tmp_path / "calls.txt"
        while steps_done(url, tmp_path / "run_id") < 4:
            assert first.poll() is None, first.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        first.kill()
        first.communicate()
    assert sorted(calls.read_text().split()) == ["s0", "s1", "s2", "s3"]

    second = start(url, str(tmp_path), "resume", (tmp_path / "run_id").read_text())
    told, trouble = second.communicate(timeout=60)

    # a Redis that keeps nothing on disk is told of, once
    assert [line for line in trouble.splitlines() if "keeps nothing on disk" not in line] == []
    outcome = json.loads(told)
    # the limit of 17.5 holds 16 calls: a plan, two for each of 7 steps, a synthesis. Were
    # those of the first process counted twice, it would be reached.
    assert outcome["status"] == "success"
    assert outcome["usage"][:4] == [16, 160, 16, 16.0]
    assert sorted(calls.read_text().split()) == ["last", "s0", "s1", "s2", "s3", "s4", "s5"]
    assert set(outcome["value"]["results"]) == {"last", *(f"s{i}" for i in range(6))}
