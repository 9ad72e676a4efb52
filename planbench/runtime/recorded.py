"""Values in the journal of an agent: what a tool or a child gave, so that it can be given again."""

from __future__ import annotations

import base64
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic_core import to_json, to_jsonable_python

from planbench.errors import ArtifactRefused, RecordDamaged, RunRefused, StoreError
from planbench.memory.codecs import decode, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from planbench.memory.artifacts import ArtifactStore

    Aside = Callable[[Callable[[], Any]], Awaitable[Any]]

LARGE: Final = 16_384
"""Bytes from which on a value becomes an artifact, where artifacts are durable."""
_SMALL: Final = (type(None), bool, int, float)
_SHORT: Final = 2_000


class Values:
    """Writes values into events and reads them back.

    A value that no codec can keep as it is becomes plain JSON data (``plain``), so that
    what an algorithm is given is what a replay will give it.
    """

    def __init__(self, artifacts: ArtifactStore | None, aside: Aside) -> None:
        self._artifacts = artifacts
        self._aside = aside

    async def write(self, value: Any) -> tuple[dict[str, Any], Any]:
        """Give the fields of an event that keep a value, and the value as they will give it back."""
        if type(value) in _SMALL or (type(value) is str and len(value) <= _SHORT):
            return _written(value, self._artifacts)
        found: tuple[dict[str, Any], Any] = await self._aside(
            partial(_written, value, self._artifacts)
        )
        return found

    async def read(self, data: Mapping[str, Any]) -> Any:
        """Give the value that fields of an event keep; raises RunRefused where it cannot be had."""
        if type(data.get("value")) in _SMALL and not _KEPT_APART & data.keys():
            return data.get("value")
        return await self._aside(partial(read_value, data, self._artifacts))


_KEPT_APART: Final = frozenset({"artifact", "codec"})


def write_value(value: Any, artifacts: ArtifactStore | None = None) -> dict[str, Any]:
    """Give the fields of an event that keep a value: in the event, or where artifacts are.

    Raises ArtifactRefused for what would come back different, StoreError where the
    artifact cannot be written.
    """
    codec, payload = encode(value)
    if artifacts is not None and len(payload) > LARGE:
        return {"artifact": artifacts.write(value).to_dict()}
    if codec == "text":
        return {"value": value}
    if codec == "json":
        return {"value": orjson.loads(payload)}
    return {"codec": codec, "payload": base64.b64encode(payload).decode("ascii")}


def read_value(data: Mapping[str, Any], artifacts: ArtifactStore | None = None) -> Any:
    """Give the value that fields of an event keep; None where there is none.

    Raises RunRefused, artifacts_unavailable or checkpoint_invalid, where it cannot be had.
    """
    try:
        if "artifact" in data:
            return _from_artifacts(data["artifact"], artifacts)
        if "codec" in data:
            return decode(data["codec"], base64.b64decode(data["payload"], validate=True))
        value = data.get("value")
        if type(value) in _SMALL or type(value) is str:
            return value
        return decode("json", orjson.dumps(value))
    except StoreError as error:
        raise RunRefused("artifacts_unavailable", error.message, hint=error.hint) from error
    except (KeyError, TypeError, ValueError) as error:
        raise RunRefused("checkpoint_invalid", f"a recorded value is damaged: {error}") from error


def _from_artifacts(record: Any, artifacts: ArtifactStore | None) -> Any:
    from planbench.memory.artifacts import ArtifactRecord  # noqa: PLC0415 - opens fsspec, which few runs need

    if artifacts is None:
        raise RecordDamaged(
            "a recorded value is kept as an artifact, and no durable artifacts are set up",
            hint="give the engine its task_memory_runtime and scope",
        )
    return artifacts.read(ArtifactRecord.from_dict(record))


def _written(value: Any, artifacts: ArtifactStore | None) -> tuple[dict[str, Any], Any]:
    try:
        return write_value(value, artifacts), value
    except ArtifactRefused:
        value = plain(value)
        return write_value(value, artifacts), value


def plain(value: Any) -> Any:
    """Give a value as JSON data: models and dataclasses as maps, what is left over as text."""
    try:
        return to_jsonable_python(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64")
    except Exception:  # noqa: BLE001 - the value's own code runs here and may raise anything
        return f"<{type(value).__name__}>"


def as_text(value: Any) -> str:
    """Give a value as text for a model: strings as they are, plain data as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | tuple | int | float | bool | None):
        try:
            return to_json(value).decode("utf-8", "replace")
        except Exception:  # noqa: BLE001 - as in plain
            return str(plain(value))
    return str(value)


def asked_digest(*asked: Any) -> str:
    """Give the digest of what was asked, by which a replay knows it again."""
    try:
        text = to_json(asked, fallback=lambda value: type(value).__name__, inf_nan_mode="strings")
    except ValueError:  # a text that is no Unicode
        text = ascii(plain(asked)).encode("ascii")
    return blake2b(text, digest_size=12).hexdigest()
