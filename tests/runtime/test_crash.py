"""Processes that are killed: a fresh one calls nothing that was on record, and all that was not."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from planbench import events as ev
from planbench.checkpoints import open_store
from tests.checkpoints.conftest import PLACES, shared_mongodb  # noqa: F401 - a fixture that places ask for

PROGRAM = Path(__file__).with_name("crash_program.py")
KILLED = -9
ITEMS = 300
STORES = ["sqlite", "postgres", "redis", "mongodb"]


class Process:
    """One place of runs, its artifacts, and the calls that its processes made."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        self.calls_file = folder / "calls"

    def __call__(self, command, *rest, kill=None, items=20):
        env = {**os.environ, "ITEMS": str(items), "PLANBENCH_LEASE_TTL": "600"}
        env |= {"KILL": kill} if kill else {}
        command = [
            sys.executable, str(PROGRAM), command, self.url, str(self.folder / "artifacts"),
            str(self.calls_file), *rest,
        ]  # fmt: skip
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == (KILLED if kill else 0), done.stderr
        run_id, *told = done.stdout.splitlines()
        return run_id, json.loads(told[0]) if told else None

    def calls(self):
        found = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return Counter(found)

    def events(self, run_id):
        async def read():
            async with open_store(self.url) as store:
                return await store.read(run_id)

        return asyncio.run(read())


@pytest.fixture(params=STORES)
def process(request, tmp_path):
    place = PLACES[request.param](request)
    yield Process(place.url, tmp_path)
    asyncio.run(place.clear())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What runs that nobody disturbed have given, and the calls that they made."""
    known = {}

    def of(items):
        if items not in known:
            folder = tmp_path_factory.mktemp("undisturbed")
            process = Process(f"sqlite:///{folder / 'runs.db'}", folder)
            known[items] = process("start", items=items)[1], process.calls()
        return known[items]

    return of


def plain(manifest):
    """What two runs of one plan have in common: no ids, no times."""
    gone = ("run_id", "session_id", "root_run_id", "duration_seconds", "usage")
    found = {name: value for name, value in manifest.items() if name not in gone}
    found["artifacts"] = [{**ref, "errors": sorted(ref["errors"])} for ref in manifest["artifacts"]]
    return found


def on_record(events):
    return {
        (event.data["node_id"], event.data.get("index")): (
            f"{event.data['artifact_id']}@{event.data['version']}"
        )
        for event in events
        if event.type in (ev.NODE_FINISHED, ev.ITEM_FINISHED) and "artifact_id" in event.data
    }


@pytest.mark.parametrize(
    ("kill", "items"),
    [
        ("before:total", 20),
        ("after:frame", 20),
        ("before:fetch 150 fetch:150", ITEMS),
        ("after:fetch 150 fetch:150", ITEMS),
    ],
)
def test_what_is_on_record_is_not_called_again_in_a_fresh_process(
    process, undisturbed, kill, items
):
    whole, once = undisturbed(items)
    run_id, _ = process("start", kill=kill, items=items)
    before = process.calls()
    kept = on_record(process.events(run_id))
    again_id, told = process("resume", run_id, items=items)
    assert again_id == run_id
    after = process.calls()
    assert plain(told["manifest"]) == plain(whole["manifest"])
    assert told["total"] == whole["total"]
    named = {
        "listing": {"listing"},
        "frame": {"frame"},
        "total": {"total"},
    }
    done = set()
    for node_id, index in kept:
        done |= named.get(node_id, {f"fetch {index} fetch:{index}"})
    assert not done & set(after)
    assert set(after) == set(once) - done  # and all that was not on record
    assert all(count == 1 for count in after.values())
    for call in set(before) & set(after):  # made twice: failed, or without a record yet
        number = call.split()[1] if " " in call else ""
        failed = number.isdecimal() and int(number) % 7 == 3
        assert failed or call not in done
    versions = {key: told["versions"][f"{key[0]} {key[1]}"] for key in kept}
    assert versions == kept


def test_a_child_that_was_killed_is_continued_when_its_parent_is_asked_for(process):
    run_id, first = process("start")
    process.calls()
    child_id, _ = process("fork", run_id, kill="before:total")
    retried = {f"fetch {n} fetch:{n}" for n in (3, 10, 17)}
    assert set(process.calls()) == retried
    again_id, told = process("resume", run_id)
    assert again_id == child_id != run_id
    assert set(process.calls()) == {*retried, "total"}
    assert told["total"] == first["total"] + 1000
    assert told["manifest"]["parent_run_id"] == told["manifest"]["root_run_id"] == run_id
    assert told["manifest"]["resume_level"] == "cross_restart"


def test_of_two_processes_that_resume_one_run_exactly_one_wins(process):
    run_id, _ = process("start", kill="before:total")
    process.calls()
    command = [
        sys.executable, str(PROGRAM), "resume", process.url, str(process.folder / "artifacts"),
        str(process.calls_file), run_id,
    ]  # fmt: skip
    env = {**os.environ, "SLOW": "1"}
    both = [
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [one.communicate() for one in both]
    codes = sorted(one.returncode for one in both)
    calls = process.calls()
    assert calls["total"] == 1
    if codes == [0, 1]:
        lost = next(err for one, (_, err) in zip(both, said, strict=True) if one.returncode)
        # the other was at work, or had ended well already
        assert "is at work" in lost or "nothing of it is left to do" in lost, lost
    else:
        assert codes == [0, 0], said
