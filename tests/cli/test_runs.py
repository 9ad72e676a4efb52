"""``planbench show`` and ``planbench resume`` on files of runs, and runs that are saved when they end."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from planbench import open_run

MENDED = """
from planbench import tool
from own_tools import CALLS, numbers


@tool
def boom(text: str = "boom") -> int:
    "Works now."
    CALLS.append("boom")
    return 5
"""


@pytest.fixture
def red(with_tools, project, monkeypatch):
    """The red plan of the project, run and saved."""
    monkeypatch.setenv("PLANBENCH_SAVE", f"on-failure:{project / 'failed'}")
    code, _, said = with_tools("run", "red")
    assert code == 1
    monkeypatch.delenv("PLANBENCH_SAVE")
    (path,) = (project / "failed").glob("*.planrun")
    assert f"planbench: saved {path} and {path.stem}.html" in said
    assert "red is partial" in said
    assert path.with_suffix(".html").exists()
    return path


def test_a_run_is_shown_as_text_with_what_is_red(command, red):
    code, said, errors = command("show", red)
    assert (code, errors) == (0, "")
    assert "red: partial, 1 of 3 nodes ok" in said
    assert "[error]    last" in said
    assert "node 'last' (boom): RuntimeError: boom" in said
    assert "never dispatched behind them: behind" in said


def test_the_events_are_told_a_line_each(command, red):
    code, said, _ = command("show", red, "--events")
    lines = said.splitlines()
    assert code == 0
    assert len(lines) == len(open_run(red).run.events)
    assert "run.started" in lines[0]
    assert any("node.failed" in line and "last  RuntimeError: boom" in line for line in lines)


def test_a_node_is_told_with_arguments_errors_and_rows(command, red):
    code, said, _ = command("show", red, "--node", "numbers")
    assert code == 0
    assert "numbers (numbers): ok" in said
    assert "result, 3 of 3 rows:" in said
    _, said, _ = command("show", red, "--node", "last")
    assert "last (boom): error" in said
    assert "RuntimeError: boom" in said
    code, _, errors = command("show", red, "--node", "lats")
    assert code == 2
    assert "last" in errors


def test_a_page_is_written(command, red, project):
    code, said, _ = command("show", red, "--html", "page.html", "--data", "full")
    assert (code, said) == (0, "wrote page.html\n")
    assert "RuntimeError: boom" in (project / "page.html").read_text()


def test_a_result_is_taken_out_as_what_it_is(command, with_tools, project, monkeypatch):
    (project / "own_more.py").write_text(
        "import pandas as pd\n"
        "def frame() -> object: return pd.DataFrame({'a': [1, 2]})\n"
        "def text() -> str: return 'sign \\u2713'\n"
        "def blob() -> bytes: return b'\\0\\xff'\n"
        "def odd() -> tuple: return ({1},)\n"
    )
    (project / "plans" / "all.yaml").write_text(
        "name: all\nobjective: o\nnodes:\n"
        + "".join(
            f"  - {{id: {name}, tool: {name}}}\n" for name in ("frame", "text", "blob", "odd")
        )
        + '  - {id: each, tool: square, for_each: {source: "{artifacts.n}"}, args: {x: "{item}"}}\n'
        + "  - {id: n, tool: numbers}\n"
    )
    monkeypatch.setenv("PLANBENCH_SAVE", "always:runs")
    assert with_tools("run", "all", "--tools", "own_more")[0] == 0
    (path,) = (project / "runs").glob("*.planrun")

    def out(key, name):
        code, said, errors = command("show", path, "--artifact", key, "--out", name)
        assert (code, said) == (0, f"wrote {name}\n"), errors
        return project / name

    assert pd.read_csv(out("frame", "f.csv")).to_dict("list") == {"a": [1, 2]}
    assert pd.read_parquet(out("frame", "f.parquet")).to_dict("list") == {"a": [1, 2]}
    assert json.loads(out("frame", "f.json").read_text()) == [{"a": 1}, {"a": 2}]
    assert out("text", "t.txt").read_text(encoding="utf-8") == "sign \u2713"
    assert out("blob", "b.bin").read_bytes() == b"\0\xff"
    assert json.loads(out("each", "e.json").read_text())[2] == {"x": 2, "square": 4}
    assert json.loads(out("each.1", "e1.json").read_text()) == {"x": 1, "square": 1}
    assert pd.read_csv(out("each", "e.csv"))["square"].tolist()[:3] == [0, 1, 4]
    assert pd.read_parquet(out("each.1", "e1.parquet")).to_dict("list") == {"x": [1], "square": [1]}
    code, _, errors = command("show", path, "--artifact", "odd", "--out", "o.json")
    assert code == 2
    assert "no file can hold as it is" in errors


def test_a_result_that_is_not_there_is_a_wrong_command(command, red):
    code, _, errors = command("show", red, "--artifact", "nope", "--out", "x.json")
    assert code == 2
    assert "nothing is stored under 'nope'" in errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--artifact", "numbers"], "--artifact and --out go together"),
        (["--out", "x"], "--artifact and --out go together"),
        (["--html", "no/x.html"], "there is no folder"),
        (["--events", "--node", "a"], "not allowed with argument"),
        (["--data", "some"], "invalid choice"),
        (["--data", "full"], "write it with --html OUT --data full"),
        (["--node", "zzz"], "it has numbers, last, behind"),
    ],
)
def test_words_that_do_not_go_together_are_refused(command, red, words, said):
    code, _, errors = command("show", red, *words)
    assert code == 2
    assert said in errors


@pytest.mark.parametrize("name", ["show", "resume"])
def test_what_is_no_file_of_a_run_is_a_wrong_command(command, project, name):
    for word, said in (("run_12ab", "there is no run 'run_12ab'"), ("no.planrun", "No such file")):
        tools = ["--tools", "own_tools"] if name == "resume" else []
        code, _, errors = command(name, word, *tools)
        assert code == 2
        assert said in errors
        assert errors.count("\n") > 1, "what to do next is missing"
    (project / "bad.planrun").write_bytes(b"PK")
    code, _, errors = command(name, "bad.planrun")
    assert code == 2
    assert "is no run file that can be read" in errors


def test_a_run_is_resumed_with_a_mended_tool_and_what_it_has_is_not_called_again(
    command, red, project
):
    (project / "own_mended.py").write_text(MENDED)
    import own_tools

    own_tools.CALLS.clear()
    code, said, errors = command(
        "resume",
        red,
        "--tools",
        "own_tools",
        "--tools",
        "own_mended:boom",
        "--save",
        "green.planrun",
        "--html",
        "g.html",
    )
    assert code == 0, errors
    assert "red: completed, 3 of 3 nodes ok" in said
    assert own_tools.CALLS == ["boom", "numbers"]  # the node that failed, and the one behind it
    saved = open_run(project / "green.planrun")
    assert saved.run.manifest().parent_run_id == open_run(red).run_id
    assert "Lineage" in (project / "g.html").read_text()


def test_a_run_that_is_red_again_exits_red(command, red):
    code, _, errors = command("resume", red, "--tools", "own_tools")
    assert code == 1
    assert "node 'last' (boom): RuntimeError: boom" in errors
    assert command("resume", red, "--tools", "own_tools", "--allow-errors")[0] == 0


def test_a_run_is_resumed_with_an_edited_plan_and_its_parameters(command, red, project):
    text = (project / "plans" / "red.yaml").read_text()
    text = text.replace("tool: boom, ", 'tool: numbers, args: {n: "{params.n}"}, ')
    (project / "mended.yaml").write_text(text + "params: {n: {type: int}}\n")
    code, said, errors = command(
        "resume",
        red,
        "--with",
        "mended.yaml",
        "--param",
        "n=2",
        "--tools",
        "own_tools",
        "--save",
        "2.planrun",
    )
    assert code == 0, errors
    assert "completed" in said
    assert open_run(project / "2.planrun").run.value("last") == [0, 1]


def test_a_resumed_run_is_saved_at_its_end_where_that_is_wanted(command, red, monkeypatch):
    monkeypatch.setenv("PLANBENCH_SAVE", "on-failure:again")
    code, _, errors = command("resume", red, "--tools", "own_tools")
    assert code == 1
    assert "planbench: saved again/red-run_" in errors


def test_a_resume_without_tools_or_with_others_calls_nothing(command, red, project):
    code, _, errors = command("resume", red)
    assert code == 2
    assert "nobody named the tools" in errors
    (project / "own_other.py").write_text("def other() -> int: return 1\n")
    code, _, errors = command("resume", red, "--tools", "own_other")
    assert code == 2
    assert "there is no tool" in errors


def test_more_than_the_limit_is_not_read(command, red):
    code, _, errors = command("resume", red, "--tools", "own_tools", "--max-bytes", "1")
    assert code == 2
    assert "restore_budget_exceeded" in errors


def test_a_run_that_is_green_has_nothing_to_resume(command, with_tools, project, monkeypatch):
    monkeypatch.setenv("PLANBENCH_SAVE", "always:runs")
    assert with_tools("run", "squares")[0] == 0
    (path,) = (project / "runs").glob("*.planrun")
    code, _, errors = command("resume", path, "--tools", "own_tools")
    assert code == 2
    assert "run_not_resumable" in errors


def test_lost_items_are_saved_as_a_failure_where_the_command_is_strict(
    with_tools, project, monkeypatch
):
    monkeypatch.setenv("PLANBENCH_SAVE", "on-failure:failed")
    assert with_tools("run", "lossy")[0] == 0
    assert not (project / "failed").exists()
    assert with_tools("run", "lossy", "--strict")[0] == 1
    assert len(list((project / "failed").iterdir())) == 2


def test_a_bad_value_of_the_variable_is_a_wrong_command(with_tools, monkeypatch):
    monkeypatch.setenv("PLANBENCH_SAVE", "sometimes:x")
    code, _, errors = with_tools("run", "squares")
    assert code == 2
    assert "PLANBENCH_SAVE" in errors


def test_a_parameter_without_a_mended_plan_is_refused(command, red):
    code, _, errors = command("resume", red, "--tools", "own_tools", "--param", "n=3")
    assert code == 2
    assert "add --with PLAN" in errors
