from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from planbench import check_plan, load_plan
from planbench.plan.graph import levels

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "plans"
PAGE = ROOT / "docs" / "importers.md"
SETS = {
    "Argo Workflows": ("argo/workflows.jsonl", "argo"),
    "GitHub Actions": ("github_actions/workflows.jsonl", "github"),
    "Galaxy": ("galaxy_iwc/workflows.jsonl", "galaxy"),
    "TaskBench, written by models": ("taskbench_model_plans/plans.jsonl", "taskbench"),
    "RestBench": ("restbench_tmdb/plans.jsonl", "restbench"),
}

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="the larger data sets are not there"),
]


def records(name):
    return [json.loads(line) for line in (DATA / SETS[name][0]).read_text("utf-8").splitlines()]


def mapped(foreign, name):
    """Each record of a set with its mapping, or with the reason why there is none."""
    function = getattr(foreign, SETS[name][1])
    for record in records(name):
        try:
            made = function(record)
            yield record, made, made.plan()
        except foreign.NotAPlan as reason:
            yield record, str(reason), None


def row(foreign, name):
    counts, reasons = Counter(), Counter()
    for _, made, plan in mapped(foreign, name):
        if plan is None:
            counts["no plan"] += 1
            reasons[made] += 1
            continue
        counts["in part" if made.left_out else "whole"] += 1
        counts["nodes"] += len(plan.nodes)
        counts["edges"] += sum(len(node.depends_on) for node in plan.nodes)
        counts["guards"] += sum(node.when is not None for node in plan.nodes)
        counts["fan-outs"] += sum(node.for_each is not None for node in plan.nodes)
        counts["added"] += made.helpers
        reasons.update(made.left_out)
    columns = ["whole", "in part", "no plan", "nodes", "added", "edges", "guards", "fan-outs"]
    cells = [name, len(records(name)), *(counts[column] for column in columns)]
    return f"| {' | '.join(map(str, cells))} |", reasons


@pytest.mark.parametrize("name", SETS)
def test_the_page_on_importers_says_what_is_so(foreign, name):
    line, reasons = row(foreign, name)
    page = PAGE.read_text(encoding="utf-8")

    assert line in page
    for reason, count in reasons.items():
        assert f"| {name} | {reason} | {count} |" in page


@pytest.mark.parametrize("name", SETS)
def test_what_maps_is_valid_and_comes_back_from_its_text(foreign, name):
    for record, _, plan in mapped(foreign, name):
        if plan is None:
            continue
        errors = [issue for issue in check_plan(plan).issues if issue.severity == "error"]
        assert errors == [], record.get("name")
        assert load_plan(plan.to_yaml()) == plan


def test_jobs_keep_their_order_and_their_depth(foreign):
    for record, made, plan in mapped(foreign, "GitHub Actions"):
        ids = {job["id"] for job in record["jobs"]}
        needs = {node.id: [need for need in node.depends_on if need in ids] for node in plan.nodes}
        assert {job["id"]: job["needs"] for job in record["jobs"]} == {i: needs[i] for i in ids}
        depth = len(levels({node.id: node.depends_on for node in plan.nodes}))
        assert record["depth"] <= depth <= record["depth"] + made.helpers


def test_a_diamond_of_argo_is_a_diamond_here(foreign):
    plans = {record["name"]: plan for record, _, plan in mapped(foreign, "Argo Workflows")}
    needs = {node.id: node.depends_on for node in plans["dag-diamond"].nodes}

    assert needs == {"A": [], "B": ["A"], "C": ["A"], "D": ["B", "C"]}
    coin = plans["dag-conditional-parameters"].node("heads")
    assert coin.when == 'ctx.artifacts["flip-coin"].result == "heads"'
