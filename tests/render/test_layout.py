from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest

from planbench.errors import RenderError
from planbench.render import layout as module
from planbench.render.layout import ENGINE_VARIABLE, engines, layout, layout_async

DOT = 'digraph { n0 [id="n0"] n1 [id="n1"] n0 -> n1 [id="e0"] }'


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    module.cache.clear()
    yield
    module.cache.clear()


@pytest.fixture
def engine(tmp_path, monkeypatch):
    def make(script):
        path = tmp_path / "engine"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv(ENGINE_VARIABLE, str(path))
        return path

    return make


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_engine_that_comes_along_is_found_though_its_folder_is_not_on_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert [path.name for path in engines()] == ["graphviz-pure"]
    assert "</svg>" in layout(DOT)


def test_the_variable_comes_first(engine):
    path = engine("echo '<svg></svg>'")
    assert engines() == [path]
    assert layout(DOT).strip() == "<svg></svg>"


def test_a_program_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "no-such-dot")
    with pytest.raises(RenderError, match="PLANBENCH_DOT is 'no-such-dot'"):
        layout(DOT)


def test_an_engine_that_fails_is_named_with_what_it_said(engine):
    engine("echo 'syntax error near line 1' >&2; exit 1")
    with pytest.raises(RenderError, match="engine: syntax error near line 1"):
        layout(DOT)


def test_an_engine_that_cannot_start_is_an_error_with_its_reason(engine):
    path = engine("")
    path.write_bytes(b"\x7fELF no program")
    with pytest.raises(RenderError, match="no drawing: engine: "):
        layout(DOT)


def test_without_any_engine_the_way_to_one_is_told(monkeypatch):
    monkeypatch.setattr(module, "_bundled", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RenderError, match="there is no Graphviz") as caught:
        layout(DOT)
    assert "pip install graphviz-pure" in caught.value.hint


def test_the_next_engine_is_tried_when_one_gives_nothing(monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    good = module._bundled()
    monkeypatch.setattr(module, "engines", lambda: [broken, good])
    assert "</svg>" in layout(DOT)


def test_a_layout_that_takes_too_long_is_killed(engine, tmp_path):
    pid = tmp_path / "pid"
    engine(f"echo $$ > {pid}; exec sleep 600")
    with pytest.raises(RenderError, match=r"took longer than 3 s"):
        layout(DOT, timeout=3)
    assert not is_alive(int(pid.read_text()))


def test_a_cancelled_layout_is_killed(engine, tmp_path):
    pid = tmp_path / "pid"
    engine(f"echo $$ > {pid}; exec sleep 600")

    async def main():
        task = asyncio.create_task(layout_async(DOT, timeout=60))
        await asyncio.to_thread(wait_for, lambda: pid.exists() and pid.read_text().strip())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    wait_for(lambda: not is_alive(int(pid.read_text())))


def test_the_loop_goes_on_while_a_layout_is_made(engine):
    engine("sleep 0.3; echo '<svg></svg>'")

    async def main():
        task = asyncio.create_task(layout_async(DOT))
        turns = 0
        while not task.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert "</svg>" in await task
        return turns

    assert asyncio.run(main()) > 3


def test_one_graph_is_laid_out_once(engine, tmp_path):
    calls = tmp_path / "calls"
    engine(f"echo x >> {calls}; echo '<svg></svg>'")
    first = layout(DOT)
    assert layout(DOT) == first
    assert asyncio.run(layout_async(DOT)) == first
    layout(DOT + " ")
    assert calls.read_text().count("x") == 2


def test_the_cache_is_bounded(monkeypatch):
    cache = module._Cache()
    for i in range(200):
        cache.put(str(i), "x" * 10)
    assert cache.get("0") is None
    assert cache.get("199") == "x" * 10
    monkeypatch.setattr(module, "_CACHED_CHARACTERS", 25)
    cache.put("new", "y" * 10)
    assert cache.get("new") == "y" * 10
    assert len(cache._kept) == 2


def test_a_text_that_is_no_graph_is_an_error_and_not_a_drawing():
    with pytest.raises(RenderError, match="no drawing"):
        layout("this is no graph {")


def test_no_file_is_left_where_the_layout_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout(DOT)
    assert list(Path().iterdir()) == []
