"""The catalog of a working memory: a row for each entry, as a DataFrame and as HTML."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from planbench.memory.sizes import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from planbench.memory.entries import Entry, EntryInfo

SHOWN_ROWS: Final = 50

_DTYPES: Final = {
    "key": "object",
    "node": "object",
    "tool": "object",
    "type": "object",
    "rows": "Int64",
    "columns": "Int64",
    "bytes": "int64",
    "version": "int64",
    "created": "datetime64[us, UTC]",
}
_SHOWN_COLUMNS: Final = tuple(name for name in _DTYPES if name != "created")


def catalog_frame(entries: Sequence[Entry]) -> pd.DataFrame:
    """Give the entries as a table; the columns and their types are the same for none."""
    import pandas as pd  # noqa: PLC0415 - planbench is imported without pandas

    rows = [
        (i.key, i.node, i.tool, i.entry_type, i.rows, i.columns, i.nbytes, i.version, i.created)
        for i in (entry.info() for entry in entries)
    ]
    values = zip(*rows, strict=True) if rows else ((),) * len(_DTYPES)
    return pd.DataFrame(
        {
            name: pd.Series(list(column), dtype=dtype)
            for (name, dtype), column in zip(_DTYPES.items(), values, strict=True)
        }
    )


def catalog_html(caption: str, entries: Sequence[Entry]) -> str:
    """Give the first entries as an HTML table; every text in it is escaped."""
    head = "".join(f"<th>{name}</th>" for name in _SHOWN_COLUMNS)
    body = "".join(_html_row(entry.info()) for entry in entries[:SHOWN_ROWS])
    more = len(entries) - SHOWN_ROWS
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return (
        f"<p>{html.escape(caption)}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
    )


def _html_row(info: EntryInfo) -> str:
    cells = (
        info.key,
        info.node,
        info.tool,
        info.entry_type,
        info.rows,
        info.columns,
        format_bytes(info.nbytes),
        info.version,
    )
    shown = "".join(f"<td>{'' if c is None else html.escape(str(c))}</td>" for c in cells)
    return f"<tr>{shown}</tr>"
