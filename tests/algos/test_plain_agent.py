"""A plain agent that has plans as a tool: what it learns of a run, and what no model ever sees."""

import asyncio
import json
import threading
from collections import Counter

import pytest

from planbench import ExecutionPlanToolkit, WorkingMemoryToolkit
from planbench.algos import ToolLoop
from planbench.checkpoints import MemoryStore
from planbench.llm import FakeLLMClient, LLMHandler, OpenAIClient
from planbench.llm.fake import text, tool_call
from planbench.llm.server import ScriptedServer
from planbench.runtime import Budget, Engine
from planbench.tools import ToolRegistry

CANARY = "c4n4ry-body-of-a-result"
REPORTS = 3
PLAN = {
    "name": "sweep",
    "objective": "compare the {reports} of a day",
    "nodes": [
        {
            "id": "listing",
            "tool": "list_reports",
            "args": {"day": "2026-08-06"},
            "facets": {"counts": {"n": "reports[]"}},
        },
        {
            "id": "fetch",
            "tool": "fetch_report",
            "args": {"name": "{item.name}"},
            "depends_on": ["listing"],
            "for_each": {"source": "{artifacts.listing}", "select": "reports[]"},
            "store_as": "report.{index}",
        },
        {
            "id": "pick",
            "type": "delegate",
            "instruction": "Count what is in {artifacts.fetch}",
            "tools": ["count_findings"],
            "depends_on": ["fetch"],
        },
        {
            "id": "judge",
            "tool": "strict_judge",
            "args": {"reports": "{artifacts.fetch}"},
            "depends_on": ["fetch"],
        },
        {
            "id": "verdict",
            "tool": "word",
            "args": {"judged": "{artifacts.judge}", "found": "{artifacts.pick}"},
            "depends_on": ["judge", "pick"],
        },
    ],
}
MENDED = {
    "nodes": [
        {
            "id": "judge",
            "tool": "mild_judge",
            "args": {"reports": "{artifacts.fetch}"},
            "depends_on": ["fetch"],
        }
    ]
}


class Desk:
    """Tools whose results hold the canary, and one server that plays all three models."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.gate = asyncio.Event()
        self.called = []
        self.at = []
        self.told = []
        self.reads = iter(())
        self.run_id = None
        self.lock = threading.Lock()
        self.server = ScriptedServer(self.answer)

        async def list_reports(day: str) -> dict:
            """List the {reports} of a day."""
            self.called.append("list_reports")
            del day
            return {"reports": [{"name": f"{CANARY}-{n}"} for n in range(REPORTS)]}

        async def fetch_report(name: str) -> dict:
            """Fetch one report."""
            self.called.append("fetch_report")
            assert CANARY in name
            await self.gate.wait()
            return {"severity": "high", "text": "." * 2_000 + CANARY}

        def count_findings(reports: list[dict]) -> int:
            """Count the findings."""
            self.called.append("count_findings")
            assert all(CANARY in report["text"] for report in reports)
            return len(reports)

        def strict_judge(reports: list[dict]) -> str:
            """Judge reports."""
            self.called.append("strict_judge")
            raise RuntimeError(f"the judge is away, {len(reports)} reports wait")

        def mild_judge(reports: list[dict]) -> str:
            """Judge reports, mildly."""
            self.called.append("mild_judge")
            return f"{len(reports)} new"

        def word(judged: str, found: int) -> dict:
            """Put a verdict in words."""
            self.called.append("word")
            return {"verdict": judged, "found": found}

        self.registry = ToolRegistry(
            [list_reports, fetch_report, count_findings, strict_judge, mild_judge, word]
        )

    def client(self, model):
        return OpenAIClient(model, self.server.url, "test-key", max_retries=0)

    def answer(self, request):
        """Answer as the model that is asked; the place of each planning among the calls is noted."""
        with self.lock:
            model = request.body["model"]
            if model == "planner":
                self.at.append(len(self.called))
                return json.dumps([PLAN, MENDED][len(self.at) - 1])
            if model == "small":
                return tool_call("count_findings", reports="{artifacts.fetch}")
            return self.turn(request.body["messages"][-1])

    def turn(self, last):
        """The agent: plan, look how it goes, repair once, read, answer."""
        if last["role"] == "user":
            return tool_call("plan_execute", objective="compare the {reports} of a day, {} and }")
        answer = json.loads(last["content"])
        self.told.append(answer)
        found = answer["result"] or {}
        status = found.get("status")
        if status == "running":
            if self.run_id is not None:
                self.loop.call_soon_threadsafe(self.gate.set)
            self.run_id = found["run_id"]
            return tool_call("plan_status", run_id=self.run_id)
        if status == "partial":
            return tool_call("plan_repair", run_id=self.run_id)
        if status == "completed":
            self.reads = iter(
                [
                    tool_call("plan_artifacts", run_id=self.run_id),
                    tool_call("wm_list"),
                    tool_call("wm_search", query="report"),
                    tool_call("wm_get_result", key="fetch"),
                    tool_call("wm_get_result", key="fetch", include_raw=True),
                    tool_call("wm_get_result", key="verdict", include_raw=True),
                ]
            )
        return next(self.reads, None) or text("3 reports, 3 new", input_tokens=7, output_tokens=3)

    def asked(self, model):
        return [body for body in self.server.bodies if body["model"] == model]


async def work(desk, *, shared):
    """Give the agent its task; ``shared``: one registry holds the tools and the toolkits."""
    memory = WorkingMemoryToolkit(max_rehydrate_bytes=1_000)
    clients = [desk.client(model) for model in ("agent", "planner", "small")]
    plans = ExecutionPlanToolkit(
        tool_manager=desk.registry,
        working_memory=memory,
        planner_llm=clients[1],
        delegate_llm=clients[2],
        allowed_tools=None if shared else desk.registry.names(),
        soft_timeout=0.02,
        checkpoint_store=MemoryStore(),
    )
    if shared:
        desk.registry.register_tool(plans)
        desk.registry.register_tool(memory)
    tools = desk.registry if shared else [plans, memory]
    try:
        async with Engine() as engine:
            LLMHandler(clients[0]).attach(engine)
            agent = ToolLoop(tools, max_turns=200)
            run = await engine.start(agent, {"task": "What is new?"}, budget=Budget(max_tokens=50))
            outcome = await run.result()
            log = await engine.store.read(run.run_id)
    finally:
        await plans.close()
        for client in clients:
            await client.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return outcome, log


@pytest.mark.parametrize("shared", [False, True], ids=["toolkits alone", "one registry"])
def test_an_agent_runs_polls_repairs_and_reads_a_plan_and_no_request_holds_a_body(shared):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")

    async def main():
        desk = Desk()
        with desk.server:
            outcome, log = await work(desk, shared=shared)

        assert outcome.status == "success", outcome.reason
        assert outcome.value == {"text": "3 reports, 3 new"}
        assert outcome.usage.calls == len(desk.asked("agent"))
        # what the models got, in every field of every request, and what the record keeps
        for request in desk.server.requests:
            assert CANARY not in json.dumps([request.body, request.headers])
        assert CANARY not in json.dumps([event.data for event in log])
        # one question before the first call of a tool, one for the repair, none in between
        assert desk.at == [0, desk.called.index("mild_judge")]
        assert len(desk.asked("small")) == 1
        assert Counter(desk.called) == {
            "list_reports": 1,
            "fetch_report": REPORTS,
            "count_findings": 1,
            "strict_judge": 1,
            "mild_judge": 1,
            "word": 1,
        }
        check_what_was_told(desk.told)

    asyncio.run(main())


def check_what_was_told(told):
    """The agent is told of progress, of what failed and why, and what it asks to read and may."""
    statuses = [(one["result"] or {}).get("status") for one in told]
    assert statuses[:2] == ["running", "running"]
    assert {"partial", "completed"} <= set(statuses)
    red = told[statuses.index("partial")]["result"]
    errors = {ref["node_id"]: ref["errors"] for ref in red["artifacts"] if ref["errors"]}
    assert "the judge is away" in errors["judge"][0]
    assert "never dispatched" in errors["verdict"][0]
    *_, artifacts, listed, searched, summary, refused, read = told
    assert {ref["node_id"] for ref in artifacts["result"]["artifacts"]} == {
        "listing",
        "fetch",
        "pick",
        "judge",
        "verdict",
    }
    assert listed["result"]["fan_outs"] == {"fetch": REPORTS}
    assert searched["result"]["total"] >= REPORTS
    assert "fan-out of 3 items" in summary["result"]["summary"]
    assert (refused["success"], refused["error_code"]) == (False, "too_large")
    assert read["result"]["data"] == {"verdict": "3 new", "found": 3}


def test_an_agent_that_is_resumed_is_told_the_same_and_runs_no_plan_again():
    called, planned, asked = [], [], []
    gate = asyncio.Event()
    plan = {"name": "one", "objective": "one", "nodes": [{"id": "a", "tool": "give"}]}

    async def give() -> dict:
        called.append("give")
        return {"n": 1, "share": 0.5}

    def planner(request):
        planned.append(request)
        return text(json.dumps(plan))

    async def model(request):
        asked.append(request.messages)
        if len(asked) == 1:
            return tool_call("plan_execute", objective="do it")
        if len(asked) == 2:
            return tool_call("wm_get_result", key="a", include_raw=True)
        await gate.wait()
        return text("done")

    async def work(store, run_id=None):
        memory = WorkingMemoryToolkit()
        plans = ExecutionPlanToolkit([give], memory, FakeLLMClient(planner))
        agent = ToolLoop([plans, memory])
        async with Engine(store) as engine:
            LLMHandler(FakeLLMClient(model)).attach(engine)
            if run_id is None:
                run = await engine.start(agent, {"task": "t"})
                async with asyncio.timeout(60):
                    while len(asked) < 3:  # noqa: ASYNC110 - what is waited for has no event
                        await asyncio.sleep(0.001)
                run.cancel()
            else:
                run = await engine.resume(run_id, agent)
            outcome = await run.result()
        await plans.close()
        return run.run_id, outcome

    async def main():
        store = MemoryStore()
        run_id, first = await work(store)
        gate.set()
        _, second = await work(store, run_id)
        assert (first.status, second.status) == ("cancelled", "success")

    asyncio.run(main())
    assert (called, len(planned), len(asked)) == (["give"], 1, 4)
    assert [message.content for message in asked[2]] == [message.content for message in asked[3]]
    assert '"data":{"n":1,"share":0.5}' in asked[3][-1].content
