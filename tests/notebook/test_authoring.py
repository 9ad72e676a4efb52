"""``%%plan_objective`` and ``%plan prompt`` in a shell, with a model that is a function."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from html import unescape

import pytest

from planbench.errors import (
    CommandError,
    ConfigurationError,
    ModelError,
    PlanAuthoringError,
    PlanInvalid,
)
from planbench.files import load_plan
from planbench.llm import FakeLLMClient
from planbench.llm.fake import text
from planbench.llm.server import ScriptedServer, failure
from planbench.workbench import get_workbench

GOOD = {
    "name": "rated",
    "objective": "Rate what is at x",
    "nodes": [
        {"id": "found", "tool": "fetch", "args": {"key": "x"}},
        {
            "id": "rate",
            "tool": "score",
            "args": {"value": "{artifacts.found}"},
            "depends_on": ["found"],
        },
    ],
}
SHORT = {**GOOD, "nodes": GOOD["nodes"][:1]}
STRANGE = {**GOOD, "nodes": [{"id": "found", "tool": "fetsh", "args": {"key": "x"}}]}
BROKEN = {"name": "rated", "nodes": [{"tool": "fetch", "args": {"key": "x"}}]}


class Author:
    """A notebook whose planner gives the answers of a list."""

    def __init__(self, cells):
        self.cells = cells
        self.answers = []
        self.client = FakeLLMClient(self.answer)
        get_workbench().planner = self.client

    def answer(self, request):
        given = self.answers.pop(0)
        if isinstance(given, dict):
            given = json.dumps(given)
        return given(request) if callable(given) else given

    def asked(self, number=-1):
        return self.client.requests[number].messages[-1].content

    def ok(self, cell, *answers):
        self.answers = list(answers)
        said = self.cells.ok(cell)
        assert self.answers == []
        return said

    def fails(self, cell, *answers):
        self.answers = list(answers)
        error = self.cells.fails(cell)
        assert self.answers == []
        return error

    @property
    def said(self):
        return "\n".join(one.get("text/plain", "") for one in self.cells.outputs)

    @property
    def page(self):
        return unescape("\n".join(one.get("text/html", "") for one in self.cells.outputs))

    @property
    def next_cell(self):
        return self.cells.shell.rl_next_input

    def draft(self, name):
        return (self.cells.plans / "drafts" / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.fixture
def author(cells):
    return Author(cells)


def test_an_objective_becomes_a_plan_in_the_next_cell_in_a_variable_and_in_a_draft(author):
    said = author.ok("%%plan_objective morning\nRate what is at {x}\n", GOOD)

    head, _, body = author.next_cell.partition("\n")
    assert head == "%%plan morning"
    plan = load_plan(body)
    assert [node.id for node in plan.nodes] == ["found", "rate"]
    assert plan == author.cells.shell.user_ns["morning"]
    assert author.draft("rated-1") == body
    assert plan.provenance.objective == "Rate what is at {x}"
    assert plan.provenance.model == "fake"
    assert "draft: drafts/rated-1" in said
    assert "rated: valid, 2 nodes" in said
    assert "Rate what is at {x}" in author.asked()


def test_the_next_cell_runs_as_it_is(author):
    author.ok("%%plan_objective\nRate", GOOD)
    author.cells.ok(author.next_cell.replace("%%plan", "%%plan r --run", 1))
    assert author.cells.shell.user_ns["r"].status == "completed"


def test_model_calls_tokens_and_cost_are_shown(author):
    author.cells.ok('%config PlanMagics.prices = {"fake": (2.0, 10.0)}')
    said = author.ok(
        "%%plan_objective\nRate", text(json.dumps(GOOD), input_tokens=1500, output_tokens=200)
    )
    assert said.splitlines()[0].startswith("fake: 1 call, 1,500 tokens in, 200 out, cost 0.005, ")


def test_without_a_price_the_cost_is_unpriced_and_both_calls_count(author):
    first = text(json.dumps(STRANGE), input_tokens=10, output_tokens=1)
    second = text(json.dumps(GOOD), input_tokens=20, output_tokens=2)
    said = author.ok("%%plan_objective\nRate", first, second)
    assert said.splitlines()[0].startswith("fake: 2 calls, 30 tokens in, 3 out, unpriced, ")


def test_tools_narrow_what_the_planner_sees_and_may_call_and_that_is_shown(author):
    said = author.ok("%%plan_objective --tools fetch --tools b*\nRate", SHORT)
    assert "the planner saw 2 tools: fetch, boom" in said
    assert "<details><summary>the planner saw 2 tools: fetch, boom</summary>" in author.page
    assert "- fetch(key: string, limit?: integer = 10)" in author.page
    assert "score" not in author.asked()
    error = author.fails("%%plan_objective --tools fetch\nRate", GOOD, GOOD)
    assert "tool_not_allowed" in str(error)


def test_a_pattern_that_fits_no_tool_is_an_error_and_nothing_is_asked(author):
    error = author.fails("%%plan_objective --tools fetsh\nRate")
    assert isinstance(error, CommandError)
    assert "did you mean 'fetch'" in str(error)
    assert author.client.requests == []


def test_a_plan_that_stays_wrong_fails_the_cell_and_is_kept_to_be_mended(author):
    error = author.fails("%%plan_objective morning\nRate", STRANGE, STRANGE)

    assert isinstance(error, PlanAuthoringError)
    assert error.code == "plan_invalid"
    assert error.attempts == 2
    block = error._render_traceback_()
    assert len(block) == 3
    head, _, body = author.next_cell.partition("\n")
    assert head == "%%plan morning"
    line, column = (error.report.issues[0].line, error.report.issues[0].column)
    assert body.splitlines()[line - 1][column - 1 :] == "fetsh"
    assert author.draft("rated-1") == body
    assert "rated: invalid" in author.said
    assert "morning" not in author.cells.shell.user_ns
    author.cells.ok(author.next_cell.replace("fetsh", "fetch"))


def test_an_answer_that_lacks_fields_is_kept_as_yaml_that_says_where_it_came_from(author):
    error = author.fails("%%plan_objective\nRate it", BROKEN, BROKEN)
    assert {issue.code for issue in error.report.issues} == {"missing_field"}
    body = author.next_cell.partition("\n")[2]
    assert "  - tool: fetch\n" in body
    assert "objective: Rate it\n  model: fake\n" in body
    assert author.draft("rated-1") == body


def test_an_answer_in_which_there_is_no_plan_is_named(author):
    error = author.fails("%%plan_objective\nRate", "I would rather not.", "No.")
    assert [issue.code for issue in error.report.issues] == ["no_json"]
    assert author.draft("plan-1") in ("I would rather not.", "No.")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (text('{"nodes": [', finish_reason="length"), "truncated"),
        (text("", refusal="I will not"), "refused"),
        (text("x", finish_reason="content_filter"), "filtered"),
        (text("  "), "empty_answer"),
    ],
)
def test_what_is_no_answer_is_named_asked_once_and_no_draft(author, answer, code):
    author.cells.shell.rl_next_input = None
    error = author.fails("%%plan_objective\nRate", answer)
    assert (type(error), error.code) == (PlanAuthoringError, code)
    assert f"{code}: " in author.said
    assert "fake: 1 call" in author.said
    assert author.next_cell is None
    assert not author.cells.plans.exists()


def test_when_the_correction_is_cut_off_the_answer_before_it_is_kept(author):
    error = author.fails(
        "%%plan_objective morning\nRate", STRANGE, text('{"nodes": [', finish_reason="length")
    )
    assert error.code == "truncated"
    assert "the answer before that: drafts/rated-1" in author.said
    assert author.next_cell.startswith("%%plan morning\nname: rated\n")
    assert "model: fake" in author.draft("rated-1")


def test_without_a_model_one_line_says_what_to_do(author):
    get_workbench().planner = None
    error = author.fails("%%plan_objective\nRate")
    assert isinstance(error, CommandError)
    assert len(error._render_traceback_()) == 1
    assert "%plan prompt" in str(error)


def test_a_model_is_taken_from_the_line_then_from_the_configuration(author):
    other = FakeLLMClient(lambda _: json.dumps(GOOD), model="other")
    author.cells.shell.user_ns["other"] = other
    author.cells.ok("%%plan_objective --model @other\nRate")
    assert (len(other.requests), len(author.client.requests)) == (1, 0)
    author.cells.ok('%config PlanMagics.planner = "ollama:llama3"')
    assert get_workbench().planner == "ollama:llama3"
    author.cells.ok('%config PlanMagics.planner = ""')
    assert get_workbench().planner is None
    error = author.fails("%%plan_objective --model @nobody\nRate")
    assert "no variable 'nobody'" in str(error)


def test_an_unknown_provider_and_a_missing_key_are_told(author, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert isinstance(author.fails("%%plan_objective --model nobody:x\nRate"), ConfigurationError)
    error = author.fails("%%plan_objective --model openai:x\nRate")
    assert "OPENAI_API_KEY is not set" in str(error)


def test_no_key_is_in_any_output_of_a_real_client(author, monkeypatch):
    key = "sk-CANARY-0123456789"
    script = [failure(401, f"the key {key} is wrong"), text(json.dumps(GOOD))]
    with ScriptedServer(script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        error = author.fails("%%plan_objective --model openai:m\nRate")
        first = author.cells.outputs
        author.cells.ok("%%plan_objective --model openai:m\nRate")
        sent = [one.headers for one in server.requests]
    assert isinstance(error, ModelError)
    assert any(key in str(one) for one in sent)
    told = [str(error), json.dumps(first), json.dumps(author.cells.outputs), author.next_cell]
    assert "CANARY" not in "".join([*told, author.draft("rated-1")])


def test_a_name_is_the_plan_s_whatever_the_model_says(author):
    author.ok("%%plan_objective --name daily\nRate", GOOD)
    assert "name: daily\n" in author.next_cell
    assert author.draft("daily-1")


def test_braces_and_markup_in_an_answer_are_text(author):
    wild = {**SHORT, "objective": "<script>alert(1)</script> {x} & 'y'"}
    author.ok("%%plan_objective\n<b>Rate</b>", wild)
    assert load_plan(author.next_cell.partition("\n")[2]).objective == wild["objective"]
    shown = "\n".join(one.get("text/html", "") for one in author.cells.outputs)
    assert "<script>" not in shown


@pytest.mark.parametrize(
    "cell", ["%%plan_objective", "%%plan_objective x\n \n", "%%plan_objective --revise\n"]
)
def test_an_empty_cell_asks_nothing(author, cell):
    error = author.fails(cell)
    assert isinstance(error, CommandError)
    assert "the cell is empty" in str(error)


# -- revising ------------------------------------------------------------------------------


def test_a_revision_sends_plan_report_and_remark_and_shows_what_changed(author, sweep):
    author.cells.run(f"%%plan\n{sweep.replace('tool: score', 'tool: skore')}")
    said = author.ok("%%plan_objective --revise\nLeave the rating out\n", SHORT)

    asked = author.asked()
    assert "# the sweep of every morning" in asked
    assert "there is no tool 'skore'" in asked
    assert "<remark>\nLeave the rating out\n</remark>" in asked
    assert "- node rated: calls skore" in said
    assert "+ node found" in said
    assert any("image/svg+xml" in one and "text/html" in one for one in author.cells.outputs)
    assert "provenance" not in said
    assert author.next_cell.startswith("%%plan\nname: sweep\n")


def test_a_revision_of_a_variable_of_a_file_and_of_a_draft(author):
    author.ok("%%plan_objective p\nRate", GOOD)
    author.cells.write("sweep")
    author.ok("%%plan_objective p --revise\nShorter", SHORT)
    assert '"rate"' in author.asked() or "id: rate" in author.asked()
    assert len(author.cells.shell.user_ns["p"].nodes) == 1
    author.ok("%%plan_objective --revise sweep\nShorter", SHORT)
    assert "Find what is new" in author.asked()
    author.ok("%%plan_objective --revise drafts/rated-1\nShorter", SHORT)
    assert "id: rate" in author.asked()


def test_a_revision_keeps_the_objective_and_names_the_new_model(author):
    author.ok("%%plan_objective p\nRate what is at x", GOOD)
    author.cells.shell.user_ns["other"] = FakeLLMClient(lambda _: json.dumps(SHORT), model="other")
    author.ok("%%plan_objective p --revise --model @other\nShorter")
    came = author.cells.shell.user_ns["p"].provenance
    assert (came.objective, came.model) == ("Rate what is at x", "other")


def test_there_must_be_a_plan_to_revise(author):
    error = author.fails("%%plan_objective --revise\nShorter")
    assert "which plan to revise" in str(error)


# -- promoting -----------------------------------------------------------------------------


def test_the_draft_is_saved_under_a_name_with_where_it_came_from(author):
    author.ok("%%plan_objective\nRate what is at x", GOOD)
    assert author.cells.ok("%plan save rated") == "saved rated, version 1"
    assert author.cells.read("rated") == author.draft("rated-1")
    (row,) = get_workbench().plans.history("rated")
    assert (row.objective, row.model) == ("Rate what is at x", "fake")


def test_a_former_draft_is_saved_loaded_compared_and_run_by_its_name(author):
    author.ok("%%plan_objective\nRate", GOOD)
    author.ok("%%plan_objective\nRate", SHORT)
    author.cells.ok("%plan save kept drafts/rated-1")
    assert author.cells.read("kept") == author.draft("rated-1")
    assert "node rate" in author.cells.ok("%plan diff drafts/rated-1 drafts/rated-2")
    author.cells.ok("%plan load drafts/rated-1")
    assert author.next_cell == f"%%plan\n{author.draft('rated-1')}"
    author.cells.ok("r = %plan run drafts/rated-1")
    assert author.cells.shell.user_ns["r"].status == "completed"


def test_in_a_new_kernel_the_latest_draft_of_the_name_is_saved(author):
    author.ok("%%plan_objective\nRate", SHORT)
    author.ok("%%plan_objective\nRate", GOOD)
    author.cells.shell.magics_manager.registry["PlanMagics"].cells.latest = None
    author.cells.ok("%plan save rated")
    assert author.cells.read("rated") == author.draft("rated-2")
    assert "which plan to save" in str(author.cells.fails("%plan save other"))


# -- without a key -------------------------------------------------------------------------


def test_the_prompt_is_shown_without_any_model(author):
    get_workbench().planner = None
    said = author.cells.ok("%plan prompt Rate {x} 'and more' --tools fetch")
    assert "<objective>\nRate {x} and more\n</objective>" in said
    assert "- fetch(" in said
    assert "- score(" not in said
    assert "<objective>\nRate {x} and more\n</objective>" in author.page


def test_a_prompt_needs_an_objective_and_tools(author):
    assert isinstance(author.cells.fails("%plan prompt"), CommandError)
    for name in get_workbench().registry.names():
        get_workbench().registry.remove(name)
    assert isinstance(author.cells.fails("%plan prompt Rate"), CommandError)


QUOTED = 'a “quoted” text, ```fence```, a \\ and {"json": [1, 2,]} // none'


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "Here is the plan:\n\n```json\n{}\n```\n\nShall I run it?",
        "<think>maybe [1] or {{2}}</think>\n{}",
        '```\n{{"plan": {}}}\n```',
    ],
)
def test_a_pasted_answer_is_read_and_its_texts_stay_as_they_are(author, form):
    answer = {**SHORT, "nodes": [{"id": "found", "tool": "fetch", "args": {"key": QUOTED}}]}
    written = json.dumps(answer, ensure_ascii=False, indent=1)
    cell = form.replace("{{", "{").replace("}}", "}").replace("{}", written)
    author.cells.ok(f"%%plan p\n{cell}")
    assert author.cells.shell.user_ns["p"].nodes[0].args == {"key": QUOTED}
    author.cells.ok("%plan save pasted")
    assert get_workbench().plans.load("pasted").nodes[0].args == {"key": QUOTED}


# -- out of reach, interrupted -------------------------------------------------------------


def test_under_another_magic_nothing_is_asked(author):
    error = author.fails("%%time\n%%plan_objective\nRate")
    assert isinstance(error, CommandError)
    assert "waits for the model" in str(error)
    assert author.client.requests == []


def test_help_asks_nothing(author):
    assert "--revise" in author.cells.ok("%%plan_objective -h\nRate")
    assert "plan_objective" in author.cells.ok("%plan -h")


def test_an_interrupt_ends_the_question_and_leaves_nothing_behind(author):
    ended = []

    async def slow(request):
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(asyncio.current_task().cancelling())

    error = author.fails("%%plan_objective\nRate", slow)
    assert (type(error), error.code) == (PlanAuthoringError, "interrupted")
    assert ended == [1]
    assert "interrupted" in author.said


def test_the_next_cell_of_a_red_plan_is_red_too(author):
    author.fails("%%plan_objective\nRate", STRANGE, STRANGE)
    error = author.cells.fails(author.next_cell)
    assert isinstance(error, PlanInvalid)
