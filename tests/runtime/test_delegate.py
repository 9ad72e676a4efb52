"""Delegate nodes: a model chooses one call, and sees refs and facets only."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from typing import Any

import pytest

from planbench import events as ev
from planbench.checkpoints import MemoryStore
from planbench.errors import ConfigurationError, ModelError, PlanInvalid, RunRefused
from planbench.llm import FakeLLMClient, LLMHandler, OpenAIClient
from planbench.llm.client import ModelReply, ToolCall
from planbench.llm.fake import text, together, tool_call
from planbench.llm.server import ScriptedServer
from planbench.memory import TaskScope, WorkingMemory
from planbench.plan.model import PlanNode
from planbench.runtime import Budget, Engine, replay
from planbench.runtime.delegate_answer import MAX_RECORDED
from planbench.runtime.details import run_view

CANARY = "c4n4ry-body-of-a-result"


def looped(test: Any) -> Any:
    """Run a test on a loop of its own, on which nothing may be left."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            await test(*args, **kwargs)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    return run


def delegate(node_id: str = "pick", after: Any = (), **fields: Any) -> PlanNode:
    needs = [after] if isinstance(after, str) else list(after)
    record = {"instruction": "Choose what fits.", "tools": ["give", "plain"], **fields}
    return PlanNode(id=node_id, type="delegate", depends_on=needs, **record)


def script(*answers: Any) -> FakeLLMClient:
    """A model that gives these answers in their order, and no other."""
    left = list(answers)

    def answer(request: Any) -> Any:
        del request
        given = left.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given

    return FakeLLMClient(answer)


async def finish(lab: Any, model: Any, *nodes: PlanNode, budget: Any = None, **options: Any) -> Any:
    lab.loop = asyncio.get_running_loop()
    async with lab.engine(delegate_llm=model, **options) as engine:
        run = await engine.start(lab.plan(*nodes), budget=budget)
        await run
    return run


def told(run: Any, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in run.events if event.type == kind]


def prompt(model: FakeLLMClient, number: int = 0) -> str:
    """Everything of a request as the model gets it."""
    request = model.requests[number]
    messages = [message.model_dump(mode="json") for message in request.messages]
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return json.dumps([messages, tools])


# -- choosing -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["give", "plain"])
@looped
async def test_the_chosen_call_is_made_and_its_value_is_the_nodes(lab, name):
    model = script(tool_call(name, value=7))
    run = await finish(
        lab, model, delegate(), lab.node("b", args={"value": "{artifacts.pick}"}, after="pick")
    )
    assert run.status == "completed"
    assert lab.calls == [7, 7]
    assert run.value("pick") == 7
    assert lab.memory.info("pick").tool == name
    assert run.state.nodes["pick"].chosen == name
    (choice,) = told(run, ev.TOOL_CALLED)
    assert (choice["node_id"], choice["tool"], choice["args"]) == ("pick", name, {"value": 7})
    assert choice["digest"]


@looped
async def test_the_model_sees_instruction_refs_facets_and_its_tools_only(lab):
    lab.tool(lambda: {"rows": [CANARY, CANARY], "kind": "scan"}, name="source")
    src = PlanNode(
        id="src", tool="source", facets={"counts": {"n": "rows[]"}, "paths": {"kind": "kind"}}
    )
    model = script(tool_call("give", value=1))
    await finish(
        lab,
        model,
        src,
        delegate(after="src", instruction="Look at {artifacts.src}: {nodes.src.output}"),
    )
    (request,) = model.requests
    assert [tool.name for tool in request.tools] == ["give", "plain", "none"]
    task = request.messages[1].content
    assert task.startswith('Task:\nLook at {artifacts.src}: {"id":"src"')
    shown = json.loads(task.rpartition("Earlier steps:\n")[2])
    assert shown["facets"] == {"n": 2, "kind": "scan"}
    assert (shown["id"], shown["status"], shown["data"]) == ("src", "ok", "{artifacts.src}")
    assert CANARY not in prompt(model)


@looped
async def test_what_tools_said_in_errors_is_not_shown(lab):
    async def half(value: int) -> int:
        if value:
            raise ValueError(CANARY)
        return value

    lab.tool(half)
    nodes = lab.items([0, 1], "half")
    model = script(tool_call("give", value=1))
    run = await finish(lab, model, *nodes, delegate(after="fan"))
    assert CANARY in str(run.refs["fan"].errors)
    assert CANARY not in prompt(model)
    assert '\\"items_failed\\":1' in prompt(model)


@looped
async def test_a_result_is_handed_over_by_its_name_and_put_in_here(lab):
    lab.tool(lambda: [CANARY, 2], name="source")
    args = {
        "value": {
            "rows": "{artifacts.src}",
            "note": "of {artifacts.src}",
            "ref": "{nodes.src.output}",
        }
    }
    model = script(tool_call("give", **args))
    run = await finish(lab, model, lab.node("src", "source"), delegate(after="src"))
    given = run.value("pick")
    assert given["rows"] == [CANARY, 2]
    assert given["note"] == f'of ["{CANARY}",2]'
    assert given["ref"]["node_id"] == "src"
    (choice,) = told(run, ev.TOOL_CALLED)
    assert choice["args"] == args
    assert CANARY not in str([event.data for event in run.events])


@looped
async def test_what_a_result_holds_is_never_expanded(lab):
    lab.tool(lambda: "{artifacts.src} {env.HOME}", name="source")
    model = script(tool_call("give", value="{artifacts.src}"))
    run = await finish(lab, model, lab.node("src", "source"), delegate(after="src"))
    assert run.value("pick") == "{artifacts.src} {env.HOME}"


@looped
async def test_a_parameter_in_the_instruction_never_becomes_a_placeholder(lab):
    model = script(tool_call("give", value=1))
    plan = lab.plan(lab.node("src"), delegate(after="src", instruction="Do {params.what}"))
    async with lab.engine(delegate_llm=model) as engine:
        run = await engine.start(plan, {"what": "{nodes.src.output}"})
        await run
    assert "Task:\nDo {nodes.src.output}\n" in model.requests[0].messages[1].content


@looped
async def test_arguments_that_the_plan_sets_are_put_in_and_not_shown(lab):
    async def send(to: str, body: list[str], urgent: bool = False) -> list[Any]:
        return [to, body, urgent]

    lab.tool(send)
    lab.tool(lambda: [CANARY], name="source")
    node = delegate(after="src", tools=["send"], args={"body": "{artifacts.src}"})
    model = script(tool_call("send", to="ops", body=["mine"]), tool_call("send", to="ops"))
    run = await finish(lab, model, lab.node("src", "source"), node)
    assert run.value("pick") == ["ops", [CANARY], False]
    schema = model.requests[0].tools[0].parameters
    assert (list(schema["properties"]), schema["required"]) == (["to", "urgent"], ["to"])
    assert "'body' is set by the plan" in prompt(model, 1)


@looped
async def test_a_schema_lets_a_result_stand_for_what_is_no_text(lab):
    async def sort(rows: list[int], name: str) -> list[int]:
        """Sort rows."""
        del name
        return sorted(rows)

    lab.tool(sort)
    lab.tool(lambda: [3, 1], name="source")
    model = script(tool_call("sort", rows="{artifacts.src}", name="x"))
    run = await finish(lab, model, lab.node("src", "source"), delegate(after="src", tools=["sort"]))
    assert run.value("pick") == [1, 3]
    shown = model.requests[0].tools[0].parameters["properties"]
    assert shown["rows"]["anyOf"][1] == {"type": "string", "enum": ["{artifacts.src}"]}
    assert shown["name"]["type"] == "string"


@looped
async def test_a_call_written_as_text_counts_as_one(lab):
    call = '<think>\nhm\n</think>\n```json\n{"name": "give", "arguments": {"value": 5}}\n```'
    run = await finish(lab, script(text(call)), delegate())
    assert run.value("pick") == 5


# -- correcting, failing --------------------------------------------------------------------


async def typed(count: int) -> int:
    return count


def broken(name: str) -> ModelReply:
    call = ToolCall(id="c", name=name, error="the arguments are no JSON: line 1")
    return ModelReply(tool_calls=(call,), finish_reason="tool_calls")


WRONG = {
    "bad type": (tool_call("typed", count="many"), "args.count"),
    "missing": (tool_call("typed"), "needs the argument 'count'"),
    "unknown argument": (tool_call("typed", count=1, size=2), "has no argument 'size'"),
    "unknown tool": (
        tool_call("tiped", count=1),
        "'tiped' is none of the tools that may be called: typed",
    ),
    "tool outside of the list": (tool_call("give", value=1), "'give' is none of the tools"),
    "several": (together(tool_call("typed", count=1), tool_call("typed", count=2)), "2 tool calls"),
    "no JSON": (broken("typed"), "the arguments are no JSON"),
    "cut off": (text("I would", finish_reason="length"), "cut off"),
    "empty": (text(""), "is empty"),
    "secret": (tool_call("typed", count="{env.HOME}"), "{env.HOME} is not given to a delegate"),
    "parameter": (tool_call("typed", count="{params.x}"), "{params.x} is not given"),
    "not before it": (
        tool_call("typed", count="{artifacts.far}"),
        "{artifacts.far} is no result of a step",
    ),
    "later": (tool_call("typed", count="{artifacts.pick}"), "{artifacts.pick} is no result"),
    "ref not before it": (
        tool_call("typed", count="{nodes.far.output}"),
        "{nodes.far.output} is no result",
    ),
    "near miss": (tool_call("typed", count="{artifacts.src.rows}"), "write one of {artifacts.src}"),
    "result of another type": (tool_call("typed", count="{artifacts.src}"), "args.count"),
    "no number": (tool_call("typed", count=float("inf")), "inf is no number in JSON"),
    "half a call in the text": (text('{"name": "typed", "arguments": {"count": 3}'), "begins as"),
    "a key twice in the text": (
        text('{"name": "typed", "arguments": {"count": 1, "count": 3}}'),
        "begins as a call",
    ),
    "a list of calls": (text('[{"name": "typed", "arguments": {"count": 3}}]'), "begins as"),
    "a call amid the text": (
        text('Yes: <tool_call>{"name": "typed", "arguments": {"count": 3}}</tool_call>'),
        "begins as",
    ),
    "a name that is none": (text('{"name": ["typed"], "arguments": {}}'), "begins as a call"),
    "too deep": (tool_call("typed", count=json.loads("[" * 150 + "]" * 150)), "nested deeper"),
}


def two(lab: Any) -> list[PlanNode]:
    lab.tool(typed)
    lab.tool(lambda: CANARY, name="source")
    far = lab.node("far")
    return [far, lab.node("src", "source", after="far"), delegate(after="src", tools=["typed"])]


@pytest.mark.parametrize("case", WRONG)
@looped
async def test_a_call_that_is_not_valid_is_corrected_once(lab, case):
    wrong, problem = WRONG[case]
    model = script(wrong, tool_call("typed", count=3))
    run = await finish(lab, model, *two(lab))
    assert run.value("pick") == 3
    assert len(model.requests) == 2
    said = model.requests[1].messages[-1].content
    assert problem in said
    assert "exactly one tool call" in said
    assert CANARY not in prompt(model, 1)
    assert run.manifest().usage["model_calls"] == 2


@pytest.mark.parametrize("case", WRONG)
@looped
async def test_after_the_correction_the_node_fails_with_what_was_wrong(lab, case):
    wrong, problem = WRONG[case]
    model = script(wrong, wrong)
    run = await finish(lab, model, *two(lab), lab.node("next", after="pick"))
    assert run.refs["pick"].status == "error"
    (error,) = run.refs["pick"].errors
    assert error.startswith("DelegateFailed: no valid tool call, also after a correction: ")
    assert problem in error
    assert run.state.nodes["next"].status == "blocked"
    assert run.outcome().usage.calls == 2  # far and src: nothing was called for the delegate
    assert not told(run, ev.TOOL_CALLED)


@looped
async def test_a_wrong_answer_is_not_asked_for_again_by_retries(lab):
    model = script(tool_call("x"), tool_call("x"))
    run = await finish(lab, model, delegate(retry={"max_attempts": 3}))
    assert run.refs["pick"].status == "error"
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (text("", refusal="I will not"), "the model refused: I will not"),
        (text("Not this", finish_reason="refusal"), "the model refused: Not this"),
        (text("", finish_reason="content_filter"), "was filtered"),
    ],
)
@looped
async def test_a_refused_or_filtered_answer_fails_without_a_correction(lab, reply, said):
    model = script(reply)
    run = await finish(lab, model, delegate())
    assert said in run.refs["pick"].errors[0]
    assert len(model.requests) == 1


@looped
async def test_a_tool_outside_of_the_policy_is_not_shown_and_not_called(lab):
    model = script(tool_call("plain", value=1), tool_call("give", value=2))
    run = await finish(lab, model, delegate(tools=["*"]), allowed_tools=["give", "picky"])
    assert [tool.name for tool in model.requests[0].tools] == ["give", "picky", "none"]
    assert lab.calls == [2]
    assert run.status == "completed"


@looped
async def test_without_a_list_all_that_the_host_allows_may_be_chosen(lab):
    model = script(tool_call("picky", value=1))
    await finish(lab, model, delegate(tools=None), allowed_tools=["p*"])
    assert [tool.name for tool in model.requests[0].tools] == ["plain", "picky", "none"]


@looped
async def test_what_the_chosen_tool_raises_is_the_nodes_error(lab):
    run = await finish(lab, script(tool_call("boom", value=1)), delegate(tools=["boom"]))
    assert run.refs["pick"].errors == ["ValueError: boom 1"]
    assert run.outcome().usage.calls == 1


# -- abstaining -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (text("Nothing is\nto be done."), "the model chose no tool: Nothing is to be done."),
        (tool_call("none", reason="all is fine"), "the model chose no tool: all is fine"),
        (tool_call("none"), "the model chose no tool, and gave no reason"),
        (text("x" * 1000), "the model chose no tool: " + "x" * 275),
        (text("half \ud800"), "the model chose no tool: half ?"),
    ],
)
@looped
async def test_a_delegate_that_abstains_is_skipped_with_the_models_reason(lab, reply, reason):
    reads = lab.node("reads", args={"value": "{artifacts.pick}"}, after="pick")
    model = script(reply)
    run = await finish(
        lab, model, delegate(retry={"max_attempts": 3}), lab.node("next", after="pick"), reads
    )
    assert (run.refs["pick"].status, run.refs["pick"].errors) == ("skipped", [reason])
    assert run.status == "completed"
    assert run.refs["next"].status == "ok"
    assert run.refs["reads"].status == "skipped"
    assert len(model.requests) == 1
    assert run.outcome().usage.calls == 1


@looped
async def test_a_tool_that_is_called_none_is_called(lab):
    lab.tool(lambda: 9, name="none")
    model = script(tool_call("none"))
    run = await finish(lab, model, delegate(tools=["none"]))
    assert run.value("pick") == 9
    assert [tool.name for tool in model.requests[0].tools] == ["none", "no_tool_fits"]


# -- as any node ------------------------------------------------------------------------------


@looped
async def test_guards_facets_and_store_as_work_as_for_a_tool_node(lab):
    facets = {"counts": {"n": "rows[]"}}
    node = delegate("pick", facets=facets, store_as="chosen")
    off = delegate("off", "pick", when="ctx.artifacts.pick.n > 5")
    model = script(tool_call("give", value={"rows": [1, 2]}))
    run = await finish(lab, model, node, off)
    assert run.refs["pick"].facets == {"n": 2}
    assert run.refs["pick"].keys == ["chosen"]
    assert run.refs["off"].status == "skipped"
    assert len(model.requests) == 1


@looped
async def test_a_model_that_gives_no_answer_is_asked_again_by_the_retry_policy(lab):
    error = ModelError("rate_limited", "slow down", model="m")
    model = script(error, error, tool_call("give", value=1))
    run = await finish(lab, model, delegate(retry={"max_attempts": 3}))
    assert run.status == "completed"
    assert [data["attempt"] for data in told(run, ev.NODE_RETRIED)] == [1, 2]
    assert [data.get("error", {}).get("code") for data in told(run, ev.LLM_CALLED)] == [
        "rate_limited",
        "rate_limited",
        None,
    ]
    assert run.outcome().usage.calls == 1
    assert run.outcome().usage.model_calls == 1


@looped
async def test_a_model_that_never_answers_fails_the_node(lab):
    run = await finish(lab, script(ModelError("model_unreachable", "nobody there")), delegate())
    assert run.refs["pick"].errors == ["ModelError: nobody there"]
    assert run.outcome().usage.calls == 0


@looped
async def test_a_tool_that_fails_is_called_again_and_the_model_is_not_asked_again(lab):
    seen = []

    async def flaky(value: int) -> int:
        seen.append(value)
        if len(seen) < 3:
            raise ValueError("not yet")
        return value

    lab.tool(flaky)
    model = script(tool_call("flaky", value=4))
    run = await finish(lab, model, delegate(tools=["flaky"], retry={"max_attempts": 3}))
    assert (run.value("pick"), seen) == (4, [4, 4, 4])
    assert len(model.requests) == 1
    assert run.outcome().usage.calls == 3


@looped
async def test_a_model_over_the_limit_fails_the_node_and_is_cancelled(lab):
    ended = []

    async def never(request: Any) -> Any:
        lab.pass_time(60)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request)

    run = await finish(lab, FakeLLMClient(never), delegate(timeout=60))
    assert run.refs["pick"].errors == ["TimeoutError: the model gave no call within 60 s"]
    assert len(ended) == 1


@looped
async def test_a_tool_over_the_limit_fails_as_in_a_tool_node(lab, gate):
    def wait() -> None:
        lab.pass_time(60)
        gate.wait(30)

    lab.tool(wait)
    run = await finish(lab, script(tool_call("wait")), delegate(tools=["wait"], timeout=60))
    text_of = (
        "TimeoutError: over the limit of 60 s; still running in a thread, its result is dropped"
    )
    assert run.refs["pick"].errors == [text_of]


@looped
async def test_a_cancelled_run_cancels_the_question_and_leaves_nothing_behind(lab):
    asked = asyncio.Event()
    ended = []

    async def never(request: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request)

    async with lab.engine(delegate_llm=FakeLLMClient(never)) as engine:
        run = await engine.start(lab.plan(delegate(), lab.node("next", after="pick")))
        await asked.wait()
        run.cancel()
        outcome = await run.result()
    assert outcome.status == "cancelled"
    assert run.state.nodes["pick"].status == "cancelled"
    assert len(ended) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


@looped
async def test_plain_tools_run_in_a_thread_and_what_they_print_goes_to_the_node(lab):
    threads = []

    def shout() -> int:
        threads.append(threading.current_thread())
        print("heard")
        return 1

    lab.tool(shout)
    run = await finish(lab, script(tool_call("shout")), delegate(tools=["shout"]))
    assert threads[0] is not threading.main_thread()
    assert run.state.nodes["pick"].output == "heard\n"


@looped
async def test_an_idempotency_key_is_given_and_never_shown(lab):
    async def pay(amount: int, idempotency_key: str) -> str:
        del amount
        return idempotency_key

    lab.tool(pay)
    model = script(tool_call("pay", amount=1))
    run = await finish(lab, model, delegate(tools=["pay"]))
    assert run.value("pick") == f"{run.run_id}:pick"
    assert "idempotency_key" not in prompt(model)


@looped
async def test_delegates_ask_side_by_side_while_others_run(lab):
    at_once = asyncio.Barrier(3)

    async def answer(request: Any) -> Any:
        del request
        await at_once.wait()
        return tool_call("give", value=1)

    run = await finish(lab, FakeLLMClient(answer), *(delegate(f"d{i}") for i in range(3)))
    assert run.status == "completed"


@looped
async def test_a_spilled_result_is_handed_over_whole(lab, tmp_path):
    lab.memory = WorkingMemory(max_bytes=1_000, spill_dir=tmp_path)
    lab.tool(lambda: "x" * 5_000, name="source")

    def len_of(value: str) -> int:
        return len(value)

    lab.tool(len_of)
    model = script(tool_call("len_of", value="{artifacts.a}"))
    nodes = [lab.node("a", "source"), lab.node("b", "source", after="a")]
    run = await finish(lab, model, *nodes, delegate(after=["a", "b"], tools=["len_of"]))
    assert run.value("pick") == 5_000


# -- what it took -----------------------------------------------------------------------------


@looped
async def test_tokens_and_cost_add_up_in_outcome_and_manifest(lab):
    client = script(
        together(tool_call("nope"), input_tokens=10, output_tokens=2),
        together(tool_call("give", value=1), input_tokens=20, output_tokens=3),
        together(tool_call("give", value=2), input_tokens=30, output_tokens=4),
    )
    model = LLMHandler(client, prices={"fake": (1_000_000, 2_000_000)})
    run = await finish(lab, model, delegate("a"), delegate("b", "a"))
    usage = run.outcome().usage
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls, usage.calls) == (
        60,
        9,
        3,
        2,
    )
    assert usage.cost == pytest.approx(78)
    written = {"calls": 2, "model_calls": 3, "input_tokens": 60, "output_tokens": 9, "cost": 78}
    assert run.manifest().usage == written
    assert replay(run.events).manifest().usage == written


@looped
async def test_a_call_without_a_price_leaves_no_cost(lab):
    run = await finish(lab, script(tool_call("give", value=1)), delegate())
    assert run.outcome().usage.cost is None
    assert "cost" not in run.manifest().usage


@looped
async def test_a_call_of_the_model_is_on_record_without_what_was_said(lab):
    model = script(together(tool_call("give", value="{artifacts.src}"), input_tokens=3))
    run = await finish(
        lab, model, lab.node("src"), delegate(after="src", instruction="a secret plan")
    )
    (data,) = told(run, ev.LLM_CALLED)
    assert set(data) == {
        *("node_id", "round", "digest", "model", "finish_reason", "usage", "seconds"),
        "tool_calls",
    }
    assert data["tool_calls"] == [{"tool": "give", "args": {"value": "{artifacts.src}"}}]
    assert "a secret plan" not in json.dumps(data)


@pytest.mark.parametrize("value", ["\ud800", 2**70, "x" * (MAX_RECORDED + 1), {"a": {1, 2}}])
@looped
async def test_whatever_a_model_writes_can_be_recorded(lab, value, tmp_path):
    call = ToolCall(id="c", name="give", arguments={"value": value})
    model = script(ModelReply(tool_calls=(call,), finish_reason="tool_calls"))
    run = await finish(lab, model, delegate(), store=f"sqlite:///{tmp_path}/runs.db")
    assert run.value("pick") == value
    (choice,) = told(run, ev.TOOL_CALLED)
    assert len(str(choice["args"])) < MAX_RECORDED + 100


@looped
async def test_a_budget_bounds_what_delegates_spend(lab):
    def answer(request: Any) -> Any:
        del request
        return together(tool_call("give", value=1), input_tokens=60)

    nodes = [delegate(f"d{i}") for i in range(4)]
    run = await finish(lab, FakeLLMClient(answer), *nodes, budget=Budget(max_tokens=100))
    assert run.outcome().usage.input_tokens == 120
    assert sorted(ref.status for ref in run.refs.values()) == ["error", "error", "ok", "ok"]
    assert "max_tokens of 100 is reached: 120 are used" in run.failure_text()
    assert len(told(run, ev.BUDGET_EXCEEDED)) == 1


@looped
async def test_a_cost_that_nobody_knows_cannot_be_bounded(lab):
    with pytest.raises(ConfigurationError, match="price of model 'fake'"):
        await finish(lab, script(), delegate(), budget=Budget(max_cost=1))


# -- on record --------------------------------------------------------------------------------


@looped
async def test_a_delegate_that_finished_is_not_asked_again_on_resume(lab):
    store = MemoryStore()
    model = script(tool_call("give", value=1), text("no need"))
    nodes = [delegate("a"), delegate("none", "a"), lab.node("bad", "boom", after="a")]
    run = await finish(lab, model, *nodes, store=store)
    assert run.status == "partial"
    lab.registry.remove("boom")
    lab.tool(lambda value=None: value, name="boom")
    async with lab.engine(store=store, delegate_llm=script()) as engine:
        again = await engine.resume(run.run_id)
        await again
    assert again.status == "completed"
    assert again.value("a") == 1
    assert again.refs["none"].errors == ["the model chose no tool: no need"]
    assert again.state.nodes["a"].chosen == "give"
    assert again.manifest().usage["model_calls"] == 2


@looped
async def test_a_failed_delegate_is_asked_again_on_resume(lab):
    store = MemoryStore()
    run = await finish(lab, script(ModelError("model_failed", "x")), delegate(), store=store)
    assert run.status == "failed"
    async with lab.engine(store=store, delegate_llm=script(tool_call("give", value=2))) as engine:
        again = await engine.resume(run.run_id)
        await again
    assert again.value("pick") == 2


@looped
async def test_a_delegate_that_was_cut_off_is_asked_again_on_resume(lab):
    store = MemoryStore()
    called = asyncio.Event()

    async def hang(value: int) -> int:
        called.set()
        await asyncio.Event().wait()
        return value

    lab.tool(hang)
    node = delegate(tools=["hang", "give"])
    async with lab.engine(store=store, delegate_llm=script(tool_call("hang", value=1))) as engine:
        run = await engine.start(lab.plan(node))
        await called.wait()
        run.cancel()
        await run.result()
    assert run.state.nodes["pick"].chosen == "hang"  # on record before the tool was called
    async with lab.engine(store=store, delegate_llm=script(tool_call("give", value=2))) as engine:
        again = await engine.resume(run.run_id)
        await again
    assert again.value("pick") == 2
    assert again.state.nodes["pick"].chosen == "give"


@looped
async def test_a_delegate_is_asked_again_when_the_tool_that_it_chose_has_changed(lab):
    store = MemoryStore()
    lab.tool(lambda: "old", name="source")
    nodes = [delegate("a", tools=["source"]), delegate("b"), lab.node("bad", "boom", after="a")]

    def answer(request: Any) -> Any:
        first = request.tools[0].name
        return tool_call("source") if first == "source" else tool_call("give", value=1)

    run = await finish(lab, FakeLLMClient(answer), *nodes, store=store)
    lab.tool(lambda: "new", name="source")
    model = FakeLLMClient(answer)
    async with lab.engine(store=store, delegate_llm=model) as engine:
        again = await engine.resume(run.run_id)
        await again
    assert again.value("a") == "new"
    assert len(model.requests) == 1


@looped
async def test_a_delegate_is_asked_again_when_what_it_was_shown_is_new(lab):
    store = MemoryStore()
    lab.tool(lambda: "old", name="source")
    nodes = [lab.node("src", "source"), delegate(after="src"), lab.node("bad", "boom", after="src")]
    run = await finish(lab, script(tool_call("give", value=1)), *nodes, store=store)
    lab.tool(lambda: "new", name="source")
    async with lab.engine(store=store, delegate_llm=script(tool_call("give", value=2))) as engine:
        again = await engine.resume(run.run_id)
        await again
    assert again.value("pick") == 2


@looped
async def test_a_fork_keeps_what_was_chosen(lab):
    nodes = [delegate("a"), lab.node("bad", "boom", after="a")]
    async with lab.engine(
        delegate_llm=script(tool_call("give", value=1)), store=MemoryStore()
    ) as engine:
        run = await engine.start(lab.plan(*nodes))
        await run
        child = await engine.fork(run.run_id, lab.plan(nodes[0], lab.node("bad", after="a")))
        await child
    assert child.status == "completed"
    assert child.value("a") == 1
    assert child.state.nodes["a"].chosen == "give"
    assert child.manifest().usage["model_calls"] == 0


@looped
async def test_a_delegate_survives_its_process_with_durable_artifacts(lab, tmp_path):
    url, scope = f"sqlite:///{tmp_path}/runs.db", TaskScope("team")
    nodes = [
        lab.node("src", args={"value": [1]}),
        delegate("a", "src"),
        lab.node("bad", "boom", after="a"),
    ]

    def engine(memory: WorkingMemory, model: Any) -> Engine:
        where = f"file://{tmp_path}/artifacts"
        return Engine(
            url, lab.registry, memory, task_memory_runtime=where, scope=scope, delegate_llm=model
        )

    async with engine(WorkingMemory(), script(tool_call("give", value="{artifacts.src}"))) as first:
        run = await first.start(lab.plan(*nodes))
        await run
    lab.registry.remove("boom")
    lab.tool(lambda value=None: value, name="boom")
    memory = WorkingMemory()
    async with engine(memory, script()) as second:
        again = await second.resume(run.run_id)
        await again
    assert again.status == "completed"
    assert again.value("a") == [1]
    assert memory.info("a").tool == "give"


# -- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tools": []}, "delegate_without_tools"),
        ({"args": {"size": 1}, "tools": ["typed"]}, "delegate_unknown_args"),
        (
            {"for_each": {"source": "{artifacts.src}"}, "store_as": "pick.{index}"},
            "delegate_for_each",
        ),
        ({"approve": True}, "approval_not_available"),
    ],
)
@looped
async def test_what_a_delegate_cannot_do_is_refused_with_a_code(lab, fields, code):
    lab.tool(typed)
    with pytest.raises(RunRefused) as caught:
        await finish(lab, script(), lab.node("src"), delegate(after="src", **fields))
    assert (caught.value.code, caught.value.node_id) == (code, "pick")
    assert lab.calls == []


@looped
async def test_without_a_model_a_delegate_is_refused_before_anything_is_called(lab):
    store = MemoryStore()
    for model in (script(), None):  # a plan that was compiled with a model is refused without one
        async with lab.engine(store=store, delegate_llm=model) as engine:
            if model is not None:
                engine.compile(plan := lab.plan(lab.node("a"), delegate()))
                continue
            with pytest.raises(RunRefused) as caught:
                await engine.start(plan)
            assert await engine.runs() == []
    assert (caught.value.code, caught.value.node_id) == ("delegate_not_configured", "pick")
    assert lab.calls == []


@pytest.mark.parametrize("read", ["{artifacts.src}", "{nodes.src.output}"])
@looped
async def test_an_instruction_reads_only_what_the_node_waits_for(lab, read):
    node = delegate(instruction=f"Look at {read}")
    with pytest.raises(PlanInvalid) as caught:
        await finish(lab, script(), lab.node("src"), node)
    (issue,) = [issue for issue in caught.value.issues if issue.severity == "error"]
    assert (issue.code, issue.node_id, issue.fix) == (
        "undeclared_reference",
        "pick",
        "add src to depends_on",
    )


@looped
async def test_a_secret_is_masked_in_what_the_model_is_shown(lab, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-value")

    async def use(key: str) -> dict[str, str]:
        return {"echo": key}

    lab.tool(use)
    src = PlanNode(
        id="src", tool="use", args={"key": "{env.TOKEN}"}, facets={"paths": {"e": "echo"}}
    )
    node = delegate(after="src", instruction="Do not tell s3cr3t-value")
    model = script(tool_call("give", value="s3cr3t-value"))
    run = await finish(lab, model, src, node, env={"TOKEN": ["use"]})
    assert run.status == "completed"
    assert "s3cr3t" not in prompt(model)
    assert "s3cr3t" not in json.dumps([e.data for e in run.events if e.type == ev.TOOL_CALLED])
    assert "s3cr3t" not in json.dumps([e.data for e in run.events if e.type == ev.LLM_CALLED])


def test_what_is_no_model_is_refused_where_it_is_given(lab):
    with pytest.raises(ConfigurationError, match="is no model"):
        lab.engine(delegate_llm=3)
    with pytest.raises(ConfigurationError, match="names no provider"):
        lab.engine(delegate_llm="llama")


# -- over HTTP --------------------------------------------------------------------------------


@looped
async def test_over_http_no_request_ever_holds_a_body(lab, monkeypatch):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    monkeypatch.setenv("TOKEN", "s3cr3t-value")

    async def rows(key: str) -> dict[str, Any]:
        del key
        return {"rows": [{"name": CANARY, "n": n} for n in range(3)]}

    async def narrow(rows: list[dict[str, int]]) -> int:
        return len(rows)

    async def fine(rows: list[dict[str, Any]]) -> int:
        return len(rows)

    for function in (rows, narrow, fine):
        lab.tool(function)
    src = PlanNode(
        id="src",
        tool="rows",
        args={"key": "{env.TOKEN}"},
        facets={"counts": {"n": "rows[]"}},
    )
    lab.tool(lambda value: value["rows"], name="unpack")
    listed = lab.node("listed", "unpack", {"value": "{artifacts.src}"}, "src")
    node = delegate(after="listed", tools=["narrow", "fine"], instruction="Use {artifacts.listed}")
    answers = [
        tool_call("narrow", rows="{artifacts.listed}"),
        together(tool_call("fine", rows="{artifacts.listed}"), input_tokens=7, output_tokens=2),
    ]
    with ScriptedServer(answers) as server:
        client = OpenAIClient("small", base_url=server.url, api_key="test", max_retries=0)
        run = await finish(lab, client, src, listed, node, env={"TOKEN": ["rows"]})
        await client.close()
    assert run.status == "completed", run.failure_text()
    assert run.value("pick") == 3
    assert len(server.requests) == 2
    for request in server.requests:
        written = json.dumps(request.body) + json.dumps(request.headers)
        assert CANARY not in written
        assert "s3cr3t" not in written
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == [
        "narrow",
        "fine",
        "none",
    ]
    assert "args.rows" in server.bodies[1]["messages"][-1]["content"]
    assert run.manifest().usage["input_tokens"] == 7
    assert CANARY not in json.dumps([event.data for event in run.events])


@looped
async def test_a_drawn_delegate_names_what_it_chose(lab):
    run = await finish(lab, script(tool_call("give", value=1)), delegate())
    assert run_view(run).nodes[0].tool == "delegate: give"
