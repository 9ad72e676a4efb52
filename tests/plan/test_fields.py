import numpy as np
import pandas as pd
import pytest

from planbench.plan.document import Document
from planbench.plan.draft import draft

ODD = [np.arange(3), np.int64(3), pd.DataFrame({"a": [1]}), pd.Series([1]), pd.NaT, object()]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "field",
    [
        "id",
        "description",
        "type",
        "tool",
        "store_as",
        "depends_on",
        "approve",
        "when",
        "timeout",
        "cache",
        "facets",
        "retry",
        "for_each",
    ],
)
def test_a_value_is_never_compared_to_say_what_is_wrong_with_its_field(field, value):
    node = {"id": "a", "tool": "t", field: value}
    made = draft(Document({"name": "p", "objective": "o", "nodes": [node]}))

    if field not in ("timeout", "cache"):
        assert any(issue.severity == "error" for issue in made.issues)


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_a_value_is_never_compared_to_read_a_facet(value):
    node = {"id": "a", "tool": "t", "facets": {"n": "count(x[])", "odd": value}}
    made = draft(Document({"name": "p", "objective": "o", "nodes": [node]}))

    assert [issue.code for issue in made.issues] == ["bad_field"]


@pytest.mark.parametrize("field", ["id", "description"])
def test_an_empty_list_where_text_belongs_is_quoted(field):
    node = {"id": "a", "tool": "t", field: []}
    made = draft(Document({"name": "p", "objective": "o", "nodes": [node]}))

    assert made.issues[0].fix == f'{field}: "[]"'
