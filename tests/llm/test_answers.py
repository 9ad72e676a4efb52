import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import ToolRegistry, load_plan
from planbench.errors import PlanInvalid
from planbench.plan.steps import Step, StepPlan
from planbench.planner import parse_plan, parse_steps

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "planner_outputs.jsonl"
RECORDS = (
    [json.loads(line) for line in SHARED.read_text(encoding="utf-8").splitlines()]
    if SHARED.is_file()
    else []
)

STEPS = {
    "steps": [
        {"id": "list", "description": "list the files", "depends_on": []},
        {"id": "read", "description": "read each file", "depends_on": ["list"]},
    ]
}
PLAN = """name: sweep
objective: find what is new
nodes:
- id: listing
  tool: list_files
  args: {folder: in}
- id: fetch
  tool: read_file
  args: {path: "{item}"}
  depends_on: [listing]
  for_each: {source: "{artifacts.listing}", select: "files[]"}
"""


def list_files(folder: str) -> dict:
    return {"files": [folder]}


def read_file(path: str, limit: int = 10) -> str:
    return path[:limit]


TOOLS = ToolRegistry([list_files, read_file])


def told(parse, text, **options):
    """Each issue as code, node, line and column."""
    with pytest.raises(PlanInvalid) as caught:
        parse(text, **options)
    return [(i.code, i.node_id, i.line, i.column) for i in caught.value.issues]


def marked(text):
    """Take the signs § out of a text, and give the places where they stood."""
    places = []
    for line, written in enumerate(text.split("\n"), 1):
        parts = written.split("§")
        ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts) - 1)]
        places += [(line, end + 1) for end in ends]
    return text.replace("§", ""), places


def refused(parse, text, *told_of, **options):
    """Check the issues, code and node, at the signs § of the text."""
    text, places = marked(text)
    expected = [(*what, *place) for what, place in zip(told_of, places, strict=True)]
    assert told(parse, text, **options) == expected


def said(parse, text, **options):
    with pytest.raises(PlanInvalid) as caught:
        parse(text, **options)
    return str(caught.value)


# -- the larger data set -----------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.skipif(not RECORDS, reason="the larger data sets are not there")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_an_answer_of_the_data_set_is_read_or_refused_as_expected(record):
    plan, refusal = None, None
    try:
        if record["plan_kind"] == "steps":
            plan = parse_steps(record["raw"]).model_dump()
        else:
            plan = parse_plan(record["raw"], tools=record["tool_registry"]).to_dict()
    except PlanInvalid as error:
        refusal = error

    outcome = "reject" if plan is None else "parse"
    assert outcome in (record["expect"], record["also_acceptable"]), refusal
    if plan is not None:
        assert plan == (
            record["expected"] if record["expect"] == "parse" else record["also_expected"]
        )
    elif record["error"] is not None:
        assert record["error"]["code"] in {issue.code for issue in refusal.issues}
        for word in record["error"]["must_mention"]:
            assert word.lower() in str(refusal).lower()


@pytest.mark.shared
@pytest.mark.skipif(not RECORDS, reason="the larger data sets are not there")
def test_the_data_set_is_whole_and_fields_that_no_step_has_are_refused():
    records = {record["id"]: record for record in RECORDS}

    assert len(records) == 25
    assert told(parse_steps, records["po06"]["raw"]) == [
        ("unknown_field", "s2", 1, records["po06"]["raw"].index("'optional'") + 1),
        ("unknown_field", "s2", 1, records["po06"]["raw"].index("'hint'") + 1),
    ]


# -- steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(STEPS),
        "\ufeff" + json.dumps(STEPS, indent=1).replace("\n", "\r\n"),
        f"Here you go:\n```json\n{json.dumps(STEPS, indent=2)}\n```\nSee [1] and {{more}}.",
        f"<think>\nPerhaps {{'steps': [{{'id': 'x'}}]}}.\n</think>\n{json.dumps(STEPS)}",
        f"First `ls {{dir}}`:\n```sh\nls {{dir}}\n```\n{json.dumps(STEPS)}",
        json.dumps(STEPS).replace("]}", ",],}").replace("[,", "["),
        json.dumps(STEPS, indent=1).replace("},", "}, // next {"),
        repr(STEPS),
        json.dumps(STEPS).replace('"', "“"),
        (
            "```yaml\nsteps:\n- {id: list, description: list the files}\n"
            "- id: read\n  description: read each file\n  depends_on: [list]\n```"
        ),
        json.dumps({"plan": STEPS}),
    ],
)
def test_what_models_send_for_steps_is_read(text):
    assert parse_steps(text) == StepPlan.model_validate(STEPS)


@pytest.mark.parametrize(
    "description",
    [
        "Collect a, ] and b, } // as # written",
        "Ask the team's lead, don't guess",
        'Run:\n```python\nprint({"a": 1})\n```\n',
        "a \\ b \\\\ c \\n d",
        "“curly” and 'single' and \"double\"",
        '</think> {"steps": []} NaN None',
        "tab\tand break\r\nend",
        "",
    ],
)
def test_the_text_of_a_step_comes_out_as_it_went_in(description):
    record = {"steps": [{"id": "s1", "description": description}]}
    plan = StepPlan(steps=[Step(id="s1", description=description)])

    for text in (json.dumps(record), json.dumps(record, ensure_ascii=False), repr(record)):
        assert parse_steps(text) == plan
        assert parse_steps(f"So {{x}}:\n```json\n{text}\n```\nDone [1].") == plan


def test_raw_line_breaks_in_a_text_are_kept():
    text = '{"steps": [{"id": "s1", "description": "one\ntwo\tend"}]}'

    assert parse_steps(text).steps[0].description == "one\ntwo\tend"


def test_an_answer_without_text_is_refused():
    assert told(parse_steps, None) == [("no_json", None, None, None)]
    assert told(parse_plan, None) == [("no_json", None, None, None)]


@pytest.mark.parametrize(
    ("text", "issues"),
    [
        ("§", [("no_json", None)]),
        ("§I cannot do that.", [("no_json", None)]),
        ('{"steps": [{"id": "a", "description": §"list the', [("truncated", None)]),
        (f"{json.dumps(STEPS)}§{json.dumps(STEPS)}", [("extra_data", None)]),
        ("§{}", [("missing_field", None)]),
        ('So:\n{"steps": [{"id": "a" §"b"}]}', [("invalid_json", None)]),
        (
            'So:\n{"steps": [{"id": "a", "description": "x", §"cost": §NaN}]}',
            [("unknown_field", "a"), ("invalid_number", None)],
        ),
        ('{"steps": [{"id": "a", "description": §-Infinity}]}', [("invalid_number", None)]),
        ('{"steps": [{"id": §01, "description": "x"}]}', [("invalid_number", None)]),
        ('{"steps": §"[{}]"}', [("bad_field", None)]),
        (
            'Well\n\n{"steps": [{"id": "a", "description": "x",\n"depends_on": §"b"}]}',
            [("bad_field", "a")],
        ),
        (
            '{"steps": [{"id": "a", "description": "x", §"dependsOn": []}]}',
            [("unknown_field", "a")],
        ),
        (
            '{"steps": [{"id": "a", §"id": "b", "description": §"\\ud800"}]}',
            [("duplicate_key", "a"), ("invalid_json", "a")],
        ),
        ("steps:\n- id: a\n  description: §b: c\n", [("yaml_syntax", "a")]),
        (f'{{"steps": {"[" * 109}§{"[" * 9}{"]" * 118}}}', [("invalid_json", None)]),
        ('{"steps": [{"id": "a", "description": "§\0"}]}', [("invalid_json", None)]),
        ("{'steps': [{'id': 'a', 'description': 'x§\\d'}]}", [("invalid_json", None)]),
    ],
)
def test_an_answer_that_is_no_plan_of_steps_is_refused_at_its_place(text, issues):
    refused(parse_steps, text, *issues)


def test_everything_between_steps_is_found_at_once():
    text = """```json
{"steps": [
  {"id": "a", "description": "x", "depends_on": §["b"]},
  {"id": "b", "description": "x", "depends_on": ["a", §"zz"]},
  {"id": "c", "description": "x", "depends_on": §[§"c"]},
  {"id": §"a", "description": "x"}
]}
```"""

    refused(
        parse_steps,
        text,
        ("cycle", "a"),
        ("unknown_dependency", "b"),
        ("cycle", "c"),
        ("self_dependency", "c"),
        ("duplicate_id", "a"),
    )
    assert "a -> b -> a" in said(parse_steps, text.replace("§", ""))


def test_the_places_are_those_of_the_answer_in_whatever_quotes():
    text = "Plan:\n{'steps': [{'id': 'a \"b\"', 'description': 'it\\'s', §'x': 1,\n §'y': 2}]}"

    refused(parse_steps, text, ("unknown_field", 'a "b"'), ("unknown_field", 'a "b"'))


def test_the_lines_that_a_message_names_are_those_of_the_answer():
    text = 'Plan:\n\n{"steps": [{"id": "a", "description": "x",\n"id": "b"}]}'

    assert "on lines 3 and 4" in said(parse_steps, text)


# -- plans of calls ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        f"Here it is:\n\n```yaml\n{PLAN}```\nIt has {{two}} nodes.",
        f"```json\n{load_plan(PLAN).to_json()}```",
        f"Sure. {json.dumps(load_plan(PLAN).to_dict(compact=True))} [end]",
        repr(load_plan(PLAN).to_dict(compact=True)),
    ],
)
def test_what_models_send_for_a_plan_is_read(text):
    assert parse_plan(text) == load_plan(PLAN)
    assert parse_plan(text, tools=TOOLS) == load_plan(PLAN)
    assert parse_plan(text, tools=["list_files", "read_file"]) == load_plan(PLAN)


def test_name_and_objective_stand_in_for_what_the_answer_leaves_out():
    nodes = '{"nodes": [{"id": "a", "tool": "t"}]}'
    plan = parse_plan(nodes, name="n", objective="o")

    assert (plan.name, plan.objective) == ("n", "o")
    assert told(parse_plan, nodes) == [
        ("missing_field", None, 1, 1),
        ("missing_field", None, 1, 1),
    ]
    assert told(parse_plan, nodes, name="n") == [("missing_field", None, 1, 1)]
    assert parse_plan(PLAN, name="n", objective="o") == load_plan(PLAN)
    assert parse_plan(f'{{"plan": {nodes}}}', name="n", objective="o") == plan


def test_an_unknown_tool_is_told_beside_what_is_missing_and_what_there_is_is_named():
    text = 'Plan:\n§§{"nodes": [{"id": "a", "tool": "list_files"},\n{"id": "b", "tool": §"run"}]}'
    missing = ("missing_field", None)

    for tools in (["list_files", "read_file"], {"list_files": 1, "read_file": 2}):
        refused(parse_plan, text, missing, missing, ("unknown_tool", "b"), tools=tools)
        plain = text.replace("§", "")
        assert "registered: list_files, read_file" in said(parse_plan, plain, tools=tools)
    given = {"name": "n", "objective": "o"}
    text = text.replace("§", "").replace('"list_files"', '§"list_files"').replace('"run"', '§"run"')
    unknown = [("unknown_tool", "a"), ("unknown_tool", "b")]
    refused(parse_plan, text, *unknown, tools=[], **given)
    refused(parse_plan, text, *unknown, tools=ToolRegistry([read_file]), **given)


def test_one_name_is_one_tool():
    text = "name: n\nobjective: o\nnodes: [{id: a, tool: list_files, args: {x: 1}}]"

    assert parse_plan(text, tools="list_files").nodes[0].tool == "list_files"
    assert told(parse_plan, text, tools="l") == [("unknown_tool", "a", 3, 23)]


def test_with_a_registry_calls_paths_and_guards_are_checked_in_the_same_look():
    plan = PLAN.replace("folder: in", "folder: §5, §deep: 1").replace('"files[]"', '§"files["')
    text = f"""Plan:
```yaml
{plan}- id: end
  tool: list_files
  args: {{folder: x}}
  depends_on: [fetch]
  when: §ctx.artifacts.fetch.nothing > 0 and true
```"""

    of_calls = [("bad_arg_type", "listing"), ("unknown_args", "listing")]
    of_all = [("bad_path", "fetch"), ("bad_guard", "end")]
    refused(parse_plan, text, *of_calls, *of_all, tools=TOOLS)
    refused(parse_plan, text.replace("§5, §deep", "5, deep"), *of_all)


def test_a_function_among_the_names_is_checked_as_a_tool():
    text = PLAN.replace("{folder: in}", "§{§deep: 1}")
    issues = [("missing_args", "listing"), ("unknown_args", "listing")]

    refused(parse_plan, text, *issues, tools=[list_files, "read_file"])


def test_who_may_have_a_secret_is_asked_of_the_host_and_not_of_the_answer():
    text = PLAN.replace("folder: in", "folder: '{env.TOKEN}'")

    assert parse_plan(text, tools=TOOLS).nodes[0].args == {"folder": "{env.TOKEN}"}


def test_a_parameter_may_be_without_a_value():
    text = PLAN.replace("folder: in", "folder: '{params.folder}'")

    assert parse_plan(text, tools=TOOLS) == load_plan(text)


TRAP = [("unquoted_placeholder", "a"), ("literal_item_variable", "a")]


@pytest.mark.parametrize(
    ("text", "issues"),
    [
        ("§no plan", [("no_json", None)]),
        ("name: n\nobjective: o\nnodes:\n- §id: a\n", [("missing_field", "a")]),
        (f"§```yaml\n{PLAN}", [("truncated", None)]),
        (f"```\n{PLAN}```\n§```\n{PLAN}```", [("extra_data", None)]),
        ('x {"nodes": [{"id": "a", "tool": "t"}, {"id"§', [("truncated", None)]),
        (
            (
                'x\n{"name": "n", "objective": "o", "nodes": [{"id": "a", "tool": "t",'
                ' "args": {"x": §§{item.y}}}]} y {z}'
            ),
            TRAP,
        ),
        ("name: n\nobjective: o\nnodes:\n- {id: a, tool: t, args: {q: §§{item.y}}}\n", TRAP),
        (f"Well:\n```\n{PLAN}  §tool: t\n```", [("duplicate_key", "fetch")]),
        ('{"name": "n", "objective": "say "§hi"", "nodes": []}', [("invalid_json", None)]),
    ],
)
def test_an_answer_that_is_no_plan_is_refused_at_its_place(text, issues):
    refused(parse_plan, text, *issues)


def test_no_plan_is_taken_out_of_the_arguments_of_a_broken_one():
    inner = '{"name": "n", "objective": "o", "nodes": [{"id": "x", "tool": "t"}]}'
    outer = f'{{"id": "a", "tool": "run", "args": {inner}}}'

    for text in (
        f'{{"name": "n", "nodes": [{outer} {outer}]}}',
        f'{{"name": "n" "nodes": [{outer}]}}',
        f'{{"name": "n", "nodes": [{outer}, {{"id": "b"',
        f"[{outer}, {{oops}}]",
        f"[{outer}]",
        f"name: n\nobjective: o\nnode:\n- {outer}\n",
    ):
        with pytest.raises(PlanInvalid):
            parse_plan(text)


def test_braces_in_an_answer_are_only_text_in_what_is_said_about_it():
    text = '{"nodes": [{"id": "{x}", "tool": "{}", "args": "}"}, {"{y}": "%s {0}"}]}'

    assert "'{x}'" in said(parse_plan, text)
    assert "'{y}'" in said(parse_plan, text)


def test_reading_answers_loads_nothing_heavy():
    program = (
        "import sys, planbench.planner as p\n"
        'p.parse_steps(\'{"steps": [{"id": "a", "description": "x"}]}\')\n'
        "print(*sorted({'pandas', 'pyarrow', 'openai', 'IPython', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "\n"


# -- whatever comes ------------------------------------------------------------------------

PIECES = st.lists(
    st.sampled_from(
        [
            "{",
            "[",
            '{"steps": [',
            '{"nodes": [{"id": "a", ',
            '"tool": "t"',
            '"id": ',
            "nodes:\n- id: a\n  tool: b\n",
            "steps:\n",
            "```",
            "```yaml\n",
            "~~~\n",
            "\n",
            '"',
            "'",
            "\\",
            "}",
            "]",
            ",",
            ":",
            "1",
            "NaN",
            "None",
            "“",
            "//",
            "#",
            "<think>",
            "</think>",
            "\ufeff",
            "\0",
            "\ud800",
            "\x85",
            "\t",
            "- ",
            "&a ",
            "*a",
            "!x ",
            "{item}",
            "name: p\n",
            json.dumps(STEPS),
            PLAN,
        ]
    ),
    max_size=30,
).map("".join)
ANY = st.text(alphabet=st.characters(exclude_categories=[]), max_size=80)


@settings(max_examples=400, deadline=None)
@given(PIECES | ANY)
def test_any_text_gives_a_plan_or_says_what_is_wrong_at_a_place_inside_of_it(text):
    lines = re.split(r"\r\n|\n|\r", text)
    for parse in (parse_steps, parse_plan):
        issues = None
        try:
            parse(text)
        except PlanInvalid as refusal:
            issues = refusal.issues
        assert issues is None or issues
        for issue in issues or ():
            assert 1 <= issue.line <= len(lines)
            assert 1 <= issue.column <= len(lines[issue.line - 1]) + 1


@pytest.mark.parametrize("parse", [parse_steps, parse_plan])
@pytest.mark.parametrize(
    "piece",
    [
        "{",
        "[",
        "```",
        "```\n",
        '"',
        "\\",
        "'",
        '{"',
        "[{",
        '{"a":',
        '{"steps": [',
        "{'a': '",
        "~~~\n",
        "\n",
        "<think>",
        "{a: ",
        "- ",
        "nodes:\n",
        "}",
        "“",
    ],
)
@pytest.mark.timeout(30)
def test_a_hundred_thousand_characters_of_anything_are_refused_in_one_go(piece, parse):
    with pytest.raises(PlanInvalid):
        parse(piece * (100_000 // len(piece)))


TEXTS = st.text(max_size=30) | st.sampled_from(
    ['"', "\\", "}", "```\n{", "</think>", "it's", "// x"]
)


@st.composite
def step_plans(draw):
    names = draw(
        st.lists(
            st.from_regex(r"[a-z][a-z0-9]{0,4}", fullmatch=True),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    return {
        "steps": [
            {
                "id": name,
                "description": draw(TEXTS),
                "depends_on": draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else [],
            }
            for i, name in enumerate(names)
        ]
    }


@settings(max_examples=200)
@given(
    step_plans(),
    st.sampled_from(
        ["{}", "Yes:\n```json\n{}\n```\nSee [1] {{x}}.", "<think>{{}}</think>{}", "> {} <"]
    ),
)
def test_a_plan_of_steps_is_the_same_in_its_wrapping_as_alone(record, wrapping):
    plan = StepPlan.model_validate(record)

    for text in (
        json.dumps(record),
        json.dumps(record, ensure_ascii=False, indent=2),
        repr(record),
    ):
        assert parse_steps(wrapping.format(text)) == plan
