import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.plan.plain import is_plain, plain

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["\ud83d", b"x", (1,), {1: 2}, {"\ud83d": 1}, {"é": 1}])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_the_quick_look_takes_for_plain_only_what_is_left_as_it_is(value):
    if is_plain(value):
        assert repr(plain(value, "it", lambda _: None)) == repr(value)


def test_a_value_within_itself_or_nested_too_deep_is_not_plain():
    loop = []
    loop += [loop, 1]
    deep = 1
    for _ in range(150):
        deep = [deep]
    doubled = [1]
    for _ in range(90):
        doubled = [doubled, doubled]

    assert not is_plain(loop)
    assert not is_plain(deep)
    assert not is_plain(doubled)
    assert not is_plain(math.nan)
    assert not is_plain([0, -(2**20_000), 1])


@pytest.mark.parametrize("value", [{}, [], "", 0, {"a": [{"b": [1.5, None, True, "é"]}]}])
def test_what_text_gives_is_plain(value):
    assert is_plain(value)
