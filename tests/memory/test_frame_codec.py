from __future__ import annotations

import datetime as dt
import io
import uuid
import warnings
from decimal import Decimal
from time import process_time
from zoneinfo import ZoneInfo

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import ArtifactDamaged, ArtifactRefused, ArtifactTooLarge
from planbench.memory import column_reader, frame_codec
from planbench.memory.codecs import decode, encode
from planbench.memory.sameness import difference

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = pd.date_range("2024-03-30", periods=3, freq="D")


@pytest.fixture(params=["table", "json"], autouse=True)
def form(request, monkeypatch):
    """Every rule holds for frames that are written as a table and for small ones in JSON."""
    monkeypatch.setattr(frame_codec, "INLINE_CELLS", 0 if request.param == "table" else 10**9)
    return request.param


def back(value):
    return decode(*encode(value))


def pandas_says(value):
    if not hasattr(value, "shape"):
        return ""
    types = value.dtypes if isinstance(value, pd.DataFrame) else [value.dtype]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas overflows where it writes half floats
        return [repr(value), *map(repr, types)]


def assert_comes_back(value):
    again = back(value)
    assert difference(value, again) is None
    # What pandas itself says of types, whatever our own comparison does.
    assert pandas_says(again) == pandas_says(value)
    assert difference({"in": [value]}, back({"in": [value]})) is None


def objects(*cells):
    array = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        array[row] = cell
    return pd.Series(array, dtype=object)


def column(*cells, dtype=None):
    return pd.DataFrame({"x": pd.Series(cells, dtype=dtype)})


def arrow(cells, kind):
    return pd.DataFrame({"x": pd.Series(cells, dtype=pd.ArrowDtype(kind))})


def with_attrs(value, attrs):
    value.attrs = attrs
    return value


FRAMES = {
    "numbers": pd.DataFrame({"i": [1, -2, 3], "f": [0.1, np.nan, -0.0], "b": [True, False, True]}),
    "text": pd.DataFrame({"x": ["a", "", None], "y": ["ü", "\0", "🌍"]}),
    "rows of several kinds": pd.DataFrame(
        [[1, "a"], [2, "b"]],
        index=pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["n", None]),
    ),
    "columns of several kinds": pd.DataFrame(
        [[1, 2, 3]],
        columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["up", ("d", 0)]),
    ),
    "levels that no row uses": pd.DataFrame({"x": [1, 2, 3]}, index=DAYS).set_index(
        pd.MultiIndex.from_product([["c", "a", "b"], [1]])[::-1], append=False
    )[1:2],
    "missing in an index of several": pd.DataFrame(
        {"x": [1, 2]}, index=pd.MultiIndex.from_tuples([("a", np.nan), (None, 1.5)])
    ),
    "names twice in an index": pd.DataFrame(
        {"x": [1]}, index=pd.MultiIndex([[1], [2]], [[0], [0]], names=["a", "a"])
    ),
    "columns of one name": pd.DataFrame([[1, "a", 2.5]], columns=["x", "x", "x"]),
    "labels of mixed types": pd.DataFrame(
        [range(7)],
        columns=pd.Index(
            [1, "1", ("a", 2), None, pd.Timestamp("2024"), 1.5, True], dtype=object, name=(1, "n")
        ),
    ),
    "labels that are times": pd.DataFrame([[1, 2, 3]], columns=DAYS),
    "labels that are categories": pd.DataFrame(
        [[1, 2]], columns=pd.CategoricalIndex(["a", "b"], ["b", "a", "c"], ordered=True)
    ),
    "labels that are intervals": pd.DataFrame([[1, 2]], columns=pd.interval_range(0, 2)),
    "labels that are numbers": pd.DataFrame([[1, 2]], columns=[0.5, -0.0]),
    "categories of ints": pd.DataFrame({"x": pd.Categorical([3, 1, None, 3], [3, 1, 2])}),
    "ordered categories": pd.DataFrame(
        {"x": pd.Categorical(["lo", "hi", None], ["lo", "mid", "hi"], ordered=True)}
    ),
    "categories of times": pd.DataFrame({"x": pd.Categorical(DAYS.tz_localize(BERLIN))}),
    "categories of tuples": pd.DataFrame(
        {"x": pd.Categorical.from_codes([0, -1], pd.Index([(1, 2), "b"], tupleize_cols=False))}
    ),
    "categories that are a range": pd.DataFrame(
        {"x": pd.Categorical.from_codes([1, 0], pd.RangeIndex(3, name="n"))}
    ),
    "no categories": pd.DataFrame({"x": pd.Categorical([None, None], [])}),
    "zones": pd.DataFrame(
        {
            "zone": DAYS.tz_localize(BERLIN),
            "utc": DAYS.tz_localize(dt.UTC),
            "utc zone": DAYS.tz_localize(ZoneInfo("UTC")),
            "offset": DAYS.tz_localize(dt.timezone(dt.timedelta(hours=-3, minutes=-30), "x")),
            "seconds": DAYS.as_unit("s").tz_localize(BERLIN),
        }
    ),
    "zoned times with NaT": pd.DataFrame({"x": [DAYS[0].tz_localize("UTC"), pd.NaT]}),
    "the hour that comes twice": pd.DataFrame(
        {"x": pd.date_range("2024-10-27", periods=5, freq="h", tz="Europe/Berlin")}
    ),
    "periods": pd.DataFrame({"x": pd.array(["2024-01", None], dtype="period[M]")}),
    "periods of two days": pd.DataFrame({"x": pd.period_range("2024", periods=2, freq="2D")}),
    "periods of odd quarters": pd.DataFrame(
        {"x": pd.period_range("2024", periods=2, freq="Q-FEB")}
    ),
    "intervals": pd.DataFrame({"x": pd.arrays.IntervalArray.from_breaks([0, 1.5, 2], "left")}),
    "intervals of times": pd.DataFrame(
        {"x": pd.arrays.IntervalArray.from_arrays(DAYS[:2], DAYS[1:], "both")}
    ),
    "a missing interval": pd.DataFrame({"x": pd.arrays.IntervalArray.from_tuples([(0, 1), None])}),
    "nan in a nullable column": pd.DataFrame(
        {
            "x": pd.arrays.FloatingArray(
                np.array([np.nan, 1, 2, -0.0]), np.array([False, True, False, False])
            )
        }
    ),
    "nullable": pd.DataFrame(
        {
            name: pd.array([1, None, 0], dtype=name)
            for name in ("Int8", "Int64", "UInt64", "Float32", "boolean")
        }
    ),
    "all missing": pd.DataFrame(
        {
            "int": pd.array([None, None], dtype="Int64"),
            "text": pd.array([None, None], dtype="string"),
            "object": pd.Series([None, None], dtype=object),
            "time": pd.array([None, None], dtype="datetime64[ns]"),
        }
    ),
    "text in python": column("a", None, "", dtype="string[python]"),
    "text in arrow": column("a", None, "", dtype="string[pyarrow]"),
    "half of a surrogate pair": pd.DataFrame({"x": objects("a\ud800", None), "y": objects(1, 2)}),
    "a label with half a pair": pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype=object)),
    "text as objects": column("a", None, dtype=object),
    "text and nan as objects": column("a", np.nan, dtype=object),
    "kinds of missing": pd.DataFrame({"x": objects(None, np.nan, pd.NaT, pd.NA, float("nan"))}),
    "numbers as objects": pd.DataFrame(
        {"x": objects(*[1, 1.0, True, 2**70, -0.0, 1j, np.int8(1)])}
    ),
    "maps": pd.DataFrame({"x": objects({"a": 1}, {1: {"b": (2,)}}, {})}),
    "lists": pd.DataFrame({"x": objects([1, None], [], [[{}]])}),
    "sets": pd.DataFrame({"x": objects({"a"}, frozenset({(1,)}), {1, 2}, set())}),
    "tuples": pd.DataFrame({"x": objects((1, 2), (), ("a", [1]))}),
    "bytes": pd.DataFrame({"x": objects(b"", b"\xff", bytearray(b"x"), b"y" * 5_000)}),
    "decimals": pd.DataFrame({"x": objects(Decimal("1.10"), Decimal("NaN"), None)}),
    "dates": pd.DataFrame({"x": objects(dt.date(2024, 1, 1), dt.time(1, 2), dt.timedelta(1))}),
    "times as objects": pd.DataFrame(
        {
            "x": objects(
                pd.Timestamp("2024-10-27T00:30Z").tz_convert(BERLIN),
                pd.Timestamp("2024-10-27T01:30Z").tz_convert(BERLIN),
                pd.Timestamp(1, unit="s").as_unit("s"),
                pd.Timestamp("1677-09-21T00:12:43.145224193"),
                pd.Timedelta(7, "ns"),
                pd.Timedelta(1, "s").as_unit("ms"),
                pd.Period("2024-01", "M"),
                pd.Interval(pd.Timestamp("2024"), pd.Timestamp("2025"), "left"),
                dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            )
        }
    ),
    "arrays in cells": pd.DataFrame({"x": objects(np.arange(3), np.array(["a", None], object))}),
    "frames in cells": pd.DataFrame({"x": objects(pd.DataFrame({"y": [1]}), pd.Series([1], [2]))}),
    "ids": pd.DataFrame({"x": objects(uuid.UUID(int=1), np.str_("a"), np.bytes_(b"b"))}),
    "seconds": pd.DataFrame({"x": np.array([0, 1, "NaT"], "M8[s]")}),
    "far seconds": pd.DataFrame({"x": np.array([-(2**62), 2**62], "i8").view("M8[s]")}),
    "milliseconds": pd.DataFrame({"x": np.array([0, -1], "M8[ms]")}),
    "microseconds": pd.DataFrame({"x": np.array([0, -1], "M8[us]")}),
    "nanoseconds": pd.DataFrame({"x": np.array([0, -1, "NaT"], "M8[ns]")}),
    "durations": pd.DataFrame(
        {unit: np.array([1, "NaT"], f"m8[{unit}]") for unit in ("s", "ms", "us", "ns")}
    ),
    "complex": pd.DataFrame({"x": np.array([complex(np.nan, -0.0), 1 + 2j], "c8")}),
    "half floats": pd.DataFrame({"x": np.array([1.5, np.nan, -0.0, np.inf], "f2")}),
    "small ints": pd.DataFrame({f"{kind}": np.array([0, 1], kind) for kind in ("u1", "i2", "u8")}),
    "the other order of bytes": pd.DataFrame({"x": np.array([1, -1], ">i4")}),
    "the bits of nan": pd.DataFrame(
        {"x": np.array([0x7FF8000000000001, 0xFFF8000000000000], "u8").view("f8")}
    ),
    "arrow ints": arrow([1, None], pa.int16()),
    "arrow text": arrow(["a", None], pa.string()),
    "arrow large text": arrow(["a", None], pa.large_string()),
    "arrow bytes": arrow([b"a", None], pa.binary()),
    "arrow times": arrow([1, None], pa.timestamp("ns", "Europe/Berlin")),
    "arrow seconds": arrow([1, None], pa.timestamp("s")),
    "arrow dates": arrow([dt.date(2024, 1, 1), None], pa.date32()),
    "arrow durations": arrow([1, None], pa.duration("us")),
    "arrow decimals": arrow([Decimal("1.10"), None], pa.decimal128(5, 2)),
    "arrow floats": arrow([0.5, None], pa.float32()),
    "arrow lists": arrow([[1, None], None, []], pa.list_(pa.int8())),
    "arrow maps": arrow([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    "arrow nested times": arrow([[1], None], pa.list_(pa.timestamp("s"))),
    "arrow lists of a name": arrow([[1]], pa.list_(pa.field("of", pa.int8(), nullable=False))),
    "arrow booleans": arrow([True, None], pa.bool_()),
    "no rows": pd.DataFrame({"i": pd.Series(dtype="i4"), "s": pd.Series(dtype="string")}),
    "no rows of any type": pd.DataFrame(
        {
            "c": pd.Categorical([], ["a"]),
            "z": pd.DatetimeIndex([], tz=BERLIN),
            "o": pd.Series(dtype=object),
            "n": pd.Series(dtype="Int64"),
            "p": pd.PeriodIndex([], freq="M"),
        }
    ),
    "no columns": pd.DataFrame(index=["a", "b"]),
    "nothing": pd.DataFrame(),
    "columns alone": pd.DataFrame(columns=["a", "b"]),
    "no columns of a type": pd.DataFrame(columns=pd.DatetimeIndex([])),
    "an index that begins at 5": pd.DataFrame({"x": [1, 2]}, index=pd.RangeIndex(5, 15, 6)),
    "an index with a name": pd.DataFrame({"x": [1]}, index=pd.Index(["a"], name=("b", 1))),
    "an index of objects": pd.DataFrame({"x": [1, 2]}, index=pd.Index([1, "a"], dtype=object)),
    "an index twice the same": pd.DataFrame({"x": [1, 2]}, index=["a", "a"]),
    "days": pd.DataFrame({"x": [1, 2, 3]}, index=DAYS.rename("day")),
    "days in a zone": pd.DataFrame(
        {"x": range(3)}, index=pd.date_range("2024-03-30", periods=3, tz=BERLIN)
    ),
    "month ends": pd.DataFrame({"x": [1, 2]}, index=pd.date_range("2024", periods=2, freq="ME")),
    "one business day": pd.DataFrame({"x": [1]}, index=pd.date_range("2024", periods=1, freq="B")),
    "days without frequency": pd.DataFrame(
        {"x": [1, 2, 3]}, index=pd.DatetimeIndex(DAYS, freq=None)
    ),
    "durations as index": pd.DataFrame(
        {"x": [1, 2]}, index=pd.timedelta_range("1h", periods=2, freq="90min")
    ),
    "periods as index": pd.DataFrame({"x": [1, 2]}, index=pd.period_range("2024", periods=2)),
    "categories as index": pd.DataFrame({"x": [1]}, index=pd.CategoricalIndex([1], [2, 1])),
    "nullable index": pd.DataFrame({"x": [1]}, index=pd.Index([None], dtype="Int64", name="n")),
    "attributes": with_attrs(pd.DataFrame({"x": [1]}), {"source": ("a", {1: 2})}),
    "no label twice": pd.DataFrame({"x": [1]}).set_flags(allows_duplicate_labels=False),
    "a label like a tag": pd.DataFrame({"$frame": [1], "c0": [2]}),
    "a slice": pd.DataFrame({"x": ["a", "b", "c"], "y": pd.array([1, None, 3])})[1:],
    "every other row": pd.DataFrame(np.arange(12.0).reshape(4, 3))[::2],
}
OTHERS = {
    "series": pd.Series([1, 2], index=["a", "b"], name=("x", 1)),
    "series of objects": objects([1], {"a"}, None),
    "series without rows": pd.Series(dtype="f4", name=1.5),
    "series with attributes": with_attrs(pd.Series([1.5]), {"unit": "m"}),
    "series of text": pd.Series(["a", None]),
    "index": pd.Index([1, 2], name="a"),
    "index of tuples": pd.Index([(1, 2), (3, 4)], tupleize_cols=False),
    "range": pd.RangeIndex(1, 10**15, 7),
    "days": DAYS,
    "levels": pd.MultiIndex.from_product([DAYS, ["a", "b"]], names=["d", None]),
    "array": pd.array([1, None], dtype="Int64"),
    "categories": pd.Categorical(["a", None]),
    "times": pd.array(DAYS),
    "nat": pd.NaT,
    "na": [pd.NA],
    "the first timestamp": pd.Timestamp.min,
    "a timestamp without zone and fold": pd.Timestamp("2024-10-27 02:30").replace(fold=1),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_comes_back_with_every_label_type_and_cell(frame):
    assert_comes_back(frame)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_column_and_an_index_come_back_alone(frame):
    for number in range(frame.shape[1]):
        assert_comes_back(frame.iloc[:, number].rename(("a", number)))
    assert_comes_back(frame.index)
    assert_comes_back(frame.columns)


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
def test_a_value_of_pandas_that_is_no_frame_comes_back(value):
    assert_comes_back(value)


def test_the_zones_that_pandas_2_makes_come_back():
    pytz = pytest.importorskip("pytz", reason="pandas 3 comes without it")
    for zone in (pytz.timezone("Europe/Berlin"), pytz.utc, pytz.FixedOffset(-90)):
        times = DAYS.tz_localize(zone)
        assert_comes_back(pd.DataFrame({"x": times}, index=pd.DatetimeIndex(times, freq=None)))
        assert_comes_back([times[0]])
    with pytest.raises(ArtifactRefused, match="pytz"):
        encode([pytz.timezone("Europe/Berlin").localize(DAYS[0].to_pydatetime())])


class Table(pd.DataFrame):
    pass


class Opaque:
    pass


def holding_itself():
    cell: list = []
    frame = pd.DataFrame({"x": objects(None, cell)})
    cell.append(frame)
    return frame


HOLIDAYS = pd.offsets.CustomBusinessDay(holidays=["2024-01-02"])
REFUSED = {
    "an unknown cell": (
        pd.DataFrame({"a": [1, 2], "b": objects(1, [Opaque()])}),
        r"column 'b', row 1 \[0\]: .*Opaque",
    ),
    "an unknown cell in a column of a number": (
        pd.DataFrame([[Opaque()]], columns=[7]),
        "column 7, row 0: ",
    ),
    "a frame in a map": (
        {"in": [pd.DataFrame({"b": objects(Opaque())})]},
        r"value\['in'\]\[0\], column 'b', row 0: ",
    ),
    "sparse": (
        pd.DataFrame({"a": [0], "s": pd.arrays.SparseArray([0])}),
        "column 's': cells of the type Sparse",
    ),
    "a float of the machine": (pd.DataFrame({"g": np.zeros(1, "g")}), "column 'g'"),
    "a label": (
        pd.DataFrame([[1]], columns=pd.Index([Opaque()], dtype=object)),
        "labels of the columns, row 0: ",
    ),
    "an index": (pd.DataFrame({"x": [1]}, index=pd.Index([Opaque()])), "index, row 0: "),
    "a level": (
        pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, Opaque())])),
        "index, level 1, row 0: ",
    ),
    "a category": (
        pd.DataFrame({"x": pd.Categorical.from_codes([0], [Opaque()])}),
        "column 'x', categories, row 0: ",
    ),
    "a name": (pd.Series([1], name=Opaque()), "name: "),
    "the name of an index": (pd.Index([1], name=Opaque()), r"names \[0\]: "),
    "attributes": (with_attrs(pd.DataFrame({"x": [1]}), {"a": Opaque()}), r"attrs \['a'\]: "),
    "a frequency with holidays": (
        pd.DataFrame({"x": [1, 2]}, index=pd.date_range("2024", periods=2, freq=HOLIDAYS)),
        "index: the frequency C",
    ),
    "a subclass": (Table({"x": [1]}), "Table"),
    "a frame that holds itself": (holding_itself(), "holds itself"),
    "an arrow interval": (
        pd.DataFrame(
            {
                "x": pd.arrays.ArrowExtensionArray(
                    pa.chunked_array([pa.array([None, (1, 2, 3)], pa.month_day_nano_interval())])
                )
            }
        ),
        "column 'x', row 1: a MonthDayNano",
    ),
    "a type": (pd.Int64Dtype(), "Int64Dtype"),
    "an offset": (pd.offsets.Day(), "Day"),
}


@pytest.mark.parametrize(("value", "place"), REFUSED.values(), ids=REFUSED)
def test_what_would_come_back_different_is_refused_naming_its_place(value, place):
    with pytest.raises(ArtifactRefused, match=place):
        encode(value)


def test_what_would_come_back_different_is_found_by_reading_it_again(monkeypatch):
    frame = pd.DataFrame({"x": pd.arrays.IntervalArray.from_breaks([0, 1, 2])})
    monkeypatch.setitem(
        column_reader._READERS,
        "interval",
        lambda at, held: at.read(held["left"]),
    )

    with pytest.raises(ArtifactRefused, match="come back different: column 'x'"):
        encode(frame)


def test_a_frame_that_comes_back_can_be_written_to():
    frame = back(
        pd.DataFrame({"i": [1, 2], "f": [0.5, 1.5], "o": objects([1], None), "t": DAYS[:2]})
    )

    frame.loc[0, "i"] = 7
    frame.loc[0, "f"] = 7.5
    frame.loc[1, "t"] = pd.NaT
    frame["new"] = frame["i"] * 2

    assert frame["new"].tolist() == [14, 4]
    assert all(frame[name].to_numpy(copy=True).flags.writeable for name in "if")


CELLS = {
    "i8": st.integers(-(2**63), 2**63 - 1),
    "u2": st.integers(0, 2**16 - 1),
    "f8": st.floats(),
    "f4": st.floats(width=32),
    "bool": st.booleans(),
    "datetime64[s]": st.integers(-(2**40), 2**40) | st.none(),
    "datetime64[ns]": st.integers(-(2**62), 2**62) | st.none(),
    "timedelta64[ms]": st.integers(-(2**40), 2**40) | st.none(),
    "Int64": st.integers(-(2**63), 2**63 - 1) | st.none(),
    "boolean": st.booleans() | st.none(),
    "string": st.text(max_size=4) | st.none(),
    "category": st.sampled_from(["a", "b", "c"]) | st.none(),
    "object": st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(exclude_categories=()), max_size=3)
        | st.sampled_from([pd.NaT, pd.NA, np.float32(1), dt.date(2024, 1, 1), Decimal("1.0")]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.tuples(inner)
            | st.dictionaries(st.integers() | st.text(max_size=1), inner, max_size=2)
        ),
        max_leaves=4,
    ),
}
LABELS = st.one_of(st.text(max_size=3), st.integers(), st.none(), st.tuples(st.integers()))


def series(cells, dtype):
    return objects(*cells) if dtype == "object" else pd.Series(cells, dtype=dtype)


@st.composite
def frames(draw):
    rows = draw(st.integers(0, 5))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=5))
    columns = [series(draw(st.lists(CELLS[k], min_size=rows, max_size=rows)), k) for k in kinds]
    frame = pd.DataFrame(dict(enumerate(columns)), index=range(rows))
    frame.columns = pd.Index([draw(LABELS) for _ in kinds], dtype=object, tupleize_cols=False)
    if columns and draw(st.booleans()):
        frame.index = pd.Index(columns[0], dtype=columns[0].dtype, name=draw(LABELS))
    if len(columns) > 1 and draw(st.booleans()):
        hashable = [column for column in columns if column.dtype != object]
        if hashable:
            frame.index = pd.MultiIndex.from_arrays(hashable)
    return frame


@settings(deadline=None, max_examples=150)
@given(frames())
def test_any_frame_comes_back_as_it_was(frame):
    assert difference(frame, back(frame)) is None


def test_a_table_is_a_parquet_file_that_others_can_read(form):
    codec, payload = encode(pd.DataFrame({"a label": [1, 2], "other": ["x", None]}))

    if form == "json":
        assert codec == "json"
        return
    table = pq.read_table(io.BytesIO(payload))
    assert codec == "parquet"
    assert table.to_pydict() == {"c0": [1, 2], "c1": ["x", None]}
    assert b"a label" in table.schema.metadata[b"planbench"]


def test_a_million_rows_are_never_looked_at_cell_by_cell(monkeypatch):
    rows = 1_000_000
    numbers = np.arange(rows)
    frame = pd.DataFrame(
        {
            "i": numbers,
            "f": numbers / 3,
            "t": numbers.view("M8[s]"),
            "s": pd.array(["a", "b"] * (rows // 2), dtype="str" if _PANDAS_3 else "string"),
            "c": pd.Categorical.from_codes(numbers % 2, ["x", "y"]),
            "n": pd.arrays.IntegerArray(numbers, numbers % 2 == 0),
        }
    )
    monkeypatch.setattr(frame_codec, "INLINE_CELLS", 400)
    started = process_time()
    plain = io.BytesIO()
    frame.to_parquet(plain)
    pd.read_parquet(plain)
    peer = process_time() - started

    started = process_time()
    again = back(frame)
    ours = process_time() - started

    assert again.equals(frame)
    assert ours < 10 * peer + 1


_PANDAS_3 = int(pd.__version__.partition(".")[0]) >= 3


def test_a_table_is_bounded_by_what_it_becomes_in_memory(monkeypatch):
    monkeypatch.setattr(frame_codec, "INLINE_CELLS", 0)
    frame = pd.DataFrame({"x": np.zeros(200_000)})
    codec, payload = encode(frame)

    assert len(payload) < 100_000
    assert decode(codec, payload, max_bytes=2_000_000).equals(frame)
    with pytest.raises(ArtifactTooLarge, match="above the limit"):
        decode(codec, payload, max_bytes=1_000_000)


def parquet(table, tree):
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"planbench": orjson.dumps(tree)}), file)
    return file.getvalue()


def tree(rows, *, nbytes=80, count=1, **more):
    cells = {"is": "numpy", "dtype": "<i8", "column": 0}
    name = {"names": [None]}
    return {
        "$frame": {
            "columns": {"is": "range", "of": [0, 1, 1], **name},
            "index": {"is": "range", "of": [0, rows, 1], **name},
            "arrays": [cells],
            "table": [0, rows, count, nbytes],
            **more,
        }
    }


NUMBERS = pa.table({"c0": pa.array(range(10))})
CELL = {"is": "numpy", "dtype": "<i8", "column": 0}
RANGE = {"is": "range", "of": [0, 2, 1], "names": [None]}
FORGED = {
    "a table that says more rows": (NUMBERS, tree(11)),
    "a table of more columns": (NUMBERS, tree(10, count=2)),
    "another name of a column": (pa.table({"x": pa.array(range(10))}), tree(10)),
    "a table larger than it says": (
        pa.table({"c0": pa.array(["x" * 10_000] * 1_000)}),
        tree(1_000, nbytes=1),
    ),
    "cells of another type": (pa.table({"c0": pa.array(["a"] * 10)}), tree(10)),
    "nulls among numbers": (pa.table({"c0": pa.array([1, None])}), tree(2)),
    "a column given twice": (NUMBERS, tree(10, arrays=[CELL, CELL], columns=RANGE)),
    "labels that do not fit": (NUMBERS, tree(10, arrays=[])),
    "no tree of a table": (NUMBERS, {"$tuple": []}),
    "a list for a tree": (NUMBERS, []),
    "a type of objects": (
        NUMBERS,
        tree(10, arrays=[{"is": "numpy", "dtype": "O", "column": 0}]),
    ),
    "a frequency of code": (
        NUMBERS,
        tree(
            10,
            index={
                "is": "index",
                "names": [None],
                "cells": {"is": "numpy", "dtype": "<M8[ns]", "column": 0},
                "freq": "__import__('os')",
            },
        ),
    ),
    "categories without end": (
        pa.table({"c0": pa.array([0] * 10, pa.int8())}),
        tree(
            10,
            arrays=[
                {
                    "is": "categories",
                    "ordered": False,
                    "dtype": "|i1",
                    "column": 0,
                    "categories": {"is": "range", "of": [0, 10**12, 1], "names": [None]},
                }
            ],
        ),
    ),
}


def test_the_forged_tables_differ_from_one_that_is_read():
    assert decode("parquet", parquet(NUMBERS, tree(10)))[0].tolist() == list(range(10))


@pytest.mark.parametrize(("table", "said"), FORGED.values(), ids=FORGED)
def test_a_forged_table_is_damaged(table, said):
    with pytest.raises(ArtifactDamaged):
        decode("parquet", parquet(table, said))
