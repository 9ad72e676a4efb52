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
            return error.code, json.loads(error.read() or b"null")
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
    (folder / "plans" / "below").mkdir()
    (folder / "plans" / "below" / "hidden.yaml").write_text(PLAN)
    (folder / "outside.yaml").write_text(PLAN)
    (folder / "plans" / "leads_out.yaml").symlink_to(folder / "outside.yaml")

    with jupyter_server(folder) as url:
        assert answer(f"{url}planbench/plans")[0] == 403
        assert answer(f"{url}planbench/plans", "a wrong one")[0] == 403
        status, found = answer(f"{url}planbench/plans", TOKEN)
        beside, _ = answer(f"{url}planbench/plans/..%2f..%2foutside", TOKEN)

    assert status == 200
    assert found["plans_dir"] == "plans"
    assert [plan["name"] for plan in found["plans"]] == ["rain", "sun"]
    assert found["plans"][0]["file"] == "rain.yaml"
    assert str(folder) not in json.dumps(found)
    assert beside == 404


def test_the_folder_is_a_setting_and_may_be_missing(folder):
    with jupyter_server(folder, "--PlanbenchApp.plans_dir=no_such_folder") as url:
        status, found = answer(f"{url}planbench/plans", TOKEN)

    assert (status, found) == (200, {"plans_dir": "no_such_folder", "plans": []})


def test_a_folder_that_cannot_be_read_is_an_error_as_json(folder):
    with jupyter_server(folder, "--PlanbenchApp.plans_dir=plans/notes.txt") as url:
        status, found = answer(f"{url}planbench/plans", TOKEN)

    assert status == 500
    assert found["reason"] == "plans_dir_unavailable"
    assert str(folder) not in json.dumps(found)
