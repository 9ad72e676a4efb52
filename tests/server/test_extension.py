from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

TOKEN = "a-token-of-the-test"
PLAN = "name: rain\nobjective: Where?\nnodes:\n  - {id: a, tool: t}\n"


@contextmanager
def jupyter_server(folder, *options):
    """Start a real server on the folder, without any configuration of this machine."""
    runtime = folder / ".runtime"
    environment = {
        **os.environ,
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
    }
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"]
    command += ["--ServerApp.port=0", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={folder}"]
    command += [f"--IdentityProvider.token={TOKEN}", *options]
    log = folder / ".log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        yield address(process, runtime, log)
    finally:
        process.terminate()
        process.wait(20)


def address(process, runtime, log):
    file = runtime / f"jpserver-{process.pid}.json"
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        if process.poll() is not None:
            pytest.fail(f"the server ended:\n{log.read_text()}")
        if file.exists() and file.read_text().strip():
            url = json.loads(file.read_text())["url"]
            if answer(f"{url}api/status", TOKEN)[0] == 200:
                return url
        time.sleep(0.1)
    pytest.fail(f"the server did not answer:\n{log.read_text()}")


def answer(url, token=None):
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"token {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            body = error.read()
            is_json = error.headers.get_content_type() == "application/json"
            return error.code, json.loads(body) if is_json else None
    except urllib.error.URLError:
        return 0, None


@pytest.fixture
def folder(tmp_path):
    plans = tmp_path / "work" / "plans"
    plans.mkdir(parents=True)
    (plans / "rain.yaml").write_text(PLAN)
    (plans / "sun.json").write_text("{}")
    (plans / "notes.txt").write_text("not a plan")
    return tmp_path / "work"


def test_the_plans_are_listed_to_those_who_are_logged_in_and_to_nobody_else(folder):
    plans = folder / "plans"
    (plans / "below").mkdir()
    (plans / "below" / "hidden.yaml").write_text(PLAN)
    (folder / "outside.yaml").write_text(PLAN)
    (plans / "leads_out.yaml").symlink_to(folder / "outside.yaml")

    with jupyter_server(folder) as url:
        route = f"{url}planbench/plans"
        assert answer(route)[0] == 403
        assert answer(route, "a wrong one")[0] == 403
        status, found = answer(route, TOKEN)
        beside, _ = answer(f"{route}/..%2f..%2foutside", TOKEN)
        plans.rename(folder / "elsewhere")
        missing = answer(route, TOKEN)
        plans.write_text("no folder")
        broken, said = answer(route, TOKEN)

    assert status == 200
    assert found["plans_dir"] == "plans"
    rain, sun = found["plans"]
    assert rain == {
        "name": "rain",
        "file": "rain.yaml",
        "objective": "Where?",
        "nodes": 1,
        "ok": True,
        "error": None,
    }
    assert (sun["name"], sun["ok"]) == ("sun", False)
    assert "missing" in sun["error"]
    assert str(folder) not in json.dumps(found)
    assert beside == 404
    assert missing == (200, {"plans_dir": "plans", "plans": []})
    assert (broken, said["reason"]) == (500, "plans_dir_unavailable")
    assert str(folder) not in json.dumps(said)


def test_the_folder_of_the_plans_is_a_setting(folder):
    (folder / "plans").rename(folder / "others")

    with jupyter_server(folder, "--PlanbenchApp.plans_dir=others") as url:
        status, found = answer(f"{url}planbench/plans", TOKEN)

    assert status == 200
    assert found["plans_dir"] == "others"
    assert [plan["name"] for plan in found["plans"]] == ["rain", "sun"]
