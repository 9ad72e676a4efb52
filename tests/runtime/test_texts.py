from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

from planbench.runtime.texts import texts_in

MARK = "needle-1"


@dataclasses.dataclass
class Card:
    text: str


class Model(BaseModel):
    text: str


@pytest.mark.parametrize(
    "value",
    [
        MARK,
        MARK.encode(),
        [1, {"a": (None, {MARK})}],
        {MARK: 1},
        pd.DataFrame({"a": ["x", MARK]}),
        pd.DataFrame({MARK: [1]}),
        pd.DataFrame({"a": [1]}, index=[MARK]),
        pd.DataFrame({"a": [1]}, index=pd.Index([1], name=MARK)),
        pd.DataFrame({"a": pd.Categorical(["x", MARK])}),
        pd.DataFrame({"a": [{"b": [MARK]}]}),
        pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", MARK)])),
        pd.DataFrame([[1, MARK]], columns=["a", "a"]),
        pd.Series(["x"], name=MARK),
        pd.Series([MARK], dtype="string"),
        np.array(["x", MARK]),
        np.array([{"a": MARK}], dtype=object),
        {"deep": pd.DataFrame({"a": [Card(MARK)]})},
        Card(MARK),
        Model(text=MARK),
        Exception(MARK),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_text_is_found_wherever_it_stands(value):
    assert any(MARK in text for text in texts_in(value))


def test_a_number_is_found_as_it_is_written():
    assert "12345678" in list(texts_in({"pin": 12345678}))


def test_a_value_that_holds_itself_comes_to_an_end():
    value = [MARK]
    value.append(value)
    assert list(texts_in(value)) == [MARK]


def test_arrays_of_numbers_are_not_gone_through():
    assert list(texts_in(np.zeros(3))) == []
    assert "0.0" not in list(texts_in(pd.DataFrame({"a": [0.0]})))
