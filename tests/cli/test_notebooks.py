from __future__ import annotations

import nbformat
import pytest

from planbench.cli import notebooks
from planbench.errors import CommandError, ConfigurationError, PlanbenchError


def write(file, *sources, tagged=None):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    if tagged is not None:
        cells[tagged].metadata.tags = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)
    return file


@pytest.mark.kernel
def test_values_come_behind_the_cell_of_the_parameters(tmp_path):
    source = write(tmp_path / "a.ipynb", "1", "x = 'default'", "print(x)", tagged=1)

    notebooks.execute(source, tmp_path / "b.ipynb", {"x": "it's given"})

    cells = nbformat.read(tmp_path / "b.ipynb", as_version=4).cells
    assert [cell.metadata.get("tags") for cell in cells] == [
        None,
        ["parameters"],
        ["injected-parameters"],
        None,
    ]
    assert cells[3].outputs[0].text == "it's given\n"


@pytest.mark.kernel
def test_a_cell_that_fails_is_named_and_what_was_done_is_kept(tmp_path):
    source = write(tmp_path / "a.ipynb", "print('before')", "1 / 0", "print('never')")

    with pytest.raises(PlanbenchError, match="ZeroDivisionError"):
        notebooks.execute(source, tmp_path / "b.ipynb", {})

    cells = nbformat.read(tmp_path / "b.ipynb", as_version=4).cells
    assert cells[0].outputs[0].text == "before\n"
    assert cells[2].outputs == []


def test_a_kernel_that_dies_is_said_with_its_last_words(tmp_path):
    source = write(
        tmp_path / "a.ipynb",
        "import os, sys\nprint('last words', file=sys.__stderr__, flush=True)\nos._exit(1)",
    )

    with pytest.raises(PlanbenchError) as caught:
        notebooks.execute(source, tmp_path / "b.ipynb", {})

    assert "was not executed to its end" in caught.value.message
    assert "last words" in caught.value.hint


def test_without_the_extra_it_says_what_to_install(monkeypatch, tmp_path):
    def no_such(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(notebooks.importlib, "import_module", no_such)

    with pytest.raises(ConfigurationError) as caught:
        notebooks.execute(tmp_path / "a.ipynb", tmp_path / "b.ipynb", {})

    assert "planbench[lab]" in str(caught.value)


def test_a_notebook_that_is_not_there_is_said():
    with pytest.raises(CommandError, match=r"none\.ipynb"):
        notebooks.find("none.ipynb")

    assert notebooks.find("02_daily_security_sweep.ipynb").is_file()
