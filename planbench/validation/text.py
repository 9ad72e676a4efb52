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
    """Read a file or a pipe as text; raises PlanLoadError when it is not there or unreadable.

    Bytes that are no UTF-8 come as lone surrogates, which the reader of plans refuses
    with their line and column.
    """
    try:
        if path.is_dir() or not path.exists():
            what = "is a folder, not a file" if path.is_dir() else "does not exist"
            raise PlanLoadError(f"the plan file {str(path)!r} {what}", path=path)
        with path.open("rb") as file:  # a pipe has no size: what is read is what counts
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise PlanLoadError(
                f"the plan file {str(path)!r} has more than the {_MAX_BYTES} bytes that are read",
                path=path,
            )
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanLoadError(
            f"the plan file {str(path)!r} cannot be read: {reason}", path=path
        ) from error
    if data.startswith(_UTF_16):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "surrogateescape")
