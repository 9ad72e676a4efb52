"""Plans by objective: one call, one correction, and then the report."""

from planbench.llm.fake import text

NODE = {"id": "a", "tool": "give", "args": {"value": 1}}
WRITTEN = {"name": "made", "objective": "do it", "nodes": [NODE]}


async def test_an_objective_is_planned_checked_and_run(lab):
    async with lab.open(planner_llm=lab.planner(WRITTEN)) as toolkit:
        answer = await toolkit.plan_execute(objective="do {it}")
    assert answer.result["status"] == "completed"
    assert lab.calls == [1]
    assert len(lab.prompts) == 1


async def test_a_wrong_plan_is_corrected_once_and_then_given_up(lab):
    wrong = {**WRITTEN, "nodes": [{**NODE, "tool": "nothing"}]}
    async with lab.open(planner_llm=lab.planner(wrong, WRITTEN, wrong, wrong)) as toolkit:
        assert (await toolkit.plan_execute(objective="do it")).success
        answer = await toolkit.plan_execute(objective="do it")
    assert answer.error_code == "plan_invalid"
    assert [issue["code"] for issue in answer.result["issues"]] == ["unknown_tool"]
    assert len(lab.prompts) == 4
    assert lab.calls == [1]


async def test_what_is_no_answer_is_named(lab):
    async with lab.open(
        planner_llm=lab.planner(text("", refusal="no"), text("{", finish_reason="length"))
    ) as toolkit:
        assert (await toolkit.plan_execute(objective="do it")).error_code == "refused"
        assert (await toolkit.plan_validate(objective="do it")).error_code == "truncated"
    assert lab.calls == []


async def test_validating_an_objective_gives_the_plan_and_calls_no_tool(lab):
    async with lab.open(planner_llm=lab.planner(WRITTEN)) as toolkit:
        answer = await toolkit.plan_validate(objective="do it")
    assert answer.result["ok"]
    assert answer.result["plan"]["nodes"][0]["tool"] == "give"
    assert lab.calls == []
