"""Plans that a model writes and steps that an agent plans, as an analyst sees them in JupyterLab."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

AUTHOR = """
%load_ext planbench
import asyncio, json, tempfile
from pathlib import Path
from planbench import tool, get_workbench
from planbench.llm.client import ModelReply

folder = tempfile.TemporaryDirectory()
%config PlanMagics.plans_dir = folder.name

@tool
def say(text: str) -> str:
    return text

class Model:
    model = "slow-1"
    async def complete(self, request):
        said = json.dumps({"name": "hello", "objective": "<b>o</b>", "nodes": [{"id": "a", "tool": "say", "args": {"text": "hi"}}]})
        request.on_text(said[:30])
        while not Path("answered").exists():
            await asyncio.sleep(0.02)
        return ModelReply(content=said)

get_workbench().planner = Model()
"""
AGENT = """
%load_ext planbench
import asyncio, json
from planbench import get_workbench
from planbench.algos import PlanAndExecute
from planbench.llm import FakeLLMClient, LLMHandler

gates = {}

class Steps:
    name = "steps"
    async def run(self, agent, inputs):
        step = inputs["step"]["id"]
        await gates.setdefault(step, asyncio.Event()).wait()
        if step == "bad":
            raise ValueError("it broke")
        return {"text": "done"}

def steps(**needs):
    return json.dumps({"steps": [
        {"id": name, "description": "do " + name, "depends_on": after.split()} for name, after in needs.items()
    ]})

plans = [steps(good="", bad="", last="good bad"), steps(other="good")]
LLMHandler(FakeLLMClient(
    lambda request: plans.pop(0) if "planner" in request.messages[0].content else "all of it"
)).attach(get_workbench().engine)
agent = PlanAndExecute(Steps())
"""
TITLES = """titles => {
  const found = [...document.querySelectorAll('.pb-panel g[data-node] .pbn-title')].map(title => title.textContent);
  return JSON.stringify(found.sort()) === JSON.stringify([...titles].sort());
}"""
STATES = """() => Object.fromEntries([...document.querySelectorAll('.pb-panel g[data-node]')].map(
  node => [node.querySelector('.pbn-title').textContent, /\\bpb-(running|waiting|ok|error)\\b/.exec(node.getAttribute('class'))?.[1]]
))"""


def wait_for_titles(book, *titles):
    book.page.wait_for_function(TITLES, arg=list(titles))


def test_an_answer_streams_and_the_plan_goes_into_the_next_cell(notebook):
    book = notebook(AUTHOR, "%%plan_objective hello\nSay hi", "hello.name")
    book.run(0)
    book.run(1, wait=False)
    book.output(1).get_by_text("asking slow-1 for an answer").wait_for()
    book.output(1).get_by_text('{"name": "hello"').wait_for()
    (book.path.parent / "answered").touch()
    book.output(1).get_by_text("draft: drafts/hello-1").wait_for()
    book.panel(1).locator("g[data-node=n0].pb-valid").wait_for()
    assert book.output(1).get_by_text('{"name": "hello"').count() == 0
    cells = book.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.source)"
    )
    assert cells[2].startswith("%%plan hello\nname: hello\n")
    assert cells[3] == "hello.name"
    book.output(1).get_by_text("the planner saw 1 tool: say").click()
    book.output(1).get_by_text("- say(text: string)").wait_for()
    book.shot("6_authored")
    book.run(2)
    book.panel(2).locator("g[data-node=n0].pb-valid").wait_for()


def test_the_steps_of_an_agent_are_drawn_live_and_again_when_they_are_planned_anew(notebook):
    book = notebook(
        AGENT,
        'run = await get_workbench().start(agent, {"task": "the task"})\nrun',
        "%plan show run",
    )
    book.run(0)
    book.run(1)
    wait_for_titles(book, "good", "bad", "last")
    book.panel(1).locator("g.pb-node.pb-running").nth(1).wait_for()
    assert book.page.evaluate(STATES) == {"good": "running", "bad": "running", "last": "waiting"}
    book.shot("7_steps")
    book.printed("gates['good'].set(); gates['bad'].set()")
    wait_for_titles(book, "good", "bad", "r1-other")
    book.panel(1).locator("g.pb-node.pb-error").wait_for()
    assert book.page.evaluate(STATES) == {"good": "ok", "bad": "error", "r1-other": "running"}
    book.panel(1).locator("g.pb-node.pb-running").click()
    book.panel(1).locator(".pb-inspector").get_by_text("do other").first.wait_for()
    book.printed("gates['r1-other'].set()")
    book.panel(1).locator("[role=status] .pb-is-success").wait_for()
    assert book.page.evaluate(STATES) == {"good": "ok", "bad": "error", "r1-other": "ok"}
    book.shot("8_planned_anew")
    assert not book.panel(1).locator(".pb-run.pb-button").is_enabled()
    # the last drawing is laid out beside the loop, and stored a moment after it is seen
    for _ in range(20):
        book.save()
        (saved,) = book.saved(1)
        if "plan_and_execute: success" in saved["data"]["text/plain"]:
            break
        book.page.wait_for_timeout(250)
    assert "plan_and_execute: success" in saved["data"]["text/plain"]
    book.run(2)
    book.panel(2).locator("g.pb-node.pb-error").wait_for()
