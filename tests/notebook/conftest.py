from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from planbench.notebook.extension import load_ipython_extension, unload_ipython_extension
from planbench.workbench import Workbench, get_workbench

TOOLS = """
from planbench.tools import tool
CALLS = []

@tool
def fetch(key: str, limit: int = 10) -> dict:
    "Fetch it."
    CALLS.append((key, limit))
    return {"key": key, "limit": limit}

@tool
def score(value: dict, words: list[str] | None = None) -> float:
    "Score it."
    return 1.0

@tool
def boom() -> None:
    "Fail."
    raise ValueError("it went off")
"""

SWEEP = """\
# the sweep of every morning
name: sweep
objective: Find what is new   # since yesterday
params:
  limit: {type: int, default: 5}
nodes:
  - id: reports   # where they are
    tool: fetch
    args: {key: x, limit: "{params.limit}"}
  - id: rated
    tool: score
    args: {value: "{artifacts.reports}", words: [a, b]}   # in this order
"""


class Cells:
    """A notebook in a folder of its own; gives what a cell showed, and the error that it ended with."""

    def __init__(self, shell, folder):
        self.shell = shell
        self.plans = folder / "plans"
        self.outputs = []
        self.stderr = ""

    @property
    def bench(self):
        return get_workbench()

    def run(self, cell):
        with capture_output() as shown:
            result = self.shell.run_cell(cell)
        self.outputs = [output.data for output in shown.outputs]
        self.stderr = shown.stderr
        text = "\n".join(data.get("text/plain", "") for data in self.outputs)
        return text, result.error_before_exec or result.error_in_exec

    def ok(self, cell):
        text, error = self.run(cell)
        assert error is None, error
        return text

    def fails(self, cell):
        _, error = self.run(cell)
        assert error is not None
        return error

    def write(self, name, text=SWEEP):
        self.plans.mkdir(exist_ok=True)
        (self.plans / f"{name}.yaml").write_text(text, encoding="utf-8")

    def read(self, name):
        return (self.plans / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """A shell in a folder of its own, with the extension loaded and no tools."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLANBENCH_STRICT", raising=False)
    monkeypatch.setattr("planbench.workbench._workbench", Workbench())
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    load_ipython_extension(shell)
    yield shell
    unload_ipython_extension(shell)
    InteractiveShell.clear_instance()


@pytest.fixture
def cells(loaded, tmp_path):
    """A notebook with three tools."""
    loaded.run_cell(TOOLS).raise_error()
    return Cells(loaded, tmp_path)


@pytest.fixture
def sweep():
    """A plan that the tools fit, with comments and a layout of its own."""
    return SWEEP
