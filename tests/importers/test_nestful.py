from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from planbench import PlanInvalid, ToolRegistry, WorkingMemory, check_plan, run_sync
from planbench.importers import import_nestful, nestful_tools
from planbench.importers.nestful import pick

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "plans" / "nestful"
shared = pytest.mark.skipif(not DATA.is_dir(), reason="the larger data sets are not there")


@functools.cache
def specs():
    return json.loads((DATA / "tools.json").read_text(encoding="utf-8"))


@functools.cache
def records():
    lines = (DATA / "nestful.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def specs_of(record, plan):
    """The specifications of the tools that a plan calls, out of those of its own set."""
    used = {node.tool for node in plan.nodes}
    return [spec for spec in specs() if spec["set"] == record["set"] and spec["name"] in used]


def call(name, label=None, **arguments):
    return {"name": name, "arguments": arguments, **({"label": label} if label else {})}


def imported(*calls):
    return import_nestful({"input": "Do it", "output": list(calls)})


def nodes(made):
    return {node.id: (node.tool, node.args, node.depends_on) for node in made.plan.nodes}


def problems(*calls):
    with pytest.raises(PlanInvalid) as refused:
        imported(*calls)
    return [(issue.code, issue.message) for issue in refused.value.issues]


def test_a_reference_to_a_whole_result_is_its_artifact():
    made = imported(call("find", "var1", city="Lima"), call("book", "var2", hotel="$var1$", n=2))

    assert nodes(made) == {
        "var1": ("find", {"city": "Lima"}, []),
        "var2": ("book", {"hotel": "{artifacts.var1}", "n": 2}, ["var1"]),
    }
    assert made.plan.objective == "Do it"
    assert (made.report, made.tools) == ((), ())


def test_a_reference_to_a_field_is_picked_by_a_node_of_its_own():
    made = imported(
        call("find", "var1"),
        call(
            "book", "var2", a="$var1.rows[0].id$", b=["$var1.rows[0].id$"], c="$var1.Exchange Rate$"
        ),
    )

    picked = ("pick", {"value": "{artifacts.var1}", "fields": ["rows", 0, "id"]}, ["var1"])
    assert nodes(made)["var1_rows_0_id"] == picked
    assert nodes(made)["var1_Exchange_Rate"][1]["fields"] == ["Exchange Rate"]
    assert nodes(made)["var2"][1] == {
        "a": "{artifacts.var1_rows_0_id}",
        "b": ["{artifacts.var1_rows_0_id}"],
        "c": "{artifacts.var1_Exchange_Rate}",
    }
    assert [tool.name for tool in made.tools] == ["pick"]
    assert len(made.plan.nodes) == 4


def test_references_inside_a_text_stay_inside_it_and_the_rest_stands_for_itself():
    made = imported(
        call("find", "var1"),
        call("say", "var2", text="{item} costs $5 or $var1.price$, see {artifacts.var1}"),
    )
    node = made.plan.node("var2")

    assert node.args["text"] == (
        "{{item}} costs $5 or {artifacts.var1_price}, see {{artifacts.var1}}"
    )
    assert node.depends_on == ["var1_price"]


def test_an_imported_plan_runs():
    said = []

    def find(city: str) -> dict:
        return {"rows": [{"id": 7}], "city": city}

    def say(text: str, row: int) -> str:
        said.append((text, row))
        return text

    made = imported(
        call("find", "var1", city="Lima"),
        call("say", "var2", text="in $var1.city$", row="$var1.rows[0].id$"),
        call("var_result", places="$var1$", first="$var1.rows$", text="$var2$"),
    )
    memory = WorkingMemory()
    manifest = run_sync(made.plan, registry=ToolRegistry([find, say, *made.tools]), memory=memory)

    assert manifest.status == "completed"
    assert said == [("in Lima", 7)]
    assert memory["text"] == "in Lima"
    assert memory["first"] == [{"id": 7}]
    assert memory["places"]["city"] == "Lima"


def test_wanted_results_give_their_names_as_keys_and_what_cannot_is_listed():
    made = imported(
        call("a", "var1"),
        call("b", "var2"),
        call("var_result", first="$var1$", again="$var1$", var1="$var2$", text="is $var2$"),
    )

    assert [node.store_as for node in made.plan.nodes] == ["first", "var2"]
    assert [entry.what for entry in made.report] == ["'again'", "'var1'", "'is $var2$'"]
    assert str(made.report[0]).startswith("output[2].arguments.again: 'again': ")


def test_a_label_that_is_no_id_becomes_one_and_a_missing_one_is_the_name_of_the_tool():
    made = imported(call("Hotels.Find", "1.x"), call("Flights.Find", n=1))

    assert [node.id for node in made.plan.nodes] == ["n_1_x", "Flights_Find"]


def test_what_is_wrong_is_named():
    assert problems(call("a", "var1", x="$var3.y$")) == [
        ("undeclared_reference", "$var3.y$ is read, and no call has the label 'var3'")
    ]
    assert problems(call("a", "var1"), call("b", "var1")) == [
        ("duplicate_id", "the label 'var1' is given twice")
    ]
    assert problems(call("a", "x.y"), call("b", "x_y"))[0][1] == "'x.y' and 'x_y' both become 'x_y'"
    assert problems(call("a", "var1", x="$var1$"))[0][0] == "self_dependency"
    assert problems(call("a", "var1", x="$var2$"), call("b", "var2", x="$var1$"))[0][0] == "cycle"
    assert problems({"arguments": {}}) == [("bad_field", "name must be text, not nothing")]
    assert problems("call") == [("bad_field", "call 1 must be a map, not 'call'")]
    assert problems(call("a", "var1", x="{$var1$}"), call("b", "var2"))[0][0] == "bad_placeholder"
    with pytest.raises(PlanInvalid, match="output must be a list"):
        import_nestful({"input": "x"})


def test_text_that_is_no_json_is_refused_with_its_line():
    with pytest.raises(PlanInvalid) as refused:
        import_nestful('{"output": [\n{"name": ]}')

    assert refused.value.issues[0].line == 2


def test_the_calls_may_come_as_a_list_as_text_and_from_a_file(tmp_path):
    calls = [call("a", "var1")]
    (tmp_path / "plan.json").write_text(json.dumps(calls), encoding="utf-8")

    plans = [
        import_nestful(calls).plan,
        import_nestful(json.dumps({"output": calls})).plan,
        import_nestful({"output": json.dumps(calls)}).plan,
        import_nestful(tmp_path / "plan.json").plan,
    ]
    assert [plan.nodes for plan in plans] == [plans[0].nodes] * 4


def test_pick_takes_names_and_places():
    assert pick({"a": [{"b c": 1}]}, ["a", 0, "b c"]) == 1
    with pytest.raises(KeyError):
        pick({}, ["a"])


def _shape(plan, node_id):
    """A result that has the fields which the plan picks from it."""
    result: dict = {}
    for node in plan.nodes:
        if node.tool != "pick" or node.depends_on != [node_id]:
            continue
        at = result
        fields = node.args["fields"]
        for place, name in enumerate(fields):
            at = at.setdefault(name, {} if place + 1 < len(fields) else f"{node_id}.{name}")
    return result or f"result of {node_id}"


@shared
@pytest.mark.shared
def test_every_clean_plan_is_imported_checked_and_run_in_the_order_of_its_dependencies():
    clean = [record for record in records() if record["facts"]["clean"]]
    assert len(clean) == 104
    for record in clean:
        made = import_nestful(record)
        plan = made.plan
        calls = [c for c in record["output"] if c["name"] != "var_result"]
        ours = [node for node in plan.nodes if node.tool != "pick"]
        assert [(n.id, n.tool) for n in ours] == [(c["label"], c["name"]) for c in calls]

        done = []

        def stub(name, plan=plan, done=done):
            def answer(**arguments):
                # every node of that name, one after the other: the first that was not called yet
                node = next(n for n in plan.nodes if n.tool == name and n.id not in done)
                assert not set(node.depends_on) - {
                    *done,
                    *(n.id for n in plan.nodes if n.tool == "pick"),
                }
                done.append(node.id)
                return _shape(plan, node.id)

            return answer

        tools = nestful_tools(specs_of(record, plan), stub)
        registry = ToolRegistry([*tools, *made.tools])
        assert check_plan(plan, registry).ok, record["id"]
        plan = plan.model_copy(
            update={"metadata": plan.metadata.model_copy(update={"max_parallel_tasks": 1})}
        )
        manifest = run_sync(plan, registry=registry)
        assert manifest.status == "completed", record["id"]
        assert sorted(done) == sorted(node.id for node in ours)


@shared
@pytest.mark.shared
def test_every_plan_that_is_not_clean_names_what_is_wrong():
    told = {}
    for record in records():
        if record["facts"]["clean"]:
            continue
        tools = nestful_tools(specs(), lambda name: lambda **arguments: name)
        try:
            made = import_nestful(record)
        except PlanInvalid as error:
            issues = error.issues
        else:
            issues = check_plan(made.plan, ToolRegistry([*tools, *made.tools])).issues
        wrong = [*record["facts"]["undefined_refs"], *record["facts"]["unknown_functions"]]
        errors = [issue for issue in issues if issue.severity == "error"]
        assert len(errors) == len(wrong) == 1
        assert repr(wrong[0]) in errors[0].message
        told[record["id"]] = errors[0].code

    assert sorted(told.values()) == ["undeclared_reference", *["unknown_tool"] * 5]


@shared
@pytest.mark.shared
def test_the_specifications_bind_when_they_are_taken_by_their_word():
    ok = 0
    for record in records():
        if not record["facts"]["clean"]:
            continue
        made = import_nestful(record)
        tools = nestful_tools(
            specs_of(record, made.plan), lambda name: lambda **arguments: name, strict=True
        )
        ok += check_plan(made.plan, ToolRegistry([*tools, *made.tools])).ok

    assert ok == 75  # the other 29 contradict their own specifications


def test_a_specification_of_each_dialect_is_a_tool():
    tools = nestful_tools(
        [
            {"name": "a", "query_parameters": {"q": {"type": "String", "required": True}}},
            {"name": "b", "parameters": {"n": {"type": "Number"}, "k": {"type": "Enum"}}},
            {"name": "c.d", "arguments": {"x": {"description": "y", "allowed_values": []}}},
        ],
        lambda name: lambda **arguments: (name, arguments),
        strict=True,
    )

    assert [tool.name for tool in tools] == ["a", "b", "c.d"]
    assert tools[0].parameters["required"] == ["q"]
    assert tools[1].parameters["properties"] == {"n": {"type": "number"}, "k": {}}
    assert tools[2](x=1) == ("c.d", {"x": 1})
