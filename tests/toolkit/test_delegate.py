"""Plans with delegates through the toolkit: only with a model."""

from planbench.llm import FakeLLMClient
from planbench.llm.fake import tool_call

PLAN = """
name: choose
objective: to prove a rule
nodes:
  - {id: a, tool: give, args: {value: 1}}
  - {id: pick, type: delegate, depends_on: [a], instruction: choose, tools: [give]}
"""


async def test_with_a_model_the_delegate_chooses_and_the_manifest_counts_it(lab):
    lab.plan("choose", PLAN)
    model = FakeLLMClient(lambda _: tool_call("give", value="{artifacts.a}"))
    async with lab.open(delegate_llm=model) as toolkit:
        answer = await toolkit.plan_execute(plan_name="choose")
    assert answer.success, answer
    assert answer.result["status"] == "completed"
    assert answer.result["usage"]["model_calls"] == 1
    assert lab.calls == [1, 1]


async def test_without_a_model_it_is_refused_with_a_code(lab):
    lab.plan("choose", PLAN)
    async with lab.open() as toolkit:
        answer = await toolkit.plan_execute(plan_name="choose")
    assert (answer.success, answer.error_code) == (False, "delegate_not_configured")
    assert lab.calls == []
