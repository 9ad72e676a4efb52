"""Runs of algorithms in the notebook: the panel draws the steps that they plan, and plan anew."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from planbench.algos import PlanAndExecute
from planbench.errors import CommandError, RunFailed
from planbench.llm import FakeLLMClient, LLMHandler
from planbench.notebook import wire
from planbench.notebook.bundle import static_bundle
from planbench.notebook.panel import PlanPanel
from planbench.workbench import Workbench, get_workbench


def steps(**needs):
    listed = [
        {"id": name, "description": f"do {name} & <b>", "depends_on": after.split()}
        for name, after in needs.items()
    ]
    return json.dumps({"steps": listed})


class Steps:
    """Does a step when it is let, and fails at those that are called ``bad``."""

    name = "steps"

    def __init__(self):
        self.gate = asyncio.Event()

    async def run(self, agent, inputs):
        await self.gate.wait()
        if inputs["step"]["id"] == "bad":
            raise ValueError("it broke")
        return {"text": "done"}


def agent_of(bench, *plans, **options):
    """Give an algorithm whose planner answers with these plans, one after the other."""
    left = list(plans)

    def answer(request):
        return left.pop(0) if "planner" in request.messages[0].content else "all of it"

    LLMHandler(FakeLLMClient(answer)).attach(bench.engine)
    return PlanAndExecute(Steps(), **options)


async def until(true):
    for _ in range(12_000):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not come to be")


def drawn(panel):
    return [node["id"] for node in panel.nodes]


def titles(panel):
    return re.findall(r'class="pbn-title"[^>]*>([^<]*)<', panel.svg)


@pytest.fixture
def on_panel():
    """Run a scenario with the live panel of a run, and close everything behind it."""

    def run(scenario, *plans, **options):
        async def main():
            bench = Workbench()
            agent = agent_of(bench, *plans, **options)
            live = await bench.start(agent, {"task": "the task"})
            session = bench.session(live.plan)
            session.follow(live)
            panel = PlanPanel(session)
            try:
                await scenario(panel, live, agent)
            finally:
                panel.close()
                await bench.close()

        asyncio.run(main())

    yield run
    PlanPanel.close_all()


def test_the_steps_are_drawn_when_they_are_planned_and_again_when_they_are_planned_anew(on_panel):
    async def scenario(panel, run, agent):
        assert drawn(panel) == ["plan_and_execute"]
        await until(
            lambda: (
                drawn(panel)
                == ["good", "bad", "last"]
                == sorted(titles(panel), key=["good", "bad", "last"].index)
            )
        )
        assert panel.nodes[2]["after"] == [0, 1]
        assert panel.nodes[0]["tool"] == "do good & <b>"
        await until(
            lambda: (
                [panel.states[str(i)]["s"] for i in range(3)] == ["running", "running", "waiting"]
            )
        )
        agent.executor.gate.set()
        assert (await run).status == "success"
        await until(lambda: drawn(panel) == ["good", "bad", "r1-other"])
        await until(lambda: set(titles(panel)) == {"good", "bad", "r1-other"})
        assert [panel.states[str(i)]["s"] for i in range(3)] == ["ok", "error", "ok"]
        assert panel.status["state"] == "success"

    on_panel(scenario, steps(good="", bad="", last="good bad"), steps(other="good"))


def test_states_never_go_to_a_drawing_of_other_nodes(on_panel):
    async def scenario(panel, run, agent):
        wrong = []
        send = panel.send

        def look(content, buffers=None):
            if content["type"] == "delta" and content["states"] and panel.svg:
                places = [int(key) for key in content["states"]]
                if max(places) >= len(panel.nodes) or len(titles(panel)) != len(panel.nodes):
                    wrong.append((content, drawn(panel), titles(panel)))
            send(content, buffers)

        panel.send = look
        await until(lambda: len(titles(panel)) == 4)
        agent.executor.gate.set()
        await run
        await until(lambda: len(titles(panel)) == 4 and "r1-x" in drawn(panel))
        assert wrong == []

    on_panel(scenario, steps(bad="", a="", b="a", c="b"), steps(x="", y="x"))


def test_an_algorithm_is_not_started_from_its_panel(on_panel):
    async def scenario(panel, run, agent):
        agent.executor.gate.set()
        await run
        await until(lambda: not panel.buttons["cancel"]["enabled"])
        assert panel.buttons["run"]["enabled"] is False
        assert "%plan run" in panel.buttons["run"]["title"]

    on_panel(scenario, steps(a=""))


def test_the_picture_of_such_a_run_says_what_each_step_does():
    async def main():
        bench = Workbench()
        agent = agent_of(bench, steps(a="", bad="a"), max_replans=0)
        agent.executor.gate.set()
        run = await bench.start(agent, {"task": "the task"})
        await run
        await bench.close()
        return run

    run = asyncio.run(main())
    bundle = static_bundle(run)
    assert "do a &amp; &lt;b&gt;" in bundle["text/html"]
    assert "<b>failed</b>" in re.sub(r' class="[^"]*"', "", bundle["text/html"])
    assert "it broke" in bundle["text/plain"]
    assert "image/svg+xml" in bundle


def test_a_run_that_is_over_its_budget_says_so():
    async def main():
        from planbench import Budget

        bench = Workbench()
        agent = agent_of(bench, steps(a=""))
        await bench.engine.open()
        run = await bench.engine.start(agent, {"task": "t"}, budget=Budget(max_seconds=1))
        await run
        await bench.close()
        session = bench.session(run.plan)
        session.follow(run)
        return wire.status_record(session, 0)

    record = asyncio.run(main())
    assert (record["state"], record["tone"]) == ("budget_exceeded", "error")
    assert record["message"]


# -- in a shell ----------------------------------------------------------------------------


@pytest.fixture
def agent(cells):
    agent = agent_of(get_workbench(), steps(a="", c="a"), steps(bad=""), max_replans=0)
    cells.shell.user_ns["agent"] = agent
    cells.ok("agent.executor.gate.set()")
    return agent


def test_an_algorithm_of_the_notebook_is_run_and_drawn(cells, agent):
    shown = cells.ok('r = %plan run agent --param task="the task"')
    run = cells.shell.user_ns["r"]
    assert run.status == "success"
    assert "plan_and_execute: success, 2 of 2 nodes" in shown
    assert get_workbench().run() is run
    assert "a" in cells.ok("%plan show r")


def test_a_failed_algorithm_is_red(cells, agent):
    cells.ok("%plan run agent --param task=one")
    error = cells.fails("%plan run agent --param task=two")
    assert isinstance(error, RunFailed)
    assert "algorithm 'plan_and_execute' is failed" in str(error)
    assert "it broke" in str(error)
    cells.ok("x = 1")


def test_the_steps_of_an_algorithm_are_not_saved_as_a_plan(cells, agent):
    cells.ok("r = %plan run agent --param task=one")
    error = cells.fails("%plan save steps r")
    assert isinstance(error, CommandError)
    assert "no plan of tool calls" in str(error)


def test_a_live_run_that_is_displayed_is_brought_up_to_date_at_its_end(cells, agent):
    cells.ok(
        "from planbench import get_workbench\n"
        "agent.executor.gate.clear()\n"
        'r = await get_workbench().start(agent, {"task": "one"})\n'
        "display(r)\n"
        "agent.executor.gate.set()\n"
        "_ = await r"
    )
    texts = [one["text/plain"].split(",")[0] for one in cells.outputs]
    assert texts[0] == "plan_and_execute: running"
    assert texts[-1] == "plan_and_execute: success"
    assert "plan_and_execute: success" in cells.ok("display(r)")
