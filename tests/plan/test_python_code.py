from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import ExecutionPlan, load_plan
from planbench.plan.python_code import to_python
from planbench.plan.script import to_script

SWEEP = Path(__file__).resolve().parents[2] / "planbench/examples/daily_security_sweep.yaml"
ALLOWED = ("str", "int", "float", "bool", "list", "dict")


def made(code):
    """Run builder code where nothing but planbench can be reached."""

    def only_planbench(name, *rest):
        assert name == "planbench", name
        return builtins.__import__(name, *rest)

    allowed = {name: getattr(builtins, name) for name in ALLOWED}
    space = {"__builtins__": {**allowed, "__import__": only_planbench}}
    exec(compile(code, "plan.py", "exec"), space)
    return space["plan"]


def code_of(*nodes, **fields):
    plan = ExecutionPlan.model_validate(
        {"name": "p", "objective": "o", "nodes": list(nodes), **fields}
    )
    code = to_python(plan)
    assert made(code) == plan
    return code


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_code_of_any_plan_makes_an_equal_plan(plans, data):
    plan = data.draw(plans)
    again = made(to_python(plan))

    assert again == plan
    assert to_python(again) == to_python(plan)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_text_of_a_plan_is_code(plans, data):
    plan = data.draw(plans)
    tree = ast.parse(to_python(plan))

    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assigned = [node.targets[0].id for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    known = {"p", "plan", "Plan", "FacetSpec", "count", "groups", "item", *ALLOWED}
    assert names <= known | set(assigned)
    assert len(assigned) == len(set(assigned)) <= len(plan.nodes) + len(plan.params) + 1
    assert not {*dir(builtins)} & set(assigned)
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert called <= {"p.add", "p.map", "p.node", "p.param", "p.delegate", "p.build"} | {
        "Plan",
        "FacetSpec",
        "count",
        "groups",
        "float",
    }


def test_the_sweep_reads_as_a_person_would_write_it():
    plan = load_plan(SWEEP)
    code = to_python(plan)

    assert made(code) == plan
    assert code.startswith("from planbench import Plan, count, groups, item\n\nwith Plan(\n")
    assert '    date = p.param("date", str, description="the day' in code
    assert '        listing["reports[]"],\n' in code
    assert '        report_id=item["report_id"],\n' in code
    assert "        reports=fetch,\n" in code
    assert "depends_on" not in code
    assert max(map(len, code.splitlines())) <= 110


@pytest.mark.parametrize("node_id", ["class", "p", "Plan", "str", "a-b", "item", "count", "x__y"])
def test_a_variable_is_never_a_word_that_means_something(node_id):
    code = code_of(
        {"id": node_id, "tool": "t"},
        {
            "id": "a_b",
            "tool": "t",
            "args": {"x": f"{{artifacts.{node_id}}}"},
            "depends_on": [node_id],
        },
    )

    assert "{artifacts" not in code


def test_a_node_that_is_read_before_it_is_written_stays_a_text():
    code = code_of(
        {"id": "b", "tool": "t", "args": {"x": "{artifacts.a}"}, "depends_on": ["a"]},
        {"id": "c", "tool": "t", "for_each": {"source": "{artifacts.a}", "select": "[].x"}, "depends_on": ["a"]},
        {"id": "a", "tool": "t"},
    )  # fmt: skip

    assert 'x="{artifacts.a}"' in code
    assert '"a[].x"' in code


def test_arguments_whose_names_are_options_or_no_names_stand_in_args():
    for name in ("timeout", "as_", "a b", "class", "", "ﬁ", "self"):
        code = code_of({"id": "a", "tool": "t", "args": {name: 1}})
        assert ("args={" in code) is (name != "self")


def test_dependencies_that_the_node_does_not_read_are_said():
    nodes = [{"id": name, "tool": "t"} for name in "abc"]
    reads = {"tool": "t", "args": {"x": "{artifacts.b}"}}

    code = code_of(*nodes, {"id": "d", **reads, "depends_on": ["b", "a"]})
    assert "after=[a]" in code
    code = code_of(*nodes, {"id": "d", **reads, "depends_on": ["a", "b"]})
    assert "depends_on=[a, b]" in code


def test_what_the_builder_has_no_words_for_is_given_by_its_fields():
    a = {"id": "a", "tool": "t"}
    each = {"source": "{artifacts.a}"}
    for node in (
        {"id": "b", "type": "delegate", "instruction": "x", "for_each": each, "depends_on": ["a"]},
        {"id": "b", "tool": "t", "for_each": {**each, "select": "no path"}, "depends_on": ["a"]},
    ):
        assert "p.node({" in code_of(a, node).replace("(\n        {", "({")
    odd = {"paths": {"x": "a"}, "counts": {"x": "["}}
    assert "facets=FacetSpec(" in code_of({**a, "facets": odd})
    params = {"a-b": {}, "ok": {"default": None}}
    assert 'params={"a-b": {}}' in code_of(a, params=params)


def test_a_default_of_null_makes_a_parameter_optional_and_is_kept():
    code = code_of({"id": "a", "tool": "t"}, params={"x": {"default": None}, "y": {}})

    assert 'x = p.param("x", str, default=None)' in code
    assert 'y = p.param("y", str)' in code


def test_a_long_chain_is_written_in_linear_time():
    nodes = [{"id": "n0", "tool": "t"}]
    for place in range(1, 3000):
        before = f"n{place - 1}"
        nodes.append(
            {
                "id": f"n{place}",
                "tool": "t",
                "depends_on": [before],
                "args": {"x": f"{{artifacts.{before}}}"},
            }
        )

    assert code_of(*nodes).count("p.add(") == 3000


def test_arguments_may_be_as_deep_as_a_plan_allows():
    deep = "x"
    for _ in range(95):
        deep = [deep, {"k": deep}] if isinstance(deep, str) else [deep]

    assert code_of({"id": "a", "tool": "t", "args": {"x": deep}})


HOSTILE_IDS = ["x'); import os #", "a\nb", '"""', "é-ß", "1", "", "__import__", "None"]


@pytest.mark.parametrize("write", [to_python, to_script])
def test_ids_that_no_plan_may_have_are_no_code_either(write):
    plan = load_plan("name: p\nobjective: o\nnodes:\n  - {id: a, tool: t}\n")
    nodes = [
        plan.nodes[0].model_copy(update={"id": name, "store_as": name}) for name in HOSTILE_IDS
    ]
    tree = ast.parse(write(plan.model_copy(update={"nodes": nodes})))

    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert set(HOSTILE_IDS) <= texts
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    assert "os" not in imported
