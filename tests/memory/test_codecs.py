from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import orjson
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import ArtifactDamaged, ArtifactRefused, PlanbenchError, StoreError
from planbench.memory.codecs import Encoded, decode, encode
from planbench.memory.sameness import same


@dataclass
class Point:
    x: int


class Trap:
    """Leaves a mark when it is unpickled."""

    def __reduce__(self):
        return os.putenv, ("PLANBENCH_TRAP", "sprung")


BIG = pd.DataFrame({"n": np.arange(500), "s": ["a", "b"] * 250, "o": pd.Series([{1}] * 500)})
SAMPLES = {
    "text": "grün " * 20,
    "bytes": bytes(range(256)),
    "json": {"a": [1, (2,), {3}], 4: None},
    "npy": np.arange(50),
    "parquet": BIG,
    "parts": {"df": BIG, "n": 3, "more": [np.arange(5), b"x" * 9_000]},
}


@pytest.mark.parametrize(("codec", "value"), SAMPLES.items(), ids=SAMPLES)
def test_a_value_names_its_codec_and_comes_back(codec, value):
    encoded = encode(value)

    assert encoded.codec == codec
    assert same(decode(*encoded), value)


def test_text_and_bytes_are_stored_as_they_are():
    assert encode("grün") == Encoded("text", "grün".encode())
    assert encode(b"\xff\0") == Encoded("bytes", b"\xff\0")
    assert decode("text", b"") == ""


def test_equal_values_give_equal_bytes():
    for value in SAMPLES.values():
        assert encode(value) == encode(value)


def readable(codec, payload):
    """A damaged value is found, or it is one that these bytes stand for."""
    try:
        decode(codec, payload)
    except ArtifactDamaged:
        return False
    return True


def test_damage_is_an_error_of_the_store_with_the_code_of_what_cannot_be_had():
    with pytest.raises(StoreError) as damaged:
        decode("json", b"{")

    assert damaged.value.code == "artifacts_unavailable"


@pytest.mark.parametrize("value", SAMPLES.values(), ids=SAMPLES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_flipped_bytes_are_damage_or_another_value_and_never_a_crash(value, data):
    codec, payload = encode(value)
    changed = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))

    readable(codec, bytes(changed))


@pytest.mark.parametrize("name", ["json", "npy", "parquet", "parts"])
def test_a_payload_that_is_cut_off_is_damaged(name):
    codec, payload = encode(SAMPLES[name])
    for length in {0, 1, 7, len(payload) // 2, len(payload) - 9, len(payload) - 1}:
        assert not readable(codec, payload[:length])


@pytest.mark.parametrize("codec", ["json", "npy", "parquet", "parts"])
@pytest.mark.parametrize("value", SAMPLES.values(), ids=SAMPLES)
def test_the_wrong_codec_is_damage(value, codec):
    right, payload = encode(value)
    if codec != right:
        assert not readable(codec, payload)


@pytest.mark.parametrize("codec", ["", "json2", "os.system", None, 7, "PICKLE"])
def test_an_unknown_codec_is_damage_and_says_why(codec):
    with pytest.raises(ArtifactDamaged, match="no codec") as damaged:
        decode(codec, b"1")

    assert "newer planbench" in damaged.value.hint


def parts(head, *bodies):
    raw = orjson.dumps(head)
    return b"planbench parts 1\n" + struct.pack(">Q", len(raw)) + raw + b"".join(bodies)


ARRAY = encode(np.arange(3)).payload
ONE = [["npy", len(ARRAY)]]


def test_parts_stand_after_their_tree():
    made = decode("parts", parts({"parts": ONE, "tree": [{"$array": 0}]}, ARRAY))

    assert made[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "payload",
    [
        parts({"parts": ONE, "tree": [{"$array": 0}, {"$array": 0}]}, ARRAY),
        parts({"parts": ONE, "tree": {"$bytes": 0}}, ARRAY),
        parts({"parts": ONE, "tree": {"$array": 1}}, ARRAY),
        parts({"parts": ONE, "tree": {"$array": -1}}, ARRAY),
        parts({"parts": ONE, "tree": {"$array": True}}, ARRAY),
        parts({"parts": ONE, "tree": 1}, ARRAY, b"more"),
        parts({"parts": [["npy", 10**18]], "tree": 1}, ARRAY),
        parts({"parts": [["npy", -1]], "tree": 1}, ARRAY),
        parts({"parts": [["npy", 1.0]], "tree": 1}, b"1"),
        parts({"tree": 1}),
        parts([]),
        b"planbench parts 1\n" + b"\xff" * 8,
        b"planbench parts 1\n",
    ],
)
def test_parts_that_nobody_wrote_are_damage(payload):
    with pytest.raises(ArtifactDamaged):
        decode("parts", payload)


def test_without_leave_nothing_is_pickled_and_the_refusal_says_how():
    with pytest.raises(ArtifactRefused, match="Point") as refused:
        encode({"at": Point(1)})

    assert "allow_pickle=True" in refused.value.hint
    assert refused.value.message.startswith("value['at']: ")


def test_with_leave_on_both_sides_a_value_of_a_class_comes_back_by_pickle():
    codec, payload = encode({"at": Point(1)}, allow_pickle=True)

    assert codec == "pickle"
    assert decode(codec, payload, allow_pickle=True) == {"at": Point(1)}


def test_what_needs_no_pickle_gets_none_even_with_leave():
    assert encode({"a": (1,)}, allow_pickle=True).codec == "json"


def test_a_pickle_is_not_opened_without_leave(monkeypatch):
    payload = pickle.dumps(Trap())
    sprung = []
    monkeypatch.setattr(os, "putenv", lambda *_: sprung.append(1))

    with pytest.raises(ArtifactDamaged, match="not allowed"):
        decode("pickle", payload)
    assert not sprung


@pytest.mark.parametrize("value", [lambda: 1, (n for n in ()), {"x": sys}])
def test_what_pickle_cannot_keep_is_refused_with_leave_too(value):
    with pytest.raises(ArtifactRefused, match="pickle"):
        encode(value, allow_pickle=True)


def test_a_damaged_pickle_is_damage():
    with pytest.raises(ArtifactDamaged):
        decode("pickle", b"\x80\x05junk", allow_pickle=True)


def test_a_class_of_a_notebook_is_refused_naming_it():
    program = textwrap.dedent(
        """
        from enum import Enum
        from planbench.errors import ArtifactRefused
        from planbench.memory.codecs import encode

        class Color(Enum):
            RED = 1

        try:
            encode([Color.RED])
        except ArtifactRefused as refused:
            print(refused)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "value[0]: a __main__.Color" in done.stdout
    assert ".value" in done.stdout


def test_values_that_need_neither_are_stored_without_loading_pandas_or_numpy():
    program = textwrap.dedent(
        """
        import sys
        from planbench.memory.codecs import decode, encode

        assert decode(*encode({"a": [(1, 2.5), {"b"}], 3: b"x" * 9_000}))[3] == b"x" * 9_000
        print(sorted({"pandas", "numpy", "pyarrow", "fsspec"} & set(sys.modules)))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


def test_a_value_that_raises_at_every_look_is_refused():
    with pytest.raises(PlanbenchError):
        encode([Hostile()])
