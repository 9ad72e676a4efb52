"""``%%plan_objective`` in a real kernel: what streams, what is saved, what an interrupt ends."""

from __future__ import annotations

import textwrap
import time

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext planbench
import asyncio, json
from pathlib import Path
from planbench import tool, get_workbench
from planbench.llm.client import ModelReply

@tool
def say(text: str) -> str:
    return text

class Model:
    "A model of one's own, which is slow to speak."
    model = "slow-1"
    answer = {"name": "hello", "objective": "o", "nodes": [{"id": "a", "tool": "say", "args": {"text": "hi"}}]}
    pause = 0.3
    async def complete(self, request):
        said = json.dumps(self.answer)
        half = len(said) // 2
        for piece in (said[:half], said[half:]):
            request.on_text(piece)
            Path("speaking").touch()
            await asyncio.sleep(self.pause)
        return ModelReply(content=said)

get_workbench().planner = model = Model()
"""
RED = 'model.answer = {"name": "hello", "objective": "o", "nodes": [{"id": "a", "tool": "sey"}]}; model.pause = 0'


def execute(folder, *cells):
    made = new_notebook(cells=[new_code_cell(cell.strip("\n")) for cell in cells])
    client = NotebookClient(made, timeout=60, resources={"metadata": {"path": str(folder)}})
    return made, client


def test_a_saved_notebook_holds_the_end_and_no_answer(tmp_path):
    made, client = execute(
        tmp_path, SETUP, "%%plan_objective hello\nSay hi", "r = %plan run hello\nprint(r.status)"
    )
    client.execute()
    said, panel = made.cells[1].outputs
    assert said["data"]["text/plain"].startswith("slow-1: 1 call, ")
    assert "hello: valid, 1 node" in panel["data"]["text/plain"]
    assert made.cells[2].outputs[-1].text == "completed\n"
    assert (tmp_path / "plans" / "drafts" / "hello-1.yaml").is_file()
    nbformat.validate(made)


def test_a_red_plan_fails_the_notebook_with_one_short_block(tmp_path):
    made, client = execute(tmp_path, SETUP, RED, "%%plan_objective\nSay hi", "print('never')")
    with pytest.raises(CellExecutionError) as caught:
        client.execute()
    assert caught.value.ename == "PlanAuthoringError"
    (error,) = [one for one in made.cells[2].outputs if one.output_type == "error"]
    assert len("\n".join(error.traceback).splitlines()) <= 4
    assert made.cells[3].outputs == []
    assert (tmp_path / "plans" / "drafts" / "hello-1.yaml").is_file()


@pytest.fixture
def kernel(tmp_path):
    manager, client = start_new_kernel(cwd=str(tmp_path))
    yield Kernel(manager, client, tmp_path)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


class Kernel:
    """A kernel as a front end sees it."""

    def __init__(self, manager, client, folder):
        self.manager, self.client, self.folder = manager, client, folder

    def start(self, code):
        return self.client.execute(textwrap.dedent(code).strip("\n"))

    def reply(self, request, timeout=30):
        while True:
            message = self.client.get_shell_msg(timeout=timeout)
            if message["parent_header"]["msg_id"] == request:
                return message["content"]

    def told(self, request):
        """Give what a cell put out until it was done."""
        found = []
        while True:
            message = self.client.get_iopub_msg(timeout=30)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return found
            found.append((kind, content))

    def run(self, code):
        request = self.start(code)
        content = self.reply(request)
        assert content["status"] == "ok", content
        return content, self.told(request)


def test_the_answer_streams_into_one_place_and_the_plan_goes_into_the_next_cell(kernel):
    kernel.run(SETUP)
    content, told = kernel.run("%%plan_objective hello\nSay hi")
    first = next(one for kind, one in told if kind == "display_data")
    place = first["transient"]["display_id"]
    texts = [first["data"]["text/plain"]] + [
        one["data"]["text/plain"]
        for kind, one in told
        if kind == "update_display_data" and one["transient"]["display_id"] == place
    ]
    assert texts[0].startswith("asking slow-1 for an answer")
    assert any('\n{"name": "hello"' in text for text in texts)
    assert texts[-1].startswith("slow-1: 1 call, ")
    (payload,) = content["payload"]
    assert payload["source"] == "set_next_input"
    assert payload["text"].startswith("%%plan hello\nname: hello\n")
    assert payload["replace"] is False


def test_an_interrupt_ends_the_question_at_once(kernel):
    kernel.run(SETUP)
    kernel.run("model.pause = 60")
    request = kernel.start("%%plan_objective\nSay hi")
    for _ in range(300):
        if (kernel.folder / "speaking").exists():
            break
        time.sleep(0.1)
    kernel.manager.interrupt_kernel()
    content = kernel.reply(request, timeout=30)
    assert (content["status"], content["ename"]) == ("error", "PlanAuthoringError")
    assert "interrupted" in content["evalue"]
    kernel.told(request)
    left = "print([t for t in asyncio.all_tasks() if 'complete' in repr(t) or 'author' in repr(t)])"
    _, told = kernel.run(left)
    assert [one["text"] for kind, one in told if kind == "stream"] == ["[]\n"]
