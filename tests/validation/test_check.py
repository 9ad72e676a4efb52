import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import PlanInvalid, PlanLoadError
from planbench.files import load_plan
from planbench.plan.document import Limits
from planbench.plan.model import ExecutionPlan
from planbench.validation import ValidationReport, check_plan, validate_plan

HEAD = "name: p\nobjective: o\nnodes:\n"
LISTING = """\
  - id: listing
    tool: list_reports
    facets: {counts: {n: "reports[]"}}
"""


TEN = """\
name: ten
objective: ten things that are wrong, in one text
nodes:
  - id: listing
    tool: list_reports
    store_as: listing
    facets:
      counts: {n_reports: "reports[]"}
      paths: {first: "reports[*].id"}
  - id: a
    tool: list_reports
    depends_on: [b]
  - id: b
    tool: list_reports
    depends_on: [a]
  - id: twice
    tool: list_reports
    args: {date: "1"}
    args: {date: "2"}
  - id: strange
    tool: list_reports
    retries: 3
  - id: nobody
    tool: list_report
  - id: nested
    tool: fetch
    args: {key: x, filters: [{field: eq, limit: many}]}
  - id: guarded
    tool: list_reports
    when: ctx.artifacts.listing.n_reports > 0
    depends_on: []
  - id: unquoted
    tool: fetch
    args:
      key: {artifacts.listing}
    depends_on: [listing]
  - id: taken
    tool: list_reports
    store_as: listing
  - id: each
    tool: fetch
    args: {key: "{item.id}"}
    store_as: each_{index}
    for_each: {source: "{artifacts.listing}", select: "reports[]"}
    depends_on: []
"""


def test_ten_kinds_of_error_are_told_in_one_pass_each_at_its_place(check):
    report = check(TEN)

    assert [(i.code, i.node_id, i.line, i.column) for i in report.issues] == [
        ("bad_path", "listing", 9, 22),
        ("cycle", "a", 12, 17),
        ("duplicate_key", "twice", 19, 5),
        ("unknown_field", "strange", 22, 5),
        ("unknown_tool", "nobody", 24, 11),
        ("bad_arg_type", "nested", 27, 49),
        ("guard_not_upstream", "guarded", 30, 11),
        ("unquoted_placeholder", "unquoted", 35, 12),
        ("key_conflict", "taken", 39, 15),
        ("for_each_not_dependency", "each", 44, 24),
    ]
    assert not report.ok
    assert report.plan is None
    assert len(report.draft.nodes) == 11
    assert len(str(report).splitlines()) == 10
    assert "filters[0].limit" in report.issues[5].message
    assert all(issue.fix for issue in report.issues if issue.code not in ("cycle", "bad_arg_type"))


def test_a_plan_without_a_flaw_is_ok_and_comes_as_the_model(check):
    report = check(HEAD + LISTING)

    assert report.ok
    assert report.issues == []
    assert report.plan.nodes[0].id == "listing"
    assert str(report) == "no issues"
    assert report.plan == ExecutionPlan.model_validate(report.plan.to_dict(compact=True))


def test_a_plan_whose_tools_are_wrong_is_still_a_plan(check, node):
    report = check(HEAD + node("id: a", "tool: nobody"))

    assert not report.ok
    assert report.plan is not None


def test_the_report_is_frozen_and_leaves_the_draft_out_of_records(check):
    report = check(TEN)

    with pytest.raises(ValueError, match="frozen"):
        report.ok = True
    assert "draft" not in repr(report)
    assert set(report.model_dump()) == {"plan", "ok", "issues"}
    assert ValidationReport.model_validate(report.model_dump()).issues == report.issues


def test_text_files_mappings_and_models_are_checked_alike(registry, told, node, tmp_path):
    text = HEAD + node("id: a", "tool: nobody")
    (tmp_path / "p.yaml").write_text(text)
    record = {"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "nobody"}]}
    model = ExecutionPlan.model_validate(record)

    for source in (text, tmp_path / "p.yaml"):
        assert told(source) == [("unknown_tool", "a", 5, 11)]
    for source in (record, model):
        assert told(source) == [("unknown_tool", "a", None, None)]
    assert validate_plan(model, registry) == check_plan(model, registry)


def test_a_file_that_is_not_there_is_an_error_and_one_of_other_bytes_is_an_issue(
    check, told, tmp_path
):
    with pytest.raises(PlanLoadError, match="does not exist"):
        check(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(HEAD.encode() + b"  - id: a\xe9\n")
    assert told(tmp_path / "latin.yaml") == [("yaml_syntax", None, 4, 10)]
    (tmp_path / "utf16.yaml").write_text(HEAD + LISTING, encoding="utf-16")
    assert check(tmp_path / "utf16.yaml").ok


@pytest.mark.parametrize("source", [None, 5, [], object(), b"x", {}, {"nodes": 5}, {1: 2}])
def test_what_is_no_plan_at_all_is_an_issue_too(check, source):
    report = check(source)

    assert not report.ok
    assert report.plan is None
    assert report.issues


READS = (
    HEAD
    + """\
  - id: a
    tool: fetch
    args: {key: '{params.k}', limit: '{params.n}'}
"""
)


def test_without_values_they_are_unknown_and_no_issue(told):
    assert told(READS) == []


def test_with_values_they_are_put_in_first(check, told):
    assert told(READS, params={"k": "x", "n": 1}) == []
    assert told(READS, params={"k": "x", "n": "many"}) == [("bad_arg_type", "a", 6, 38)]
    assert check(READS, params={"k": "x", "n": 1}).plan.nodes[0].args == {
        "key": "x",
        "limit": 1,
    }


def test_with_no_values_each_is_missing(check, told):
    assert told(READS, params={}) == [
        ("missing_param", "a", 6, 17),
        ("missing_param", "a", 6, 38),
    ]
    plan = check(READS).plan
    assert [i.code for i in check(plan, params={}).issues] == ["missing_param"] * 2
    assert check(plan, params={"k": "x", "n": 1}).ok


@settings(max_examples=300, deadline=None)
@given(
    st.text() | st.lists(st.sampled_from(TEN.splitlines(keepends=True))).map("".join),
    st.none() | st.just({"x": 1}),
)
def test_any_text_gives_a_report(check, text, params):
    report = check(text, params=params)

    assert report.ok == all(issue.severity != "error" for issue in report.issues)
    assert report.plan is not None or not report.ok


def test_a_host_sets_the_limits_of_a_text_for_checks_and_loads_alike(tmp_path):
    text = "name: p\nobjective: o\nnodes:\n  - {id: a, tool: t}\n  - {id: b, tool: t}\n"
    path = tmp_path / "p.yaml"
    path.write_text(text)
    one = Limits(max_nodes=1)

    for source in (text, path):
        assert check_plan(source).ok
        assert len(load_plan(source).nodes) == 2
        (issue,) = check_plan(source, limits=one).issues
        assert issue.message == "more than 1 nodes"
        assert (issue.line, bool(issue.fix)) == (5, True)
        with pytest.raises(PlanInvalid, match="more than 1 nodes"):
            load_plan(source, limits=one)
    with pytest.raises(PlanLoadError, match="bytes"):
        load_plan(path, limits=Limits(max_chars=3))
