from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

import planbench
from planbench import check_plan

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page, language):
    return [
        body for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__docs__"}

    async def main():
        for number, body in enumerate(blocks(page, "python")):
            code = compile(
                body, f"{page.name}[{number}]", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            result = eval(code, space)
            if inspect.isawaitable(result):
                await result

    asyncio.run(main())


@pytest.mark.parametrize(
    "text",
    [body for page in PAGES for body in blocks(page, "yaml") if body.startswith("name:")],
    ids=lambda text: text.splitlines()[0],
)
def test_a_plan_in_the_docs_is_valid(text):
    report = check_plan(text)

    assert report.ok, report.issues


def test_every_public_name_has_its_entry_on_a_page():
    said = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    entries = set(
        re.findall(r"^\.\. auto(?:class|function|data):: (?:[\w.]+\.)?(\w+)$", said, re.MULTILINE)
    )
    assert ".. automodule:: planbench.errors" in said
    entries |= set(dir(planbench.errors))

    assert set(planbench.__all__) - entries == set()
