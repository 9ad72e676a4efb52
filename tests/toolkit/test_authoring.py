"""Plans by objective: one call, one correction, and then the report."""

from planbench.checkpoints import MemoryStore
from planbench.llm import FakeLLMClient
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


async def test_a_planner_is_not_offered_the_tools_that_would_have_it_asked_in_mid_run(lab):
    again = {**WRITTEN, "nodes": [{"id": "a", "tool": "plan_execute", "args": {"objective": "x"}}]}
    async with lab.open(planner_llm=lab.planner(again, WRITTEN)) as toolkit:
        lab.registry.register_tool(toolkit)  # as an agent that has plans beside its other tools
        answer = await toolkit.plan_execute(objective="do it")
    assert answer.result["status"] == "completed"
    offered, corrected = (request.messages[-1].content for request in lab.prompts)
    assert "- give(" in offered
    assert "plan_execute" not in offered
    assert "tool_not_allowed" in corrected
    assert lab.calls == [1]


async def test_a_repair_is_not_offered_them_either_and_leaves_those_of_the_plan(lab):
    again = {"nodes": [{"id": "b", "tool": "plan_execute", "args": {"objective": "x"}}]}
    mended = {"nodes": [{"id": "b", "tool": "other", "args": {"value": 2}}]}
    lab.plan(
        "nested",
        """
name: nested
objective: one of another
nodes:
  - {id: a, tool: plan_validate, args: {plan_name: nested}}
  - {id: b, tool: give, args: {value: 1}}
""",
    )
    lab.broken = {1}
    async with lab.open(
        planner_llm=lab.planner(again, mended), checkpoint_store=MemoryStore()
    ) as toolkit:
        lab.registry.register_tool(toolkit)
        first = await toolkit.plan_execute(plan_name="nested")
        assert first.result["status"] == "partial"
        answer = await toolkit.plan_repair(first.result["run_id"])
    assert answer.result["status"] == "completed", answer
    assert "plan_execute" not in lab.prompts[0].messages[-1].content
    assert "tool_not_allowed" in lab.prompts[1].messages[-1].content
    assert lab.calls == [1, "other 2"]


async def test_a_host_that_names_them_has_them_offered(lab):
    async with lab.open(
        planner_llm=lab.planner(WRITTEN), allowed_tools=["give", "plan_execute"]
    ) as toolkit:
        lab.registry.register_tool(toolkit)
        await toolkit.plan_validate(objective="do it")
    assert "- plan_execute(" in lab.prompts[0].messages[-1].content


async def test_a_parameter_that_nobody_gives_a_value_is_corrected_before_anything_runs(lab):
    asks = {**WRITTEN, "nodes": [{**NODE, "args": {"value": "{params.day}"}}]}
    declared = {**asks, "params": {"day": {"type": "str", "default": "today"}}}
    async with lab.open(planner_llm=lab.planner(asks, declared, asks, asks)) as toolkit:
        answer = await toolkit.plan_execute(objective="do it for a day")
        assert answer.result["status"] == "completed"
        assert "[missing_param]" in lab.prompts[1].messages[-1].content
        assert "declare the parameter with a default" in lab.prompts[1].messages[-1].content
        checked = await toolkit.plan_validate(objective="do it for a day")
    assert not checked.result["ok"]
    assert [issue["code"] for issue in checked.result["issues"]] == ["missing_param"]
    assert lab.calls == ["today"]


async def test_a_default_of_the_wrong_type_is_corrected_too(lab):
    async def count(value: int) -> int:
        lab.calls.append(value)
        return value

    lab.registry.register(count)
    node = {"id": "a", "tool": "count", "args": {"value": "{params.n}"}}
    wrong = {**WRITTEN, "nodes": [node], "params": {"n": {"type": "str", "default": "many"}}}
    right = {**wrong, "params": {"n": {"type": "int", "default": 3}}}
    async with lab.open(planner_llm=lab.planner(wrong, right)) as toolkit:
        answer = await toolkit.plan_execute(objective="count")
    assert answer.result["status"] == "completed"
    assert "[bad_arg_type]" in lab.prompts[1].messages[-1].content
    assert lab.calls == [3]


async def test_whatever_keeps_a_planner_from_an_answer_is_told_as_an_answer(lab, caplog):
    def broken(request):
        raise RuntimeError("the connection pool is closed")

    async with lab.open(planner_llm=FakeLLMClient(broken)) as toolkit:
        for tool in (toolkit.plan_execute, toolkit.plan_validate):
            answer = await tool(objective="do it")
            assert answer.error_code == "planner_unavailable"
            assert "RuntimeError: the connection pool is closed" in answer.error
    assert "in broken" in caplog.text  # whoever runs the host finds the place
    async with lab.open(planner_llm=lab.planner(WRITTEN), allowed_tools=[]) as toolkit:
        answer = await toolkit.plan_execute(objective="do it")
    assert answer.error_code == "planner_unavailable"
    assert "none is registered and allowed" in answer.error
    assert lab.prompts == []
