"""What a cell shows and what is saved, in each front end; the last tests use a real kernel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from planbench.notebook import display as display_module
from planbench.notebook.display import PlanDisplay, front_end
from planbench.notebook.panel import PlanPanel
from planbench.tools import ToolRegistry
from planbench.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Iterator

VIEW = "application/vnd.jupyter.widget-view+json"
CANARY = "canary-7f3a"
PLAN = """
name: sweep
objective: see what is new
nodes:
  - {id: first, tool: give, args: {value: 3}, facets: {paths: {size: size}}}
  - {id: second, tool: give, args: {value: "{artifacts.first}"}, depends_on: [first]}
"""


def give(value: Any) -> dict[str, Any]:
    """Give it back."""
    return {"value": value, "size": 3}


class Cell:
    """A cell that runs: what it was asked with, and what was shown in it."""

    def __init__(self, **request: Any) -> None:
        self.request = {
            "msg_id": "m1",
            "msg_type": "execute_request",
            "content": {"allow_stdin": True},
            "metadata": {"deletedCells": [], "cellId": "c1"},
        } | request
        self.shown: list[Any] = []

    def display(self, thing: Any, *, raw: bool = False, display_id: bool = False) -> Cell:
        assert display_id
        self.shown.append(thing)
        return self

    def update(self, thing: Any, *, raw: bool = False) -> None:
        self.shown.append(thing)


@pytest.fixture
def cell(monkeypatch) -> Iterator[Cell]:
    made = Cell()
    monkeypatch.delenv("PLANBENCH_STATIC", raising=False)
    monkeypatch.setattr(display_module, "_request", lambda: made.request)
    monkeypatch.setattr(display_module, "display", made.display)
    yield made
    for shown in [one for cells in display_module._cells.values() for one in cells]:
        shown.close()
    display_module._cells.clear()
    PlanPanel.close_all()


def bench() -> Workbench:
    return Workbench(ToolRegistry([give]))


# -- who looks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, "lab"),
        ({"content": {"allow_stdin": False}, "metadata": {}}, "none"),
        ({"metadata": {"cellId": "c1"}}, "other"),
        ({"metadata": {}}, "other"),
        ({"msg_type": "comm_msg"}, "other"),
    ],
)
def test_front_ends_are_told_apart_by_what_their_requests_carry(cell, request_, expected):
    cell.request |= request_
    assert front_end() == expected


def test_without_a_kernel_nobody_looks(monkeypatch):
    monkeypatch.setattr(display_module, "get_ipython", lambda: None)
    assert front_end() == "none"


async def shown_and_run(cell: Cell, **options: Any) -> tuple[PlanDisplay, Workbench]:
    made = bench()
    shown = PlanDisplay(**options)
    session = made.session(PLAN)
    shown.show(session)
    await (await session.start())
    shown.finish()
    return shown, made


def test_in_lab_no_saved_output_is_ever_a_widget_view_and_the_panel_stays(cell):
    async def main() -> None:
        shown, made = await shown_and_run(cell)
        assert len(cell.shown) >= 2
        for bundle in cell.shown:
            assert VIEW not in bundle
            assert f"pb-place-{shown.panel.key}" in bundle["text/html"]
        assert "completed" in cell.shown[-1]["text/plain"]
        assert shown.panel is not None
        await made.close()

    asyncio.run(main())


def test_elsewhere_the_widget_makes_way_for_the_static_form_when_the_run_has_ended(cell):
    cell.request["metadata"] = {}

    async def main() -> None:
        shown, made = await shown_and_run(cell)
        assert isinstance(cell.shown[0], PlanPanel)
        assert VIEW not in cell.shown[-1]
        assert "pb-place" not in cell.shown[-1]["text/html"]
        assert "completed" in cell.shown[-1]["text/plain"]
        assert shown.panel is None
        await made.close()

    asyncio.run(main())


def test_elsewhere_the_panel_of_a_plan_that_never_ran_stays(cell):
    cell.request["metadata"] = {}

    async def main() -> None:
        made = bench()
        shown = PlanDisplay()
        shown.show(made.session(PLAN))
        shown.finish()
        assert cell.shown == [shown.panel]
        await made.close()

    asyncio.run(main())


def test_a_widget_view_has_the_plan_as_text_for_terminals(cell):
    async def main() -> None:
        made = bench()
        panel = PlanPanel(made.session(PLAN))
        data = panel._repr_mimebundle_()
        data = data[0] if isinstance(data, tuple) else data
        assert VIEW in data
        assert data["text/plain"].startswith("sweep: valid, 2 nodes")
        panel.close()
        await made.close()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["argument", "environment", "nobody"])
def test_where_nobody_looks_or_it_is_asked_for_there_is_no_panel(cell, monkeypatch, how):
    if how == "environment":
        monkeypatch.setenv("PLANBENCH_STATIC", "1")
    if how == "nobody":
        cell.request["content"] = {"allow_stdin": False}

    async def main() -> None:
        shown, made = await shown_and_run(cell, static=how == "argument" or None)
        assert shown.panel is None
        assert all(VIEW not in bundle for bundle in cell.shown)
        assert "completed" in cell.shown[-1]["text/plain"]
        await made.close()

    asyncio.run(main())


def test_a_run_from_the_button_is_saved_when_it_ends(cell):
    async def main() -> None:
        made = bench()
        shown = PlanDisplay()
        shown.show(made.session(PLAN))
        shown.panel._receive(shown.panel, {"type": "run"}, [])
        for _ in range(6_000):
            await asyncio.sleep(0.01)
            if "completed" in cell.shown[-1]["text/plain"]:
                break
        assert "completed" in cell.shown[-1]["text/plain"]
        assert "image/svg+xml" in cell.shown[-1]
        await made.close()

    asyncio.run(main())


def test_a_tool_that_goes_is_seen_in_what_is_saved_too(cell):
    async def main() -> None:
        made = bench()
        shown = PlanDisplay()
        shown.show(made.session(PLAN))
        made.registry.remove("give")
        for _ in range(6_000):
            await asyncio.sleep(0.01)
            if "invalid" in cell.shown[-1]["text/plain"]:
                break
        assert "unknown_tool" in cell.shown[-1]["text/plain"]
        await made.close()

    asyncio.run(main())


def test_a_cell_that_runs_again_or_is_deleted_closes_its_panel(cell):
    async def main() -> None:
        made = bench()
        displays = [PlanDisplay() for _ in range(4)]
        displays[0].show(made.session(PLAN))
        displays[1].show(made.session(PLAN))
        assert displays[0].panel is not None, "two plans of one cell stand side by side"
        cell.request = {**cell.request, "msg_id": "m2"}
        displays[2].show(made.session(PLAN))
        assert displays[0].panel is displays[1].panel is None
        cell.request = {
            **cell.request,
            "msg_id": "m3",
            "metadata": {"deletedCells": ["c1"], "cellId": "c2"},
        }
        displays[3].show(made.session(PLAN))
        assert displays[2].panel is None
        assert displays[3].panel is not None
        await made.close()

    asyncio.run(main())


# -- a real kernel -----------------------------------------------------------------------

SETUP = f"""%load_ext planbench
from planbench import tool
word = {CANARY[:6]!r} + {CANARY[6:]!r}

@tool
def give(value: str) -> dict:
    print(word, "printed")
    return {{"secret": word + value, "size": 3}}

@tool
def fail(value: str) -> None:
    raise ValueError(400 * "x" + word)
"""


def plan_cell(options: str, tool: str, value: str = "plain") -> str:
    return f"%%plan{options}\nname: p\nobjective: o\nnodes: [{{id: a, tool: {tool}, args: {{value: '{value}'}}}}]\n"


def execute(*sources: str, fails: bool = False) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources]
    )
    NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=fails).execute()
    return notebook


def pictures(cell: nbformat.NotebookNode) -> list[Any]:
    return [output.data for output in cell.outputs if "data" in output]


@pytest.mark.kernel
def test_a_headless_notebook_holds_one_static_form_a_plan_and_no_widget():
    notebook = execute(
        SETUP,
        plan_cell("", "give"),
        plan_cell(" --run", "give"),
        plan_cell(" --run", "fail"),
        fails=True,
    )
    checked, done, failed = (pictures(cell) for cell in notebook.cells[1:])
    assert [len(found) for found in (checked, done, failed)] == [1, 1, 1]
    assert checked[0]["text/plain"].startswith("p: valid")
    assert done[0]["text/plain"].startswith("p: completed")
    assert failed[0]["text/plain"].startswith("p: failed")
    assert "pb-ok" in done[0]["image/svg+xml"]
    assert "pb-error" in failed[0]["image/svg+xml"]
    assert "widgets" not in notebook.metadata
    assert VIEW not in nbformat.writes(notebook)


@pytest.mark.kernel
def test_a_headless_notebook_holds_no_payload():
    notebook = execute(
        SETUP,
        plan_cell(" run --run --param v=@word", "give", "{params.v}"),
        plan_cell(" --run --param v=@word", "fail", "{params.v}"),
        "assert any(word in str(event) for event in run.events)",
        fails=True,
    )
    assert notebook.cells[3].outputs == []
    assert pictures(notebook.cells[1])[0]["text/plain"].startswith("p: completed")
    assert pictures(notebook.cells[2])[0]["text/plain"].startswith("p: failed")
    assert CANARY not in nbformat.writes(notebook)
