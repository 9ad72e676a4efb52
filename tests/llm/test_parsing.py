import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planbench.llm import Extracted, extract
from planbench.plan.document import format_json, format_yaml, read_document
from planbench.plan.issues import ValidationIssue

STEPS = '{"steps": [{"id": "a", "description": "x"}]}'
NODES = '{"nodes": [{"id": "a", "tool": "t"}]}'
YAML = "name: p\nobjective: o\nnodes:\n- id: a\n  tool: t\n"


def taken(text):
    found = extract(text)
    assert found.issues == []
    return found.text


def refused(text):
    found = extract(text)
    assert found.text == ""
    (issue,) = found.issues
    return issue.code, issue.line, issue.column


@pytest.mark.parametrize(
    "text",
    [
        STEPS,
        f"\n {NODES} \n",
        YAML,
        YAML.replace("\n", "\r\n"),
        f"# {STEPS}\n---\n{YAML}",
        f"{YAML}  args: {STEPS}\n",
        f"{YAML}  description: |\n    ```json\n    {STEPS}\n    ```\n    <think>\n",
        f"{YAML}  description: 'a </think>'\n",
        "{name: p, objective: o, nodes: [{id: a, tool: t, args: {steps: [{}]}}]}",
        '{"a": "</think> ```json {\\"steps\\": []} ```", "nodes": []}',
        '{"nodes": "{\\"steps\\": [{}]}"}',
        "name: p\nobjective: o\n",
        "nmae: p\nobjctive: o\nnoodes: []\n",
        '{name: p, "x": {"a": 1',
    ][:-1],
)
def test_a_plan_alone_is_given_as_it_is(text):
    found = extract(text)

    assert found.text is text
    assert (found.line_offset, found.column_offset, found.issues) == (0, 0, [])


def test_a_byte_order_mark_is_no_part_of_the_plan():
    assert taken(f"\ufeff{STEPS}") == STEPS
    assert taken(f"\ufeff{YAML}") == YAML
    assert taken(f"\ufeffHere:\n{STEPS}") == STEPS


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("```json\n{}\n```", 2, 1),
        ("Sure, here it is:\n\n  {}\n\nIt lists [1] and {details}.", 3, 3),
        ("Use `{x}` and {y: 1}, [2]: {}. Then {z}.", 1, 28),
        ("Run\n```bash\necho {hello} | jq '.[]'\n```\nthen\n~~~\n{}\n~~~\n", 7, 1),
        ("<think>\nMaybe {} or {}?\n</think>\n{}", 4, 1),
        ("Well.\n<think>{} or {}</think> {}", 2, 69),
        ("Maybe {}? No.\n</think>\n\n{}", 4, 1),
        ("plan = {}\nrun(plan)", 1, 8),
        ('It\'s "so": {}', 1, 12),
        ("{ {} }", 1, 3),
        ("[{}]", 1, 2),
        ("(see [{}])", 1, 7),
        ("{{}}", 1, 2),
        ('A {"steps": [...]} is {"steps": []}, {"a": 1} or {"b": 2}.\r\n{}', 2, 1),
        ("{'a': \"b\n{}", 2, 1),
        ('{"a {}', 1, 5),
        ('{"a": x {}', 1, 9),
        ("{# {}", 1, 4),
        ("{} <think>", 1, 1),
    ],
)
def test_a_plan_is_found_with_its_place(text, line, column):
    for plan in (STEPS, NODES):
        found = extract(_with(plan, text))

        assert (found.text.strip(), found.issues) == (plan, [])
        assert found.is_json
        assert read_document(found.aligned).mark(()) == (line, column)


def _with(plan, text):
    """Put the plan into the last braces, and one that is only thought of into those before."""
    *before, after = text.split("{}")
    return '{"steps": [{"id": "z"}]}'.join(before) + plan + after


def test_yaml_in_a_fence_is_found_with_its_place():
    found = extract(f"Here:\n\n```yaml\n{YAML}```\nDone {{x}}.")

    assert (found.text, found.line_offset, found.column_offset) == (YAML, 3, 0)
    assert not found.is_json
    assert taken(f"Here {{x}}:\n~~~\n{YAML}  args: {STEPS}\n~~~\n") == f"{YAML}  args: {STEPS}\n"
    assert taken("```\n{nodes: [{id: a, tool: t}]}\n```") == "{nodes: [{id: a, tool: t}]}\n"


def test_the_aligned_text_stands_on_the_lines_of_the_original():
    text = f"Here:\n\n  {STEPS} end"
    found = extract(text)

    assert found.aligned == f"\n\n  {STEPS}"
    assert read_document(found.aligned).mark(("steps", 0, "id")) == (3, 21)
    assert text.splitlines()[2][20:].startswith('"a"')


def test_an_issue_behind_a_text_in_other_quotes_gets_the_place_of_the_original():
    text = "So:\n      {'steps': [{'id': 'say \"a\"', 'x': 1,\n 'd': 'it\\'s', 'y': 2}]} end"
    found = extract(text)
    document = read_document(found.aligned)

    for key in ("id", "x", "d", "y"):
        place = document.key_mark(("steps", 0, key))
        issue = ValidationIssue(code="c", message="m", line=place.line, column=place.column)
        mended = found.placed(issue)
        line = text.splitlines()[mended.line - 1]
        assert line[mended.column - 1 :].startswith(f"'{key}'")

    without = ValidationIssue(code="c", message="m")
    assert found.placed(without) is without
    assert extract(STEPS).placed(issue) is issue


def test_line_breaks_between_quotes_move_nothing_that_follows():
    text = '{"steps": [{"id": "a\nb\tc", "x": 1,\n"y": 2}]}'
    found = extract(text)
    document = read_document(found.aligned)

    assert document.value == {"steps": [{"id": "a\nb\tc", "x": 1, "y": 2}]}
    assert document.key_mark(("steps", 0, "x")).line == 2
    place = document.key_mark(("steps", 0, "y"))
    assert place == (3, 1)


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "no_json", 1, 1),
        (" \n", "no_json", 1, 1),
        ("\ufeff", "no_json", 1, 1),
        ("I am sorry, I cannot plan this.", "no_json", 1, 1),
        ("Use [a], {b} or (c).", "no_json", 1, 1),
        ("```\nnothing\n```", "no_json", 1, 1),
        ("<think>no</think>\nSorry: no.", "no_json", 1, 18),
        (STEPS[:-3], "truncated", 1, 42),
        (STEPS[:-8], "truncated", 1, 37),
        (STEPS[:4], "truncated", 1, 2),
        (f"Here:\n```json\n{STEPS[:-2]}\n```\nBye.", "truncated", 4, 1),
        (f"Here:\n```json\n{STEPS[:-2]}", "truncated", 3, 43),
        ('{"name": "p", "objective": "to', "truncated", 1, 28),
        ('{"a": x} is short for {"b": [', "truncated", 1, 30),
        (f"{STEPS}\nBetter:\n{STEPS[:12]}", "truncated", 3, 13),
        (f'{{"result": {STEPS}', "truncated", 1, 56),
        (STEPS.replace('"', "“")[:-8], "truncated", 1, 37),
        (f"<think>\nMaybe {STEPS}? ", "truncated", 2, 52),
        (f"```yaml\n{YAML}", "truncated", 1, 1),
        (STEPS + STEPS, "extra_data", 1, 45),
        (f"{STEPS}\nor\n{NODES}", "extra_data", 3, 1),
        (f"[{STEPS},\n {STEPS}]", "extra_data", 2, 2),
        (f"```yaml\n{YAML}```\n{STEPS}", "extra_data", 8, 1),
        ('{"id": "a"}\n{"id": "b"}', "extra_data", 2, 1),
    ],
)
def test_where_there_is_not_one_plan_that_is_said(text, code, line, column):
    assert refused(text) == (code, line, column)


def test_the_message_names_where_the_other_end_is():
    assert "the first is on line 1, column 1" in extract(f"{STEPS}\n{STEPS}").issues[0].message
    assert (
        "what starts on line 2, column 3 is never closed"
        in extract(f"Hm\n  {STEPS[:-1]}").issues[0].message
    )
    assert "'steps'" in extract("no", ("steps",)).issues[0].message


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('Hm {"steps": [{"id": "a" "b"}]} so {"x": 1}', '{"steps": [{"id": "a" "b"}]}'),
        (f'{{"name": "say "hi"", "nodes": [{{"id": "a", "args": {STEPS}}}]}}', None),
        (f'[{{"id": "a", "args": {STEPS}}}, {{"id" "b"}}] end', None),
        ('x {"steps": [{"id": {artifacts.b}}]} y', '{"steps": [{"id": {artifacts.b}}]}'),
        ('```\n{"steps": [{"id": 1 2}\n```\nBye', '{"steps": [{"id": 1 2}\n'),
    ],
)
def test_a_plan_that_is_broken_is_left_to_its_reader_and_no_part_of_it_is_taken(text, left):
    found = extract(text)

    assert found.is_json
    assert found.issues == []
    assert not read_document(found.aligned).complete or read_document(found.aligned).problems
    if left:
        assert found.text == left


def test_a_map_that_is_no_plan_is_given_when_there_is_no_other():
    assert taken("{}") == "{}"
    assert taken("{name: p, objective: o}") == "{name: p, objective: o}"
    assert taken('It gave {"error": "x"}.') == '{"error": "x"}'
    assert taken('{"steps": "[]"} is it.') == '{"steps": "[]"}'
    assert taken('So [{"id": "a"}, {"id": "b"}].') == '[{"id": "a"}, {"id": "b"}]'


def test_numbers_that_are_none_are_told_and_the_rest_is_given():
    found = extract('Plan: {"steps": [{"n": NaN}, {"n": 0x1}]}')

    assert found.text == '{"steps": [{"n": null}, {"n": null}]}'
    assert [(i.code, i.line, i.column) for i in found.issues] == [
        ("invalid_number", 1, 24),
        ("invalid_number", 1, 36),
    ]
    assert extract('{"nodes": [1e999]}').issues[0].code == "invalid_number"


def test_which_keys_make_a_plan_can_be_chosen():
    text = f"{STEPS}\n{NODES}"

    assert extract(text, ("steps",)).text == STEPS
    assert extract(text, ("nodes",)).text == NODES
    assert extract(f'{{"tasks": [{{}}]}} {STEPS}', ("tasks",)).text == '{"tasks": [{}]}'


def test_a_text_that_is_too_long_is_left_to_the_reader(monkeypatch):
    monkeypatch.setattr("planbench.llm.parsing.Limits", lambda: type("L", (), {"max_chars": 10}))

    assert extract(STEPS) == Extracted(STEPS)


SIGNS = "{}[]()\"'`\\:,;.#/*<>~-|& \n\r\té1a“”"


@settings(max_examples=500)
@given(st.text(alphabet=SIGNS, max_size=80) | st.text(max_size=80))
def test_any_text_gives_an_answer_and_places_inside_of_it(text):
    found = extract(text)

    lines = re.split(r"\r\n|\n|\r", text)
    for issue in found.issues:
        assert issue.line <= len(lines)
        assert issue.column <= len(lines[issue.line - 1]) + 1
    assert found.text or found.issues


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [
                "{",
                "[",
                '{"steps":',
                "[{",
                '"id":',
                '"',
                "'",
                "}",
                "]",
                ",",
                "1",
                " ",
                "\n",
                "```",
                "x",
                "// ",
                "\\",
                "<think>",
                "</think>",
                "nodes:",
                "\n- ",
                STEPS,
            ]
        ),
        max_size=25,
    ).map("".join)
)
def test_any_text_of_the_pieces_of_plans_gives_an_answer(text):
    found = extract(text)

    assert found.text or found.issues
    read_document(found.aligned)


VALUES = st.text(alphabet=SIGNS + '`{}"\\', max_size=40) | st.sampled_from(
    ["```json\n{}\n```", "</think>", '{"steps": [{}]}', "\\", '"', "}\n]", "// x", "nodes:\n- a"]
)
PLANS = st.lists(VALUES, min_size=1, max_size=3).map(
    lambda texts: {
        "name": "p",
        "objective": texts[0],
        "nodes": [
            {"id": f"n{i}", "args": {text: [text, {"steps": [{"a": text}]}]}}
            for i, text in enumerate(texts)
        ],
    }
)
PROSE = st.text(alphabet=SIGNS, max_size=40) | st.lists(
    st.sampled_from(
        [
            "See [1]",
            "{x}",
            "```",
            "```bash\nls {a}\n```",
            "~~~",
            "don't",
            '"',
            "\n",
            " ",
            "<b>",
            "[",
            "{",
            "}",
            "1. ",
            "# ",
            "\\",
            '{"a": 1}',
            "[x](y)",
            "é",
        ]
    ),
    max_size=6,
).map("".join)
# behind a brace and a quote there is no prose: what follows stands inside of a map
OPENED = re.compile(r"""\{\s*["'“”„]""")


def is_prose(before):
    return not OPENED.search(before.replace('{"a": 1}', ""))


@settings(max_examples=500)
@given(PLANS, PROSE, PROSE, st.booleans(), st.sampled_from([None, 2]))
def test_a_plan_in_json_is_the_same_in_any_prose(plan, before, after, ascii_only, indent):
    assume(is_prose(before))
    text = json.dumps(plan, ensure_ascii=ascii_only, indent=indent)
    found = extract(before + text + after)

    assert found.issues == []
    assert json.loads(found.text) == plan


@settings(max_examples=500)
@given(
    PLANS,
    PROSE,
    PROSE,
    st.sampled_from(["```", "```json", "~~~ yaml", "````yaml", "  ```"]),
    st.booleans(),
)
def test_a_plan_in_a_fence_is_the_same_in_any_prose(plan, before, after, fence, is_yaml):
    assume(is_prose(before))
    text = format_yaml(plan) if is_yaml else format_json(plan)
    if fence.startswith(" "):
        text = re.sub(r"^(?=.)", "  ", text, flags=re.MULTILINE)
    end = fence.rstrip("abcdefghijklmnopqrstuvwxyz ")
    found = extract(f"{before}\n{fence}\n{text}{end}\n{after}")

    assert found.issues == []
    assert read_document(found.text).value == plan


@given(PLANS)
def test_a_plan_alone_is_never_changed(plan):
    for text in (format_yaml(plan), format_json(plan)):
        assert extract(text).text is text


def test_a_map_under_plan_is_a_plan_and_another_with_that_key_is_none():
    assert taken(f'So {{"plan": {STEPS}}}.') == f'{{"plan": {STEPS}}}'
    assert taken(f'{{"plan": "gold", "of": {{"a": 1}}}} {STEPS}') == STEPS
    assert taken(f'{{"plan": {{"a": {{}}}}}} {STEPS}') == STEPS
    assert taken(f'{{"a": {NODES}}} {STEPS}') == STEPS


@pytest.mark.parametrize(
    "piece",
    [
        "{",
        "[",
        "```\n",
        '"',
        "\\",
        '{"',
        '{"a":',
        '{"a":\'',
        "[{",
        '{"steps":',
        '{"steps":[{"a":',
        "{'",
        "{“",
        "{//",
        "{#\n",
        "<think>",
        "~~~\n```\n",
        "```yaml\nnodes:\n",
        "{nodes: ",
        "'",
        "{}",
        '{"a":1}',
        "</think>\n",
        STEPS,
    ],
)
@pytest.mark.parametrize("end", ["", "}", '"}]}'])
@pytest.mark.timeout(20)
def test_a_hundred_thousand_characters_are_looked_through_in_one_go(piece, end):
    found = extract(piece * (100_000 // len(piece)) + end)

    assert found.text or found.issues
