from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import sys
import types

import pytest

from planbench.errors import PlanLoadError
from planbench.files import LockedTool, PlanFileStore, PlanLock, check_lock, load_plan, make_lock
from planbench.files.lock import format_lock, schema_fingerprint
from planbench.plan.model import ExecutionPlan, ToolRequirement
from planbench.tools import Tool, ToolRegistry

SWEEP = """\
name: sweep
objective: o
nodes:
  - {id: a, tool: fetch, args: {key: x}}
  - {id: b, tool: fetch, args: {key: y}}
  - {id: c, tool: score}
  - {id: d, type: delegate, instruction: choose, tools: ["mail_*", score]}
"""


def fetch(key: str, limit: int = 10) -> dict[str, int]:
    """Fetch it."""
    return {}


def score() -> float:
    """Score it."""
    return 1.0


def mail_out(to: str) -> str:
    """Mail it."""
    return to


def living_in(module, function):
    """A copy of a function that says that it comes from another module."""
    copy = types.FunctionType(
        function.__code__, globals(), function.__name__, function.__defaults__
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__
    copy.__module__ = module
    return copy


@pytest.fixture
def plan():
    return load_plan(SWEEP)


@pytest.fixture
def registry():
    return ToolRegistry([fetch, score, mail_out, lambda_free])


def lambda_free() -> None:
    """No plan calls it."""


def told(issues):
    return [(issue.code, issue.severity, issue.node_id) for issue in issues]


def test_the_lock_names_each_tool_that_the_plan_calls_or_a_delegate_may(plan, registry):
    lock = make_lock(plan, registry)
    assert list(lock.tools) == ["fetch", "mail_out", "score"]
    assert lock.tools["fetch"].module == __name__
    assert lock.tools["fetch"].fingerprint == schema_fingerprint(registry.get_tool("fetch"))


def test_nothing_is_said_when_the_tools_are_what_they_were(plan, registry):
    assert check_lock(plan, registry, make_lock(plan, registry)) == []
    assert check_lock(plan, registry, None) == []


def test_a_colleague_without_the_tools_is_told_where_each_lives(plan):
    lock = PlanLock(
        tools={
            "fetch": LockedTool(module="acme.reports", package="acme-tools", version="1.2"),
            "score": LockedTool(module="__main__"),
            "mail_out": LockedTool(module="own_tools"),
        }
    )
    issues = check_lock(plan, ToolRegistry(), lock)
    assert told(issues) == [
        ("tool_missing", "error", "a"),
        ("tool_missing", "error", "c"),
        ("tool_missing", "error", "d"),
    ]
    assert issues[0].message == (
        "tool 'fetch' is not registered; it lives in module acme.reports of package acme-tools 1.2 "
        "(also for b)"
    )
    assert issues[0].fix == "install acme-tools, and register the tools of acme.reports"
    assert "a notebook or script" in issues[1].message
    assert issues[1].fix == "run the cell that defines it, or move it into a module"
    assert issues[2].fix == "register the tools of own_tools"


def test_a_changed_signature_is_seen(plan, registry):
    lock = make_lock(plan, registry)

    def changed(key: str, limit: int = 20) -> dict[str, int]:
        """Fetch it."""
        return {}

    registry.register(Tool.from_function(changed, name="fetch"))
    issues = check_lock(plan, registry, lock)
    assert told(issues) == [("tool_changed", "warning", "a")]
    assert "it is now fetch(key: str, limit: int = 20)" in issues[0].message


def test_a_changed_result_is_seen(plan, registry):
    lock = make_lock(plan, registry)

    def changed(key: str, limit: int = 10) -> list[int]:
        """Fetch it."""
        return []

    registry.register(Tool.from_function(changed, name="fetch"))
    assert told(check_lock(plan, registry, lock)) == [("tool_changed", "warning", "a")]


def test_other_words_and_another_body_are_no_changed_signature(plan, registry):
    lock = make_lock(plan, registry)

    def changed(key: str, limit: int = 10) -> dict[str, int]:
        """Say it otherwise.

        Args:
            key: the key of the report
        """
        return {"other": 1}

    registry.register(Tool.from_function(changed, name="fetch", description="other"))
    assert check_lock(plan, registry, lock) == []


@pytest.mark.parametrize("word", ["title", "description"])
def test_a_parameter_with_the_name_of_an_annotation_counts(word):
    def tool_of(name):
        schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
        return Tool.from_schema("t", "", schema, lambda **_: None)

    assert schema_fingerprint(tool_of(word)) != schema_fingerprint(tool_of("other"))


def test_words_inside_a_default_count():
    def tool_of(value):
        schema = {"type": "object", "properties": {"x": {"default": {"title": value}}}}
        return Tool.from_schema("t", "", schema, lambda **_: None)

    assert schema_fingerprint(tool_of("a")) != schema_fingerprint(tool_of("b"))


def test_the_same_signature_from_another_module_is_told(plan):
    lock = make_lock(plan, ToolRegistry([living_in("one", score)]))
    issues = check_lock(plan, ToolRegistry([living_in("two", score)]), lock)
    assert told(issues) == [("tool_changed", "warning", "c")]
    assert "comes from module two, and it lived in module one" in issues[0].message
    assert check_lock(plan, ToolRegistry([living_in("__main__", score)]), lock) == []


def test_a_tool_that_nobody_put_on_record_is_left_to_the_check_of_the_plan(plan, registry):
    assert check_lock(plan, ToolRegistry(), make_lock(plan, ToolRegistry([score]))) != []
    assert check_lock(plan, registry, PlanLock()) == []


class Requiring(ExecutionPlan):
    """A plan with the tools that it requires."""

    requires: dict[str, LockedTool] = {}  # noqa: RUF012 - pydantic copies it


def test_what_the_plan_itself_requires_counts_where_the_lock_has_nothing(plan):
    requires = {
        "fetch": LockedTool(module="acme", package="acme"),
        "score": LockedTool(module="old"),
    }
    made = Requiring.model_validate({**dict(plan), "requires": requires})
    lock = PlanLock(tools={"score": LockedTool(module="new")})
    issues = check_lock(made, ToolRegistry(), lock)
    assert [issue.fix for issue in issues] == [
        "install acme, and register the tools of acme",
        "register the tools of new",
    ]


def test_a_tool_of_an_installed_package_is_on_record_with_its_version(plan):
    lock = make_lock(plan, ToolRegistry([living_in("pydantic.main", score)]))
    import pydantic

    assert lock.tools["score"].package == "pydantic"
    assert lock.tools["score"].version == pydantic.VERSION


def test_a_tool_of_a_package_that_is_edited_in_place_is_on_record_too(plan):
    lock = make_lock(plan, ToolRegistry([living_in("planbench.examples", score)]))
    assert lock.tools["score"].package == "planbench"


def test_a_tool_of_a_notebook_or_a_loose_file_has_no_package(plan):
    for module in ("__main__", "surely_no_package_of_this_name"):
        lock = make_lock(plan, ToolRegistry([living_in(module, score)]))
        assert lock.tools["score"] == LockedTool(
            module=module, fingerprint=lock.tools["score"].fingerprint
        )


def test_the_lock_stands_beside_the_plan_and_reads_back_equal(tmp_path, plan, registry):
    store = PlanFileStore(tmp_path)
    assert store.read_lock("sweep") is None
    lock = make_lock(plan, registry)
    path = store.write_lock("sweep", lock)
    assert path == tmp_path / "sweep.lock.json" == store.lock_path("sweep")
    assert store.read_lock("sweep") == lock
    before = path.stat().st_mtime_ns, path.stat().st_ino
    store.write_lock("sweep", lock)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_the_same_tools_in_another_order_give_the_same_bytes(plan):
    locks = [make_lock(plan, ToolRegistry(tools)) for tools in ([fetch, score], [score, fetch])]
    assert format_lock(locks[0]) == format_lock(locks[1])
    assert set(json.loads(format_lock(locks[0]))) == {"format", "tools"}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"tools": 1}', '{"format": 2}', '{"tools": {"a": {"module": "x; rm -rf"}}}',
        '{"tools": {"a": {"package": "--index-url=x"}}}', '{"tools": {"a": {"version": "1\\u001b[0m"}}}',
        '{"tools": {"a": {"fingerprint": "zz"}}}', '{"other": 1}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_lock_that_is_none_is_refused_in_one_line(tmp_path, text):
    store = PlanFileStore(tmp_path)
    store.lock_path("sweep").write_text(text)
    with pytest.raises(
        PlanLoadError, match=r"the lock 'sweep\.lock\.json' cannot be read"
    ) as caught:
        store.read_lock("sweep")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_lock_that_leads_out_of_the_folder_is_not_read(tmp_path):
    store = PlanFileStore(tmp_path / "plans")
    store.plans_dir.mkdir()
    (tmp_path / "secret").write_text("{}")
    store.lock_path("sweep").symlink_to(tmp_path / "secret")
    with pytest.raises(PlanLoadError, match="out of the plans folder"):
        store.read_lock("sweep")


@pytest.mark.parametrize("name", ["../x", "", ".x", "a@2"])
def test_a_lock_is_written_for_a_bare_name_only(tmp_path, name):
    with pytest.raises(PlanLoadError):
        PlanFileStore(tmp_path).write_lock(name, PlanLock())


def test_the_packages_are_looked_through_once_until_one_is_installed(plan, tmp_path, monkeypatch):
    looked = []
    real = importlib.metadata.packages_distributions

    def counted():
        looked.append(1)
        return real()

    monkeypatch.setattr("importlib.metadata.packages_distributions", counted)
    monkeypatch.syspath_prepend(tmp_path)
    registry = ToolRegistry([living_in("acme_reports", score)])
    assert make_lock(plan, registry) == make_lock(plan, registry)
    assert len(looked) == 1
    info = tmp_path / "acme_tools-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.2\n")
    (info / "top_level.txt").write_text("acme_reports\n")
    os.utime(tmp_path, ns=(1, 1))
    assert make_lock(plan, registry).tools["score"].place() == (
        "module acme_reports of package acme-tools 1.2"
    )


def test_what_a_plan_requires_and_says_no_place_is_left_aside_with_a_warning(plan):
    requires = {"fetch": ToolRequirement(module="x y"), "score": ToolRequirement(module="old")}
    issues = check_lock(plan.model_copy(update={"requires": requires}), ToolRegistry(), None)
    assert told(issues) == [("bad_field", "warning", None), ("tool_missing", "error", "c")]
