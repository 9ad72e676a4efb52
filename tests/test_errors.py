from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from planbench import errors
from planbench.errors import (
    ArtifactNotFound,
    LanguageError,
    PlanbenchError,
    PlanInvalid,
    PlanLoadError,
    RunFailed,
    RunRefused,
    ToolArgumentsInvalid,
    ToolError,
    UnknownTool,
)
from planbench.plan.issues import ValidationIssue

ISSUE = ValidationIssue(node_id="a", code="cycle", message="a -> b -> a", line=3, column=5)
SAMPLES = [
    PlanbenchError("what happened", hint="what to do"),
    PlanLoadError("no such plan", path="plans/x.yaml"),
    PlanInvalid([ISSUE], name="sweep"),
    ToolError("failed", tool="fetch", hint="look"),
    UnknownTool("there is no tool", tool="fetsh"),
    ToolArgumentsInvalid("no", tool="fetch", problems=["one"]),
    ArtifactNotFound("lsiting", ["listing"]),
    RunRefused("run_busy", "somebody holds it", node_id="a"),
    RunFailed("red", manifest={"a": 1}),
]


def classes() -> list[type[PlanbenchError]]:
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass)]
    return [one for one in found if issubclass(one, BaseException)]


def drawn() -> dict[str, str | None]:
    """Read the tree in the docstring: each name with the one above it."""
    parents: dict[str, str | None] = {}
    trail: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"(?P<branches>(?:[│ ]   )*(?:[├└]── )?)(?P<name>[A-Z]\w+)(?:  |$)", line)
        if match:
            depth = len(match["branches"]) // 4
            parents[match["name"]] = trail[depth - 1] if depth else None
            trail[depth:] = [match["name"]]
    return parents


def test_the_tree_drawn_is_the_tree_of_the_classes():
    made = {
        one.__name__: one.__bases__[0].__name__ if one is not PlanbenchError else None
        for one in classes()
    }
    assert drawn() == made
    assert len(made) > 15


def test_every_error_has_a_code_and_a_sentence():
    for one in classes():
        assert re.fullmatch(r"[a-z_]+", one.code)
        assert one.__doc__
        assert one.__doc__.strip().splitlines()[0].endswith(".")


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_a_notebook_shows_one_short_block_without_a_traceback(error):
    block = error._render_traceback_()
    assert block[0].startswith(f"{type(error).__name__}: ")
    assert all(line.startswith("  ") for line in block[1:])
    assert "\n" not in "".join(block)
    assert "Traceback" not in "".join(block)
    assert len(block) == len(str(error).splitlines())


def test_an_error_without_text_is_still_a_block():
    assert PlanbenchError("")._render_traceback_() == ["PlanbenchError: "]


def test_the_hint_stands_on_a_line_of_its_own():
    error = PlanbenchError("what happened", hint="what to do")
    assert str(error) == "what happened\nwhat to do"
    assert (error.message, error.hint) == ("what happened", "what to do")
    assert str(PlanbenchError("what happened")) == "what happened"


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_a_copy_and_another_process(error):
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_errors_of_content_are_errors_of_loading():
    assert issubclass(PlanInvalid, PlanLoadError)
    with pytest.raises(PlanLoadError):
        raise PlanInvalid([ISSUE])


def test_a_plan_tells_its_first_errors_and_counts_the_rest():
    warning = ISSUE.model_copy(update={"severity": "warning", "message": "only a warning"})
    one = PlanInvalid([ISSUE, warning], name="sweep")
    assert str(one).splitlines() == ["plan 'sweep' has 1 error", str(ISSUE)]
    assert one.issues == [ISSUE, warning]
    many = PlanInvalid([ISSUE] * 33)
    lines = str(many).splitlines()
    assert lines[0] == "the plan has 33 errors"
    assert len(lines) == 1 + PlanInvalid.shown + 1
    assert lines[-1] == "and 13 more"


def test_a_missing_artifact_is_a_key_error_that_names_near_ones():
    error = ArtifactNotFound("lsiting", ["listing", "listed"])
    assert isinstance(error, KeyError)
    assert str(error) == "nothing is stored under 'lsiting'\nnear: listing, listed"
    assert (error.key, error.near) == ("lsiting", ["listing", "listed"])
    assert str(ArtifactNotFound("x")) == "nothing is stored under 'x'"


def test_errors_of_the_language_are_value_errors():
    assert issubclass(LanguageError, ValueError)


def test_a_refusal_says_which_of_the_codes_it_is():
    error = RunRefused("run_busy", "somebody holds it", node_id="a")
    assert (error.code, error.node_id, RunRefused.code) == ("run_busy", "a", PlanbenchError.code)
