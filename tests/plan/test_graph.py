import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.graph import (
    Ancestry,
    cycles,
    dependents,
    levels,
    not_upstream,
    order,
    reachable,
    width,
)

DIAMOND = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}


@st.composite
def graphs(draw, *, acyclic=False):
    size = draw(st.integers(1, 9))
    names = [f"n{i}" for i in range(size)]
    pool = {n: names[:i] if acyclic else names for i, n in enumerate(names)}
    return {
        n: draw(st.lists(st.sampled_from(pool[n]), max_size=3)) if pool[n] else [] for n in names
    }


def shuffled(needs, seed):
    names = list(needs)
    random.Random(seed).shuffle(names)
    return {name: needs[name] for name in names}


def test_dependents_turn_the_graph_round_and_leave_out_strangers():
    assert dependents({"a": [], "b": ["a", "a", "zz"], "c": ["a"]}) == {
        "a": ["b", "c"],
        "b": [],
        "c": [],
    }


def test_each_node_comes_after_what_it_needs():
    assert order(DIAMOND) == ["a", "b", "c", "d"]
    assert levels(DIAMOND) == [["a"], ["b", "c"], ["d"]]
    assert width(DIAMOND) == 2
    assert (order({}), levels({}), width({})) == ([], [], 0)


def test_nodes_on_a_cycle_and_behind_one_have_no_order():
    assert order({"a": ["b"], "b": ["a"], "c": ["b"], "d": []}) == ["d"]


def test_a_cycle_is_named_in_the_direction_of_the_data():
    assert cycles({"b": ["a"], "c": ["b"], "a": ["c"]}) == [["a", "b", "c", "a"]]
    assert cycles({"a": ["b"], "b": ["a"], "x": ["y"], "y": ["x"], "z": ["a"]}) == [
        ["a", "b", "a"],
        ["x", "y", "x"],
    ]
    assert cycles(DIAMOND) == []


def test_the_number_of_cycles_told_is_bounded():
    pairs = {}
    for i in range(50):
        pairs |= {f"a{i}": [f"b{i}"], f"b{i}": [f"a{i}"]}

    assert len(cycles(pairs, limit=10)) == 10


def test_a_chain_of_100_000_nodes_in_the_worst_order_needs_no_recursion():
    size = 100_000
    needs = {f"n{i}": [f"n{i - 1}"] if i else [] for i in reversed(range(size))}

    assert order(needs)[-1] == f"n{size - 1}"
    assert len(levels(needs)) == size
    assert cycles(needs) == []
    assert Ancestry(needs).is_upstream(f"n{size - 1}", "n0")
    assert not_upstream(needs, [(f"n{i}", "n0") for i in range(1, size)]) == set()
    loop = {**needs, "n0": [f"n{size - 1}"]}
    assert len(cycles(loop)[0]) == size + 1


def test_what_is_upstream_has_always_ended():
    ancestry = Ancestry(DIAMOND)

    assert ancestry.of("d") == {"a", "b", "c"}
    assert ancestry.is_upstream("d", "a")
    assert not ancestry.is_upstream("b", "c")
    assert not ancestry.is_upstream("a", "a")


def test_reachable_is_everything_downstream():
    kids = dependents(DIAMOND)

    assert reachable(["b"], kids) == {"d"}
    assert reachable(["a"], kids) == {"b", "c", "d"}
    assert reachable(["a"], {"a": ["b"], "b": ["a"]}) == {"a", "b"}


@given(graphs(acyclic=True), st.integers())
def test_order_and_levels_agree_with_the_definition(needs, seed):
    needs = shuffled(needs, seed)
    place = {name: i for i, name in enumerate(order(needs))}
    row = {name: i for i, names in enumerate(levels(needs)) for name in names}

    assert set(place) == set(row) == set(needs)
    for name, needed in needs.items():
        assert all(place[need] < place[name] for need in needed)
        assert row[name] == max((row[need] + 1 for need in needed), default=0)


@given(graphs(acyclic=True), st.integers())
def test_many_questions_at_once_get_the_answers_of_each_alone(needs, seed):
    needs = shuffled(needs, seed)
    ancestry = Ancestry(needs)
    pairs = [(a, b) for a in needs for b in needs]

    assert not_upstream(needs, pairs) == {
        (a, b) for a, b in pairs if not ancestry.is_upstream(a, b)
    }


@given(graphs())
def test_with_cycles_every_cycle_told_is_one_and_questions_are_still_answered(needs):
    told = cycles(needs)

    assert bool(told) == (len(order(needs)) < len(needs))
    for loop in told:
        assert loop[0] == loop[-1] == min(loop)
        assert all(a in needs[b] for a, b in pairwise(loop))
    ancestry = Ancestry(needs)
    late = not_upstream(needs, [(a, b) for a in needs for b in needs])
    assert not any(ancestry.is_upstream(a, b) for a, b in late if a not in needs[a] and a == b)
    assert all(
        (a, b) in late
        for a in needs
        for b in needs
        if b not in ancestry.of(a) and b != a and b not in needs[a]
    )


def test_questions_over_more_than_one_batch_are_answered():
    needs = {f"n{i}": [f"n{i - 1}"] if i else [] for i in range(3000)}

    pairs = [(f"n{i}", f"n{i // 2}") for i in range(2, 3000)] + [("n5", "n2900")]
    assert not_upstream(needs, pairs) == {("n5", "n2900")}
