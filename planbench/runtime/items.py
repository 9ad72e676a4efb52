"""How the items of a fan-out ended, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from planbench.events import Event

COLUMNS: Final = ("index", "key", "status", "bytes", "seconds", "error")
NOTED: Final = "noted_"
"""The beginning of a column of facts whose name is taken."""


def items_table(events: Iterable[Event], node_id: str) -> pd.DataFrame:
    """Give one row an item, in item order, as it ended last, with what its tool noted of it."""
    import pandas as pd  # noqa: PLC0415 - half a second that scripts without tables save

    rows: dict[int, dict[str, Any]] = {}
    noted: dict[int, dict[str, Any]] = {}
    for event in events:
        data = event.data
        if data.get("node_id") != node_id:
            continue
        match event.type:
            case ev.NODE_STARTED:  # the items that a continued run keeps are told again or stand
                stand = {i: row for i, row in rows.items() if row["status"] != "failed"}
                rows = {} if "anew" in data else stand
            case ev.ITEM_FINISHED:
                status = "reused" if "reused" in data else "ok"
                rows[data["index"]] = _row(data, status, data["bytes"])
            case ev.ITEM_FAILED:
                rows[data["index"]] = _row(data, "failed", 0)
            case ev.NODE_PROGRESS if "note" in data and "index" in data:
                noted[data["index"]] = {**noted.get(data["index"], {}), **data["note"]}
    names = dict.fromkeys(name for facts in noted.values() for name in facts)
    columns = {name: f"{NOTED}{name}" if name in COLUMNS else name for name in names}
    for index, row in rows.items():
        facts = noted.get(index, {})
        row.update({column: facts.get(name) for name, column in columns.items()})
    ordered = [rows[index] for index in sorted(rows)]
    return pd.DataFrame(ordered, columns=[*COLUMNS, *columns.values()])


def _row(data: dict[str, Any], status: str, nbytes: int) -> dict[str, Any]:
    return {
        "index": data["index"],
        "key": data.get("key"),
        "status": status,
        "bytes": nbytes,
        "seconds": data.get("seconds"),
        "error": data.get("error"),
    }
