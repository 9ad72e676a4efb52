from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from planbench.errors import ArtifactDamaged, ArtifactRefused
from planbench.memory.codecs import decode, encode
from planbench.memory.sameness import difference

SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    npst.datetime64_dtypes(endianness="?"),
    npst.timedelta64_dtypes(endianness="?"),
    npst.byte_string_dtypes(max_len=4),
    npst.unicode_string_dtypes(max_len=4),
)


def back(value):
    return decode(*encode(value))


@settings(deadline=None, max_examples=200)
@given(DTYPES.flatmap(lambda dtype: npst.arrays(dtype, SHAPES)))
def test_an_array_comes_back_bit_by_bit(array):
    assert difference(array, back(array)) is None
    assert difference([array, {"x": array}], back([array, {"x": array}])) is None


@settings(deadline=None, max_examples=200)
@given(DTYPES.flatmap(lambda dtype: npst.arrays(dtype, (1,))))
def test_a_scalar_comes_back_with_its_type_or_is_refused(array):
    scalar = array.astype(array.dtype.newbyteorder("="))[0]

    assert difference(scalar, back(scalar)) is None


STRUCTURED = np.dtype([("id", "<i4"), ("when", "<M8[s]"), ("at", "<f8", (2,)), ("name", "<U3")])


@pytest.mark.parametrize(
    "array",
    [
        np.array(None, dtype=object),
        np.array([[1, "a"], [None, (1, 2)]], dtype=object),
        np.array([np.float32(1), np.nan, np.array([1, 2]), {"a": {1}}], dtype=object),
        np.empty((0, 3), dtype=object),
        np.array([(1, "2024-01-01", (1.5, 2), "abc")], dtype=STRUCTURED),
        np.zeros(3, dtype="V5"),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(10)[::-2],
        np.broadcast_to(np.int8(1), (3, 4)),
        np.array(["a\ud800", "b\0"]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_an_awkward_array_comes_back(array):
    assert difference(array, back(array)) is None


def test_an_array_that_comes_back_can_be_written_to_and_is_nobody_elses():
    array = np.arange(5)
    one, two = back(array), back(array)
    one[0] = 7

    assert two[0] == 0
    assert back([array])[0].flags.writeable


def test_an_array_alone_is_an_npy_file():
    codec, payload = encode(np.arange(5))

    assert codec == "npy"
    assert np.load(io.BytesIO(payload)).tolist() == [0, 1, 2, 3, 4]


ALIGNED = np.dtype([("a", "i1"), ("b", "f8")], align=True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(2, "g"), "depends on the machine|size depends"),
        (np.longdouble(1), "depends on the machine"),
        (
            np.zeros(2, "q") if np.dtype("q").char != np.dtype("i8").char else np.zeros(2, "G"),
            "kept",
        ),
        (np.ma.array([1, 2], mask=[True, False]), "only plain arrays"),
        (np.zeros(2, dtype=[("a", "O")]), "not kept"),
        (np.zeros(2, dtype=ALIGNED), "another type"),
        (np.zeros(2, dtype=np.dtype("i8", metadata={"unit": "m"})), "another type"),
        (np.array([1, object()], dtype=object), r"\[1\]: an object"),
        (np.array([[1, 2], [3, len]], dtype=object), r"\[1, 1\]: "),
        (np.dtype("i8"), "cannot be kept"),
    ],
)
def test_an_array_that_would_come_back_different_is_refused(value, said):
    with pytest.raises(ArtifactRefused, match=said):
        encode(value)


def test_an_array_that_holds_itself_is_refused():
    array = np.array([None], dtype=object)
    array[0] = array

    with pytest.raises(ArtifactRefused, match="holds itself"):
        encode(array)


def forged(header):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "payload",
    [
        forged("{'descr': '<i8', 'fortran_order': False, 'shape': (10**18,)}"),
        forged("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,)}"),
        forged("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}") + b"\0" * 8,
        forged("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + b"\0" * 8,
        forged("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}") + b"\0" * 7,
        forged("__import__('os').abort()"),
        b"\x93NUMPY\x03\x00",
        b"",
    ],
)
def test_a_forged_npy_file_is_damaged_and_takes_no_memory(payload):
    with pytest.raises(ArtifactDamaged):
        decode("npy", payload)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"$objects":[[1000000000000],[]]}',
        b'{"$objects":[[2],[1]]}',
        b'{"$number":["O","AAAAAAAAAAA="]}',
        b'{"$number":["<i8","AAAA"]}',
        b'{"$number":["<i8,<i8","AAAA"]}',
        b'{"$array":0}',
    ],
)
def test_a_forged_array_in_json_is_damaged(payload):
    with pytest.raises(ArtifactDamaged):
        decode("json", payload)
