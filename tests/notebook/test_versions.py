from __future__ import annotations

import pytest

from planbench.errors import CommandError, PlanInvalid, PlanLoadError, RenderError
from planbench.notebook.versions import diff_bundle
from planbench.plan.diff import diff_plans


def test_the_plan_of_the_last_cell_is_saved_as_it_was_written(cells, sweep):
    cells.ok(f"%%plan\n{sweep}")
    assert cells.ok("%plan save sweep") == "saved sweep, version 1"
    assert cells.read("sweep") == sweep


def test_the_plan_of_the_last_cell_is_named_where_the_name_is_that_of_another(cells, sweep):
    cells.ok(f"%%plan\n{sweep}")
    said = "saved other, version 1: the plan 'sweep' of the last %%plan cell"
    assert cells.ok("%plan save other") == said


def test_of_a_pasted_answer_the_plan_alone_is_saved(cells, sweep):
    cells.ok(f"%%plan\nHere it is:\n\n```yaml\n{sweep}```\nShall I run it?\n")
    cells.ok("%plan save sweep")
    assert cells.read("sweep").strip() == sweep.strip()


def test_an_equal_text_makes_no_version_and_a_changed_one_does(cells, sweep):
    cells.ok(f"%%plan\n{sweep}")
    cells.ok("%plan save sweep")
    assert cells.ok("%plan save sweep") == "sweep is as it was, version 1"
    cells.ok(f"%%plan\n{sweep.replace('key: x', 'key: y')}")
    assert cells.ok("%plan save sweep") == "saved sweep, version 2"


def test_a_variable_is_saved_with_the_text_that_it_was_read_from(cells, sweep):
    cells.ok(f"%%plan first --param limit=7\n{sweep}")
    cells.ok(f"%%plan second\n{sweep.replace('key: x', 'key: y')}")
    cells.ok("%plan save kept first")
    assert cells.read("kept") == sweep  # and its parameters open, as they were written
    cells.ok("%plan save kept @second")
    assert "key: y" in cells.read("kept")


def test_a_variable_that_no_cell_wrote_is_written_out(cells):
    cells.ok("from planbench import Plan\nmade = Plan('made', 'o')\nmade.add(fetch, key='k')")
    cells.ok("%plan save made made")
    assert "tool: fetch" in cells.read("made")
    cells.ok("built = made.build()\n%plan save built built")
    assert cells.read("built") == cells.read("made")


def test_a_run_is_saved_as_it_was_written_when_that_is_still_what_ran(cells, sweep):
    cells.ok(f"%%plan r --run --param limit=7\n{sweep}")
    run_id = cells.shell.user_ns["r"].run_id
    cells.ok(f"%plan save one r\n%plan save two {run_id}")
    assert cells.read("one") == cells.read("two") == sweep


def test_a_run_of_a_file_that_was_edited_since_is_saved_as_it_ran(cells, sweep):
    cells.write("sweep")
    cells.ok("r = %plan run sweep --param limit=7")
    cells.ok("%plan save same r")
    assert cells.read("same") == sweep
    cells.write("sweep", sweep.replace("key: x", "key: other"))
    cells.ok("%plan save ran r")
    assert cells.bench.plans.load("ran") == cells.shell.user_ns["r"].plan


def test_a_former_version_is_brought_back_by_saving_it(cells, sweep):
    cells.bench.plans.save(sweep, "sweep")
    cells.bench.plans.save(sweep.replace("key: x", "key: y"), "sweep")
    assert cells.ok("%plan save sweep sweep@1") == "saved sweep, version 3"
    assert cells.read("sweep") == sweep


def test_a_plan_that_does_not_fit_the_tools_is_saved_only_by_force(cells, sweep):
    wrong = sweep.replace("tool: score", "tool: scoer")
    cells.run(f"%%plan\n{wrong}")
    error = cells.fails("%plan save sweep")
    assert isinstance(error, PlanInvalid)
    assert [issue.code for issue in error.issues] == ["unknown_tool"]
    assert not cells.plans.exists()
    assert "there is no tool 'scoer'" in cells.ok("%plan save sweep --force")
    assert cells.read("sweep") == wrong


@pytest.mark.parametrize("text", ["name: [", "", "no plan at all"])
def test_what_is_no_plan_is_never_saved(cells, sweep, text):
    cells.ok(f"%%plan\n{sweep}")
    cells.run(f"%%plan\n{text}")
    assert isinstance(cells.fails("%plan save sweep --force"), PlanInvalid)
    assert not cells.plans.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("save sweep", "no %%plan cell yet"),
        ("save sweep @nothing", "no plan '@nothing'"),
        ("save sweep nothing", "no plan 'nothing'"),
        ("save sweep CALLS", "no plan 'CALLS'"),
        ("save sweep@2 made", "asks for a version"),
        ("save sweep made --froce", "did you mean '--force'?"),
        ("save", "usage: %plan save"),
        ("diff made", "usage: %plan diff"),
        ("diff made nothing", "no plan 'nothing'"),
        ("diff made made --markdwon", "did you mean '--markdown'?"),
        ("history nothing", "no plan 'nothing'"),
    ],
)
def test_a_wrong_line_is_an_error_with_the_next_step(cells, line, said):
    cells.ok(
        "from planbench import load_plan\n"
        "made = load_plan('name: m\\nobjective: o\\nnodes: [{id: a, tool: boom}]')"
    )
    error = cells.fails(f"%plan {line}")
    assert isinstance(error, CommandError | PlanLoadError)
    assert said in str(error)


def test_the_history_is_a_table_with_the_oldest_version_first(cells, sweep):
    cells.bench.plans.save(sweep, "sweep")
    cells.bench.plans.save(sweep.replace("Find what is new", "Find all"), "sweep")
    cells.write("sweep", sweep.replace("Find what is new", "By hand"))
    cells.ok("t = %plan history sweep")
    table = cells.shell.user_ns["t"]
    assert list(table["version"]) == [1, 2, 3]
    assert list(table["objective"]) == ["Find what is new", "Find all", "By hand"]


def test_a_diff_is_told_in_words_and_drawn(cells, sweep):
    cells.bench.plans.save(sweep, "sweep")
    cells.bench.plans.save(sweep.replace("key: x", "key: <b>"), "sweep")
    text = cells.ok("%plan diff sweep@1 sweep")
    assert text == 'sweep: 1 node changed\n  ~ node reports\n      args.key: "x" -> "<b>"'
    shown = cells.outputs[0]
    assert 'class="pb-diff"' in shown["image/svg+xml"]
    assert shown["image/svg+xml"] in shown["text/html"]
    assert "&lt;b&gt;" in shown["text/html"]
    assert "<b>" not in shown["text/html"]


def test_a_diff_takes_variables_and_runs_as_they_ran(cells, sweep):
    cells.ok(f"%%plan first --run\n{sweep}")
    cells.ok(f"%%plan second --run --param limit=6\n{sweep}")
    run_id = cells.shell.user_ns["second"].run_id
    assert "args.limit: 5 -> 6" in cells.ok(f"%plan diff first {run_id}")
    assert "args.limit: 5 -> 6" in cells.ok(f"%plan diff @first {run_id[4:]}")


def test_a_diff_as_markdown_is_text_to_be_copied(cells, sweep):
    cells.write("sweep")
    cells.write("other", sweep.replace("key: x", "key: y"))
    text = cells.ok("%plan diff sweep other --markdown")
    assert text.startswith("### `sweep`: 1 node changed\n\n```mermaid\n")
    assert [list(data) for data in cells.outputs] == [["text/plain"]]


def test_without_a_drawing_the_words_are_shown_alone(cells, sweep, monkeypatch):
    def refuse(*_, **__):
        raise RenderError("no engine")

    monkeypatch.setattr("planbench.notebook.versions.draw_diff", refuse)
    cells.write("sweep")
    cells.write("other", sweep.replace("key: x", "key: y"))
    old, new = (cells.bench.plans.load(name) for name in ("sweep", "other"))
    assert list(diff_bundle(diff_plans(old, new))) == ["text/plain"]
    assert cells.ok("%plan diff sweep sweep") == "sweep: no difference"
