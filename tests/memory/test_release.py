"""Freed memory goes back to the system."""

import sys
import types

import pytest

from planbench.memory import WorkingMemory, budget, release


def test_the_allocators_that_are_loaded_are_asked(monkeypatch):
    asked = []
    pool = types.SimpleNamespace(release_unused=lambda: asked.append("arrow"))
    arrow = types.SimpleNamespace(default_memory_pool=lambda: pool)
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    monkeypatch.setattr(release, "_trim", lambda: lambda pad: asked.append(("libc", pad)))
    release.give_back()
    assert asked == ["arrow", ("libc", 0)]

    monkeypatch.delitem(sys.modules, "pyarrow")
    monkeypatch.setattr(release, "_trim", lambda: None)
    release.give_back()
    assert len(asked) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is of glibc")
def test_the_c_library_is_called_as_it_wants():
    trim = release._trim()
    assert trim is None or trim(0) in (0, 1)


def test_it_is_asked_for_after_much_was_freed_and_not_for_each_value(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(budget, "give_back", lambda: asked.append(True))
    monkeypatch.setattr(budget, "GIVEN_BACK", 5_000)
    memory = WorkingMemory(1_000, tmp_path)
    for number in range(12):
        memory.put(str(number), "".join([str(number % 10)] * 1_000))
    assert len(asked) == 1  # when six had gone; five have gone since
    memory.clear()
    assert len(asked) == 2
