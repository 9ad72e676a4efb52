from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.document import Document, format_json, format_yaml, read_document
from planbench.plan.draft import draft
from planbench.plan.model import FacetSpec
from planbench.plan.parameters import bind, bind_document
from planbench.plan.records import same
from planbench.plan.sugar import long_plan, long_source, short_plan, short_source

SWEEP = Path(__file__).resolve().parents[2] / "planbench/examples/daily_security_sweep.yaml"
TWIN = """\
name: daily_security_sweep
objective: Find what is new in the security scans of {params.date}, by SOC2 control
params:
  date: {type: str, description: "the day of the scans (UTC), as 2023-03-18"}
metadata: {max_parallel_tasks: 10, execution_timeout: 300}
nodes:
  - id: listing
    description: The reports of the day; a scan that failed is counted and not fetched.
    tool: s3_filter_reports
    args: {scanner: prowler, date: "{params.date}"}
    facets:
      n_reports: count(reports[])
      n_failed: count(failed[])
      failed_regions: groups(failed[].region)
  - id: fetch
    description: One call for each report.
    tool: s3_get_latest_report
    for_each: {source: "{artifacts.listing}", select: "reports[]", max_concurrency: 4}
    args: {report_id: "{item.report_id}", path: "{item.path}", etag: "{item.etag}"}
    store_as: report.{item.report_id}
    timeout: 30
    retry: {max_attempts: 2, backoff_seconds: 0.5}
    facets:
      n_findings: count(findings[])
      by_status: groups(findings[].status)
  - id: diff
    description: Each report against the latest scan of its region before it.
    tool: compare_scans
    args: {reports: "{artifacts.fetch}"}
    facets:
      n_new: count(new[])
      new_by_severity: groups(new[].severity)
      n_resolved: count(resolved[])
      n_severity_changed: count(severity_changed[])
      n_duplicates: count(duplicates[])
      without_previous: groups(without_previous[].region)
  - id: soc2
    description: The new findings by control; checks that speak for none are counted.
    tool: map_report_to_soc2
    args: {diff: "{artifacts.diff}"}
    facets:
      n_controls: count(controls[])
      n_unmapped_checks: count(unmapped_checks[])
      new_by_control: groups(mapped[].control)
      max_group_keys: 50
"""
HEAD = "name: p\nobjective: o\nnodes:\n  - {id: a, tool: t}\n"


def drafted(text):
    return draft(read_document(text))


def node(*lines):
    """The second node of a plan, which has no issues."""
    made = drafted(HEAD + "  - " + "\n    ".join(["id: b", "tool: t", *lines]) + "\n")
    assert made.issues == []
    return made.plan.nodes[1]


def issues(*lines):
    made = drafted(HEAD + "  - " + "\n    ".join(["id: b", "tool: t", *lines]) + "\n")
    return [(i.code, i.line, i.column) for i in made.issues], made.issues


def test_the_sweep_is_the_same_plan_in_both_forms():
    written, twin = drafted(SWEEP.read_text(encoding="utf-8")), drafted(TWIN)

    assert twin.plan == written.plan
    assert twin.inferred == {"fetch": ["listing"], "diff": ["fetch"], "soc2": ["diff"]}
    assert written.inferred == {}
    assert bind(twin.plan, {"date": "2023-03-18"}) == bind(written.plan, {"date": "2023-03-18"})


def test_parameters_may_be_put_in_before_or_after():
    document, problems = bind_document(read_document(TWIN), {"date": "2023-03-18"})

    assert problems == []
    assert draft(document).plan == bind(drafted(TWIN).plan, {"date": "2023-03-18"})


@pytest.mark.parametrize(
    ("text", "source", "select"),
    [
        ("a", "{artifacts.a}", None),
        ("a.keys[]", "{artifacts.a}", "keys[]"),
        ("a[]", "{artifacts.a}", "[]"),
        ("a[0].rows[].x-y", "{artifacts.a}", "[0].rows[].x-y"),
        (" a.b ", "{artifacts.a}", "b"),
    ],
)
def test_a_fan_out_in_short_is_a_node_and_a_path(text, source, select):
    found = node(f"for_each: '{text}'")

    assert (found.for_each.source, found.for_each.select) == (source, select)
    assert (found.store_as, found.depends_on) == ("b.{index}", ["a"])


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("{artifacts.a}", "for_each: a"),
        ("{artifacts.a}.keys[]", None),
        ("9a", None),
        ("a..b", None),
        ("a.", None),
        ("a b", None),
        ("", None),
    ],
)
def test_a_text_that_is_no_node_and_path_is_told_with_the_form(text, fix):
    found, (issue,) = issues(f"for_each: '{text}'")

    assert found == [("bad_field", 7, 15)]
    assert "a node id, then a path, as listing.keys[]" in issue.message
    assert issue.fix == fix


def test_what_is_wrong_inside_a_short_fan_out_is_told_at_its_text():
    found, _ = issues("for_each: nobody.keys[]")

    assert found == [("for_each_not_dependency", 7, 15)]


def test_flat_facets_are_counts_groups_and_paths():
    lines = [
        "n: count( rows[] )",
        "by: groups(rows[].kind)",
        "who: meta.owner",
        "max_group_keys: 7",
    ]
    found = node("facets:", *(f"  {line}" for line in lines))

    assert found.facets == FacetSpec(
        paths={"who": "meta.owner"},
        counts={"n": "rows[]"},
        group_counts={"by": "rows[].kind"},
        max_group_keys=7,
    )


def test_flat_facets_in_brackets_want_quotes_and_the_mended_line_has_them():
    found, (issue,) = issues("facets: {n: count(rows[]), who: meta.owner}")

    assert found == [("unquoted_placeholder", 7, 17)]
    assert issue.fix == 'facets: {n: "count(rows[])", who: meta.owner}'
    assert node(issue.fix).facets.counts == {"n": "rows[]"}


@pytest.mark.parametrize(
    ("facets", "column", "words"),
    [
        ("{n: 'count([])', counts: {m: '[]'}}", 14, "'n' stands in the short form beside 'counts'"),
        ("{group_counts: {}, n: x}", 32, "'n' stands in the short form beside 'group_counts'"),
        ("{n: 'count([])', counts: 'count([])'}", 30, "cannot be called 'counts'"),
        ("{n: 'sum(rows[])'}", 17, "count(path), groups(path) or a path, not 'sum(rows[])'"),
        ("{n: x, m: 5}", 23, "facets.m cannot be read"),
        ("{n: x, m: []}", 23, "not an empty list"),
    ],
)
def test_a_facet_that_is_none_is_told_at_its_place(facets, column, words):
    found, (issue,) = issues(f"facets: {facets}")

    assert found == [("bad_field", 7, column)]
    assert words in issue.message


def test_facets_of_the_long_form_are_read_as_ever():
    assert node("facets: {counts: {n: '[]'}}").facets.counts == {"n": "[]"}
    assert node("facets: {paths: {count: 'count(x)'}}").facets.paths == {"count": "count(x)"}
    assert node("facets: {max_group_keys: 3}").facets.max_group_keys == 3
    found, (issue,) = issues("facets: {count: {n: '[]'}}")
    assert (found, issue.fix) == ([("unknown_field", 7, 14)], "did you mean 'counts'?")


def test_issues_of_a_flat_facet_stand_at_its_line():
    text = HEAD + "  - id: b\n    tool: t\n    facets:\n      n: count(rows[])\n      m: x y\n"
    made = drafted(text)

    assert made.document.mark(("nodes", 1, "facets", "counts", "n")) == (8, 10)
    assert made.document.key_mark(("nodes", 1, "facets", "paths", "m")) == (9, 7)
    assert made.document.mark(("nodes", 1, "tool")) == (6, 11)


def test_a_guard_that_may_mean_two_things_is_told():
    text = HEAD.replace("tool: t}", "tool: t, facets: {status: x}}")
    made = drafted(text + "  - {id: b, tool: t, when: a.status == 'ok'}\n")
    (issue,) = made.issues

    assert (issue.code, issue.line, issue.column) == ("bad_guard", 5, 28)
    assert issue.fix == "write ctx.status.a or ctx.artifacts.a.status"


def test_a_key_is_made_of_the_id():
    assert (node().store_as, node("for_each: a").store_as) == ("b", "b.{index}")


@pytest.mark.parametrize(
    ("each", "short"),
    [
        ({"source": "{artifacts.a}"}, "a"),
        ({"source": "{artifacts.a}", "select": "x[]"}, "a.x[]"),
        ({"source": "{artifacts.a}", "select": "[]", "as": None}, "a[]"),
        ({"source": "{artifacts.a}", "select": "x[]", "as": "row"}, None),
        ({"source": "{artifacts.a}", "select": "{params.x}"}, None),
        ({"source": "{artifacts.a}", "select": ""}, None),
        ({"source": "{artifacts.a}", "select": ".x"}, None),
        ({"source": "{params.a}"}, None),
    ],
)
def test_a_fan_out_is_shortened_when_that_says_all_of_it(each, short):
    found = short_source(each)

    assert found == (each if short is None else short)
    if short is not None:
        assert long_source(short) == {key: value for key, value in each.items() if value}


@pytest.mark.parametrize(
    "facets",
    [
        {"counts": {"paths": "[]"}},
        {"counts": {"n": "[]"}, "paths": {"n": "x"}},
        {"paths": {"n": "count(x)"}},
        {"paths": {"n": " sum ( x ) "}},
        {"counts": {"n": " [] "}},
        {"counts": {"n": "{params.path}"}},
        {"max_group_keys": 4},
        {"counts": {}},
        {},
    ],
)
def test_facets_that_the_flat_form_cannot_say_stay_long(facets):
    root = {"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "t", "facets": facets}]}

    assert short_plan(root)["nodes"][0]["facets"] is facets


def test_edges_stay_written_where_the_reading_would_give_others():
    nodes = [{"id": name, "tool": "t"} for name in "abc"]
    both = {"x": "{artifacts.a}", "y": "{artifacts.b}"}
    nodes[2] |= {"args": both, "depends_on": ["b", "a"]}
    root = {"name": "p", "objective": "o", "nodes": nodes}

    assert short_plan(root)["nodes"][2]["depends_on"] == ["b", "a"]
    nodes[2] |= {"depends_on": ["a", "b"]}
    assert "depends_on" not in short_plan(root)["nodes"][2]
    nodes[2] |= {"when": "{params.condition}"}  # it may read anything
    assert short_plan(root)["nodes"][2]["depends_on"] == ["a", "b"]


@given(data=st.data())
def test_any_plan_is_the_same_in_either_form(plans, data):
    plan = data.draw(plans)
    record = read_document(plan.to_json()).value
    for form in (short_plan, long_plan):
        changed = form(record)

        assert same(form(changed), changed)
        assert draft(Document(changed)).plan == plan
        assert drafted(format_yaml(changed)).plan == plan
        assert drafted(format_json(changed)).plan == plan
    assert all("store_as" in node for node in long_plan(short_plan(record))["nodes"])
