"""What models really send as a plan of steps, served over HTTP to a plan-and-execute agent."""

import asyncio
import json
from pathlib import Path

import pytest

from planbench import events as ev
from planbench.algos import PlanAndExecute, ToolLoop
from planbench.llm import LLMHandler, OpenAIClient
from planbench.llm.fake import tool_call
from planbench.llm.server import ScriptedServer, raw
from planbench.runtime import Engine

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "planner_outputs.jsonl"
RECORDS = [
    record
    for record in map(
        json.loads, SHARED.read_text(encoding="utf-8").splitlines() if SHARED.is_file() else []
    )
    if record["plan_kind"] == "steps"
]


async def carried_out(raw):
    """Have the answer of a planner carried out; gives the outcome, the log and the requests."""

    def answer(request):
        system = request.body["messages"][0]["content"]
        return raw if "planner" in system else "all" if "Combine" in system else "done"

    with ScriptedServer(answer) as server:
        async with (
            OpenAIClient("m", server.url, "key", max_retries=0) as client,
            Engine() as engine,
        ):
            LLMHandler(client).attach(engine)
            run = await engine.start(PlanAndExecute(ToolLoop()), {"task": "look at the reports"})
            return await run.result(), run.events, server.bodies


@pytest.mark.shared
@pytest.mark.skipif(not RECORDS, reason="the larger data sets are not there")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_a_plan_of_the_data_set_is_carried_out_or_refused_with_what_is_wrong(record):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    outcome, log, asked = asyncio.run(carried_out(record["raw"]))

    came = "parse" if outcome.status == "success" else "reject"
    assert came in (record["expect"], record["also_acceptable"]), outcome.reason
    if came == "reject":
        assert outcome.status == "failed"
        assert outcome.reason.startswith("invalid plan: ")
        assert len(asked) == 1
        assert not any(event.type == ev.TASK_STARTED for event in log)
        for word in (record["error"] or {}).get("must_mention", []):
            assert word.lower() in outcome.reason.lower()
        return
    [created] = [event.data["steps"] for event in log if event.type == ev.PLAN_CREATED]
    plan = record["expected"] if record["expect"] == "parse" else record["also_expected"]
    assert {"steps": created} == plan
    assert set(outcome.value["results"]) == {step["id"] for step in plan["steps"]}
    assert len(asked) == 2 + len(created)


def test_names_that_are_no_text_go_through_tools_models_and_the_record(tmp_path):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    half = "name-\udcff.txt"

    def listing() -> list:
        return [half]

    def answer(request):
        messages = request.body["messages"]
        system = messages[0]["content"]
        if "planner" in system:
            return json.dumps({"steps": [{"id": "a", "description": "list", "depends_on": []}]})
        if "Combine" not in system and messages[-1]["role"] == "user":
            return tool_call("listing")
        # as a server writes it in ASCII: \udcff
        return raw(json.dumps({"choices": [{"message": {"content": half}}]}))

    async def main(url):
        store = f"sqlite:///{tmp_path / 'runs.db'}"
        async with OpenAIClient("m", url, "key", max_retries=0) as client, Engine(store) as engine:
            LLMHandler(client).attach(engine)
            agent = PlanAndExecute(ToolLoop([listing]))
            run = await engine.start(agent, {"task": "list the files"})
            return await run.result(), await engine.store.read(run.run_id)

    with ScriptedServer(answer) as server:
        outcome, log = asyncio.run(main(server.url))
    assert outcome.status == "success", outcome.reason
    assert outcome.value == {"text": half, "results": {"a": half}}
    [finished] = [event.data for event in log if event.type == ev.TASK_FINISHED]
    assert finished["text"] == "name-?.txt"
