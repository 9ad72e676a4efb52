import queue
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import papermill
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.kernel

MUST_FAIL = Path(__file__).parents[1] / "notebooks" / "must_fail.ipynb"

TOOLS = """
%load_ext planbench
import asyncio, time
from pathlib import Path
from planbench import tool, get_workbench

@tool
def say(text: str) -> str:
    return text

@tool
def boom() -> None:
    raise ValueError("it went off")

@tool
async def wait(seconds: float) -> str:
    Path("started").touch()
    await asyncio.sleep(seconds)
    return "late"

@tool
def block(seconds: float) -> str:
    Path("held").touch()
    time.sleep(seconds)
    return "later"
"""
GOOD = """
%%plan morning --run
name: good
objective: say it
nodes:
  - id: hello
    tool: say
    args: {text: "hi {x} $HOME"}
"""
RED = """
%%plan --run
name: red
objective: fail at the end
nodes:
  - id: hello
    tool: say
    args: {text: hi}
  - id: last
    tool: boom
    depends_on: [hello]
"""


def notebook(*cells):
    return new_notebook(cells=[new_code_cell(cell.strip("\n")) for cell in cells])


def execute(made, folder, **options):
    NotebookClient(
        made, timeout=60, resources={"metadata": {"path": str(folder)}}, **options
    ).execute()
    return made


def printed(cell):
    return "".join(out.text for out in cell.outputs if out.output_type == "stream")


def test_one_cell_runs_a_plan_and_the_next_reads_it(tmp_path):
    made = execute(
        notebook(TOOLS, GOOD, "print(morning.status, get_workbench().memory['hello'])"), tmp_path
    )
    assert printed(made.cells[2]) == "completed hi {x} $HOME\n"
    shown = made.cells[1].outputs
    assert all(
        "application/vnd.jupyter.widget-view+json" not in out.get("data", {}) for out in shown
    )
    assert "text/html" in shown[0].data
    assert "widgets" not in made.metadata
    nbformat.validate(made)


def test_a_red_node_fails_the_notebook_with_one_short_block(tmp_path):
    made = notebook(TOOLS, RED, "print('never')")
    with pytest.raises(CellExecutionError) as caught:
        execute(made, tmp_path)
    assert caught.value.ename == "RunFailed"
    (error,) = [out for out in made.cells[1].outputs if out.output_type == "error"]
    block = "\n".join(error.traceback)
    for part in ("'last'", "boom", "it went off"):
        assert part in block
    assert len(block.splitlines()) <= 4
    assert "site-packages" not in block
    assert "magics.py" not in block
    assert made.cells[2].outputs == []


def test_braces_arrive_in_the_kernel_as_written(tmp_path):
    line = """%%plan p --param q={item} --param 'cfg={"a": 1}' --param h=$HOME --param b=C:\\new --allow-errors"""
    body = "name: p\nobjective: 'css {v: k} {item} %d'\nnodes: []\n"
    made = execute(
        notebook(
            TOOLS,
            "item = 'X'",
            f"{line}\n{body}",
            "(s,) = get_workbench().sessions\nprint(repr(s.source)); print(repr(s.params))",
        ),
        tmp_path,
    )
    params = {"q": "{item}", "cfg": '{"a": 1}', "h": "$HOME", "b": "C:\\new"}
    assert printed(made.cells[3]) == f"{body!r}\n{params!r}\n"


def test_a_deleted_tool_turns_the_plan_red(tmp_path):
    body = GOOD.replace(" --run", "")
    check = "(s,) = get_workbench().sessions\nprint(s.report.ok, [i.code for i in s.report.issues])"
    made = execute(notebook(TOOLS, body, check, "del say", check, TOOLS, check), tmp_path)
    assert printed(made.cells[2]) == "True []\n"
    assert printed(made.cells[4]) == "False ['unknown_tool']\n"
    assert printed(made.cells[6]) == "True []\n"


CANARIES = """
%load_ext planbench
from planbench import tool, get_workbench
MARK = "CAN" + "ARY"

@tool
def result() -> dict:
    print(MARK + "_PRINT")
    return {"secret": MARK + "_RESULT", "n": 3}

@tool
def argument(value: dict) -> list:
    return [dict(value, i=i) for i in range(3)]

@tool
def item(value: dict) -> int:
    if value["i"] == 1:
        raise ValueError("x" * 300 + MARK + "_ERROR")
    return value["i"]
"""
CANARY_PLAN = """
%%plan r --run
name: canary
objective: keep what is inside
nodes:
  - id: result
    tool: result
    facets: {paths: {n: n}}
  - id: argument
    tool: argument
    args: {value: "{artifacts.result}"}
    depends_on: [result]
  - id: each
    tool: item
    for_each: {source: "{artifacts.argument}"}
    args: {value: "{item}"}
    depends_on: [argument]
"""


def test_no_payload_is_in_a_saved_notebook(tmp_path):
    made = execute(
        notebook(
            CANARIES,
            CANARY_PLAN,
            "%plan runs",
            "%plan status",
            "%plan show",
            "r",
            "assert get_workbench().memory['result']['secret'] == MARK + '_RESULT'",
        ),
        tmp_path,
    )
    saved = nbformat.writes(made)
    assert "items were lost" in saved
    assert "CANARY" not in saved


SECRETS = """
%load_ext planbench
import os, sys
from planbench import tool, get_workbench
os.environ["TOKEN"] = "CAN" + "ARY-of-a-secret"
%config PlanMagics.env = {"TOKEN": ["use*"]}

@tool
def use(token: str) -> dict:
    for letter in token:
        sys.stdout.write(letter)
    print()
    return {"token": token}

@tool
async def use_badly(token: str, item: int) -> None:
    raise ValueError(f"{item}: bad token {token}")
"""
SECRET_PLAN = """
%%plan r --run
name: secret
objective: keep it
nodes:
  - id: result
    tool: use
    args: {token: "{env.TOKEN}"}
    facets: {paths: {t: token}}
  - id: numbers
    tool: len_of
    args: {value: "{artifacts.result}"}
    depends_on: [result]
  - id: each
    tool: use_badly
    for_each: {source: "{artifacts.numbers}"}
    args: {token: "Bearer {env.TOKEN}", item: "{item}"}
    depends_on: [numbers]
"""


def test_no_secret_is_in_a_saved_notebook(tmp_path):
    made = notebook(
        SECRETS + "@tool\ndef len_of(value: dict) -> list:\n    return [len(value)] * 2\n",
        SECRET_PLAN,
        "%plan runs",
        "%plan status",
        "%plan show",
        "r",
        "print(r, r.events, r.refs, r.manifest(), get_workbench().memory)\nr.items('each')",
        "assert get_workbench().memory['result']['token'] == os.environ['TOKEN']",
    )
    execute(made, tmp_path, allow_errors=True)
    saved = nbformat.writes(made)
    assert [
        out.ename for cell in made.cells for out in cell.outputs if out.output_type == "error"
    ] == ["RunFailed"]
    assert "bad token Bearer ***TOKEN***" in saved
    assert "CANARY" not in saved


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

    def printed(self, request):
        text = ""
        while True:
            message = self.client.get_iopub_msg(timeout=30)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream":
                text += message["content"]["text"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return text

    def run(self, code):
        request = self.start(code)
        content = self.reply(request)
        assert content["status"] == "ok", content
        return self.printed(request)


def test_an_interrupt_ends_the_cell_and_records_the_run(kernel):
    kernel.run(TOOLS)
    request = kernel.start("""
        %%plan slow --run
        name: slow
        objective: wait
        nodes:
          - id: hello
            tool: say
            args: {text: hi}
          - {id: a, tool: wait, args: {seconds: 60}, depends_on: [hello]}
          - {id: b, tool: block, args: {seconds: 60}, depends_on: [hello]}
    """)
    for _ in range(300):
        if all((kernel.folder / name).exists() for name in ("started", "held")):
            break
        time.sleep(0.1)
    kernel.manager.interrupt_kernel()
    try:
        content = kernel.reply(request, timeout=30)  # both tools would hold the cell for longer
    except queue.Empty:
        pytest.fail("the interrupted cell went on")
    assert content["status"] == "error"
    assert content["ename"] == "RunCancelled"
    assert len("\n".join(content["traceback"]).splitlines()) <= 3
    assert "1 of 3 nodes" in content["evalue"]
    assert kernel.run(
        "print(slow.status, get_workbench().memory['hello'], slow.state.nodes['a'].status)"
    ) == ("cancelled hi cancelled\n")
    left = "print([t.get_name() for t in asyncio.all_tasks() if 'planbench' in t.get_name()])"
    assert kernel.run(left) == "[]\n"
    assert kernel.run(f"{GOOD}") is not None
    assert kernel.run("print(morning.status, slow.status)") == "completed cancelled\n"


def test_the_kernel_completes_in_a_plan(kernel):
    kernel.run(TOOLS)
    code = "%%plan\nname: p\nnodes:\n  - id: a\n    tool: bo"
    request = kernel.client.complete(code)
    content = kernel.reply(request)
    assert content["matches"] == ["boom"]
    assert (content["cursor_start"], content["cursor_end"]) == (len(code) - 2, len(code))


def test_parameters_of_papermill_reach_the_plan(tmp_path):
    parameters = new_code_cell("date = 'unset'", metadata={"tags": ["parameters"]})
    made = notebook(
        TOOLS,
        GOOD.replace('"hi {x} $HOME"', '"{params.date}"').replace(
            "--run", "--run --param date=@date"
        ),
        "print(get_workbench().memory['hello'])",
    )
    made.cells.insert(0, parameters)
    made.metadata["kernelspec"] = {
        "name": "python3",
        "language": "python",
        "display_name": "Python 3",
    }
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    nbformat.write(made, source)
    papermill.execute_notebook(
        str(source), str(target), {"date": "2026-08-06"}, cwd=str(tmp_path), progress_bar=False
    )
    assert "2026-08-06" in printed(nbformat.read(target, as_version=4).cells[-1])


def nbmake(file, folder):
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    copy = folder / "test_copy.ipynb"
    copy.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--nbmake", "-p", "no:cacheprovider", copy.name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_nbmake_reports_the_notebook_that_must_fail(tmp_path):
    done = nbmake(MUST_FAIL, tmp_path)
    assert done.returncode == 1
    assert "RunFailed" in done.stdout
    assert "node 'last' (total)" in done.stdout
    assert "the total cannot be told" in done.stdout
    assert "1 failed" in done.stdout


def test_nbmake_passes_a_notebook_whose_run_is_green(tmp_path):
    file = tmp_path / "good.ipynb"
    nbformat.write(notebook(TOOLS, GOOD), file)
    done = nbmake(file, tmp_path)
    assert "1 passed" in done.stdout, done.stdout


def test_a_plan_is_saved_run_by_name_and_compared_in_a_kernel(tmp_path):
    made = execute(
        notebook(
            TOOLS,
            GOOD.replace(" --run", ""),
            "%plan save good",
            "%plan run good",
            "%plan set good hello.text='good day'",
            "%plan diff good@1 good",
            "%plan save good nothing_of_this_name",
        ),
        tmp_path,
        allow_errors=True,
    )
    saved, ran, changed, compared, refused = made.cells[2:]
    assert saved.outputs[0].data["text/plain"] == "saved good, version 1"
    assert "completed" in ran.outputs[0].data["text/plain"]
    assert '"hi {x} $HOME" -> "good day"' in changed.outputs[0].data["text/plain"]
    assert 'class="pb-diff"' in compared.outputs[0].data["text/html"]
    assert refused.outputs[0].ename == "PlanLoadError"
    assert [path.name for path in sorted((tmp_path / "plans").glob("*.*"))] == [
        ".versions",
        "good.lock.json",
        "good.yaml",
    ]
