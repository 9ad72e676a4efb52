from __future__ import annotations

import json

from planbench.files import LockedTool, PlanFileStore, PlanLock

PLACE = LockedTool(module="acme.reports", package="acme-tools", version="1.2")


def lock(project, **tools):
    PlanFileStore(project / "plans").write_lock("squares", PlanLock(tools=tools))


def test_a_green_run_of_a_named_plan_or_a_file_of_the_folder_writes_its_lock(with_tools, project):
    for word in ("squares", "plans/squares.yaml"):
        assert with_tools("run", word)[0] == 0
        file = project / "plans" / "squares.lock.json"
        assert list(json.loads(file.read_text())["tools"]) == ["numbers", "square"]
        file.unlink()


def test_no_other_run_writes_one(with_tools, project):
    with_tools("save", "squares", "squares")
    text = (project / "plans" / "squares.yaml").read_text()
    with_tools("save", "lossy", "squares")
    (project / "else.yaml").write_text(text)
    for word in ("squares@1", "else.yaml", "lossy", "red"):
        with_tools("run", word)
    assert list(project.rglob("*.lock.json")) == []


def test_a_folder_that_takes_no_lock_is_a_warning(with_tools, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("planbench.files.store.write_whole", refuse)
    code, _, err = with_tools("run", "squares")
    assert code == 0
    assert err == (
        "planbench: warning: the lock of plan 'squares' cannot be written: Permission denied\n"
    )


def test_a_colleague_without_a_tool_is_told_once_where_it_lives(with_tools, project):
    lock(project, square=PLACE)
    tools = (project / "own_tools.py").read_text()
    (project / "own_tools.py").write_text(tools.replace("def square(", "def other("))
    code, out, _ = with_tools("validate", "squares")
    assert code == 2
    told = [line for line in out.splitlines() if "square" in line.partition(":")[2]]
    assert len(told) == 1
    assert "there is no tool 'square'; it lives in module acme.reports of package acme-tools" in out
    assert "install acme-tools" in with_tools("run", "squares")[2]


def test_a_colleague_who_named_no_tools_is_told_of_each(command, project):
    lock(project, square=PLACE, numbers=LockedTool(module="own_tools"))
    code, out, _ = command("validate", "squares")
    assert code == 0
    assert "tool 'square' is not registered; it lives in module acme.reports" in out
    assert "register the tools of own_tools" in out
    code, _, err = command("run", "squares")
    assert code == 2
    assert "register the tools of own_tools" in err
    assert "nobody named the tools of the plan" in err


def test_a_changed_signature_is_a_warning_before_the_run(with_tools, project):
    assert with_tools("run", "squares")[0] == 0
    tools = (project / "own_tools.py").read_text()
    changed = tools.replace("square(x: int)", "square(x: int, y: int = 1)")
    (project / "own_tools.py").write_text(changed)
    import sys

    del sys.modules["own_tools"]
    assert "[tool_changed]" in with_tools("validate", "squares")[1]
    code, _, err = with_tools("run", "squares")
    assert code == 0
    assert "[tool_changed]" in err
    assert "tool_changed" not in with_tools("validate", "squares")[1]
