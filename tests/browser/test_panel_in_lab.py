"""The panel as an analyst sees it, in JupyterLab in Chromium; pictures go to ``screenshots``."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.browser

TOOLS = """
%load_ext planbench
import asyncio
from planbench import tool

CALLS = []

@tool
def list_reports(count: int) -> list[int]:
    return list(range(count))

@tool
async def fetch_report(number: int, seconds: float = 0.05) -> dict:
    CALLS.append(number)
    await asyncio.sleep(seconds)
    if number == 7:
        raise FileNotFoundError("<img src=x onerror='window.hacked=1'> report 7 is missing")
    return {"region": f"eu-{number}", "findings": number % 3}

@tool
def compare(reports: list) -> dict:
    return {"new": sum(report["findings"] for report in reports), "regions": len(reports)}

@tool
def map_controls(compared: dict) -> list[dict]:
    return [{"control": "CC6.1", "findings": compared["new"]}, {"control": "CC7.2", "findings": 1}]
"""
PLAN = """
name: daily_sweep
objective: what is new since the last scan
nodes:
  - id: listing
    tool: list_reports
    args: {count: COUNT}
  - id: fetch
    tool: fetch_report
    depends_on: [listing]
    for_each: {source: "{artifacts.listing}", as: number, max_concurrency: 4}
    args: {number: "{number}"}
    store_as: reports.{number}
    facets: {paths: {regions: region}}
  - id: delta
    tool: compare
    depends_on: [fetch]
    args: {reports: "{artifacts.fetch}"}
    facets: {paths: {new: new}}
  - id: compliance
    tool: map_controls
    depends_on: [delta]
    when: ctx.artifacts.delta.new > 0
    args: {compared: "{artifacts.delta}"}
"""
TASKS = """
import asyncio
print(sorted(task.get_coro().__qualname__ for task in asyncio.all_tasks()))
"""
#: Collects every text that the counter of the fan-out ever shows.
WATCH_COUNTER = """() => {
  window.counters = [];
  const counter = document.querySelector('.pb-panel g[data-node=n1] .pb-counter');
  new MutationObserver(() => window.counters.push(counter.textContent))
    .observe(counter, {childList: true, characterData: true, subtree: true});
}"""
#: Presses Validate and gives the milliseconds until the kernel's answer is on the screen.
ROUND_TRIP = """() => new Promise(resolve => {
  const button = document.querySelector('.pb-panel .pb-validate');
  const started = performance.now();
  button.click();
  const look = () => button.disabled ? requestAnimationFrame(look) : resolve(performance.now() - started);
  look();
})"""
#: Runs a cell and gives the milliseconds from its end until all panels say what is expected.
RUN_AND_TIME = """async ([index, state, count]) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  const there = () => document.querySelectorAll(`.pb-panel g[data-node=n1].pb-${state}`).length === count;
  const seen = new Promise(resolve => {
    const look = () => there() ? resolve(performance.now()) : setTimeout(look, 5);
    look();
  });
  await window.jupyterapp.commands.execute('notebook:run-cell');
  const ended = performance.now();
  return Math.max(0, await seen - ended);
}"""
#: Presses Cancel and gives the milliseconds until the run is shown as cancelled.
CANCEL = """() => new Promise(resolve => {
  const started = performance.now();
  document.querySelector('.pb-panel .pb-cancel').click();
  const look = () => document.querySelector('.pb-panel .pb-is-cancelled')
    ? resolve(performance.now() - started) : requestAnimationFrame(look);
  look();
})"""


def plan(options: str = "", count: int = 40) -> str:
    return f"%%plan{options}{PLAN.replace('COUNT', str(count))}"


def states(panel):
    return [
        re.search(r"pb-node pb-(\w+)", shape.get_attribute("class"))[1]
        for shape in panel.locator("g.pb-node").all()
    ]


def wait_for_state(panel, state):
    panel.locator(f"[role=status] .pb-is-{state}").wait_for()


def test_a_cell_draws_its_plan_and_runs_it_live_from_the_button(notebook):
    book = notebook(TOOLS, plan(count=160))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    panel.locator("g.pb-node").nth(3).wait_for()
    wait_for_state(panel, "valid")
    assert states(panel) == ["valid"] * 4
    book.shot("1_checked")

    book.page.evaluate(WATCH_COUNTER)
    panel.locator(".pb-run.pb-button").click()
    panel.locator("g[data-node=n1].pb-running").wait_for()
    trips = sorted(book.page.evaluate(ROUND_TRIP) for _ in range(5))
    book.shot("2_running")
    assert panel.locator(".pb-run.pb-button").is_disabled()
    assert trips[2] < 200, f"round trips in ms: {trips}"

    wait_for_state(panel, "partial")
    shown = [re.match(r"(\d+) / 160", text) for text in book.page.evaluate("window.counters")]
    done = [int(match[1]) for match in shown if match]
    assert [count for count in done if 0 < count < 160], done
    assert done[-1] == 160
    assert states(panel) == ["ok", "partial", "ok", "ok"]
    assert "report 7 is missing" in panel.locator(".pb-message").inner_text()

    panel.locator("g[data-node=n1]").click()
    panel.locator(".pb-inspector table").wait_for()
    assert "reports.0" in panel.locator(".pb-keys").inner_text()
    assert "<img src=x" in panel.locator(".pb-inspector .pb-problem").first.inner_text()
    assert book.page.evaluate("window.hacked") is None
    book.shot("3_node_open")


def test_cancel_ends_the_run_of_a_waiting_cell_at_once_and_leaves_no_task(notebook):
    book = notebook(TOOLS, plan(" --run", count=1000))
    book.run(0)
    before = book.printed(TASKS)
    book.run(1, wait=False)
    panel = book.panel(1)
    panel.locator("g[data-node=n1].pb-running").wait_for()
    book.page.wait_for_timeout(300)
    assert book.page.evaluate(CANCEL) < 500
    book.output(1).get_by_text("RunCancelled").first.wait_for()
    book.shot("4_cancelled")
    assert states(panel)[1] == "cancelled"
    assert book.printed(TASKS) == before
    assert panel.locator(".pb-run.pb-button").is_enabled(), "the next run can begin"


FLAKY = """
%load_ext planbench
from pathlib import Path
from planbench import tool

@tool
def weather() -> str:
    if not Path("sunny").exists():
        raise ValueError("no weather today")
    return "sun"
"""


def test_what_is_left_of_a_run_is_resumed_from_the_button(notebook):
    made = "%%plan\nname: w\nobjective: o\nnodes:\n  - {id: w, tool: weather}\n"
    book = notebook(FLAKY, made, "Path('sunny').touch()")
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    resume = panel.locator(".pb-resume")
    wait_for_state(panel, "valid")
    assert not resume.is_visible()
    panel.locator(".pb-run.pb-button").click()
    wait_for_state(panel, "failed")
    assert resume.inner_text() == "Resume: 1 of 1 calls left"
    book.run(2)
    resume.click()
    wait_for_state(panel, "completed")
    assert not resume.is_visible()


def test_a_page_that_is_loaded_again_in_mid_run_is_live_again(notebook):
    book = notebook(TOOLS.replace("0.05", "0.1"), plan(" --run", count=1000))
    book.run(0)
    book.run(1, wait=False)
    book.panel(1).locator("g[data-node=n1].pb-running").wait_for()
    book.save()
    book.open(kernel="any")
    panel = book.panel(1)
    panel.locator("g[data-node=n1].pb-running").wait_for()
    book.page.evaluate(WATCH_COUNTER)
    panel.locator("g[data-node=n0]").click()
    panel.locator(".pb-inspector table").wait_for()
    book.page.wait_for_function("window.counters.length > 3")
    book.shot("5_reloaded_in_mid_run")
    assert book.page.evaluate(CANCEL) < 500
    assert states(panel)[:2] == ["ok", "cancelled"]


def test_after_a_restart_the_saved_notebook_shows_the_end_of_the_run_and_no_broken_widget(notebook):
    book = notebook(TOOLS, plan(), plan(" kept --run", count=20), "%plan show {kept.run_id}")
    book.run(0)
    book.run(1)
    book.run(2)
    wait_for_state(book.panel(2), "partial")
    book.page.evaluate(
        "id => window.jupyterapp.shell.currentWidget.content.widgets[3].model.sharedModel.setSource(`%plan show ${id}`)",
        book.printed("print(kept.run_id)").strip(),
    )
    book.run(3)
    wait_for_state(book.panel(3), "partial")
    book.page.wait_for_timeout(800)  # what is saved settles
    book.save()
    for index in (1, 2, 3):
        data = [output.data for output in book.saved(index) if "data" in output]
        assert [sorted(bundle) for bundle in data] == [["image/svg+xml", "text/html", "text/plain"]]

    book.restart()
    book.open()
    for index, said in ((1, "valid"), (2, "partial"), (3, "partial")):
        output = book.output(index)
        output.locator(".pb-static svg.pb-drawing").wait_for()
        text = output.text_content()
        assert "model not found" not in text
        assert said in text
        assert "live" in text
        assert output.locator(".pb-static table tbody tr").count() == 4
        assert output.locator(".pb-panel").count() == 0
    book.shot("6_after_restart", 2)


def test_open_panels_turn_red_when_a_cell_takes_their_tool_and_green_when_it_returns(notebook):
    again = TOOLS[TOOLS.index("@tool\nasync def fetch_report") : TOOLS.index("@tool\ndef compare")]
    changed = again.replace("number: int", "report: int").replace("number", "report")
    book = notebook(TOOLS, plan(), plan(), "del fetch_report", again, changed)
    for index in range(3):
        book.run(index)
    for index in (1, 2):
        book.panel(index).locator("g[data-node=n1].pb-valid").wait_for()

    assert book.page.evaluate(RUN_AND_TIME, [3, "invalid", 2]) < 300
    for index in (1, 2):
        panel = book.panel(index)
        assert states(panel) == ["valid", "invalid", "valid", "valid"]
        assert "there is no tool 'fetch_report'" in panel.locator("g[data-node=n1]").get_attribute(
            "aria-label"
        )
        assert "unknown_tool" in panel.locator(".pb-issues").inner_text()
        assert panel.locator(".pb-run.pb-button").is_disabled()
        assert "1 error" in panel.locator(".pb-run.pb-button").get_attribute("title")
    book.shot("7_tool_gone", 2)
    assert book.page.evaluate(RUN_AND_TIME, [4, "valid", 2]) < 300
    assert book.page.evaluate(RUN_AND_TIME, [5, "invalid", 2]) < 300
    assert "unknown_args" in book.panel(1).locator(".pb-issues").inner_text()
    book.panel(1).locator(".pb-issue").first.click()
    assert book.panel(1).locator(".pb-inspector h4").inner_text() == "fetch"
    book.shot("8_tool_changed")
    assert book.printed("print(CALLS)").strip() == "[]"


def test_the_keyboard_walks_the_graph_and_opens_a_node(notebook):
    book = notebook(TOOLS, plan())
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    first = panel.locator("g.pb-node[tabindex='0']")
    first.focus()
    assert first.get_attribute("data-node") == "n0"
    focused = "document.activeElement.getAttribute('data-node') ?? document.activeElement.className"
    book.page.keyboard.press("ArrowRight")
    assert book.page.evaluate(focused) == "n1"
    book.page.keyboard.press("Enter")
    panel.locator(".pb-inspector pre").wait_for()
    assert book.page.evaluate(focused) == "pb-inspector"
    assert 'number: "{number}"' in panel.locator(".pb-inspector pre").inner_text()
    book.shot("9_keyboard")
    book.page.keyboard.press("Escape")
    assert book.page.evaluate(focused) == "n1"
    book.page.wait_for_timeout(1000)  # until what is saved has been written anew
    assert book.page.evaluate(focused) == "n1"
    assert panel.locator(".pb-inspector").is_hidden()
    active = "[window.jupyterapp.shell.currentWidget.content.activeCellIndex, window.jupyterapp.shell.currentWidget.content.mode]"
    assert book.page.evaluate(active) == [1, "command"], "Lab took none of the keys"
    panel.locator("summary").focus()
    book.page.keyboard.press("Enter")
    panel.locator(".pb-twin tbody tr").nth(3).wait_for()


def test_a_pinned_copy_and_the_cell_show_the_same_and_stay_live_after_the_run(notebook):
    book = notebook(TOOLS, plan(count=60))
    book.run(0)
    book.run(1)
    book.panel(1).locator("g.pb-node").nth(3).wait_for()
    book.page.evaluate("window.jupyterapp.commands.execute('notebook:create-output-view')")
    pinned = book.page.locator(".jp-LinkedOutputView .pb-panel")
    pinned.locator("g.pb-node").nth(3).wait_for()
    pinned.locator(".pb-run.pb-button").click()
    book.panel(1).locator("g[data-node=n1].pb-running").wait_for()
    for panel in (pinned, book.panel(1)):
        wait_for_state(panel, "partial")
    book.page.wait_for_timeout(1000)  # until what is saved has been written anew
    assert states(pinned) == states(book.panel(1)) == ["ok", "partial", "ok", "ok"]
    pinned.locator("g[data-node=n3]").click()
    pinned.locator(".pb-inspector table").wait_for()
    assert book.panel(1).locator(".pb-inspector").is_hidden(), "each view opens its own node"
    book.shot("10_pinned")


def test_a_widget_shown_twice_keeps_both_views_in_step(notebook):
    show = f"""
from IPython.display import display
from planbench import get_workbench
from planbench.notebook.panel import PlanPanel
panel = PlanPanel(get_workbench().session({PLAN.replace("COUNT", "60")!r}))
display(panel, panel)
"""
    book = notebook(TOOLS, show)
    book.run(0)
    book.run(1)
    first, second = (book.output(1).locator(".pb-panel").nth(place) for place in (0, 1))
    first.locator(".pb-run.pb-button").click()
    second.locator("g[data-node=n1].pb-running").wait_for()
    for panel in (first, second):
        wait_for_state(panel, "partial")
        assert states(panel) == ["ok", "partial", "ok", "ok"]
    first.locator("g[data-node=n3]").click()
    first.locator(".pb-inspector table").wait_for()
    assert second.locator(".pb-inspector").is_hidden()
    book.printed("panel.close()")
    book.page.wait_for_function("document.querySelectorAll('.pb-panel').length === 0")


def test_the_panel_follows_the_dark_theme(notebook):
    book = notebook(TOOLS, plan(" --run", count=20))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    wait_for_state(panel, "partial")
    panel.locator("g[data-node=n1]").click()
    panel.locator(".pb-inspector table").wait_for()
    command = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    book.page.evaluate(command, "JupyterLab Dark")
    book.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    book.page.wait_for_timeout(500)
    book.shot("11_dark")
    colours = panel.evaluate(
        "root => [getComputedStyle(root).backgroundColor, getComputedStyle(root.querySelector('.pbn-title')).fill]"
    )
    ground, ink = (max(map(float, re.findall(r"[\d.]+", colour)[:3])) for colour in colours)
    assert ground < 80, colours
    assert ink > 180, colours
    book.page.evaluate(command, "JupyterLab Light")
