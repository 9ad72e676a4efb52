import asyncio
import json
import re
from pathlib import Path

import pytest

from planbench import (
    PlanAuthoringError,
    PlanPlanner,
    Tool,
    ToolRegistry,
    load_plan,
    run_sync,
)
from planbench.errors import ConfigurationError, ModelError
from planbench.llm import FakeLLMClient, LLMHandler
from planbench.llm.fake import text
from planbench.llm.server import failure
from planbench.planner import parse_plan

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "planner_outputs.jsonl"
RECORDS = (
    [json.loads(line) for line in SHARED.read_text(encoding="utf-8").splitlines()]
    if SHARED.is_file()
    else []
)

OBJECTIVE = "Read every file of {folder} in {}, and }say{ how many there are"
PLAN = {
    "name": "reading",
    "objective": "read all",
    "nodes": [
        {"id": "listing", "tool": "list_files", "args": {"folder": "in"}},
        {
            "id": "read",
            "tool": "read_file",
            "args": {"path": "{item}"},
            "depends_on": ["listing"],
            "for_each": {"source": "{artifacts.listing}", "select": "files[]"},
            "store_as": "file.{index}",
        },
    ],
}
GOOD = json.dumps(PLAN)
BAD = GOOD.replace("read_file", "read_fil").replace("folder", "{folder")


def author(objective=OBJECTIVE, **options):
    return lambda planner: planner.author(objective, **options)


# -- one question --------------------------------------------------------------------------


def test_an_objective_becomes_a_checked_plan_with_one_call(exchange):
    done = exchange([text(GOOD, input_tokens=100, output_tokens=20)], author())
    authored = done.value

    assert authored.report.ok
    assert authored.plan is authored.report.plan
    assert [node.id for node in authored.plan.nodes] == ["listing", "read"]
    assert authored.require() is authored.plan
    assert (authored.attempts, authored.text, authored.model) == (1, GOOD, "planner-1")
    assert (authored.usage.input_tokens, authored.usage.output_tokens) == (100, 20)
    assert authored.catalog.names == ("list_files", "read_file")
    assert len(done.bodies) == 1


def test_the_plan_that_comes_back_runs(exchange, tools):
    plan = exchange([GOOD], author()).value.require()

    manifest = run_sync(plan, registry=tools)

    assert manifest.status == "completed"


def test_where_a_plan_came_from_is_written_by_the_planner_and_not_by_the_model(exchange):
    written = {
        **PLAN,
        "provenance": {"model": "another", "objective": "x"},
        "requires": {"read_file": {"module": "os", "package": "evil"}},
    }
    plan = exchange([json.dumps(written)], author()).value.plan

    assert plan.provenance.model == "planner-1"
    assert plan.provenance.objective == OBJECTIVE
    assert plan.requires == {}
    assert load_plan(plan.to_yaml()) == plan


def test_the_name_is_the_one_that_is_given_and_what_is_left_out_is_filled(exchange):
    nodes = json.dumps({"nodes": PLAN["nodes"]})

    named = exchange([GOOD], author(name="mine")).value.plan
    filled = exchange([nodes], author("Read all files, please")).value.plan

    assert named.name == "mine"
    assert (filled.name, filled.objective) == ("read_all_files_please", "Read all files, please")


def test_braces_are_harmless_wherever_they_stand(exchange):
    done = exchange([BAD, GOOD], author())

    assert done.value.report.ok
    first, second = done.prompts
    assert OBJECTIVE in first[1]
    assert "List the files of a {folder}." in first[1]
    assert "It gives names, }never{ contents." in first[1]
    assert second[:2] == first
    assert second[2] == BAD
    assert "'{folder'" in second[3]


def test_the_schema_goes_with_the_question_and_is_sent_as_advice(exchange):
    [body] = exchange([GOOD], author()).bodies

    asked = body["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["strict"] is False
    assert asked["json_schema"]["schema"]["required"] == ["name", "objective", "nodes"]


def test_an_endpoint_without_schemas_gives_a_plan_too(exchange):
    refusal = failure(400, "This response_format type is unavailable now")
    done = exchange([refusal, f"Here:\n```json\n{GOOD}\n```"], author())

    assert done.value.report.ok
    assert done.value.attempts == 1
    assert "JSON" in done.prompts[1][0]  # JSON mode asks for the word


def test_the_text_is_streamed_to_a_callback(exchange):
    said = []
    done = exchange([BAD, GOOD], author(on_text=said.append))

    assert "".join(said) == BAD + GOOD
    assert done.value.report.ok


def test_limits_and_temperature_are_passed_on(exchange):
    [body] = exchange([GOOD], author(), max_tokens=500, temperature=0).bodies

    assert (body["max_tokens"], body["temperature"]) == (500, 0)


# -- one correction ------------------------------------------------------------------------


def test_a_wrong_plan_is_corrected_once_with_every_issue(exchange):
    wrong = GOOD.replace('"depends_on": ["listing"]', '"depends_on": ["lsiting"]').replace(
        "read_file", "read_fil"
    )
    done = exchange([text(wrong, input_tokens=1), text(GOOD, input_tokens=2)], author())

    assert done.value.report.ok
    assert done.value.attempts == 2
    assert done.value.usage.input_tokens == 3
    asked = done.prompts[1][-1]
    for part in ("[unknown_tool]", "did you mean 'read_file'", "[unknown_dependency]", "line 1"):
        assert part in asked


def test_a_plan_that_stays_wrong_is_given_with_its_report_and_not_asked_for_a_third_time(exchange):
    done = exchange([BAD, BAD, GOOD], author())
    authored = done.value

    assert len(done.bodies) == authored.attempts == 2
    assert not authored.report.ok
    assert authored.plan is not None  # to be drawn and mended
    assert "unknown_tool" in {issue.code for issue in authored.report.issues}
    with pytest.raises(PlanAuthoringError, match="read_fil") as caught:
        authored.require()
    assert caught.value.code == "plan_invalid"
    assert caught.value.report is authored.report


def test_of_two_wrong_answers_the_one_that_is_a_plan_is_kept(exchange):
    done = exchange([BAD, "I cannot mend that."], author())

    assert done.value.plan is not None
    assert done.value.text == BAD
    assert done.value.attempts == 2


def test_prose_is_corrected_as_any_wrong_answer(exchange):
    done = exchange(["Shall I write a plan?", GOOD], author())

    assert done.value.report.ok
    assert "[no_json]" in done.prompts[1][-1]


def test_a_warning_alone_asks_for_nothing(exchange):
    plan = json.dumps(PLAN).replace('"folder": "in"', '"folder": "{item}"')
    done = exchange([plan], author())

    assert done.value.report.ok
    assert [issue.code for issue in done.value.report.issues] == ["literal_item_variable"]


# -- what is no answer ---------------------------------------------------------------------

NO_ANSWERS = [
    ("truncated", text(GOOD[:80], finish_reason="length")),
    ("truncated", text("", finish_reason="length")),
    ("truncated", text(GOOD[:80])),
    ("refused", text("", refusal="I will not do {that}")),
    ("filtered", text("", finish_reason="content_filter")),
    ("filtered", failure(400, "policy", code="content_filter")),
    ("empty_answer", text("")),
    ("empty_answer", text(" \n")),
]


@pytest.mark.parametrize(("code", "answer"), NO_ANSWERS)
def test_what_is_no_answer_is_named_and_burns_no_correction(exchange, code, answer):
    done = exchange([answer, GOOD], author())
    error = done.outcome

    assert isinstance(error, PlanAuthoringError)
    assert (error.code, error.attempts, len(done.bodies)) == (code, 1, 1)
    assert not error.report.ok
    assert [issue.code for issue in error.report.issues] == [code]
    assert error.hint


def test_a_correction_that_is_no_answer_leaves_the_first_one_to_be_mended(exchange):
    error = exchange([BAD, text("", refusal="no")], author()).outcome

    assert (error.code, error.attempts, error.text) == ("refused", 2, BAD)
    codes = [issue.code for issue in error.report.issues]
    assert codes[0] == "refused"
    assert "unknown_tool" in codes
    assert error.report.plan is not None


def test_a_refusal_is_told_in_the_models_words(exchange):
    error = exchange([text("", refusal="I will not do {that}")], author()).outcome

    assert "I will not do {that}" in str(error)


def test_a_model_that_cannot_be_asked_is_another_error(exchange):
    error = exchange([failure(401, "no")], author()).outcome

    assert isinstance(error, ModelError)
    assert error.code == "model_unauthorized"


# -- the records of malformed answers ------------------------------------------------------


def as_calls(record):
    """The same malformation in a plan of calls: each step becomes a call of one tool."""
    raw = record["raw"]
    if record["plan_kind"] == "tool_nodes":
        return raw
    quote = r"""(\\?["'“”])"""
    raw = re.sub(quote + r"steps" + quote, r"\1nodes\2", raw)
    return re.sub(quote + r"description" + quote, r"\1tool\1: \1do\2, \1description\2", raw)


def steps_of(plan):
    return {
        "steps": [
            {"id": node.id, "description": node.description, "depends_on": node.depends_on}
            for node in plan.nodes
        ]
    }


def do(**arguments):
    return arguments


def registry_of(record):
    names = record.get("tool_registry") or ["do"]
    schema = {"type": "object"}
    return ToolRegistry(Tool.from_schema(name, "", schema, do) for name in names)


@pytest.mark.shared
@pytest.mark.skipif(not RECORDS, reason="the larger data sets are not there")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_a_malformed_answer_of_the_data_set_is_read_or_refused_over_http(exchange, record):
    raw = as_calls(record)
    done = exchange([raw, raw], author("do it"), registry=registry_of(record))

    if isinstance(done.outcome, PlanAuthoringError):
        report = done.outcome.report
    else:
        report = done.value.report
    outcome = "parse" if report.ok else "reject"
    assert outcome in (record["expect"], record["also_acceptable"]), report
    if report.ok:
        expected = record["expected"] if record["expect"] == "parse" else record["also_expected"]
        assert steps_of(report.plan) == expected
        assert len(done.bodies) == 1
        return
    if record["expect"] == "reject":
        codes = {issue.code for issue in report.issues}
        code = record["error"]["code"]
        assert code in codes or (code == "cycle" and "self_dependency" in codes)
        words = [word for word in record["error"]["must_mention"] if word != "steps"]
        assert all(word.lower() in str(report).lower() for word in words)
    is_cut = isinstance(done.outcome, PlanAuthoringError)
    assert [prompt[2:3] for prompt in done.prompts] == ([[]] if is_cut else [[], [raw]])


@pytest.mark.shared
@pytest.mark.skipif(not RECORDS, reason="the larger data sets are not there")
def test_every_record_of_steps_becomes_one_of_calls():
    for record in RECORDS:
        if record["plan_kind"] == "steps" and "description" in record["raw"]:
            assert "tool" in as_calls(record), record["id"]


# -- who may call what ---------------------------------------------------------------------


def test_a_tool_that_is_not_allowed_is_neither_offered_nor_accepted(exchange):
    done = exchange([GOOD, GOOD], author(), allowed_tools=["list_*"])

    assert done.value.catalog.names == ("list_files",)
    assert "read_file(" not in done.prompts[0][1]
    assert [issue.code for issue in done.value.report.issues] == ["tool_not_allowed"]
    assert "[tool_not_allowed]" in done.prompts[1][-1]


def test_a_pattern_narrows_what_is_allowed_and_never_widens_it(exchange):
    wider = exchange([GOOD, GOOD], author(tools="*_file*"), allowed_tools=["list_files"])
    narrower = exchange([GOOD, GOOD], author(tools="read_*"))

    assert wider.value.catalog.names == ("list_files",)
    assert narrower.value.catalog.names == ("read_file",)
    assert [issue.code for issue in narrower.value.report.issues] == ["tool_not_allowed"]


def test_a_secret_goes_where_the_host_lets_it(exchange):
    plan = GOOD.replace('"in"', '"{env.TOKEN}"')

    assert not exchange([plan, plan], author()).value.report.ok
    assert exchange([plan], author(), env={"TOKEN": ["list_*"]}).value.report.ok


def test_without_a_tool_there_is_nothing_to_ask(exchange):
    done = exchange([GOOD], author(tools="nothing_*"))

    assert isinstance(done.outcome, ConfigurationError)
    assert done.bodies == []


@pytest.mark.parametrize("objective", ["", "  \n", None])
def test_an_empty_objective_is_not_sent(exchange, objective):
    done = exchange([GOOD], author(objective))

    assert isinstance(done.outcome, ConfigurationError)
    assert done.bodies == []


def test_a_tool_that_is_registered_later_is_offered(exchange, tools):
    async def work(planner):
        def count_files(files: list[str]) -> int:
            """Count."""
            return len(files)

        tools.register(count_files)
        return await planner.author("count")

    assert "count_files(files: string[]) -> integer" in exchange([GOOD], work).prompts[0][1]


# -- revising ------------------------------------------------------------------------------


def test_a_remark_changes_a_plan(exchange):
    async def work(planner):
        first = await planner.author(OBJECTIVE)
        return await planner.revise(first.plan, first.report, "only {two} files")

    changed = GOOD.replace('"path": "{item}"', '"path": "{item}", "limit": 2').replace(
        "reading", "x"
    )
    done = exchange([GOOD, changed], work)

    assert done.value.report.ok
    assert done.value.plan.nodes[1].args["limit"] == 2
    assert done.value.plan.name == "reading"
    assert done.value.plan.provenance.objective == OBJECTIVE
    assert "only {two} files" in done.prompts[1][1]
    assert OBJECTIVE in done.prompts[1][1]
    assert '"select": "files[]"' in done.prompts[1][1]


def test_the_broken_text_of_a_cell_is_revised_from_its_own_check(exchange):
    broken = "name: reading\nobjective: o\nnodes:\n  - id: a\n    tool: list_fils\n    args: {folder: [}\n"
    done = exchange([GOOD], lambda planner: planner.revise(broken))

    assert done.value.report.ok
    assert broken in done.prompts[0][1]
    assert "[yaml_syntax]" in done.prompts[0][1]


# -- the rest ------------------------------------------------------------------------------


def test_the_prompt_for_a_chat_window_is_all_that_a_model_is_told(tools):
    planner = PlanPlanner(FakeLLMClient(lambda request: GOOD), tools)

    prompt = planner.prompt(OBJECTIVE)
    asyncio.run(planner.author(OBJECTIVE))

    system, user = planner.llm.requests[0].messages
    assert prompt == f"{system.content}\n\n{user.content}"


def test_the_example_in_the_prompt_is_a_plan_that_passes():
    from planbench.planner.prompts import LANGUAGE

    def list_reports(date: str) -> dict:
        return {}

    def fetch_report(report_id: str) -> dict:
        return {}

    def compare(reports: list[dict]) -> dict:
        return {}

    example = LANGUAGE[LANGUAGE.index('{"name": "sweep"') :]

    assert parse_plan(example, tools=ToolRegistry([list_reports, fetch_report, compare]))


def test_a_handler_counts_and_prices_what_a_planner_asks(tools):
    fake = FakeLLMClient(lambda request: text(GOOD, input_tokens=1_000_000))
    handler = LLMHandler(fake, {"fake": (2.0, 0.0)})

    authored = asyncio.run(PlanPlanner(handler, tools).author(OBJECTIVE))

    assert authored.usage.cost == handler.usage.cost == 2.0


def test_no_result_of_a_run_is_in_any_prompt(exchange):
    canary = "canary-51c7"
    seen = []

    def list_files(folder: str) -> dict:
        """List."""
        seen.append(folder)
        return {"files": [f"{canary}-{i}" for i in range(3)], "n": 3}

    def read_file(path: str, limit: int = 10) -> str:
        """Read."""
        raise ValueError("no such file")

    registry = ToolRegistry([list_files, read_file])

    async def work(planner):
        from planbench import run_plan

        written = json.loads(GOOD)
        written["nodes"][0]["facets"] = {"counts": {"n": "files[]"}}
        plan = load_plan(json.dumps(written))
        manifest = await run_plan(plan, registry=registry)
        await planner.revise(plan, None, "again")
        failed = [ref for ref in manifest.artifacts if ref.status == "error"]
        assert [ref.node_id for ref in failed] == ["read"]
        return await planner.repair_delta(plan, failed, ["read"], refs=manifest.artifacts)

    delta = json.dumps(
        {"nodes": [{**PLAN["nodes"][1], "tool": "list_files", "args": {"folder": "{item}"}}]}
    )
    done = exchange([GOOD, delta], work, registry=registry)

    assert done.value.nodes[0].tool == "list_files"
    assert seen
    sent = json.dumps(done.bodies)
    assert canary not in sent
    assert '\\"n\\": 3' in sent  # the facet is there
