"""Time zones by name: those that can be made again exactly, and no others."""

from __future__ import annotations

import re
import sys
from datetime import timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from planbench.memory.refusals import Refused
from planbench.plan.source import shown

_KEY: Final = re.compile(r"[A-Za-z0-9_+\-]{1,64}(?:/[A-Za-z0-9_+\-]{1,64}){0,4}")


def write_zone(zone: Any) -> list[Any] | None:
    """Give what ``read_zone`` makes the zone of; None is no zone.

    Raises Refused for a zone without a name, or of a library that is not known here.
    """
    if zone is None:
        return None
    if type(zone) is timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]  # typeshed leaves it out
        written = ["offset", offset.days, offset.seconds, offset.microseconds, *name]
    elif type(zone) is ZoneInfo:
        key: Any = zone.key
        if key is None or not _KEY.fullmatch(key):
            raise Refused("a time zone without a name cannot be made again")
        written = ["zone", key]
    elif type(zone).__module__.partition(".")[0] == "pytz":
        written = _write_pytz(zone)
    else:
        raise Refused(
            f"a time zone of the kind {type(zone).__module__}.{type(zone).__qualname__} is not kept",
            "use zoneinfo.ZoneInfo or datetime.timezone",
        )
    try:
        same = type(read_zone(written)) is type(zone)
    except (LookupError, ValueError, OSError):
        same = False
    if not same:
        raise Refused(f"the time zone {shown(str(zone))} cannot be made again by its name")
    return written


def read_zone(written: Any) -> Any:
    """Make a zone again; raises what its library does for one that does not exist."""
    if written is None:
        return None
    kind, *rest = written
    if kind == "offset":
        days, seconds, microseconds, *name = rest
        offset = timedelta(days=days, seconds=seconds, microseconds=microseconds)
        return timezone(offset, *name)
    if kind == "zone":
        (key,) = rest
        if not _KEY.fullmatch(key):
            raise ValueError("not the name of a time zone")
        return ZoneInfo(key)
    return _read_pytz(kind, *rest)


def _write_pytz(zone: Any) -> list[Any]:
    pytz: Any = sys.modules["pytz"]
    minutes = getattr(zone, "_minutes", None)
    if minutes is not None and pytz.FixedOffset(minutes) is zone:
        return ["pytz-offset", minutes]
    # A localized time holds one of the zone's variants, which pytz finds by the time itself.
    name = getattr(zone, "zone", None)
    if name is None or type(pytz.timezone(name)) is not type(zone):
        raise Refused("a pytz zone without a name cannot be made again")
    return ["pytz", name]


def _read_pytz(kind: str, value: Any) -> Any:
    if kind != "pytz-offset" and not (kind == "pytz" and _KEY.fullmatch(value)):
        raise ValueError("not a kind of time zone")
    import pytz  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415 - of pandas 2, and not with pandas 3

    return pytz.FixedOffset(value) if kind == "pytz-offset" else pytz.timezone(value)
