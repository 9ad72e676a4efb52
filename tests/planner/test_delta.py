import json

import pytest

from planbench import PlanAuthoringError, load_plan
from planbench.llm.fake import text
from planbench.plan.manifest import ArtifactRef

PLAN = load_plan(
    """
name: p
objective: read two
nodes:
  - {id: a, tool: list_files, args: {folder: in}}
  - {id: b, tool: read_file, args: {path: x}, depends_on: [a]}
  - {id: c, tool: read_file, args: {path: y}, depends_on: [b]}
"""
)
FAILED = [
    ArtifactRef(node_id="b", status="error", errors=["no such file {x}"]),
    ArtifactRef(node_id="c", status="error", errors=["never dispatched"]),
]
REFS = [ArtifactRef(node_id="a", keys=["a"], facets={"n": 3}), *FAILED]
B = {"id": "b", "tool": "read_file", "args": {"path": "z"}, "depends_on": ["a"]}


def answer(*nodes):
    return json.dumps({"nodes": list(nodes)})


def repair(replaceable=("b", "c"), **options):
    return lambda planner: planner.repair_delta(PLAN, FAILED, replaceable, refs=REFS, **options)


def test_a_repair_replaces_nodes_and_leaves_the_others(exchange):
    done = exchange([text(answer(B), input_tokens=5)], repair())
    delta = done.value

    assert [node.id for node in delta.nodes] == ["b"]
    assert delta.plan.node("b").args == {"path": "z"}
    assert delta.plan.node("a") == PLAN.node("a")
    assert delta.plan.node("c") == PLAN.node("c")
    assert (delta.attempts, delta.usage.input_tokens) == (1, 5)
    assert delta.report.ok


def test_the_planner_is_told_what_failed_what_is_there_and_what_it_may_replace(exchange):
    [[system, user]] = exchange([answer(B)], repair(("c", "b"))).prompts

    assert '{"nodes": [...]}' in system
    assert "no such file {x}" in user
    assert '{"node": "a", "status": "ok", "keys": ["a"], "facets": {"n": 3}}' in user
    assert "<may_be_replaced>\nb, c\n</may_be_replaced>" in user


def test_the_form_that_is_asked_for_is_that_of_a_repair(exchange):
    [body] = exchange([answer(B)], repair()).bodies

    schema = body["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["nodes"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (answer({**B, "id": "a"}), "not_replaceable"),
        (answer({**B, "id": "new"}), "unknown_node"),
        (answer(B, B), "duplicate_id"),
        (answer(), "missing_field"),
        (answer({"tool": "read_file"}), "missing_field"),
        ('{"nodes": 7}', "missing_field"),
        (answer({**B, "tool": "nothing"}), "unknown_tool"),
        (answer({**B, "depends_on": ["c"]}), "cycle"),
        (answer({**B, "args": {}}), "missing_args"),
        (answer(7), "missing_field"),
        ("no idea", "no_json"),
    ],
)
def test_a_wrong_repair_is_corrected_once_and_then_refused(exchange, wrong, code):
    mended = exchange([wrong, answer(B)], repair())
    refused = exchange([wrong, wrong, answer(B)], repair())

    assert mended.value.attempts == 2
    assert f"[{code}]" in mended.prompts[1][-1]
    assert isinstance(refused.outcome, PlanAuthoringError)
    assert refused.outcome.code == "delta_invalid"
    assert code in {issue.code for issue in refused.outcome.report.issues}
    assert len(refused.bodies) == refused.outcome.attempts == 2


def test_an_id_that_may_be_replaced_is_named(exchange):
    done = exchange([answer({**B, "id": "a"}), answer(B)], repair(("b",)))

    assert "node 'a' has its result" in done.prompts[1][-1]
    assert "may be replaced: b" in done.prompts[1][-1]


@pytest.mark.parametrize(
    ("code", "reply"),
    [
        ("truncated", text(answer(B)[:30], finish_reason="length")),
        ("truncated", text(answer(B)[:30])),
        ("refused", text("", refusal="no")),
        ("empty_answer", text("")),
    ],
)
def test_what_is_no_answer_is_not_asked_for_again(exchange, code, reply):
    done = exchange([reply, answer(B)], repair())

    assert done.outcome.code == code
    assert len(done.bodies) == 1


def test_what_the_run_was_not_allowed_is_not_allowed_in_its_repair(exchange):
    tool = answer({**B, "tool": "list_files", "args": {"folder": "x"}})
    done = exchange([tool, tool], repair(tools=["read_file"]))

    assert done.outcome.code == "delta_invalid"
    # the plan's own first node was planned under another policy: it is told of, too
    assert "tool_not_allowed" in {issue.code for issue in done.outcome.report.issues}


def test_a_repair_in_a_fence_or_in_short_form_is_read(exchange):
    short = "```yaml\nnodes:\n  - id: b\n    tool: read_file\n    args: {path: z}\n    depends_on: [a]\n```"

    assert exchange([short], repair()).value.plan.node("b").args == {"path": "z"}
