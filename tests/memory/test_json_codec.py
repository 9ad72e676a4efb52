from __future__ import annotations

import datetime as dt
import sys
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import NamedTuple
from uuid import UUID, uuid1
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from planbench.errors import ArtifactDamaged, ArtifactRefused
from planbench.memory import json_codec
from planbench.memory.codecs import decode, encode
from planbench.memory.sameness import difference

BERLIN = ZoneInfo("Europe/Berlin")


class Pair(NamedTuple):
    left: int
    right: int


class Color(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


class Model(BaseModel):
    a: int = 1


@dataclass
class Record:
    a: int = 1


class Bag(dict):
    pass


class Oslo(dt.tzinfo):
    def utcoffset(self, when):
        return dt.timedelta(hours=1)

    def dst(self, when):
        return None

    def tzname(self, when):
        return "Oslo"


def nested(levels, last=1, put=list):
    for _ in range(levels):
        last = put([last])
    return last


def key(held):
    return {"k": held[0]}


def assert_comes_back(value):
    codec, payload = encode(value)
    assert difference(value, decode(codec, payload)) is None
    return codec


SHARED = [1, {"x": ()}]
VALUES = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus zero": -0.0,
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "smallest float": 5e-324,
    "largest float": sys.float_info.max,
    "int of 64 bits": 2**64 - 1,
    "int beyond 64 bits": 2**64,
    "negative int beyond 64 bits": -(2**63) - 1,
    "int of 5,000 digits": 10**5_000,
    "list with an int beyond a float": [1.5, 10**400],
    "list of floats with nan": [1.0, float("nan")],
    "complex": complex(float("nan"), -0.0),
    "text": "grün 🌍",
    "empty text": "",
    "half of a surrogate pair": "a\ud800b",
    "a surrogate pair in halves": "\ud83d\ude00",
    "surrogates inside": {"\udfff": ["\ud800", {"x": "\udc00"}]},
    "text with nul": "a\0b",
    "bytes": b"\x00\xff",
    "bytes inside": {"raw": b"\x00\xff", "empty": b""},
    "long bytes inside": {"raw": b"\x00\xff" * 5_000, "again": bytearray(b"x" * 9_000)},
    "bytearray": bytearray(b"abc"),
    "tuple": (1, (2, []), ()),
    "set": {1, "a", (2, 3), None},
    "frozenset in a set": {frozenset({1}), frozenset()},
    "set with nan": {float("nan"), 1.5},
    "keys that are ints": {1: "x", 0: "y"},
    "keys of every kind": {(1, 2): 1, None: 2, 1.5: 3, b"k": 4, frozenset({1}): 5, "t": 6},
    "keys that are dates": {dt.date(2024, 1, 1): 1, dt.datetime.fromisoformat("2024-01-01"): 2},
    "two nan keys": {float("nan"): 1, float("inf"): 2, float("nan") * 1: 3},
    "order of a map": {"b": 1, "a": 2, "": 3},
    "a map that looks like a tag": {"$tuple": [1, 2]},
    "a map that looks like an unknown tag": {"$no": 1},
    "a map with a dollar among others": {"$set": [1], "x": 1},
    "an escaped tag in a tag": {"$map": [["$tuple", [1]]]},
    "decimal": Decimal("1.10"),
    "decimal zero with sign and exponent": Decimal("-0E+10"),
    "decimal nan": Decimal("NaN123"),
    "decimal signalling nan": Decimal("sNaN"),
    "decimal infinity": Decimal("-Infinity"),
    "decimal of 60 digits": Decimal("1" * 60 + "." + "3" * 60),
    "naive datetime": dt.datetime.fromisoformat("2024-01-02T03:04:05.678901"),
    "first datetime": dt.datetime.fromisoformat("0001-01-01"),
    "last datetime": dt.datetime.fromisoformat("9999-12-31T23:59:59.999999"),
    "utc datetime": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    "datetime in a zone": dt.datetime(2024, 7, 1, 12, tzinfo=BERLIN),
    "the second of two equal hours": dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
    "an hour that never was": dt.datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN),
    "utc as a zone": dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    "datetime with an odd offset": dt.datetime(
        2024, 1, 1, tzinfo=dt.timezone(-dt.timedelta(hours=3, seconds=7, microseconds=1))
    ),
    "datetime with a named offset": dt.datetime(
        2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "Zulu")
    ),
    "date": dt.date(1, 1, 1),
    "time": dt.time(23, 59, 59, 999999, tzinfo=BERLIN, fold=1),
    "naive time": dt.time(0),
    "timedelta": dt.timedelta(-1, 5, 7),
    "longest timedelta": dt.timedelta.max,
    "uuid": UUID("12345678123456781234567812345678"),
    "uuid that knows how it was made": uuid1(),
    "path": Path("a/../b"),
    "pure paths": [PurePosixPath("/x"), PureWindowsPath("C:\\x"), PurePosixPath()],
    "path of raw bytes": PurePosixPath("a\udcff"),
    "range": range(5, -(2**70), -3),
    "ordered map": OrderedDict([("b", 1), ("a", {2})]),
    "defaultdict of lists": defaultdict(list, {1: [1]}),
    "defaultdict without factory": defaultdict(None, {"a": 1}),
    "counter": Counter({"b": 2, "a": -1, None: 0}),
    "counter of odd counts": Counter({"a": "many", "b": None}),
    "deque with a limit": deque([1, (2,)], maxlen=5),
    "deque": deque(),
    "one list twice": {"a": SHARED, "b": [SHARED, SHARED]},
    "150 levels": nested(150),
    "90 levels of tuples": nested(90, 1, tuple),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_as_it_was(value):
    assert_comes_back(value)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_from_inside_others(value):
    assert_comes_back({"deep": [{"er": value}, (value,)], "": 2**70})


REFUSED = {
    "enum": (Color.RED, "Color", ".value"),
    "enum that is an int": (Level.LOW, "Level", ".value"),
    "subclass of text": (Name("x"), "Name", "plain data"),
    "subclass of dict": (Bag(a=1), "Bag", "plain data"),
    "pydantic model": (Model(), "Model", "model_dump"),
    "dataclass": (Record(), "Record", "asdict"),
    "class": (Record, "type", "plain data"),
    "named tuple": (Pair(1, 2), "Pair", "_asdict"),
    "defaultdict of a lambda": (defaultdict(lambda: 1), "factory", "dict"),
    "defaultdict of a class": (defaultdict(Record), "factory", "dict"),
    "function": (nested, "function", "plain data"),
    "lambda": (lambda: 1, "function", "plain data"),
    "module": (sys, "module", "plain data"),
    "object": (object(), "object", "plain data"),
    "namespace": (SimpleNamespace(a=1), "SimpleNamespace", "plain data"),
    "exception": (ValueError("x"), "ValueError", "plain data"),
    "chain map": (ChainMap({}), "ChainMap", "plain data"),
    "memoryview": (memoryview(b"x"), "memoryview", "plain data"),
    "generator": ((n for n in ()), "generator", "plain data"),
    "ellipsis": (..., "ellipsis", "plain data"),
    "a time zone of its own": (dt.datetime(2024, 1, 1, tzinfo=Oslo()), "Oslo", "zoneinfo"),
    "5,000 levels": (nested(5_000), "levels deep", "flat"),
    "5,000 levels of maps": (nested(5_000, 1, key), "levels deep", "flat"),
}


@pytest.mark.parametrize(("value", "said", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_would_come_back_different_is_refused_and_says_what_to_do(value, said, hint):
    with pytest.raises(ArtifactRefused) as refused:
        encode(value)

    assert said in refused.value.message
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, Color.RED]}, "value['a'][1]: "),
        ({"a": {2: (0, Color.RED)}}, "value['a'][2][1]: "),
        ([{1, (Color.RED,)}], "value[0], a member of the set"),
        ({(1, "x"): Color.RED}, "value[(1, 'x')]: "),
        ({None: Color.RED}, "value[None]: "),
        ({Color.RED: 1}, "value[Color]: "),
        (OrderedDict(k=deque([Color.RED])), "value['k'][0]: "),
    ],
)
def test_a_refusal_names_the_place_inside_the_value(value, place):
    with pytest.raises(ArtifactRefused) as refused:
        encode(value)

    assert refused.value.message.startswith(place)


def cyclic():
    one = [1]
    two = {"list": one}
    one.append((two,))
    return two


def test_a_value_that_holds_itself_is_refused():
    with pytest.raises(ArtifactRefused, match="holds itself"):
        encode(cyclic())


def test_a_value_that_is_written_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(json_codec, "REPEATED", 10_000)
    value: list = [1, 2, {}]
    for _ in range(60):
        value = [value, value]

    with pytest.raises(ArtifactRefused, match="over and over"):
        encode(value)


def test_too_deep_a_stack_is_a_refusal_and_never_a_recursion_error():
    def deeper(levels):
        return encode(nested(190, last=())) if not levels else deeper(levels - 1)

    room = sys.getrecursionlimit() - 300
    with pytest.raises(ArtifactRefused, match="too deep"):
        deeper(room)


def test_equal_sets_give_equal_bytes_in_whatever_order_they_hold_their_members():
    one = {"x": set(range(100)) | {"a", "b"}}
    two = {"x": {"b", "a"} | set(range(99, -1, -1))}

    assert encode(one) == encode(two)


def test_attributes_of_a_map_of_collections_are_refused():
    value = OrderedDict(a=1)
    value.note = "kept nowhere"

    with pytest.raises(ArtifactRefused, match="attributes of its own"):
        encode(value)


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
ZONES = st.sampled_from([None, dt.UTC, BERLIN, dt.timezone(dt.timedelta(minutes=-90))])
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ["$tuple", "$map", "$", "\ud800"]
)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    FLOATS,
    st.complex_numbers(),
    TEXTS,
    st.binary(max_size=20),
    st.decimals(),
    st.datetimes(timezones=ZONES),
    st.times(timezones=ZONES),
    st.dates(),
    st.timedeltas(),
    st.uuids(),
)
KEYS = st.recursive(ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3))
HASHABLE = KEYS.filter(lambda key: not (isinstance(key, Decimal) and key.is_snan()))


def containers(inner):
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=5),
        st.lists(st.tuples(ATOMS, inner), max_size=4).map(pairs),
        st.lists(st.tuples(ATOMS, inner), max_size=4).map(pairs).map(OrderedDict),
        st.lists(inner, max_size=4).map(lambda items: deque(items, 4)),
    )


def pairs(items):
    return {key: value for key, value in items if not (isinstance(key, Decimal) and key.is_snan())}


@settings(deadline=None, max_examples=250)
@given(st.recursive(ATOMS, containers, max_leaves=20))
def test_any_nested_value_comes_back_as_it_was(value):
    assert_comes_back(value)


ODD = st.sampled_from(
    [
        *("$tuple", "$map", "$int", "$float", "$set", "$bytes", "$datetime", "$uuid", "$path"),
        *("$range", "$deque", "$default", "$array", "$number", "$objects", "$frame", "$series"),
        *("$index", "$cells", "$timestamp", "$period", "$interval", "$counter", "$complex", "$x"),
    ]
)


@settings(deadline=None, max_examples=250)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.floats(0, 1),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(ODD | st.text(max_size=3), inner, max_size=2)
        ),
        max_leaves=12,
    )
)
def test_a_forged_tree_is_a_value_or_damaged_and_nothing_else(tree):
    with suppress(ArtifactDamaged):
        decode("json", orjson.dumps(tree))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b'{"$tuple":1}',
        b'{"$nothing":[1]}',
        b'{"$int":"0x"}',
        b'{"$float":"00"}',
        b'{"$path":["Path","x"]}',
        b'{"$default":["eval",[]]}',
        b'{"$datetime":["2024-01-01",0,["zone","../../etc/passwd"]]}',
        b'{"$datetime":["2024-01-01",7,null]}',
        b'{"$bytes":0}',
        b'{"$map":[[[],1]]}',
        b'{"$set":[{"a":1}]}',
        b'{"$uuid":["12",null]}',
        b"[" * 2_000 + b"]" * 2_000,
        b'{"$tuple":[' * 1_000 + b"]}" * 1_000,
        b'[{"$tuple":[]},' + b"[" * 900 + b"]" * 900 + b"]",
    ],
)
def test_a_tree_that_nobody_wrote_is_damaged(payload):
    with pytest.raises(ArtifactDamaged):
        decode("json", payload)
