"""The text of a plan file."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final

from planbench.errors import PlanLoadError
from planbench.plan.document import Limits
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from pathlib import Path

_ENDINGS: Final = (".yaml", ".yml", ".json")
_NAMED: Final = 5
_DEFAULT: Final = Limits()
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, limits: Limits = _DEFAULT) -> str:
    """Read a file or a pipe as text; raises PlanLoadError when it is not there or unreadable.

    Bytes that are no UTF-8 come as lone surrogates, which the reader of plans refuses
    with their line and column.
    """
    most = 4 * limits.max_chars  # UTF-8 takes up to four bytes a character
    try:
        if path.is_dir() or not path.exists():
            what = "is a folder, not a file" if path.is_dir() else "does not exist"
            hint = _instead(path if path.is_dir() else path.parent, path.name)
            raise PlanLoadError(f"the plan file {str(path)!r} {what}", path=path, hint=hint)
        with path.open("rb") as file:  # a pipe has no size: what is read is what counts
            data = file.read(most + 1)
        if len(data) > most:
            raise PlanLoadError(
                f"the plan file {str(path)!r} has more than the {most} bytes that are read",
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


def _instead(folder: Path, name: str) -> str:
    """Say which files of a folder could have been meant."""
    if not folder.is_dir():
        return f"there is no folder {str(folder)!r}"
    names = sorted(one.name for one in folder.iterdir() if one.suffix in _ENDINGS)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    has = f"the folder has {', '.join(names[:_NAMED]) or 'no plan files'}{more}"
    return suggestion(name, names) or has
