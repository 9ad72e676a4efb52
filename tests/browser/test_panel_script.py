"""The panel's script alone, on an empty page: what it lets in and how it cleans up behind itself."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from planbench.notebook.panel import STATIC, PlanPanel
from planbench.tools import ToolRegistry
from planbench.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

HOSTILE = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 viewBox="0 0 10 10" onload="window.hacked=1">
 <script>window.hacked=2</script><style>@import url(http://example.org/x.css)</style>
 <foreignObject><body xmlns="http://www.w3.org/1999/xhtml"><img src="x" onerror="window.hacked=3"/></body></foreignObject>
 <a xlink:href="javascript:window.hacked=4"><text>link</text></a>
 <image href="http://example.org/x.png"/><use href="http://example.org/x.svg#a"/>
 <animate attributeName="href" values="javascript:1"/>
 <h:b xmlns:h="http://www.w3.org/1999/xhtml" onclick="1">html</h:b>
 <g class="pb-node pb-valid" data-node="n0" onclick="window.hacked=5" style="fill:url(http://example.org)">
  <rect width="5" height="5" fill="url(http://example.org/x)" stroke="url(#ours)" rx="1"/><text class="pb-counter" x="1">&lt;b&gt;</text>
 </g></svg>"""
START = """async ([script, style, traits]) => {
  const sheet = document.createElement('style');
  sheet.textContent = style;
  document.head.append(sheet);
  const module = await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})));
  const listeners = {};
  const model = {
    sent: [],
    get: name => traits[name],
    send: message => model.sent.push(message),
    on: (name, call) => (listeners[name] ??= new Set()).add(call),
    off: (name, call) => listeners[name].delete(call),
    tell: (name, ...args) => [...(listeners[name] ?? [])].forEach(call => call(...args)),
    heard: () => Object.values(listeners).reduce((sum, calls) => sum + calls.size, 0),
  };
  Object.assign(window, {model, traits, admit: module.admit, widget: module.default});
}"""


@pytest.fixture(scope="module")
def traits() -> dict[str, Any]:
    # In a thread of its own: a started Playwright keeps a loop running in this one.
    with ThreadPoolExecutor() as pool:
        return pool.submit(_drawn_panel).result()


def _drawn_panel() -> dict[str, Any]:
    def give(value: int) -> int:
        return value

    bench = Workbench(ToolRegistry([give]))
    session = bench.session(
        "name: p\nobjective: o\nnodes:\n"
        "- {id: a, tool: give, args: {value: 1}}\n- {id: b, tool: give, args: {value: 1}, depends_on: [a]}\n"
    )
    panel = PlanPanel(session)
    state = {
        name: getattr(panel, name)
        for name in panel.trait_names()
        if panel.trait_metadata(name, "sync")
    }
    panel.close()
    return {
        name: value for name, value in state.items() if not name.startswith("_") and _is_json(value)
    }


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


@pytest.fixture
def blank(page: Page, traits: dict[str, Any]) -> Iterator[Page]:
    page.goto("about:blank")
    script = (STATIC / "panel.js").read_text(encoding="utf-8")
    page.evaluate(START, [script, str(PlanPanel._css), traits])
    return page


def test_a_drawing_is_let_in_without_anything_that_acts_or_loads(blank):
    kept = blank.evaluate(
        "svg => { const root = admit(svg); document.body.append(root); return root.outerHTML; }",
        HOSTILE,
    )
    for word in (
        "script",
        "style",
        "foreignObject",
        "img",
        "example.org",
        "javascript",
        "onload",
        "onclick",
        "href",
        "animate",
        "html",
    ):
        assert word not in kept.replace('xmlns="http://www.w3.org/2000/svg"', ""), word
    assert 'data-node="n0"' in kept
    assert 'stroke="url(#ours)"' in kept
    assert "&lt;b&gt;" in kept
    blank.wait_for_timeout(100)
    assert blank.evaluate("window.hacked") is None


def test_what_is_no_drawing_is_not_let_in_and_the_panel_says_so(blank):
    for text in (
        "",
        "<svg",
        "<html/>",
        "<svg/>",
        "<svg xmlns='http://www.w3.org/2000/svg'><g></svg>",
    ):
        assert blank.evaluate("svg => admit(svg)", text) is None, text
    blank.evaluate(
        """() => {
          traits.svg = '<svg';
          widget.render({model, el: document.body});
        }"""
    )
    assert "could not be read" in blank.locator(".pb-note").inner_text()
    assert blank.locator(".pb-twin tbody tr").count() == 2, "the table takes its place"


def test_a_place_shows_the_live_panel_over_the_saved_picture_while_the_model_lives(blank):
    blank.evaluate(
        """() => {
          window.leave = widget.initialize({model});
          const place = document.createElement('div');
          place.className = `pb-static pb-place pb-place-${traits.key}`;
          place.textContent = '';
          place.innerHTML = '<p>saved</p>';
          document.body.append(place);
        }"""
    )
    blank.locator(".pb-panel g.pb-node").nth(1).wait_for()
    assert blank.locator("p", has_text="saved").count() == 0
    blank.evaluate("leave()")
    assert blank.locator(".pb-panel").count() == 0
    assert blank.locator("p", has_text="saved").is_visible()
    assert blank.evaluate("model.heard()") == 0


def test_a_kernel_that_does_not_answer_gives_the_place_back_to_the_saved_picture(blank):
    blank.evaluate(
        """() => {
          widget.initialize({model});
          document.body.innerHTML = `<div class="pb-place pb-place-${traits.key}"><p>saved</p></div>`;
        }"""
    )
    blank.locator(".pb-panel").wait_for()
    blank.evaluate("model.tell('comm_live_update')")
    blank.locator(".pb-panel").wait_for(state="detached")
    assert blank.locator("p", has_text="saved").is_visible()
    blank.evaluate("model.tell('msg:custom', {type: 'pong'})")
    blank.locator(".pb-panel").wait_for()


def test_a_view_that_goes_takes_its_listeners_with_it(blank):
    before = blank.evaluate("model.heard()")
    heard = blank.evaluate(
        """() => {
          const leave = widget.render({model, el: document.body});
          const during = model.heard();
          leave();
          return [during, model.heard(), document.querySelectorAll('.pb-panel').length];
        }"""
    )
    assert heard[0] > before
    assert heard[1:] == [before, 0]


def test_text_of_a_node_is_shown_as_text(blank):
    nasty = "<img src=x onerror='window.hacked=1'>"
    details = {
        "id": "a", "tool": nasty, "description": nasty, "args_text": nasty, "status": "error", "reason": nasty,
        "errors": [nasty], "output": nasty, "warnings": [nasty], "keys": [nasty], "facts": [[nasty, nasty]],
        "facets": [[nasty, nasty]], "table": {"columns": [nasty], "rows": [[nasty]], "n_rows": 1},
        "issues": [{"code": nasty, "message": nasty, "severity": "error", "line": 1, "column": 1, "fix": nasty}],
    }  # fmt: skip
    blank.evaluate(
        """details => {
          traits.name = details.tool;
          widget.render({model, el: document.body});
          document.querySelector('g.pb-node').dispatchEvent(new MouseEvent('click'));
          model.tell('msg:custom', {type: 'details', node: 0, details});
        }""",
        details,
    )
    assert blank.locator(".pb-inspector").inner_text().count(nasty) >= 14
    blank.wait_for_timeout(100)
    assert blank.locator("img").count() == 0
    assert blank.evaluate("window.hacked") is None


def test_a_kernel_that_is_busy_is_named_when_a_button_gets_no_answer(blank):
    blank.evaluate("() => { widget.render({model, el: document.body}); }")
    blank.locator(".pb-validate").click()
    assert blank.locator(".pb-validate").is_disabled()
    blank.locator(".pb-message", has_text="has not answered yet").wait_for()
    assert blank.locator(".pb-validate").is_enabled()
