"""The tables that ``%plan`` answers with."""

from __future__ import annotations

from typing import Final

import pandas as pd

MAX_ROWS: Final = 60
MAX_TEXT: Final = 100


class Listing(pd.DataFrame):
    """A DataFrame whose text form shows every column, for terminals, screen readers and agents."""

    def __repr__(self) -> str:
        return self.to_string(max_rows=MAX_ROWS, max_colwidth=MAX_TEXT)
