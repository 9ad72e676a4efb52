"""Times and sizes as people read them."""

from __future__ import annotations

from typing import Final

_STEP: Final = 1000
_MINUTE: Final = 60
_HOUR: Final = 3600


def duration(seconds: float) -> str:
    """Give seconds as ``12 ms``, ``3.4 s``, ``2 min 05 s`` or ``1 h 02 min``."""
    if round(seconds * _STEP) < _STEP:
        return f"{seconds * _STEP:.0f} ms"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s"
    if round(seconds) < _HOUR:
        minutes, rest = divmod(round(seconds), _MINUTE)
        return f"{minutes} min {rest:02d} s"
    hours, rest = divmod(round(seconds), _HOUR)
    return f"{hours} h {rest // _MINUTE:02d} min"


def size(nbytes: int) -> str:
    """Give bytes as ``640 B``, ``12.3 kB`` or ``4.0 GB``, in steps of 1000."""
    if nbytes < _STEP:
        return f"{nbytes} B"
    amount = float(nbytes)
    for unit in ("kB", "MB", "GB"):
        amount /= _STEP
        if round(amount, 1) < _STEP:
            return f"{amount:.1f} {unit}"
    return f"{amount / _STEP:.1f} TB"
