from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from planbench.plan.kinds import Misfit, fit
from planbench.plan.model import ParamSpec

WHEN = datetime(2026, 8, 6, 1, 2)  # noqa: DTZ001 - a plain one, as users have it


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("str", "7", "7"),
        ("int", 7, 7),
        ("int", "7", 7),
        ("int", " -7 ", -7),
        ("int", 7.0, 7),
        ("int", np.int64(7), 7),
        ("float", "1.5", 1.5),
        ("float", 2, 2.0),
        ("float", np.float32(0.5), 0.5),
        ("float", Fraction(1, 2), 0.5),
        ("bool", True, True),
        ("bool", "no", False),
        ("bool", "TRUE", True),
        ("date", "2026-08-06", "2026-08-06"),
        ("date", date(2026, 8, 6), "2026-08-06"),
        ("datetime", WHEN, "2026-08-06T01:02:00"),
        ("datetime", "2026-08-06T01:02:00Z", "2026-08-06T01:02:00Z"),
        ("datetime", date(2026, 8, 6), "2026-08-06"),
        ("datetime", pd.Timestamp("2026-08-06"), "2026-08-06T00:00:00"),
        ("list", [1], [1]),
        ("list", (1, 2), [1, 2]),
        ("list", "[1, a]", [1, "a"]),
        ("dict", {"a": 1}, {"a": 1}),
        ("dict", '{"a": 1e3}', {"a": 1000.0}),
    ],
)
def test_a_value_or_its_text_becomes_the_declared_type(kind, value, found):
    fitting = fit(ParamSpec(type=kind), value)

    assert fitting == found
    assert type(fitting) is type(found)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("str", 7),
        ("str", pd.DataFrame()),
        ("int", "x"),
        ("int", "7.5"),
        ("int", 7.5),
        ("int", True),
        ("int", None),
        ("int", "9" * 5000),
        ("float", "nan"),
        ("float", "x"),
        ("float", True),
        ("float", 10**400),
        ("bool", 1),
        ("bool", "maybe"),
        ("date", "06.08.2026"),
        ("date", WHEN),
        ("date", 5),
        ("datetime", "soon"),
        ("datetime", 5),
        ("list", "a, b"),
        ("list", "[1"),
        ("list", {"a": 1}),
        ("dict", "[1]"),
        ("dict", [1]),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_type(kind, value):
    with pytest.raises(ValueError, match=f"must be an? {kind}, not "):
        fit(ParamSpec(type=kind), value)


@pytest.mark.parametrize(
    ("kind", "value", "fix"),
    [
        ("list", "a, b", "write it as [1, 2]"),
        ("dict", "x", 'write it as {"a": 1}'),
        ("date", "soon", "write it as 2026-08-06"),
        ("bool", "maybe", "write it as true or false"),
        ("int", "x", None),
    ],
)
def test_what_does_not_fit_is_told_with_the_way_to_write_one(kind, value, fix):
    with pytest.raises(Misfit) as refused:
        fit(ParamSpec(type=kind), value)
    assert refused.value.fix == fix
    assert (
        fix is None
        or fit(ParamSpec(type=kind), fix.removeprefix("write it as ").split(" or ")[0]) is not None
    )


def test_choices_are_of_the_declared_type():
    spec = ParamSpec(type="int", choices=[1, 2])

    assert fit(spec, "2") == 2
    with pytest.raises(ValueError, match="must be one of 1, 2, not 3"):
        fit(spec, 3)
