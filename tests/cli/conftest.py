from __future__ import annotations

import sys

import pytest

from planbench.cli import main

TOOLS = '''
import asyncio
import time

from planbench import tool

CALLS = []


@tool
def numbers(n: int = 3) -> list[int]:
    """The first numbers."""
    CALLS.append("numbers")
    return list(range(n))


@tool
async def square(x: int) -> dict:
    """A number and its square."""
    return {"x": x, "square": x * x}


@tool
def picky(x: int) -> int:
    """Takes every number but 1."""
    if x == 1:
        raise ValueError("1 is not to my taste")
    return x


@tool
def boom(text: str = "boom") -> int:
    """Fails."""
    raise RuntimeError(text)


@tool
async def wait(seconds: float) -> float:
    """Waits."""
    await asyncio.sleep(seconds)
    return seconds


@tool
def block(seconds: float) -> float:
    """Waits and holds its thread."""
    time.sleep(seconds)
    return seconds


def helper():
    raise AssertionError("no tool")
'''

SQUARES = """\
name: squares
objective: Square some numbers
nodes:
  - {id: numbers, tool: numbers, args: {n: 3}, facets: {counts: {n: "[]"}}}
  - id: squares
    tool: square
    depends_on: [numbers]
    for_each: {source: "{artifacts.numbers}"}
    args: {x: "{item}"}
"""

LOSSY = SQUARES.replace("tool: square\n", "tool: picky\n")

RED = """\
name: red
objective: Fail
nodes:
  - {id: numbers, tool: numbers}
  - {id: last, tool: boom, depends_on: [numbers]}
  - {id: behind, tool: numbers, depends_on: [last]}
"""

BROKEN = """\
name: broken
objective: Be wrong
nodes:
  - {id: a, tool: numbrs}
  - {id: b, tool: numbers, depends_on: [nobody]}
"""

PARAMS = """\
name: params
objective: Take a parameter
params:
  n: {type: int}
nodes:
  - {id: numbers, tool: numbers, args: {n: "{params.n}"}}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder with tools in ``own_tools.py`` and plans in ``plans``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("PLANBENCH_STRICT", raising=False)
    (tmp_path / "own_tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "plans").mkdir()
    plans = {"squares": SQUARES, "lossy": LOSSY, "red": RED, "broken": BROKEN, "params": PARAMS}
    for name, text in plans.items():
        (tmp_path / "plans" / f"{name}.yaml").write_text(text, encoding="utf-8")
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith(("own_", "other_")):
            del sys.modules[name]


@pytest.fixture
def command(project, capsys):
    """Runs a command line in the project; gives its exit code, output and errors."""

    def call(*words):
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def with_tools(command):
    """As ``command``, with the tools of the project."""

    def call(name, plan, *words):
        return command(name, plan, "--tools", "own_tools", *words)

    return call
