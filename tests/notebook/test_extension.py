import subprocess
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from planbench.notebook.completer import plan_matcher
from planbench.notebook.extension import load_ipython_extension, unload_ipython_extension
from planbench.plan.model import ExecutionPlan
from planbench.tools import Tool, observe_definitions, tool
from planbench.workbench import Workbench, get_workbench

FETCH = "from planbench.tools import tool\n@tool\ndef fetch(key: str) -> str:\n    return key\n"


@pytest.fixture
def bare(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planbench.workbench._workbench", Workbench())
    config = Config()
    config.HistoryManager.enabled = False
    yield InteractiveShell.instance(config=config)
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(bare):
    load_ipython_extension(bare)
    yield bare
    unload_ipython_extension(bare)


def run(shell, cell):
    with capture_output() as shown:
        shell.run_cell(cell).raise_error()
    return shown


def names():
    return get_workbench().registry.names()


def test_loading_twice_changes_nothing(shell):
    def state():
        return (
            len(shell.input_transformers_cleanup),
            len(shell.Completer.custom_matchers),
            len(shell.configurables),
            shell.magics_manager.registry["PlanMagics"],
            len(shell.events.callbacks["post_run_cell"]),
        )

    before = state()
    load_ipython_extension(shell)
    assert state() == before


def test_unloading_takes_everything_out(bare):
    def state():
        return (
            list(bare.input_transformers_cleanup),
            list(bare.Completer.custom_matchers),
            list(bare.configurables),
            list(bare.events.callbacks["post_run_cell"]),
            {kind: sorted(bare.magics_manager.magics[kind]) for kind in ("line", "cell")},
            sorted(bare.magics_manager.registry),
            ExecutionPlan in bare.display_formatter.mimebundle_formatter.type_printers,
        )

    before = state()
    load_ipython_extension(bare)
    assert state() != before
    unload_ipython_extension(bare)
    assert state() == before
    unload_ipython_extension(bare)
    run(bare, FETCH)
    assert names() == []


def test_the_extension_can_be_loaded_again(shell):
    unload_ipython_extension(shell)
    load_ipython_extension(shell)
    run(shell, FETCH)
    assert names() == ["fetch"]
    assert shell.Completer.custom_matchers.count(plan_matcher) == 1


def test_a_tool_is_registered_while_its_cell_still_runs(shell):
    run(
        shell,
        f"{FETCH}from planbench.workbench import get_workbench\nfound = get_workbench().registry.get('fetch')",
    )
    assert shell.user_ns["found"] is shell.user_ns["fetch"]


def test_tools_that_were_there_before_are_registered_by_loading(bare):
    run(bare, FETCH)
    assert names() == []
    load_ipython_extension(bare)
    assert names() == ["fetch"]
    unload_ipython_extension(bare)


def test_a_tool_of_another_module_is_not_taken(shell):
    @tool
    def elsewhere():
        return 1

    shell.user_ns["elsewhere"] = elsewhere
    run(shell, "1")
    assert names() == []


def test_a_cell_run_twice_replaces_its_tool(shell):
    run(shell, FETCH)
    first = shell.user_ns["fetch"]
    run(shell, FETCH.replace("return key", "return key + key"))
    assert get_workbench().registry.get("fetch") is shell.user_ns["fetch"]
    assert shell.user_ns["fetch"] is not first


@pytest.mark.parametrize(
    "cell",
    [
        "del fetch",
        "fetch = None",
        "def fetch(): pass",
        "%reset -f",
        "fetch = 3",
        "%reset_selective -f fetch",
    ],
)
def test_a_tool_that_lost_its_name_goes(shell, cell):
    run(shell, FETCH)
    assert names() == ["fetch"]
    run(shell, cell)
    assert names() == []


def test_a_tool_that_got_its_name_back_returns(shell):
    run(shell, f"{FETCH}saved = fetch")
    run(shell, "del fetch")
    assert names() == []
    run(shell, "fetch = saved")
    assert names() == ["fetch"]


def test_losing_another_name_changes_nothing(shell):
    run(shell, f"{FETCH}other = fetch")
    run(shell, "del other")
    assert names() == ["fetch"]


def test_a_tool_under_a_name_of_its_own_goes_with_its_variable(shell):
    run(shell, "from planbench.tools import tool\n@tool(name='web.get')\ndef fetch(): pass\n")
    assert names() == ["web.get"]
    run(shell, "del fetch")
    assert names() == []


def test_a_renamed_tool_leaves_no_old_name(shell):
    run(shell, "from planbench.tools import tool\n@tool(name='a')\ndef fetch(): pass\n")
    run(shell, "@tool(name='b')\ndef fetch(): pass\n")
    assert names() == ["b"]


def test_what_the_host_removed_does_not_come_back_by_itself(shell):
    run(shell, FETCH)
    get_workbench().registry.remove("fetch")
    run(shell, "1")
    assert names() == []


def test_what_the_host_put_in_its_place_stays(shell):
    run(shell, FETCH)
    mine = Tool.from_schema("fetch", "", {"type": "object"}, lambda: None)
    get_workbench().registry.register(mine)
    run(shell, "del fetch")
    assert get_workbench().registry.get("fetch") is mine


def test_tools_made_in_a_function_stay(shell):
    run(
        shell,
        "from planbench.tools import tool\ndef make():\n    @tool\n    def inner(): pass\n    return [inner]\nmade = make()",
    )
    run(shell, "1")
    assert names() == ["inner"]


def test_a_method_marked_as_a_tool_waits_for_its_object(shell):
    run(
        shell,
        "from planbench.tools import tool\nclass Kit:\n    @tool\n    def act(self): pass\nact = Kit.__dict__['act']",
    )
    assert names() == []


def test_a_plain_function_that_was_added_is_followed(shell):
    run(shell, "def plain(a: int): return a")
    run(shell, "%plan tools add plain")
    first = get_workbench().registry.get("plain")
    run(shell, "def plain(a: int, b: int): return b")
    assert get_workbench().registry.get("plain").function is shell.user_ns["plain"]
    assert get_workbench().registry.get("plain") is not first
    run(shell, "del plain")
    assert names() == []


def test_a_plain_function_that_became_a_tool_stays(shell):
    run(shell, "def fetch(a: int): return a\n%plan tools add fetch")
    run(shell, FETCH)
    assert get_workbench().registry.get("fetch") is shell.user_ns["fetch"]


def test_a_plain_function_that_cannot_be_a_tool_any_more_goes_and_says_so(shell):
    run(shell, "def plain(a: int): return a\n%plan tools add plain")
    shown = run(shell, "def plain(a, /): return a")
    if names():  # positional arguments may be taken
        assert get_workbench().registry.get("plain").function is shell.user_ns["plain"]
    else:
        assert "plain is no tool any more" in shown.stderr


def test_an_open_plan_turns_red_and_green_with_its_tool(shell):
    run(shell, FETCH)
    body = "name: p\nobjective: o\nnodes:\n  - id: a\n    tool: fetch\n    args: {key: x}\n"
    session = get_workbench().session(body)
    assert session.report.ok
    run(shell, "del fetch")
    assert [issue.code for issue in session.report.issues] == ["unknown_tool"]
    run(shell, FETCH)
    assert session.report.ok
    session.close()


def test_a_plan_as_the_last_expression_draws_itself(shell):
    run(shell, FETCH)
    run(
        shell,
        "%%plan p\nname: p\nobjective: o\nnodes:\n  - id: a\n    tool: fetch\n    args: {key: x}\n",
    )
    get_workbench().sessions.clear()
    data, _ = shell.display_formatter.format(shell.user_ns["p"])
    assert "image/svg+xml" in data
    assert "text/html" in data
    assert get_workbench().sessions == set()


def test_a_run_as_the_last_expression_draws_itself(shell):
    run(shell, FETCH)
    run(
        shell,
        "%%plan r --run\nname: p\nobjective: o\nnodes:\n  - id: a\n    tool: fetch\n    args: {key: x}\n",
    )
    data, _ = shell.display_formatter.format(shell.user_ns["r"])
    assert "image/svg+xml" in data
    assert "completed" in data["text/html"]


def test_observers_of_definitions_are_gone_after_unloading(bare):
    load_ipython_extension(bare)
    unload_ipython_extension(bare)
    told = []
    stop = observe_definitions(told.append)
    run(bare, FETCH)
    stop()
    assert len(told) == 1
    assert names() == []


def test_importing_planbench_imports_no_ipython():
    code = "import sys, planbench; sys.exit(any(m in sys.modules for m in ('IPython', 'ipywidgets', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_itself_is_the_extension():
    import planbench

    assert callable(planbench.load_ipython_extension)
