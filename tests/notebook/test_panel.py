"""The panel's kernel side, with real sessions and runs; the browser is the list of what was sent."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from planbench.errors import RenderError
from planbench.notebook import drawing, wire
from planbench.notebook.panel import PlanPanel
from planbench.tools import ToolRegistry
from planbench.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from planbench.session import PlanSession

PLAN = """
name: sweep
objective: see what is new
nodes:
  - id: listing
    tool: numbers
    args: {count: 40}
  - id: fetch
    tool: fetch
    depends_on: [listing]
    for_each: {source: "{artifacts.listing}", as: number, max_concurrency: 4}
    args: {number: "{number}"}
    store_as: fetch.{number}
    facets: {paths: {label: label}}
  - id: total
    tool: total
    depends_on: [fetch]
    args: {values: "{artifacts.fetch}"}
"""


def numbers(count: int) -> list[int]:
    """Give the numbers below count."""
    return list(range(count))


async def fetch(number: int) -> dict[str, Any]:
    """Fetch one number."""
    await asyncio.sleep(0.01)
    if number == 7:
        raise ValueError("seven is missing")
    return {"label": "<b>odd</b>" if number % 2 else "even", "number": number}


def total(values: list[dict[str, Any]]) -> int:
    """Add them up."""
    return sum(value["number"] for value in values)


class Heard:
    """A panel on a workbench of its own, and what it sent to the browser."""

    def __init__(self, text: str = PLAN, **options: Any) -> None:
        self.bench = Workbench(ToolRegistry([numbers, fetch, total]))
        self.session: PlanSession = self.bench.session(text)
        self.panel = PlanPanel(self.session, **options)
        self.sent: list[dict[str, Any]] = []
        self.whole: list[Any] = []
        self.panel.send = self._take
        self.panel.send_state = lambda key=None: self.whole.append(key)

    def _take(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.sent.append(content)

    def press(self, **message: Any) -> None:
        self.panel._receive(self.panel, message, [])

    def of_type(self, name: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["type"] == name]

    async def until(self, true: Callable[[], Any]) -> None:
        for _ in range(12_000):
            if true():
                return
            await asyncio.sleep(0.005)
        pytest.fail("it did not come to be")


@pytest.fixture
def on_loop() -> Iterator[Callable[[Callable[[Heard], Awaitable[None]]], None]]:
    """Run a scenario on a loop and close everything behind it."""

    def run(scenario: Callable[[Heard], Awaitable[None]], text: str = PLAN) -> None:
        async def main() -> None:
            heard = Heard(text)
            try:
                await heard.until(lambda: heard.panel.svg or heard.panel.graph_note)
                await scenario(heard)
            finally:
                heard.panel.close()
                await heard.bench.close()

        asyncio.run(main())

    yield run
    PlanPanel.close_all()


def test_a_checked_plan_is_drawn_and_its_nodes_are_valid(on_loop):
    async def scenario(heard: Heard) -> None:
        assert heard.panel.svg.count("data-node=") == 3
        assert [node["id"] for node in heard.panel.nodes] == ["listing", "fetch", "total"]
        assert heard.panel.nodes[1] == {
            "id": "fetch",
            "tool": "fetch",
            "kind": "fan_out",
            "after": [0],
        }
        assert {state["s"] for state in heard.panel.states.values()} == {"valid"}
        assert heard.panel.status["state"] == "valid"

    on_loop(scenario)


def test_many_events_go_over_in_few_deltas_and_the_traits_hold_the_end(on_loop):
    async def scenario(heard: Heard) -> None:
        states = heard.panel.states
        run = await heard.session.start()
        await run
        assert heard.panel.states is states, "a page that is loaded again reads this very dict"
        assert states["1"]["s"] == "partial"
        assert states["1"]["i"] == "40 of 40"
        assert states["2"] == heard.panel.get_state()["states"]["2"]
        assert heard.panel.status["state"] == "partial"
        assert "fetch" in heard.panel.status["message"]
        assert "seven is missing" in heard.panel.status["message"]
        assert heard.whole[-1] == ["states", "status", "buttons"]

        replayed: dict[str, Any] = {}
        for delta in heard.of_type("delta"):
            replayed.update(delta["states"])
        assert replayed == states, "the deltas alone tell the same"
        assert len(heard.of_type("delta")) < len(run.events) / 2

    on_loop(scenario)


def test_a_delta_names_only_what_changed(on_loop):
    async def scenario(heard: Heard) -> None:
        run = await heard.session.start()
        await heard.until(lambda: heard.panel.states["1"]["s"] == "running")
        heard.sent.clear()
        await run
        told = [key for delta in heard.of_type("delta") for key in delta["states"]]
        assert "1" in told
        assert "0" not in told, "the first node had ended before"

    on_loop(scenario)


def test_the_drawing_goes_over_once_for_many_runs(on_loop):
    async def scenario(heard: Heard) -> None:
        drawings = []
        heard.panel.observe(drawings.append, "svg")
        for _ in range(2):
            await (await heard.session.start())
        heard.bench.registry.remove("total")
        await heard.until(lambda: heard.panel.status["state"] == "invalid")
        assert drawings == []

    on_loop(scenario)


@pytest.mark.parametrize("ran_before", [False, True])
def test_a_tool_that_goes_turns_its_node_red_with_the_reason_and_green_when_it_returns(
    on_loop, ran_before
):
    async def scenario(heard: Heard) -> None:
        if ran_before:
            await (await heard.session.start())
        green = dict(heard.panel.states)
        heard.bench.registry.remove("total")
        await heard.until(lambda: heard.panel.states["2"]["s"] == "invalid")
        assert "total" in heard.panel.states["2"]["n"]
        assert [issue["node"] for issue in heard.panel.issues] == [2]
        assert heard.panel.issues[0]["code"] == "unknown_tool"
        assert not heard.panel.buttons["run"]["enabled"]
        heard.bench.registry.register(total)
        await heard.until(lambda: heard.panel.states["2"]["s"] != "invalid")
        assert heard.panel.states == green
        assert heard.panel.issues == []

    on_loop(scenario)


def test_a_tool_that_takes_other_arguments_now_turns_its_node_red(on_loop):
    async def scenario(heard: Heard) -> None:
        def numbers(limit: int) -> list[int]:
            return list(range(limit))

        heard.bench.registry.register(numbers)
        await heard.until(lambda: heard.panel.states["0"]["s"] == "invalid")
        assert {issue["code"] for issue in heard.panel.issues} == {"unknown_args", "missing_args"}

    on_loop(scenario)


def test_a_message_from_another_thread_is_obeyed_on_the_loop(on_loop):
    async def scenario(heard: Heard) -> None:
        threads = []
        start = heard.session.start

        async def noted():
            threads.append(threading.get_ident())
            return await start()

        heard.session.start = noted
        pressed = threading.Thread(target=heard.press, kwargs={"type": "run"})
        pressed.start()
        pressed.join()
        await heard.until(lambda: heard.session.run and heard.session.run.finished)
        assert threads == [threading.get_ident()]

    on_loop(scenario)


def test_the_buttons_say_what_can_be_done_and_why_not(on_loop):
    async def scenario(heard: Heard) -> None:
        assert heard.panel.buttons["run"]["enabled"]
        assert heard.panel.buttons["cancel"] == {"enabled": False, "title": "No run is going on"}
        run = await heard.session.start()
        assert not heard.panel.buttons["run"]["enabled"]
        assert heard.panel.buttons["cancel"]["enabled"]
        await run
        assert heard.panel.buttons["run"]["enabled"]
        assert not heard.panel.buttons["cancel"]["enabled"]

    on_loop(scenario)


def test_a_run_with_calls_left_can_be_resumed_from_the_panel(on_loop):
    async def scenario(heard: Heard) -> None:
        assert heard.panel.buttons["resume"]["label"] == ""
        run = await heard.session.start()
        await run  # item 7 of the fan-out is missing
        await heard.until(lambda: heard.panel.buttons["resume"]["enabled"])
        assert heard.panel.buttons["resume"]["label"].startswith("Resume: 1 of ")
        assert run.run_id in heard.panel.buttons["resume"]["title"]
        heard.press(type="resume")
        await heard.until(lambda: heard.session.run is not run)
        again = heard.session.run
        assert again is not None
        assert again.run_id == run.run_id
        assert not heard.panel.buttons["resume"]["enabled"]
        await again
        await heard.until(lambda: {"type": "done", "action": "resume"} in heard.sent)

    on_loop(scenario)


def test_where_nothing_is_left_the_panel_says_so(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="resume")
        await heard.until(lambda: "has calls left" in heard.panel.status["message"])
        assert heard.panel.status["tone"] == "error"

    on_loop(scenario)


def test_cancel_ends_the_run_and_leaves_no_task_behind(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="run")
        await heard.until(lambda: "fetch" in heard.bench.memory or heard.panel.states["1"].get("i"))
        heard.press(type="cancel")
        await heard.until(lambda: heard.session.run.finished)
        assert heard.session.run.status == "cancelled"
        assert heard.panel.status["state"] == "cancelled"
        await heard.until(lambda: len(asyncio.all_tasks()) == 1)

    on_loop(scenario)


def test_two_presses_of_run_start_one_run(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="run")
        heard.press(type="run")
        await heard.until(lambda: heard.session.run and heard.session.run.finished)
        assert len(heard.bench.runs) == 1

    on_loop(scenario)


def test_what_goes_wrong_with_a_message_is_shown_and_the_next_press_clears_it(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="dance")
        await heard.until(lambda: heard.panel.status["message"])
        assert "dance" in heard.panel.status["message"]
        assert heard.panel.status["tone"] == "error"
        heard.press(type="validate")
        await heard.until(lambda: heard.of_type("done"))
        assert heard.panel.status["message"] == ""

    on_loop(scenario)


def test_a_run_that_cannot_start_says_why_in_the_panel(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.bench.registry.remove("total")
        heard.press(type="run")
        await heard.until(lambda: heard.panel.status["message"])
        assert "unknown_tool" in heard.panel.status["message"]
        assert heard.session.run is None

    on_loop(scenario)


def test_a_fault_of_the_panel_never_reaches_the_run(on_loop, monkeypatch):
    async def scenario(heard: Heard) -> None:
        def broken(*_: object) -> dict[str, Any]:
            raise ZeroDivisionError("a fault")

        monkeypatch.setattr(wire, "button_records", broken)
        run = await heard.session.start()
        outcome = await run
        assert outcome.status == "partial"
        assert heard.panel.status["message"] == "ZeroDivisionError: a fault"

    on_loop(scenario)


def test_an_open_node_is_told_in_full_as_text(on_loop):
    async def scenario(heard: Heard) -> None:
        await (await heard.session.start())
        heard.press(type="open", node=1, view="v")
        await heard.until(lambda: heard.of_type("details"))
        message = heard.of_type("details")[-1]
        details = message["details"]
        assert message["node"] == 1
        assert details["args_text"].strip() == 'number: "{number}"'
        assert details["errors"] == ["[7] ValueError: seven is missing"]
        assert ("items", "40 of 40, 1 failed") in details["facts"]
        assert dict(details["facets"])["label"] == "even, <b>odd</b>"
        assert details["table"]["columns"] == ["label", "number"]
        assert details["table"]["rows"][1] == ["<b>odd</b>", "1"]
        assert details["table"]["n_rows"] == 39
        assert len(details["table"]["rows"]) == 20

    on_loop(scenario)


def test_an_open_node_is_told_again_when_the_run_changes_it_and_a_closed_one_is_not(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="open", node=2, view="v")
        heard.press(type="open", node=0, view="v")
        heard.press(type="close", node=0, view="v")
        await heard.until(lambda: any(message["node"] == 2 for message in heard.of_type("details")))
        heard.sent.clear()
        await (await heard.session.start())
        await heard.until(
            lambda: any(
                message["details"]["status"] == "ok" for message in heard.of_type("details")
            )
        )
        assert {message["node"] for message in heard.of_type("details")} == {2}

    on_loop(scenario)


def test_a_node_that_is_open_in_two_views_is_told_until_both_have_closed_it(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="open", node=0, view="one")
        heard.press(type="open", node=0, view="two")
        heard.press(type="close", node=0, view="one")
        await heard.until(lambda: heard.of_type("details"))
        heard.sent.clear()
        heard.session.validate()
        await heard.until(lambda: heard.of_type("details"))
        heard.press(type="close", node=0, view="two")
        await heard.until(lambda: not heard.panel._opened)
        heard.sent.clear()
        heard.session.validate()
        await asyncio.sleep(0.05)
        assert heard.of_type("details") == []

    on_loop(scenario)


def test_details_of_a_node_that_is_not_there_are_not_asked_for(on_loop):
    async def scenario(heard: Heard) -> None:
        heard.press(type="open", node=99, view="v")
        heard.press(type="ping")
        await heard.until(lambda: heard.of_type("pong"))
        assert heard.of_type("details") == []
        assert heard.panel.status["message"] == ""

    on_loop(scenario)


def test_without_a_drawing_the_panel_says_so_and_the_plan_still_runs(on_loop, monkeypatch):
    def fails(*_: object, **__: object) -> str:
        raise RenderError("no drawing: there is no Graphviz")

    monkeypatch.setattr(drawing, "draw", fails)

    async def scenario(heard: Heard) -> None:
        assert heard.panel.svg == ""
        assert "no Graphviz" in heard.panel.graph_note
        await (await heard.session.start())
        assert heard.panel.states["2"]["s"] == "ok"

    on_loop(scenario)


def test_a_text_that_is_no_plan_has_issues_and_no_drawing(on_loop):
    async def scenario(heard: Heard) -> None:
        assert heard.panel.nodes == []
        assert heard.panel.status["state"] == "invalid"
        assert heard.panel.issues
        assert all(issue["node"] is None for issue in heard.panel.issues)

    on_loop(scenario, text="just words")


def test_a_broken_plan_is_drawn_as_far_as_it_was_read(on_loop):
    broken = PLAN.replace("depends_on: [fetch]", "depends_on: [fetcher]").replace(
        "tool: total", "tool: totl"
    )

    async def scenario(heard: Heard) -> None:
        assert heard.panel.svg.count("data-node=") == 3
        assert heard.panel.states["2"]["s"] == "invalid"
        places = {issue["code"]: (issue["node"], issue["line"]) for issue in heard.panel.issues}
        assert places["unknown_dependency"] == (2, 17)
        assert places["unknown_tool"] == (2, 16)

    on_loop(scenario, text=broken)


def test_above_a_thousand_nodes_the_stages_are_recoloured(on_loop):
    nodes = "".join(f"  - {{id: n{i}, tool: numbers, args: {{count: 1}}}}\n" for i in range(1001))
    text = f"name: wide\nobjective: many\nnodes:\n{nodes}  - {{id: last, tool: numbers, args: {{count: 1}}, depends_on: [n0]}}\n"

    async def scenario(heard: Heard) -> None:
        assert "by their stages" in heard.panel.graph_note
        assert heard.panel.svg.count("data-stage=") == 2
        await heard.until(lambda: "s1" in heard.panel.states)
        assert heard.panel.states["s1"]["s"] == "valid"
        await (await heard.session.start())
        await heard.until(lambda: heard.panel.states["s1"]["s"] == "ok")
        assert heard.panel.states["s0"]["i"] == "1,001 of 1,001"

    on_loop(scenario, text=text)


def test_a_closed_panel_hears_nothing_and_the_run_goes_on(on_loop):
    async def scenario(heard: Heard) -> None:
        run = await heard.session.start()
        heard.panel.close()
        heard.sent.clear()
        outcome = await run
        assert outcome.status == "partial"
        assert heard.sent == []

    on_loop(scenario)


def test_a_panel_for_the_eye_alone_takes_no_orders():
    async def main() -> None:
        heard = Heard(interactive=False)
        heard.press(type="run")
        await heard.until(lambda: heard.panel.status["message"])
        assert heard.session.run is None
        heard.panel.close()
        await heard.bench.close()

    asyncio.run(main())


def test_without_a_loop_the_panel_draws_and_answers_at_once():
    heard = Heard()
    assert "data-node=" in heard.panel.svg
    heard.press(type="open", node=0, view="v")
    assert heard.of_type("details")[0]["details"]["id"] == "listing"
    heard.press(type="run")
    assert "no event loop" in heard.panel.status["message"]
    heard.panel.close()


def test_the_repr_is_short():
    heard = Heard()
    assert repr(heard.panel) == "<PlanPanel of 'sweep'>"
    heard.panel.close()
