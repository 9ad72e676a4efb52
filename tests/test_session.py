"""An open plan: checked again with every change of a tool, run, and looked at meanwhile."""

import asyncio
import datetime as dt
import functools
import json
import logging
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import PlanInvalid, RunRefused
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.tools import Tool, ToolRegistry
from planbench.workbench import Workbench

TEXT = """\
name: sweep
objective: to be looked at
nodes:
  - id: listing
    tool: source
    args: {n: 3}
    description: lists what there is
  - id: fetch
    tool: work
    args: {value: "{item}"}
    depends_on: [listing]
    for_each: {source: "{artifacts.listing}"}
    retry: {max_attempts: 2}
    timeout: 30
    facets: {paths: {v: value}}
"""


def source(n: int = 3) -> list:
    return list(range(n))


async def work(value) -> dict:
    print("working on", value)
    return {"value": value}


@pytest.fixture
def bench(tmp_path):
    return Workbench(ToolRegistry([source, work]), plans_dir=tmp_path)


def heard(session):
    kinds = []
    session.subscribe(kinds.append)
    return kinds


async def turn():
    """One turn of the loop: what was scheduled before it has been called after it."""
    await asyncio.sleep(0)


# Checked


def test_a_session_is_checked_when_it_is_opened(bench):
    session = bench.session(TEXT)
    assert session.report.ok
    assert session.plan.name == session.draft.name == session.name == "sweep"
    assert session in bench.sessions


def test_a_text_that_is_no_plan_has_issues_and_what_could_be_read_as_a_draft(bench):
    session = bench.session(TEXT.replace("tool: source\n", "tool: source\n    nonsense: 1\n"))
    assert not session.report.ok
    assert session.plan is None
    assert [node.id for node in session.draft.nodes] == ["listing", "fetch"]
    assert session.name == "sweep"


@pytest.mark.parametrize("text", ["", "[]", "a: [", "7", "\x00"])
def test_a_text_of_which_nothing_could_be_read_has_no_draft_and_no_view(bench, text):
    session = bench.session(text)
    assert not session.report.ok
    assert session.view() is None
    assert session.name == "plan"
    assert bench.session(text, name="mine").name == "mine"
    with pytest.raises(KeyError):
        session.details("listing")


def test_parameters_are_put_in_for_the_check(bench):
    text = TEXT.replace("{n: 3}", '{n: "{params.n}"}')
    assert bench.session(text, {"n": 4}).plan.node("listing").args == {"n": 4}
    assert bench.session(text, {}).report.issues[0].code == "missing_param"
    assert bench.session(text).report.ok  # unknowns where none are given


def test_a_change_in_the_same_thread_is_checked_once_within_one_turn(bench):
    async def main():
        session = bench.session(TEXT)
        kinds = heard(session)
        bench.registry.remove("work")
        bench.registry.register(source)
        bench.registry.register(Tool.from_function(lambda: None, name="more"))
        assert kinds == []  # not inside of the change itself
        await turn()
        assert kinds == ["report"]
        assert [issue.code for issue in session.report.issues] == ["unknown_tool"]
        bench.registry.register(work)
        await turn()
        assert kinds == ["report", "report"]
        assert session.report.ok

    asyncio.run(main())


def test_a_change_in_another_thread_is_checked_on_the_loop(bench):
    async def main():
        session = bench.session(TEXT)
        threads = []
        session.subscribe(lambda kind: threads.append((kind, threading.current_thread())))
        async with asyncio.timeout(60):
            await asyncio.to_thread(bench.registry.remove, "work")
            while not threads:
                await turn()
        assert threads == [("report", threading.main_thread())]
        assert not session.report.ok

    asyncio.run(main())


def test_a_change_in_a_thread_with_a_loop_of_its_own_is_checked_on_the_sessions_loop(bench):
    async def remove():
        bench.registry.remove("work")
        await asyncio.sleep(0.01)

    async def main():
        session = bench.session(TEXT)
        threads = []
        session.subscribe(lambda kind: threads.append(threading.current_thread()))
        await asyncio.to_thread(lambda: asyncio.run(remove()))
        async with asyncio.timeout(60):
            while not threads:
                await turn()
        assert threads == [threading.main_thread()]
        assert not session.report.ok

    asyncio.run(main())


def test_every_open_session_is_checked_and_a_closed_one_is_not(bench):
    async def main():
        sessions = [bench.session(TEXT) for _ in range(3)]
        kinds = [heard(session) for session in sessions]
        sessions[2].close()
        bench.registry.remove("work")
        await turn()
        assert [session.report.ok for session in sessions] == [False, False, True]
        assert kinds == [["report"], ["report"], []]
        assert bench.sessions == set(sessions[:2])

    asyncio.run(main())


def test_where_no_loop_runs_a_change_is_checked_at_once(bench):
    session = bench.session(TEXT)
    kinds = heard(session)
    bench.registry.remove("work")
    assert kinds == ["report"]
    assert not session.report.ok
    bench.registry.register(work)
    assert session.report.ok


def test_a_session_outlives_the_loop_that_it_was_opened_on(bench):
    sessions = []

    async def first():
        sessions.append(bench.session(TEXT))
        bench.registry.remove("work")  # the loop ends before its next turn

    async def second():
        bench.registry.remove("source")
        await turn()
        assert {i.node_id for i in sessions[0].report.issues} == {"listing", "fetch"}

    asyncio.run(first())
    bench.registry.register(Tool.from_function(lambda: None, name="more"))
    assert not sessions[0].report.ok
    asyncio.run(second())
    bench.registry.register([source, work])
    assert sessions[0].report.ok


def test_a_session_that_was_opened_before_the_loop_is_told_on_the_loop_it_was_subscribed_on(bench):
    session = bench.session(TEXT)

    async def main():
        threads = []
        session.subscribe(lambda kind: threads.append(threading.current_thread()))
        await asyncio.to_thread(bench.registry.remove, "work")
        await turn()
        assert threads == [threading.main_thread()]

    asyncio.run(main())


def test_no_tool_is_called_for_a_check(bench):
    called = []

    def work(value):
        called.append(value)

    bench.registry.register(work)
    session = bench.session(TEXT)
    session.validate()
    bench.registry.remove("source")
    assert called == []


# Run


def test_a_run_is_told_from_its_start_to_its_end(bench):
    async def main():
        session = bench.session(TEXT)
        kinds = heard(session)
        run = await session.start()
        assert session.run is run is bench.run()
        await run
        assert kinds[:2] == ["report", "run"]
        assert kinds[-2:] == ["event", "finished"]
        assert set(kinds[2:-1]) == {"event"}
        assert kinds.count("finished") == 1
        assert kinds.count("event") == len(run.events) - 1

    asyncio.run(main())


def test_an_invalid_plan_is_not_started(bench):
    async def main():
        session = bench.session(TEXT)
        bench.registry.remove("work")
        with pytest.raises(PlanInvalid, match="sweep"):
            await session.start()
        assert session.run is None
        assert bench.runs == []
        broken = bench.session("a: [")
        with pytest.raises(PlanInvalid):
            await broken.start()

    asyncio.run(main())


def test_what_cannot_run_here_is_refused(bench):
    async def main():
        session = bench.session(TEXT.replace("timeout: 30", "approve: true"))
        assert session.report.ok
        with pytest.raises(RunRefused) as raised:
            await session.start()
        assert raised.value.code == "approval_not_available"
        assert session.run is None

    asyncio.run(main())


def test_a_plan_that_lacks_its_parameters_is_not_started(bench):
    async def main():
        session = bench.session(TEXT.replace("{n: 3}", '{n: "{params.n}"}'))
        with pytest.raises(PlanInvalid) as raised:
            await session.start()
        assert raised.value.issues[0].code == "missing_param"

    asyncio.run(main())


def test_cancel_ends_the_latest_run_from_any_thread(bench):
    async def main():
        bench.registry.register(Tool.from_function(asyncio.sleep, name="sleep"))
        plan = ExecutionPlan(
            name="p", objective="o", nodes=[PlanNode(id="a", tool="sleep", args={"delay": 60})]
        )
        session = bench.session(plan)
        session.cancel()  # nothing runs: nothing happens
        run = await session.start()
        await asyncio.to_thread(session.cancel)
        assert (await asyncio.wait_for(run.result(), 20)).status == "cancelled"

    asyncio.run(main())


def test_a_session_follows_its_latest_run_alone(bench):
    async def main():
        session = bench.session(TEXT)
        first = await session.start()
        second = await session.start()
        kinds = heard(session)
        await first
        await second
        assert session.run is second
        assert kinds.count("finished") == 1

    asyncio.run(main())


def test_a_session_can_show_a_run_that_has_ended(bench):
    async def main():
        run = await bench.start(bench.session(TEXT).plan)
        await run
        session = bench.session(TEXT)
        kinds = heard(session)
        session.follow(run)
        assert kinds == ["run", "finished"]
        assert session.run is run

    asyncio.run(main())


def test_a_closed_session_hears_nothing_and_its_run_goes_on(bench):
    async def main():
        session = bench.session(TEXT)
        kinds = heard(session)
        run = await session.start()
        session.close()
        session.close()
        del kinds[:]
        assert (await run).status == "completed"
        assert kinds == []

    asyncio.run(main())


# Telling


def test_a_subscriber_that_raises_keeps_nobody_from_being_told_and_is_logged(bench, caplog):
    def broken(kind):
        raise RuntimeError("the panel is gone")

    async def main():
        session = bench.session(TEXT)
        session.subscribe(broken)
        kinds = heard(session)
        run = await session.start()
        await run
        assert run.status == "completed"
        assert kinds[-1] == "finished"

    with caplog.at_level(logging.ERROR, logger="planbench"):
        asyncio.run(main())
    assert "a subscriber of 'sweep' failed at 'report'" in caplog.text


def test_who_leaves_while_being_told_hears_no_more(bench):
    session = bench.session(TEXT)
    kinds = []

    def once(kind):
        kinds.append(kind)
        leave()
        leave()
        leave_other()

    leave = session.subscribe(once)
    leave_other = session.subscribe(lambda kind: kinds.append("other"))
    session.validate()
    session.validate()
    assert kinds == ["report"]


# Looking


def statuses(session):
    return {node.id: node.status for node in session.view().nodes}


def test_the_view_shows_what_is_wrong_before_a_run_and_after(bench):
    async def main():
        session = bench.session(TEXT)
        assert statuses(session) == {"listing": "idle", "fetch": "idle"}
        bench.registry.remove("work")
        await turn()
        assert statuses(session) == {"listing": "idle", "fetch": "invalid"}
        assert "work" in next(n.note for n in session.view().nodes if n.id == "fetch")
        bench.registry.register(work)
        await (await session.start())
        assert statuses(session) == {"listing": "ok", "fetch": "ok"}
        bench.registry.remove("work")
        await turn()
        assert statuses(session) == {"listing": "ok", "fetch": "invalid"}
        bench.registry.register(work)
        await turn()
        assert statuses(session) == {"listing": "ok", "fetch": "ok"}

    asyncio.run(main())


def test_the_view_of_a_live_run_shows_its_states_and_counts(bench):
    async def main():
        hold = asyncio.Event()

        async def held(value):
            if value:
                await hold.wait()
            return value

        bench.registry.register(Tool.from_function(held, name="work"))
        session = bench.session(TEXT.replace("facets: {paths: {v: value}}", ""))
        run = await session.start()
        async with asyncio.timeout(60):
            while run.state.nodes["fetch"].done != 1:
                await turn()
        bench.registry.remove("source")
        await turn()
        assert statuses(session) == {"listing": "ok", "fetch": "running"}
        fetch = session.view().nodes[1]
        assert (fetch.kind, fetch.done, fetch.total) == ("fan_out", 1, 3)
        run.cancel()
        await run
        assert statuses(session) == {"listing": "invalid", "fetch": "cancelled"}

    asyncio.run(main())


def test_what_never_started_in_a_run_that_ended_is_idle(bench):
    async def main():
        async def stuck():
            await asyncio.sleep(60)

        bench.registry.register(stuck)
        session = bench.session(TEXT.replace("tool: source\n    args: {n: 3}", "tool: stuck"))
        run = await session.start()
        await turn()
        run.cancel()
        await run
        assert statuses(session) == {"listing": "cancelled", "fetch": "idle"}

    asyncio.run(main())


def test_details_hold_all_there_is_to_know_as_json(bench):
    async def main():
        session = bench.session(TEXT)
        before = session.details("fetch")
        assert (before["status"], before["table"], before["total"]) == ("idle", None, None)
        run = await session.start()
        await run
        found = session.details("fetch")
        assert json.loads(json.dumps(found)) == found
        assert found["id"] == "fetch"
        assert found["tool"] == "work"
        assert found["type"] == "tool"
        assert found["args_text"] == "value: '{item}'\n" or "{item}" in found["args_text"]
        assert found["depends_on"] == ["listing"]
        assert found["for_each"]["source"] == "{artifacts.listing}"
        assert found["retry"]["max_attempts"] == 2
        assert found["timeout"] == 30
        assert found["status"] == "ok"
        assert found["facets"] == {"v": [0, 1, 2]}
        assert found["output"].count("working on") == 3
        assert (found["done"], found["total"], found["failed"], found["reused"]) == (3, 3, 0, 0)
        assert found["keys"] == ["fetch.0", "fetch.1", "fetch.2"]
        assert found["nbytes"] > 0
        assert found["seconds"] >= 0
        assert found["issues"] == []
        assert found["table"] == {"columns": ["value"], "rows": [["0"], ["1"], ["2"]], "n_rows": 3}
        assert session.details("listing")["description"] == "lists what there is"

    asyncio.run(main())


def test_a_parameter_that_no_plan_can_hold_is_an_issue_and_the_plan_is_shown_as_written(bench):
    text = TEXT.replace("{n: 3}", '{n: "{params.n}"}')
    session = bench.session(text, {"n": pd.DataFrame({"a": [1]})})
    found = session.details("listing")
    assert "{params.n}" in found["args_text"]
    assert json.loads(json.dumps(found)) == found
    assert any("DataFrame" in issue.message for issue in session.report.issues)

    async def main():
        with pytest.raises(PlanInvalid, match="DataFrame"):
            await session.start()

    asyncio.run(main())


def test_details_name_the_issues_of_the_node_with_their_places(bench):
    bench.registry.remove("work")
    (issue,) = bench.session(TEXT).details("fetch")["issues"]
    assert issue["code"] == "unknown_tool"
    assert issue["line"] == 9
    assert set(issue) >= {"code", "message", "severity", "line", "column", "fix"}


def test_details_of_an_unknown_node_are_a_key_error(bench):
    with pytest.raises(KeyError):
        bench.session(TEXT).details("nothing")


@pytest.mark.parametrize(
    "line",
    [
        "args: 7",
        "depends_on: {a: b}",
        "when: [1]",
        "for_each: text",
        "retry: 9",
        "timeout: soon",
        "store_as: 5",
        "description: [x]",
        "facets: 1",
    ],
)
def test_details_and_view_of_a_broken_node_are_still_there(bench, line):
    text = f"name: p\nobjective: o\nnodes:\n  - id: a\n    tool: source\n    {line}\n"
    session = bench.session(text)
    assert not session.report.ok
    found = session.details("a")
    assert json.loads(json.dumps(found)) == found
    assert found["issues"]
    assert statuses(session) == {"a": "invalid"}


def test_details_of_a_large_table_show_its_beginning(bench):
    frame = pd.DataFrame({f"column {i} {'x' * 300}": range(1_000) for i in range(50)})
    bench.registry.register(Tool.from_function(lambda n: frame, name="source"))
    plan = ExecutionPlan(
        name="p", objective="o", nodes=[PlanNode(id="a", tool="source", args={"n": 1})]
    )

    async def main():
        session = bench.session(plan)
        await (await session.start())
        table = session.details("a")["table"]
        assert table["n_rows"] == 1_000
        assert (len(table["columns"]), len(table["rows"]), len(table["rows"][0])) == (20, 20, 20)
        assert all(len(name) <= 200 for name in table["columns"])

    asyncio.run(main())


def test_at_most_fifty_keys_are_in_the_details(bench):
    async def main():
        session = bench.session(TEXT.replace("{n: 3}", "{n: 120}"))
        await (await session.start())
        found = session.details("fetch")
        assert len(found["keys"]) == 50
        assert found["table"]["n_rows"] == 120
        assert len(found["table"]["rows"]) == 20

    asyncio.run(main())


def deep(levels=5_000):
    value = []
    for _ in range(levels):
        value = [value]
    return value


class Odd:
    def __repr__(self):
        raise RuntimeError("no words")


ODD = [
    None, "", 0, "text", 2**80, float("nan"), b"\xff", [], {}, [[]], [{}], [None], [1, "a", None],
    {"a": [1, {"b": 2}]}, {1: 2}, {None: 1}, {("a", "b"): 1}, (1, 2), {1, 2}, [{"a": 1}, {"b": 2}],
    [{"a": 1}, 7], "\ud800", ["\ud800"], {"\ud800": "\ud800"}, deep(), {"d": deep()}, object(), Odd(),
    [Odd()], pd.NaT, [pd.NaT], dt.date(2026, 8, 6), Decimal("1.10"), np.arange(6), np.ones((2, 3)),
    np.ones((2, 2, 2)), np.float64(1), pd.Series([1, 2], name="s"), pd.DataFrame(), range(3),
    pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, "x")])), [pd.DataFrame({"a": [1]})],
    pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame({("a", "b"): [1]}), lambda: 1, Exception("x"),
]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=[f"{i}-{type(v).__name__}" for i, v in enumerate(ODD)])
@pytest.mark.parametrize("fan", [False, True])
def test_no_value_of_a_tool_breaks_the_details(bench, value, fan):
    bench.registry.register(Tool.from_function(lambda n: value, name="odd"))
    nodes = [PlanNode(id="a", tool="odd", args={"n": 1})]
    if fan:
        nodes = [
            PlanNode(id="src", tool="source"),
            PlanNode(
                id="a", tool="odd", args={"n": "{item}"}, depends_on=["src"],
                for_each={"source": "{artifacts.src}"},
            ),
        ]  # fmt: skip

    async def main():
        session = bench.session(ExecutionPlan(name="p", objective="o", nodes=nodes))
        run = await session.start()
        await run
        assert run.status == "completed", run.failure_text()
        found = session.details("a")
        assert json.loads(json.dumps(found)) == found
        json.dumps(found, ensure_ascii=False).encode()
        if found["table"] is not None:
            assert all(isinstance(cell, str) for row in found["table"]["rows"] for cell in row)
        assert session.view() is not None

    asyncio.run(main())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(json_values)
def test_details_show_any_json_value_as_a_table_of_texts(value):
    bench = Workbench(ToolRegistry([Tool.from_function(lambda: value, name="odd")]))
    plan = ExecutionPlan(name="p", objective="o", nodes=[PlanNode(id="a", tool="odd")])

    async def main():
        session = bench.session(plan)
        await (await session.start())
        return session.details("a")["table"]

    table = asyncio.run(main())
    assert table["n_rows"] == len(table["rows"]) or len(table["rows"]) == 20
    assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_a_session_says_in_one_line_how_it_stands(bench):
    session = bench.session(TEXT)
    assert repr(session) == "<PlanSession 'sweep': ok, run None>"


# Locked


def on_loop(scenario):
    @functools.wraps(scenario)
    def run(**fixtures):
        asyncio.run(scenario(**fixtures))

    return run


def named(bench, text=TEXT):
    bench.plans.save(text, "sweep")
    return bench.session(bench.plans.path("sweep"))


async def run_to_its_end(session):
    run = await session.start()
    await run
    return run, await session.locked()


@on_loop
async def test_a_green_run_of_a_named_plan_puts_its_tools_on_record(bench):
    session = named(bench)
    _, trouble = await run_to_its_end(session)
    lock = bench.plans.read_lock("sweep")
    assert trouble is None
    assert list(lock.tools) == ["source", "work"]
    before = bench.plans.lock_path("sweep").stat()
    await run_to_its_end(session)
    after = bench.plans.lock_path("sweep").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


@on_loop
async def test_only_a_green_run_of_the_plan_as_it_is_is_put_on_record(bench, tmp_path):
    def seldom(value) -> dict:
        if value == 1:
            raise ValueError("one")
        return {"value": value}

    named(bench).close()
    bench.plans.save(TEXT.replace("n: 3", "n: 2"), "sweep")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sweep.yaml").write_text(TEXT)
    plan = bench.plans.load("sweep")
    for source in (bench.plans.path("sweep@1"), tmp_path / "other" / "sweep.yaml", TEXT, plan):
        run, _ = await run_to_its_end(bench.session(source))
        assert run.verdict() == "fine"
    bench.registry.register(Tool.from_function(seldom, name="work"))
    run, _ = await run_to_its_end(bench.session(bench.plans.path("sweep")))
    assert run.verdict() == "lost"
    assert bench.plans.read_lock("sweep") is None


@on_loop
async def test_a_run_that_is_only_shown_puts_nothing_on_record(bench):
    run, _ = await run_to_its_end(bench.session(TEXT))
    session = named(bench)
    session.follow(run)
    assert await session.locked() is None
    assert bench.plans.read_lock("sweep") is None


@on_loop
async def test_the_tools_on_record_are_those_that_the_run_began_with(bench):
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(n: int = 3) -> list:
        started.set()
        await go_on.wait()
        return []

    bench.registry.register(Tool.from_function(slow, name="source"))
    session = named(bench)
    run = await session.start()
    await started.wait()
    bench.registry.register(source)
    go_on.set()
    await run
    await session.locked()
    issues = [issue.code for issue in session.validate().issues]
    assert issues == []  # another body takes and gives the same
    bench.registry.register(Tool.from_function(lambda: 1, name="source"))
    assert [issue.code for issue in session.validate().issues] == ["unknown_args", "tool_changed"]


@on_loop
async def test_a_changed_tool_is_told_before_the_run(bench):
    session = named(bench)
    await run_to_its_end(session)

    def changed(n: int = 3, *, order: str = "up") -> list:
        return list(range(n))

    kinds = heard(session)
    bench.registry.register(Tool.from_function(changed, name="source"))
    await turn()
    assert kinds == ["report"]
    assert [(i.code, i.severity) for i in session.report.issues] == [("tool_changed", "warning")]
    await run_to_its_end(session)
    assert session.validate().issues == []


@on_loop
async def test_a_lock_that_cannot_be_written_fails_no_run_and_is_told(bench, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("planbench.files.store.write_whole", refuse)
    session = bench.session(TEXT)
    (bench.plans.plans_dir / "sweep.yaml").write_text(TEXT)
    session = bench.session(bench.plans.path("sweep"))
    run, trouble = await run_to_its_end(session)
    assert run.status == "completed"
    assert trouble == "the lock of plan 'sweep' cannot be written: Permission denied"
    assert [(i.code, i.severity) for i in session.report.issues] == [
        ("lock_not_written", "warning")
    ]
    assert session.report.ok


@on_loop
async def test_whatever_goes_wrong_with_the_record_the_run_stays_green(bench, monkeypatch):
    def fail(*_):
        raise KeyError("a package without a version")

    monkeypatch.setattr("planbench.session.make_lock", fail)
    _, trouble = await run_to_its_end(named(bench))
    assert trouble == "KeyError('a package without a version')"


@on_loop
async def test_closing_the_workbench_waits_for_the_record(bench):
    run = await named(bench).start()
    await run
    await bench.close()
    assert bench.plans.read_lock("sweep") is not None


# Inferred


SHORT = TEXT.replace("    depends_on: [listing]\n", "")


@on_loop
async def test_the_edges_that_nobody_wrote_are_drawn_so_before_during_and_after_a_run(bench):
    session = bench.session(SHORT)
    assert [edge.kind for edge in session.view().edges] == ["inferred"]
    run = await session.start()
    assert not run.finished
    assert [edge.kind for edge in session.view().edges] == ["inferred"]
    await run
    assert [edge.kind for edge in session.view().edges] == ["inferred"]
    again = bench.session(run.plan)
    again.follow(run)
    assert [edge.kind for edge in again.view().edges] == ["inferred"]


@on_loop
async def test_an_edge_that_was_written_since_is_drawn_as_it_was_when_it_ran(bench):
    session = named(bench, SHORT)
    run = await session.start()
    await run
    bench.plans.save(TEXT, "sweep")
    session.validate()
    assert [edge.kind for edge in session.view().edges] == ["inferred"]
    assert [edge.kind for edge in named(bench).view().edges] == ["declared"]
