from __future__ import annotations

import pytest

from planbench.validation import check_plan, validate_plan

TEXT = """\
name: p
objective: o
nodes:
  - {id: listing, tool: t, facets: {n: "count(rows[])"}}
  - {id: fetch, tool: t, for_each: "listing.rows[]", args: {x: "{item}"}}
  - {id: diff, tool: t, when: listing.n > 0 && fetch.status != "error", args: {x: "{artifacts.fetch}"}}
  - {id: last, tool: t, depends_on: [diff]}
"""


def codes(report):
    return [(i.code, i.line, i.column) for i in report.issues if i.code != "no_registry"]


def test_a_report_lists_the_edges_that_nobody_wrote():
    report = check_plan(TEXT)

    assert codes(report) == []
    assert report.inferred == {"fetch": ["listing"], "diff": ["fetch", "listing"]}
    assert validate_plan(report.plan).inferred == {}


def test_short_forms_are_checked_at_the_places_where_they_are_written():
    text = (
        TEXT.replace("listing.n > 0", "listing.m > 0")
        .replace("count(rows[])", "count(rows)")
        .replace("listing.rows[]", "listing.rows[x]")
    )

    assert codes(check_plan(text)) == [
        ("count_not_a_list", 4, 40),
        ("bad_path", 5, 36),
        ("guard_unknown_facet", 6, 31),
    ]


def test_a_guard_may_name_no_node_that_is_not_there():
    found = check_plan(TEXT.replace("listing.n > 0", "ctx.artifacts.lsting.n > 0"))
    assert codes(found) == [("guard_unknown_node", 6, 31)]
    (issue,) = [i for i in found.issues if i.code == "guard_unknown_node"]
    assert issue.fix == "did you mean 'listing'?"


@pytest.mark.parametrize(
    ("guard", "fix"),
    [
        ("lsting.n > 0", "did you mean 'listing'?"),
        ("lsting.status == 'ok'", "did you mean 'listing'?"),
        ("[1].exists(x, x > lsting.n)", "did you mean 'listing'?"),
        ("lsting.n > 0 and true", "did you mean 'listing'?; write && for and"),
        ("by-day.count > 0", 'write ctx.artifacts["by-day"]: a hyphen is a minus in the short form'),
        ("zzzzz.n > 0", None),
        ("'lsting.n' == zzzzz", None),
        ("status > 0", "write ctx.status"),
    ],
)  # fmt: skip
def test_a_short_guard_that_begins_with_no_node_names_the_near_one(guard, fix):
    text = TEXT.replace('listing.n > 0 && fetch.status != "error"', f'"{guard}"')
    text += "  - {id: by-day, tool: t}\n"
    (issue,) = [i for i in check_plan(text).issues if i.code != "no_registry"]

    assert (issue.code, issue.line, issue.column, issue.fix) == ("bad_guard", 6, 31, fix)


def test_a_node_cannot_be_guarded_by_itself():
    found = check_plan(TEXT.replace("listing.n > 0", "diff.count > 0"))
    assert codes(found) == [("guard_not_upstream", 6, 31)]
