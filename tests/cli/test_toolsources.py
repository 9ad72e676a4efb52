from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from planbench.cli import toolsources
from planbench.cli.toolsources import collect
from planbench.errors import CommandError


def extend(file, text):
    file.write_text(file.read_text() + text)


def test_without_any_source_there_is_no_registry(project):
    assert collect([], project) is None


def test_a_module_of_the_working_folder_gives_its_public_functions(project):
    registry = collect(["own_tools"], project)

    assert {"numbers", "square", "boom"} <= set(registry.names())


@pytest.mark.parametrize(
    ("attribute", "names"),
    [("one", ["one"]), ("several", ["one", "two"]), ("kit", ["look"]), ("holder.one", ["one"])],
)
def test_an_attribute_may_be_a_function_a_list_or_a_toolkit(project, attribute, names):
    (project / "other_tools.py").write_text(
        "from types import SimpleNamespace\n"
        "def one(): return 1\n"
        "def two(): return 2\n"
        "class Kit:\n"
        "    async def look(self): return 3\n"
        "several, kit, holder = [one, two], Kit(), SimpleNamespace(one=one)\n"
    )

    assert collect([f"other_tools:{attribute}"], project).names() == names


def test_the_project_names_its_tools_in_pyproject(project):
    (project / "pyproject.toml").write_text('[tool.planbench]\ntools = ["own_tools:numbers"]\n')

    assert collect([], project).names() == ["numbers"]


def test_what_is_named_later_replaces_a_tool_of_the_same_name(project):
    (project / "pyproject.toml").write_text('[tool.planbench]\ntools = ["own_tools:numbers"]\n')
    (project / "other_tools.py").write_text("def numbers(): return 'other'\n")

    registry = collect(["other_tools"], project)

    assert registry.get_tool("numbers").module == "other_tools"


def test_installed_packages_give_tools_by_their_entry_points(project, monkeypatch, capsys):
    points = [
        EntryPoint("good", "own_tools:numbers", "planbench.tools"),
        EntryPoint("bad", "no_such_module_at_all", "planbench.tools"),
    ]
    monkeypatch.setattr(toolsources, "entry_points", lambda group: points)

    assert collect([], project).names() == ["numbers"]
    assert "the entry point 'bad' gives no tools" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("no_such_module_at_all", "there is no module 'no_such_module_at_all'"),
        ("own_tools.py", "did you mean own_tools?"),
        ("./own_tools.py", "did you mean own_tools?"),
        ("own_tools:nmbers", "did you mean 'numbers'?"),
        ("own_tools:CALLS.append.x", "no attribute"),
        ("", "names no module"),
        ("other_broken", "ZeroDivisionError: division by zero (other_broken.py, line 2)"),
        ("other_syntax", "SyntaxError"),
        ("other_leaves", "SystemExit"),
        ("other_needs", "No module named 'no_such_module_at_all'"),
        ("other_empty", "gives no tools"),
        ("own_tools:TEXT", "gives no tools"),
    ],
)
def test_a_source_that_cannot_be_had_says_why(project, source, said):
    extend(project / "own_tools.py", "\nTEXT = 'text'\n")
    (project / "other_broken.py").write_text("x = 1\n1 / 0\n")
    (project / "other_syntax.py").write_text("def (:\n")
    (project / "other_leaves.py").write_text("raise SystemExit(0)\n")
    (project / "other_needs.py").write_text("import no_such_module_at_all\n")
    (project / "other_empty.py").write_text("x = 1\n")

    with pytest.raises(CommandError) as caught:
        collect([source], project)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text", ["tool = [", '[tool.planbench]\ntools = "own_tools"\n', "[tool]\nplanbench = 3\n"]
)
def test_a_project_file_that_is_wrong_is_said(project, text):
    (project / "pyproject.toml").write_text(text)

    with pytest.raises(CommandError, match=r"pyproject\.toml"):
        collect([], project)


def test_what_a_module_prints_when_it_is_imported_stays_out_of_the_answer(project, capsys):
    (project / "other_loud.py").write_text("print('hello')\ndef one(): return 1\n")

    collect(["other_loud"], project)

    said = capsys.readouterr()
    assert said.out == ""
    assert "hello" in said.err
