import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from planbench.plan.document import format_json, format_yaml, read_document
from planbench.plan.steps import Step, StepPlan, read_steps, step_problems


def step(name, *needs):
    return Step(id=name, description=f"do {name}", depends_on=list(needs))


def problems(*steps):
    return [(p.code, p.node_id, p.position, p.field) for p in step_problems(steps)]


def read(text):
    return read_steps(read_document(text))


def told(text):
    plan, issues = read(text)
    assert plan is None
    return [(i.code, i.node_id, i.line, i.column) for i in issues]


def test_a_plan_of_steps_keeps_what_is_written():
    plan = StepPlan.model_validate(
        {
            "steps": [
                {"id": "a", "description": " Ask, don't guess.\n"},
                {"id": "b 2", "description": "", "depends_on": ["a"]},
            ]
        }
    )

    assert plan.steps[0].description == " Ask, don't guess.\n"
    assert plan.steps[0].depends_on == []
    assert plan.steps[1].depends_on == ["a"]


def test_it_is_frozen_and_exact_about_its_fields():
    plan = StepPlan(steps=[step("a")])

    with pytest.raises(ValidationError, match="frozen"):
        plan.steps = []
    with pytest.raises(ValidationError, match="frozen"):
        plan.steps[0].id = "b"
    with pytest.raises(ValidationError, match="Extra inputs"):
        StepPlan.model_validate({"steps": [{"id": "a", "description": "", "hint": 1}]})
    with pytest.raises(ValidationError, match="at least 1 item"):
        StepPlan(steps=[])


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\x00", "x" * 201])
def test_an_id_is_plain_text(name):
    with pytest.raises(ValidationError, match=r"id .* must be 1 to 200 printable characters"):
        step(name)


def test_an_id_is_nothing_but_text():
    with pytest.raises(ValidationError):
        Step.model_validate({"id": 1, "description": ""})
    assert step("1").id == "1"


def test_all_problems_between_steps_are_found_at_once():
    found = problems(
        step("a", "b"), step("b", "a"), step("c", "c", "zz"), step("a"), step("d", "a", "a")
    )

    assert found == [
        ("duplicate_id", "a", 3, ("id",)),
        ("self_dependency", "c", 2, ("depends_on", 0)),
        ("unknown_dependency", "c", 2, ("depends_on", 1)),
        ("duplicate_dependency", "d", 4, ("depends_on", 1)),
        ("cycle", "c", 2, ("depends_on",)),
        ("cycle", "a", 0, ("depends_on",)),
    ]


def test_a_model_that_is_built_directly_has_every_problem_in_its_error():
    with pytest.raises(ValidationError) as caught:
        StepPlan(steps=[step("a", "b"), step("b", "a"), step("c", "c"), step("d", "x"), step("d")])

    text = str(caught.value)
    assert "step 'a': steps wait for each other: a -> b -> a" in text
    assert "step 'c': the step waits for itself" in text
    assert "step 'd': depends_on names 'x', and no step has that id" in text
    assert "step 'd': id 'd' is used twice; the first is step 4 of the plan" in text


def test_a_misspelled_dependency_comes_with_the_near_name():
    (problem,) = step_problems([step("fetch_reports"), step("diff", "fetch_report")])

    assert problem.fix == "did you mean 'fetch_reports'?"


def test_a_long_chain_is_checked_without_recursion():
    chain = [step("s0"), *(step(f"s{i}", f"s{i - 1}") for i in range(1, 5_000))]

    assert step_problems(chain) == []
    assert [p.code for p in step_problems([step("s0", "s4999"), *chain[1:]])] == ["cycle"]


def test_a_document_is_read_with_the_lines_of_what_is_wrong():
    text = """{"steps": [
  {"id": "a", "description": "x", "depends_on": ["a", "zz"]},
  {"id": "a", "description": 5, "dependsOn": []},
  {"id": "c", "depends_on": "a"},
  7,
  {"description": "x"}
 ], "goal": "g"}"""

    assert told(text) == [
        ("unknown_field", None, 7, 5),
        ("bad_field", "a", 3, 30),
        ("unknown_field", "a", 3, 33),
        ("missing_field", "c", 4, 3),
        ("bad_field", "c", 4, 29),
        ("bad_field", None, 5, 3),
        ("missing_field", None, 6, 3),
        ("duplicate_id", "a", 3, 10),
        ("self_dependency", "a", 2, 50),
        ("unknown_dependency", "a", 2, 55),
        ("cycle", "a", 2, 49),
    ]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("{}", "missing_field", "'steps' is missing"),
        ("[]", "bad_field", "a plan is a map with steps, not an empty list"),
        ('[{"id": "a"}]', "bad_field", "not a list of 1"),
        ("", "bad_field", "not nothing"),
        ('{"steps": []}', "bad_field", "steps is empty"),
        ('{"steps": "[]"}', "bad_field", "steps must be a list, not '[]'"),
        ('{"steps": {"a": 1}}', "bad_field", "steps must be a list, not a map of 1"),
        ("steps: [", "yaml_syntax", "not readable"),
    ],
)
def test_what_is_no_plan_of_steps_is_told_in_one_line(text, code, words):
    plan, (issue,) = read(text)

    assert plan is None
    assert issue.code == code
    assert words in issue.message
    assert issue.line == 1


def test_a_plan_around_the_steps_is_passed_through_and_nothing_else():
    inner = '{"steps": [{"id": "a", "description": "x"}]}'

    assert read(f'{{"plan": {inner}}}')[0] == StepPlan(steps=[Step(id="a", description="x")])
    assert told(f'{{"plan": {inner}, "x": 1}}') == [
        ("unknown_field", None, 1, 2),
        ("unknown_field", None, 1, 56),
        ("missing_field", None, 1, 1),
    ]
    assert told('{"plan": {"steps": [{"id": "a"}]}}') == [("missing_field", "a", 1, 21)]


def test_a_key_that_stands_twice_names_its_step():
    assert told('{"steps": [{"id": "a", "description": "x", "description": "y"}]}') == [
        ("duplicate_key", "a", 1, 44)
    ]


def test_steps_may_wait_for_those_of_an_earlier_plan_where_these_are_named():
    document = read_document('{"steps": [{"id": "b", "description": "x", "depends_on": ["a"]}]}')

    assert [issue.code for issue in read_steps(document)[1]] == ["unknown_dependency"]
    plan, issues = read_steps(document, {"a"})
    assert issues == []
    assert plan.steps[0].depends_on == ["a"]


@st.composite
def graphs(draw):
    names = draw(
        st.lists(st.from_regex(r"[a-z][a-z0-9\-]{0,5}", fullmatch=True), min_size=1, unique=True)
    )
    steps = []
    for i, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else []
        steps.append({"id": name, "description": draw(st.text()), "depends_on": needs})
    return {"steps": draw(st.permutations(steps))}


@given(graphs())
def test_what_is_written_is_read_back_equal(record):
    for text in (format_json(record), format_yaml(record)):
        plan, issues = read(text)

        assert issues == []
        assert plan == StepPlan.model_validate(record)
        assert plan.model_dump() == record
