from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import planbench

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "planbench"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

NAMES = """
    tool Tool ToolRegistry ToolResult
    ExecutionPlan PlanNode ForEach FacetSpec RetryPolicy PlanMetadata
    ArtifactRef ExecutionManifest PlanRunManifest
    check_plan load_plan validate_plan ValidationReport ValidationIssue PlanInvalid
    WorkingMemory Engine Run Outcome Event run_plan run_sync CheckpointStore open_store
    PlanFileStore PlanLoadError Workbench get_workbench PlanbenchError
"""

HEAVY = ["pandas", "pyarrow", "numpy", "openai", "IPython", "ipywidgets", "anywidget", "networkx"]
HEAVY += ["graphviz", "dask", "redis", "pymongo", "psycopg", "rich", "jsonschema", "jupyter_server"]


def fresh(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NAMES.split())
def test_a_promised_name_is_there(name):
    assert name in planbench.__all__
    assert getattr(planbench, name) is not None


def test_all_lists_what_the_package_gives_and_dir_shows_it():
    assert len(set(planbench.__all__)) == len(planbench.__all__)
    assert set(planbench.__all__) <= set(dir(planbench))
    for name in planbench.__all__:
        assert getattr(planbench, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        planbench.no_such_name  # noqa: B018 - looking it up is the matter


def test_importing_the_package_loads_nothing_heavy():
    loaded = fresh("import planbench, sys, json; print(json.dumps(sorted(sys.modules)))")

    assert not set(HEAVY) & set(json.loads(loaded))


def test_a_plan_is_checked_and_run_without_loading_pandas_or_jupyter():
    loaded = fresh(
        "import json, sys\n"
        "from planbench import ToolRegistry, load_plan, run_sync\n"
        "def one() -> int:\n"
        "    return 1\n"
        "plan = load_plan('name: p\\nobjective: o\\nnodes:\\n  - {id: a, tool: one}\\n')\n"
        "assert run_sync(plan, registry=ToolRegistry([one])).status == 'completed'\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )

    assert not {"pandas", "IPython", "ipywidgets", "jupyter_server"} & set(json.loads(loaded))


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_the_version_is_the_same_everywhere():
    assert PROJECT["project"]["version"] == planbench.__version__
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_example_of_the_readme_prints_what_the_readme_says(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program, said = re.search(
        r"```python\n(.*?)```.*?```text\n(.*?)```", readme, re.DOTALL
    ).groups()
    file = tmp_path / "example.py"
    file.write_text(program, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", file], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.stdout == said


def test_the_readme_points_at_files_that_are_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^)#:]+)\)", readme) + re.findall(r"`(notebooks/[^`]+)`", readme)

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_module_imports_only_from_the_layers_below_its_own(monkeypatch, capsys):
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)

    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_module_holds_one_idea_and_says_which(file):
    text = file.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= 420
    assert file.stem not in {"utils", "helpers", "common", "misc"}
    assert not text.strip() or ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_check_that_is_silenced_has_its_reason_beside_it(file):
    for line in file.read_text(encoding="utf-8").splitlines():
        silenced = re.search(r"# (?:noqa: [A-Z0-9, ]+|type: ignore\[[^]]*\])(.*)", line)
        if silenced:
            assert re.search(r"[-#] \S+ \S", silenced.group(1)), line


def test_installing_the_package_enables_the_server_extension():
    [(source, target)] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"][
        "shared-data"
    ].items()
    config = json.loads((ROOT / source).read_text(encoding="utf-8"))

    assert target.startswith("etc/jupyter/jupyter_server_config.d/")
    assert config["ServerApp"]["jpserver_extensions"] == {"planbench.server": True}


def test_nothing_but_the_server_package_knows_jupyter_server():
    knows = [
        file.relative_to(PACKAGE).parts[0]
        for file in MODULES
        if re.search(
            r"^\s*(?:from|import) jupyter_server", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]

    assert set(knows) == {"server"}
