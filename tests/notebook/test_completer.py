import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.completer import CompletionContext, provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from planbench.notebook.commands import COMMANDS
from planbench.notebook.completer import plan_matcher
from planbench.notebook.extension import load_ipython_extension, unload_ipython_extension
from planbench.workbench import Workbench, get_workbench

SAVED = """\
name: s
objective: o
params: {day: {type: date}}
nodes:
  - {id: a, tool: fetch, args: {key: "{params.day}"}}
  - {id: b, tool: list_keys}
"""
HEAD = "%%plan x\nname: p\nobjective: o\n"
NODES = f"""{HEAD}nodes:
  - id: listing
    tool: list_keys
  - id: reports
    depends_on: [listing]
    tool: fetch
    args:
      key: "{{item}}"
"""


@pytest.fixture(autouse=True)
def bench(tmp_path, monkeypatch):
    def fetch(key: str, limit: int = 10) -> str:
        return key

    def list_keys(prefix: str) -> list:
        return []

    workbench = Workbench(plans_dir=tmp_path)
    workbench.registry.register([fetch, list_keys])
    monkeypatch.setattr("planbench.workbench._workbench", workbench)
    (tmp_path / "morning.yaml").write_text("name: m\n", encoding="utf-8")
    (tmp_path / "saved.yaml").write_text(SAVED, encoding="utf-8")
    return workbench


def complete(text):
    """Give the completions where ``|`` stands."""
    before, _, after = text.partition("|")
    lines = before.split("\n")
    context = CompletionContext(
        token="",
        full_text=before + after,
        cursor_position=len(lines[-1]),
        cursor_line=len(lines) - 1,
        limit=None,
    )
    found = plan_matcher(context)
    fragment = found.get("matched_fragment", "")
    assert before.endswith(fragment)
    return [completion.text for completion in found["completions"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HEAD}no|", ["nodes: "]),
        (f"{HEAD}me|\nnodes:\n", ["metadata: "]),
        (f"{HEAD}nodes:\n  - i|", ["id: ", "instruction: "]),
        (f"{HEAD}nodes:\n- id: a\n  sto|", ["store_as: "]),
        (f"{NODES}  - id: c\n    dep|", ["depends_on: "]),
        (f"{NODES}    for_each:\n      so|", ["source: "]),
        (f"{NODES}    for_each:\n      a|", ["as: "]),
        (f"{NODES}    facets:\n      gr|", ["group_counts: "]),
        (f"{NODES}    retry:\n      max|", ["max_attempts: "]),
        (f"{HEAD}metadata:\n  max|", ["max_parallel_tasks: "]),
        (f"{HEAD}params:\n  date:\n    def|", ["default: "]),
        (f"{HEAD}nodes:\n  - id: a\n    tool: fe|", ["fetch"]),
        (f"{HEAD}nodes:\n  - tool: |", ["fetch", "list_keys"]),
        (f'{HEAD}nodes:\n  - tool: "li|"', ["list_keys"]),
        (f"{NODES}      li|", ["limit: "]),
        (f"{HEAD}nodes:\n  - id: a\n    args:\n      pre|\n    tool: list_keys\n", ["prefix: "]),
        (
            f"{HEAD}nodes:\n- id: a\n  tool: fetch\n  args:\n    k|\n- id: b\n  tool: list_keys\n",
            ["key: "],
        ),
        (f"{NODES}  - id: c\n    depends_on: [li|]", ["listing"]),
        (f"{NODES}  - id: c\n    depends_on: [listing, re|]", ["reports"]),
        (f"{NODES}  - id: c\n    depends_on:\n      - re|", ["reports"]),
        (f"{NODES}  - id: c\n    depends_on:\n    - re|", ["reports"]),
        (f'{NODES}      q: "x {{artifacts.l|', ["listing"]),
        (f'{NODES}      q: "{{nodes.re|.output}}"', ["reports"]),
        ("# c\n\n%%plan\nobj|", ["objective: "]),
        ("%%plan x --al|", ["--allow-errors"]),
        ("%plan ru|", ["run", "runs"]),
        ("%plan |", list(COMMANDS)),
        ("%plan run --st|", ["--strict", "--static"]),
        ("%plan save morning --|", ["--help", "--force"]),
        ("%plan diff --m|", ["--markdown"]),
        ("%plan save mo|", ["morning"]),
        ("%plan save x mo|", ["morning"]),
        ("%plan diff other mo|", ["morning"]),
        ("%plan run morning@|", ["morning@1"]),
        ("%plan set mo|", ["morning"]),
        ("%plan set saved |", ["day=", "a.key=", "a.limit=", "b.prefix="]),
        ("%plan set saved day=1 a.l|", ["a.limit="]),
        ("%plan set morning x|", []),
        ("%plan rename saved |", ["a", "b"]),
        ("%plan rename saved a n|", []),
        ("%plan history sa|", ["saved"]),
        ("%plan run mo|", ["morning"]),
        ("x = 1\ny = %plan load m|", ["morning"]),
        ("%plan tools fe|", ["fetch"]),
        ("%plan new fetch li|", ["list_keys"]),
        ("%plan list x|", []),
        ("%plan nothing x|", []),
        (f"{HEAD}nodes:\n  - id: some text|", []),
        ("print('%plan run m|", []),
        ("%%bash\n%plan run m|", []),
        ("%%planner\nno|", []),
        ("%%plan_objective\nno|", []),
        ("%%plan_obj|", []),
        ("%%plan_objective x --mo|", ["--model"]),
        ("%%plan_objective x --tools l|", ["list_keys"]),
        ("%plan prompt --tools l|", ["list_keys"]),
        ("%plan prompt --to|", ["--tools"]),
        ("import os\nno|", []),
    ],
)
def test_what_may_stand_at_the_cursor_is_offered(text, expected):
    assert complete(text) == expected


def test_other_matchers_are_kept_out_of_a_plan_and_left_alone_elsewhere():
    def answer(text):
        return plan_matcher(
            CompletionContext(
                token="",
                full_text=text,
                cursor_position=2,
                cursor_line=text.count("\n"),
                limit=None,
            )
        )

    assert answer("%%plan\nno")["suppress"] is True
    assert "suppress" not in answer("import os\nno")


def test_runs_are_offered_by_their_id(bench):
    class Run:
        run_id = "run_abc"

    bench._runs["run_abc"] = Run()
    assert complete("%plan show r|") == ["run_abc"]


def test_ipython_asks_the_matcher():
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    load_ipython_extension(shell)
    text = f"{NODES}  - id: c\n    depends_on: [re"
    with provisionalcompleter():
        found = [
            (one.text, one.start, one.end) for one in shell.Completer.completions(text, len(text))
        ]
    unload_ipython_extension(shell)
    InteractiveShell.clear_instance()
    assert found == [("reports", len(text) - 2, len(text))]


LINES = st.sampled_from(
    ["%%plan x", "nodes:", "  - id: a", "    tool: fetch", "    args:", "      key: x", "    depends_on:",
     "    - a", "# c", "", "  ", "\t- id: b", "- - id: c", "{artifacts.", "%plan run ", "args: {", "tool: ", "…:"]
)  # fmt: skip


@given(st.lists(LINES | st.text(max_size=10), min_size=1), st.data())
def test_it_never_raises(lines, data):
    text = "\n".join(lines)
    place = data.draw(st.integers(0, len(text)))
    complete(f"{text[:place]}|{text[place:]}" if "|" not in text else text)


def test_it_reads_the_registry_of_now(bench):
    bench.registry.remove("fetch")
    assert complete(f"{HEAD}nodes:\n  - tool: |") == ["list_keys"]
    assert complete(f"{NODES}      li|") == []
    assert get_workbench() is bench
