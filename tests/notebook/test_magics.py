import asyncio
import signal
import sys
import textwrap

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from planbench.errors import (
    CommandError,
    PlanbenchError,
    PlanInvalid,
    PlanLoadError,
    RunCancelled,
    RunFailed,
)
from planbench.files import load_plan
from planbench.notebook.display import PlanDisplay
from planbench.notebook.extension import load_ipython_extension, unload_ipython_extension
from planbench.notebook.skeleton import skeleton
from planbench.plan.model import ExecutionPlan
from planbench.runtime import Run
from planbench.tools import Tool
from planbench.validation import check_plan
from planbench.workbench import Workbench, get_workbench

TOOLS = """
from planbench.tools import tool
CALLS = []

@tool
def echo(value: str = "") -> str:
    "Give the value back."
    CALLS.append(value)
    return value

@tool
def listing(n: int = 3) -> list:
    "Give numbers."
    return [{"i": i} for i in range(n)]

@tool
def picky(i: int) -> int:
    "Refuse the number 1."
    if i == 1:
        raise ValueError("one is not welcome")
    return i

@tool
def boom() -> None:
    "Fail."
    raise ValueError("it went off")
"""

GOOD = """
name: good
objective: say something
nodes:
  - id: hello
    tool: echo
    args: {value: hi}
"""
BAD = """
name: bad
objective: call what is not there
nodes:
  - id: hello
    tool: ecko
"""
RED = """
name: red
objective: fail at the end
nodes:
  - id: hello
    tool: echo
  - id: last
    tool: boom
    depends_on: [hello]
  - id: after
    tool: echo
    depends_on: [last]
"""
LOSSY = """
name: lossy
objective: lose an item
nodes:
  - id: numbers
    tool: listing
  - id: each
    tool: picky
    depends_on: [numbers]
    for_each: {source: "{artifacts.numbers}"}
    args: {i: "{item.i}"}
"""
DATED = """
name: dated
objective: take a value
nodes:
  - id: hello
    tool: echo
    args: {value: "{params.date}"}
"""


@pytest.fixture
def shell(loaded):
    loaded.run_cell(TOOLS).raise_error()
    return loaded


def run(shell, cell):
    """Run a cell; give what it showed, and the error that it ended with."""
    with capture_output() as shown:
        result = shell.run_cell(cell)
    return shown, result.error_before_exec or result.error_in_exec


def ok(shell, cell):
    shown, error = run(shell, cell)
    assert error is None
    return shown


def text_of(shown):
    return "\n".join(output.data.get("text/plain", "") for output in shown.outputs)


def save(tmp_path, name, text):
    folder = tmp_path / "plans"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


# -- %%plan ---------------------------------------------------------------------------


def test_a_cell_shows_its_plan_and_calls_nothing(shell):
    shown = ok(shell, f"%%plan morning\n{GOOD}")
    assert isinstance(shell.user_ns["morning"], ExecutionPlan)
    assert "text/html" in shown.outputs[0].data
    assert "hello" in text_of(shown)
    assert shell.user_ns["CALLS"] == []
    assert get_workbench().runs == []


def test_a_cell_with_run_waits_and_gives_the_run(shell):
    ok(shell, f"# my plan\n\n%%plan morning --run\n{GOOD}")
    assert isinstance(shell.user_ns["morning"], Run)
    assert shell.user_ns["morning"].status == "completed"
    assert shell.user_ns["CALLS"] == ["hi"]


def test_a_pasted_model_answer_is_read_with_its_prose_and_fence(shell):
    answer = f"Here is the plan you asked for:\n\n```yaml\n{GOOD.strip()}\n```\nShall I run it?\n"
    shell.run_cell("%%plan pasted --run\n" + answer).raise_error()
    assert shell.user_ns["pasted"].status == "completed"
    result = shell.run_cell("%%plan\n" + answer.replace("tool: echo", "tool: ecko"))
    assert "line 8" in str(result.error_in_exec)


def test_json_is_read_too(shell):
    body = '{"name": "j", "objective": "o", "nodes": [{"id": "a", "tool": "echo", "args": {"value": "{x}"}}]}'
    ok(shell, f"%%plan j --run\n{body}")
    assert shell.user_ns["CALLS"] == ["{x}"]


def test_an_invalid_plan_is_drawn_and_fails_the_cell(shell):
    shown, error = run(shell, f"%%plan morning\n{BAD}")
    assert isinstance(error, PlanInvalid)
    assert [issue.code for issue in error.issues] == ["unknown_tool"]
    assert "ecko" in text_of(shown)
    assert "morning" not in shell.user_ns


def test_an_invalid_plan_is_not_run(shell):
    _, error = run(shell, f"%%plan morning --run\n{BAD}")
    assert isinstance(error, PlanInvalid)
    assert get_workbench().runs == []


@pytest.mark.parametrize("flags", ["", "--run"])
def test_allow_errors_shows_an_invalid_plan_without_failing(shell, flags):
    shown = ok(shell, f"%%plan morning --allow-errors {flags}\n{BAD}")
    assert "ecko" in text_of(shown)
    assert get_workbench().runs == []


def test_an_empty_body_is_an_invalid_plan(shell):
    for cell in ("%%plan", "%%plan x --run\n"):
        _, error = run(shell, cell)
        assert isinstance(error, PlanInvalid)
        assert "the cell is empty" in str(error)
        assert "%plan new" in str(error)


def test_a_red_node_fails_the_cell_with_one_short_block(shell):
    shown, error = run(shell, f"%%plan morning --run\n{RED}")
    assert isinstance(error, RunFailed)
    for part in ("'red'", "'last'", "boom", "it went off", "after"):
        assert part in str(error)
    assert len(error._render_traceback_()) <= 5
    assert error.manifest.nodes_failed == 2
    assert shell.user_ns["morning"].status == "partial"
    assert shown.outputs
    assert "magics.py" not in shown.stdout


def test_allow_errors_gives_a_red_run_as_data(shell):
    ok(shell, f"%%plan morning --run --allow-errors\n{RED}")
    assert shell.user_ns["morning"].state.nodes["last"].status == "error"


def test_lost_items_warn(shell):
    shown = ok(shell, f"%%plan morning --run\n{LOSSY}")
    assert "items were lost" in shown.stderr
    assert "one is not welcome" in shown.stderr


@pytest.mark.parametrize("way", ["flag", "variable", "config"])
def test_lost_items_fail_where_strict(shell, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("PLANBENCH_STRICT", "1")
    if way == "config":
        ok(shell, "%config PlanMagics.strict = True")
    _, error = run(shell, f"%%plan --run {'--strict' if way == 'flag' else ''}\n{LOSSY}")
    assert isinstance(error, RunFailed)
    assert "'each'" in str(error)


def test_line_and_body_arrive_unchanged(shell):
    shell.user_ns["item"] = "X"
    body = "# blanks follow\n   \n" + DATED.replace("value:", "$HOME {item}:").replace(
        "{params.date}", "{item} {v: k} $HOME %d"
    )
    _, error = run(
        shell, f"""%%plan --param q={{item}} --param 'cfg={{"a": 1}}' --param h=$HOME\n{body}"""
    )
    assert isinstance(error, PlanInvalid)
    (session,) = list(get_workbench().sessions)
    assert session.source == body
    assert session.params == {"q": "{item}", "cfg": '{"a": 1}', "h": "$HOME"}


def test_a_variable_reaches_the_plan(shell):
    shell.user_ns["date"] = "2026-08-06"
    ok(shell, f"%%plan --run --param date=@date\n{DATED}")
    assert shell.user_ns["CALLS"] == ["2026-08-06"]
    ok(shell, "values = {'date': 'x'}")
    ok(shell, f"%%plan --run --params values\n{DATED}")
    assert shell.user_ns["CALLS"] == ["2026-08-06", "x"]


def test_a_plan_without_values_is_checked_and_not_run(shell):
    ok(shell, f"%%plan\n{DATED}")
    _, error = run(shell, f"%%plan --run\n{DATED}")
    assert isinstance(error, PlanInvalid)
    assert "date" in str(error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--rnu", "did you mean '--run'"),
        ("2x", "name of a variable"),
        ("a b", "no use for 'b'"),
        ("--param date", "NAME=VALUE"),
        ("--param date=@dat", "no variable 'dat'"),
        ("--params CALLS", "not a dict"),
        ("--param 'x", "is not closed"),
    ],
)
def test_a_wrong_line_is_a_command_error(shell, line, said):
    _, error = run(shell, f"%%plan {line}\n{DATED}")
    assert isinstance(error, CommandError)
    assert not isinstance(error, UsageError)
    assert said in str(error)
    assert get_workbench().sessions == set()


def test_a_refused_run_says_why(shell):
    body = GOOD.replace(
        "tool: echo\n    args: {value: hi}", "type: delegate\n    instruction: do it"
    )
    _, error = run(shell, f"%%plan --run\n{body}")
    assert type(error).__name__ == "RunRefused"


# -- out of reach ---------------------------------------------------------------------


def test_out_of_reach_the_magic_raises_one_line_and_starts_nothing(shell):
    for call in (
        lambda: shell.run_cell_magic("plan", "--run", GOOD),
        lambda: shell.run_line_magic("plan", "run good"),
    ):
        with pytest.raises(CommandError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert "run_sync" in str(caught.value)
    assert get_workbench().runs == []


@pytest.mark.parametrize(
    "cell",
    [
        f"%%time\n%%plan --run\n{GOOD}",
        f"%%time\n# c\n%%plan --run\n{GOOD}",
        "%%time\n%plan run good",
        "%time %plan run good",
        f"get_ipython().run_cell_magic('plan', '--run', {GOOD!r})",
        "def f():\n    %plan run good\nf()",
    ],
)
def test_where_nothing_can_be_awaited_the_cell_fails_with_the_fix(shell, cell):
    _, error = run(shell, cell)
    assert isinstance(error, CommandError)
    assert get_workbench().runs == []


def test_without_a_run_another_magic_may_stand_above(shell):
    ok(shell, f"%%time\n# c\n%%plan x\n{GOOD}")
    assert isinstance(shell.user_ns["x"], ExecutionPlan)


def test_without_autoawait_the_error_names_it(shell):
    ok(shell, "%autoawait off")
    _, error = run(shell, f"%%plan --run\n{GOOD}")
    assert isinstance(error, CommandError)
    assert "%autoawait on" in str(error)
    ok(shell, "%autoawait on")


# -- %plan ----------------------------------------------------------------------------


def test_a_line_runs_a_plan_file(shell, tmp_path):
    save(tmp_path, "dated", DATED)
    ok(shell, "x = %plan run dated --param date=a\n%plan run dated --param date=b")
    assert shell.user_ns["x"].status == "completed"
    assert shell.user_ns["CALLS"] == ["a", "b"]
    assert [run.plan.name for run in get_workbench().runs] == ["dated", "dated"]


def test_a_line_runs_a_plan_of_the_notebook(shell, tmp_path):
    ok(shell, f"%%plan good\n{GOOD}")
    ok(shell, "%plan run good")
    save(tmp_path, "good", DATED)
    _, error = run(shell, "%plan run good")
    assert isinstance(error, PlanInvalid)  # the file goes first
    ok(shell, "%plan run @good")
    assert shell.user_ns["CALLS"] == ["hi", "hi"]


def test_a_line_runs_in_a_coroutine_and_in_a_loop(shell, tmp_path):
    save(tmp_path, "dated", DATED)
    ok(
        shell,
        "async def f():\n    return_ = %plan run dated --param date=f\n    return return_\n"
        "for day in ['a', 'b']:\n    %plan run dated --param date=@day\n"
        "r = await f()",
    )
    assert shell.user_ns["CALLS"] == ["a", "b", "f"]
    assert shell.user_ns["r"].status == "completed"


def test_a_red_run_of_a_line_fails(shell, tmp_path):
    save(tmp_path, "red", RED)
    _, error = run(shell, "%plan run red")
    assert isinstance(error, RunFailed)
    ok(shell, "x = %plan run red --allow-errors")
    assert shell.user_ns["x"].status == "partial"


def test_an_unknown_plan_is_named(shell):
    for name in ("nothing", "../x", "@nothing"):
        _, error = run(shell, f"%plan run {name}")
        assert isinstance(error, PlanLoadError | CommandError)
        assert name.strip("@") in str(error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tolls", "did you mean 'tools'?"),
        ("rum x", "did you mean 'run'?"),
        ("xyz", "it has: tools, list"),
        ("runs x", "no use for 'x'"),
        ("load", "usage: %plan load"),
        ("tools add", "usage: %plan tools add"),
        ("tools ecko", "did you mean 'echo'?"),
        ("new ecko", "did you mean 'echo'?"),
        ("tools add nowhere", "no module of that name"),
        ("tools add json:nothing", "has no 'nothing'"),
        ("tools add CALLS.x-y", "neither"),
        ("show nothing", "nothing"),
        ("resumee x", "did you mean 'resume'?"),
    ],
)
def test_a_wrong_subcommand_is_a_command_error(shell, line, said):
    _, error = run(shell, f"%plan {line}")
    assert isinstance(error, CommandError)
    assert said in str(error)


def test_the_status_names_the_next_commands(shell, tmp_path):
    text = text_of(ok(shell, "%plan"))
    assert "tools: echo" in text
    assert "%plan new echo" in text
    save(tmp_path, "good", GOOD)
    ok(shell, "%plan run good")
    text = text_of(ok(shell, "%plan"))
    assert "plans: good" in text
    assert f"%plan show {get_workbench().runs[-1].run_id}" in text


@pytest.mark.parametrize(
    "line", ["%plan -h", "%plan --help", "%%plan -h\n", "%plan run --help", "%plan tools -h"]
)
def test_help_is_shown_and_nothing_raised(shell, line):
    assert "plan" in text_of(ok(shell, line))


def test_tools_are_a_table(shell):
    ok(shell, "t = %plan tools")
    table = shell.user_ns["t"]
    assert isinstance(table, pd.DataFrame)
    assert list(table["tool"]) == ["echo", "listing", "picky", "boom"]
    assert table["call"][0] == "echo(value: str = '') -> str"
    assert table["description"][0] == "Give the value back."
    assert "echo(value: str = '') -> str" in repr(table)
    assert "Give the value back." in repr(table)
    assert "__main__" in repr(table)
    ok(shell, "t = %plan tools e* boom")
    assert list(shell.user_ns["t"]["tool"]) == ["echo", "boom"]


def test_tools_are_added_from_the_notebook_and_from_modules(shell, tmp_path, monkeypatch):
    (tmp_path / "my_tools_module.py").write_text(
        "def one(a: int) -> int:\n    return a\n\ndef _hidden(): pass\n", encoding="utf-8"
    )
    (tmp_path / "my_other_module.py").write_text(
        "def two(): pass\ndef three(): pass\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    ok(shell, "def plain(a: int) -> int:\n    'Do.'\n    return a")
    ok(shell, "t = %plan tools add plain my_tools_module my_other_module:three")
    assert list(shell.user_ns["t"]["tool"]) == ["plain", "one", "three"]
    assert {"plain", "one", "three"} <= set(get_workbench().registry.names())
    assert "two" not in get_workbench().registry
    for name in ("my_tools_module", "my_other_module"):
        sys.modules.pop(name)


def test_plans_are_a_table_with_what_is_wrong(shell, tmp_path):
    save(tmp_path, "good", GOOD)
    save(tmp_path, "bad", BAD)
    save(tmp_path, "broken", "name: [")
    (tmp_path / "plans" / "broken.json").write_text("{}", encoding="utf-8")
    (tmp_path / "plans" / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    ok(shell, "t = %plan list")
    table = shell.user_ns["t"].set_index("plan")
    assert table.loc["good", "nodes"] == 1
    assert table.loc["good", "first error"] == ""
    assert "ecko" in table.loc["bad", "first error"]
    assert "not plain" in table.loc["broken", "first error"]
    assert table.loc["odd", "first error"]


def test_load_puts_the_text_into_the_next_cell(shell, tmp_path):
    save(tmp_path, "dated", f"# kept: {{x}}\n{DATED}")
    ok(shell, "%plan load dated")
    assert shell.rl_next_input == f"%%plan\n# kept: {{x}}\n{DATED}"


def test_load_of_bytes_that_are_no_text_is_an_error(shell, tmp_path):
    save(tmp_path, "odd", "")
    (tmp_path / "plans" / "odd.yaml").write_bytes(b"name: \xff")
    _, error = run(shell, "%plan load odd")
    assert isinstance(error, PlanLoadError)


def test_a_new_plan_has_a_node_for_each_tool_and_runs_as_it_is(shell):
    ok(shell, "%plan new echo listing")
    text = shell.rl_next_input
    assert text.startswith("%%plan\nname: new_plan\n")
    ok(shell, text.replace("%%plan", "%%plan x --run"))
    assert [node.tool for node in shell.user_ns["x"].plan.nodes] == ["echo", "listing"]


def test_a_new_plan_needs_tools(shell):
    ok(shell, "%reset -f")
    _, error = run(shell, "%plan new")
    assert isinstance(error, CommandError)
    assert "@tool" in str(error)


NAMES = st.text(min_size=1, max_size=12).filter(lambda n: n.strip() and n.isprintable())


@given(st.dictionaries(NAMES, st.sampled_from(["string", "integer", "array", "object", ["null", "number"]])),
       st.lists(NAMES, max_size=3), NAMES, st.text(max_size=20))  # fmt: skip
def test_a_new_plan_is_sound_whatever_the_tools_are_called(fields, required, name, description):
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in fields.items()},
        "required": [key for key in required if key in fields],
    }
    made = Tool.from_schema(name, description, schema, lambda **_: None)
    report = check_plan(skeleton([made, made]), None)
    assert [issue for issue in report.issues if issue.severity == "error"] == []
    assert [node.tool for node in report.plan.nodes] == [name, name]


def test_a_new_plan_shows_what_an_argument_may_be(shell):
    ok(
        shell,
        "from typing import Literal\n@tool\ndef pick(kind: Literal['a', 'b'], on: bool, share: float,"
        " deep: list[int] | None, limit: int = 10, odd: float = float('nan'), words: list = [1, {'a': 'b: c'}]): pass",
    )
    ok(shell, "%plan new pick")
    for line in (
        '      kind: "a"  # one of a, b',
        '      "on": false  # boolean',
        "      share: 0.0  # number",
        "      deep: []  # array",
        "      # limit: 10  # integer",
        "      # odd: ",
    ):
        assert line in shell.rl_next_input
    filled = shell.rl_next_input.replace("      # limit", "      limit").replace(
        "      # words", "      words"
    )
    ok(shell, filled)


def test_runs_are_listed_shown_and_told(shell, tmp_path):
    ok(shell, f"%%plan first --run\n{GOOD}")
    ok(shell, f"%%plan second --run --allow-errors\n{RED}")
    ok(shell, "t = %plan runs")
    table = shell.user_ns["t"]
    assert list(table["plan"]) == ["red", "good"]
    assert list(table["status"]) == ["partial", "completed"]
    assert list(table["nodes"]) == ["3/3", "1/1"]
    run_id = shell.user_ns["first"].run_id
    assert "good" in text_of(ok(shell, f"%plan show {run_id}"))
    ok(shell, "s = %plan status")
    assert list(shell.user_ns["s"]["status"]) == ["ok", "error", "blocked"]
    _, error = run(shell, f"%plan cancel {run_id}")
    assert isinstance(error, CommandError)
    assert "ended" in str(error)


def test_the_plans_folder_can_be_set(shell, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.yaml").write_text(GOOD, encoding="utf-8")
    ok(shell, "%config PlanMagics.plans_dir = 'other'")
    ok(shell, "t = %plan list")
    assert list(shell.user_ns["t"]["plan"]) == ["mine"]


def test_secrets_are_allowed_by_config(shell):
    ok(shell, "%config PlanMagics.env = {'TOKEN': ['echo']}")
    assert get_workbench().env == {"TOKEN": ["echo"]}
    assert get_workbench().engine.env == {"TOKEN": ["echo"]}


def test_an_open_plan_is_checked_again_when_a_tool_may_have_a_secret(shell):
    session = get_workbench().session(GOOD.replace("hi", "'{env.TOKEN}'"))
    assert [issue.code for issue in session.report.issues] == ["env_not_allowed"]
    ok(shell, "%config PlanMagics.env = {'TOKEN': ['echo']}")
    assert session.report.ok
    ok(shell, "%config PlanMagics.env = {'TOKEN': ['other']}")
    assert not session.report.ok


def test_cancelling_the_cell_cancels_its_run(shell):
    slow = textwrap.dedent("""
        import asyncio
        from planbench.tools import tool

        @tool
        async def slow() -> str:
            started.set()
            await asyncio.sleep(60)
            return "late"
    """)
    ok(shell, slow)
    body = GOOD + "  - id: wait\n    tool: slow\n    depends_on: [hello]\n"
    magics = shell.magics_manager.registry["PlanMagics"]

    async def main():
        shell.user_ns["started"] = asyncio.Event()
        cell = asyncio.create_task(magics.cell("x --run", body))
        await shell.user_ns["started"].wait()
        cell.cancel()
        with pytest.raises(RunCancelled) as caught:
            await cell
        left = asyncio.all_tasks() - {asyncio.current_task()}
        return caught.value, left

    with capture_output():
        error, left = asyncio.run(main())
    assert "1 of 2 nodes" in str(error)
    assert left == set()
    assert get_workbench().runs[-1].status == "cancelled"
    assert get_workbench().memory["hello"] == "hi"


def test_the_saved_picture_follows_a_tool_that_swallows_its_cancellation(shell, monkeypatch):
    """The cell ends before the run does: what it saved then must not stay for ever."""
    monkeypatch.setattr("planbench.notebook.magics.CANCEL_SECONDS", 0.02)
    updates = []

    class Handle:
        def update(self, bundle, *, raw):
            updates.append(bundle["text/plain"])

    monkeypatch.setattr("planbench.notebook.display._show", lambda bundle: Handle())
    ok(
        shell,
        "import asyncio\n"
        "@tool\n"
        "async def stubborn() -> str:\n"
        "    started.set()\n"
        "    try:\n"
        "        await asyncio.sleep(60)\n"
        "    except asyncio.CancelledError:\n"
        "        await free.wait()\n"
        "    return 'late'\n",
    )
    magics = shell.magics_manager.registry["PlanMagics"]
    body = GOOD.replace("tool: echo", "tool: stubborn").replace("    args: {value: hi}\n", "")

    async def main():
        shell.user_ns["started"], shell.user_ns["free"] = asyncio.Event(), asyncio.Event()
        cell = asyncio.create_task(magics.cell("x --run", body))
        await shell.user_ns["started"].wait()
        cell.cancel()
        with pytest.raises(RunCancelled):
            await cell
        (before,) = updates
        assert "is being cancelled; a tool has not ended yet" in before
        shell.user_ns["free"].set()
        live = get_workbench().runs[-1]
        await asyncio.wait([live.root])
        return live

    with capture_output():
        done = asyncio.run(main())
    assert done.status == "cancelled"
    assert "being cancelled" not in updates[-1]
    assert ": cancelled" in updates[-1].splitlines()[0]
    assert len(updates) == 2


def test_a_run_that_was_cancelled_from_outside_fails_the_cell(shell):
    body = GOOD.replace("tool: echo", "tool: stop_it").replace("    args: {value: hi}\n", "")
    ok(
        shell,
        "import asyncio\nfrom planbench.workbench import get_workbench\n"
        "async def stop_it():\n    get_workbench().runs[-1].cancel()\n    await asyncio.sleep(60)\n"
        "%plan tools add stop_it",
    )
    _, error = run(shell, f"%%plan --run\n{body}")
    assert isinstance(error, RunCancelled)


def test_a_live_run_is_cancelled_by_a_line(shell):
    ok(
        shell,
        "import asyncio\nasync def wait():\n    await asyncio.sleep(60)\n%plan tools add wait",
    )
    plan = load_plan(GOOD.replace("tool: echo\n    args: {value: hi}", "tool: wait"))

    async def main():
        live = await get_workbench().start(plan)
        await asyncio.sleep(0)
        with capture_output() as shown:
            shell.run_line_magic("plan", f"cancel {live.run_id}")
        return (await live.result()).status, text_of(shown)

    status, text = asyncio.run(main())
    assert status == "cancelled"
    assert "cancelling run_" in text


def test_an_interrupt_before_the_run_began_is_told(shell, monkeypatch):
    async def start(self):
        raise asyncio.CancelledError

    monkeypatch.setattr("planbench.session.PlanSession.start", start)
    _, error = run(shell, f"%%plan --run\n{GOOD}")
    assert isinstance(error, RunCancelled)
    assert "before it began" in str(error)


def test_ctrl_c_in_a_terminal_cancels_the_run(shell):
    ok(
        shell,
        "import asyncio, os, signal\n"
        "async def interrupted():\n    os.kill(os.getpid(), signal.SIGINT)\n    await asyncio.sleep(60)\n"
        "%plan tools add interrupted",
    )
    body = GOOD.replace("tool: echo", "tool: interrupted").replace("    args: {value: hi}\n", "")
    _, error = run(shell, f"%%plan x --run\n{body}")
    assert isinstance(error, RunCancelled)
    assert shell.user_ns["x"].status == "cancelled"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ok(shell, f"%%plan x --run\n{GOOD}")


@pytest.mark.parametrize(
    ("line", "setting"), [("--static", ""), ("", "%config PlanMagics.static = True")]
)
def test_a_picture_can_be_asked_for_in_place_of_the_panel(shell, monkeypatch, line, setting):
    made = []

    class Display(PlanDisplay):
        def __init__(self, *, static=None):
            made.append(static)
            super().__init__(static=static)

    monkeypatch.setattr("planbench.notebook.magics.PlanDisplay", Display)
    ok(shell, f"%%plan\n{GOOD}")
    ok(shell, setting)
    ok(shell, f"%%plan {line}\n{GOOD}")
    assert made == [False, True]


def test_what_is_configured_holds_from_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("planbench.workbench._workbench", Workbench())
    config = Config()
    config.HistoryManager.enabled = False
    config.PlanMagics.plans_dir = str(tmp_path / "mine")
    config.PlanMagics.strict = True
    shell = InteractiveShell.instance(config=config)
    load_ipython_extension(shell)
    assert get_workbench().plans.plans_dir == tmp_path / "mine"
    assert shell.magics_manager.registry["PlanMagics"].strict
    unload_ipython_extension(shell)
    InteractiveShell.clear_instance()


def test_what_gives_no_tools_is_refused(shell):
    for name in ("CALLS", "ok"):
        ok(shell, "ok = 3")
        _, error = run(shell, f"%plan tools add {name}")
        assert isinstance(error, PlanbenchError)
    for name, said in (
        ("nope", "name a function of a cell"),
        ("./nope.py", "named as in an import"),
        ("json:nope_at_all", "%plan tools add json"),
    ):
        _, error = run(shell, f"%plan tools add {name}")
        assert said in str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no')", "RuntimeError: no (own_failing.py, line 1)"),
        ("import sys\nsys.exit(0)", "SystemExit: 0 (own_failing.py, line 2)"),
        ("def f(:", "SyntaxError: "),
    ],
)
def test_a_module_that_fails_is_one_block_that_names_its_line(
    shell, tmp_path, monkeypatch, text, said
):
    (tmp_path / "own_failing.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    _, error = run(shell, "%plan tools add own_failing")
    assert isinstance(error, CommandError)
    assert said in str(error)
    assert error.hint


def test_a_comment_may_follow(shell):
    ok(shell, f"%%plan x --run  # every morning\n{GOOD}")
    ok(shell, "t = %plan runs  # all")
    assert len(shell.user_ns["t"]) == 1


def test_sessions_without_a_panel_are_let_go(shell):
    for _ in range(5):
        ok(shell, f"%%plan\n{GOOD}")
    assert len(get_workbench().sessions) <= 1


def test_the_model_of_delegates_is_set_by_config(shell):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    ok(shell, "%config PlanMagics.delegate = 'ollama:small'")
    assert get_workbench().delegate.client.model == "small"
    ok(shell, "%config PlanMagics.prices = {'small': (1.0, 2.0)}")
    assert get_workbench().delegate.is_priced()
    ok(shell, "%config PlanMagics.delegate = ''")
    assert get_workbench().delegate is None
