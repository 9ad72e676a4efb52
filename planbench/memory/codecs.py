"""Values as bytes and back: what comes back is equal in value and in the type of every cell.

=========  ====================================================================
text       a ``str``, as UTF-8 (half of a surrogate pair by its three bytes)
bytes      ``bytes`` as they are
json       JSON with tagged types, see ``json_codec``
npy        one array of numbers, texts, times or booleans: an npy file
parquet    one frame, Series or index: a parquet file with the labels and types in
           its metadata under ``planbench``
parts      a value that holds frames, arrays or long bytes: JSON and those after it
pickle     anything, where the host allows it on both sides
=========  ====================================================================

Whatever would come back different is refused when it is written. Bytes that are read
may be damaged or forged: they raise ArtifactDamaged, import nothing and run nothing,
except for pickle.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from planbench.errors import ArtifactDamaged, ArtifactRefused, ArtifactTooLarge
from planbench.memory.json_codec import Part, TreeWriter
from planbench.memory.json_reader import TreeReader
from planbench.memory.refusals import PLAIN_DATA, Refused
from planbench.memory.sameness import difference
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC: Final = b"planbench parts 1\n"
_LENGTH: Final = struct.Struct(">Q")
_METADATA: Final = b"planbench"
_LONGEST_METADATA: Final = 8_000_000
TABLE_TAGS: Final = frozenset({"$frame", "$series", "$index", "$cells"})


class Encoded(NamedTuple):
    """A value as bytes, and the name of the codec that reads them."""

    codec: str
    payload: bytes


def encode(value: Any, *, allow_pickle: bool = False) -> Encoded:
    """Give a value as bytes.

    Raises ArtifactRefused, which names the place inside the value, for what would not
    come back as it is. With ``allow_pickle`` such a value is pickled, and refused only
    where pickle cannot.
    """
    if type(value) is str:
        return Encoded("text", value.encode("utf-8", "surrogatepass"))
    if type(value) is bytes:
        return Encoded("bytes", value)
    try:
        return _encode(value)
    except Refused as refused:
        if not allow_pickle:
            raise refused.error() from None
        return _pickled(value, refused)


def decode(
    codec: str, payload: bytes, *, allow_pickle: bool = False, max_bytes: int | None = None
) -> Any:
    """Give the value of bytes that ``encode`` made.

    Raises ArtifactDamaged for bytes that it did not make and for a pickle that is not
    allowed, and ArtifactTooLarge for a table above ``max_bytes`` in memory.
    """
    read = _DECODERS.get(codec)
    if codec == "pickle":
        if not allow_pickle:
            raise ArtifactDamaged(
                "the artifact is a pickle, and pickle is not allowed here",
                hint="let the host allow it: TaskMemoryRuntime(url, allow_pickle=True)",
            )
        read = _unpickled
    if read is None:
        raise ArtifactDamaged(
            f"there is no codec {shown(codec)}",
            hint="a newer planbench may have written the artifact",
        )
    try:
        return read(payload, max_bytes)
    except ArtifactTooLarge:
        raise
    except Exception as error:  # strange bytes break libraries in ways that none of them lists
        raise ArtifactDamaged(
            f"the artifact is no {codec} that planbench wrote: {type(error).__name__}: {shown(str(error), 200)}"
        ) from error


def _encode(value: Any) -> Encoded:
    try:
        writer, tree, raw = _tree(value)
        encoded = _assemble(tree, raw, writer.parts)
        if writer.doubtful:
            _compare(value, encoded)
    except RecursionError:
        raise Refused("it is nested too deep", "return it flat, as a list or a table") from None
    except Refused:
        raise
    except Exception as error:  # what other libraries made may raise anything when it is looked at
        raise Refused(
            f"it cannot be written: {type(error).__name__}: {shown(str(error), 200)}", PLAIN_DATA
        ) from error
    return encoded


def _compare(value: Any, encoded: Encoded) -> None:
    """Read again what holds a type whose way back is not known to be exact."""
    try:
        back = decode(*encoded)
    except ArtifactDamaged as damaged:
        raise Refused(f"it could not be read back: {damaged.message}", PLAIN_DATA) from damaged
    place = difference(value, back)
    if place is not None:
        raise Refused(f"it would come back different: {place}", PLAIN_DATA)


def _tree(value: Any) -> tuple[TreeWriter, Any, bytes]:
    """Give the JSON of a value; a second, slower try marks what JSON has no place for."""
    try:
        writer = TreeWriter()
        tree = writer.write(value)
        return writer, tree, orjson.dumps(tree)
    except orjson.JSONEncodeError:
        writer = TreeWriter(careful=True)
        tree = writer.write(value)
        return writer, tree, orjson.dumps(tree)


def _assemble(tree: Any, raw: bytes, parts: list[Part]) -> Encoded:
    if not parts:
        return Encoded("json", raw)
    if len(parts) == 1 and type(tree) is dict and len(tree) == 1:
        (tag,) = tree
        kind, data = parts[0]
        if tag == "$array":
            return Encoded("npy", data)
        if kind == "table" and tag in TABLE_TAGS and len(raw) <= _LONGEST_METADATA:
            return Encoded("parquet", _parquet(data, raw))
    bodies = [_parquet(part.data) if part.kind == "table" else part.data for part in parts]
    sizes = [[part.kind, len(body)] for part, body in zip(parts, bodies, strict=True)]
    head = b'{"parts":' + orjson.dumps(sizes) + b',"tree":' + raw + b"}"
    return Encoded("parts", b"".join((_MAGIC, _LENGTH.pack(len(head)), head, *bodies)))


def _parquet(table: Any, tree: bytes | None = None) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - only a table needs it
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    if tree is not None:
        table = table.replace_schema_metadata({_METADATA: tree})
    texts = [field.name for field in table.schema if not pa.types.is_primitive(field.type)]
    file = pa.BufferOutputStream()
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=texts,
        write_statistics=False,
        use_compliant_nested_type=False,
    )
    return bytes(file.getvalue())


def _read_json(payload: bytes, max_bytes: int | None) -> Any:
    tree = orjson.loads(payload)
    return TreeReader(max_bytes=max_bytes).read(tree) if b'{"$' in payload else tree


def _read_npy(payload: bytes, max_bytes: int | None) -> Any:
    return TreeReader([Part("npy", payload)], max_bytes=max_bytes).read({"$array": 0})


def _read_parquet(payload: bytes, max_bytes: int | None) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only a table needs it
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    tree = orjson.loads(pq.read_metadata(pa.BufferReader(payload)).metadata[_METADATA])
    (tag,) = tree
    if tag not in TABLE_TAGS:
        raise ValueError("not a table")
    return TreeReader([Part("table", payload)], max_bytes=max_bytes).read(tree)


def _read_parts(payload: bytes, max_bytes: int | None) -> Any:
    view = memoryview(payload)
    start = len(_MAGIC) + _LENGTH.size
    if not payload.startswith(_MAGIC):
        raise ValueError("not a file of parts")
    (length,) = _LENGTH.unpack(view[len(_MAGIC) : start])
    end = start + length
    if end > len(view):
        raise ValueError("cut off")
    head = orjson.loads(view[start:end])
    parts = []
    for kind, size in head["parts"]:
        if type(size) is not int or not 0 <= size <= len(view) - end:
            raise ValueError("cut off")
        parts.append(Part(kind, bytes(view[end : end + size])))
        end += size
    if end != len(view):
        raise ValueError("more bytes than were written")
    return TreeReader(parts, max_bytes=max_bytes).read(head["tree"])


def _pickled(value: Any, refused: Refused) -> Encoded:
    try:
        payload = pickle.dumps(value, protocol=5)
        back = pickle.loads(payload)  # noqa: S301 - what was just written, and the host allows pickle
    except Exception as error:  # the value's own code runs here and may raise anything
        raise ArtifactRefused(
            f"{refused.error().message}, and pickle cannot keep it: {type(error).__name__}: {shown(str(error), 200)}"
        ) from error
    if type(back) is not type(value):
        raise ArtifactRefused(f"{refused.error().message}, and pickle gives {type(back).__name__}")
    return Encoded("pickle", payload)


def _unpickled(payload: bytes, max_bytes: int | None) -> Any:
    del max_bytes
    return pickle.loads(payload)  # noqa: S301 - only where the host allows pickle


_DECODERS: Final[dict[str, Callable[[bytes, int | None], Any]]] = {
    "text": lambda payload, _: payload.decode("utf-8", "surrogatepass"),
    "bytes": lambda payload, _: payload,
    "json": _read_json,
    "npy": _read_npy,
    "parquet": _read_parquet,
    "parts": _read_parts,
}
