"""A kernel that is killed in the middle of a run, and the next one in the same folder."""

import contextlib
import signal
import sqlite3
import time

import pytest
from jupyter_client.manager import start_new_kernel

from tests.notebook.test_kernel import Kernel

pytestmark = pytest.mark.kernel

TOOLS = """
%load_ext planbench
import asyncio
from pathlib import Path
from planbench import tool, get_workbench

def note(said):
    with Path("calls").open("a") as file:
        file.write(said + "\\n")

@tool
def listing() -> list:
    note("listing")
    return [0, 1, 2, 3]

@tool
async def fetch(n: int) -> int:
    if n == 2 and not Path("go").exists():
        await asyncio.sleep(60)
    note(f"fetch {n}")
    return n

@tool
def total(values: list) -> int:
    note("total")
    return sum(values)
"""
PLAN = """
%%plan RUN
name: long
objective: Be killed
nodes:
  - {id: listing, tool: listing}
  - id: each
    tool: fetch
    for_each: {source: "{artifacts.listing}", max_concurrency: 1}
    args: {n: "{item}"}
  - {id: total, tool: total, args: {values: "{artifacts.each}"}}
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Starts kernels, one after the other, in a folder that remembers."""
    monkeypatch.delenv("PLANBENCH_STORE")
    started = []

    def start():
        manager, client = start_new_kernel(cwd=str(tmp_path))
        started.append((manager, client))
        return Kernel(manager, client, tmp_path)

    yield start
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def recorded_items(folder):
    journal = folder / ".planbench" / "journal.db"
    if not journal.exists():
        return 0
    with contextlib.closing(sqlite3.connect(journal, timeout=20)) as connection:
        try:
            found = connection.execute(
                "SELECT count(*) FROM planbench_events WHERE body LIKE '%item.finished%'"
            )
            return found.fetchone()[0]
        except sqlite3.OperationalError:  # the tables are not made yet
            return 0


def calls(folder):
    found = (folder / "calls").read_text().splitlines()
    (folder / "calls").unlink()
    return found


def test_the_next_kernel_tells_of_the_run_and_calls_only_what_is_missing(kernels, tmp_path):
    first = kernels()
    first.run(TOOLS)
    first.start(PLAN.replace("RUN", "--run"))
    until = time.monotonic() + 30
    while not recorded_items(tmp_path) >= 2 and time.monotonic() < until:
        time.sleep(0.02)
    first.manager.signal_kernel(signal.SIGKILL)
    assert calls(tmp_path) == ["listing", "fetch 0", "fetch 1"]
    (tmp_path / "go").touch()

    second = kernels()
    second.run(TOOLS)
    told = second.run(
        "t = %plan runs\nprint(t[['plan', 'status', 'calls left']].to_csv(index=False))"
    )
    assert "long,interrupted,3 of 6" in told
    second.run(PLAN.replace("RUN", ""))
    (label,) = second.run(
        "print(*[s.resumable.calls_left for s in get_workbench().sessions])"
    ).splitlines()
    assert label == "3 of 6 calls left"
    assert second.run("x = %plan resume\nprint(x.status, x.value('total'))") == "completed 6\n"
    assert calls(tmp_path) == ["fetch 2", "fetch 3", "total"]
    again = second.run("t = %plan runs\nprint(*t['status'])")
    assert again == "completed\n"
