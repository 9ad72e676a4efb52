"""Arrays and scalars of numpy: the bytes of an npy file, and cells of objects as JSON.

Every type whose bytes mean the same on each machine is kept. The long ones of a
platform (``longdouble``, ``longlong``) are not, nor are subclasses such as masked arrays.
"""

from __future__ import annotations

import io
import re
from base64 import b64decode, b64encode
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planbench.memory.refusals import Refused, at_key
from planbench.plan.shapes import a

if TYPE_CHECKING:
    from planbench.memory.json_codec import TreeWriter
    from planbench.memory.json_reader import TreeReader

_KINDS: Final = "biufcmMSUV"
_OF_ANY_SIZE: Final = "SUV"
_SCALAR: Final = re.compile(
    r"[<>|=]?(?:b1|[iu][1248]|f[248]|c8|c16|[mM]8(?:\[\d{0,9}[A-Za-z]{1,2}\])?)"
)
_HEADER: Final = 65_535
_VERSION: Final = (1, 0)


def write_numpy(writer: TreeWriter, value: Any, depth: int) -> Any:
    """Give an array or scalar as a tree; raises Refused for what would come back different."""
    if type(value) is np.ndarray:
        return _write_array(writer, value, depth)
    if isinstance(value, np.generic):
        return _write_scalar(writer, value, depth)
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        raise Refused(
            f"{a(name)} is not kept: only plain arrays are", "return numpy.asarray(value)"
        )
    raise Refused(f"{a(f'numpy {name}')} cannot be kept as it is", "return plain data")


def read_numpy(reader: TreeReader, tag: str, held: Any, depth: int) -> Any:
    """Make what ``write_numpy`` wrote; raises anything where it did not."""
    if tag == "$array":
        return read_npy(reader.part(held, "npy"))
    if tag == "$objects":
        shape, cells = held
        return objects(reader.items(cells, depth), tuple(shape))
    kind, written = held
    if kind == "str":
        return np.str_(reader.read(written, depth))
    raw = b64decode(written, validate=True)
    if kind == "bytes":
        return np.bytes_(raw)
    (scalar,) = np.frombuffer(raw, scalar_dtype(kind))
    return scalar


def scalar_dtype(text: str) -> np.dtype[Any]:
    """Give the type of numbers, times or booleans that a text names, and of nothing else."""
    if not _SCALAR.fullmatch(text):
        raise ValueError("not the type of a number, time or boolean")
    return np.dtype(text)


def objects(cells: list[Any], shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
    """Set cells into an array of objects; a list among them stays one cell."""
    array = np.fromiter(cells, dtype=object, count=len(cells))
    if shape is None:
        return array
    if prod(shape) != len(cells):
        raise ValueError("the cells do not fill the shape")
    return array.reshape(shape)


def npy(array: np.ndarray[Any, Any]) -> bytes:
    """Give an array of plain cells as an npy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=_VERSION, allow_pickle=False)
    return file.getvalue()


def read_npy(data: bytes) -> np.ndarray[Any, Any]:
    """Read an npy file into a new array; nothing is made that the bytes do not fill."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != _VERSION:
        raise ValueError("another version of npy")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=_HEADER)
    if dtype.hasobject:
        raise ValueError("an npy file of objects")
    body = memoryview(data)[file.tell() :]
    if any(size < 0 for size in shape) or prod(shape) * dtype.itemsize != len(body):
        raise ValueError("the bytes do not fill the shape")
    array: np.ndarray[Any, Any] = np.ndarray(
        shape, dtype, buffer=body if len(body) else None, order="F" if fortran else "C"
    )
    return array.copy(order="K")


def _write_array(writer: TreeWriter, value: np.ndarray[Any, Any], depth: int) -> Any:
    if value.dtype == object:
        shape = list(value.shape)
        before = writer.enter(value, value.size)
        cells = []
        for place, cell in zip(np.ndindex(*shape), value.ravel(), strict=True):
            try:
                cells.append(writer.write(cell, depth + 3))
            except Refused as refused:
                raise refused.inside(f"[{', '.join(map(str, place))}]") from None
        writer.leave(value, before)
        return {"$objects": [shape, cells]}
    _refuse_dtype(value.dtype)
    try:
        return {"$array": writer.add("npy", npy(value))}
    except ValueError as error:
        raise Refused(f"numpy cannot write the array: {error}") from error


def _write_scalar(writer: TreeWriter, value: np.generic, depth: int) -> Any:
    kind = type(value)
    if kind is np.str_:
        return {"$number": ["str", writer.write(str(value), depth + 2)]}
    if kind is np.bytes_:
        raw: Any = value
        return {"$number": ["bytes", b64encode(bytes(raw)).decode()]}
    dtype = value.dtype
    if not _SCALAR.fullmatch(dtype.str) or np.dtype(dtype.str).type is not kind:
        raise Refused(
            f"{a(f'numpy {kind.__name__}')} is not kept: its size depends on the machine, or it has fields",
            "use numpy.int64, numpy.float64 or a plain number",
        )
    return {"$number": [dtype.str, b64encode(value.tobytes()).decode()]}


def _refuse_dtype(dtype: np.dtype[Any]) -> None:
    """Raise Refused for a type whose arrays an npy file would change."""
    _refuse_cells(dtype)
    if dtype.metadata is None:
        described = np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype))
        if described == dtype and described.isalignedstruct == dtype.isalignedstruct:
            return
    raise Refused(f"numpy cells of the type {dtype} would come back as another type")


def _refuse_cells(dtype: np.dtype[Any]) -> None:
    if dtype.names is not None:
        for name in dtype.names:
            try:
                _refuse_cells(dtype[name])
            except Refused as refused:
                raise refused.inside(at_key(name)) from None
    elif dtype.subdtype is not None:
        _refuse_cells(dtype.subdtype[0])
    elif dtype.kind not in _KINDS:
        raise Refused(f"numpy cells of the type {dtype.name} are not kept", "return plain data")
    elif dtype.kind not in _OF_ANY_SIZE and (
        not _SCALAR.fullmatch(dtype.str) or np.dtype(dtype.str).char != dtype.char
    ):
        raise Refused(
            f"numpy cells of the type {dtype.name} are not kept: their size depends on the machine",
            "convert them: astype('float64'), astype('int64')",
        )
