import pytest

from planbench import Engine
from planbench.errors import ConfigurationError
from planbench.validation import check_plan, secrets_of

PLAN = "name: p\nobjective: o\nnodes: [{id: a, tool: t, args: {x: '{env.T}'}}]\n"


@pytest.mark.parametrize(
    "given", [lambda env: check_plan(PLAN, env=env), lambda env: Engine(env=env), secrets_of]
)
def test_a_secret_for_no_named_tool_is_refused_and_says_to_name_them(given):
    with pytest.raises(ConfigurationError, match="'T'") as caught:
        given({"T": None})

    assert "name the tools" in caught.value.hint


def test_no_tools_at_all_is_something_that_can_be_said():
    assert secrets_of({"T": []}) == {"T": []}
    assert not check_plan(PLAN, env={"T": []}).ok
