from __future__ import annotations

import pytest

from planbench.errors import CommandError, LanguageError, PlanInvalid, PlanLoadError


def test_a_default_is_changed_where_it_stands_and_all_else_stays(cells, sweep):
    cells.write("sweep")
    text = cells.ok("%plan set sweep limit=7")
    assert (
        text
        == "saved sweep, version 2\nsweep: 1 field of the plan changed\n  ~ params.limit.default: 5 -> 7"
    )
    assert cells.read("sweep") == sweep.replace("default: 5", "default: 7")
    assert cells.bench.plans.read("sweep@1") == sweep


def test_an_argument_is_changed_where_it_stands_and_all_else_stays(cells, sweep):
    cells.write("sweep")
    cells.ok("%plan set sweep reports.key='a b' rated.words[1]=c")
    assert cells.read("sweep") == sweep.replace("key: x", "key: a b").replace("[a, b]", "[a, c]")
    assert [version.version for version in cells.bench.plans.history("sweep")] == [1, 2]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("reports.limit=7", 7),
        ("reports.limit={params.limit}", "{params.limit}"),
        ("reports.limit=@count", 12),
        ("reports.key=7", "7"),  # the tool takes text
        ("reports.key=@@name", "@name"),
        ("rated.words=[x, 1.10]", ["x", "1.10"]),
        ('rated.words=["x", "y"]', ["x", "y"]),
        ("rated.words=@names", ["n"]),
    ],
)
def test_a_value_is_read_as_the_tool_takes_it_or_as_yaml_has_it(cells, sweep, written, value):
    cells.write("sweep")
    cells.ok("count, names = 12, ['n']")
    cells.ok(f"%plan set sweep {written} --force")
    node, name = written.partition("=")[0].split(".")
    assert cells.bench.plans.load("sweep").node(node).args[name] == value


def test_a_default_is_read_as_its_declaration_says(cells, sweep):
    text = sweep.replace("params:", "params:\n  day: {type: date, default: 2026-08-06}")
    cells.write("sweep", text.replace("key: x", 'key: "{params.day}"'))
    cells.ok("import datetime\nday = datetime.date(2026, 8, 7)\n%plan set sweep day=@day limit=9")
    params = cells.bench.plans.load("sweep").params
    assert (params["day"].default, params["limit"].default) == ("2026-08-07", 9)


def test_a_node_is_renamed_with_all_that_refers_to_it(cells, sweep):
    cells.write("sweep")
    text = cells.ok("%plan rename sweep reports listing")
    assert "> node reports is now listing" in text
    assert cells.read("sweep") == sweep.replace("id: reports", "id: listing").replace(
        "artifacts.reports", "artifacts.listing"
    )


def test_an_edit_that_makes_the_plan_fit_less_is_refused(cells, sweep):
    cells.write("sweep")
    error = cells.fails("%plan set sweep reports.limit=many")
    assert isinstance(error, PlanInvalid)
    assert [issue.code for issue in error.issues] == ["unused_param", "bad_arg_type"]
    assert cells.read("sweep") == sweep
    cells.ok("%plan set sweep reports.limit=many --force")
    assert 'limit: "many"' in cells.read("sweep")


def test_what_was_wrong_before_hinders_no_edit(cells, sweep):
    cells.write("sweep", sweep.replace("tool: score", "tool: elsewhere"))
    cells.ok("%plan set sweep reports.key=y\n%plan rename sweep rated scored")
    assert "id: scored" in cells.read("sweep")


def test_an_open_plan_is_checked_again_when_its_file_was_changed(cells):
    cells.write("sweep")
    session = cells.bench.session(cells.bench.plans.path("sweep"))
    cells.ok("%plan rename sweep reports listing")
    assert [node.id for node in session.plan.nodes] == ["listing", "rated"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("set sweep", "usage: %plan set"),
        ("set sweep limit", "PARAM=VALUE"),
        ("set sweep reports.=x", "PARAM=VALUE"),
        ("set sweep reports[0]=x", "PARAM=VALUE"),
        ("set sweep limt=7", "reads no parameter 'limt'"),
        ("set sweep limit=many", "must be an int"),
        ("set sweep report.key=x", "no node has the id 'report'"),
        ("set sweep rated.words[9]=x", "has 2 items"),
        ("set sweep reports.key=@nothing", "no variable 'nothing'"),
        ("set sweep reports.kye=x", "kye"),
        ("set sweep@1 limit=7", "save it as 'sweep'"),
        ("set nothing limit=7", "no plan 'nothing'"),
        ("set sweep limit=7 --froce", "did you mean '--force'?"),
        ("rename sweep reports", "usage: %plan rename"),
        ("rename sweep reprts x", "did you mean 'reports'?"),
        ("rename sweep reports rated", "taken"),
        ("rename sweep reports 7", "must start with a letter"),
    ],
)
def test_a_wrong_edit_is_an_error_and_changes_nothing(cells, sweep, line, said):
    cells.write("sweep")
    error = cells.fails(f"%plan {line}")
    assert isinstance(error, CommandError | LanguageError | PlanLoadError)
    assert said in str(error)
    assert cells.read("sweep") == sweep
    assert not (cells.plans / ".versions").exists()


UNDECLARED = """\
name: loose
objective: Take what is given
nodes:
  - {id: reports, tool: fetch, args: {key: "{params.day}", limit: "{params.n}"}}
"""


def test_the_default_of_an_undeclared_parameter_is_read_as_the_tool_takes_it(cells):
    cells.write("loose", UNDECLARED)
    cells.ok("%plan set loose day=3 n=4")
    params = cells.bench.plans.load("loose").params
    assert (params["day"].default, params["n"].default) == ("3", 4)
    cells.ok("%plan run loose")


def test_a_default_that_fits_no_tool_is_refused(cells):
    cells.write("loose", UNDECLARED)
    cells.ok("day = 3")
    error = cells.fails("%plan set loose day=@day n=4")
    assert isinstance(error, PlanInvalid)
    assert [issue.code for issue in error.issues] == ["bad_arg_type"]
    assert cells.read("loose") == UNDECLARED
