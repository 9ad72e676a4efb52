"""Who holds a run, and whether that process is still there."""

import os
import subprocess
import sys

import pytest

from planbench.runtime.leases import is_gone, new_owner

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux tells it")  # noqa: PTH110 - a module mark

PROGRAM = "from planbench.runtime.leases import new_owner; print(new_owner(), flush=True); input()"


@pytest.fixture
def other():
    """Another process, with the name under which it holds runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate()


def test_a_process_that_lives_is_not_gone(other):
    assert not is_gone(other[1])
    assert not is_gone(new_owner())


def test_a_process_that_was_killed_is_gone_also_before_its_parent_reaps_it(other):
    process, owner = other
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(owner)
    process.wait()
    assert is_gone(owner)


def test_a_number_that_is_anothers_now_does_not_stand_for_it():
    host, pid, _, name = new_owner().split("/")
    assert is_gone(f"{host}/{pid}/1/{name}")


@pytest.mark.parametrize("owner", ["", "me", "elsewhere/1/2/3"])
def test_nothing_is_known_of_owners_elsewhere(owner):
    assert not is_gone(owner)
