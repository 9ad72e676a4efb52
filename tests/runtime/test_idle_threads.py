"""Threads outlive their run for a few seconds, so that the next one need not start its own."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from planbench.runtime import idle_threads
from planbench.runtime.idle_threads import IDLE_NAME, lend


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def alone(monkeypatch):
    """No thread of another test is waiting, and none of these stays."""
    monkeypatch.setattr(idle_threads, "_idle", [])
    monkeypatch.setattr(idle_threads, "PATIENCE", 0.2)
    before = set(threading.enumerate())
    yield
    until(lambda: not set(threading.enumerate()) - before)


@pytest.mark.usefixtures("alone")
def test_the_next_work_is_done_by_the_thread_that_has_become_free():
    seen = []
    for name in ("one", "two"):
        lend(lambda: seen.append(threading.current_thread()), name)
        until(lambda: idle_threads._idle)
    assert seen[0] is seen[1]


@pytest.mark.usefixtures("alone")
def test_a_thread_bears_the_name_of_its_work_while_it_is_at_it():
    names = []
    lend(lambda: names.append(threading.current_thread().name), "planbench-1")
    until(lambda: idle_threads._idle)
    assert names == ["planbench-1"]
    assert idle_threads._idle[0].name == IDLE_NAME


@pytest.mark.usefixtures("alone")
def test_works_at_the_same_time_have_a_thread_each_and_no_more_than_some_wait_for_the_next(
    monkeypatch,
):
    monkeypatch.setattr(idle_threads, "MOST", 2)
    meet = threading.Barrier(5)
    for i in range(4):
        lend(lambda: meet.wait(60), f"n{i}")
    meet.wait(60)
    until(lambda: len(idle_threads._idle) == 2)


@pytest.mark.usefixtures("alone")
def test_a_thread_that_nobody_needs_ends_by_itself():
    lend(lambda: None, "one")
    until(lambda: idle_threads._idle)
    (thread,) = idle_threads._idle
    thread.join(60)
    assert not thread.is_alive()
    assert idle_threads._idle == []


FORKED = """
import os, sys, threading, time
from planbench.runtime import idle_threads

def done_within(seconds):
    event = threading.Event()
    idle_threads.lend(event.set, "work")
    return event.wait(seconds)

assert done_within(30)
while not idle_threads._idle:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    os._exit(0 if done_within(30) else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="processes are forked on POSIX only")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have():
    done = subprocess.run([sys.executable, "-c", FORKED], check=False, timeout=90)
    assert done.returncode == 0
