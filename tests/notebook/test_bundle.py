"""The saved form: what it tells, what it never holds, and that all text in it is text."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

from planbench.notebook.bundle import static_bundle
from planbench.tools import ToolRegistry
from planbench.workbench import Workbench

NASTY = "</style></svg><script>alert(1)</script><img src=x onerror=alert(2)> &amp; \x00\ud83d"
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


def boom() -> None:
    """Fail with a message that is markup."""
    raise ValueError(NASTY)


class Tags(HTMLParser):
    """All that is markup in a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.data += data


def bench() -> Workbench:
    return Workbench(ToolRegistry([give, boom]))


def ran(text: str, **options: Any) -> dict[str, str]:
    """Give the static form after a run."""

    async def main() -> dict[str, str]:
        made = bench()
        session = made.session(text)
        await (await session.start())
        bundle = static_bundle(session, **options)
        await made.close()
        return bundle

    return asyncio.run(main())


def test_a_checked_plan_has_a_picture_a_table_and_a_text():
    bundle = static_bundle(bench().session(PLAN))
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    assert bundle["text/plain"].startswith("sweep: valid, 2 nodes\n")
    page = Tags(bundle["text/html"])
    assert {"table", "svg"} <= page.names
    assert "saved picture of a check" in page.data


def test_after_a_run_the_static_form_says_how_each_node_ended_and_how_to_come_back():
    bundle = ran(PLAN)
    page = Tags(bundle["text/html"])
    assert "completed" in page.data
    assert "size 3" in page.data
    run_id = bundle["text/plain"].partition("run ")[2].split()[0]
    assert f"%plan show {run_id}" in page.data
    assert "not live" in page.data
    picture = ET.fromstring(bundle["image/svg+xml"])
    states = [
        g.get("class") for g in picture.iter("{http://www.w3.org/2000/svg}g") if g.get("data-node")
    ]
    assert states == ["pb-node pb-ok", "pb-node pb-ok"]


def test_a_run_alone_is_shown_as_well_as_its_session():
    async def main() -> None:
        made = bench()
        session = made.session(PLAN)
        run = await session.start()
        await run
        assert static_bundle(run) == static_bundle(session)
        await made.close()

    asyncio.run(main())


def test_no_text_of_a_plan_or_a_tool_becomes_markup():
    text = f"""
name: {NASTY[:60]!r}
objective: o
nodes:
  - {{id: bad, tool: boom, description: {NASTY[:40]!r}}}
  - {{id: lost, tool: {NASTY[:40]!r}, args: {{"<b>": "<i>"}}}}
""".replace("\\x00", "").replace("\\ud83d", "")
    made = bench()
    checked = static_bundle(made.session(text))
    failed = ran("name: p\nobjective: o\nnodes: [{id: bad, tool: boom}]")
    for bundle in (checked, failed):
        page = Tags(bundle["text/html"])
        assert not page.names & {"script", "img", "b:", "i", "iframe", "a", "link"}
        assert not [
            name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src")
        ]
        assert "alert(1)" in page.data or "script" in page.data
        ET.fromstring(bundle["image/svg+xml"])
        assert "\x00" not in bundle["text/html"]
        bundle["text/html"].encode()  # no lone surrogate is left


def test_the_text_stays_below_two_kilobytes_and_starts_with_what_matters():
    nodes = "".join(
        f"  - {{id: n{i}, tool: give, args: {{value: {'ü' * 30}}}}}\n" for i in range(300)
    )
    bundle = static_bundle(bench().session(f"name: wide ü\nobjective: o\nnodes:\n{nodes}"))
    assert len(bundle["text/plain"].encode()) < 2000
    assert bundle["text/plain"].startswith("wide ü: valid, 300 nodes")


def test_no_payload_is_saved_unless_previews_are_asked_for():
    text = f"""
name: quiet
objective: o
nodes: [{{id: first, tool: give, args: {{value: {CANARY}}}}}]
"""
    assert CANARY not in "".join(ran(text).values())
    assert CANARY in ran(text, previews=True)["text/html"]


def test_issues_are_listed_with_their_place():
    bundle = static_bundle(
        bench().session(
            PLAN.replace("tool: give, args: {value: 3}", "tool: gove, args: {value: 3}")
        )
    )
    for form in ("text/html", "text/plain"):
        assert "line 5" in bundle[form]
        assert "unknown_tool" in bundle[form]
    assert "pb-invalid" in bundle["image/svg+xml"]


def test_a_text_that_is_no_plan_is_shown_by_its_issues():
    bundle = static_bundle(bench().session("just words"))
    assert "image/svg+xml" not in bundle
    assert "invalid" in bundle["text/plain"]


def test_a_drawing_inside_a_page_brings_no_style_of_its_own():
    page = static_bundle(bench().session(PLAN))["text/html"]
    assert page.count("<style>") == 1
    assert "prefers-color-scheme" not in page
