"""What results say of their tools: a return that was forgotten, and shapes for the next check."""

from planbench.validation import validate_plan


def forgetful(lab):
    @lab.tool
    async def forgets(value=None):
        """It lacks its return."""

    return lab.node("a", "forgets")


def test_a_fan_out_over_none_names_the_tool_that_gave_it(lab):
    run = lab.run(
        forgetful(lab),
        lab.node("fan", "give", {"value": "{item}"}, "a", for_each={"source": "{artifacts.a}"}),
    )
    error = run.refs["fan"].errors[0]
    assert "{artifacts.a} is None" in error
    assert error.endswith("tool 'forgets' of node 'a' returned None: does it lack a return?")


def test_an_argument_that_is_none_and_does_not_fit_names_the_tool_that_gave_it(lab):
    @lab.tool
    async def needs(number: int):
        return number

    run = lab.run(forgetful(lab), lab.node("b", "needs", {"number": "{artifacts.a}"}, "a"))
    assert "tool 'forgets' of node 'a' returned None" in run.refs["b"].errors[0]
    assert len(run.refs["b"].errors[0]) <= 300


def test_a_facet_of_none_names_its_tool(lab):
    forgetful(lab)
    run = lab.run(lab.node("a", "forgets", facets={"counts": {"n": "rows[]"}}))
    assert "tool 'forgets' of node 'a' returned None" in run.state.nodes["a"].warnings[0]


def test_the_next_check_knows_what_a_tool_gave_and_only_warns(lab):
    lab.tool(lambda: {"rows": [{"n": 1}]}, name="untyped")
    plan = lab.plan(
        lab.node("a", "untyped", facets={"counts": {"n": "lines[]"}}),
    )
    assert validate_plan(plan, lab.registry).issues == []
    lab.run(*plan.nodes)
    report = validate_plan(plan, lab.registry)
    assert report.ok
    assert [issue.code for issue in report.issues] == ["unknown_output_field"]
    assert report.issues[0].severity == "warning"
