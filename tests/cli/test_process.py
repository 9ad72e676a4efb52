"""The command as a process of its own: signals, terminals, pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "planbench"]

SLOW = """\
name: slow
objective: Take long
nodes:
  - {{id: numbers, tool: numbers}}
  - {{id: slow, tool: {tool}, depends_on: [numbers], args: {{seconds: 60}}}}
  - {{id: behind, tool: numbers, depends_on: [slow]}}
"""

MANY = """\
name: many
objective: Wait often
nodes:
  - {id: numbers, tool: numbers, args: {n: 12}}
  - id: waits
    tool: wait
    depends_on: [numbers]
    for_each: {source: "{artifacts.numbers}", max_concurrency: 2}
    args: {seconds: 0.1}
  - {id: "last", tool: boom, depends_on: [waits], args: {text: "\\e[2J [red]not markup[/red] \\u03c0"}}
"""


def start(project, *words, **settings):
    return subprocess.Popen(
        [*COMMAND, *words, "--tools", "own_tools"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def wait_for(stream, text):
    for line in stream:
        if text in line:
            return
    pytest.fail(f"{text!r} was never said")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_run_and_it_is_recorded(project, number, code):
    (project / "slow.yaml").write_text(SLOW.format(tool="wait"))

    with start(project, "run", "slow.yaml", "--json", "m.json", "--html", "p.html") as process:
        wait_for(process.stdout, "slow     started")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    manifest = json.loads((project / "m.json").read_text())
    assert process.returncode == code
    assert manifest["status"] == "cancelled"
    assert [ref["node_id"] for ref in manifest["artifacts"] if ref["status"] == "ok"] == ["numbers"]
    assert "slow     cancelled" in out
    assert "slow: cancelled" in out
    assert "Traceback" not in err
    assert "cancelled" in (project / "p.html").read_text(encoding="utf-8")


def test_a_tool_that_is_stuck_in_a_thread_does_not_keep_the_command(project):
    (project / "slow.yaml").write_text(SLOW.format(tool="block"))
    tools, begun = project / "own_tools.py", project / "begun"
    sleeping = "    time.sleep(seconds)\n"
    text = tools.read_text()
    assert text.count(sleeping) == 1
    tools.write_text(text.replace(sleeping, f"    open({str(begun)!r}, 'x').close()\n{sleeping}"))

    with start(project, "run", "slow.yaml", "--json", "m.json") as process:
        wait_for(process.stdout, "slow     started")
        limit = time.monotonic() + 60
        while not begun.exists():  # before the call itself has begun no thread is left behind
            assert time.monotonic() < limit
            time.sleep(0.01)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)

    assert process.returncode == 130
    assert time.monotonic() - sent < 50  # the tool would take 60
    assert json.loads((project / "m.json").read_text())["status"] == "cancelled"
    assert "thread still running" in err


def test_a_timeout_of_a_sync_tool_ends_the_command_too(project):
    text = SLOW.format(tool="block").replace(
        "args: {seconds: 60}", "args: {seconds: 60}, timeout: 0.2"
    )
    (project / "slow.yaml").write_text(text)

    with start(project, "run", "slow.yaml") as process:
        _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "node 'slow' (block)" in err


def in_a_terminal(project, *words, **environment):
    """Run a command whose output is a terminal; gives its exit code and all that it wrote."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "30"}
    process = subprocess.Popen(
        [*COMMAND, *words, "--tools", "own_tools"],
        cwd=project,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**settings, **environment},
    )
    os.close(theirs)
    written = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        try:
            piece = os.read(ours, 65536) if ready else b""
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return process.wait(10), written


def test_in_a_terminal_the_nodes_are_redrawn_in_place_and_a_fan_out_counts(project):
    (project / "many.yaml").write_text(MANY)

    code, written = in_a_terminal(project, "run", "many.yaml", PYTHONIOENCODING="utf-8")

    text = written.decode()
    counts = {int(found) for found in re.findall(r"(\d+) of 12 items", text)}
    assert code == 1
    assert "\x1b[1A" in text or "\x1b[2K" in text
    assert any(0 < count < 12 for count in counts)
    assert 12 in counts
    assert "[red]not markup[/red]" in text
    assert "\x1b[2J" not in text


def test_a_terminal_that_knows_only_ascii_gets_only_ascii(project):
    (project / "many.yaml").write_text(MANY)

    code, written = in_a_terminal(project, "run", "many.yaml", PYTHONIOENCODING="ascii")

    assert code == 1
    assert written.isascii()
    assert b"\\u2026" not in written
    assert b"12 of 12 items" in written


def test_a_terminal_that_cannot_redraw_gets_lines(project):
    (project / "many.yaml").write_text(MANY)

    _, written = in_a_terminal(project, "run", "many.yaml", TERM="dumb")

    assert b"waits    started" in written
    assert b"\x1b" not in written


def test_python_m_planbench_is_the_command():
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("planbench ")


def test_a_plan_of_a_thousand_nodes_shows_those_that_matter(project):
    nodes = [f"  - {{id: n{number}, tool: numbers}}" for number in range(1000)]
    nodes[700] = "  - {id: n700, tool: boom}"
    (project / "wide.yaml").write_text("name: wide\nobjective: o\nnodes:\n" + "\n".join(nodes))

    code, written = in_a_terminal(project, "run", "wide.yaml", PYTHONIOENCODING="utf-8")

    last = written.decode().rpartition("\x1b[2K")[2]
    assert code == 1
    assert (
        "1000 of 1000 nodes, 26 shown" in last or "1000 of 1000 nodes, 26 shown" in written.decode()
    )
    assert "n700" in written.decode()
