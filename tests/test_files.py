import json
import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import PlanInvalid, PlanLoadError
from planbench.files import PlanFileStore, load_plan, read_plan_file

TEXT = """\
name: daily
objective: look at {params.date}
params: {date: {type: date, default: 2026-08-06}}
nodes:
  - {id: a, tool: t, args: {day: "{params.date}"}}
"""


@pytest.fixture
def folder(tmp_path):
    plans = tmp_path / "plans"
    plans.mkdir()
    (plans / "daily.yaml").write_text(TEXT)
    (plans / "weekly.plan.yaml").write_text(TEXT)
    (plans / "other.yml").write_text(TEXT)
    (plans / "machine.json").write_text(
        json.dumps({"name": "m", "objective": "o", "nodes": [{"id": "a", "tool": "t"}]})
    )
    (plans / "broken.yaml").write_text("name: b\nobjective: what it is for\nnodes:\n  - {id: a}\n")
    (plans / "notes.txt").write_text("no plan")
    (plans / ".hidden.yaml").write_text(TEXT)
    (plans / "below").mkdir()
    (plans / "below" / "inner.yaml").write_text(TEXT)
    (tmp_path / "outside.yaml").write_text(TEXT)
    return plans


def test_a_str_is_text_and_a_path_is_a_file(folder):
    assert (
        load_plan(TEXT) == load_plan(folder / "daily.yaml") == read_plan_file(folder / "daily.yaml")
    )
    with pytest.raises(PlanInvalid, match="give Path"):
        load_plan("plans/daily.yaml")
    with pytest.raises(PlanLoadError, match=r"from text \(str\) or a file \(Path\), not from int"):
        load_plan(5)


def test_without_values_a_plan_with_parameters_comes_as_it_is_written():
    plan = load_plan(TEXT)

    assert plan.nodes[0].args == {"day": "{params.date}"}
    assert plan.params["date"].type == "date"


def test_with_values_also_with_none_given_they_are_put_in():
    assert load_plan(TEXT, params={}).nodes[0].args == {"day": "2026-08-06"}
    plan = load_plan(TEXT, params={"date": "2026-08-07"})
    assert (plan.objective, plan.params) == ("look at 2026-08-07", {})


def test_what_is_wrong_comes_as_one_error_with_every_issue_and_its_line(folder):
    bad = TEXT.replace("tool: t", "tol: t") + "extra: 1\n"

    with pytest.raises(PlanInvalid) as caught:
        load_plan(bad, params={"date": "soon", "zz": 1})
    assert sorted(issue.code for issue in caught.value.issues) == [
        "bad_param",
        "missing_field",
        "unknown_field",
        "unknown_field",
        "unused_param",
    ]
    assert caught.value.name == "daily"
    assert "line 5, column 13: node 'a': unknown field 'tol'" in str(caught.value)
    with pytest.raises(PlanLoadError) as caught:  # the one to catch for both kinds
        load_plan(folder / "broken.yaml")
    assert caught.value.path == folder / "broken.yaml"


def test_a_file_that_cannot_be_read_is_an_error_that_says_why(folder):
    for path, words in (
        (folder / "none.yaml", "does not exist"),
        (folder / "below", "is a folder"),
        (folder / "a\0b.yaml", "does not exist|cannot be read"),
    ):
        with pytest.raises(PlanLoadError, match=words):
            load_plan(path)
    (folder / "latin.yaml").write_bytes(b"name: \xe9\n")
    with pytest.raises(PlanInvalid, match="line 1, column 7"):
        load_plan(folder / "latin.yaml")


@pytest.mark.parametrize("name", ["daily", "weekly", "other"])
def test_a_plan_is_loaded_by_its_bare_name_whatever_its_ending(folder, name):
    store = PlanFileStore(folder)

    assert store.load(name).name == "daily"
    assert store.load(name, params={"date": "2026-08-07"}).nodes[0].args == {"day": "2026-08-07"}
    assert store.path(name).parent == folder


@pytest.mark.parametrize(
    "name",
    [
        *("../outside", "../outside.yaml", "./daily", "below/inner", "below\\inner", "/etc/passwd"),
        *(
            "C:\\x",
            "C:daily",
            ".",
            "..",
            ".hidden",
            ".hidden.yaml",
            "daily\0",
            "~",
            "~/x",
            "%2e%2e/x",
        ),
        *(
            "..\\outside",
            "con",
            "NUL",
            "aux.yaml",
            "daily.yaml",
            "daily:x",
            "*",
            "",
            " ",
            "daily\n",
        ),
        *("x" * 5000, chr(0xD83D), None, 5, b"daily", ("daily",)),
    ],
)
def test_no_name_ever_leads_out_of_the_folder(folder, name):
    store = PlanFileStore(folder)

    with pytest.raises(PlanLoadError) as caught:
        store.load(name)
    assert not isinstance(caught.value, PlanInvalid)
    assert str(folder) not in str(caught.value)


def test_a_path_instead_of_a_name_is_told_how_to_read_a_file(folder):
    with pytest.raises(PlanLoadError, match=r"load_plan\(Path"):
        PlanFileStore(folder).load("below/inner")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_followed(folder):
    (folder / "out.yaml").symlink_to(folder.parent / "outside.yaml")
    (folder / "in.yaml").symlink_to(folder / "daily.yaml")
    (folder / "round.yaml").symlink_to(folder / "round.yaml")
    store = PlanFileStore(folder)

    with pytest.raises(PlanLoadError, match="leads out of the plans folder"):
        store.load("out")
    with pytest.raises(PlanLoadError, match="no plan 'round'"):
        store.load("round")
    assert store.load("in").name == "daily"
    assert not {"out", "round"} & set(store.list())


def test_a_folder_that_is_itself_a_link_is_fine(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)

    assert PlanFileStore(tmp_path / "link").load("daily").name == "daily"


def test_two_files_of_one_name_are_told(folder):
    (folder / "daily.json").write_text("{}")
    store = PlanFileStore(folder)

    with pytest.raises(PlanLoadError, match=r"daily\.json and daily\.yaml"):
        store.load("daily")
    (entry,) = [entry for entry in store.list() if entry == "daily"]
    assert not entry.ok
    assert "daily.json and daily.yaml" in entry.error


def test_an_unknown_name_is_told_with_the_near_one_or_with_all(folder):
    store = PlanFileStore(folder)

    for name, words in (
        ("dayly", "did you mean 'daily'"),
        ("daily.yaml", "give the bare name: 'daily'"),
        ("zzzzz", "the folder 'plans' has broken, daily, machine, other, weekly"),
    ):
        with pytest.raises(PlanLoadError, match=words):
            store.load(name)
    with pytest.raises(PlanLoadError, match="there is no folder"):
        PlanFileStore(folder / "none").load("daily")


def test_the_list_names_the_plans_and_knows_what_is_in_them(folder):
    entries = PlanFileStore(folder).list()

    assert entries == ["broken", "daily", "machine", "other", "weekly"]
    assert [(e.name, e.path.name, e.objective, e.nodes, e.ok) for e in entries] == [
        ("broken", "broken.yaml", "what it is for", 1, False),
        ("daily", "daily.yaml", "look at {params.date}", 1, True),
        ("machine", "machine.json", "o", 1, True),
        ("other", "other.yml", "look at {params.date}", 1, True),
        ("weekly", "weekly.plan.yaml", "look at {params.date}", 1, True),
    ]
    assert "field 'tool' is missing" in entries[0].error
    assert json.dumps(entries) == '["broken", "daily", "machine", "other", "weekly"]'


def test_a_broken_file_never_makes_the_list_fail(folder):
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    (folder / "empty.json").write_text("")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "gone.yaml").write_text(TEXT)
    entries = PlanFileStore(folder).list()
    (folder / "gone.yaml").unlink()

    broken = {entry.name: (entry.ok, entry.nodes, entry.objective) for entry in entries}
    for name in ("bytes", "empty", "deep", "gone"):
        assert broken[name] == (False, 0, None)
    assert all(entry.error is None or "\n" not in entry.error for entry in entries)


def test_a_folder_that_is_not_there_has_no_plans_and_a_file_is_no_folder(folder):
    assert PlanFileStore(folder / "none").list() == []
    with pytest.raises(
        PlanLoadError, match=r"the plans folder 'notes\.txt' cannot be read"
    ) as caught:
        PlanFileStore(folder / "notes.txt").list()
    assert str(folder) not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_may_not_be_read_is_told(folder):
    folder.chmod(0)
    try:
        with pytest.raises(PlanLoadError, match="cannot be read"):
            PlanFileStore(folder).list()
    finally:
        folder.chmod(0o755)


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_categories=[])),
    st.none() | st.dictionaries(st.text(), st.integers()),
)
def test_any_text_is_a_plan_or_one_kind_of_error(text, params):
    try:
        plan = load_plan(text, params)
    except PlanInvalid:
        return
    assert plan.nodes
