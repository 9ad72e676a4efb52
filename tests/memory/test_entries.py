from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from planbench.memory import WorkingMemory
from planbench.memory.entries import entry_type_of, shape_of


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"a": 1}, "json"),
        ([1], "json"),
        ([], "json"),
        (1, "json"),
        (1.5, "json"),
        (False, "json"),
        (None, "json"),
        ("text", "text"),
        ("", "text"),
        (b"raw", "binary"),
        (bytearray(b"raw"), "binary"),
        (memoryview(b"raw"), "binary"),
        (pd.DataFrame(), "dataframe"),
        (pd.Series([1]), "dataframe"),
        (pa.table({"a": [1]}), "dataframe"),
        ({"role": "user", "content": "hi"}, "message"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "message"),
        ({"role": "admin", "content": "not a chat role"}, "json"),
        ({"role": "user"}, "json"),
        ({"role": ["user"], "content": 1}, "json"),
        (SimpleNamespace(role="user", content="hi"), "message"),
        (SimpleNamespace(role="user"), "object"),
        ((1, 2), "object"),
        ({1}, "object"),
        (np.zeros(3), "object"),
        (Decimal(1), "object"),
        (object(), "object"),
    ],
)
def test_each_value_has_an_entry_type(value, kind):
    assert entry_type_of(value) == kind


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (pd.DataFrame({"a": [1, 2], "b": [1, 2]}), (2, 2)),
        (pd.Series([1, 2, 3]), (3, 1)),
        (pa.table({"a": [1]}), (1, 1)),
        (np.zeros((4, 5)), (4, 5)),
        (np.zeros(4), (4, None)),
        (np.float64(1), (None, None)),
        ([1, 2], (2, None)),
        ({"a": 1}, (None, None)),
        ("text", (None, None)),
        (None, (None, None)),
    ],
)
def test_tables_and_lists_know_their_shape(value, shape):
    assert shape_of(value) == shape


def test_an_info_tells_all_but_the_value():
    memory = WorkingMemory()
    before = datetime.now(UTC)
    entry = memory.put(
        "fetch.0", [{"secret": 1}] * 3, node="fetch", tool="get", index=0, description="a report"
    )
    info = memory.info("fetch.0")
    assert info == entry.info()
    assert (info.key, info.node, info.tool, info.index) == ("fetch.0", "fetch", "get", 0)
    assert (info.rows, info.columns, info.entry_type) == (3, None, "json")
    assert (info.version, info.description) == (1, "a report")
    assert info.artifact_id == entry.artifact_id
    assert before <= info.created <= datetime.now(UTC)
    assert "secret" not in repr(info)
    with pytest.raises(AttributeError):
        info.key = "other"


def test_the_repr_of_an_entry_shows_no_payload():
    entry = WorkingMemory().put("k", {"canary": "XYZZY"})
    assert "k" in repr(entry)
    assert "XYZZY" not in repr(entry)
