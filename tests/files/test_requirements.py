from __future__ import annotations

import pytest

from planbench.files import (
    LockedTool,
    PlanFileStore,
    PlanLock,
    make_lock,
    with_lock,
    with_requirements,
)
from planbench.tools import Tool, ToolRegistry
from planbench.validation import check_plan

SWEEP = """\
name: sweep
objective: o
nodes:
  - {id: a, tool: fetch, args: {key: x}}
  - {id: b, tool: fetch, args: {key: y}}
  - {id: c, type: delegate, instruction: choose, tools: ["mail_*", score]}
"""
LOCK = PlanLock(
    tools={
        "fetch": LockedTool(module="acme.reports", package="acme-tools", version="1.2"),
        "mail_out": LockedTool(module=__name__),
        "mail_in": LockedTool(module=__name__),
        "score": LockedTool(module="__main__"),
    }
)
LOST = PlanLock(tools={name: tool for name, tool in LOCK.tools.items() if name != "fetch"})
REQUIRES = "requires: {fetch: {module: acme.reports, package: acme-tools}}\n"


def fetch(key: str) -> str:
    """Fetch it."""
    return key


def score() -> float:
    """Score it."""
    return 1.0


def mail_in() -> str:
    """Read it."""
    return ""


def mail_out() -> str:
    """Send it."""
    return ""


def told(report):
    return [(issue.code, issue.severity, issue.node_id, issue.line) for issue in report.issues]


def merged(text, tools, lock=None):
    registry = ToolRegistry(tools)
    return with_requirements(check_plan(text, registry), registry, lock)


def test_a_tool_that_is_missing_is_told_once_a_node_with_its_place():
    report = merged(SWEEP, [score, mail_in, mail_out], LOCK)
    assert told(report) == [
        ("unknown_tool", "error", "a", 4),
        ("unknown_tool", "error", "b", 5),
    ]
    assert not report.ok
    assert report.issues[0].message == (
        "there is no tool 'fetch'; it lives in module acme.reports of package acme-tools 1.2"
    )
    assert report.issues[0].fix == "install acme-tools, and register the tools of acme.reports"


def test_a_pattern_without_a_match_names_the_tools_that_it_matched():
    report = merged(SWEEP, [fetch, score], LOST)
    assert told(report) == [("unknown_tool", "error", "c", 6)]
    assert report.issues[0].message == (
        f"no tool matches 'mail_*'; 'mail_out' lives in module {__name__}, 'mail_in' lives in module {__name__}"
    )
    assert report.issues[0].fix == f"register the tools of {__name__}"


def test_a_tool_that_a_delegate_can_do_without_is_a_warning():
    report = merged(SWEEP, [fetch, score, mail_in], LOST)
    assert told(report) == [("tool_missing", "warning", "c", None)]
    assert "'mail_out'" in report.issues[0].message
    assert report.ok


def test_a_tool_that_is_there_and_was_something_else_is_a_warning():
    lock = make_lock(check_plan(SWEEP).plan, ToolRegistry([fetch, score, mail_in, mail_out]))

    def changed(key: str, limit: int = 5) -> str:
        """Fetch it."""
        return key

    tools = [Tool.from_function(changed, name="fetch"), score, mail_in, mail_out]
    report = merged(SWEEP, tools, lock)
    assert told(report) == [("tool_changed", "warning", "a", None)]
    assert report.ok


def test_what_the_plan_itself_requires_counts_without_a_lock():
    report = merged(REQUIRES + SWEEP, [score, mail_in])
    assert [issue.fix for issue in report.issues] == [
        "install acme-tools, and register the tools of acme.reports"
    ] * 2


def test_without_any_tools_each_place_is_a_warning_and_the_check_goes_on():
    report = with_requirements(check_plan(SWEEP), None, LOCK)
    assert report.ok
    assert [code for code, *_ in told(report)] == ["no_registry", *["tool_missing"] * 4]


def test_the_place_is_told_of_a_plan_with_other_errors_too():
    report = merged(SWEEP.replace("{key: x}", "[]"), [score, mail_in, mail_out], LOCK)
    assert report.plan is None
    assert [i.message for i in report.issues if i.node_id == "b"] == [
        "there is no tool 'fetch'; it lives in module acme.reports of package acme-tools 1.2"
    ]


@pytest.mark.parametrize(
    "requires",
    [
        "{fetch: {module: 'x; rm -rf'}}",
        "{fetch: {module: m, package: --index-url=x}}",
        '{fetch: {module: m, version: "1\\e[0m"}}',
        "{fetch: {module: m, fingerprint: zz}}",
    ],
)
def test_a_requirement_that_says_no_place_is_left_aside_with_a_warning(requires):
    report = merged(f"requires: {requires}\n{SWEEP}", [score, mail_in])
    assert [code for code, *_ in told(report)] == ["unknown_tool", "unknown_tool", "bad_field"]
    assert report.issues[-1].severity == "warning"
    assert "'fetch'" in report.issues[-1].message
    assert "\x1b" not in str(report)


@pytest.mark.parametrize(
    "requires", ["3", "[fetch]", "{fetch: 3}", "{fetch: {}}", "{fetch: {module: 3}}"]
)
def test_a_broken_requires_is_reported_and_breaks_nothing(requires):
    report = merged(f"requires: {requires}\n{SWEEP}", [score, mail_in], LOCK)
    assert not report.ok
    assert report.plan is None


def test_only_a_file_of_the_folder_has_a_lock(tmp_path):
    store, registry = PlanFileStore(tmp_path / "plans"), ToolRegistry([score, mail_in, mail_out])
    store.save(SWEEP, "sweep")
    store.save(SWEEP.replace("{key: x}", "{key: z}"), "sweep")
    store.write_lock("sweep", LOCK)
    (tmp_path / "sweep.yaml").write_text(SWEEP)

    def fixes(source):
        report = with_lock(check_plan(source, registry), registry, store, source)
        return {issue.fix for issue in report.issues}

    assert fixes(store.path("sweep")) == {
        "install acme-tools, and register the tools of acme.reports"
    }
    for source in (store.path("sweep@1"), tmp_path / "sweep.yaml", SWEEP, store.load("sweep")):
        assert fixes(source) == {"registered: score, mail_in, mail_out"}


def test_a_lock_that_cannot_be_read_is_a_warning_with_the_way_out(tmp_path):
    store, registry = PlanFileStore(tmp_path), ToolRegistry([fetch, score, mail_in])
    store.save(SWEEP, "sweep")
    store.lock_path("sweep").write_text("<<<<<<< ours")
    path = store.path("sweep")
    report = with_lock(check_plan(path, registry), registry, store, path)
    assert told(report) == [("lock_unreadable", "warning", None, None)]
    assert report.issues[0].fix == "delete it; the next green run writes it again"
    assert report.ok
