"""The text of a plan file."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final

from planbench.errors import PlanLoadError
from planbench.plan.document import Limits

if TYPE_CHECKING:
    from pathlib import Path

_MAX_BYTES: Final = 4 * Limits().max_chars  # UTF-8 takes up to four bytes a character
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """Read a file as text; raises PlanLoadError when there is none, or it cannot be read.

    Bytes that are no UTF-8 come as lone surrogates, which the reader of plans refuses
    with their line and column.
    """
    try:
        if not path.is_file():
            what = "is a folder, not a file" if path.is_dir() else "does not exist"
            raise PlanLoadError(f"the plan file {str(path)!r} {what}", path=path)
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise PlanLoadError(
                f"the plan file {str(path)!r} has {size} bytes, and at most {_MAX_BYTES} are read",
                path=path,
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanLoadError(
            f"the plan file {str(path)!r} cannot be read: {reason}", path=path
        ) from error
    if data.startswith(_UTF_16):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "surrogateescape")
