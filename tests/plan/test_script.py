from __future__ import annotations

import ast
import asyncio
import builtins
import datetime as dt
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import ExecutionPlan, ToolRegistry, WorkingMemory, load_plan, run_sync
from planbench.plan import script_runtime, script_values
from planbench.plan.script import to_script

HEAD = "name: p\nobjective: o\n"
STDLIB = {"asyncio", "importlib", "inspect", "json", "os", "re", "sys", "typing"}


def echo(value=None):
    return value


def table(n: int, kind: str = "a"):
    return [
        {"id": i, "kind": kind, "tags": ["x"] * i, "owner": {"name": f"o{i}"}} for i in range(n)
    ]


def boom(value=None):
    raise ValueError(f"boom {value}")


def odd(value: int):
    if value % 2:
        raise ValueError(f"odd {value}")
    return value


TOOLS = {"echo": echo, "table": table, "boom": boom, "odd": odd}


def loaded(script):
    """Execute a script's module where nothing but the standard library can be reached."""
    asked = set()

    def importing(name, *rest):
        asked.add(name)
        return builtins.__import__(name, *rest)

    space = {"__name__": "script", "__builtins__": {**vars(builtins), "__import__": importing}}
    exec(compile(script, "script.py", "exec"), space)
    assert asked <= STDLIB | {"__future__"}
    return space


def ran(plan, params=None, tools=TOOLS):
    return asyncio.run(loaded(to_script(plan))["start"](tools, params or {}))


def both(text, params=None):
    """Run a plan in planbench and as a script: the statuses and the results by key of each."""
    plan = load_plan(text) if isinstance(text, str) else text
    memory = WorkingMemory()
    options = {"params": params} if params is not None else {}
    manifest = run_sync(plan, registry=ToolRegistry(TOOLS.values()), memory=memory, **options)
    run = ran(plan, params)
    theirs = {ref.node_id: ref.status for ref in manifest.artifacts}
    assert run.status == theirs
    assert run.stored == {key: memory.get(key) for key in memory.keys()}  # noqa: SIM118 - a method of the memory
    assert {node: run.facets.get(node, {}) for node in theirs} == {
        ref.node_id: ref.facets for ref in manifest.artifacts
    }
    return run


def test_results_go_from_node_to_node_as_they_do_in_a_run():
    run = both(
        HEAD + "nodes:\n"
        "  - {id: c, tool: echo, depends_on: [a, b], args: {value: {whole: '{artifacts.a}', text: 'a={artifacts.a} b={artifacts.b}', esc: '{{artifacts.a}} {item.x'}}}\n"
        "  - {id: a, tool: echo, args: {value: [1, null, 'ä']}}\n"
        "  - {id: b, tool: echo, args: {value: 0}, store_as: bee}\n"
    )

    assert run.results["c"] == {
        "whole": [1, None, "ä"],
        "text": 'a=[1,null,"ä"] b=0',
        "esc": "{artifacts.a} {item.x",
    }
    assert run.stored["bee"] == 0


def test_a_fan_out_makes_one_call_per_item_and_keeps_the_order():
    run = both(
        HEAD + "nodes:\n"
        "  - {id: rows, tool: table, args: {n: 3}, facets: {counts: {n: '[]', tags: '[].tags[]'}, group_counts: {by: '[].kind'}, paths: {first: '[0].owner.name'}}}\n"
        "  - id: each\n    tool: echo\n    depends_on: [rows]\n    store_as: 'row_{row.id}'\n"
        "    for_each: {source: '{artifacts.rows}', as: row, max_concurrency: 1}\n"
        "    args: {value: {owner: '{row.owner.name}', i: '{index}', t: '{row.kind}{index}'}}\n"
        "    facets: {paths: {owner: owner}}\n"
    )

    assert run.results["each"][2] == {"owner": "o2", "i": 2, "t": "a2"}
    assert run.facets["rows"] == {"n": 3, "tags": 3, "by": {"a": 3}, "first": "o0"}
    assert run.facets["each"] == {"owner": ["o0", "o1", "o2"]}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ("", "partial"),
        (", on_item_error: skip", "partial"),
        (", on_item_error: fail", "error"),
        (", max_failed: 1", "error"),
        (", max_failed: 2", "partial"),
        (", max_failed: '40%'", "error"),
        (", max_items: 3", "error"),
    ],
)
def test_lost_items_end_a_fan_out_as_they_do_in_a_run(options, status):
    plan = load_plan(
        HEAD + "nodes:\n"
        "  - {id: a, tool: echo, args: {value: [0, 1, 2, 3]}}\n"
        "  - {id: b, tool: odd, depends_on: [a], args: {value: '{item}'}, for_each: {source: '{artifacts.a}', max_concurrency: 1"
        + options
        + "}}\n  - {id: c, tool: echo, depends_on: [b], args: {value: '{artifacts.b}'}}\n"
    )

    run = ran(plan)
    theirs = run_sync(plan, registry=ToolRegistry(TOOLS.values()))

    assert run.status["b"] == status
    assert run.status == {ref.node_id: ref.status for ref in theirs.artifacts}
    assert run.results.get("c") == ([0, 2] if status == "partial" else None)


def test_what_waits_for_a_failed_node_is_blocked_and_the_rest_goes_on():
    run = both(
        HEAD + "nodes:\n"
        "  - {id: a, tool: boom}\n"
        "  - {id: b, tool: echo, depends_on: [a]}\n"
        "  - {id: c, tool: echo, depends_on: [b]}\n"
        "  - {id: d, tool: echo}\n"
    )

    assert run.status == {"a": "error", "b": "error", "c": "error", "d": "ok"}
    assert run.reasons["a"] == ["ValueError: boom None"]


def test_the_reader_of_a_skipped_result_is_skipped():
    run = both(
        HEAD + "nodes:\n"
        "  - {id: a, tool: echo, when: 'ctx.errors > 0'}\n"
        "  - {id: b, tool: echo, depends_on: [a], args: {value: '{artifacts.a}'}}\n"
        "  - {id: c, tool: echo, depends_on: [a], args: {value: 1}}\n"
    )

    assert run.status == {"a": "skipped", "b": "skipped", "c": "ok"}


@pytest.mark.parametrize(
    ("guard", "status"),
    [
        ("ctx.artifacts.a.n > 1", "ok"),
        ("ctx.artifacts.a.n < 1", "skipped"),
        ("ctx.artifacts.a.n == 2.0 && ctx.status.a == 'ok'", "ok"),
        ("!(ctx.status['a'] != \"ok\")", "ok"),
        ("ctx.artifacts.a.first == true", "skipped"),
        ("ctx.artifacts.a.nothing > 1 || ctx.artifacts.a.n == 2", "ok"),
        ("ctx.artifacts.a.n == 2 || ctx.artifacts.a.nothing > 1", "ok"),
        ("ctx.artifacts.a.nothing > 1 && ctx.artifacts.a.n == 7", "skipped"),
        ("ctx.artifacts.a.first > 'n'", "ok"),
        ("ctx.artifacts.a.first > 1", "skipped"),
        ("ctx.artifacts.a.first in ['o0', 1]", "ok"),
        ("ctx.artifacts.a.n in [1, 3]", "skipped"),
        ("'b' in ctx.artifacts.a.by", "ok"),
        ("size(ctx.artifacts.a.by) == 1", "ok"),
        ("ctx.artifacts.a.by.b > 1", "ok"),
        ("ctx.artifacts.a.by['z'] > 1", "skipped"),
        ("ctx.artifacts.a.count == 2 && ctx.artifacts.a.items_ok == 1", "ok"),
        ("ctx.artifacts.a.first == null", "skipped"),
        ("ctx.errors == 0", "ok"),
        ("true", "ok"),
        ("ctx.artifacts.a.n", "skipped"),
        ("-1 < ctx.artifacts.a.n", "ok"),
    ],
)
def test_a_guard_of_comparisons_decides_as_cel_does(guard, status):
    plan = ExecutionPlan.model_validate(
        {
            "name": "p",
            "objective": "o",
            "nodes": [
                {
                    "id": "a",
                    "tool": "table",
                    "args": {"n": 2, "kind": "b"},
                    "facets": {
                        "counts": {"n": "[]"},
                        "group_counts": {"by": "[].kind"},
                        "paths": {"first": "[0].owner.name"},
                    },
                },
                {"id": "b", "tool": "echo", "depends_on": ["a"], "when": guard},
            ],
        }
    )
    registry = ToolRegistry(TOOLS.values())
    if "nothing" not in guard:  # which is refused before a run
        theirs = run_sync(plan, registry=registry)
        assert {ref.node_id: ref.status for ref in theirs.artifacts}["b"] == status

    assert ran(plan).status["b"] == status


@pytest.mark.parametrize(
    "guard",
    [
        "ctx.artifacts.a.n + 1 > 2",
        "ctx.artifacts.a.first.startsWith('o')",
        "has(ctx.artifacts.a.n)",
        "ctx.artifacts.a.bytes > 3",
        "ctx.artifacts.a.n > 1u",
        "ctx.artifacts.a.n > 1 ? true : false",
        r"ctx.artifacts.a.first == 'a\'b'",
        "ctx.artifacts.a.n > {params.least}",
        "ctx.status.a == 'ok' and true",
    ],
)
def test_a_guard_of_another_kind_is_left_to_be_written(guard):
    plan = ExecutionPlan.model_validate(
        {
            "name": "p",
            "objective": "o",
            "nodes": [
                {"id": "a", "tool": "echo"},
                {"id": "b", "tool": "echo", "depends_on": ["a"], "when": guard},
            ],
        }
    )
    script = to_script(plan)

    with pytest.raises(Exception, match="write the function may_b"):
        asyncio.run(loaded(script)["start"](TOOLS, {}))
    body = 'raise NotWritten(f"write this guard in Python: {guard}")'
    assert script.count(body) == 1
    written = script.replace("@to_write\n", "").replace(body, "return run.status['a'] == 'ok'")
    assert asyncio.run(loaded(written)["start"](TOOLS, {})).status == {"a": "ok", "b": "ok"}


def test_a_delegate_is_left_to_be_written():
    plan = load_plan(
        HEAD + "nodes:\n  - {id: d, type: delegate, instruction: 'Choose', tools: [echo]}\n"
    )

    with pytest.raises(Exception, match="write the function d"):
        ran(plan)


def test_parameters_come_from_the_command_line(tmp_path):
    plan = load_plan(
        "name: p\nobjective: o\n"
        "params: {date: {type: date}, n: {type: int, default: 2}, who: {required: false}}\n"
        "metadata: {max_parallel_tasks: '{params.n}'}\n"
        "nodes:\n"
        "  - {id: a, tool: show, args: {value: ['{params.date}', '{params.n}', '{params.who}', 'on {params.date}', '{params.more}']}}\n"
    )
    (tmp_path / "script.py").write_text(to_script(plan), encoding="utf-8")
    (tmp_path / "mine.py").write_text("def show(value):\n    print(value)\n", encoding="utf-8")

    def command(*words):
        return subprocess.run(
            [sys.executable, "script.py", *words],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = command("mine", "date=2024-01-01", "n=3", "more=x")
    assert done.stdout.splitlines() == [
        "['2024-01-01', 3, None, 'on 2024-01-01', 'x']",
        "ok       a",
    ]
    assert (done.returncode, done.stderr) == (0, "")
    assert "a value is missing: date=..." in command("mine", "more=x").stderr
    assert "there is no parameter 'dat'" in command("mine", "dat=1").stderr
    assert "usage" in command().stderr


def test_a_red_node_makes_the_script_end_with_1(tmp_path):
    plan = load_plan(HEAD + "nodes:\n  - {id: a, tool: my-tool}\n")
    (tmp_path / "script.py").write_text(to_script(plan), encoding="utf-8")
    (tmp_path / "mine.py").write_text("TOOLS = {'my-tool': lambda: 1 / 0}\n", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "script.py", "mine"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert done.stdout == "error    a  ZeroDivisionError: division by zero\n"


def test_tries_and_time_limits_are_those_of_the_plan():
    calls = []

    async def slow(value):
        calls.append(value)
        await asyncio.sleep(60 if len(calls) < 3 else 0)
        return value

    plan = load_plan(
        HEAD
        + "nodes:\n  - {id: a, tool: slow, timeout: 0.3, args: {value: 1}, retry: {max_attempts: 3}}\n"
        "  - {id: b, tool: slow, timeout: 0.3, args: {value: 2}}\n"
    )
    run = ran(plan, tools={"slow": slow})

    assert calls.count(1) + calls.count(2) == len(calls)
    assert run.status["a"] == "ok"
    plan = load_plan(
        HEAD
        + "metadata: {execution_timeout: 0.01}\nnodes:\n  - {id: a, tool: slow, args: {value: 1}}\n"
    )
    calls.clear()
    assert ran(plan, tools={"slow": slow}).reasons["a"] == ["the time limit of 0.01 s was over"]


def test_no_more_calls_run_at_once_than_the_plan_allows():
    active, most = 0, 0

    async def count(value):
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        active -= 1

    plan = load_plan(
        HEAD + "metadata: {max_parallel_tasks: 2}\nnodes:\n"
        "  - {id: a, tool: echo, args: {value: [1, 2, 3, 4, 5, 6]}}\n"
        "  - {id: b, tool: count, depends_on: [a], for_each: {source: '{artifacts.a}'}, args: {value: '{item}'}}\n"
        "  - {id: c, tool: count, depends_on: [a], for_each: {source: '{artifacts.a}'}, args: {value: '{item}'}}\n"
    )
    run = ran(plan, tools={"count": count, "echo": echo})

    assert set(run.status.values()) == {"ok"}
    assert most == 2


def test_a_script_holds_only_the_parts_that_it_needs():
    small = to_script(load_plan(HEAD + "nodes:\n  - {id: a, tool: echo}\n"))

    assert "def each(" not in small
    assert "def at(" not in small
    assert "def compare(" not in small
    assert "planbench" not in small.replace('"""', "", 1)
    assert "noqa" not in small


def test_the_reference_of_a_node_is_passed_without_its_body():
    run = both(
        HEAD + "nodes:\n"
        "  - {id: a, tool: table, args: {n: 2}, facets: {counts: {n: '[]'}}}\n"
        "  - {id: b, tool: echo, depends_on: [a], args: {value: 'x'}}\n"
    )
    plan = load_plan(
        HEAD + "nodes:\n"
        "  - {id: a, tool: table, args: {n: 2}, facets: {counts: {n: '[]'}}}\n"
        "  - {id: b, tool: echo, depends_on: [a], args: {value: '{nodes.a.output}'}}\n"
    )
    run = ran(plan)

    assert run.results["b"] == {
        "node_id": "a",
        "keys": ["a"],
        "facets": {"n": 2},
        "status": "ok",
        "item_count": None,
        "errors": [],
    }


NAMES = {
    *dir(builtins), *STDLIB, "annotations", "Any", "PLAN", "PARAMS", "VALUES",
    *(name for module in (script_values, script_runtime) for name in vars(module)),
    "run", "params", "tools", "item", "items", "index", "one", "key", "start", "main", "nodes",
    "guard", "instruction",
}  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_text_of_a_plan_is_code_in_its_script(plans, data):
    plan = data.draw(plans)
    script = to_script(plan)

    space = loaded(script)
    assert space["PLAN"] == plan.name
    parts = {name for module in (script_values, script_runtime) for name in vars(module)}
    ours = {
        name
        for node in ast.parse(script).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name not in parts
        for name in [node.name]
    }
    assert len(ours) <= 2 * len(plan.nodes) + 3
    own = [n for n in ast.parse(script).body if getattr(n, "name", None) in ours]
    named = {n.id for tree in own for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert named <= NAMES | ours


@st.composite
def runnable(draw):
    """A plan of calls that run: results, fan-outs, guards, failures."""
    size = draw(st.integers(1, 6))
    nodes = []
    for place in range(size):
        needs = sorted(draw(st.sets(st.integers(0, place - 1), max_size=3))) if place else []
        needs = [f"n{need}" for need in needs]
        node = {"id": f"n{place}", "depends_on": needs}
        value = draw(st.sampled_from([0, None, "x", [1, 2, 3], [], [0, 2], {"a": [1]}]))
        node |= {"tool": "echo", "args": {"value": value}}
        if needs:
            first = draw(st.sampled_from(needs))
            kind = draw(st.sampled_from(["pass", "text", "fan", "odd", "guard", "boom", "plain"]))
            if kind == "pass":
                node["args"] = {"value": [f"{{artifacts.{need}}}" for need in needs]}
            elif kind == "text":
                node["args"] = {"value": "-".join(f"{{artifacts.{need}}}" for need in needs)}
            elif kind in {"fan", "odd"}:
                node["tool"] = "echo" if kind == "fan" else "odd"
                node["for_each"] = {"source": f"{{artifacts.{first}}}", "max_concurrency": 1}
                node["for_each"]["on_item_error"] = draw(
                    st.sampled_from(["collect", "skip", "fail"])
                )
                node["args"] = {"value": "{item}"}
            elif kind == "guard":
                node["when"] = draw(
                    st.sampled_from(
                        [
                            f"ctx.artifacts.{first}.count > 1",
                            f"ctx.status.{first} == 'ok' && ctx.artifacts.{first}.count < 9",
                            f"ctx.artifacts.{first}.n > 0 || ctx.status.{first} == 'partial'",
                            f"!(ctx.artifacts.{first}.items_failed == 0)",
                        ]
                    )
                )
            elif kind == "boom":
                node["tool"] = "boom"
        node["facets"] = {"counts": {"n": "[]"}}
        nodes.append(node)
    return ExecutionPlan.model_validate(
        {
            "name": "p",
            "objective": "o",
            "metadata": {"max_parallel_tasks": 1},
            "nodes": draw(st.permutations(nodes)),
        }
    )


@settings(max_examples=30, deadline=None)
@given(plan=runnable())
def test_a_script_ends_as_the_run_of_its_plan_does(plan):
    both(plan)


def test_what_json_does_not_have_is_the_same_text_in_the_script_and_in_the_run():
    def strange():
        nan = float("nan")
        return {"d": dt.date(2024, 1, 1), "n": nan, "s": {"b", "a"}, "i": 2**70, "k": {(1,): 1e16}}

    plan = load_plan(
        HEAD + "nodes:\n  - {id: a, tool: strange}\n"
        "  - {id: b, tool: echo, depends_on: [a], args: {value: 'x {artifacts.a}'}}\n"
    )
    memory = WorkingMemory()
    run_sync(plan, registry=[strange, echo], memory=memory)
    run = ran(plan, tools={"strange": strange, "echo": echo})

    assert run.stored["b"] == memory.get("b")
    assert run.stored["b"].startswith('x {"d":"2024-01-01","n":null,"s":["a","b"],"i":11805')
