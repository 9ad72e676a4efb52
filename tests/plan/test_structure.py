import pytest

from planbench.plan.model import ForEach, PlanNode
from planbench.plan.structure import (
    MAX_PROBLEMS,
    Suggestions,
    structure_problems,
    suggestion,
)


def node(node_id, *needs, **fields):
    return PlanNode(id=node_id, tool="t", depends_on=list(needs), **fields)


def each(source, **fields):
    return ForEach(source=f"{{artifacts.{source}}}", **fields)


def told(*nodes):
    return [(p.code, p.node_id, p.field) for p in structure_problems(nodes)]


def test_a_sound_plan_has_no_problems():
    assert (
        told(
            node("a"),
            node(
                "b",
                "a",
                for_each=each("a"),
                args={"x": "{item} {index} {artifacts.a} {nodes.a.output}"},
            ),
        )
        == []
    )


def test_an_id_that_is_used_twice_names_the_first():
    (problem,) = structure_problems([node("a"), node("b"), node("a", store_as="other")])

    assert (problem.code, problem.node_id, problem.position) == ("duplicate_id", "a", 2)
    assert "the first is node 1" in problem.message


def test_dependencies_are_known_different_and_others():
    assert told(node("a", "a"), node("b", "a", "a"), node("c", "bb")) == [
        ("self_dependency", "a", ("depends_on", 0)),
        ("duplicate_dependency", "b", ("depends_on", 1)),
        ("unknown_dependency", "c", ("depends_on", 0)),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"args": {"x": ["{artifacts.a}"]}},
        {"args": {"x": ["and {nodes.a.output}"]}},
        {"for_each": each("a"), "store_as": "a.{index}"},
    ],
)
def test_a_node_that_reads_itself_is_not_told_to_wait_for_itself(fields):
    (problem,) = structure_problems([node("b"), node("a", "b", **fields)])

    assert (problem.code, problem.node_id, problem.fix) == (
        "self_dependency", "a", "read another node",
    )  # fmt: skip
    assert problem.message.endswith("is the node's own result: a node cannot read itself")
    assert problem.field in [("args", "x", 0), ("for_each", "source")]


def test_a_dependency_that_is_a_parameter_is_not_known_yet():
    assert told(node("a", "{params.x}")) == []


def test_a_near_name_is_suggested():
    problems = structure_problems([node("listing"), node("b", "listin"), node("c", "zzz")])

    assert [p.fix for p in problems] == ["did you mean 'listing'?", None]


def test_a_cycle_is_named_in_the_direction_of_the_data():
    (problem,) = structure_problems([node("b", "a"), node("a", "b"), node("c", "a")])

    assert (problem.code, problem.node_id, problem.position) == ("cycle", "a", 1)
    assert "a -> b -> a" in problem.message


def test_every_reference_must_stand_directly_in_depends_on():
    nodes = [
        node("a"),
        node("b", "a"),
        node("c", "b", args={"x": ["{artifacts.a}", "{nodes.b.output}"]}),
    ]
    (problem,) = structure_problems(nodes)

    assert (problem.code, problem.field) == ("undeclared_reference", ("args", "x", 0))
    assert problem.fix == "add a to depends_on"


def test_one_name_that_is_read_often_is_told_once_and_quoted_it_is_not_read():
    assert told(node("c", args={"x": "{artifacts.a} {artifacts.a}", "y": "{{artifacts.b}}"})) == [
        ("undeclared_reference", "c", ("args", "x"))
    ]


def test_a_fan_out_waits_for_its_source():
    assert told(node("a"), node("b", for_each=each("a"))) == [
        ("for_each_not_dependency", "b", ("for_each", "source"))
    ]


def test_the_key_of_a_fan_out_varies_and_that_of_a_single_call_does_not():
    assert told(
        node("a", store_as="a_{index}"),
        node("b", "a", for_each=each("a"), store_as="b"),
        node("c", "a", for_each=each("a", alias="rep"), store_as="c_{rep.id}"),
        node("d", store_as="d_{rep.id}"),
    ) == [
        ("item_variable_without_for_each", "a", ("store_as",)),
        ("constant_item_key", "b", ("store_as",)),
    ]


def test_a_key_reads_no_results():
    assert told(node("a"), node("b", "a", store_as="{artifacts.a}")) == [
        ("bad_field", "b", ("store_as",))
    ]


def test_two_nodes_never_write_one_key():
    assert told(node("a", store_as="k"), node("b", store_as="k")) == [
        ("key_conflict", "b", ("store_as",))
    ]


@pytest.mark.parametrize(
    ("pattern", "key", "collides"),
    [
        ("k_{index}", "k_3", True),
        ("k_{index}", "k_0", True),
        ("k_{index}", "k_03", False),
        ("k_{index}", "k_x", False),
        ("k_{index}", "k_", False),
        ("k{index}_r", "k12_r", True),
        ("k1{index}", "k12", True),
        ("{index}", "7", True),
        ("k_{index}", "k_12345678", False),
        ("k_{item}", "k_3", False),
        ("k_{index}_{item}", "k_3_x", False),
    ],
)
def test_the_numbered_keys_of_a_fan_out_are_nobody_else_s(pattern, key, collides):
    nodes = [node("a", store_as=key), node("b", "a", for_each=each("a"), store_as=pattern)]
    problems = structure_problems(nodes)

    assert [(p.code, p.node_id) for p in problems] == ([("key_conflict", "b")] if collides else [])


def test_braces_that_stay_as_written_are_warnings():
    nodes = [node("a"), node("b", "a", args={"x": "{item.x} {artifacts.a.rows}"})]
    problems = structure_problems(nodes)

    assert [(p.code, p.severity) for p in problems] == [
        ("literal_item_variable", "warning"),
        ("literal_placeholder", "warning"),
    ]


def test_args_that_hold_themselves_are_told_and_not_followed():
    loop = {"x": "{artifacts.b}"}
    loop["loop"] = loop

    broken = node("a").model_copy(update={"args": loop})
    assert told(broken) == [("bad_field", "a", ("args",))]


def test_suggestions_are_bounded_since_each_looks_at_all_names():
    names = Suggestions(["alpha", "beta"])

    assert "alpha" in names
    found = [names.near("alpa") for _ in range(100)]
    assert found[0] == "did you mean 'alpha'?"
    assert found[-1] is None
    assert suggestion("x" * 10_000, ["alpha"]) is None


def test_a_plan_of_many_problems_is_looked_through_in_one_pass():
    nodes = [node(f"n{i}", f"zz{i}", args={"x": f"{{artifacts.q{i}}}"}) for i in range(2400)]

    assert len(structure_problems(nodes)) == 4800


def test_of_thousands_of_problems_the_first_are_told_and_no_warning_hides_an_error():
    wrong = [node("a", *(f"zz{i}" for i in range(3 * MAX_PROBLEMS)))]
    assert len(structure_problems(wrong)) == MAX_PROBLEMS

    odd = node("a", args={f"k{i}": "{item}" for i in range(2 * MAX_PROBLEMS)})
    problems = structure_problems([odd, node("b", "zzz")])
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].code == "unknown_dependency"


def test_the_middle_of_a_long_cycle_is_left_out():
    ring = [node(f"n{i}", f"n{(i + 1) % 5000}") for i in range(5000)]
    (problem,) = structure_problems(ring)

    assert problem.message.startswith("nodes wait for each other: n0 -> n4999 -> n4998")
    assert "-> ... 4981 more ... ->" in problem.message
    assert problem.message.endswith("-> n2 -> n1 -> n0")


def test_long_names_get_no_suggestion_where_that_would_take_long():
    names = Suggestions(f"{'ab' * 110}{i}" for i in range(2000))

    assert names.near(f"{'ba' * 100}") is None
    assert Suggestions(["ab" * 110]).near("ab" * 109) is not None


def test_a_dependency_in_double_braces_is_no_parameter_and_so_unknown():
    assert structure_problems([node("a", "{params.x}")]) == []
    (problem,) = structure_problems([node("a", "{{params.x}}")])
    assert problem.code == "unknown_dependency"
