import ast
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from planbench.notebook.transformer import ENTRY, PlanTransformer

BODY = "name: p\nobjective: o\nnodes:\n  - id: a\n    tool: t\n"


class Shell:
    """As much of a shell as the transformer looks at."""

    autoawait = True

    def __init__(self):
        self.input_transformer_manager = TransformerManager()
        self.transformer = PlanTransformer(self)
        self.input_transformer_manager.cleanup_transforms.insert(0, self.transformer)

    def __call__(self, cell):
        return self.input_transformer_manager.transform_cell(cell)


@pytest.fixture
def transform():
    return Shell()


@pytest.fixture
def shell():
    config = Config()
    config.HistoryManager.enabled = False
    yield InteractiveShell.instance(config=config)
    InteractiveShell.clear_instance()


def awaited(code, method="cell"):
    """Read the arguments of the one awaited call that is the whole cell."""
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Await)
    call = statement.value.value
    assert ast.unparse(call.func) == ast.unparse(ast.parse(f"{ENTRY}.{method}").body[0])
    return tuple(ast.literal_eval(argument) for argument in call.args)


def compiles(code):
    compile(code, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return True


def test_a_cell_becomes_one_awaited_call_with_line_and_body(transform):
    assert awaited(transform(f"%%plan morning --run\n{BODY}")) == ("morning --run", BODY)


@pytest.mark.parametrize("head", ["", "# why\n\n", "  "])
def test_an_objective_is_awaited_too_whatever_stands_in_it(transform, head):
    body = 'Find {what}\'s new in "$HOME" since %plan run x\n\n  >>> and more\n'
    code = transform(f"{head}%%plan_objective x --tools a*\n{body}")
    assert awaited(code, "objective") == ("x --tools a*", body)


def test_a_cell_without_run_is_awaited_too(transform):
    assert awaited(transform(f"%%plan morning\n{BODY}")) == ("morning", BODY)


@pytest.mark.parametrize(
    "head", ["\n\n", "# a comment\n", "\n# one\n  \n# two %plan run x\n", "\r\n# c\r\n"]
)
def test_comments_and_blank_lines_may_stand_before(transform, head):
    assert awaited(transform(f"{head}%%plan x\n{BODY}")) == ("x", BODY)


@pytest.mark.parametrize("cell", ["%%plan", "%%plan\n", "%%plan x --run", "# c\n%%plan x --run\n"])
def test_an_empty_body_is_passed_on(transform, cell):
    line, body = awaited(transform(cell))
    assert line in ("", "x --run")
    assert body == ""


def test_windows_line_ends_stay_in_the_body_and_leave_the_line(transform):
    body = BODY.replace("\n", "\r\n")
    assert awaited(transform(f"%%plan x --run\r\n{body}")) == ("x --run", body)


def test_an_indented_cell_loses_the_indent_of_its_first_line(transform):
    cell = textwrap.indent(f"%%plan x\n{BODY}", "    ")
    assert awaited(transform(cell)) == ("x", BODY)


def test_an_indented_first_line_alone_leaves_the_body_as_it_is(transform):
    assert awaited(transform(f"  %%plan x\n{BODY}")) == ("x", BODY)


def test_lines_of_blanks_in_the_body_stay(transform):
    body = "a: |\n  x\n   \n\n  y   \n"
    assert awaited(transform(f"%%plan\n{body}")) == ("", body)


def test_a_document_start_and_end_in_the_body_are_no_prompts(transform):
    body = "... \n>>> a\n... b\nIn [1]: x\n   ...: y\n"
    assert awaited(transform(f"%%plan\n{body}")) == ("", body)


def test_a_pasted_prompt_before_the_magic_is_taken_off(transform):
    assert awaited(transform("In [3]: %%plan x\n   ...: name: p\n")) == ("x", "name: p\n")
    assert awaited(transform("In [3]: %plan run x"), "line") == ("run x",)


TEXT = st.text(st.characters(codec=None), max_size=40)
TRICKY = st.sampled_from(
    ["{item}", '{"a": 1}', "$HOME $x", "\\", "'''", '"""', "%plan run x", "%%bash", "#", "?", "!ls",
     "\ud83d", "\x00", "\x0c", "\u2028", "\x85", "é漢🎉", "`", "\t", ">>> ", "... ", "{{}}", "f'{x}'"]
)  # fmt: skip
PIECES = st.lists(TEXT | TRICKY, max_size=8).map("".join)


@given(PIECES.map(lambda text: re.sub(r"[\r\n]", "", text)), PIECES)
def test_any_line_and_body_come_back_as_they_were(line, body):
    code = Shell()(f"%%plan {line}\n{body}")
    ended = body if not body or body.endswith("\n") else f"{body}\n"
    assert compiles(code)
    assert awaited(code) == (line, ended)


@given(PIECES.map(lambda text: re.sub(r"[\r\n]", "", text).rstrip("\\")))
def test_any_line_behind_a_subcommand_comes_back_as_it_was(rest):
    line = f"run x {rest}"
    if line.splitlines() != [line] or line.rstrip().endswith("?") or not line.isprintable():
        return  # such a line is cut, or read as a call for help, before any magic sees it
    code = Shell()(f"%plan {line}\n")
    assert compiles(code)
    assert awaited(code, "line") == (line,)


@pytest.mark.parametrize(
    "command", ["run", "resume", "repair", "runs", "show", "status", "artifacts"]
)
def test_the_subcommands_that_wait_are_awaited(transform, command):
    assert awaited(transform(f"%plan {command} x --param q={{item}}"), "line") == (
        f"{command} x --param q={{item}}",
    )


@pytest.mark.parametrize("cell", ["%plan", "%plan  ", "%plan # how it stands", "if 1:\n    %plan"])
def test_the_command_alone_is_awaited_as_it_looks_at_the_record(transform, cell):
    assert "await" in transform(cell)


@pytest.mark.parametrize(
    "cell",
    [
        "%plan list",
        "%plan run-x",
        "%plan tools run",
        "x = %plan list",
        "%planner run x",
        "% plan run x",
        "y = 5 %plan",
        "x = '%plan run a'",
        's = """\n%plan run a\n"""',
        "# %plan run a",
        "print('%%plan')\n",
        "%%bash\n%plan run x\n",
        "%%writefile f.py\n%%plan\n%plan run x\n",
        "# c\n%%bash\n%plan run x\n",
        "%%plans\nx",
        "%%plan_objectives x\nbody",
    ],
)
def test_what_needs_no_await_is_left_alone(transform, cell):
    plain = TransformerManager().transform_cell(cell)
    assert transform(cell) == plain
    assert ENTRY not in plain


@pytest.mark.parametrize("cell", ["%plan?", "%%plan?", "%%plan??", "%plan??", "?%plan", "?%%plan"])
def test_help_stays_help(transform, cell):
    assert transform(cell) == TransformerManager().transform_cell(cell)


def test_an_assignment_gets_the_awaited_value(transform):
    code = transform("x = %plan run n --param a=1")
    assert code == f"x = await {ENTRY}.value('run n --param a=1')\n"
    assert compiles(code)


def test_forms_amid_python_and_other_magics_are_all_rewritten(transform):
    code = transform(
        "!echo don't {x}\n"
        "import os\n"
        "for name in ['a']:\n"
        "    %plan run a\n"
        "    y = %plan run {name}\n"
        "if y: z = %plan run b\n"
        "%time 1\n"
        "text = '''\n%plan run c\n'''\n"
        "os?\n"
    )
    assert code.count("await ") == 3
    assert "    await " in code
    assert "if y: z = await " in code
    assert "'''\n%plan run c\n'''" in code
    assert "getoutput" not in code
    assert "system(" in code
    assert compiles(code)


def test_a_line_continued_by_backslashes_is_one_line(transform):
    assert awaited(transform("%plan run x \\\n  --param a=1 \\\n  --strict\n"), "line") == (
        "run x    --param a=1    --strict",
    )
    assert awaited(transform("%plan \\\n run x\n"), "line") == ("run x",)


def test_a_plain_function_keeps_the_magic_and_a_coroutine_awaits(transform):
    code = transform(
        "def f():\n    if 1:\n        %plan run a\n\n"
        "class C:\n    x = %plan run b\n\n"
        "def g(): y = %plan run e\n"
        "async def h():\n    with z:\n        %plan run c\n"
        "%plan run d\n"
    )
    assert compiles(code)
    assert code.count("await ") == 2
    for name in "abe":
        assert f"run_line_magic('plan', 'run {name}')" in code
    for name in "cd":
        assert f"line('run {name}')" in code


def test_without_autoawait_nothing_is_rewritten(transform):
    transform.autoawait = False
    cell = f"%%plan x --run\n{BODY}"
    assert transform(cell) == TransformerManager().transform_cell(cell)


def test_under_another_magic_the_call_is_not_awaited(shell):
    seen = []
    shell.input_transformers_cleanup.insert(0, PlanTransformer(shell))
    shell.register_magic_function(
        lambda line, cell: seen.append(shell.transform_cell(cell)), "cell", "wrapped"
    )
    shell.run_cell(f"%%wrapped\n%%plan x --run\n{BODY}")
    shell.run_cell("%%wrapped\n%plan run x")
    assert seen == [
        f"{ENTRY}.plan('x --run', {BODY!r})\n",
        "get_ipython().run_line_magic('plan', 'run x')\n",
    ]


def test_a_terminal_waits_for_the_body():
    manager = Shell().input_transformer_manager
    assert manager.check_complete("%%plan x --run\n")[0] == "incomplete"
