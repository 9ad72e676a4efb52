from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest


def extend(file, text):
    file.write_text(file.read_text() + text)


def test_a_sound_plan_is_fine(with_tools):
    code, out, err = with_tools("validate", "squares")

    assert (code, err) == (0, "")
    assert out == f"{Path('plans', 'squares.yaml')}: ok, 2 nodes\n"


def test_every_finding_is_a_line_with_file_line_and_column(with_tools):
    code, out, err = with_tools("validate", "plans/broken.yaml")

    assert (code, err) == (2, "")
    assert "plans/broken.yaml:4:" in out
    assert "[unknown_tool]" in out
    assert "did you mean 'numbers'?" in out
    assert "plans/broken.yaml:5:" in out
    assert "[unknown_dependency]" in out
    assert out.endswith("plans/broken.yaml: 2 errors\n")


def test_the_report_as_json_is_all_that_is_printed(with_tools, project):
    extend(project / "own_tools.py", "\nprint('imported')\n")

    code, out, _ = with_tools("validate", "broken", "--json")

    report = json.loads(out)
    assert code == 2
    assert report["ok"] is False
    assert {issue["code"] for issue in report["issues"]} == {"unknown_tool", "unknown_dependency"}


def test_without_tools_the_rest_is_checked_and_the_report_says_so(command):
    code, out, _ = command("validate", "squares")

    assert code == 0
    assert "[no_registry]" in out
    assert "ok, 2 nodes, 1 warning" in out


def test_parameters_may_stay_open_in_a_check(with_tools):
    assert with_tools("validate", "params")[0] == 0
    assert with_tools("validate", "params", "--param", "n=4")[0] == 0
    code, out, _ = with_tools("validate", "params", "--param", "m=4")
    assert code == 2
    assert "[unused_param]" in out


def test_a_run_tells_when_a_node_starts_and_when_it_has_ended(with_tools):
    code, out, err = with_tools("run", "squares")

    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [line[:2] for line in lines[:4]] == [
        ["numbers", "started"],
        ["numbers", "ok"],
        ["squares", "started"],
        ["squares", "ok"],
    ]
    assert "3 of 3 items" in out
    assert "squares: completed, 2 of 2 nodes ok" in out


def test_a_red_node_is_one_short_block_with_node_tool_and_cause(with_tools):
    code, out, err = with_tools("run", "red")

    assert code == 1
    assert "red: partial" in out
    assert err.splitlines()[0] == "planbench: red is partial"
    assert "node 'last' (boom)" in err
    assert "RuntimeError: boom" in err
    assert "behind" in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 4


def test_errors_may_be_allowed(with_tools):
    code, _, err = with_tools("run", "red", "--allow-errors")

    assert code == 0
    assert "node 'last' (boom)" in err


def test_lost_items_are_a_warning_and_red_when_strict(with_tools, monkeypatch):
    code, out, err = with_tools("run", "lossy")
    assert code == 0
    assert "2 of 3 items" in out
    assert err.startswith("planbench: warning: squares is partial")
    assert "1 is not to my taste" in err

    assert with_tools("run", "lossy", "--strict")[0] == 1
    monkeypatch.setenv("PLANBENCH_STRICT", "1")
    assert with_tools("run", "lossy")[0] == 1
    assert with_tools("run", "lossy", "--allow-errors")[0] == 0


def test_a_wrong_plan_is_not_run(with_tools):
    code, out, err = with_tools("run", "broken")

    assert (code, out) == (2, "")
    assert "plan 'broken' has 2 errors" in err
    assert sys.modules["own_tools"].CALLS == []


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ([], "missing_param"),
        (["--param", "n=many"], "bad_param"),
        (["--param", "n=1", "--param", "other=1"], "unused_param"),
        (["--param", "n"], "NAME=VALUE"),
        (["--param", "n=1", "--param", "n=2"], "given twice"),
    ],
)
def test_parameters_that_do_not_fit_end_before_anything_is_called(with_tools, params, said):
    code, out, err = with_tools("run", "params", *params)

    assert (code, out) == (2, "")
    assert said in err


def test_a_parameter_has_the_type_that_the_plan_declares(with_tools, project):
    code, _, _ = with_tools("run", "params", "--param", "n=2", "--json", "m.json")

    assert code == 0
    assert json.loads((project / "m.json").read_text())["status"] == "completed"


def test_the_manifest_on_the_standard_output_is_alone_there(with_tools):
    code, out, err = with_tools("run", "squares", "--json", "-")

    assert code == 0
    manifest = json.loads(out)
    assert manifest["items"]["squares"]["ok"] == 3
    assert "squares: completed" in err


def test_the_page_of_a_run_shows_graph_and_tables(with_tools, project):
    code, out, _ = with_tools("run", "lossy", "--html", "lossy.html")

    page = (project / "lossy.html").read_text(encoding="utf-8")
    assert code == 0
    assert "wrote lossy.html" in out
    assert "<svg" in page
    assert "1 is not to my taste" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/", "")


def test_a_file_that_cannot_be_written_is_refused_before_the_run(with_tools):
    for flag in ("--html", "--json"):
        code, out, err = with_tools("run", "squares", flag, "no/such/folder/x")
        assert (code, out) == (2, "")
        assert "there is no folder" in err
    assert sys.modules.get("own_tools") is None


def test_a_run_without_any_tools_says_how_to_name_them(command):
    code, _, err = command("run", "squares")

    assert code == 2
    assert "--tools MODULE" in err


def test_what_cannot_run_yet_is_refused_with_a_code(with_tools, project):
    plan = project / "plans" / "asks.yaml"
    plan.write_text("name: a\nobjective: o\nnodes:\n  - {id: a, tool: numbers, approve: sure?}\n")

    code, _, err = with_tools("run", "asks")

    assert code == 2
    assert err.startswith("planbench: approval_not_available: node 'a'")


def test_a_plan_comes_from_the_standard_input_too(with_tools, project, monkeypatch):
    text = (project / "plans" / "squares.yaml").read_text()
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    assert with_tools("run", "-")[0] == 0


def test_a_plan_that_is_not_there_names_near_ones(with_tools):
    code, _, err = with_tools("run", "squars")
    assert code == 2
    assert "squares" in err

    code, _, err = with_tools("run", "plans/none.yaml")
    assert code == 2
    assert "none.yaml" in err


def test_another_folder_of_plans_may_be_named(with_tools, project):
    (project / "plans").rename(project / "others")

    assert with_tools("validate", "squares")[0] == 2
    assert with_tools("validate", "squares", "--plans-dir", "others")[0] == 0


@pytest.mark.parametrize(
    ("ending", "holds"),
    [("svg", "<svg"), ("html", "<!doctype html>"), ("dot", "digraph"), ("txt", "numbers")],
)
def test_the_ending_says_which_picture_is_written(command, project, ending, holds):
    file = project / f"p.{ending}"

    code, out, _ = command("render", "squares", "-o", file)

    assert code == 0
    assert out == f"wrote {file}\n"
    assert holds in file.read_text(encoding="utf-8")


def test_a_wrong_plan_is_drawn_with_its_errors_marked(with_tools, project):
    code, _, err = with_tools("render", "broken", "-o", "b.svg")

    assert code == 2
    assert "[unknown_tool]" in err
    assert "pb-invalid" in (project / "b.svg").read_text(encoding="utf-8")


def test_text_that_holds_no_plan_is_no_picture(command, project):
    (project / "plans" / "no.yaml").write_text("just text\n")

    code, _, err = command("render", "no", "-o", "n.svg")

    assert code == 2
    assert "planbench: " in err
    assert not (project / "n.svg").exists()


def test_an_unknown_picture_is_refused(command):
    code, _, err = command("render", "squares", "-o", "p.png")

    assert code == 2
    assert ".svg" in err


def test_a_command_that_is_wrong_is_two_lines(command):
    code, out, err = command("run", "squares", "--stric")

    assert (code, out) == (2, "")
    assert err == "planbench: there is no argument '--stric'\n  did you mean '--strict'?\n"


def test_text_of_a_tool_never_steers_the_terminal(with_tools, project):
    plan = (project / "plans" / "red.yaml").read_text()
    nasty = '"\\e]0;title\\a\\e[2J [bold]x[/bold]"'
    (project / "plans" / "nasty.yaml").write_text(
        plan.replace("tool: boom,", f"tool: boom, args: {{text: {nasty}}},")
    )

    code, out, err = with_tools("run", "nasty")

    assert code == 1
    assert "\x1b" not in out + err
    assert "[bold]x[/bold]" in err


def test_findings_of_a_plan_named_by_its_name_have_the_path_of_its_file(with_tools):
    code, out, _ = with_tools("validate", "broken")

    assert code == 2
    assert f"{Path('plans', 'broken.yaml')}:4:" in out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_plan_is_read_from_a_pipe_which_gives_its_text_once(with_tools, tmp_path):
    text = Path("plans", "squares.yaml").read_bytes()
    for command in ("validate", "run"):
        pipe = tmp_path / f"{command}.pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(text,))
        writer.start()
        code, _, err = with_tools(command, str(pipe))
        writer.join()
        assert (code, err) == (0, "")


def test_a_parameter_that_nothing_reads_has_no_line(with_tools):
    code, out, _ = with_tools("validate", "squares", "--param", "zz=1")

    assert code == 2
    assert f"{Path('plans', 'squares.yaml')}: error: param 'zz' is given" in out


def test_a_check_lists_the_edges_that_nobody_wrote(with_tools, project):
    file = project / "plans" / "squares.yaml"
    file.write_text(file.read_text().replace("    depends_on: [numbers]\n", ""))

    code, out, _ = with_tools("validate", "squares")

    assert code == 0
    assert out.splitlines() == [
        f"{Path('plans', 'squares.yaml')}: note: node 'squares' waits for numbers, which it reads [inferred]",
        f"{Path('plans', 'squares.yaml')}: ok, 2 nodes",
    ]
    report = json.loads(with_tools("validate", "squares", "--json")[1])
    assert report["inferred"] == {"squares": ["numbers"]}


def test_a_plan_that_needs_no_value_is_checked_with_its_defaults(with_tools, project):
    plan = (project / "plans" / "params.yaml").read_text()
    (project / "plans" / "bad.yaml").write_text(plan.replace("{type: int}", "{default: many}"))
    code, said, _ = with_tools("validate", "bad")
    assert code == with_tools("run", "bad")[0] == 2
    assert "[bad_arg_type]" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_an_output_that_cannot_be_written_is_red_and_one_line(project):
    words = [sys.executable, "-m", "planbench", "schema"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("planbench: the output: ")
    assert "Traceback" not in done.stderr
