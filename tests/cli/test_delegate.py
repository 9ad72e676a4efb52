"""``--delegate``: the model that delegate nodes ask, from the command line."""

from __future__ import annotations

import json

import pytest

from planbench.llm.fake import tool_call
from planbench.llm.server import ScriptedServer

PLAN = """\
name: choose
objective: Choose
nodes:
  - {id: numbers, tool: numbers, facets: {counts: {n: "[]"}}}
  - id: pick
    type: delegate
    depends_on: [numbers]
    instruction: Square the number of numbers.
    tools: [square, picky]
"""


@pytest.fixture(autouse=True)
def choose(project):
    (project / "plans" / "choose.yaml").write_text(PLAN, encoding="utf-8")


def test_a_run_asks_the_model_that_is_named(command, monkeypatch):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    with ScriptedServer([tool_call("square", x=3)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        words = ["run", "choose", "--tools", "own_tools", "--json", "-"]
        code, out, err = command(*words, "--delegate", "openai:small")
    assert code == 0, err
    manifest = json.loads(out)
    assert manifest["usage"]["model_calls"] == 1
    assert server.bodies[0]["model"] == "small"
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == [
        "square",
        "picky",
        "none",
    ]


def test_without_a_model_the_plan_is_refused_and_nothing_is_called(command):
    code, _, err = command("run", "choose", "--tools", "own_tools")
    assert code == 2
    assert "no delegate model is configured" in err


def test_what_is_no_model_is_told_before_anything_runs(command):
    code, _, err = command("run", "choose", "--tools", "own_tools", "--delegate", "nobody:small")
    assert code == 2
    assert "nobody" in err
