from __future__ import annotations

import json
from pathlib import Path

import pytest

from planbench import PlanInvalid, Tool, ToolRegistry, check_plan, run_sync
from planbench.importers import import_wfcommons
from planbench.importers.imported import plain_id
from planbench.plan.graph import levels

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "workflows"
shared = pytest.mark.skipif(not DATA.is_dir(), reason="the larger data sets are not there")
FILES = sorted(DATA.glob("*/*-*.json")) or ["none"]

FLAT = {
    "name": "diamond",
    "source": "somewhere",
    "tasks": [
        {"id": "A.1", "name": "split", "parents": [], "children": ["B.1", "B.2"], "runtime_s": 2.5},
        {"id": "B.1", "name": "work", "parents": ["A.1"], "runtime_s": 1},
        {"id": "B.2", "name": "work", "runtime_s": 1},
        {"id": "C.1", "name": "join", "parents": ["B.1", "B.2"], "runtime_s": 0.5},
    ],
}
OFFICIAL = {
    "name": "diamond",
    "description": "A diamond",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"id": "a", "name": "split_1", "parents": [], "children": ["b"], "inputFiles": ["x"]},
                {"id": "b", "name": "join_1", "parents": ["a"], "command": {"program": "join", "arguments": ["-n", "{item}"]}},
            ]
        },
        "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 3.5}, {"id": "b", "runtimeInSeconds": 1}]},
    },
}  # fmt: skip


def edges(plan):
    return {node.id: node.depends_on for node in plan.nodes}


def test_a_task_waits_for_its_parents_whichever_side_says_so():
    made = import_wfcommons(FLAT)

    assert edges(made.plan) == {
        "A_1": [],
        "B_1": ["A_1"],
        "B_2": ["A_1"],
        "C_1": ["B_1", "B_2"],
    }
    assert [node.tool for node in made.plan.nodes] == ["split", "work", "work", "join"]
    assert [(entry.place, entry.what) for entry in made.report] == [
        ("workflow", "source"),
        ("4 tasks", "runtime_s"),
    ]


def test_the_measured_runtime_may_be_an_argument():
    made = import_wfcommons(FLAT, seconds="seconds")

    assert [node.args for node in made.plan.nodes][:2] == [{"seconds": 2.5}, {"seconds": 1}]
    assert [entry.what for entry in made.report] == ["source"]


def test_the_published_format_is_read_with_programs_and_runtimes():
    made = import_wfcommons(json.dumps(OFFICIAL), seconds="s")

    assert edges(made.plan) == {"a": [], "b": ["a"]}
    assert made.plan.objective == "A diamond"
    assert [(node.tool, node.args) for node in made.plan.nodes] == [
        ("split_1", {"s": 3.5}),
        ("join", {"arguments": ["-n", "{{item}}"], "s": 1}),
    ]
    assert [entry.what for entry in made.report] == ["schemaVersion", "inputFiles"]


def test_older_versions_have_the_tasks_in_the_workflow():
    old = {
        "name": "w",
        "workflow": {"tasks": [{"name": "a_1", "runtime": 2}, {"name": "b_1", "parents": ["a_1"]}]},
    }

    made = import_wfcommons(old, seconds="s")

    assert edges(made.plan) == {"a_1": [], "b_1": ["a_1"]}
    assert made.plan.nodes[0].args == {"s": 2}


def test_ids_that_become_one_are_an_error():
    tasks = [{"id": "a.b", "name": "t"}, {"id": "a_b", "name": "t"}]

    with pytest.raises(PlanInvalid, match=r"'a\.b' and 'a_b' both become 'a_b'"):
        import_wfcommons({"tasks": tasks})


def test_what_is_wrong_is_named():
    def told(tasks):
        with pytest.raises(PlanInvalid) as refused:
            import_wfcommons({"tasks": tasks})
        return [issue.code for issue in refused.value.issues]

    assert told([{"id": "a", "name": "t", "parents": ["z"]}]) == ["unknown_dependency"]
    assert told([{"id": "a", "name": "t"}, {"id": "a", "name": "t"}]) == ["duplicate_id"]
    assert told([{"name": None}]) == ["bad_field"]
    assert told("tasks") == ["bad_field"]
    with pytest.raises(PlanInvalid, match="tasks must be a list"):
        import_wfcommons({"name": "w"})
    with pytest.raises(PlanInvalid, match="the workflow must be a map"):
        import_wfcommons([])


@shared
@pytest.mark.shared
@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file).stem)
def test_every_workflow_keeps_its_tasks_its_edges_and_its_depth(file):
    record = json.loads(file.read_text(encoding="utf-8"))
    made = import_wfcommons(file)
    needs = edges(made.plan)

    assert len(needs) == record["n_tasks"]
    assert sum(map(len, needs.values())) == record["n_edges"]
    assert len(levels(needs)) == record["depth"]
    for task in record["tasks"]:
        parents = sorted(map(plain_id, task["parents"]))
        assert sorted(needs[plain_id(task["id"])]) == parents


@shared
@pytest.mark.shared
def test_a_workflow_runs_with_stub_tools_in_the_order_of_its_dependencies():
    made = import_wfcommons(DATA / "wfinstances" / "bacass-dirt02-001.json", seconds="seconds")
    asked = []

    def work(seconds):
        asked.append(seconds)

    def stub(name):
        return Tool.from_schema(name, "", {"type": "object"}, work)

    registry = ToolRegistry([stub(tool) for tool in {node.tool for node in made.plan.nodes}])
    assert check_plan(made.plan, registry).ok
    assert run_sync(made.plan, registry=registry).status == "completed"
    assert sorted(asked) == sorted(node.args["seconds"] for node in made.plan.nodes)
