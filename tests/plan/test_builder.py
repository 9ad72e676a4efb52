from __future__ import annotations

import datetime as dt
import functools

import numpy as np
import pandas as pd
import pytest

from planbench import ExecutionPlan, FacetSpec, PlanInvalid, RetryPolicy, Tool, load_plan
from planbench.errors import LanguageError
from planbench.plan.builder import Plan
from planbench.plan.handles import count, groups, index, item


def list_reports(date: str):
    return date


def fetch_report(key: str, limit: int = 3):
    return key, limit


def sweep():
    with Plan("sweep", objective="What is new?") as p:
        listing = p.add(list_reports, date=p.param("date", str), facets={"n": count("keys[]")})
        p.map(fetch_report, listing["keys[]"], key=item)
    return p


def only(p):
    (node,) = p.build().nodes
    return node


def test_a_plan_written_in_python_is_the_plan_of_its_file():
    assert sweep().to_yaml() == (
        "name: sweep\n"
        "objective: What is new?\n"
        "params:\n"
        "  date:\n"
        "    type: str\n"
        "nodes:\n"
        "  - id: list_reports\n"
        "    tool: list_reports\n"
        "    args:\n"
        '      date: "{params.date}"\n'
        "    facets:\n"
        "      counts:\n"
        "        n: keys[]\n"
        "  - id: fetch_report\n"
        "    tool: fetch_report\n"
        "    depends_on:\n"
        "      - list_reports\n"
        "    for_each:\n"
        '      source: "{artifacts.list_reports}"\n'
        "      select: keys[]\n"
        "    args:\n"
        '      key: "{item}"\n'
    )


@pytest.mark.parametrize("value", ["2026-08-06", "", "{item}", "{artifacts.x}", 'a"b\n', "no"])
def test_parameters_give_the_same_plan_as_they_do_in_the_file(value):
    p = sweep()

    assert load_plan(p.to_yaml()) == p.build()
    assert load_plan(p.to_json()) == p.build()
    assert load_plan(p.to_yaml(), params={"date": value}) == p.build(params={"date": value})
    assert p.build(params={"date": value}).params == {}


@pytest.mark.parametrize("params", [{}, {"date": 5}, {"date": "x", "more": 1}])
def test_parameters_that_do_not_fit_are_refused_as_they_are_for_the_file(params):
    p = sweep()

    with pytest.raises(PlanInvalid) as ours:
        p.build(params=params)
    with pytest.raises(PlanInvalid) as theirs:
        load_plan(p.to_yaml(), params=params)
    assert [i.code for i in ours.value.issues] == [i.code for i in theirs.value.issues]


def test_handles_carry_the_edges_from_wherever_they_stand():
    p = Plan("p")
    a, b, c, d = (p.add("make", id=name) for name in "abcd")
    p.add(
        "use",
        id="e",
        one=[{"deep": [b]}],
        two=a.ref,
        three=f"{c.text} and {a.text}",
        when=d.facet("count") > 0,
        after=[b, "a"],
    )
    node = p.build().nodes[-1]

    assert node.depends_on == ["b", "a", "c", "d"]
    assert node.args == {
        "one": [{"deep": ["{artifacts.b}"]}],
        "two": "{nodes.a.output}",
        "three": "{artifacts.c} and {artifacts.a}",
    }


def test_a_guard_in_text_carries_edges_too_also_with_a_parameter_in_it():
    p = Plan("p")
    p.add("make", id="a", facets={"n": count("[]")})
    p.add("use", id="b", when="ctx.artifacts.a.n > {params.least} && ctx.errors == 0")
    p.add("use", id="c", when="a.n > 0 && b.status == 'ok'")

    nodes = p.build().nodes
    assert [node.depends_on for node in nodes] == [[], ["a"], ["a", "b"]]
    assert nodes[2].when == "ctx.artifacts.a.n > 0 && ctx.status.b == 'ok'"


def test_depends_on_says_all_that_is_waited_for():
    p = Plan("p")
    a, b = p.add("make", id="a"), p.add("make", id="b")
    p.add("use", id="c", value=a, depends_on=[b, a])

    assert p.build().nodes[-1].depends_on == ["b", "a"]
    with pytest.raises(LanguageError, match="after or depends_on"):
        p.add("use", after=[a], depends_on=[b])
    with pytest.raises(PlanInvalid, match="undeclared_reference"):
        Plan.build(_with_missing_edge())


def _with_missing_edge():
    p = Plan("p")
    p.add("use", value=p.add("make"), depends_on=[])
    return p


def test_ids_come_from_the_name_of_the_tool_and_are_made_unique():
    p = Plan("p")
    names = ["fetch", "fetch", "fetch_2", "fetch", "github.list issues", "_private", "9", "é"]
    ids = [p.add(name).id for name in names]

    assert ids == [
        "fetch",
        "fetch_2",
        "fetch_2_2",
        "fetch_3",
        "github_list_issues",
        "node_private",
        "node_9",
        "node",
    ]
    assert p.add("x", id="my-id").id == "my-id"
    assert isinstance(p.build(), ExecutionPlan)
    for wrong, said in [("my-id", "is taken"), ("1", "start with a letter"), ("a b", "letters")]:
        with pytest.raises(LanguageError, match=said):
            p.add("x", id=wrong)


def test_a_tool_is_a_function_a_tool_or_a_name():
    class Caller:
        def __call__(self, x):
            return x

    p = Plan("p")
    tools = [
        list_reports,
        functools.partial(fetch_report, limit=1),
        Tool.from_function(list_reports, name="other"),
        Caller(),
        "by name",
    ]
    for tool in tools:
        p.add(tool)

    assert [node.tool for node in p.build().nodes] == [
        "list_reports",
        "fetch_report",
        "other",
        "Caller",
        "by name",
    ]
    for wrong in (lambda: 1, 5, Caller, p.param("x")):
        with pytest.raises(LanguageError):
            p.add(wrong)


def test_a_keyword_that_could_be_meant_twice_is_refused_with_both_ways_out():
    def wait(timeout: float, id: str):  # noqa: A002 - a name that nodes have too
        return timeout, id

    p = Plan("p")
    with pytest.raises(LanguageError, match="wait has a parameter 'timeout', and so have nodes"):
        p.add(wait, timeout=3)
    with pytest.raises(LanguageError, match="'timeout'"):
        p.add(Tool.from_function(wait), timeout=3)
    node = p.add(wait, args={"timeout": 3, "id": "x"}, timeout=9)

    assert p.build().node(node.id).args == {"timeout": 3, "id": "x"}
    assert p.build().node(node.id).timeout == 9
    with pytest.raises(LanguageError, match="'x' is given twice"):
        p.add("t", args={"x": 1}, x=2)


def test_the_source_of_a_tool_is_an_argument_like_any_other():
    def read(source: str, select: str):
        return source, select

    p = Plan("p")
    rows = p.add("rows")
    p.map(read, rows, source=item, select="x", args=None)

    assert p.build().nodes[-1].args == {"source": "{item}", "select": "x"}


def test_every_option_reaches_its_field():
    p = Plan("p")
    rows = p.add("rows")
    p.map(
        "t",
        rows["a.b[]"],
        as_="region",
        max_items=5,
        max_concurrency=2,
        on_item_error="fail",
        max_failed="5%",
        skip_existing=False,
        id="x",
        store_as="{region.name}.{index}",
        when="true",
        facets={"n": count("a[]"), "by": groups("a[].k"), "path": "a.b"},
        max_group_keys=3,
        timeout=2.5,
        retry=3,
        description="d",
        approve="sure?",
        cache=60,
        place=index,
        name="{region.name}",
        owner=item["owner.name"],
    )
    node = p.build().node("x")

    assert node.for_each.model_dump(by_alias=True) == {
        "source": "{artifacts.rows}",
        "select": "a.b[]",
        "as": "region",
        "max_items": 5,
        "max_concurrency": 2,
        "on_item_error": "fail",
        "max_failed": "5%",
        "skip_existing": False,
    }
    assert node.facets == FacetSpec(
        paths={"path": "a.b"}, counts={"n": "a[]"}, group_counts={"by": "a[].k"}, max_group_keys=3
    )
    assert node.retry == RetryPolicy(max_attempts=3)
    assert (node.store_as, node.when, node.timeout) == ("{region.name}.{index}", "true", 2.5)
    assert (node.description, node.approve, node.cache) == ("d", "sure?", 60)
    assert node.args == {"place": "{index}", "name": "{region.name}", "owner": "{item.owner.name}"}


@pytest.mark.parametrize(
    "retry",
    [RetryPolicy(max_attempts=2, backoff_seconds=1), {"max_attempts": 2, "backoff_seconds": 1}],
)
def test_retry_takes_a_policy_and_its_fields(retry):
    p = Plan("p")
    p.add("t", retry=retry)

    assert only(p).retry == RetryPolicy(max_attempts=2, backoff_seconds=1)


def test_facets_take_the_model_too():
    p = Plan("p")
    p.add("t", facets=FacetSpec(counts={"n": "[]"}))

    assert only(p).facets.counts == {"n": "[]"}
    with pytest.raises(LanguageError, match="facet 'n' is a path"):
        p.add("t", facets={"n": 3})


def test_a_fan_out_goes_over_a_node_or_is_refused():
    p = Plan("p")
    rows = p.add("rows")

    assert p.build() is not None
    for source, expected in [
        (rows, (None, ["rows"])),
        (rows["[]"], ("[]", ["rows"])),
        ("rows.a[].b", ("a[].b", ["rows"])),
        ("rows[0].b", ("[0].b", ["rows"])),
        ("rows", (None, ["rows"])),
    ]:
        handle = p.map("t", source, x=item)
        node = p.build().node(handle.id)
        assert (node.for_each.select, node.depends_on) == expected
    for wrong in ([1, 2], p.param("x"), rows.ref, "a b", item, 5):
        with pytest.raises(LanguageError, match="a fan-out goes over the result of a node"):
            p.map("t", wrong)


def test_a_delegate_is_asked_in_words():
    p = Plan("p")
    rows = p.add("rows")
    p.delegate("Choose what to do", tools=[list_reports, "other"], after=[rows], id="d")
    node = p.build().node("d")

    assert (node.type, node.tool, node.instruction) == ("delegate", None, "Choose what to do")
    assert (node.tools, node.depends_on) == (["list_reports", "other"], ["rows"])
    with pytest.raises(LanguageError, match="no option 'toolz'"):
        p.delegate("x", toolz=[])


def test_a_node_may_be_given_by_its_fields():
    p = Plan("p")
    a = p.node({"tool": "make", "args": {"x": 1}})
    p.node({"id": "b", "tool": "t", "for_each": {"source": a.text}, "args": {"v": item}})
    c = p.node(p.build().nodes[1].model_copy(update={"id": "c", "store_as": "c.{index}"}))

    assert a.id == "make"
    assert [node.depends_on for node in p.build().nodes] == [[], ["make"], ["make"]]
    assert c.id == "c"


def test_values_are_taken_as_a_file_could_hold_them():
    p = Plan("p")
    p.add(
        "t",
        a=np.int64(3),
        b=np.float32(0.5),
        c=(1, [None, True]),
        d={"k": 1e300},
        e="{{item}} {x}",
        f=pd.Series([1, 2]).max(),
    )

    args = only(p).args
    assert args == {
        "a": 3,
        "b": 0.5,
        "c": [1, [None, True]],
        "d": {"k": 1e300},
        "e": "{{item}} {x}",
        "f": 2,
    }
    assert [type(args[k]) for k in "abf"] == [int, float, int]
    assert load_plan(p.to_yaml()) == p.build()
    assert load_plan(p.to_json()) == p.build()


def _deep():
    value: list = []
    for _ in range(5000):
        value = [value]
    return value


def _cycle():
    value: list = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (dt.date(2024, 1, 1), "isoformat"),
        ({1, 2}, "sorted"),
        (pd.DataFrame({"a": [1]}), "let a tool load it"),
        (np.arange(3), "let a tool load it"),
        (float("nan"), "NaN"),
        (float("-inf"), "infinite"),
        (b"x", "JSON values"),
        ({1: "x"}, "the keys of a plan are text"),
        ("\ud800", "lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        (10**5000, "too long"),
        (_deep(), "nested deeper"),
        (_cycle(), "nested deeper"),
        (object(), "JSON values"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else ascii(value)[:20],
)
def test_a_value_that_no_file_holds_is_refused_with_its_place(value, said):
    p = Plan("p")

    with pytest.raises(LanguageError, match=said) as refused:
        p.add("t", rows=[{"x": value}])
    assert "t.args.rows[0].x" in str(refused.value)
    assert p.to_dict()["nodes"] == []


def test_what_was_given_may_change_afterwards():
    given = {"a": [1]}
    p = Plan("p")
    p.add("t", value=given)
    given["a"].append(2)
    p.to_dict()["nodes"][0]["args"]["value"]["a"].append(3)

    assert only(p).args == {"value": {"a": [1]}}


def test_parameters_are_declared_with_all_that_a_file_can_say():
    p = Plan("p", "of {params.date}")
    date = p.param("date", dt.date, default=dt.date(2024, 1, 2), description="the day")
    n = p.param("n", int, required=True, choices=[1, 2])
    p.add("t", a=date, b=n, c=p.param("word"), timeout=p.param("t", "float"), d=p.param("x", list))

    specs = {name: spec.model_dump(exclude_unset=True) for name, spec in p.build().params.items()}
    assert specs == {
        "date": {"type": "date", "default": "2024-01-02", "description": "the day"},
        "n": {"type": "int", "required": True, "choices": [1, 2]},
        "word": {"type": "str"},
        "t": {"type": "float"},
        "x": {"type": "list"},
    }
    assert p.param("n", int, required=True, choices=[1, 2]) is n
    with pytest.raises(LanguageError, match="declared already"):
        p.param("n", str)
    with pytest.raises(LanguageError, match="a plain word"):
        p.param("a-b")
    with pytest.raises(LanguageError, match="the types are str"):
        p.param("a", tuple)
    bound = p.build(params={"n": "2", "word": "w", "t": 3, "x": [1]})
    assert bound.objective == "of 2024-01-02"
    assert (bound.nodes[0].timeout, bound.nodes[0].args["b"]) == (3, 2)


def test_fields_of_the_plan_and_of_its_metadata_are_keywords():
    p = Plan(
        "p",
        max_parallel_tasks=3,
        execution_timeout="{params.t}",
        checkpoint=False,
        provenance={"model": "m"},
    )
    p.param("t", int)
    p.add("t")
    plan = p.build()

    assert (plan.metadata.max_parallel_tasks, plan.metadata.checkpoint) == (3, False)
    assert plan.metadata.execution_timeout == "{params.t}"
    assert plan.provenance.model == "m"
    with pytest.raises(LanguageError, match="did you mean 'provenance'"):
        Plan("p", provenence={})


def test_leaving_the_block_checks_the_plan_unless_it_is_left_by_an_error():
    with pytest.raises(PlanInvalid, match="at least one node"), Plan("p"):
        pass
    with pytest.raises(KeyError), Plan("p"):
        raise KeyError
    with pytest.raises(PlanInvalid, match="unknown_dependency"), Plan("p") as p:
        p.add("t", after=["nobody"])


def test_a_handle_belongs_to_its_plan():
    p, other = Plan("p"), Plan("other")
    foreign = other.add("t")

    for use in (
        lambda: p.add("t", value=foreign),
        lambda: p.map("t", foreign),
        lambda: p.map("t", foreign["[]"]),
        lambda: p.add("t", after=[foreign]),
    ):
        with pytest.raises(LanguageError, match="belongs to another plan"):
            use()
    with pytest.raises(LanguageError, match="is no node"):
        p.add("t", after=[item])


def test_an_unfinished_plan_can_be_shown():
    p = Plan("p")

    assert repr(p) == "<Plan 'p': 0 nodes>"
    assert p.to_dict() == {"name": "p", "objective": "", "nodes": []}
    assert "nodes: []" in p.to_yaml()


def test_a_plan_of_many_nodes_is_built_in_linear_time():
    p = Plan("p")
    before = p.add("t")
    for _ in range(3000):
        before = p.add("t", value=before)

    plan = p.build()
    assert len(plan.nodes) == 3001
    assert plan.nodes[-1].id == "t_3001"
